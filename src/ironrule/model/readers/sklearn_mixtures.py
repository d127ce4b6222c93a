"""Models over the probabilities of other models, with two classes: soft votes of different kinds, and stacking.

The probability of a forest is a sum of trees; that of a linear or boosted model is the logistic function of one. So a
weighted mean of probabilities, or a linear model of them, is a sum of trees and columns, some behind links. A decision
tree over probabilities is a list of ways to the desired outcome: one for every desired leaf, in which every probability
on its path is on its side of a threshold.

A reader gives decisions, not probabilities. So a member's normal form is taken at several thresholds: if its offset
moves with the log odds of the threshold, its sum is a score behind a logistic function, whose slope follows. That is
checked against the probabilities that the member gives for random rows. The rounding of a probability: what the score
may be off, times a quarter of the slope, since a logistic function is nowhere steeper; and that of the function itself.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.model.decision import list_labels
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Reader, Term, Tree, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods, require_same_labels
from ironrule.model.readers.sklearn_additive import IdentityShape, ScaledShape
from ironrule.model.readers.sklearn_trees import SklearnThresholdSplit, is_tree_model, score_member
from ironrule.model.readers.tree_scores import LINK_ERROR, bound_rounding, build_tree_sum

DOUBLE_EPSILON, SINGLE_EPSILON = 2.0**-52, 2.0**-23
PROBE_ROWS = 256
MAX_LEAVES = 64
QUARTER_LOGIT = math.log(3.0)  # the log odds of 0.75
LARGEST_COLUMN = 1e30  # beyond which single precision may overflow


def read_mixture(
    estimator: Any, desired: tuple[Any, ...], threshold: float | None, read_base: Reader
) -> TreeSum | None:
    """The normal form of a soft vote over different kinds of models, or of a stacking; None for anything else."""
    name = get_library_class_name(estimator, "sklearn")
    if name == "StackingClassifier":
        return _read_stacking(estimator, desired, threshold, read_base)
    members = getattr(estimator, "estimators_", None)
    if name != "VotingClassifier" or estimator.voting != "soft" or members is None or all(map(is_tree_model, members)):
        return None  # votes of trees alone are read with all other trees
    return _read_soft_vote(estimator, desired, threshold, read_base)


def _read_soft_vote(estimator: Any, desired: tuple[Any, ...], threshold: float | None, read_base: Reader) -> TreeSum:
    require_own_methods(estimator)
    require_same_labels(estimator.classes_, estimator.le_.classes_)
    place = _find_place(list_labels(estimator.classes_), desired)
    members, own_weights = estimator.estimators_, estimator._weights_not_none
    weights = [1.0] * len(members) if own_weights is None else [float(weight) for weight in own_weights]
    total = math.fsum(weights)
    require_readable(min(weights) >= 0 and total > 0, "votes must have positive weights")
    level = 0.5 if threshold is None else float(threshold)
    parts = [
        scale_margin(read_probability(member, place, read_base), weight / total)
        for member, weight in zip(members, weights, strict=True)
        if weight > 0
    ]
    # the mean's own rounding; for the label, both means are rounded, and they add up to one only so far
    return TreeSum(((add_margins(parts, -level, 2 * LINK_ERROR + bound_rounding(len(parts) + 8, 2 + abs(level))),),))


def _find_place(labels: list[Any], desired: tuple[Any, ...]) -> int:
    require_readable(len(labels) == 2, "probabilities of different models are read together only for two classes")
    return labels.index(desired[0])


def read_probability(member: Any, place: int, read_base: Reader) -> Margin:
    """The probability of one of a member's two classes as a sum, with its error."""
    inner = member.estimator if get_library_class_name(member, "sklearn") == "FrozenEstimator" else member
    kind = type(inner).__name__
    require_readable(
        get_library_class_name(inner, "sklearn") != "Pipeline",
        "a member has a preprocessing of its own; put the ensemble at the end of one Pipeline instead",
    )
    labels = list_labels(getattr(inner, "classes_", ()))
    require_readable(
        len(labels) == 2 and hasattr(inner, "predict_proba"), f"its member {kind} has no two probabilities"
    )
    if is_tree_model(inner):
        scores = score_member(inner, 2)
        form = build_tree_sum(scores, [[(np.eye(2)[place], 0.0, scores.error + bound_rounding(8, scores.size + 1.0))]])
        require_readable(len(form.alternatives) == 1, f"the probability of its member {kind} is a vote")
        return _check_probability(form.alternatives[0][0], inner, place)
    forms = [read_base(inner, (labels[place],), level) for level in (0.25, 0.5, 0.75)]
    low, middle, high = (_get_single_margin(form, kind) for form in forms)
    stretch = (low.offset - high.offset) / (2 * QUARTER_LOGIT)
    require_readable(
        math.isfinite(stretch) and stretch > 0, f"the probability of its member {kind} has no single score"
    )
    epsilon = _find_epsilon(inner)
    slope = 1.0 / stretch
    trees = tuple(tree for group in middle.groups for tree in group.trees)
    terms = tuple(term for group in middle.groups for term in group.terms)
    group = LinkedGroup(trees, Link("logistic", 1.0, slope, slope * middle.offset), terms)
    # x logistic'(x) is below 1/4 for all x, so a slope that is off by a share moves it by a quarter of that at the most
    unsure = 8 * DOUBLE_EPSILON * (1.0 + (abs(low.offset) + abs(high.offset)) / (2 * QUARTER_LOGIT * stretch))
    score_error = middle.error + (middle.relative_error + 8 * DOUBLE_EPSILON) * abs(middle.offset)
    error = slope / 4 * score_error + unsure + max(2 * LINK_ERROR, 32 * epsilon)
    return _check_probability(Margin(0.0, (group,), error, slope / 4 * middle.relative_error), inner, place)


def _get_single_margin(form: TreeSum | None, kind: str) -> Margin:
    if form is None:
        raise Unreadable(
            f"its member {kind} is not a sum of trees or of columns; leave that member out to have it read"
        )
    single = len(form.alternatives) == 1 and len(form.alternatives[0]) == 1
    margin = form.alternatives[0][0]
    require_readable(
        single and all(group.link == Link() for group in margin.groups),
        f"the probability of its member {kind} has no single score",
    )
    return margin


def _find_epsilon(member: Any) -> float:
    """The epsilon of a member's probabilities, at their least precise."""
    held = [getattr(member, name, None) for name in ("coef_", "theta_")]
    own = type(member).__module__.startswith("sklearn.")
    return DOUBLE_EPSILON if own and all(one is None or one.dtype == np.float64 for one in held) else SINGLE_EPSILON


def _check_probability(margin: Margin, member: Any, place: int) -> Margin:
    """The margin; raises Unreadable unless it is the member's own probability on random rows."""
    rng = np.random.default_rng(0)
    shape = (PROBE_ROWS, int(member.n_features_in_))
    probes: AnyArray = (rng.normal(size=shape) * 10.0 ** rng.integers(-1, 3, size=shape)).astype(np.float32)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the probes have no names of columns, which a member may miss
            own = np.asarray(member.predict_proba(probes)[:, place], dtype=np.float64)
        ours = margin.evaluate(probes)
    except Exception as error:  # whatever the member raises on numbers that it does not know
        reason = f"the probabilities of its member {type(member).__name__} cannot be checked: {error}"
        raise Unreadable(reason) from error
    if not (np.abs(own - ours) <= margin.bound_error(probes) + 1e-5).all():
        raise Unreadable(f"the probability of its member {type(member).__name__} is not a function of one sum")
    return margin


def scale_margin(margin: Margin, factor: float) -> Margin:
    """The margin times a positive factor; products are rounded, so its error grows by that."""
    groups = []
    size = abs(margin.offset)
    for group in margin.groups:
        if group.link.kind == "identity":
            trees = tuple(replace(tree, value=factor * tree.value) for tree in group.trees)
            terms = tuple(Term(term.column, _scale_contribution(term, factor)) for term in group.terms)
            groups.append(replace(group, trees=trees, terms=terms, rounding_error=factor * group.rounding_error))
            size += sum(float(np.abs(tree.value).max()) for tree in group.trees)
        else:
            groups.append(replace(group, link=replace(group.link, scale=factor * group.link.scale)))
            size += group.link.scale
    # identity groups have become larger by the factor themselves, and with them what a relative error means
    relative = (margin.relative_error + 4 * DOUBLE_EPSILON) * max(factor, 1.0)
    error = factor * (margin.error + margin.relative_error * abs(margin.offset) + 4 * DOUBLE_EPSILON * size)
    return Margin(factor * margin.offset, tuple(groups), error, relative)


def _scale_contribution(term: Term, factor: float) -> ScaledShape:
    own = term.contribution
    if not isinstance(own, ScaledShape):
        raise Unreadable(f"what column {term.column} adds to a member's probability cannot be weighed")
    return ScaledShape(factor * own.factor, own.shape, factor * own.limit)


def add_margins(parts: list[Margin], constant: float, error: float) -> Margin:
    """The sum of margins and a constant."""
    groups = tuple(group for part in parts for group in part.groups)
    offset = math.fsum([constant, *(part.offset for part in parts)])
    # each part's relative error of its own offset is added as it is: offsets may cancel
    errors = [part.error + part.relative_error * abs(part.offset) for part in parts]
    relative = max((part.relative_error for part in parts), default=0.0)
    return Margin(offset, groups, math.fsum([error, *errors]) + 4 * DOUBLE_EPSILON * abs(constant), relative)


def _read_stacking(estimator: Any, desired: tuple[Any, ...], threshold: float | None, read_base: Reader) -> TreeSum:
    require_own_methods(estimator)
    require_readable(hasattr(estimator, "final_estimator_"), "the StackingClassifier must be fitted first")
    labels = list_labels(estimator.classes_)
    place = _find_place(labels, desired)
    require_same_labels(estimator.classes_, estimator._label_encoder.classes_)
    methods = set(estimator.stack_method_)
    require_readable(
        methods == {"predict_proba"},
        f"a stacking is read over probabilities, and this one is over {', '.join(sorted(methods))}; fit it with "
        f"stack_method='predict_proba'",
    )
    columns = [read_probability(member, 1, read_base) for member in estimator.estimators_]
    if estimator.passthrough:
        columns += [_read_column(column) for column in range(int(estimator.n_features_in_))]
    final = estimator.final_estimator_
    form = read_base(final, (list_labels(final.classes_)[place],), threshold)
    kind = type(final).__name__
    if form is None or len(form.alternatives) != 1 or len(form.alternatives[0]) != 1:
        raise Unreadable(_describe_final(kind))
    margin = form.alternatives[0][0]
    parts = [(group.link == Link(), group.trees, group.terms) for group in margin.groups]
    if len(parts) == 1 and parts[0][0] and not parts[0][1]:
        return TreeSum(((_substitute_terms(margin, columns, kind),),))
    if len(parts) == 1 and parts[0][0] and len(parts[0][1]) == 1 and not parts[0][2] and margin.offset == 0.0:
        return TreeSum(_substitute_splits(parts[0][1][0], columns, kind))
    raise Unreadable(_describe_final(kind))


def _describe_final(kind: str) -> str:
    return (
        f"a stacking is read under a linear model or a single decision tree, and the final estimator here is a {kind}; "
        f"fit it with one of these, or let the black-box search serve it"
    )


def _read_column(column: int) -> Margin:
    """A column of the data that the final estimator sees beside the probabilities."""
    terms = (Term(column, ScaledShape(1.0, IdentityShape(), LARGEST_COLUMN)),)
    return Margin(0.0, (LinkedGroup((), terms=terms),), 0.0, SINGLE_EPSILON)


def _substitute_terms(margin: Margin, columns: list[Margin], kind: str) -> Margin:
    """A linear margin with the members' probabilities in the place of its columns."""
    parts, sizes = [], 0.0
    for term in margin.groups[0].terms:
        own = term.contribution
        if not (isinstance(own, ScaledShape) and isinstance(own.shape, IdentityShape)):
            raise Unreadable(_describe_final(kind))
        column = columns[term.column] if own.factor > 0 else columns[term.column].negate()
        parts.append(scale_margin(column, abs(own.factor)))
        sizes += abs(own.factor)  # the largest that the term can be, if it is of a probability
    error = margin.error + margin.relative_error * (abs(margin.offset) + 2 * sizes)
    whole = add_margins(parts, margin.offset, error)
    # columns of the data are not bounded by 1: their sizes are counted with the margin that they have become part of
    return replace(whole, relative_error=whole.relative_error + 2 * margin.relative_error)


def _substitute_splits(tree: Tree, columns: list[Margin], kind: str) -> tuple[tuple[Margin, ...], ...]:
    """An alternative for every desired leaf of a tree: every split on its path goes its way."""
    wanted = np.flatnonzero((tree.left < 0) & (tree.value > 0))
    require_readable(
        0 < len(wanted) <= MAX_LEAVES and len(tree.left) > 1,
        f"the final estimator has {len(wanted)} desired leaves, and trees of 1 to {MAX_LEAVES} are read",
    )
    parents = {int(child): (node, side) for side in (0, 1) for node, child in enumerate((tree.left, tree.right)[side])}
    alternatives = []
    for leaf in wanted.tolist():
        path, node = [], leaf
        while node != 0:
            node, side = parents[node]
            split = tree.splits[node]
            if not isinstance(split, SklearnThresholdSplit):
                raise Unreadable(_describe_final(kind))
            column = columns[split.column]
            # the tree rounds what it compares to single precision
            cut = add_margins([column], -split.threshold, 2 * SINGLE_EPSILON * (1.0 + abs(split.threshold)))
            path.append(cut.negate() if side == 0 else cut)
        alternatives.append(tuple(path))
    return tuple(alternatives)

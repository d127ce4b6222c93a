"""ONNX models whose last step is an ensemble of trees or a linear model (``ai.onnx.ml``), as onnxruntime runs them.

Trees of version 5 of ``ai.onnx.ml`` are written as those of version 3 first (:mod:`.onnx_tree_ensemble`).

- **Trees.** A node compares a number with its threshold (``BRANCH_LEQ`` and the like), in the precision of the input;
  a missing one goes to the true branch where ``missing_value_tracks_true`` says so or where the comparison is
  ``BRANCH_NEQ``. Leaves add weights to scores.
- **Classes.** With weights for one class alone, of two, the second class is chosen where the score is above one half if
  no weight is negative, and above 0 otherwise: onnxruntime's rule. With three and more the first of the largest scores
  wins. Two classes with weights for both are left to be asked: onnxruntime does not compare their scores.
- **Rounding.** Scores are sums of single precision (double for inputs in double precision) in an order that depends on
  how many rows come at once. So the bound is that for any order: n numbers whose sizes add up to S err by less than
  (n + 1) u S. Logistic functions and softmax are taken to be right to within 64 units of rounding of the number 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, IntpArray
from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF
from ironrule.model.normal_form.splits import ThresholdSplits
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import (
    IDENTITY_RESPONSE,
    LOGISTIC_RESPONSE,
    BoostedScore,
    order_parents_first,
    read_largest_score,
    read_softmax_threshold,
    read_threshold,
)
from ironrule.model.readers.file_formats.onnx_tree_ensemble import flatten_tree_ensemble
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.sklearn_additive import (
    AdditiveScore,
    IdentityShape,
    ScoreThreshold,
    build_margin,
    find_logit_threshold,
)
from ironrule.model.wrappers.onnx_models import OnnxLastStep, OnnxModel

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
ONE_WAY_MODES = MODES[:4]  # whose answer changes once as numbers rise
LEAF = "LEAF"
PROBABILITY_ERROR = 64 * SINGLE_ROUNDOFF


@dataclass(frozen=True, slots=True)
class OnnxSplit:
    """A comparison with a threshold; ``missing_left`` is where a missing number goes."""

    column: int
    threshold: float
    mode: int
    missing_left: bool
    single: bool

    @property
    def turns_once(self) -> bool:
        """Whether its answer changes at one number at the most."""
        return MODES[self.mode] in ONE_WAY_MODES

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values go to the true branch."""
        with np.errstate(over="ignore"):
            numbers = np.asarray(values).astype(np.float32 if self.single else np.float64).astype(np.float64)
        compare = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)[self.mode]
        return np.where(np.isnan(numbers), self.missing_left, compare(numbers, self.threshold))


def make_onnx_split(column: int, threshold: float, kind: int) -> TreeSplit:
    """The split of a tree, of a kind with its mode and two flags."""
    return OnnxSplit(column, threshold, kind >> 2, bool(kind & 2), bool(kind & 1))


def read_onnx_model(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of an OnnxModel; None for anything else."""
    if not isinstance(estimator, OnnxModel):
        return None
    require_own_methods(estimator)
    step = estimator.last_step
    if step is None:
        raise Unreadable("its graph does not end in an ensemble of trees or a linear model whose answer is handed on")
    require_readable(estimator.preparation is None, "its graph prepares columns, and it stands inside another model")
    single = estimator.inputs[0].dtype == np.dtype(np.float32)
    if step.op == "TreeEnsemble":
        attributes = flatten_tree_ensemble(step.attributes, single)
        step = replace(step, op="TreeEnsembleRegressor", attributes=attributes)
    if step.labels is not None:
        return _read_largest_number(step, list_labels(estimator.classes_), desired, threshold, single)
    if step.op.endswith("Regressor"):
        return _read_regression(step, desired, threshold, single)
    labels = list_labels(estimator.classes_)
    listed = (values for name, values in step.attributes.items() if name.startswith("classlabels_"))
    own: list[Any] = next((values for values in listed if values), [])
    require_readable(list(own) == labels, "the classes given are not those of the model's last step")
    wanted, others = split_classes(labels, desired)
    require_readable(bool(wanted and others), "some class must be desired and some undesired")
    transform = step.attributes.get("post_transform", "NONE")
    has_probabilities = transform in ("NONE", "LOGISTIC", "SOFTMAX")
    require_readable(threshold is None or has_probabilities, f"its probabilities go through {transform}")
    if step.op == "LinearClassifier":
        return _read_linear_classifier(step, wanted, others, threshold)
    return _read_tree_classifier(step, len(labels), wanted, threshold, single)


def _read_regression(step: OnnxLastStep, desired: tuple[Any, ...], threshold: float | None, single: bool) -> TreeSum:
    if threshold is None or desired:
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    transform = step.attributes.get("post_transform", "NONE")
    require_readable(transform == "NONE", f"its prediction goes through {transform}")
    if step.op == "LinearRegressor":
        scores = _read_linear_scores(step, int(step.attributes.get("targets", 1)))
        require_readable(len(scores) == 1, f"the regression predicts {len(scores)} numbers at once")
        cut = ScoreThreshold(threshold, 4 * scores[0].epsilon * abs(threshold))
        return TreeSum(((build_margin(scores, cut),),))
    require_readable(int(step.attributes.get("n_targets", 1)) == 1, "it predicts several numbers at once")
    how = step.attributes.get("aggregate_function", "SUM")
    require_readable(how in ("SUM", "AVERAGE"), f"its trees are put together by {how}")
    ensemble = read_ensemble(step, "target", 1, single)
    bases = ensemble.bases
    require_readable(len(bases) < 2, "it has several base values for one number")
    factor = 1.0 / ensemble.count if how == "AVERAGE" else 1.0
    score = ensemble.sum_scores(0, bases[0] if bases else 0.0, factor)
    return read_threshold(score, IDENTITY_RESPONSE, float(threshold), 4 * SINGLE_ROUNDOFF)


def _read_largest_number(
    step: OnnxLastStep, labels: list[Any], desired: tuple[Any, ...], threshold: float | None, single: bool
) -> TreeSum:
    """The class of the largest number that an ensemble gives, the first in a tie."""
    wanted, others = split_classes(labels, desired)
    require_readable(list(step.labels or ()) == labels, "the classes given are not those of the model's last step")
    require_readable(bool(wanted and others), "some class must be desired and some undesired")
    ensemble, transform = read_ensemble(step, "target", len(labels), single), step.attributes["post_transform"]
    require_readable(step.attributes["aggregate_function"] == "SUM", "its trees are not added up")
    require_readable(transform in ("NONE", "SOFTMAX"), f"its scores go through {transform}")
    require_readable(ensemble.scores_every_class, "a class may be left without a score")
    scores = [ensemble.sum_scores(place, 0.0) for place in range(len(labels))]
    if (
        threshold is None
    ):  # near 1 / n or above, a softmax tells scores apart that are further from each other than this
        return read_largest_score(scores, wanted, 0.0 if transform == "NONE" else len(labels) * PROBABILITY_ERROR)
    if transform == "SOFTMAX":
        return read_softmax_threshold(scores, wanted, float(threshold), 4 * SINGLE_ROUNDOFF)
    return _read_share(scores, wanted, float(threshold))


def _read_share(scores: Sequence[BoostedScore], wanted: Sequence[int], threshold: float) -> TreeSum:
    """Desired where the scores of the wanted classes, which are probabilities, add up to more than the threshold."""
    total = BoostedScore(
        sum(scores[place].offset for place in wanted),
        tuple(tree for place in wanted for tree in scores[place].trees),
        sum(scores[place].error for place in wanted),
        sum(scores[place].size_bound for place in wanted),
    )
    return read_threshold(total, IDENTITY_RESPONSE, threshold, 8 * len(scores) * DOUBLE_ROUNDOFF)


def _read_tree_classifier(
    step: OnnxLastStep, classes: int, wanted: Sequence[int], threshold: float | None, single: bool
) -> TreeSum:
    ensemble = read_ensemble(step, "class", classes, single)
    transform, bases = step.attributes.get("post_transform", "NONE"), ensemble.bases
    if classes == 2:
        require_readable(
            ensemble.weighted_classes == {0} and len(bases) < 2,
            "it has weights or base values for both of two classes, which onnxruntime does not compare",
        )
        return _read_two_classes(ensemble, transform, bases, wanted, threshold)
    require_readable(
        len(bases) == classes or (not bases and ensemble.scores_every_class),
        "a class may be left without a score",
    )
    scores = [ensemble.sum_scores(place, bases[place] if bases else 0.0) for place in range(classes)]
    if threshold is None:
        return read_largest_score(scores, wanted, 0.0)
    if transform == "SOFTMAX":
        return read_softmax_threshold(scores, wanted, float(threshold), 4 * SINGLE_ROUNDOFF)
    require_readable(transform == "NONE" and not step.normalized, f"thresholds on {transform} are not read here")
    return _read_share(scores, wanted, float(threshold))


def _read_two_classes(
    ensemble: Ensemble, transform: str, bases: Sequence[float], wanted: Sequence[int], threshold: float | None
) -> TreeSum:
    """The second class by the one score; its probability is the score itself, or the logistic function of it."""
    score, first = ensemble.sum_scores(0, bases[0] if bases else 0.0), list(wanted) == [0]
    if threshold is None:
        level = 0.5 if ensemble.is_positive else 0.0
        form = read_threshold(score, IDENTITY_RESPONSE, level, 0.0)
        return form.negate() if first else form
    if transform == "LOGISTIC":
        require_readable(threshold <= 0 or threshold >= PROBABILITY_ERROR, "a threshold too near 0 for its precision")
        noise = PROBABILITY_ERROR * max(1.0, 1.0 / threshold) if threshold > 0 else PROBABILITY_ERROR
        return read_threshold(score, LOGISTIC_RESPONSE, float(threshold), noise, first=first)
    require_readable(transform == "NONE" and ensemble.is_positive, "its scores are no probabilities")
    level = 1.0 - threshold if first else float(threshold)
    form = read_threshold(replace(score, error=score.error + 4 * SINGLE_ROUNDOFF), IDENTITY_RESPONSE, level, 0.0)
    return form.negate() if first else form


@dataclass(frozen=True, slots=True, eq=False)
class EnsembleTree:
    """A tree with a row of weights per node, one column per class, and which of them are given."""

    splits: ThresholdSplits
    left: AnyArray
    right: AnyArray
    weights: Float64Array
    given: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """The trees of a last step. ``roundoff`` is that of the sums; the classes that have weights are listed."""

    trees: tuple[EnsembleTree, ...]
    bases: tuple[float, ...]
    roundoff: float
    is_positive: bool
    weighted_classes: frozenset[int]

    @property
    def count(self) -> int:
        """How many trees there are."""
        return len(self.trees)

    @property
    def scores_every_class(self) -> bool:
        """Whether each class gets a weight at every leaf of some tree, so that no row leaves it without a score."""
        always = [tree.given[tree.left < 0].all(axis=0) for tree in self.trees]
        return bool(np.any(always, axis=0).all())

    def sum_scores(self, place: int, base: float, factor: float = 1.0) -> BoostedScore:
        """The score of one class: its base and its weights, added in any order, times a factor."""
        chosen = [tree for tree in self.trees if tree.weights[:, place].any()]
        trees = tuple(Tree(t.splits, t.left, t.right, factor * t.weights[:, place]) for t in chosen)
        size = abs(base) + sum(float(np.abs(tree.value).max()) for tree in trees)
        terms = len(self.trees) + 4  # the base, and a factor
        error = 1.01 * terms * (self.roundoff + 2 * DOUBLE_ROUNDOFF) * size + np.finfo(np.float32).tiny
        require_readable(size < 1e30, "its scores may leave the range of single precision")
        return BoostedScore(base, trees, float(error), size + float(error))


def read_ensemble(step: OnnxLastStep, prefix: str, classes: int, single: bool) -> Ensemble:
    """The trees in a step's attributes; raises Unreadable for what onnxruntime would not take as it is written."""
    values = _read_numbers(step, "nodes_values", single)
    nodes = {name: np.array(step.attributes[f"nodes_{name}"], dtype=np.int64) for name in NODE_LISTS}
    modes = [str(mode) for mode in step.attributes["nodes_modes"]]
    unknown = [mode for mode in modes if mode not in (*MODES, LEAF)]
    require_readable(not unknown, f"a node of a tree has the mode {unknown[0] if unknown else ''}")
    count = len(modes)
    missing = np.array(step.attributes.get("nodes_missing_value_tracks_true") or [0] * count, dtype=np.int64)
    lengths = {len(values), len(missing), count, *map(len, nodes.values())}
    require_readable(lengths == {count} and count > 0, "the lists of its nodes differ in length")
    require_readable(bool(np.isfinite(values).all()), "a threshold is not a finite number")
    kinds = np.array([0 if mode == LEAF else MODES.index(mode) for mode in modes])
    to_left = (missing == 1) | (kinds == MODES.index("BRANCH_NEQ"))
    weights, given = _read_weights(step, prefix, classes, nodes, single)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(nodes["treeids"]) != 0]))
    require_readable(len(np.unique(nodes["treeids"])) == len(starts), "the nodes of its trees are mixed")
    is_leaf = np.array([mode == LEAF for mode in modes])
    trees = []
    for start, end in zip(starts, [*starts[1:], count], strict=True):
        part = slice(int(start), int(end))
        chosen = {name: each[part] for name, each in nodes.items()}
        kind = (4 * kinds + 2 * to_left + single)[part]
        own = weights[part], given[part]
        trees.append(_build_tree(chosen, is_leaf[part], values[part], kind, own))
    bases = tuple(float(base) for base in _read_numbers(step, "base_values", single))
    require_readable(bool(np.isfinite(weights).all() and np.isfinite(bases).all()), "a weight is not finite")
    return Ensemble(
        trees=tuple(trees),
        bases=bases,
        roundoff=SINGLE_ROUNDOFF,
        is_positive=bool((weights >= 0).all()),
        weighted_classes=frozenset(np.flatnonzero(given.any(axis=0)).tolist()),
    )


NODE_LISTS = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")


def _read_numbers(step: OnnxLastStep, name: str, single: bool) -> Float64Array:
    """Numbers in the precision of the sums, given as a list or as a tensor of doubles."""
    from onnx import numpy_helper

    tensor = step.attributes.get(f"{name}_as_tensor")
    if tensor is None:
        return np.array(step.attributes.get(name) or [], dtype=np.float64)
    numbers = np.asarray(numpy_helper.to_array(tensor))
    require_readable(not single or numbers.dtype == np.float32, f"its {name} are in double precision, its input is not")
    return numbers.astype(np.float64).ravel()


def _read_weights(
    step: OnnxLastStep, prefix: str, classes: int, nodes: dict[str, AnyArray], single: bool
) -> tuple[Float64Array, BoolArray]:
    """Per node a row of weights, and which of them are given."""
    places = {
        pair: row for row, pair in enumerate(zip(nodes["treeids"].tolist(), nodes["nodeids"].tolist(), strict=True))
    }
    require_readable(len(places) == len(nodes["nodeids"]), "two nodes of a tree have the same number")
    weights = np.zeros((len(places), classes))
    given = np.zeros((len(places), classes), dtype=np.bool_)
    lists = (step.attributes[f"{prefix}_{name}"] for name in ("treeids", "nodeids", "ids"))
    for tree, node, place, weight in zip(*lists, _read_numbers(step, f"{prefix}_weights", single), strict=True):
        row = places.get((tree, node))
        if row is None or not 0 <= place < classes or given[row, place]:
            raise Unreadable("a leaf has two weights for a class, or a weight is for no leaf or class")
        weights[row, place], given[row, place] = weight, True
    return weights, given


def _build_tree(
    nodes: dict[str, AnyArray],
    is_leaf: BoolArray,
    values: Float64Array,
    kinds: IntpArray,
    weights: tuple[Float64Array, BoolArray],
) -> EnsembleTree:
    """One tree, its nodes put into the order of levels."""
    place = {number: row for row, number in enumerate(nodes["nodeids"].tolist())}
    children = [
        np.array(
            [-1 if leaf else place.get(child, -2) for child, leaf in zip(nodes[side].tolist(), is_leaf, strict=True)]
        )
        for side in ("truenodeids", "falsenodeids")
    ]
    inner = np.concatenate([side[~is_leaf] for side in children])
    if (inner < 1).any() or len(np.unique(inner)) < len(inner):  # the first node listed is the root
        raise Unreadable("a tree's nodes must follow their root, each the child of one node")
    order, left, right = order_parents_first(*children)
    require_readable(len(order) == len(is_leaf), "a tree has nodes that are no child of any")
    require_readable(bool(weights[1][is_leaf].any(axis=1).all()), "a leaf has no weight")
    require_readable(not weights[1][~is_leaf].any(), "a node that is no leaf has a weight")
    columns = np.where(is_leaf, -1, nodes["featureids"])[order].astype(np.int32)
    splits = ThresholdSplits(columns, values[order], kinds[order].astype(np.int32), make_onnx_split)
    return EnsembleTree(splits, left, right, weights[0][order], weights[1][order])


def _read_linear_scores(step: OnnxLastStep, count: int) -> tuple[AdditiveScore, ...]:
    """The scores of a linear step, which onnxruntime computes in single precision whatever comes in."""
    slopes = np.array(step.attributes["coefficients"], dtype=np.float64)
    starts = np.array(step.attributes.get("intercepts") or [0.0] * count, dtype=np.float64)
    require_readable(len(starts) == count and len(slopes) % count == 0, "its coefficients are not one list per score")
    require_readable(bool(np.isfinite(slopes).all()), "a coefficient of the model is not a finite number")
    epsilon = float(np.finfo(np.float32).eps)
    return tuple(
        AdditiveScore((float(start),), tuple((float(slope), IdentityShape()) for slope in row), epsilon)
        for row, start in zip(slopes.reshape(count, -1), starts, strict=True)
    )


def _read_linear_classifier(
    step: OnnxLastStep, wanted: Sequence[int], others: Sequence[int], threshold: float | None
) -> TreeSum:
    """The first of the largest scores wins; one score of two classes decides by its sign."""
    classes, transform = len(wanted) + len(others), step.attributes.get("post_transform", "NONE")
    count = len(step.attributes.get("intercepts") or ())
    require_readable(count == classes or (count == 1 and classes == 2), f"it has {count} scores for {classes} classes")
    scores = _read_linear_scores(step, count)
    if threshold is None and count == 1:
        return TreeSum(
            ((build_margin((scores[0] if list(wanted) == [1] else scores[0].negate(),), ScoreThreshold()),),)
        )
    if threshold is None:
        margins = (
            tuple(build_margin((scores[d], scores[u].negate()), ScoreThreshold()) for u in others) for d in wanted
        )
        return TreeSum(tuple(margins))
    if classes > 2:
        raise Unreadable("a threshold on the probabilities of more than two classes is no cut of a sum")
    cut = find_logit_threshold(threshold, 2 * scores[0].epsilon)
    place = wanted[0]
    if transform == "SOFTMAX" and count == 2:
        return TreeSum(((build_margin((scores[place], scores[1 - place].negate()), cut),),))
    opposite = count == 1 or _are_opposite(scores)
    require_readable(transform == "LOGISTIC" and opposite, f"its probabilities by {transform} are no cut of a sum")
    score = scores[place] if count == 2 else scores[0] if place == 1 else scores[0].negate()
    return TreeSum(((build_margin((score,), cut),),))


def _are_opposite(scores: Sequence[AdditiveScore]) -> bool:
    """Whether the second score is the first with the other sign, so that their logistic functions add up to 1."""
    return scores[0].negate().parts == scores[1].parts and scores[0].negate().constants == scores[1].constants

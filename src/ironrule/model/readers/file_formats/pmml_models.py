"""PMML models as sums of trees: every part of a model becomes trees of tests of single columns.

- **Conditions** become tests of single columns (:mod:`.pmml_conditions`).
- **No prediction.** Where a model would give none because a value is missing, the split refuses missing values, so a
  space that holds some leaves the model unread. Where it would give none whatever the values, it is unread too.
- **Rounding.** The file is evaluated in double precision in a known order; n numbers whose sizes add up to S err by
  less than (n + 1) u S. Whole points, and fine fractions of them, add up exactly, and so do whole votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, Tree, TreeSum
from ironrule.model.pmml.fields import FieldPlan
from ironrule.model.pmml.models import (
    EnsembleModel,
    Model,
    RegressionModel,
    RegressionTable,
    RescaledModel,
    ScorecardModel,
    TreeModel,
    TreeNode,
)
from ironrule.model.pmml.predicates import (
    ComparisonPredicate,
)
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import BoostedScore, build_constant_sum, read_softmax_threshold
from ironrule.model.readers.file_formats.pmml_conditions import (
    Continue,
    Knowledge,
    PredicateCompiler,
    refuse_prediction,
)
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.sklearn_additive import IdentityShape, ScaledShape
from ironrule.model.readers.tree_scores import (
    GRID,
    LINK_ERROR,
    MAX_GRID_SUM,
    UNDERFLOW_BOUND,
    find_log_odds,
    is_on_grid,
)
from ironrule.model.wrappers.pmml_models import PmmlFinalModel

MAX_TERM_SIZE = 1e200


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """A number as a sum: its trees and terms, how many numbers are added, and a bound on all sizes of trees.

    ``exact``: all numbers are multiples of GRID and small enough to add up without rounding.
    """

    offset: float = 0.0
    trees: tuple[Tree, ...] = ()
    terms: tuple[Term, ...] = ()
    count: int = 1
    exact: bool = True

    @property
    def size(self) -> float:
        """The sizes of the offset and of all trees."""
        return abs(self.offset) + sum(float(np.abs(tree.value).max()) for tree in self.trees)

    def add(self, other: ScoreForm) -> ScoreForm:
        """The sum of both."""
        exact = self.exact and other.exact and self.size + other.size <= MAX_GRID_SUM
        count = self.count + other.count
        return ScoreForm(self.offset + other.offset, self.trees + other.trees, self.terms + other.terms, count, exact)

    def scale(self, factor: float) -> ScoreForm:
        """The number times a factor."""
        if factor == 1.0:
            return self
        trees = tuple(replace(tree, value=factor * tree.value) for tree in self.trees)
        terms = tuple(Term(term.column, _scale_shape(term.contribution, factor)) for term in self.terms)
        whole = float(factor).is_integer() and abs(factor) * self.size <= MAX_GRID_SUM
        return ScoreForm(factor * self.offset, trees, terms, self.count + 2, self.exact and whole)

    def build_margin(self, cut: float = 0.0, error: float = 0.0, wins_ties: bool = False) -> Margin:
        """The margin above a number that is known up to an error; exact numbers pass it in a tie, too, if they win."""
        if self.exact and not error and _is_exact(cut):
            return Margin(self.offset - cut + (GRID / 2 if wins_ties else -GRID / 2), _as_groups(self))
        relative = 8 * (self.count + 4) * DOUBLE_ROUNDOFF
        own = error + relative * (abs(self.offset) + abs(cut)) + UNDERFLOW_BOUND
        return Margin(self.offset - cut, _as_groups(self), own, relative)


def _as_groups(score: ScoreForm) -> tuple[LinkedGroup, ...]:
    return (LinkedGroup(score.trees, terms=score.terms),) if score.trees or score.terms else ()


def _scale_shape(contribution: Any, factor: float) -> ScaledShape:
    assert isinstance(contribution, ScaledShape)
    return ScaledShape(factor * contribution.factor, contribution.shape, contribution.limit)


@dataclass(frozen=True, slots=True)
class PowerShape:
    """A whole power of the value."""

    exponent: int

    def __call__(self, values: AnyArray) -> Float64Array:
        with np.errstate(over="ignore"):
            return np.asarray(values.astype(np.float64) ** self.exponent)


def read_pmml(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of the model of a PMML file; None for anything else."""
    if not isinstance(estimator, PmmlFinalModel):
        return None
    require_own_methods(estimator)
    reader = ModelReader(estimator.file.plan)
    model = estimator.file.model
    try:
        if not estimator.file.classes:
            if threshold is None or desired:
                raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
            return reader.read_number(model, float(threshold))
        labels = list_labels(estimator.classes_)
        wanted, others = split_classes(labels, desired)
        require_readable(bool(wanted and others), "some class must be desired and some undesired")
        return reader.read_class(model, wanted, others, threshold)
    except RecursionError:
        raise Unreadable("its conditions are nested too deep") from None


class ModelReader:
    """Reads the models of a file. ``answers`` are the numbers that models of a chain have handed on."""

    def __init__(self, plan: FieldPlan) -> None:
        self.plan = plan
        self.places = {column: place for place, column in enumerate(plan.prepared)}
        self.answers: dict[int, ScoreForm] = {}

    def read_number(self, model: Model, threshold: float) -> TreeSum:
        """Desired where a number is above the threshold."""
        outer = model
        factor, constant = 1.0, 0.0
        while isinstance(outer, EnsembleModel) and outer.method == "modelChain":
            outer = self._enter_chain(outer)
        if isinstance(outer, RescaledModel):
            factor, constant, outer = outer.factor, outer.constant, outer.model
        if isinstance(outer, RegressionModel) and outer.normalization != "none":
            require_readable((factor, constant) == (1.0, 0.0), "it rescales a number behind a link")
            return self._read_linked(outer, threshold)
        score = self._read_score(outer).scale(factor).add(ScoreForm(constant, exact=_is_exact(constant)))
        return TreeSum(((score.build_margin(threshold),),))

    def _read_linked(self, model: RegressionModel, threshold: float) -> TreeSum:
        score = self._read_table(model.tables[0])
        if model.normalization == "logit":
            cut, error = find_log_odds(threshold, 1.0)
        else:
            cut = math.log(threshold) if threshold > 0 else -math.inf
            error = LINK_ERROR * (4 + abs(cut)) if threshold > 0 else 0.0
        if math.isinf(cut):
            return build_constant_sum(cut < 0)
        return TreeSum(((score.build_margin(cut, error),),))

    def read_class(
        self, model: Model, wanted: Sequence[int], others: Sequence[int], threshold: float | None
    ) -> TreeSum:
        """Desired where a wanted class is chosen, or where their probabilities add up to more than the threshold."""
        while isinstance(model, EnsembleModel) and model.method == "modelChain":
            model = self._enter_chain(model)
        if isinstance(model, TreeModel):
            values = self._make_wanted_value(wanted, threshold is not None)
            score = self._read_tree(model, values, exact=threshold is None)
            cut, error = (0.5, 0.0) if threshold is None else (threshold, 8 * len(wanted) * DOUBLE_ROUNDOFF)
            return TreeSum(((score.build_margin(cut, error),),))
        if isinstance(model, RegressionModel):
            return self._read_regression_classes(model, wanted, others, threshold)
        assert isinstance(model, EnsembleModel)
        columns = {place: self._read_share(model, place) for place in (*wanted, *others)}
        if threshold is not None:
            total = sum(model.weights)
            score = ScoreForm(count=len(wanted))
            for place in wanted:
                score = score.add(columns[place])
            scaled = replace(score.scale(1.0 / total), exact=False)
            return TreeSum(((scaled.build_margin(threshold, 8 * len(wanted) * DOUBLE_ROUNDOFF),),))
        return TreeSum(tuple(tuple(_lead(columns[d], columns[u], d < u) for u in others) for d in wanted))

    def _enter_chain(self, model: EnsembleModel) -> Model:
        """The last model of a chain, once the numbers of those before it are known."""
        *before, last = model.segments
        for segment in before:
            if segment.answers:
                score = self._read_score(segment.model)
                self.answers |= dict.fromkeys(segment.answers, score)
        return last.model

    def _read_share(self, model: EnsembleModel, place: int) -> ScoreForm:
        """What the members of an ensemble add for one class."""
        votes = model.method.endswith("Vote")
        total = ScoreForm()
        for weight, segment in zip(model.weights, model.segments, strict=True):
            if not isinstance(segment.model, TreeModel):
                raise Unreadable(f"the member in line {segment.line} is no tree")
            share = self._read_tree(segment.model, self._make_wanted_value((place,), not votes), exact=votes)
            total = total.add(share.scale(weight))
        return total

    def _make_wanted_value(self, wanted: Sequence[int], shares: bool) -> Callable[[TreeNode], float]:
        def value(node: TreeNode) -> float:
            if shares:
                assert node.shares is not None
                return float(sum(node.shares[list(wanted)]))
            return float(int(node.score) in wanted)

        return value

    def _read_regression_classes(
        self, model: RegressionModel, wanted: Sequence[int], others: Sequence[int], threshold: float | None
    ) -> TreeSum:
        tables = {table.target: table for table in model.tables}
        if model.normalization == "logit":
            first = model.tables[0].target
            score, sign = self._read_table(model.tables[0]), 1.0 if list(wanted) == [first] else -1.0
            score = score.scale(sign)
            if threshold is not None:
                return _read_log_odds(score, threshold)
            return TreeSum(((score.build_margin(wins_ties=wanted[0] < others[0]),),))
        missing = [place for place in (*wanted, *others) if place not in tables]
        require_readable(not missing, "some class has no table")
        scores = {place: self._read_table(table) for place, table in tables.items()}
        if threshold is None:
            return TreeSum(tuple(tuple(_lead(scores[d], scores[u], d < u) for u in others) for d in wanted))
        if len(wanted) == len(others) == 1:
            return _read_log_odds(scores[wanted[0]].add(scores[others[0]].scale(-1.0)), threshold)
        if any(score.terms for score in scores.values()):
            raise Unreadable("a threshold on the probabilities of more than two classes is no cut of a sum")
        boosted = [_to_boosted(scores[place]) for place in sorted(scores)]
        return read_softmax_threshold(boosted, wanted, threshold, LINK_ERROR)

    def _read_score(self, model: Model) -> ScoreForm:
        """A number as a sum."""
        if isinstance(model, RescaledModel):
            scaled = self._read_score(model.model).scale(model.factor)
            return scaled.add(ScoreForm(model.constant, exact=_is_exact(model.constant)))
        if isinstance(model, TreeModel):
            require_readable(not model.classes, "a chain goes through classes")
            return self._read_tree(model, lambda node: node.score, exact=True)
        if isinstance(model, RegressionModel):
            require_readable(model.normalization == "none" and not model.classes, "a number goes through two links")
            return self._read_table(model.tables[0])
        if isinstance(model, ScorecardModel):
            return self._read_scorecard(model)
        if model.method == "modelChain":
            return self._read_score(self._enter_chain(model))
        require_readable(not model.classes, "a chain goes through classes")
        total = ScoreForm()
        for weight, segment in zip(model.weights, model.segments, strict=True):
            total = total.add(self._read_score(segment.model).scale(weight))
        if model.method == "sum":
            return total
        return replace(total.scale(1.0 / sum(model.weights)), exact=False)

    def _read_table(self, table: RegressionTable) -> ScoreForm:
        score = ScoreForm(table.intercept, exact=_is_exact(table.intercept))
        for one in table.numeric:
            if one.column in self.answers:
                require_readable(one.exponent == 1, "it takes a power of another model's answer")
                score = score.add(self.answers[one.column].scale(one.coefficient))
                continue
            require_readable(one.column in self.places, "it takes the answer of a model that is no number")
            shape = IdentityShape() if one.exponent == 1 else PowerShape(one.exponent)
            term = Term(self.places[one.column], ScaledShape(one.coefficient, shape, MAX_TERM_SIZE))
            score = score.add(ScoreForm(0.0, (), (term,), 4 + one.exponent, False))
        for each in table.categorical:
            compiler = PredicateCompiler(self.plan, self.places)
            compiler.ask(
                ComparisonPredicate(each.column, "equal", each.value),
                compiler.start(),
                lambda known: compiler.add_leaf(each.coefficient),  # noqa: ARG005, B023
                add_nothing := (lambda known: compiler.add_leaf(0.0)),  # noqa: ARG005, B023
                add_nothing,
            )
            score = score.add(_build_score(compiler))
        return score

    def _read_scorecard(self, model: ScorecardModel) -> ScoreForm:
        score = ScoreForm(model.initial, exact=_is_exact(model.initial))
        for one in model.characteristics:
            compiler = PredicateCompiler(self.plan, self.places)

            def ask(place: int, known: Knowledge, one: Any = one, compiler: PredicateCompiler = compiler) -> int:
                if place == len(one.attributes):
                    return refuse_prediction(known)
                attribute = one.attributes[place]

                def go_on(later: Knowledge) -> int:
                    return ask(place + 1, later)

                return compiler.ask(
                    attribute.predicate,
                    known,
                    lambda _: compiler.add_leaf(attribute.points),
                    go_on,
                    go_on,
                )

            ask(0, compiler.start())
            score = score.add(_build_score(compiler))
        return score

    def _read_tree(self, model: TreeModel, value: Callable[[TreeNode], float], exact: bool) -> ScoreForm:
        """One tree; ``value`` is what a node's answer adds."""
        compiler = PredicateCompiler(self.plan, self.places)

        def answer(node: TreeNode) -> Continue:
            def add(known: Knowledge) -> int:
                return compiler.add_leaf(value(node)) if node.has_score else refuse_prediction(known)

            return add

        def enter(node: TreeNode, known: Knowledge) -> int:
            return ask_child(node, 0, known) if node.children else answer(node)(known)

        def ask_child(node: TreeNode, place: int, known: Knowledge) -> int:
            if place == len(node.children):
                return answer(node)(known) if model.last_without_child else refuse_prediction(known)

            def go_on(later: Knowledge) -> int:
                return ask_child(node, place + 1, later)

            unknown: Continue | str = go_on
            if model.missing == "lastPrediction":
                unknown = answer(node)
            elif model.missing == "defaultChild" and node.default is not None:
                child = node.children[node.default]
                unknown = lambda later: enter(child, later)  # noqa: E731
            elif model.missing != "none":
                unknown = "it gives no prediction where a value is missing"
            chosen = node.children[place]
            return compiler.ask(chosen.predicate, known, lambda later: enter(chosen, later), go_on, unknown)

        compiler.ask(
            model.root.predicate,
            compiler.start(),
            lambda known: enter(model.root, known),
            refuse_prediction,
            refuse_prediction,
        )
        score = _build_score(compiler)
        return score if exact else replace(score, exact=False)


def _build_score(compiler: PredicateCompiler) -> ScoreForm:
    tree = compiler.builder.build()
    value = np.where(tree.left < 0, tree.value, 0.0)
    return ScoreForm(
        0.0, (replace(tree, value=value),), exact=is_on_grid(value) and float(np.abs(value).max()) <= MAX_GRID_SUM
    )


def _is_exact(number: float) -> bool:
    return is_on_grid(np.array([number])) and abs(number) <= MAX_GRID_SUM


def _lead(first: ScoreForm, second: ScoreForm, wins_ties: bool) -> Margin:
    """The margin of one class over another; the first in order wins a tie."""
    return first.add(second.scale(-1.0)).build_margin(wins_ties=wins_ties)


def _read_log_odds(score: ScoreForm, threshold: float) -> TreeSum:
    limit, error = find_log_odds(float(threshold), 1.0)
    if math.isinf(limit):
        return build_constant_sum(limit < 0)
    return TreeSum(((score.build_margin(limit, error),),))


def _to_boosted(score: ScoreForm) -> BoostedScore:
    error = 8 * (score.count + 4) * DOUBLE_ROUNDOFF * score.size + UNDERFLOW_BOUND
    return BoostedScore(score.offset, score.trees, error, score.size + error)

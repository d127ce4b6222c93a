"""PMML models as sums of trees: every part of a model becomes trees of tests of single columns.

- **Predicates** are asked one after the other, so a predicate of several columns becomes a small tree, and what is
  known on the way (between which numbers a value lies, which texts are left) spares tests whose answer is sure.
- **No prediction.** Where a model would give none because a value is missing, the split refuses missing values, so a
  space that holds some leaves the model unread. Where it would give none whatever the values, it is unread too.
- **Rounding.** The file is evaluated in double precision in a known order; n numbers whose sizes add up to S err by
  less than (n + 1) u S. Whole points, and fine fractions of them, add up exactly, and so do whole votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.splits import TreeBuilder
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, Tree, TreeSplit, TreeSum
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
    CompoundPredicate,
    ConstantPredicate,
    MissingPredicate,
    Predicate,
    SetPredicate,
)
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import BoostedScore, build_constant_sum, read_softmax_threshold
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

MAX_TREE_NODES = 200_000
MAX_TERM_SIZE = 1e200


def _find_missing(values: AnyArray) -> BoolArray:
    if values.dtype.kind == "O":
        return np.array([value is None or value != value for value in values.tolist()], dtype=np.bool_)
    return np.asarray(np.isnan(values.astype(np.float64)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class NumberSplit:
    """A number compared with another one; a missing one goes right. ``low`` and ``high`` end the range on the left."""

    column: int
    low: float
    high: float
    low_open: bool
    high_open: bool

    @property
    def turns_once(self) -> bool:
        """Whether one end of the range is open to all numbers."""
        return self.low == -math.inf or self.high == math.inf

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values lie in the range."""
        numbers = values.astype(np.float64)
        above = numbers > self.low if self.low_open else numbers >= self.low
        below = numbers < self.high if self.high_open else numbers <= self.high
        return np.asarray(above & below, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class ValueSplit:
    """Values of a list go left; a missing one goes right."""

    column: int
    values: frozenset[Any]
    turns_once: bool = False

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values are in the list."""
        return np.array([value in self.values for value in values.tolist()], dtype=np.bool_) & ~_find_missing(values)


@dataclass(frozen=True, slots=True)
class MissingSplit:
    """Missing values go left; with ``reason`` they are refused."""

    column: int
    reason: str | None = None
    turns_once: bool = True

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which values are missing."""
        missing = _find_missing(values)
        if self.reason is not None and missing.any():
            raise Unreadable(self.reason)
        return missing


@dataclass(frozen=True, slots=True)
class ColumnKnowledge:
    """What is known of a column's value on the way to a node: missing (None: perhaps), and if it is not, its range or
    the texts that are left (None: any).
    """

    missing: bool | None = None
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    texts: frozenset[Any] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no value is left, but a missing one."""
        open_end = self.low_open or self.high_open
        return self.low > self.high or (self.low == self.high and open_end) or self.texts == frozenset()

    def narrow(self, low: float, high: float, low_open: bool, high_open: bool) -> ColumnKnowledge:
        """The same with a range besides."""
        first, second = (self.low, self.low_open), (low, low_open)
        below, above = (self.high, not self.high_open), (high, not high_open)
        (new_low, new_low_open), (new_high, closed) = max(first, second), min(below, above)
        return replace(self, low=new_low, low_open=new_low_open, high=new_high, high_open=not closed)


Knowledge = Mapping[int, ColumnKnowledge]
Continue = Callable[[Knowledge], int]  # adds what follows, and gives the node where that begins


class NoPrediction(Unreadable):
    """What follows is that the model gives no prediction."""


def _has_no_prediction(known: Knowledge) -> NoReturn:
    if any(one.missing for one in known.values()):
        raise NoPrediction("it gives no prediction for some missing values")
    raise NoPrediction("it may give no prediction although no value is missing")


@dataclass(slots=True)
class PredicateCompiler:
    """Turns tests into nodes of a tree; ``places`` has the position of each column that the model sees."""

    plan: FieldPlan
    places: Mapping[int, int]
    builder: TreeBuilder = field(default_factory=TreeBuilder)

    def start(self) -> Knowledge:
        """What is known before any test."""
        return {
            place: ColumnKnowledge(missing=False if one.never_missing else None, texts=one.texts)
            for place, one in enumerate(self.plan.columns)
        }

    def add_leaf(self, value: float) -> int:
        """A leaf."""
        require_readable(len(self.builder.values) < MAX_TREE_NODES, "its conditions make too large a tree")
        return self.builder.add(None, value)

    def ask(self, predicate: Predicate, known: Knowledge, yes: Continue, no: Continue, unknown: Continue | str) -> int:
        """Add the tests of a predicate; ``unknown`` follows where a value is missing, or says why that is refused."""
        match predicate:
            case ConstantPredicate(holds):
                return (yes if holds else no)(known)
            case MissingPredicate(column, wanted):
                return self._ask_missing(column, known, *((yes, no) if wanted else (no, yes)))
            case ComparisonPredicate(column, operator, value):
                if operator in ("equal", "notEqual"):
                    sides = (yes, no) if operator == "equal" else (no, yes)
                    return self._ask_values(
                        column, frozenset((value,)), known, yes=sides[0], no=sides[1], unknown=unknown
                    )
                return self._ask_range(column, RANGES[operator](float(value)), known, yes=yes, no=no, unknown=unknown)
            case SetPredicate(column, values, inside):
                sides = (yes, no) if inside else (no, yes)
                return self._ask_values(column, values, known, yes=sides[0], no=sides[1], unknown=unknown)
            case CompoundPredicate(operator, parts):
                return self._ask_compound(operator, parts, known, yes=yes, no=no, unknown=unknown)

    def _ask_compound(
        self,
        operator: str,
        parts: tuple[Predicate, ...],
        known: Knowledge,
        yes: Continue,
        no: Continue,
        unknown: Continue | str,
    ) -> int:
        if operator == "xor":
            raise Unreadable("its conditions are joined by xor")
        if not callable(unknown):
            raise Unreadable(unknown)
        if operator == "surrogate":
            first, *others = parts

            def ask_next(now: Knowledge) -> int:
                if not others:
                    return unknown(now)
                return self._ask_compound(operator, tuple(others), now, yes=yes, no=no, unknown=unknown)

            return self.ask(first, known, yes, no, ask_next)
        stop, go_on = (no, yes) if operator == "and" else (yes, no)

        def ask_from(place: int, now: Knowledge, doubtful: bool) -> int:
            if place == len(parts):
                return (unknown if doubtful else go_on)(now)

            def next_sure(later: Knowledge) -> int:
                return ask_from(place + 1, later, doubtful)

            def next_doubtful(later: Knowledge) -> int:
                return ask_from(place + 1, later, True)

            sides = (next_sure, stop) if operator == "and" else (stop, next_sure)
            return self.ask(parts[place], now, yes=sides[0], no=sides[1], unknown=next_doubtful)

        return ask_from(0, known, False)

    def _ask_missing(self, column: int, known: Knowledge, yes: Continue, no: Continue) -> int:
        now = known[column]
        if now.missing is not None:
            return (yes if now.missing else no)(known)
        if now.is_empty:
            return yes({**known, column: replace(now, missing=True)})
        return self._branch(
            MissingSplit(self._find_place(column)),
            lambda: yes({**known, column: replace(now, missing=True)}),
            lambda: no({**known, column: replace(now, missing=False)}),
        )

    def _ask_values(
        self,
        column: int,
        values: frozenset[Any],
        known: Knowledge,
        yes: Continue,
        no: Continue,
        unknown: Continue | str,
    ) -> int:
        now = known[column]
        possible = values
        if self.plan.columns[column].type.is_number:
            possible = frozenset(v for v in values if not now.narrow(v, v, False, False).is_empty)
            inside = now.narrow(min(possible), max(possible), False, False) if possible else now
            sure, outside = bool(possible) and now.low == now.high, now
        elif now.texts is None:
            inside, outside, sure = replace(now, texts=values), now, False
        else:
            possible = values & now.texts
            inside, outside = replace(now, texts=possible), replace(now, texts=now.texts - values)
            sure = now.texts <= values
        if not possible or sure:
            only = yes if possible else no
            return self._settle(column, known, only, unknown)
        split = ValueSplit(self._find_place(column), possible)
        return self._branch_on(split, column, known, (inside, outside), yes=yes, no=no, unknown=unknown)

    def _ask_range(
        self,
        column: int,
        ends: tuple[float, float, bool, bool],
        known: Knowledge,
        yes: Continue,
        no: Continue,
        unknown: Continue | str,
    ) -> int:
        """A range with one end; outside of it is what lies beyond that end."""
        now, (low, high, low_open, high_open) = known[column], ends
        inside = now.narrow(*ends)
        if high == math.inf:
            outside = now.narrow(-math.inf, low, False, not low_open)
        else:
            outside = now.narrow(high, math.inf, not high_open, False)
        if inside.is_empty or outside.is_empty:
            return self._settle(column, known, no if inside.is_empty else yes, unknown)
        split = NumberSplit(self._find_place(column), *ends)
        return self._branch_on(split, column, known, (inside, outside), yes=yes, no=no, unknown=unknown)

    def _settle(self, column: int, known: Knowledge, only: Continue, unknown: Continue | str) -> int:
        """The answer is sure but for missing values."""
        now = known[column]
        if now.missing is False or unknown is only:
            return only(known)
        if now.missing or now.is_empty:
            return self._follow_missing(unknown, known)
        present = {**known, column: replace(now, missing=False)}
        return self._part_missing(column, known, unknown, lambda: only(present))

    def _branch_on(
        self,
        split: TreeSplit,
        column: int,
        known: Knowledge,
        sides: tuple[ColumnKnowledge, ColumnKnowledge],
        yes: Continue,
        no: Continue,
        unknown: Continue | str,
    ) -> int:
        """A split that missing values go right at, and where they must part from the others one more for them."""
        now, (inside, outside) = known[column], sides
        if now.missing or (now.missing is None and now.is_empty):
            return self._follow_missing(unknown, known)

        def go_right() -> int:
            if now.missing is False or unknown is no:
                return no({**known, column: outside})
            present = {**known, column: replace(outside, missing=False)}
            return self._part_missing(column, known, unknown, lambda: no(present))

        return self._branch(split, lambda: yes({**known, column: replace(inside, missing=False)}), go_right)

    def _part_missing(self, column: int, known: Knowledge, unknown: Continue | str, present: Callable[[], int]) -> int:
        """A split of missing values from the others; where there is no prediction for them, it refuses them."""
        gone, node = {**known, column: replace(known[column], missing=True)}, self.add_leaf(0.0)
        builder, reason = self.builder, None
        try:
            left = self._follow_missing(unknown, gone)
        except NoPrediction as why:
            reason = str(why)
            for made in (builder.splits, builder.left, builder.right, builder.values):
                del made[node + 1 :]
            left = self.add_leaf(0.0)  # never reached
        builder.splits[node] = MissingSplit(self._find_place(column), reason)
        builder.left[node] = left
        builder.right[node] = present()
        return node

    def _follow_missing(self, unknown: Continue | str, known: Knowledge) -> int:
        """What follows for a missing value."""
        if callable(unknown):
            return unknown(known)
        raise NoPrediction(unknown)

    def _branch(self, split: TreeSplit, left: Callable[[], int], right: Callable[[], int]) -> int:
        node = self.add_leaf(0.0)
        self.builder.splits[node] = split
        self.builder.left[node] = left()
        self.builder.right[node] = right()
        return node

    def _find_place(self, column: int) -> int:
        if column not in self.places:
            raise Unreadable("a condition asks for the answer of another model")
        return self.places[column]


RANGES: dict[str, Callable[[float], tuple[float, float, bool, bool]]] = {
    "lessThan": lambda value: (-math.inf, value, False, True),
    "lessOrEqual": lambda value: (-math.inf, value, False, False),
    "greaterThan": lambda value: (value, math.inf, True, False),
    "greaterOrEqual": lambda value: (value, math.inf, False, False),
}


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
                    return _has_no_prediction(known)
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
                return compiler.add_leaf(value(node)) if node.has_score else _has_no_prediction(known)

            return add

        def enter(node: TreeNode, known: Knowledge) -> int:
            return ask_child(node, 0, known) if node.children else answer(node)(known)

        def ask_child(node: TreeNode, place: int, known: Knowledge) -> int:
            if place == len(node.children):
                return answer(node)(known) if model.last_without_child else _has_no_prediction(known)

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
            _has_no_prediction,
            _has_no_prediction,
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

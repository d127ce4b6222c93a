"""The conditions of PMML as trees of tests of single columns.

Predicates are asked one after the other, so a predicate of several columns becomes a small tree. What is known on the
way (between which numbers a value lies, which texts are left, whether it may be missing) spares tests whose answer is
sure. Where no prediction follows for a missing value, the test refuses missing values (:class:`MissingSplit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.model.normal_form.splits import TreeBuilder
from ironrule.model.normal_form.tree_sum import TreeSplit
from ironrule.model.pmml.fields import FieldPlan
from ironrule.model.pmml.predicates import (
    ComparisonPredicate,
    CompoundPredicate,
    ConstantPredicate,
    MissingPredicate,
    Predicate,
    SetPredicate,
)
from ironrule.model.protocol import Unreadable, require_readable

MAX_TREE_NODES = 200_000


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


def refuse_prediction(known: Knowledge) -> NoReturn:
    """Raise NoPrediction: the model has no answer here."""
    if any(one.missing for one in known.values()):
        raise NoPrediction("it gives no prediction for some missing values")
    raise NoPrediction("it may give no prediction although no value is missing")


@dataclass(slots=True)
class PredicateCompiler:
    """Turns tests into nodes of a tree; ``places`` has the position of each column that the model sees."""

    plan: FieldPlan
    places: Mapping[int, int]
    builder: TreeBuilder = field(default_factory=TreeBuilder)

    def start(self, present: frozenset[int] = frozenset()) -> Knowledge:
        """What is known before any test; ``present`` has columns that are not missing wherever the answer counts."""
        return {
            place: ColumnKnowledge(missing=False if one.never_missing or place in present else None, texts=one.texts)
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

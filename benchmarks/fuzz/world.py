"""Every point of a space with the estimator's own decision: what claims are held against.

Without whole intervals the points are those of the explainer's space. With them, a whole number may take every value
between its extremes, and each is looked at; of a float, the values of the domain, their neighbours in floating point
and the middles between them. Then ``dense`` is set: that a point is desired is certain, that no other is desired is
not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.fuzz.data import Value
from benchmarks.fuzz.subjects import Answers, Decision, Flags, NotDrawn, Subject

Ints = npt.NDArray[np.int64]
MOST_POINTS = 100_000
LONGEST_RANGE = 60
ASKED_ALONE = 150


@dataclass(frozen=True, slots=True)
class Axis:
    """One feature: its values in order (those of the domain and those in between), None for missing behind them."""

    name: str
    columns: tuple[str, ...]
    ordered: bool
    values: tuple[Value, ...]
    domain: tuple[Value, ...]  # as the space has it, by code

    def place(self, value: Value) -> int | None:
        """Where a value stands; None if it is not there. A flag is no number."""
        for place, known in enumerate(self.values):
            same = known is value if value is None or known is None else known == value
            if same and isinstance(known, bool) == isinstance(value, bool):
                return place
        return None

    def admitted(self, op: str, value: Value) -> Flags | None:
        """Which values satisfy ``feature op value``; None where that makes no sense."""
        place = self.place(value)
        if value is None:
            return np.array([one is None for one in self.values]) if op == "==" and None in self.values else None
        if op == "==":
            return None if place is None else np.arange(len(self.values)) == place
        if not self.ordered or isinstance(value, (str, bool)):
            if place is None or not self.ordered:
                return None
            below = np.arange(len(self.values)) <= place
            present = np.array([one is not None for one in self.values])
            side = below if op == "<=" else ~below | (np.arange(len(self.values)) == place)
            return np.asarray(side & present, dtype=np.bool_)
        if not isinstance(value, (int, float)):
            return None
        return np.array([one is not None and (one <= value if op == "<=" else one >= value) for one in self.values])


class World:
    """All points of a subject's space that can occur, and what the models say of each."""

    def __init__(self, subject: Subject, space: Any) -> None:
        self.subject, self.space = subject, space
        named = dict(zip(space.columns, subject.table.names, strict=False)) if subject.table.form == "numpy" else {}
        self._column_names = named
        self.dense = False
        self.axes = [self._axis(feature) for feature in space.features]
        sizes = [len(axis.values) for axis in self.axes]
        if np.prod([float(size) for size in sizes]) > MOST_POINTS:
            raise NotDrawn(f"a space of more than {MOST_POINTS} points cannot be enumerated")
        points = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)
        rules = subject.space_rules
        occurs = [all(rule.holds(cf, cf) for rule in rules) for cf in map(self.decode, points)] if rules else True
        self.points: Ints = points[np.broadcast_to(np.array(occurs, dtype=np.bool_), len(points))]
        rows = self.rows_of(self.points)
        self._answers = [Answers(model, rows) for model in (subject.model, *subject.others)]

    def _axis(self, feature: Any) -> Axis:
        domain = (*feature.values, None) if feature.missing else tuple(feature.values)
        values = list(feature.values)
        columns = tuple(self._column_names.get(name, name) for name in feature.columns)
        kinds = {column.name: column.kind for column in self.subject.table.columns}
        if feature.interval:
            values = self._between(values)
            if kinds.get(columns[0]) == "float32":
                values = self._next_to_float32(values)
        more = (None,) if feature.missing else ()
        return Axis(feature.name, columns, bool(feature.ordered), (*values, *more), domain)

    def _between(self, values: list[Value]) -> list[Value]:
        if all(isinstance(value, int) for value in values):
            if values[-1] - values[0] <= LONGEST_RANGE:
                return list(range(values[0], values[-1] + 1))
            near = {value + step for value in values for step in (-1, 0, 1)}
            near |= {(low + high) // 2 for low, high in itertools.pairwise(values)}
        else:
            near = {float(np.nextafter(value, end)) for value in values for end in (-np.inf, np.inf)} | set(values)
            near |= {low + (high - low) / 2 for low, high in itertools.pairwise(values)}
        self.dense = True
        return sorted(value for value in near if values[0] <= value <= values[-1])

    @staticmethod
    def _next_to_float32(values: list[Value]) -> list[Value]:
        """Numbers with the neighbours in float32 of each: a column of that type rounds every number to one of them."""
        short = {np.float32(value) for value in values}
        near = {float(np.nextafter(one, np.float32(end))) for one in short for end in (-np.inf, np.inf)}
        return sorted({*values, *(value for value in near if values[0] <= value <= values[-1])})

    def decode(self, point: Sequence[int] | Ints) -> dict[str, Value]:
        """A point in the user's terms, by feature."""
        return {axis.name: axis.values[int(code)] for axis, code in zip(self.axes, point, strict=True)}

    def rows_of(self, points: Ints) -> Any:
        """Points as a table of the same form as the data; a one-hot feature has a column for every value."""
        columns: dict[str, list[Value]] = {
            column.name: [column.values[0]] * len(points) for column in self.subject.table.columns
        }  # columns that the model does not use are in no space
        for j, axis in enumerate(self.axes):
            values = [axis.values[code] for code in points[:, j].tolist()]
            if len(axis.columns) == 1:
                columns[axis.columns[0]] = values
                continue
            for place, name in enumerate(axis.columns):
                columns[name] = [int(axis.values[place] == value) for value in values]
        return self.subject.table.filled(columns)

    @cached_property
    def desired(self) -> Flags:
        """Which points some model desires, the margin counted: those that rules must exclude."""
        return self.desired_by(self.subject.decision)

    @cached_property
    def own(self) -> Flags:
        """Which points the model itself desires."""
        return self._answers[0].desired(self.subject.decision.alone())

    def desired_by(self, decision: Decision) -> Flags:
        """The same as ``desired`` for another decision."""
        return np.asarray(np.any([one.desired(decision) for one in self._answers], axis=0), dtype=np.bool_)

    def own_by(self, decision: Decision) -> Flags:
        """The same as ``own`` for another decision."""
        return self._answers[0].desired(decision.alone())

    def code(self, values: Mapping[str, Value]) -> Ints | None:
        """A row, by feature, as a point; None if it is none of the space."""
        if set(values) != {axis.name for axis in self.axes}:
            return None
        places = [axis.place(values[axis.name]) for axis in self.axes]
        return None if None in places else np.array(places, dtype=np.int64)

    def from_codes(self, codes: Sequence[int]) -> Ints | None:
        """A point given by the space's own codes; None if it is none."""
        sizes = [len(axis.domain) for axis in self.axes]
        if len(codes) != len(sizes) or not all(0 <= code < size for code, size in zip(codes, sizes, strict=True)):
            return None
        return self.code({axis.name: axis.domain[code] for axis, code in zip(self.axes, codes, strict=True)})

    def index(self, point: Ints | None) -> int | None:
        """The row of a point among ``points``; None if it cannot occur, or is not among those looked at."""
        if point is None:
            return None
        found = np.flatnonzero((self.points == point).all(axis=1))
        return int(found[0]) if len(found) else None

    def covered(self, parts: Sequence[tuple[str, str, Value]], points: Ints | None = None) -> Flags | None:
        """Which points satisfy all components, each a feature, an operator and a value; None if one makes no sense."""
        some = self.points if points is None else points
        mask = np.ones(len(some), dtype=np.bool_)
        names = [axis.name for axis in self.axes]
        for name, op, value in parts:
            admitted = self.axes[names.index(name)].admitted(op, value) if name in names else None
            if admitted is None:
                return None
            mask &= admitted[some[:, names.index(name)]]
        return mask

    @cached_property
    def past(self) -> Ints:
        """The past rows that can occur, as points."""
        return self.coded_past[self.past_rows]

    @cached_property
    def coded_past(self) -> Ints:
        """All past rows as points."""
        points = [self.code(self.by_feature(row)) for row in self.subject.table.rows()]
        return np.array([point for point in points if point is not None], dtype=np.int64)

    @cached_property
    def past_rows(self) -> Ints:
        """The numbers of the past rows that satisfy the constraints on the space."""
        rules = self.subject.space_rules
        rows = [self.decode(point) for point in self.coded_past]
        kept = [place for place, row in enumerate(rows) if all(rule.holds(row, row) for rule in rules)]
        return np.array(kept, dtype=np.int64)

    def by_feature(self, row: Mapping[str, Value]) -> dict[str, Value]:
        """A row of the table, by column, as features."""
        made: dict[str, Value] = {}
        for axis in self.axes:
            if len(axis.columns) == 1:
                made[axis.name] = row[axis.columns[0]]
                continue
            hot = [place for place, name in enumerate(axis.columns) if row[name] == 1]
            made[axis.name] = axis.values[hot[0]] if hot else axis.values[len(axis.columns)]
        return made

    def single(self, point: Ints, own: bool = False) -> bool:
        """What the models say of a point by itself: some add otherwise for one row than for many."""
        decision = self.subject.decision.alone() if own else self.subject.decision
        models = (self.subject.model,) if own else (self.subject.model, *self.subject.others)
        return any(self._alone(model, point, decision) for model in models)

    def _alone(self, model: Any, point: Ints, decision: Decision) -> bool:
        """A model's word on a point by itself; beside past rows where the model cannot take the one row (a column of
        text that is missing throughout).
        """
        try:
            return bool(Answers(model, self.rows_of(point[None, :])).desired(decision)[0])
        except TypeError:
            return bool(Answers(model, self.rows_of(np.concatenate([point[None, :], self.past]))).desired(decision)[0])

    @cached_property
    def unstable(self) -> bool:
        """Whether a model answers otherwise for one row than for many, somewhere: then nothing here is certain.

        Linear models and networks may, where a decision hangs on the last bit: their libraries add in another order.
        """
        decisions = (self.subject.decision, self.subject.decision.alone())
        for one in self._answers:
            many = [one.desired(decision) for decision in decisions]
            for place in np.argsort(one.closeness(decisions[0]), kind="stable")[:ASKED_ALONE].tolist():
                asked = zip(decisions, many, strict=True)
                if any(self._alone(one.model, self.points[place], decision) != said[place] for decision, said in asked):
                    return True
        return False

    def exception(self, covered: Flags, desired: Flags | None = None) -> dict[str, Value] | None:
        """A desired point among those covered, desired also when it is asked about alone; None if there is none."""
        for place in np.flatnonzero(covered & (self.desired if desired is None else desired)).tolist():
            if desired is not None or self.single(self.points[place]):
                return self.decode(self.points[place])
        return None

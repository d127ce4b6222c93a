"""Rules that serve again: a row that a proven rule of an earlier row covers gets that rule, without a search.

So that the answers depend on nobody's speed, rows are settled in their order: a row is searched for exactly if no rule
of an earlier row that was searched for covers it. Workers run ahead of that; what they find for a row that turns out to
be covered is dropped. Of several rules that cover a row the shortest serves it, the first of those.

Whoever is covered by a wider rule is covered by proof: the certificate of the wider rule speaks of all its box, and so
of the part that the row's own rule names. That no shorter rule holds for the row is not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.explain.arguments import chosen_weights
from ironrule.explain.batches.line import Line
from ironrule.explain.batches.reuse_kernels import shortest_holding
from ironrule.explain.batches.worker import Needless, Waiting
from ironrule.explain.explanation import Explanation, RankedRule, Statistics
from ironrule.explain.posing import permitted_of
from ironrule.explain.prepared import Prepared
from ironrule.explain.question import Question
from ironrule.rule import Box, Relevant, relevant_to
from ironrule.rule.relevant import members
from ironrule.rule.weights import times
from ironrule.space import Points

FIRST_ROOM = 64
MOST_READ = 512  # documents of earlier rows that are kept as explanations
REUSED = "reused"  # the algorithm of a row that was not searched for


@dataclass(frozen=True, slots=True, eq=False)
class EachAlone:
    """Every row is searched for: lines are settled as they come."""

    needless: Needless | None = None

    def settled(self, lines: list[Line]) -> list[Line]:
        """The same lines."""
        return lines


@dataclass(slots=True, eq=False)
class Reuse:
    """The rows that wait, in order, and the rules that serve them."""

    ready: Prepared
    question: Question
    waiting: Waiting
    _rules: _Rules
    _next: int = 0
    _found: dict[int, Line] = field(default_factory=dict)

    @classmethod
    def after(cls, finished: Iterable[Line], ready: Prepared, question: Question, waiting: Waiting) -> Reuse:
        """With the rules of rows that were finished before, in the order of their rows."""
        rules = _Rules(len(ready.space))
        for line in finished:
            rules.add(line)
        return cls(ready, question, waiting, rules)

    def needless(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which rows need no search, as far as is known by now."""
        return self._rules.serving(points) >= 0

    def settled(self, lines: list[Line]) -> list[Line]:
        """The lines of the rows that are settled now, in order."""
        self._found |= {line.row: line for line in lines}
        told: list[Line] = []
        numbers, points = self.waiting
        while self._next < len(numbers) and (line := self._line(int(numbers[self._next]), points)) is not None:
            told.append(line)
            self._next += 1
        return told

    def _line(self, row: int, points: Any) -> Line | None:
        """The next row's, if it is known: by a rule of an earlier row, else by its own search."""
        point = points[self._next : self._next + 1]
        place = int(self._rules.serving(point)[0])
        own = self._found.pop(row, None)
        if place >= 0:
            return served(self.ready, self.question, row, point[0], self._rules.line(place), self._rules)
        if own is not None:
            self._rules.add(own)
        return own


class _Rules:
    """The proven rules of rows that were searched for. Other threads may ask while one adds."""

    def __init__(self, features: int) -> None:
        self._lines: list[Line] = []
        self._low = np.empty((FIRST_ROOM, features), dtype=np.int32)
        self._high, self._lengths = np.empty_like(self._low), np.empty(FIRST_ROOM, dtype=np.int64)
        self._read: dict[int, Explanation] = {}

    def add(self, line: Line) -> None:
        """A line more, if its rule is proven and its own."""
        if line.low is None or line.covered_by is not None or line.same_as != line.row:
            return
        box, place = widest_box(line), len(self._lines)
        if place == len(self._lengths):
            grown = [np.concatenate([old, np.empty_like(old)]) for old in (self._low, self._high, self._lengths)]
            self._low, self._high, self._lengths = grown
        self._low[place], self._high[place], self._lengths[place] = box.low, box.high, line.cardinality
        self._lines.append(line)  # from now on others see it

    def line(self, place: int) -> Line:
        """The line that a place stands for."""
        return self._lines[place]

    def serving(self, points: Points) -> npt.NDArray[np.int64]:
        """For every point the place of the rule that serves it; -1 where none does."""
        many = len(self._lines)
        low, high, lengths = self._low, self._high, self._lengths
        return shortest_holding(np.asarray(points, dtype=np.int32), low[:many], high[:many], lengths[:many])

    def explanation(self, line: Line) -> Explanation:
        """The explanation in a line's document."""
        if line.row not in self._read:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            self._read[line.row] = line.explanation()
        return self._read[line.row]


def widest_box(line: Line) -> Box:
    """All that a line's rule is proven for."""
    low, high = (line.low, line.high) if line.wider_low is None else (line.wider_low, line.wider_high)
    return Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))


def served(ready: Prepared, question: Question, row: int, point: Points, by: Line, rules: _Rules) -> Line:
    """The line of a row that another row's rule covers."""
    relevant, wide = relevant_to(ready.space, point, ready.named), widest_box(by)
    bits = own_components(relevant, wide, *permitted_of(relevant, question.require, question.forbid))
    box, outcome = relevant.box(bits), ready.model.own.decision.undesired
    rule = relevant.rule(bits, outcome)
    wider = None if by.wider_low is None else relevant.rule(bits, outcome, wide)
    each, unit = chosen_weights(question.weights, relevant)
    weight = times(each[list(members(bits))].sum(), unit)
    line = replace(
        by,
        row=row,
        same_as=row,
        covered_by=by.row,
        rule=str(rule),
        cardinality=rule.cardinality,
        weight=float(weight),
        lower_bound=0.0,
        minimum=by.minimum and not bits,
        coverage=ready.history.coverage(box, ready.space.sizes),
        wider=None if wider is None else str(wider),
        seconds=0.0,
        stopped=None,
        point=tuple(point.tolist()),
        low=tuple(box.low.tolist()),
        high=tuple(box.high.tolist()),
    )
    if by.document is None:
        return line
    found = rules.explanation(by)
    proof = found.verdict if found.wider is None or by.wider_low is None else found.wider.verdict
    told = replace(
        found,
        instance=ready.space.decode_row(point),
        ranked=(RankedRule(rule, proof, line.coverage),),
        counterfactuals=(),
        statistics=Statistics(REUSED, question.seed, 0.0, 0, 0, 0, 0, 0, {}),
        weight=weight,
        lower_bound=0,
        witnesses=(),
        wider=None if wider is None or found.wider is None else RankedRule(wider, proof, found.wider.coverage),
        undecided=(),
    )
    document = told.to_dict()
    return replace(line, digest=document["digest"], document=json.dumps(document, ensure_ascii=False))


def own_components(relevant: Relevant, wide: Box, allowed: int, required: tuple[int, ...]) -> int:
    """The components of an instance that keep to a box which holds it, none that could go, as far as is permitted."""
    top = relevant.space.scale.top
    said = {j for j in range(len(top)) if wide.low[j] > 0 or wide.high[j] < top[j]}
    bits = sum(1 << bit for bit in members(allowed) if bit // 2 in said)
    for bit in reversed(members(bits)):
        fewer = bits & ~(1 << bit)
        box, j = relevant.box(fewer), bit // 2
        inside = box.low[j] >= wide.low[j] and box.high[j] <= wide.high[j]
        if inside and all(fewer & some for some in required):
            bits = fewer
    return bits

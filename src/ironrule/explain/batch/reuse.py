"""Reuse proven rules: a row that a proven rule of an earlier row covers gets that rule, without a search.

So that the answers do not depend on the speed of workers, rows are settled in their order: a row is searched for
exactly if no rule of an earlier row that was searched for covers it. Workers run ahead of that; what they find for a
row that turns out to be covered is dropped. Of several rules that cover a row the shortest is used, and of those the
first.

A row that is covered by a wider rule is covered by proof: the certificate of the wider rule speaks of its whole box,
and so of the part that the row's own rule names. That no shorter rule holds for the row is not known.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.explain.batch.worker import PendingRows
from ironrule.explain.context import ExplainerContext
from ironrule.explain.options import SearchOptions, parse_weights
from ironrule.explain.query import build_statistics, select_components
from ironrule.explain.roles import mark_rule
from ironrule.hitting.bits import list_members
from ironrule.hitting.weights import multiply_exactly
from ironrule.jit import kernel, kernel_helper
from ironrule.results.batch_storage import BatchRow
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.rule.box import Box
from ironrule.rule.instance_components import InstanceComponents, build_instance_components


@kernel_helper
def _contains(low: Any, high: Any, point: Any) -> bool:
    j = 0
    while j < point.size and low[j] <= point[j] <= high[j]:
        j += 1
    return bool(j == point.size)


@kernel
def find_shortest_box(points: Any, low: Any, high: Any, lengths: Int64Array) -> Int64Array:
    """Per point, the place of the box of least length that contains it, the first of those; -1 if none does."""
    shortest = np.full(points.shape[0], -1, np.int64)
    for r in range(points.shape[0]):  # every row against every box, which is only looked at if it is shorter
        for place in range(lengths.size):
            shorter = shortest[r] < 0 or lengths[place] < lengths[shortest[r]]
            if shorter and _contains(low[place], high[place], points[r]):
                shortest[r] = place
    return shortest


FIRST_CAPACITY = 64
MAX_CACHED = 512  # documents of earlier rows that are kept as explanations
REUSED_ALGORITHM = "reused"  # the algorithm of a row that was not searched for


class RuleReuse:
    """The rows that wait, in order, and the proven rules that may cover them.

    ``places`` are those of the waiting rows among all rows of the batch. ``finished`` has rows that were finished
    before, with their places, in order. Mostly all of these come before the rows that wait; but if a part of a batch
    was damaged, later rows are finished, and a rule may be reused only for rows behind its own.
    """

    def __init__(
        self,
        context: ExplainerContext,
        options: SearchOptions,
        pending: PendingRows,
        *,
        places: Int64Array,
        finished: Sequence[tuple[int, BatchRow]],
    ) -> None:
        self.context, self.options, self.pending = context, options, pending
        self._places, self._finished = places, deque(finished)
        self._rules, self._next, self._searched = _ProvenRules(len(context.space)), 0, dict[int, BatchRow]()
        self._add_earlier_rules()

    def _add_earlier_rules(self) -> None:
        """Add the rules of finished rows that stand before the next row."""
        while self._finished and self._next < len(self._places) and self._finished[0][0] < self._places[self._next]:
            self._rules.add(self._finished.popleft()[1])

    def is_covered(self, points: Points) -> BoolArray:
        """Which rows need no search, as far as is known by now."""
        return self._rules.find_covering(points) >= 0

    def settle(self, rows: list[BatchRow]) -> list[BatchRow]:
        """The rows that are settled now, in order."""
        self._searched |= {row.row: row for row in rows}
        settled: list[BatchRow] = []
        numbers, points = self.pending
        # In order, whatever comes first from the workers: so which rules are reused does not depend on their number.
        while self._next < len(numbers) and (row := self._settle_next(int(numbers[self._next]), points)) is not None:
            settled.append(row)
            self._next += 1
            self._add_earlier_rules()
        return settled

    def _settle_next(self, row: int, points: Any) -> BatchRow | None:
        """The next row, if it is known: by a rule of an earlier row, else by its own search."""
        point = points[self._next : self._next + 1]
        place = int(self._rules.find_covering(point)[0])
        own = self._searched.pop(row, None)
        if place >= 0:
            by = self._rules.batch_rows[place]
            return build_covered_row(self.context, self.options, row, point[0], by=by, rules=self._rules)
        if own is not None:
            self._rules.add(own)
        return own


class _ProvenRules:
    """The proven rules of rows that were searched for. Other threads may look while one adds."""

    def __init__(self, features: int) -> None:
        self.batch_rows: list[BatchRow] = []
        self._low = np.empty((FIRST_CAPACITY, features), dtype=np.int32)
        self._high, self._lengths = np.empty_like(self._low), np.empty(FIRST_CAPACITY, dtype=np.int64)
        self._explanations: dict[int, Explanation] = {}

    def add(self, row: BatchRow) -> None:
        """Add the rule of a row, if it is proven and its own."""
        if not row.has_own_proof:
            return
        box, place = build_proven_box(row), len(self.batch_rows)
        if place == len(self._lengths):
            grown = [np.concatenate([old, np.empty_like(old)]) for old in (self._low, self._high, self._lengths)]
            self._low, self._high, self._lengths = grown
        self._low[place], self._high[place], self._lengths[place] = box.low, box.high, row.cardinality
        # The arrays first: a thread that looks now sees as many rules as there are rows in the list.
        self.batch_rows.append(row)  # from now on others see it

    def find_covering(self, points: Points) -> Int64Array:
        """For every point the place of the rule that covers it; -1 where none does."""
        count = len(self.batch_rows)
        low, high, lengths = self._low, self._high, self._lengths
        return find_shortest_box(np.asarray(points, dtype=np.int32), low[:count], high[:count], lengths[:count])

    def explanation(self, row: BatchRow) -> Explanation:
        """The explanation in a row's document."""
        if row.row not in self._explanations:
            if len(self._explanations) >= MAX_CACHED:
                self._explanations.clear()
            self._explanations[row.row] = row.explanation()
        return self._explanations[row.row]


def build_proven_box(row: BatchRow) -> Box:
    """All that a row's rule is proven for."""
    low, high = (row.low, row.high) if row.wider_low is None else (row.wider_low, row.wider_high)
    return Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))


def build_covered_row(
    context: ExplainerContext, options: SearchOptions, row: int, point: Points, by: BatchRow, rules: _ProvenRules
) -> BatchRow:
    """A row that another row's rule covers."""
    components, wide = build_instance_components(context.space, point, context.component_cache), build_proven_box(by)
    bits = find_components_within(components, wide, *select_components(components, options.require, options.forbid))
    box, outcome = components.box(bits), context.model.primary.decision.undesired_name
    rule = components.rule(bits, outcome)
    wider = None if by.wider_low is None else components.rule(bits, outcome, wide)
    each, unit = parse_weights(options.weights, components)
    weight = multiply_exactly(each[list(list_members(bits))].sum(), unit)
    covered = replace(
        by,
        row=row,
        same_as=row,
        covered_by=by.row,
        rule=str(rule),
        cardinality=rule.cardinality,
        weight=float(weight),
        lower_bound=0.0,
        minimum=by.minimum and not bits,
        coverage=context.history.count_covered(box, context.space.sizes),
        wider=None if wider is None else str(wider),
        seconds=0.0,
        stopped=None,
        point=tuple(point.tolist()),
        low=tuple(box.low.tolist()),
        high=tuple(box.high.tolist()),
    )
    if by.document is None:
        return covered
    source = rules.explanation(by)
    proof = source.verdict if source.wider is None or by.wider_low is None else source.wider.verdict
    nothing_done = build_statistics(options.start_meter(), REUSED_ALGORITHM, options.seed, None)
    explanation = replace(
        source,
        instance=context.space.decode_row(point),
        ranked=(RankedRule(rule, proof, covered.coverage),),
        counterfactuals=(),
        statistics=replace(nothing_done, seconds=0.0),
        weight=weight,
        lower_bound=0,
        witnesses=(),
        wider=None if wider is None or source.wider is None else RankedRule(wider, proof, source.wider.coverage),
        undecided_components=(),
        rounded=None,
        marks=mark_rule(context, rule),
        lazy_changes=None,  # those of the other row
        prefer="length",
        preference=None,
        covers_only_instance=False,
    )
    document = explanation.to_dict()
    return replace(covered, digest=document["digest"], document=json.dumps(document, ensure_ascii=False))


def find_components_within(components: InstanceComponents, wide: Box, allowed: int, required: tuple[int, ...]) -> int:
    """The components of an instance that keep to a box which contains it, as few as do, of those that are permitted."""
    top = components.space.code_limits.top
    said = {j for j in range(len(top)) if wide.low[j] > 0 or wide.high[j] < top[j]}
    bits = sum(1 << bit for bit in list_members(allowed) if bit // 2 in said)
    for bit in reversed(list_members(bits)):  # drop each component that the box does not need
        fewer = bits & ~(1 << bit)
        box, j = components.box(fewer), bit // 2
        inside = box.low[j] >= wide.low[j] and box.high[j] <= wide.high[j]
        if inside and all(fewer & permitted for permitted in required):
            bits = fewer
    return bits

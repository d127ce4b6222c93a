"""How many past rows rules cover.

Rules that are compared with one another often share components. The rows in the box of the shared ones are found in one
pass, and every rule is counted among them. Where that would read more than the history holds, one pass reduces the
history to its distinct duals, which serve all rules at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from ironrule.arrays import UInt64Array
from ironrule.hitting.bits import list_members, pack_sets
from ironrule.model.history import RowCounter
from ironrule.oracles.protocol import Case
from ironrule.rule.duals import count_covered_rows, count_distinct_duals

MAX_PASSES = 2  # times the rows of the history, before one pass for all rules is better
MAX_ROWS_COMPARED = 10_000  # rows
MAX_ROWS_READ = 1_000_000  # rows, that are soon read even if every rule reads all


def count_covered(case: Case, rules: Sequence[int]) -> list[int]:
    """The number of past rows in every rule's box, whatever their outcome."""
    if not rules:
        return []
    past = RowCounter.from_history(case.history, case.space.sizes)
    if len(case.history) * len(rules) <= MAX_ROWS_READ:
        return _count_in_boxes(past, case, rules)
    shared = case.components.box(reduce(and_, rules))
    if past.count(shared) * len(rules) > MAX_PASSES * len(case.history):
        return _count_by_duals(case, rules)
    features = sorted({bit // 2 for bit in list_members(reduce(or_, rules))})
    return _count_in_boxes(past.restrict(shared, features), case, rules)


def may_cover_more(case: Case, rule: int, demands: UInt64Array) -> bool:
    """Whether a rule that meets all demands may cover more past rows than this one: it only covers rows in which some
    component of every demand holds. Where there are too many to look at, it may.
    """
    from ironrule.rule.box_kernels import has_more_matching_rows

    history, components = case.history, case.components
    if len(history) > MAX_ROWS_COMPARED:
        return True
    columns, bounds = (history.addresses, history.item_sizes), (components.low, components.high)
    covered = history.count_covered(components.box(rule), case.space.sizes)
    return has_more_matching_rows(columns, bounds, demands, len(history), covered)


def _count_in_boxes(past: RowCounter, case: Case, rules: Sequence[int]) -> list[int]:
    counts: list[int] = past.count_each(case.components.boxes(rules)).tolist()
    return counts


def _count_by_duals(case: Case, rules: Sequence[int]) -> list[int]:
    components = case.components
    past = count_distinct_duals(case.history.codes.columns, components.low, components.high)
    counts: list[int] = count_covered_rows(pack_sets(rules, len(case.space)), past.bits, past.counts).tolist()
    return counts

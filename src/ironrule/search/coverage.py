"""How many past rows rules cover.

Rules that are compared with one another often share components. The rows in the box of the shared ones are found in one
pass, and every rule is counted among them. Where that would read more than the history holds, one pass reduces the
history to its distinct duals, which serve all rules at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from ironrule.model.census import Census
from ironrule.oracles.protocol import Case
from ironrule.rule.bit_kernels import Words
from ironrule.rule.bits import members, pack
from ironrule.rule.duals import distinct_duals, uncovered_counts

READ_AGAIN = 2  # times the rows of the history, before one pass for all rules is better
FEW_LOOKED_AT = 10_000  # rows
FEW_READ = 1_000_000  # rows, that are soon read even if every rule reads all


def coverages(case: Case, rules: Sequence[int]) -> list[int]:
    """The number of past rows in every rule's box, whatever their outcome."""
    if not rules:
        return []
    past = Census.of(case.history, case.space.sizes)
    if len(case.history) * len(rules) <= FEW_READ:
        return _counted(past, case, rules)
    shared = case.relevant.box(reduce(and_, rules))
    if past.covered(shared) * len(rules) > READ_AGAIN * len(case.history):
        return _by_duals(case, rules)
    features = sorted({bit // 2 for bit in members(reduce(or_, rules))})
    return _counted(past.within(shared, features), case, rules)


def may_be_wider(case: Case, rule: int, demands: Words) -> bool:
    """Whether a rule that meets all demands may cover more past rows than this one: it only covers rows in which some
    component of every demand holds. Where there are too many to look at, it may.
    """
    from ironrule.rule.count_kernels import some_hold_in_more

    history, relevant = case.history, case.relevant
    if len(history) > FEW_LOOKED_AT:
        return True
    columns, bounds = (history.places, history.sizes), (relevant.low, relevant.high)
    covered = history.coverage(relevant.box(rule), case.space.sizes)
    return some_hold_in_more(columns, bounds, demands, len(history), covered)


def _counted(past: Census, case: Case, rules: Sequence[int]) -> list[int]:
    counts: list[int] = past.covered_by_each(case.relevant.boxes(rules)).tolist()
    return counts


def _by_duals(case: Case, rules: Sequence[int]) -> list[int]:
    relevant = case.relevant
    past = distinct_duals(case.history.codes.columns, relevant.low, relevant.high)
    counts: list[int] = uncovered_counts(pack(rules, len(case.space)), past.bits, past.counts).tolist()
    return counts

"""How many past rows rules cover: all rules at once, after one pass over the history."""

from __future__ import annotations

from collections.abc import Sequence

from ironrule.oracles.protocol import Case
from ironrule.rule.bits import pack
from ironrule.rule.duals import distinct_duals, uncovered_counts


def coverages(case: Case, rules: Sequence[int]) -> list[int]:
    """The number of past rows in every rule's box, whatever their outcome."""
    if not rules:
        return []
    relevant = case.relevant
    past = distinct_duals(case.history.codes.columns, relevant.low, relevant.high)
    counts: list[int] = uncovered_counts(pack(rules, len(case.space)), past.bits, past.counts).tolist()
    return counts

"""Bounded: what real rows say about a rule that is not proven.

A rule that holds for every conceivable person is often long. A shorter one may have exceptions, but few among people
like those in the history. ``Bounded`` says how few: rows that the search for the rule never looked at are counted, and
the exact binomial bound of Clopper and Pearson (1934) follows. Were the share of exceptions larger than the bound, so
few would be seen only with a probability of one minus the confidence, or less.

Several bounds that are shown together hold together at the stated confidence: each is computed with its part of the
doubt (Bonferroni), so that the probability that any of them is broken is one minus the confidence at most.

A bounded rule is never proven. It speaks of people drawn like the rows that were measured; where these differ from the
people it is applied to (drift), it says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ironrule.errors import InputError
from ironrule.verdict.verdict import Verdict, verdict_from_dict, verdict_to_dict
from ironrule.wording import format_count, format_percent_down, format_percent_up, render_text

DEFAULT_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Bounded:
    """Of people like those in the history whom the rule covers, at most ``exceptions`` get the desired outcome.

    ``rows`` covered rows were measured, and ``seen`` of them were exceptions. The bound holds at ``confidence``
    together with all others of its ladder, ``shared_by`` in number, itself included.

    >>> bounded = Bounded.from_counts(seen=2, rows=400, confidence=0.95)
    >>> print(bounded)
    bounded, not proven: at most 1.57% exceptions at 95% confidence (2 among 400 measured rows)
    """

    exceptions: float
    confidence: float
    rows: int
    seen: int
    shared_by: int = 1

    @classmethod
    def from_counts(cls, seen: int, rows: int, confidence: float, shared_by: int = 1) -> Bounded:
        """The bound that follows from ``seen`` exceptions among ``rows`` covered rows."""
        limit = compute_share_bound(seen, rows, confidence, shared_by)
        return cls(limit, confidence, rows, seen=seen, shared_by=shared_by)

    @property
    def details(self) -> str:
        """What stands behind the verdict."""
        if not self.rows:
            return "no measured row satisfies the rule, so nothing is known of its exceptions"
        limit = f"at most {format_percent_up(self.exceptions)} exceptions"
        counted = f"{self.seen:,} among {format_count(self.rows, 'measured row')}"
        return f"{limit} at {format_percent_down(self.confidence)} confidence ({counted})"

    def __str__(self) -> str:
        return f"bounded, not proven: {self.details}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: not proven; {self.details}>"

    def _repr_html_(self) -> str:
        return render_text(self.details, self)


RungVerdict = Verdict | Bounded
"""What a rung of a ladder has earned."""


def compute_share_bound(seen: int, rows: int, confidence: float, shared_by: int = 1) -> float:
    """The largest share under which seeing so few in so many draws is not too unlikely (Clopper and Pearson).

    The doubt, one minus the confidence, is shared by so many bounds. It is inverted as it is: one minus a small doubt
    would lose its digits.

    >>> round(compute_share_bound(0, 1000, 0.95), 5), round(compute_share_bound(5, 100, 0.95), 4)
    (0.00299, 0.1023)
    >>> compute_share_bound(0, 0, 0.95), compute_share_bound(7, 7, 0.95)
    (1.0, 1.0)
    """
    if not 0 <= seen <= rows:
        raise InputError(expected="seen must be between 0 and the number of rows", got=f"{seen} of {rows}")
    if seen == rows:
        return 1.0
    from scipy.special import betaincinv

    return float(1.0 - betaincinv(rows - seen, seen + 1, (1.0 - confidence) / shared_by))


def rung_verdict_to_dict(verdict: RungVerdict) -> dict[str, Any]:
    """A verdict as plain data; ``kind`` names it."""
    if not isinstance(verdict, Bounded):
        return verdict_to_dict(verdict)
    return {
        "kind": "bounded",
        "exceptions": verdict.exceptions,
        "confidence": verdict.confidence,
        "rows": verdict.rows,
        "seen": verdict.seen,
        "shared_by": verdict.shared_by,
    }


def rung_verdict_from_dict(data: Mapping[str, Any]) -> RungVerdict:
    """The verdict that :func:`rung_verdict_to_dict` wrote; raises InputError if a bound is not what its counts give."""
    if data["kind"] != "bounded":
        return verdict_from_dict(data)
    # The counts decide: a bound that was written smaller than they give would claim too much.
    verdict = Bounded.from_counts(data["seen"], data["rows"], data["confidence"], data["shared_by"])
    if abs(verdict.exceptions - data["exceptions"]) > 1e-9:
        expected = f"a bound must follow from its counts: {verdict.exceptions:.6g}"
        raise InputError(expected=expected, got=f"{data['exceptions']!r}")
    return verdict

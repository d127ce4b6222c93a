"""The cheapest counterfactuals of one row, sought together: each changes all the features of no earlier one.

What the second one asks of a forest is nearly what the first one asks: so one search finds and proves several at once.
It keeps a *sequence* of the cheapest counterfactuals so far, each cheaper than the next, of which none changes all the
features of an earlier one. With as many as are wanted, only what costs less than the last one can still be one of them;
and what changes all the features of one of them must cost less than that one, whose place it would take. With these
limits, which only fall, no box has to be looked at twice; when none is left, each of the sequence is the cheapest that
changes all the features of no earlier one.

What is closed once stays closed. So where nothing is left open that could cost less than the first of them, that one is
proven, whatever becomes of the others; ``proven_below`` says how far this has come.

One counterfactual may take the place of several. The limit of the last one stays then as low as it was, and what is
left in the sequence is proven as before; those that are missing need another search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Points

if TYPE_CHECKING:
    from ironrule.backends.forest.change_tables import ChangeTables


class Candidate(NamedTuple):
    """A counterfactual, which may be one of the cheapest."""

    cost: float
    changed: BoolArray  # per feature
    point: Points


@dataclass(slots=True, eq=False)
class CheapestSequence:
    """The cheapest so far; ``limit`` is what any further one must cost less than. Nothing is left that costs less than
    ``proven_below`` and belongs into the sequence.
    """

    wanted: int
    limit: float
    earlier: BoolArray  # sets of features that must not all change, whatever that costs
    candidates: list[Candidate] = field(default_factory=list)
    proven_below: float = -math.inf

    @property
    def points(self) -> list[Points]:
        """The counterfactuals, cheapest first."""
        return [one.point for one in self.candidates]

    @property
    def proven_count(self) -> int:
        """How many of the first are proven, each to be the cheapest that changes all the features of no earlier one."""
        return sum(one.cost <= self.proven_below for one in self.candidates)

    def find_goal(self, bound: float) -> float:
        """What the first one costs that costs more than a bound; infinite if there is none."""
        return next((one.cost for one in self.candidates if one.cost > bound), math.inf)

    def add(self, new: Candidate) -> None:
        """Put one in its place that costs less than its limit; those that it forbids leave."""
        before = [one for one in self.candidates if one.cost <= new.cost]
        after = [one for one in self.candidates if one.cost > new.cost and (new.changed & ~one.changed).any()]
        self.candidates = [*before, new, *after][: self.wanted]
        if len(self.candidates) == self.wanted:
            self.limit = min(self.limit, self.candidates[-1].cost)

    def want_no_more(self) -> None:
        """Be content with as many as there are, but with one at least."""
        self.wanted = max(1, len(self.candidates))
        if self.candidates:
            self.limit = min(self.limit, self.candidates[-1].cost)

    def prepare(self, tables: ChangeTables) -> ChangeTables:
        """Tables with room for the limits of those that others may follow."""
        rows = len(self.earlier) + self.wanted - 1
        forbidden = np.zeros((rows, len(tables.home)), dtype=np.bool_)
        forbidden[: len(self.earlier)] = self.earlier
        limits = np.full(rows, -math.inf)
        return tables._replace(forbidden=forbidden, forbidden_limits=limits)

    def set_limits(self, tables: ChangeTables) -> None:
        """Write all limits into prepared tables."""
        tables.limit[0] = self.limit
        for place in range(self.wanted - 1):
            row = len(self.earlier) + place
            # A row without a counterfactual forbids nothing.
            known = self.candidates[place] if place < len(self.candidates) else None
            tables.forbidden[row] = False if known is None else known.changed
            tables.forbidden_limits[row] = math.inf if known is None else known.cost

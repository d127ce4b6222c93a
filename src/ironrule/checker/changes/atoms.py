"""What one feature of a row can become, as *atoms*: values that are alike for a proof that nothing is cheaper.

An atom is the row's own code; or a run of neighbouring codes between which neither the models nor the constraints
tell; or a *gap*, all numbers between two values of a domain. Atoms lie in the order of the codes. Codes that may not be
chosen are in no atom. An atom costs no more than any value in it, and for bounds a gap stands for the codes at both of
its ends: what the models see of a number in it lies between what they see of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, IntpArray

STAYS, UNDECIDED, CHANGES = 0, 1, 2  # what is known of a feature in a piece


@dataclass(frozen=True, slots=True, eq=False)
class FeatureAtoms:
    """The atoms of one feature: their least costs, ``own`` the row's.

    ``cheapest`` has the cheapest code of each atom, for a gap that of its ends; ``begins`` its first code, or the one
    before the gap.
    Every code stands for the atoms from ``first`` to ``last``; for none where these do not rise. ``below`` and
    ``above`` are the least costs up to, and from, an atom. ``change_costs`` has what it costs to change to each atom,
    which the row's own is not, and an infinite cost behind the last.
    """

    costs: Float64Array
    cheapest: IntpArray
    begins: IntpArray
    is_gap: BoolArray
    own: int
    own_code: int
    first: IntpArray
    last: IntpArray
    below: Float64Array
    above: Float64Array
    change_costs: Float64Array

    @classmethod
    def build(
        cls,
        own: int,
        costs: Float64Array,
        cells: IntpArray,
        gap_costs: Float64Array,
        *,
        ordered_codes: int,
        keeps_codes_apart: bool,
    ) -> FeatureAtoms:
        """``costs`` and ``gap_costs`` are those of every code and of the numbers between it and the next; infinite
        where these may not be chosen, or where there are none. Codes from ``ordered_codes`` on, missing, are atoms of
        their own.
        """
        size = len(costs)
        chosen, has_gap = np.isfinite(costs), np.isfinite(gap_costs)
        chosen[own] = True
        starts = chosen.copy()
        if not keeps_codes_apart:
            alike = chosen[1:] & chosen[:-1] & (cells[1:] == cells[:-1]) & ~has_gap[:-1]
            alike[ordered_codes - 1 :] = False
            alike[max(own - 1, 0) : own + 1] = False
            starts[1:] &= ~alike
        # codes and gaps take turns: item 2c is code c, item 2c + 1 the gap behind it
        begins = np.zeros(2 * size, dtype=np.bool_)
        begins[0::2], begins[1::2] = starts, has_gap
        numbers = np.cumsum(begins) - 1
        of_code, of_gap = np.where(chosen, numbers[0::2], -1), np.where(has_gap, numbers[1::2], -1)
        item_costs = np.full(2 * size, np.inf)
        item_costs[0::2], item_costs[1::2] = np.where(chosen, costs, np.inf), np.where(has_gap, gap_costs, np.inf)
        item_costs[2 * own] = 0.0
        firsts = np.flatnonzero(begins)
        least = np.minimum.reduceat(item_costs, firsts)
        places = np.lexsort((item_costs, numbers.clip(0)))
        cheapest = places[np.searchsorted(numbers.clip(0)[places], np.arange(len(firsts)))]
        first, last = of_code.copy(), of_code.copy()
        before = np.concatenate([[-1], of_gap[:-1]])
        first[before >= 0] = before[before >= 0]
        last[(before >= 0) & (last < 0)] = before[(before >= 0) & (last < 0)]
        first[(of_gap >= 0) & (first < 0)] = of_gap[(of_gap >= 0) & (first < 0)]
        last[of_gap >= 0] = of_gap[of_gap >= 0]
        first[first < 0] = len(firsts)
        own_atom = int(of_code[own])
        change_costs = np.append(least, np.inf)
        change_costs[own_atom] = np.inf
        return cls(
            costs=least,
            # a gap costs what the end of it does that is nearer to the row's own
            cheapest=cheapest // 2 + ((cheapest % 2 == 1) & (cheapest // 2 < own)),
            begins=firsts // 2,
            is_gap=firsts % 2 == 1,
            own=own_atom,
            own_code=own,
            first=first,
            last=last,
            below=np.minimum.accumulate(least),
            above=np.minimum.accumulate(least[::-1])[::-1],
            change_costs=change_costs,
        )

    def __len__(self) -> int:
        return len(self.costs)

    def flag_codes(self, low: IntpArray, high: IntpArray, status: IntpArray) -> BoolArray:
        """For ranges of atoms, without the row's own where a feature changes, the codes that these stand for."""
        flags = (self.first <= high[:, None]) & (self.last >= low[:, None])
        own = self.own_code
        before, after = (self.first[own] < self.own) & (low < self.own), (self.last[own] > self.own) & (high > self.own)
        inside = (low <= self.own) & (self.own <= high)
        beside = (before & (high >= self.own - 1)) | (after & (low <= self.own + 1))
        flags[:, own] = np.where(status == CHANGES, beside, inside)
        flags[status == STAYS] = False
        flags[status == STAYS, own] = True
        return flags

    def find_least_costs(self, low: IntpArray, high: IntpArray) -> Float64Array:
        """For ranges of atoms what the cheapest one costs that is not the row's own; infinite if there is none."""
        ends = np.empty(2 * len(low), dtype=np.intp)
        ends[::2] = np.minimum(low, len(self) - 1)
        ends[1::2] = np.maximum(high, ends[::2]) + 1
        least = np.minimum.reduceat(self.change_costs, ends)[::2]
        return np.where(low <= high, least, np.inf)

    def shrink(
        self, low: IntpArray, high: IntpArray, status: IntpArray, left: Float64Array
    ) -> tuple[IntpArray, IntpArray]:
        """The ranges without the ends that cost no less than what is left; those of features that change do not begin
        or end with the row's own atom.
        """
        low = np.maximum(low, np.searchsorted(-self.below, -left, side="right"))
        high = np.minimum(high, len(self) - 1 - np.searchsorted(-self.above[::-1], -left, side="right"))
        moved = status == CHANGES
        low, high = (
            np.where(moved & (low == self.own), low + 1, low),
            np.where(moved & (high == self.own), high - 1, high),
        )
        return low, high


def combine_cells(cells: Sequence[IntpArray]) -> IntpArray:
    """The cells that several models tell apart together."""
    combined = cells[0]
    for other in cells[1:]:
        combined = np.unique(np.stack([combined, other], axis=1), axis=0, return_inverse=True)[1].ravel()
    return combined

"""Proof covers, the proofs of exact oracles: how one is written down, and how one is extended to a larger box.

A branch and bound leaves a log: its boxes in order, closed or split. :class:`SearchLog` turns it into a cover, and
cells into codes, so that a checker needs to know no cells.

A search that leaves out one component after the other asks about boxes that contain one another, and most of every box
was proven with the one before. What is new are *slabs*: the larger box is cut along the sides of the proven one until
only that is left. :class:`ProofExtender` asks the oracle about the slabs alone; the cover of the whole
(:class:`ExtendedCover`) is made of their covers and of the one that was there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.arrays import Int64Array
from ironrule.model.normal_form.cells import Cells
from ironrule.oracles.protocol import Case, Oracle
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.certificate import NO_SPLIT, Cover, CoverSource, CoverSplit, SplitRange
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class SearchLog:
    """The log of a finished search: its boxes in preorder. An entry is ``NO_SPLIT`` for a closed box, and
    2 * cell + upper for a split after that cell (:func:`_decode_split`).
    """

    cells: Cells
    entries: Int64Array

    @property
    def pieces(self) -> int:
        """How many boxes were closed."""
        # A binary tree with m splits has m + 1 leaves, so 2m + 1 entries.
        return len(self.entries) // 2 + 1

    def cover(self) -> Cover:
        """The cover that this is."""
        # Many boxes are split at the same place: each distinct split is listed once, and the tree holds its number.
        split = self.entries != NO_SPLIT
        distinct, places = np.unique(self.entries[split], return_inverse=True)
        tree = np.full(len(self.entries), NO_SPLIT, dtype=np.int64)
        tree[split] = places.ravel()
        return Cover(tuple(_decode_split(self.cells, entry) for entry in distinct.tolist()), tuple(tree.tolist()))


def _decode_split(cells: Cells, entry: int) -> CoverSplit:
    """A feature, and the codes of the part that was looked at first."""
    # Cells of all features are numbered in one sequence. The lower part has the cells up to this one; `upper` says
    # that the search looked at the part above first.
    cell, upper = divmod(entry, 2)
    feature = int(np.searchsorted(cells.cell_starts, cell, side="right")) - 1
    start, end = cells.code_starts[feature], cells.code_starts[feature + 1]
    low = cells.cell_by_code[start:end] <= cell - cells.cell_starts[feature]
    return feature, _find_code_ranges(~low if upper else low)


def _find_code_ranges(flags: npt.NDArray[np.bool_]) -> tuple[SplitRange, ...]:
    """The runs of neighbouring codes that are in."""
    # Padded with zeros, flags change at the first code of a run and just after its last one: edges come in pairs.
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]])))
    return tuple((first, end - 1) for first, end in edges.reshape(-1, 2).tolist())


MAX_EXPLORED = 1.0 - 2.0**-53
ROUNDING_FACTOR = 1.0 + 1e-9  # more than rounding can take off a share
MAX_SLABS = 3  # more of them cut a box where it should not be cut


class Slab(NamedTuple):
    """A part of the larger box beside the proven one: how it is cut off, and what it is."""

    split: CoverSplit
    box: Box


def cut_into_slabs(box: Box, inner: Box) -> list[Slab]:
    """What a box has around one inside it, in the order in which it is cut off."""
    low, high, slabs = box.low.copy(), box.high.copy(), list[Slab]()
    # `low` and `high` are what is left of the box. Each slab is cut from that, so slabs do not overlap; in the end
    # only the inner box is left.
    for j in np.flatnonzero((inner.low > low) | (inner.high < high)).tolist():
        if inner.low[j] > low[j]:
            slabs.append(_cut_slab(low, high, j, int(low[j]), int(inner.low[j]) - 1))
            low[j] = inner.low[j]
        if inner.high[j] < high[j]:
            slabs.append(_cut_slab(low, high, j, int(inner.high[j]) + 1, int(high[j])))
            high[j] = inner.high[j]
    return slabs


def _cut_slab(low: np.ndarray, high: np.ndarray, feature: int, first: int, last: int) -> Slab:
    ends = Box(low.copy(), high.copy())
    ends.low[feature], ends.high[feature] = first, last
    return Slab((feature, ((first, last),)), ends)


@dataclass(frozen=True, slots=True, eq=False)
class ExtendedCover:
    """The cover of a box: slabs cut off one after the other, each with its own cover, then that of what is left."""

    splits: tuple[CoverSplit, ...]
    slab_covers: tuple[CoverSource, ...]
    inner: CoverSource

    def cover(self) -> Cover:
        """The cover itself."""
        numbers, tree = dict[CoverSplit, int](), list[int]()
        steps, left = list[tuple[CoverSplit, CoverSource]](), self.inner
        extended: ExtendedCover | None = self
        while extended is not None:  # one upon the other, as many as components were left out
            steps += zip(extended.splits, extended.slab_covers, strict=True)
            left = extended.inner
            extended = left if isinstance(left, ExtendedCover) else None
        # Preorder: a split, the cover of its slab, then all that follows is the cover of the rest, down to the
        # innermost box.
        for split, source in steps:
            tree.append(numbers.setdefault(split, len(numbers)))
            tree += _renumber_splits(source.cover(), numbers)
        tree += _renumber_splits(left.cover(), numbers)
        return Cover(tuple(numbers), tuple(tree))


def _renumber_splits(cover: Cover, numbers: dict[CoverSplit, int]) -> Iterable[int]:
    """A cover's tree, with its cuts numbered as in a list that is common to several."""
    places = [numbers.setdefault(split, len(numbers)) for split in cover.splits]
    return (places[place] if place >= 0 else place for place in cover.tree)


@dataclass(slots=True, eq=False)
class ProvenBoxes:
    """Boxes that were proven by covers; those that were looked at before, the largest first."""

    unsorted: list[tuple[Box, Proven]] = field(default_factory=list)
    by_size: list[tuple[float, Box, Proven]] = field(default_factory=list)

    def add(self, box: Box, proof: Proven) -> None:
        """Keep a proof, if it is one that can be extended."""
        if proof.certificate.method == "cover":
            self.unsorted.append((box, proof))

    def find_inside(self, box: Box) -> tuple[Proven, list[Slab]] | None:
        """The largest proven box inside a box that leaves few slabs; None if there is none."""
        # New boxes are sorted in only when needed, by the logarithm of their size, the largest first.
        for inner, proof in self.unsorted:
            size = float(np.log(inner.high - inner.low + 1.0).sum())
            insort(self.by_size, (-size, inner, proof), key=lambda one: one[0])
        self.unsorted.clear()
        # The first box that fits is the largest one: it leaves least to prove.
        for _, inner, proof in self.by_size:
            if (inner.low >= box.low).all() and (inner.high <= box.high).all():
                slabs = cut_into_slabs(box, inner)
                if len(slabs) <= MAX_SLABS:
                    return proof, slabs
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ProofExtender:
    """An oracle about a box that is known to be proven but for some slabs."""

    oracle: Oracle
    proof: Proven
    slabs: list[Slab]

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """``Refuted`` as soon as a slab is, ``Proven`` if all are."""
        verdicts = list[Proven | Unrefuted]()
        # The proven box needs no question. An exception in any slab refutes the whole; the whole is proven if all
        # slabs are.
        for slab in self.slabs:
            try:
                verdict = self.oracle.find(case, slab.box, k, meter, rng)
            except BudgetExhausted as spent:
                raise BudgetExhausted(self._lift_to_box(spent.partial_verdict, case, box)) from None
            if isinstance(verdict, Refuted):
                return verdict
            verdicts.append(verdict)
        proofs = [one for one in verdicts if isinstance(one, Proven)]
        if len(proofs) < len(verdicts):
            return Unrefuted(
                tried=0, samples=0, confidence=0.0, explored=self._compute_explored_share(verdicts, case, box)
            )
        return self._combine_proofs(proofs, case, box)

    def _combine_proofs(self, proofs: list[Proven], case: Case, box: Box) -> Proven:
        """The proof of the whole; one cover for each that the proofs have."""
        # A proof has one cover per compiled model; covers at the same place in the tuples belong together.
        covers = zip(self.proof.certificate.covers, *(one.certificate.covers for one in proofs), strict=True)
        splits = tuple(slab.split for slab in self.slabs)
        extended = tuple(ExtendedCover(splits, tuple(first), inner) for inner, *first in covers)
        points = self.proof.certificate.points + sum(one.certificate.points for one in proofs)
        return case.build_proven(box, points, extended)

    def _compute_explored_share(self, verdicts: Sequence[Verdict], case: Case, box: Box) -> float:
        """At the least, the share of the whole that is proven. Under constraints a slab may hold all that can occur."""
        doubt = 0.0
        # `doubt` is rounded up at each step, so the share that is returned is never too large.
        for slab, verdict in zip(self.slabs, verdicts, strict=True):
            if isinstance(verdict, Unrefuted):
                share = 1.0 if case.feasible.groups else slab.box.size / box.size
                doubt += (1.0 - verdict.explored) * share * ROUNDING_FACTOR
        return max(0.0, min(1.0 - doubt, MAX_EXPLORED))

    def _lift_to_box(self, known: Verdict | None, case: Case, box: Box) -> Verdict | None:
        """What was known of a slab when the budget was spent, as a verdict on the whole: an exception stands; points
        drawn from the only slab that there is bound the whole too, where exceptions are rarer still.
        """
        if not isinstance(known, Unrefuted):
            return known
        if len(self.slabs) > 1:
            return Unrefuted(tried=known.tried, samples=0, confidence=0.0)
        return replace(known, explored=self._compute_explored_share([known], case, box))

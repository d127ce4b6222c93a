"""Proofs that grow: what was proven of a box is not proven again where a larger box is asked about.

A search that leaves out one component after the other asks about boxes that hold one another, and most of every box was
proven with the one before. What is new are slabs: the larger box is cut along the sides of the proven one until that
one is left. Only the slabs are put to the oracle, and the cover of the whole is made of their covers and of the one
that was there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ironrule.oracles.net_unfinished import NEARLY_ALL, SPARE
from ironrule.oracles.protocol import Case, Oracle
from ironrule.rule import Box
from ironrule.verdict import Cover, Cutting, Meter, Proven, Refuted, Spent, Unrefuted, Verdict
from ironrule.verdict.certificate import Split

MOST_SLABS = 3  # more of them cut a box where it should not be cut


class Slab(NamedTuple):
    """A part of the larger box beside the proven one: how it is cut off, and what it is."""

    split: Split
    box: Box


def slabs_of(box: Box, inner: Box) -> list[Slab]:
    """What a box has around one inside it, in the order in which it is cut off."""
    low, high, slabs = box.low.copy(), box.high.copy(), list[Slab]()
    for j in np.flatnonzero((inner.low > low) | (inner.high < high)).tolist():
        if inner.low[j] > low[j]:
            slabs.append(_cut_off(low, high, j, int(low[j]), int(inner.low[j]) - 1))
            low[j] = inner.low[j]
        if inner.high[j] < high[j]:
            slabs.append(_cut_off(low, high, j, int(inner.high[j]) + 1, int(high[j])))
            high[j] = inner.high[j]
    return slabs


def _cut_off(low: np.ndarray, high: np.ndarray, feature: int, first: int, last: int) -> Slab:
    ends = Box(low.copy(), high.copy())
    ends.low[feature], ends.high[feature] = first, last
    return Slab((feature, ((first, last),)), ends)


@dataclass(frozen=True, slots=True, eq=False)
class Grafted:
    """The cover of a box: slabs cut off one after the other, each with its own cover, then that of what is left."""

    splits: tuple[Split, ...]
    first: tuple[Cutting, ...]
    inner: Cutting

    def cover(self) -> Cover:
        """The cover itself."""
        numbers, tree = dict[Split, int](), list[int]()
        steps, left = list[tuple[Split, Cutting]](), self.inner
        grafted: Grafted | None = self
        while grafted is not None:  # one upon the other, as many as components were left out
            steps += zip(grafted.splits, grafted.first, strict=True)
            left = grafted.inner
            grafted = left if isinstance(left, Grafted) else None
        for split, cutting in steps:
            tree.append(numbers.setdefault(split, len(numbers)))
            tree += _renumbered(cutting.cover(), numbers)
        tree += _renumbered(left.cover(), numbers)
        return Cover(tuple(numbers), tuple(tree))


def _renumbered(cover: Cover, numbers: dict[Split, int]) -> Iterable[int]:
    """A cover's tree, with its cuts numbered as in a list that is common to several."""
    places = [numbers.setdefault(split, len(numbers)) for split in cover.splits]
    return (places[place] if place >= 0 else place for place in cover.tree)


@dataclass(slots=True, eq=False)
class Proofs:
    """Boxes that were proven by covers; those that were looked at before, the largest first."""

    new: list[tuple[Box, Proven]] = field(default_factory=list)
    known: list[tuple[float, Box, Proven]] = field(default_factory=list)

    def add(self, box: Box, proof: Proven) -> None:
        """Keep a proof, if it is one that another can be grafted on."""
        if proof.certificate.method == "cover":
            self.new.append((box, proof))

    def inside(self, box: Box) -> tuple[Proven, list[Slab]] | None:
        """The largest proven box inside a box that leaves few slabs; None if there is none."""
        for inner, proof in self.new:
            size = float(np.log(inner.high - inner.low + 1.0).sum())
            insort(self.known, (-size, inner, proof), key=lambda one: one[0])
        self.new.clear()
        for _, inner, proof in self.known:
            if (inner.low >= box.low).all() and (inner.high <= box.high).all():
                slabs = slabs_of(box, inner)
                if len(slabs) <= MOST_SLABS:
                    return proof, slabs
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Beyond:
    """An oracle about a box that is known to be proven but for some slabs."""

    oracle: Oracle
    proof: Proven
    slabs: list[Slab]

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """``Refuted`` as soon as a slab is, ``Proven`` if all are."""
        verdicts = list[Proven | Unrefuted]()
        for slab in self.slabs:
            try:
                verdict = self.oracle.find(case, slab.box, k, meter, rng)
            except Spent as spent:
                raise Spent(self._of_whole(spent.known, case, box)) from None
            if isinstance(verdict, Refuted):
                return verdict
            verdicts.append(verdict)
        proofs = [one for one in verdicts if isinstance(one, Proven)]
        if len(proofs) < len(verdicts):
            return Unrefuted(tried=0, samples=0, confidence=0.0, explored=self._explored(verdicts, case, box))
        return self._grafted(proofs, case, box)

    def _grafted(self, proofs: list[Proven], case: Case, box: Box) -> Proven:
        """The proof of the whole; one cover for each that the proofs have."""
        covers = zip(self.proof.certificate.covers, *(one.certificate.covers for one in proofs), strict=True)
        splits = tuple(slab.split for slab in self.slabs)
        grafted = tuple(Grafted(splits, tuple(first), inner) for inner, *first in covers)
        points = self.proof.certificate.points + sum(one.certificate.points for one in proofs)
        return case.proven(box, points, grafted)

    def _explored(self, verdicts: Sequence[Verdict], case: Case, box: Box) -> float:
        """At the least, the share of the whole that is proven. Under constraints a slab may hold all that can occur."""
        doubt = 0.0
        for slab, verdict in zip(self.slabs, verdicts, strict=True):
            if isinstance(verdict, Unrefuted):
                share = 1.0 if case.feasible.groups else slab.box.size / box.size
                doubt += (1.0 - verdict.explored) * share * SPARE
        return max(0.0, min(1.0 - doubt, NEARLY_ALL))

    def _of_whole(self, known: Verdict | None, case: Case, box: Box) -> Verdict | None:
        """What was known of a slab when the budget was spent, as a verdict on the whole: an exception stands; points
        drawn from the only slab that there is bound the whole too, where exceptions are rarer still.
        """
        if not isinstance(known, Unrefuted):
            return known
        if len(self.slabs) > 1:
            return Unrefuted(tried=known.tried, samples=0, confidence=0.0)
        return replace(known, explored=self._explored([known], case, box))

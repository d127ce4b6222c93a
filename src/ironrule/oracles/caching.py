"""Cache an oracle's answers during one search.

A search asks about many overlapping boxes. This wrapper asks the wrapped oracle only when it must:

1. the same box was answered before: return that answer, unless it was undecided and the search asks with other effort;
2. a counterfactual found earlier lies in the box: the box is refuted by it (a counterfactual without useless changes
   has none in any box that contains it, so it needs no more work);
3. the wrapped oracle only searches (it cannot prove), and an enclosing box was searched without success: do not search
   again. An exact oracle is asked all the same: what it could not decide on the whole it may well prove of a part.

A new counterfactual invalidates every cached "nothing found" whose box contains it.

A search that leaves out one component after the other asks about boxes that contain one another, and most of every box
was proven with the one before. What is new are *slabs*: the larger box is cut along the sides of the proven one until
only that is left. Where proofs are expensive, :class:`ProofExtender` asks the oracle about the slabs alone; the cover
of the whole (:class:`ExtendedCover`) is made of their covers and of the one that was there. Where the numbers between
two values count and only a box with both values speaks of them, a slab is asked about up to the proven box's own side.
In the cover of the whole, pieces reach up to the next value, so this side is cut off from the first of the two.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import IronruleError
from ironrule.oracles.protocol import (
    NO_CAPABILITIES,
    BoxQuery,
    Capabilities,
    Case,
    CompleteDuals,
    MiningRequest,
    MiningResult,
    Oracle,
    Run,
)
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.certificate import Cover, CoverSource, CoverSplit
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Unrefuted, Verdict

MAX_EXPLORED = 1.0 - 2.0**-53
ROUNDING_FACTOR = 1.0 + 1e-9  # more than rounding can take off a share
MAX_SLABS = 3  # more of them cut a box where it should not be cut


class Slab(NamedTuple):
    """A part of the larger box beside the proven one: how it is cut off, and what it is."""

    split: CoverSplit
    box: Box


GapTest = Callable[[int, int], bool]  # of a feature and a code; see ExtendingOracle.has_gap_after


def cut_into_slabs(box: Box, inner: Box, has_gap_after: GapTest) -> list[Slab] | None:
    """What a box has around one inside it, in the order in which it is cut off; None if nothing of that can stay."""
    low, high, slabs = box.low.copy(), box.high.copy(), list[Slab]()
    # `low` and `high` are what is left of the box. Each slab is cut from that, so slabs do not overlap; in the end
    # only the inner box is left. Beside a gap a slab's box begins, or ends, with the side of the inner box.
    for j in np.flatnonzero((inner.low > low) | (inner.high < high)).tolist():
        first, last = int(inner.low[j]), int(inner.high[j])
        if first > low[j]:
            ends = (int(low[j]), first if has_gap_after(j, first - 1) else first - 1)
            slabs.append(_cut_slab(low, high, j, codes=(int(low[j]), first - 1), ends=ends))
            low[j] = first
        if last < high[j]:
            start = last if has_gap_after(j, last) else last + 1
            if start == first:  # of the inner box a single value would be left, and the slab has it too
                return None
            slabs.append(_cut_slab(low, high, j, codes=(start, int(high[j])), ends=(start, int(high[j]))))
            high[j] = last
    return slabs


def _cut_slab(
    low: np.ndarray, high: np.ndarray, feature: int, *, codes: tuple[int, int], ends: tuple[int, int]
) -> Slab:
    """A slab that has some codes of a feature, and whose box has those from end to end."""
    box = Box(low.copy(), high.copy())
    box.low[feature], box.high[feature] = ends
    return Slab((feature, (codes,)), box)


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

    def find_inside(self, box: Box, has_gap_after: GapTest) -> tuple[Proven, list[Slab]] | None:
        """The largest proven box inside a box that leaves few slabs; None if there is none."""
        # New boxes are sorted in only when needed, by the logarithm of their size, the largest first.
        for inner, proof in self.unsorted:
            size = float(np.log(inner.high - inner.low + 1.0).sum())
            insort(self.by_size, (-size, inner, proof), key=lambda entry: entry[0])
        self.unsorted.clear()
        # The first box that fits is the largest one: it leaves least to prove.
        for _, inner, proof in self.by_size:
            if (inner.low >= box.low).all() and (inner.high <= box.high).all():
                # One slab for every side that differs; they are cut only where they are few.
                sides = np.count_nonzero(inner.low > box.low) + np.count_nonzero(inner.high < box.high)
                slabs = cut_into_slabs(box, inner, has_gap_after) if sides <= MAX_SLABS else None
                if slabs is not None:
                    return proof, slabs
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ProofExtender:
    """An oracle about a box that is known to be proven but for some slabs."""

    oracle: Oracle
    proof: Proven
    slabs: list[Slab]
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """``Refuted`` as soon as a slab is, ``Proven`` if all are."""
        case, box, verdicts = query.case, query.box, list[Proven | Unrefuted]()
        # The proven box needs no question. An exception in any slab refutes the whole; the whole is proven if all
        # slabs are.
        for slab in self.slabs:
            try:
                verdict = self.oracle.find(BoxQuery(case, slab.box, query.k, query.effort), run)
            except BudgetExhausted as spent:
                raise BudgetExhausted(self._lift_to_box(spent.partial_verdict, case, box)) from None
            if isinstance(verdict, Refuted):
                return verdict
            verdicts.append(verdict)
        proofs = [verdict for verdict in verdicts if isinstance(verdict, Proven)]
        if len(proofs) < len(verdicts):
            return replace(NOT_SEARCHED, explored=self._compute_explored_share(verdicts, case, box))
        return self._combine_proofs(proofs, case, box)

    def _combine_proofs(self, proofs: list[Proven], case: Case, box: Box) -> Proven:
        """The proof of the whole; one cover for each that the proofs have."""
        # A proof has one cover per compiled model; covers at the same place in the tuples belong together.
        covers = zip(self.proof.certificate.covers, *(proof.certificate.covers for proof in proofs), strict=True)
        splits = tuple(slab.split for slab in self.slabs)
        extended = tuple(ExtendedCover(splits, tuple(first), inner) for inner, *first in covers)
        points = self.proof.certificate.points + sum(proof.certificate.points for proof in proofs)
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

    def _lift_to_box(self, verdict: Verdict | None, case: Case, box: Box) -> Verdict | None:
        """What was known of a slab when the budget was spent, as a verdict on the whole: an exception stands; points
        drawn from the only slab that there is bound the whole too, where exceptions are rarer still.
        """
        if not isinstance(verdict, Unrefuted):
            return verdict
        if len(self.slabs) > 1:
            return replace(NOT_SEARCHED, tried=verdict.tried)
        return replace(verdict, explored=self._compute_explored_share([verdict], case, box))


MAX_COMPARED_POINTS = 40  # points that are compared with all that are known


@dataclass(slots=True, eq=False)
class CachingOracle:
    """The answers of an oracle during one search."""

    oracle: Oracle
    answers: dict[bytes, tuple[Box, Verdict]] = field(default_factory=dict)
    points: Points | None = None
    undecided: set[bytes] = field(default_factory=set)  # which of these were searched in vain
    searched: list[Box] = field(default_factory=list)  # boxes that the oracle itself has searched in vain
    has_all_duals: bool = False  # whether the points speak for all counterfactuals
    exact: bool = False  # whether the oracle reads the model: then its answer is worth more than any sample
    proven_boxes: ProvenBoxes = field(default_factory=ProvenBoxes)
    wrapped: Capabilities = field(init=False)  # what the oracle can do, read once

    def __post_init__(self) -> None:
        self.wrapped = self.oracle.capabilities

    @property
    def capabilities(self) -> Capabilities:
        """Those of the oracle, except that what it mines or lists is kept here, and that proofs are extended here."""
        own = self.wrapped
        return Capabilities(own.adjustable_effort, own.miner and self, own.enumerator and self)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """The answer known for this box, a known counterfactual that lies in it, or else the oracle's.

        What was left undecided is tried anew where the query says with what effort, and the oracle heeds that.
        """
        if query.effort is not None and self.wrapped.adjustable_effort is None:
            query = BoxQuery(query.case, query.box, query.k)
        verdict = self.lookup(query.box)
        # A proof or a counterfactual is final; "undecided" is not, since more effort may decide the box.
        if verdict is None or (query.effort is not None and isinstance(verdict, Unrefuted)):
            verdict = self._infer(query) or self._ask(query, run)
            self._store(query.box, verdict)
        return verdict

    def lookup(self, box: Box) -> Verdict | None:
        """The answer known for a box, if it was asked about."""
        _, verdict = self.answers.get(_build_box_key(box), (box, None))
        return verdict

    def enumerate_duals(self, case: Case, run: Run) -> CompleteDuals | None:
        """Counterfactuals that speak for all, where the oracle can name them; they are kept in the cache."""
        enumerator = self.wrapped.enumerator
        complete = None if enumerator is None else enumerator.enumerate_duals(case, run)
        if complete is not None:
            run.meter.events["oracle calls"] += 1
            self._add_points(complete.points)
            self.has_all_duals = True
        return complete

    def mine(self, case: Case, request: MiningRequest, rounds: int, run: Run) -> Iterator[MiningResult]:
        """Counterfactuals that are easily found, in portions; they and any proofs are kept in the cache."""
        miner, meter = self.wrapped.miner, run.meter
        if miner is None:
            return
        # Each portion is stored before it is handed on: if the search stops here, its counterfactuals and proofs are
        # kept.
        for portion in miner.mine(case, request, rounds, run):
            meter.events["oracle calls"] += len(portion.points)
            meter.events["boxes"] += portion.boxes
            if len(portion.points):
                self._add_points(portion.points)
            if portion.proof is not None and portion.rule is not None:
                meter.events["oracle calls"] += 1
                box = case.components.box(portion.rule)
                verdict = case.build_proven(box, portion.pieces, (portion.proof,))
                self._store(box, verdict)
                self.proven_boxes.add(box, verdict)
            yield portion
            meter.check()

    def add_counterfactuals(self, points: Points) -> None:
        """Remember counterfactuals that were found elsewhere; what was thought unrefuted must be asked again."""
        self._add_points(points)
        self._invalidate(lambda _: True)

    def _infer(self, query: BoxQuery) -> Verdict | None:
        """What follows from earlier answers. An oracle that can list all duals is as quick itself, so it is asked."""
        if self.has_all_duals:
            return None
        return self._infer_from_points(query) or (None if self.exact else self._infer_from_larger(query.box))

    def _infer_from_points(self, query: BoxQuery) -> Refuted | None:
        if self.points is None:
            return None
        inside = self.points[query.box.contains(self.points)]
        if len(inside) == 0:
            return None
        # Those that change the fewest features come first: they usually have small duals, which demand most of a
        # rule.
        nearest = np.argsort(np.count_nonzero(inside != query.case.instance, axis=1), kind="stable")
        return query.case.build_refuted(inside[nearest[: query.k]])

    def _infer_from_larger(self, box: Box) -> Verdict | None:
        """``Unrefuted`` if a larger box was searched without success. Proofs are not inherited."""
        # A search of a larger box that found nothing has looked at this box too.
        known = any((larger.low <= box.low).all() and (larger.high >= box.high).all() for larger in self.searched)
        return NOT_SEARCHED if known else None

    def _ask(self, query: BoxQuery, run: Run) -> Verdict:
        run.meter.events["oracle calls"] += 1
        oracle, box, extender = self.oracle, query.box, self.wrapped.extender
        # If a large part of the box is proven already, only the slabs around it are asked about.
        if extender is not None:
            inner = self.proven_boxes.find_inside(box, extender.has_gap_after)
            oracle = oracle if inner is None else ProofExtender(extender, *inner)
        try:
            verdict = oracle.find(query, run)
        # What the oracle had when the budget ended is stored, so that the final answer can use it; then the search
        # stops.
        except BudgetExhausted as spent:
            if spent.partial_verdict is not None:
                self._store(box, spent.partial_verdict)
            if isinstance(spent.partial_verdict, Refuted):
                self._add_points(spent.partial_verdict.points)
            raise
        if isinstance(verdict, Refuted):
            if not box.contains(verdict.points).all():
                wrong = "an oracle answered with points outside the box that it was asked about"
                raise IronruleError(wrong, hint="please report this model")
            self._add_points(verdict.points)
            # The oracle stopped early but has counterfactuals: they are kept, and the search is stopped now.
            if verdict.stopped:
                raise BudgetExhausted if verdict.stopped == "budget" else KeyboardInterrupt
        elif isinstance(verdict, Unrefuted):
            self.searched.append(box)
        else:
            self.proven_boxes.add(box, verdict)
        return verdict

    def _add_points(self, points: Points) -> None:
        known = self.points
        if known is None:
            self.points = points
        # Many new points: sort and remove duplicates. Few: compare each with all known ones, which keeps their order.
        elif len(points) > MAX_COMPARED_POINTS:
            self.points = np.unique(np.concatenate([known, points]), axis=0)
        else:
            new = ~(known == points[:, None, :]).all(axis=2).any(axis=1)
            self.points = np.concatenate([known, points[new]])
        # "Nothing found" is now wrong for every box that holds one of these points.
        self._invalidate(lambda box: bool(box.contains(points).any()))

    def _store(self, box: Box, verdict: Verdict) -> None:
        key = _build_box_key(box)
        self.answers[key] = (box, verdict)
        if isinstance(verdict, Unrefuted):
            self.undecided.add(key)
        else:
            self.undecided.discard(key)

    def _invalidate(self, refuted: Callable[[Box], bool]) -> None:
        """Forget all "nothing found" answers about boxes for which ``refuted`` is true."""
        gone = {key for key in self.undecided if refuted(self.answers[key][0])}
        self.undecided -= gone
        for key in gone:
            del self.answers[key]
        self.searched = [box for box in self.searched if not refuted(box)]


def _build_box_key(box: Box) -> bytes:
    return box.low.tobytes() + box.high.tobytes()

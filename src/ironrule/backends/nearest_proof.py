"""Prove that counterfactuals which are nearest among the values of the domains are nearest among all numbers.

Where the decision may turn between two values of a domain (in a gap), a nearer counterfactual may lie there. A
counterfactual that changes s features is the nearest if

- no set of fewer features has a counterfactual, over all numbers; and
- no set of s features has one that is nearer.

Sets with all the features of an earlier counterfactual are left out, and so are sets without gaps, of which all values
were looked at. For every other set this is branch and bound: its points are a box, and a box has a least distance.
The nearest box is put to the exact oracle. If it is proven to hold no counterfactual, it is closed; if not, it is cut
in two, and the halves share the value at the cut where numbers lie beside it, so that nothing is left out. Boxes are
first cut where the distance of interest ends, since what lies beyond may well hold counterfactuals.

A box with nothing left to cut but gaps stays open. So one stays open just before what was found, and the *resolution*
is by how much its least distance falls short: nothing is nearer by more than that. This holds whenever the proof is
ended, so the resolution is made finer in a few rounds, as time permits.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.model.intervals import Gaps
from ironrule.oracles.geco.candidates import tabulate_distances
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Proven
from ironrule.wording import round_share_up

MAX_RESOLUTION = 0.05  # of the range of a number: what is only known more coarsely is not called the nearest
ROUNDS = (MAX_RESOLUTION, 0.01, 0.0)  # resolutions that are tried one after the other
EFFORT = 0.02  # per question, of what the oracle usually spends: a box that it cannot close is cut instead
MAX_QUESTIONS = 5_000  # in one proof
TIME_SHARE = 0.8  # of a budget's seconds: numbers are still to be rounded


@dataclass(frozen=True, slots=True)
class IntervalProof:
    """The first ``count`` counterfactuals are nearest to within the resolution, a share of the range of each number;
    ``stopped`` says what ended the proof early.
    """

    count: int
    resolution: float = 0.0
    stopped: str | None = None


class ProofLimitReached(Exception):  # noqa: N818  # control flow inside a proof, never seen by users
    """A proof has asked as many questions, or taken as long, as it may."""


@dataclass(order=True, slots=True)
class OpenBox:
    """A box that may hold a counterfactual, by the least distance of its points."""

    distance: float
    number: int
    box: Box = field(compare=False)


@dataclass(slots=True)
class ChangeRegion:
    """All points that change some features and no others: the boxes of it that are not closed, as a heap."""

    features: tuple[int, ...]
    boxes: list[OpenBox]
    is_stuck: bool = False  # the nearest box can neither be closed nor cut

    @property
    def distance(self) -> float:
        """The least distance of what is not closed."""
        return self.boxes[0].distance if self.boxes else math.inf


@dataclass(slots=True)
class NearestProver:
    """Closes regions, with the help of an exact oracle."""

    case: Case
    oracle: Oracle
    run: Run
    low: Points  # the ends of what may change, per feature
    high: Points
    gap_after: tuple[BoolArray, ...]  # per feature and code, whether the decision may turn before the next one
    distances: tuple[Float64Array, ...]  # per feature and code
    regions: dict[tuple[int, ...], ChangeRegion] = field(default_factory=dict)
    questions: int = 0
    box_count: int = 0

    @classmethod
    def build(
        cls, oracle: Oracle, gaps: Gaps, query: BoxQuery, permitted: Sequence[Int64Array], run: Run
    ) -> NearestProver:
        """Nothing is closed yet; ``permitted`` are the codes of every feature that it may change to."""
        case = query.case
        instance, sizes = case.instance.tolist(), case.space.sizes.tolist()
        ends = [[own, *codes[:1], *codes[-1:]] for own, codes in zip(instance, permitted, strict=True)]
        no_gaps = [np.zeros(size, dtype=np.bool_) for size in sizes]  # the last value, and missing, have none
        pairs = zip(gaps.turning_gaps, no_gaps, strict=True)
        distances = map(tabulate_distances, case.space.features, instance)
        return cls(
            case,
            oracle,
            run,
            low=np.array([min(some) for some in ends]),
            high=np.array([max(some) for some in ends]),
            gap_after=tuple(np.concatenate([some, none[len(some) :]]) for some, none in pairs),
            distances=tuple(distances),
        )

    def find_resolution(self, point: Points, earlier: Sequence[frozenset[int]]) -> float:
        """By how much a counterfactual may be nearer than a point; infinite if one with fewer changes may be left."""
        changed = np.flatnonzero(point != self.case.instance).tolist()
        if not all(self._is_empty(chosen) for chosen in self._list_smaller_sets(len(changed), earlier)):
            return math.inf
        distance = sum(float(self.distances[j][point[j]]) for j in changed)
        regions = [self._get_region(chosen) for chosen in self.list_sets(len(changed), earlier)]
        try:
            for resolution in ROUNDS:
                limit = distance - resolution
                for region in regions:
                    self.close(region, limit)
                    limit = min(limit, region.distance)  # nothing finer can be claimed
        except ProofLimitReached:
            pass  # what is proven by now holds
        return max([0.0, *(distance - region.distance for region in regions)])

    def list_sets(self, size: int, earlier: Sequence[frozenset[int]]) -> Iterator[tuple[int, ...]]:
        """The sets of so many features of which one has gaps, none with all the features of an earlier change."""
        for chosen in itertools.combinations(np.flatnonzero(self.low < self.high).tolist(), size):
            gaps = any(self.gap_after[j][self.low[j] : self.high[j]].any() for j in chosen)
            if gaps and not any(some.issubset(chosen) for some in earlier):
                yield chosen

    def _list_smaller_sets(self, size: int, earlier: Sequence[frozenset[int]]) -> Iterator[tuple[int, ...]]:
        """The sets of fewer features, the largest first, without those that a larger one has settled."""
        for smaller in range(size - 1, 0, -1):
            for chosen in self.list_sets(smaller, earlier):
                if not any(not one.boxes and {*chosen} <= {*one.features} for one in self.regions.values()):
                    yield chosen

    def _is_empty(self, chosen: tuple[int, ...]) -> bool:
        """Whether no change of some features, however large, is a counterfactual, as far as can be proven."""
        region = self._get_region(chosen)
        self.close(region, math.inf)
        return not region.boxes

    def _get_region(self, chosen: tuple[int, ...]) -> ChangeRegion:
        if chosen not in self.regions:
            low, high = self.case.instance.astype(np.int32), self.case.instance.astype(np.int32)
            low[list(chosen)], high[list(chosen)] = self.low[list(chosen)], self.high[list(chosen)]
            self.regions[chosen] = ChangeRegion(chosen, [OpenBox(0.0, 0, Box(low, high))])
        return self.regions[chosen]

    def close(self, region: ChangeRegion, limit: float) -> None:
        """Close what is nearer than the limit, or as much of it as can be closed."""
        while region.distance < limit and not region.is_stuck:
            nearest = region.boxes[0]  # it stays there until more is known
            cut = self._find_border(region, nearest, limit)
            if cut is None:
                if self._has_no_counterfactual(nearest.box):
                    heapq.heappop(region.boxes)
                    continue
                cut = self._find_middle(region, nearest.box)
            if cut is None:
                region.is_stuck = True
                return
            heapq.heappop(region.boxes)
            for half in self._cut(nearest.box, *cut):
                self.box_count += 1
                heapq.heappush(region.boxes, OpenBox(self._measure(region, half), self.box_count, half))

    def _has_no_counterfactual(self, box: Box) -> bool:
        seconds = self.run.meter.budget.seconds
        if self.questions >= MAX_QUESTIONS or (seconds and self.run.meter.elapsed > TIME_SHARE * seconds):
            raise ProofLimitReached
        self.questions += 1
        return isinstance(self.oracle.find(BoxQuery(self.case, box, effort=EFFORT), self.run), Proven)

    def _measure(self, region: ChangeRegion, box: Box) -> float:
        """The least distance of a box. Between two values it is no less than at the nearer one."""
        return sum(float(self.distances[j][box.low[j] : box.high[j] + 1].min()) for j in region.features)

    def _find_border(self, region: ChangeRegion, nearest: OpenBox, limit: float) -> tuple[int, int] | None:
        """A feature and the code after which to cut, so that one half lies beyond the limit or will do so soon."""
        for j in region.features:
            low, high = int(nearest.box.low[j]), int(nearest.box.high[j])
            apart, gaps = self.distances[j][low : high + 1], self.gap_after[j]
            # The codes of this feature at which the box, all else at its nearest, is nearer than the limit.
            inside = np.flatnonzero(nearest.distance - apart.min() + apart < limit) + low
            if not len(inside):  # the limit is just here, by rounding
                continue
            first, last = int(inside[0]), int(inside[-1])
            # Where a gap follows the code of a cut, both halves have that code, since the gap is between them. A cut at
            # the end of the box would leave it as it is: then the cut is one code further in.
            if last < high:
                code = last if last > low or not gaps[last] else last + 1
                if code < high:
                    return j, code
            if first > low:
                code = first if first < high and gaps[first - 1] else first - 1
                if code > low or not gaps[code]:
                    return j, code
        return None

    def _find_middle(self, region: ChangeRegion, box: Box) -> tuple[int, int] | None:
        """The feature with the largest part of its domain in a box, and its middle code; None if only gaps are left."""
        widest, found = 0.0, None
        for j in region.features:
            low, high = int(box.low[j]), int(box.high[j])
            share = (high - low) / len(self.distances[j])
            if share > widest and (high - low > 1 or not self.gap_after[j][low]):
                widest, found = share, (j, (low + high) // 2)
        return found

    def _cut(self, box: Box, feature: int, code: int) -> tuple[Box, Box]:
        """Two halves of a box, which together have all its numbers."""
        high, low = box.high.copy(), box.low.copy()
        high[feature], low[feature] = code, code if self.gap_after[feature][code] else code + 1
        return Box(box.low, high), Box(low, box.high)


def prove_over_intervals(
    oracle: Oracle, gaps: Gaps, query: BoxQuery, points: Points, permitted: Sequence[Int64Array], run: Run
) -> IntervalProof:
    """How many of some counterfactuals, nearest first among the values of the domains, are nearest over all numbers.

    ``permitted`` are the codes of every feature, beside the instance's own, that it may change to. No constraint may
    hold for a number between two values and not at both (``Gaps.are_respected_by``).
    """
    prover = NearestProver.build(oracle, gaps, query, permitted, run)
    earlier, resolution, stopped = list[frozenset[int]](), 0.0, None
    try:
        for point in points:
            found = prover.find_resolution(point, earlier)
            if found > MAX_RESOLUTION:
                break
            resolution = max(resolution, found)
            earlier.append(frozenset(np.flatnonzero(point != query.case.instance).tolist()))
    except ProofLimitReached:
        pass  # those before are proven
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        stopped = name_stop(stop, run.meter)
    return IntervalProof(len(earlier), round_share_up(resolution), stopped)

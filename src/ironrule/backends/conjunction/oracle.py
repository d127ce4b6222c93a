"""The exact oracle for several models that must all desire a point: branch and bound over boxes.

A box holds no counterfactual if one model is proven to desire none of its points. So each model's own oracle is asked
about a box, for a short while. If none closes it, what they found is put to all models; a point that all of them desire
is a counterfactual. Otherwise the box is cut where two of the points found lie apart, since each model desires what is
near its own, and both halves are looked at.

Where the decision may turn between two values of a domain, the halves share the value at the cut, so that the numbers
beside it are left out of neither. A proof of one model over all numbers of a box is one for all models. A box of which
nothing but such gaps is left to cut stays undecided, unless a counterfactual is found elsewhere.

The oracle of one model may ask "the model" about a point that rounding could turn. What all models say of that point
says nothing of the other points that this model takes for the same. So it is told "desired" every time, which closes
nothing: such boxes are cut down to single points, and these are put to all models.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.oracles.protocol import BoxQuery, Capabilities, Case, Oracle, Run, find_disjoint_counterfactuals
from ironrule.rule.box import Box
from ironrule.verdict.certificate import NO_SPLIT, Cover
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Verdict

LIMIT = 4_000  # boxes per query
LOW_EFFORT_LIMIT = 4
EFFORT = 0.02  # of what the oracle of one model usually spends on a query
MAX_UNDECIDED = 64  # boxes that can neither be closed nor cut, before a query is given up
MAX_TRIED = 64  # past rows, and corners of a box, that are tried
WHOLE_BOX = Cover((), (NO_SPLIT,))


@dataclass(frozen=True, slots=True)
class EverythingDesired:
    """A model that desires every point."""

    def desired(self, points: Points) -> BoolArray:
        """All of them."""
        return np.ones(len(points), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class ConjunctionOracle:
    """Asks the oracles of all models; ``decide`` says which points all of them may desire, and which they surely do.
    ``gaps`` says per feature and value whether the decision may turn before the next value.
    """

    oracles: tuple[Oracle, ...]
    decide: Callable[[Points], tuple[BoolArray, BoolArray]]
    gaps: tuple[BoolArray, ...]
    limit: int = LIMIT

    @property
    def capabilities(self) -> Capabilities:
        """Its effort can be adjusted."""
        return Capabilities(adjustable_effort=self)

    @property
    def low_effort(self) -> ConjunctionOracle:
        """The same for further counterfactuals, which nothing depends on."""
        return replace(self, limit=LOW_EFFORT_LIMIT)

    @property
    def medium_effort(self) -> ConjunctionOracle:
        """The same."""
        return self

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` at the limit."""
        answer = self.find_or_prove(query, run)
        if answer is None:
            return NOT_SEARCHED
        if isinstance(answer, tuple):
            return query.case.build_proven(query.box, len(answer), answer)
        return query.case.build_refuted(find_disjoint_counterfactuals(answer, self, query, run))

    def find_or_prove(self, query: BoxQuery, run: Run) -> Points | tuple[Cover, ...] | None:
        """A counterfactual, what proves that there is none, or None where a limit was reached.

        A checker proves counterfactuals by a search of its own, so that the cover does not say where boxes were cut.
        """
        limit = self.limit if query.effort is None else max(LOW_EFFORT_LIMIT, int(self.limit * query.effort))
        asked = replace(query.case, model=EverythingDesired())
        found = self._try_points(query.case, query.box, query.box.clip(query.case.history.seeds[:MAX_TRIED]), run)
        boxes, count, undecided = [query.box], 0, 0
        while boxes and found is None and count < limit and undecided < MAX_UNDECIDED:
            run.meter.check()
            box, count = boxes.pop(), count + 1
            if (box.low == box.high).all():
                found = self._try_points(query.case, box, box.low[None, :], run)
                continue
            near = self._find_near(replace(query, case=asked, box=box, k=1, effort=EFFORT), run)
            if near is None:
                continue
            found = self._try_points(query.case, box, near, run)
            cut = self._find_cut(box, near)
            if found is None and cut is None:  # nothing but gaps is left: an end of them may do, or it stays open
                found = self._try_points(query.case, box, np.stack([*_iterate_corners(box)]), run)
                undecided += 1
            elif cut is not None:
                boxes += self._cut(box, *cut)
        if found is not None:
            return found
        return (WHOLE_BOX,) if not boxes and not undecided else None

    def _find_near(self, query: BoxQuery, run: Run) -> Points | None:
        """What each model desires in a box, as far as it was found; None if one is proven to desire nothing there."""
        points = [np.empty((0, len(query.box.low)), dtype=np.int32)]
        for oracle in self.oracles:
            answer = oracle.find(query, run)
            if isinstance(answer, Proven):
                return None
            if isinstance(answer, Refuted):
                points.append(answer.points[:1])
        return np.concatenate(points)

    def _try_points(self, case: Case, box: Box, points: Points, run: Run) -> Points | None:
        """The first point of a box that can occur and that all models desire; the models themselves say so where their
        readings cannot.
        """
        points = np.asarray(points, dtype=np.int32)
        points = points[box.contains(points)] if len(points) else points
        points = points[case.feasible.admits(points)] if len(points) else points
        if not len(points):
            return None
        possible, sure = self.decide(points)
        unsure = np.flatnonzero(possible & ~sure)
        if not sure.any() and len(unsure):
            sure = sure.copy()
            sure[unsure] = run.meter.desired(case.model, points[unsure])
        return points[int(np.argmax(sure))] if sure.any() else None

    def _find_cut(self, box: Box, near: Points) -> tuple[int, int] | None:
        """A feature and the code after which to cut: between two points that different models desire, where these are
        far apart, or in the middle of the longest range; None where only gaps are left.
        """
        length = (box.high - box.low).astype(np.int64)
        share = length / np.maximum([len(gaps) for gaps in self.gaps], 1)
        can_be_cut = np.array([self._divides(j, box, int(box.low[j])) for j in range(len(length))])
        if not can_be_cut.any():
            return None
        if len(near) > 1:
            apart = np.where(can_be_cut, np.abs(near[0] - near[1]) / np.maximum(length, 1), 0.0)
            j = int(np.argmax(apart * np.maximum(share, 1e-9)))
            middle = int(near[:2, j].sum()) // 2
            if apart[j] > 0.0 and self._divides(j, box, middle):
                return j, middle
        j = int(np.argmax(np.where(can_be_cut, np.maximum(share, 1e-9), 0.0)))
        middle = int(box.low[j] + length[j] // 2)
        return j, middle if self._divides(j, box, middle) else int(box.low[j])

    def _has_gap(self, j: int, code: int) -> bool:
        return code < len(self.gaps[j]) and bool(self.gaps[j][code])

    def _divides(self, j: int, box: Box, code: int) -> bool:
        """Whether both parts of a cut after a code are smaller than the whole."""
        low, high = int(box.low[j]), int(box.high[j])
        if code > low:
            return code < high
        return high - low > 1 or (low < high and not self._has_gap(j, code))

    def _cut(self, box: Box, j: int, code: int) -> tuple[Box, Box]:
        """Two parts of a box, which together have all its numbers."""
        if self._has_gap(j, code) and code == box.low[j]:
            code += 1  # the gap behind the first value belongs to the first part, with the value after it
        first_high, second_low = box.high.copy(), box.low.copy()
        first_high[j], second_low[j] = code, code if self._has_gap(j, code) else code + 1
        return Box(box.low, first_high), Box(second_low, box.high)


def _iterate_corners(box: Box) -> Iterator[Points]:
    """Corners of a box, of which only a few values are left."""
    ends = [sorted({low, high}) for low, high in zip(box.low.tolist(), box.high.tolist(), strict=True)]
    for corner in itertools.islice(itertools.product(*ends), MAX_TRIED):
        yield np.array(corner, dtype=np.int32)

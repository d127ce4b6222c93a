"""The exact oracle for models read as forests: branch and bound over cells, with a proof at its end.

Its counterfactuals lie where the model's own arithmetic cannot turn the decision; a point where it could is put to
the model itself. Each counterfactual is pulled back towards the instance, which makes its dual small; further ones
are sought where the duals of those found are excluded, so that all are disjoint and every hitting set needs one
component for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.model.forest import Forest, cells_at
from ironrule.oracles.climbing_kernels import Desk, climb, nearest_codes, pull_back
from ironrule.oracles.ensemble_kernels import FOUND, OUT_OF_BUDGET, PROVEN, UNSURE, deny, open_box, search
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Certificate, Meter, Proven, Unrefuted, Verdict

Ints = npt.NDArray[np.int64]
DEPTH = 1024
CHUNK = 20_000
SWEEPS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Decides boxes for a model read as forests, one per alternative; ``limit`` boxes are looked at per query."""

    forests: tuple[Forest, ...]
    limit: int = 5_000_000

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` if the limit is
        reached.
        """
        found: list[Points] = []
        here, seen = box, 0
        while len(found) < k:
            point, boxes, decided = self._one(case, here, meter, rng)
            seen += boxes
            if point is None:
                if found:
                    break
                if not decided:
                    return Unrefuted(tried=0, samples=0, confidence=0.0)
                return Proven(Certificate("branch and bound", seen, case.space.fingerprint))
            found.append(point)
            here = _without(case, here, point)
        return case.refuted(np.stack(found))

    def _one(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> tuple[Points | None, int, bool]:
        """One counterfactual, how many boxes were looked at, and whether the question was decided."""
        seen, decided = 0, True
        for forest in self.forests:
            point, boxes, sure = self._in_forest(forest, case, box, meter, rng)
            seen += boxes
            if point is not None:
                return point, seen, True
            decided &= sure
        return None, seen, decided

    def _in_forest(
        self, forest: Forest, case: Case, box: Box, meter: Meter, rng: np.random.Generator
    ) -> tuple[Points | None, int, bool]:
        desk = _desk(forest)
        low, high = box.low.astype(np.int64), box.high.astype(np.int64)
        instance = case.instance.astype(np.int64)
        home = cells_at(forest, instance)
        open_box(forest, low, high, desk)
        codes, seen = np.empty_like(instance), 0
        desk.point[:] = home
        if climb(forest, desk, desk.domains[0], rng.permutation(len(home)), SWEEPS):
            pull_back(forest, desk, home, rng.permutation(len(home)))
            nearest_codes(forest, desk.point, instance, low, high, codes)
            return codes.astype(np.int32), 0, True
        while True:
            status, boxes = search(forest, desk, CHUNK)
            meter.events["boxes"] += boxes
            meter.events[f"b{status}"] += boxes
            meter.events[f"n{status}"] += 1
            seen += boxes
            if status == FOUND:
                pull_back(forest, desk, home, rng.permutation(len(home)))
            if status in (FOUND, UNSURE):
                nearest_codes(forest, desk.point, instance, low, high, codes)
                point = codes.astype(np.int32)
                if status == FOUND or meter.desired(case.model, point[None, :])[0]:
                    return point, seen, True
            elif status == PROVEN:
                return None, seen, True
            elif status == OUT_OF_BUDGET and (seen >= self.limit or desk.state[0] + 1 >= DEPTH):
                return None, seen, False
                deny(desk)
            meter.check()


def _desk(forest: Forest) -> Desk:
    features, cells = len(forest.cells.cell_starts) - 1, int(forest.cells.cell_starts[-1])
    return Desk(
        np.empty((DEPTH, int(forest.cells.word_starts[-1])), dtype=np.uint64),
        np.empty((DEPTH, len(forest.root)), dtype=np.int64),
        np.empty(DEPTH, dtype=np.int64),
        np.zeros(features, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.zeros(len(forest.margin_of)),
        np.zeros(len(forest.offset)),
        np.zeros(cells),
        np.zeros(cells),
        np.zeros(cells),
        np.zeros((256, features), dtype=np.int64),
        np.zeros(256, dtype=np.int64),
        np.zeros((256, int(np.diff(forest.cells.word_starts).max())), dtype=np.uint64),
        np.zeros((len(forest.margin_of), int(np.diff(forest.cells.cell_starts).max()))),
    )


def _without(case: Case, box: Box, point: Points) -> Box:
    """The part of a box that satisfies every component of the point's dual."""
    relevant = case.relevant
    doubled = np.repeat(point, 2)
    false = (doubled < relevant.low) | (doubled > relevant.high)
    low = np.where(false, relevant.low, 0).reshape(-1, 2).max(axis=1)
    high = np.where(false, relevant.high, np.iinfo(np.int32).max).reshape(-1, 2).min(axis=1)
    return Box(np.maximum(box.low, low).astype(np.int32), np.minimum(box.high, high).astype(np.int32))

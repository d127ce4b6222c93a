"""From many counterfactuals to a few good ones: without useless changes, and different from each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ironrule.oracles.geco.deltas import NOTHING, Deltas, from_points, override
from ironrule.oracles.geco.distance import Distance
from ironrule.oracles.protocol import Case
from ironrule.rule.duals import duals_of, minimal

Ask = Callable[[Deltas], npt.NDArray[np.bool_]]


def without_useless_changes(case: Case, found: Deltas, distance: Distance, ask: Ask) -> Deltas:
    """Undo changes, one at a time and the largest first, as long as the point stays desired and can occur."""
    alive = np.ones(len(found), dtype=np.bool_)
    while alive.any():
        rows, slots = np.nonzero((found.features != NOTHING) & alive[:, None])
        features = found.features[rows, slots]
        trials = override(found[rows], Deltas(features[:, None], case.instance[features][:, None]), case.instance)
        good = case.feasible.admits(trials.expand(case.instance))
        good[good] = ask(trials[good])
        gains = np.full(found.features.shape, -np.inf)
        gains[rows[good], slots[good]] = distance.of_codes(features, found.codes[rows, slots])[good]
        alive &= gains.max(axis=1) > -np.inf
        best = gains[alive].argmax(axis=1)
        undone = found.features[alive, best]
        changes = np.full((len(found), 1), NOTHING, dtype=np.int32)
        changes[alive, 0] = undone
        found = override(found, Deltas(changes, case.instance[changes]), case.instance)
    return found


def nearest_of_each_dual(case: Case, found: Deltas, distance: Distance) -> Deltas:
    """The nearest counterfactual of every distinct dual, nearest first."""
    order = np.argsort(distance(found), kind="stable")
    duals = duals_of(found[order].expand(case.instance), case.relevant.low, case.relevant.high)
    _, first = np.unique(duals, axis=0, return_index=True)
    return found[order[np.sort(first)]]


def diverse(case: Case, found: Deltas, distance: Distance, k: int) -> Deltas:
    """Up to k of those whose dual contains no other's, nearest first, preferring features not yet changed."""
    found = nearest_of_each_dual(case, found, distance)
    duals = duals_of(found.expand(case.instance), case.relevant.low, case.relevant.high)
    strong = {row.tobytes() for row in minimal(duals)}
    found = found[np.array([row.tobytes() in strong for row in duals], dtype=np.bool_)]
    return found[_spread(found.expand(case.instance) != case.instance, distance(found), k)]


def _spread(changed: npt.NDArray[np.bool_], cost: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.intp]:
    chosen: list[int] = []
    times = np.zeros(changed.shape[1])
    penalty = np.zeros(len(cost))
    for _ in range(min(k, len(cost))):
        pick = int(np.argmin(cost + penalty + np.where(np.isin(np.arange(len(cost)), chosen), np.inf, 0.0)))
        chosen.append(pick)
        times += changed[pick]
        penalty = (changed * times).sum(axis=1) / np.maximum(changed.sum(axis=1), 1)
    return np.array(sorted(chosen, key=lambda place: (cost[place], place)), dtype=np.intp)


def filled(case: Case, chosen: Deltas, spare: Deltas, k: int) -> Deltas:
    """The chosen ones and, up to k, spare ones that are farthest from all chosen so far."""
    points = np.concatenate([chosen.expand(case.instance), spare.expand(case.instance)])
    scaled = points / np.maximum(case.space.sizes - 1, 1)
    picked = list(range(len(chosen)))
    while len(picked) < k:
        gaps = np.abs(scaled[:, None, :] - scaled[picked][None, :, :]).sum(axis=2).min(axis=1)
        if gaps.max() == 0.0:
            break
        picked.append(int(gaps.argmax()))
    return from_points(points[picked], case.instance)

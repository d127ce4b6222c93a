"""GeCo's operators: mutation, crossover, selective mutation, and the cascade that enforces implications."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ironrule.oracles.geco.deltas import NOTHING, Deltas, from_points, override
from ironrule.oracles.geco.options import Options
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points, Predicate

CASCADE_VALUES = 64
CASCADE_ROUNDS = 4


def mutate(rng: np.random.Generator, parents: Deltas, options: Options, each: int, instance: Points) -> Deltas:
    """``each`` children per parent: one more unit is changed, to a value drawn by its frequency."""
    chosen = np.repeat(np.arange(len(parents)), each)
    units = rng.integers(0, options.count, size=len(chosen))
    return override(parents[chosen], options.draw(rng, units), instance)


def crossover(rng: np.random.Generator, parents: Deltas, count: int, instance: Points) -> Deltas:
    """Children of random pairs: the changes of both, the better parent's value where they disagree."""
    pairs = np.sort(rng.integers(0, len(parents), size=(count, 2)), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return override(parents[pairs[:, 1]], parents[pairs[:, 0]], instance)


def mutate_selectively(found: Deltas, ordered: npt.NDArray[np.bool_], instance: Points) -> Deltas:
    """Counterfactuals closer to the instance: each change undone, and each ordered change halved."""
    rows, slots = np.nonzero(found.features != NOTHING)
    features = found.features[rows, slots]
    home = instance[features]
    halved = home + (found.codes[rows, slots] - home) // 2
    moves = ordered[features] & (halved != home)
    undone = Deltas(features[:, None], home[:, None])
    nearer = Deltas(features[moves][:, None], halved[moves][:, None])
    parents = found[np.concatenate([rows, rows[moves]])]
    changes = Deltas(np.concatenate([undone.features, nearer.features]), np.concatenate([undone.codes, nearer.codes]))
    return override(parents, changes, instance)


def cascade(rng: np.random.Generator, case: Case, box: Box, candidates: Deltas) -> Deltas:
    """Candidates that keep every constraint: a broken one is mended by changing a feature of its consequence."""
    if not case.feasible.predicates or len(candidates) == 0:
        return candidates
    points = candidates.expand(case.instance)
    for _ in range(CASCADE_ROUNDS):
        if case.feasible.admits(points).all():
            break
        for predicate in case.feasible.predicates:
            broken = np.flatnonzero(~predicate(points, case.feasible.instance))
            places = predicate.consequence_columns or predicate.columns
            for column, share in zip(places, _shared_out(rng, broken, len(places)), strict=True):
                _mend(rng, case, box, predicate, points, share, column)
    return from_points(points[case.feasible.admits(points)], case.instance)


def _shared_out(rng: np.random.Generator, rows: npt.NDArray[np.intp], parts: int) -> list[npt.NDArray[np.intp]]:
    """The rows in so many parts, each row in one of them at random."""
    lots = rng.integers(0, max(1, parts), size=len(rows))
    return [rows[lots == part] for part in range(parts)]


def _mend(
    rng: np.random.Generator,
    case: Case,
    box: Box,
    predicate: Predicate,
    points: Points,
    broken: npt.NDArray[np.intp],
    column: int,
) -> None:
    """Give one feature, in every broken point, a value that satisfies the constraint where there is such a value."""
    codes = np.arange(box.low[column], box.high[column] + 1, dtype=np.int32)
    if len(codes) > CASCADE_VALUES:
        codes = rng.choice(codes, CASCADE_VALUES, replace=False)
    trials = np.repeat(points[broken], len(codes), axis=0)
    trials[:, column] = np.tile(codes, len(broken))
    holds = predicate(trials, case.feasible.instance).reshape(len(broken), len(codes))
    chosen = np.argmax(holds * rng.random(holds.shape), axis=1)
    mendable = holds.any(axis=1)
    points[broken[mendable], column] = codes[chosen[mendable]]

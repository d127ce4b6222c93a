"""Cases for systems that search in the latent space of an autoencoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Points
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.protocol import BoxQuery, Oracle
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import case_of, run_of

GRID = Space(tuple(Feature(name, tuple(range(101)), ordered=True) for name in "ab"))
A, B = np.indices((101, 101))
START = np.array([20, 20], np.int32)


class IdentityAutoencoder:
    """Latent vectors are the vectors themselves."""

    def encode(self, vectors: Float64Array) -> Float64Array:
        return vectors

    def decode(self, latents: Float64Array) -> Float64Array:
        return latents

    def backpropagate(self, latents: Float64Array, gradients: Float64Array) -> Float64Array:
        assert latents.shape == gradients.shape
        return gradients


@dataclass(frozen=True, slots=True)
class LinearScores:
    """A score that is linear in the shares of a and b of their ranges; desired is what has a positive one."""

    slopes: tuple[float, float]
    offset: float

    def scores(self, points: Points) -> Float64Array:
        return np.asarray(points / 100.0 @ np.array(self.slopes) + self.offset)

    def desired(self, points: Points) -> BoolArray:
        return np.asarray(self.scores(points) > 0.0)


def differ(function: Any, array: Float64Array, step: float = 1e-6) -> Float64Array:
    """The gradient of a function of an array, which it reads in place, by central differences."""
    gradient = np.empty_like(array)
    for place in np.ndindex(array.shape):
        own = array[place]
        array[place] = own + step
        after = function()
        array[place] = own - step
        gradient[place] = (after - function()) / (2 * step)
        array[place] = own
    return gradient


def draw_rows(count: int) -> Float64Array:
    rows = np.random.default_rng(2).uniform(size=(count, 5))
    rows[:, [1, 4]] = rows[:, [1, 4]] > 0.5
    return rows


def draw_ridge(count: int = 400) -> Points:
    """Past rows in which a and b are nearly the same."""
    rng = np.random.default_rng(0)
    middle = rng.uniform(5, 95, count)
    rows = np.stack([middle + rng.normal(0, 2, count), middle + rng.normal(0, 2, count)], axis=1)
    return np.asarray(np.clip(rows.round(), 0, 100), dtype=np.int32)


def ask_grid(
    oracle: Oracle,
    table: Any,
    *,
    history: Points | None = None,
    box: Box | None = None,
    k: int = 1,
    seed: int = 0,
    evaluations: int | None = None,
) -> Any:
    """What an oracle answers about the grid, where the model desires what a table of all a and b says."""
    case = case_of(GRID, table, START, draw_ridge() if history is None else history)
    return oracle.find(BoxQuery(case, box or case.components.box(0), k), run_of(evaluations, seed))


def search_linear(model: LinearScores, start: Points = START, history: Points | None = None) -> CandidateSearch:
    """The search for counterfactuals of a linear score on the grid."""
    table = model.desired(np.stack([A.ravel(), B.ravel()], axis=1)).reshape(A.shape)
    case = case_of(GRID, table, start, draw_ridge() if history is None else history, model=model)
    search = CandidateSearch.build(BoxQuery(case, case.components.box(0)), run_of())
    assert search is not None
    return search

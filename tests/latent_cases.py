"""Cases for systems that search in the latent space of an autoencoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.arrays import Float64Array, Points
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
) -> Any:
    """What an oracle answers about the grid, where the model desires what a table of all a and b says."""
    case = case_of(GRID, table, START, draw_ridge() if history is None else history)
    return oracle.find(BoxQuery(case, box or case.components.box(0), k), run_of(seed=seed))

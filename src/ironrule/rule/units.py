"""Weights of components where each counts 1: one array per size is kept, so that it is known at a glance."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@cache
def unit_weights(size: int) -> Floats:
    """As many ones; not to be written to (which nothing enforces: kernels would be compiled once more for that)."""
    return np.ones(size)


def are_units(weights: npt.NDArray[np.float64]) -> bool:
    """Whether these are the weights that :func:`unit_weights` gave."""
    return weights is unit_weights(weights.size)

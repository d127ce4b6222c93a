"""GeCo's distance: a mix of l0 (how many features change), l1, l2 and l-infinity (by how much).

Every feature's change is scaled to [0, 1]: by the range of its values for numbers, by the number of steps for ordered
categories; a nominal change, and a change to or from missing, counts 1. The changes per feature are one table look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.oracles.geco.deltas import NOTHING, Deltas
from ironrule.space import Feature, Points, Space

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mix:
    """How much each norm counts."""

    l0: float = 0.25
    l1: float = 0.25
    l2: float = 0.25
    linf: float = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """The distance of candidates from one instance."""

    mix: Mix
    starts: npt.NDArray[np.int64]
    table: Floats
    n: int

    @classmethod
    def of(cls, space: Space, instance: Points, mix: Mix) -> Distance:
        """Tabulate every feature's distance from the instance's value."""
        parts = [_from_value(f, int(code)) for f, code in zip(space.features, instance, strict=True)]
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts][:-1], dtype=np.int64)])
        return cls(mix, starts, np.concatenate(parts), len(space))

    def __call__(self, deltas: Deltas) -> Floats:
        if len(deltas) == 0:
            return np.zeros(0)
        changed = deltas.features != NOTHING
        parts = np.where(changed, self.table[self.starts[deltas.features] + deltas.codes], 0.0)
        mix, n = self.mix, self.n
        return np.asarray(
            mix.l0 * changed.sum(axis=1) / n
            + mix.l1 * parts.sum(axis=1) / n
            + mix.l2 * np.sqrt((parts**2).sum(axis=1) / n)
            + mix.linf * parts.max(axis=1)
        )

    def of_codes(self, features: npt.NDArray[np.int32], codes: npt.NDArray[np.int32]) -> Floats:
        """How far single codes of features are from the instance's values."""
        return np.asarray(self.table[self.starts[features] + codes])


def _from_value(feature: Feature, code: int) -> Floats:
    distances = np.ones(feature.size)
    distances[code] = 0.0
    if feature.ordered and code != feature.missing_code and len(feature.values) > 1:
        places = _places(feature.values) if feature.numeric else np.arange(len(feature.values), dtype=np.float64)
        scale = abs(float(places[-1] - places[0])) or 1.0
        distances[: len(places)] = np.abs(places - places[code]) / scale
    return distances


def _places(values: Sequence[float]) -> Floats:
    return np.asarray(values, dtype=np.float64)

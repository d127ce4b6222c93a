"""GeCo's feasible values: for every feature, or group of features that constraints tie, what it may change to.

Values are weighted by how often the history has them, so that common values are tried first. All units' values lie in
one flat table with one rising column of weights, so that drawing for many units at once is one binary search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.oracles.geco.deltas import NOTHING, Deltas, padded
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Units (features that change together) and the code combinations that each may take in a box."""

    columns: Points  # one row per unit: its features, padded with -1
    combinations: Points  # all units' combinations, one after the other
    starts: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.float64]

    @property
    def count(self) -> int:
        """How many units may change at all."""
        return len(self.columns)

    def draw(self, rng: np.random.Generator, units: npt.NDArray[np.int64]) -> Deltas:
        """For every named unit a change drawn by weight."""
        below = np.where(self.starts[units] > 0, self.cumulative[self.starts[units] - 1], 0.0)
        above = self.cumulative[self.starts[units + 1] - 1]
        places = np.searchsorted(self.cumulative, below + rng.random(len(units)) * (above - below), side="right")
        places = np.clip(places, self.starts[units], self.starts[units + 1] - 1)
        return Deltas(self.columns[units], self.combinations[places])

    def singles(self, rng: np.random.Generator, most: int) -> Deltas:
        """Single changes: all values of a unit that has at most ``most``, that many drawn ones otherwise."""
        sizes = np.diff(self.starts)
        short = np.flatnonzero(sizes <= most)
        whole = np.flatnonzero(np.repeat(sizes <= most, sizes))
        drawn = self.draw(rng, np.repeat(np.flatnonzero(sizes > most), most))
        features = np.concatenate([np.repeat(self.columns[short], sizes[short], axis=0), drawn.features])
        return Deltas(features, np.concatenate([self.combinations[whole], drawn.codes]))


def options_in(case: Case, box: Box) -> Options:
    """What may change in a box: one unit per group of tied features with listed combinations, one per other feature."""
    listed = [group for group in case.feasible.groups if group.combinations is not None]
    grouped = {j for group in listed for j in group.columns}
    units: list[tuple[tuple[int, ...], Points]] = [
        (g.columns, g.combinations) for g in listed if g.combinations is not None
    ]
    for j in np.flatnonzero(box.high > box.low).tolist():
        if j not in grouped:
            units.append(((j,), np.arange(box.low[j], box.high[j] + 1, dtype=np.int32)[:, None]))
    kept = [(columns, fitting) for columns, rows in units if len(fitting := _fitting(case, box, columns, rows))]
    width = max((len(columns) for columns, _ in kept), default=1)
    weights = [_weights(case, columns, rows) for columns, rows in kept]
    return Options(
        _stacked([np.array([columns], dtype=np.int32) for columns, _ in kept], width, NOTHING),
        _stacked([rows for _, rows in kept], width, 0),
        np.concatenate([[0], np.cumsum([len(rows) for _, rows in kept], dtype=np.int64)]).astype(np.int64),
        np.cumsum(np.concatenate([np.zeros(0), *weights])),
    )


def _stacked(parts: list[Points], width: int, filler: int) -> Points:
    return np.concatenate([np.empty((0, width), dtype=np.int32), *(padded(part, width, filler) for part in parts)])


def _fitting(case: Case, box: Box, columns: tuple[int, ...], rows: Points) -> Points:
    """The combinations that lie in the box and change something."""
    places = list(columns)
    inside = ((rows >= box.low[places]) & (rows <= box.high[places])).all(axis=1)
    fitting: Points = rows[inside & (rows != case.instance[places]).any(axis=1)]
    return fitting


def _weights(case: Case, columns: tuple[int, ...], rows: Points) -> npt.NDArray[np.float64]:
    """Relative frequencies in the history, as if the tied features were independent, scaled to sum to one."""
    weights = np.ones(len(rows))
    for place, column in enumerate(columns):
        seen = case.history.frequencies[column]
        weights *= (seen[rows[:, place]] + 1.0) / (seen.sum() + len(seen))
    return np.asarray(weights / weights.sum())

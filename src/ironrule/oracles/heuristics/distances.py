"""Distances in the numeric encoding, in units of how much past rows differ.

The median absolute deviation (MAD) of a feature is the median of how far past rows are from their median. A difference
of one MAD counts 1, whatever the feature's range. Where half of the rows have the same value the MAD is 0, and the
whole range counts 1 in its place; so does a change from one category to another, or to missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Float64Array, Int64Array, Points
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.encoding import NumericEncoding
from ironrule.oracles.heuristics.prepared import PreparedValues
from ironrule.oracles.protocol import Case


def compute_mad_weights(case: Case, encoding: NumericEncoding) -> Float64Array:
    """What a difference of 1 in each column counts."""
    return _WEIGHTS.get((case.space, case.history), lambda: _compute_weights(case, encoding))


_WEIGHTS: PreparedValues[Float64Array] = PreparedValues()


def _compute_weights(case: Case, encoding: NumericEncoding) -> Float64Array:
    weights = np.ones(encoding.width)
    for j, table in enumerate(encoding.tables):
        start = int(encoding.starts[j])
        if not encoding.ordered[j]:
            weights[start : start + table.shape[1]] = 0.5  # another category changes two columns
            continue
        places, counts = table[:, 0], case.history.frequencies[j]
        if table.shape[1] == 2:  # rows where the value is missing do not count
            counts = np.where(table[:, 1] == 1.0, 0, counts)
        if counts.sum():
            deviation = compute_weighted_median(np.abs(places - compute_weighted_median(places, counts)), counts)
            weights[start] = 1.0 / deviation if deviation > 0.0 else 1.0
    return weights


def compute_weighted_median(values: Float64Array, counts: Int64Array) -> float:
    """The median of values that occur so often."""
    order = np.argsort(values, kind="stable")
    ends, half = np.cumsum(counts[order]), counts.sum() / 2.0
    # Of an even number of rows the mean of the two in the middle.
    first, second = np.searchsorted(ends, half, side="left"), np.searchsorted(ends, half, side="right")
    return float((values[order[first]] + values[order[second]]) / 2.0)


@dataclass(frozen=True, slots=True, eq=False)
class MadDistance:
    """The sum of differences from the instance in all columns, each in units of its MAD."""

    encoding: NumericEncoding
    center: Float64Array
    weights: Float64Array

    @classmethod
    def build(cls, search: CandidateSearch) -> MadDistance:
        """The distance from the instance of one query."""
        weights = compute_mad_weights(search.query.case, search.encoding)
        return cls(search.encoding, search.center, weights)

    def __call__(self, points: Points) -> Float64Array:
        """How far points are."""
        return np.asarray(np.abs(self.encoding.encode(points) - self.center) @ self.weights)

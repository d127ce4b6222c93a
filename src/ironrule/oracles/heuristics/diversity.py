"""Sets of points that differ: the measure of determinantal point processes (Kulesza and Taskar, "Determinantal Point
Processes for Machine Learning", 2012), as DiCE has it.

The kernel of some points has an entry 1 / (1 + distance) for every two of them. Its determinant is 0 where two are the
same, and comes near to 1 where all are far apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Float64Array, IntpArray
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.distances import compute_mad_weights

RIDGE = 1e-6  # on the diagonal of kernels that are inverted, so that points may be the same


@dataclass(frozen=True, slots=True, eq=False)
class MeanDistance:
    """The mean over numbers of the difference in units of the MAD, and the mean over categories of how many differ."""

    weights: Float64Array

    @classmethod
    def build(cls, search: CandidateSearch) -> MeanDistance:
        """The distance between vectors of one query."""
        encoding, weights = search.encoding, compute_mad_weights(search.query.case, search.encoding)
        ordered = np.array(encoding.ordered)
        counts = np.where(ordered, max(ordered.sum(), 1), max((~ordered).sum(), 1))
        return cls(weights / np.repeat(counts, np.diff(encoding.starts)))

    def measure(self, vectors: Float64Array, vector: Float64Array) -> Float64Array:
        """How far vectors are from one."""
        return np.asarray(np.abs(vectors - vector) @ self.weights)

    def compute_kernel(self, vectors: Float64Array) -> Float64Array:
        """The kernel of some vectors."""
        return np.array([1.0 / (1.0 + self.measure(vectors, vector)) for vector in vectors])


def compute_diversity(distance: MeanDistance, vectors: Float64Array) -> tuple[float, Float64Array]:
    """The determinant of the kernel, and its gradient: a row for each vector.

    The determinant changes with an entry of a symmetric kernel by twice its cofactor, and the entry 1 / (1 + d) with
    the distance d by its own negative square.
    """
    kernel = distance.compute_kernel(vectors) + RIDGE * np.eye(len(vectors))
    value = float(np.linalg.det(kernel))
    by_distance = -2.0 * value * np.linalg.inv(kernel) * (kernel - RIDGE * np.eye(len(vectors))) ** 2
    sides = np.sign(vectors[:, None, :] - vectors[None, :, :]) * distance.weights
    return value, np.einsum("ij,ijc->ic", by_distance, sides)


def choose_diverse(
    distance: MeanDistance,
    vectors: Float64Array,
    center: Float64Array,
    count: int,
    *,
    proximity_weight: float,
    diversity_weight: float,
) -> IntpArray:
    """Which of many vectors form a set that is near to one, and diverse: the nearest first, then one by one those that
    add most to diversity_weight * determinant - proximity_weight / count * (sum of distances).
    """
    far = proximity_weight / count * distance.measure(vectors, center)
    nearest = int(distance.measure(vectors, center).argmin())
    chosen, taken = [nearest], np.zeros(len(vectors), dtype=np.bool_)
    taken[nearest] = True
    rows = [1.0 / (1.0 + distance.measure(vectors, vectors[nearest]))]  # of the kernel: a chosen one with all others
    while len(chosen) < min(count, len(vectors)):
        with_chosen = np.stack(rows)
        kernel = with_chosen[:, chosen] + RIDGE * np.eye(len(chosen))
        # With one more point the determinant is multiplied by this (its Schur complement).
        factor = 1.0 + RIDGE - np.einsum("ci,ci->i", with_chosen, np.linalg.solve(kernel, with_chosen))
        gain = diversity_weight * float(np.linalg.det(kernel)) * factor - far
        best = int(np.where(taken, -np.inf, gain).argmax())
        chosen.append(best)
        taken[best] = True
        rows.append(1.0 / (1.0 + distance.measure(vectors, vectors[best])))
    return np.array(chosen, dtype=np.intp)

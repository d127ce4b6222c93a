"""How good the answers of a counterfactual system are: one set of measures for CARLA's stored answers and for ours.

All are taken in model columns, where numbers lie in [0, 1] and categories are 0 or 1. Those of CARLA are computed as
CARLA 0.0.5 computes them; where that depends on the last bits of a number, there is a second one with a tolerance.

* success: the share of rows with an answer that the model approves;
* redundancy, as CARLA computes it: of how many columns that differ at all from the row's own, each undone by itself,
  the answer does not need the change. With a tolerance, a column that differs by rounding alone is no change;
* violations: how many immutable features are changed. CARLA turns columns back into categories first, and so does not
  see that a column is, say, 2; "immutable changed" counts the answers in which the column itself differs;
* l0, l1, l2 (as in CARLA the sum of squares, without a root): of the difference to the row;
* yNN: the share of the answer's five nearest rows of the table that the model approves.

The others are about answers that cannot be had: columns outside the data's range, and categories that are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.neighbors import NearestNeighbors

from benchmarks.carla.models import CarlaModel

TOLERANCE = 1e-4  # of a column's range: more than rounding to 32 bits, less than a year of age or an hour per week
NEIGHBOURS = 5


@dataclass(frozen=True, slots=True)
class AnswerMeasures:
    """One answer that the model approves, measured; ``changes`` are the features that differ, by name."""

    redundancy: int
    redundancy_with_tolerance: int
    violations: int
    immutable_changed: int
    l0: int
    l0_with_tolerance: int
    l1: float
    l2: float
    ynn: float
    out_of_range: int
    changes: tuple[str, ...]

    @property
    def is_possible(self) -> bool:
        """Whether it could be had at all: everything within the data's ranges, nothing immutable changed."""
        return self.out_of_range == 0 and self.immutable_changed == 0


@dataclass(frozen=True)
class Judge:
    """Measures answers by a model and its table."""

    model: CarlaModel

    @cached_property
    def _neighbours(self) -> NearestNeighbors:
        return NearestNeighbors(n_neighbors=NEIGHBOURS).fit(self.model.encoded)

    @cached_property
    def _approved(self) -> np.ndarray:
        return self.model.approve(self.model.encoded)

    def measure(self, row: np.ndarray, answer: np.ndarray | None) -> AnswerMeasures | None:
        """One answer, in model columns; None where there is none, or where the model does not approve it."""
        if answer is None or not self.model.approve(answer[None, :])[0]:
            return None
        difference = np.abs(answer - row)
        changed = difference > TOLERANCE
        immutable = np.isin(self.model.features, self.model.immutable)
        return AnswerMeasures(
            redundancy=self.count_redundant(row, answer, difference > 0.0),
            redundancy_with_tolerance=self.count_redundant(row, answer, changed),
            violations=self.count_violations(row, answer),
            immutable_changed=int((changed & immutable).sum()),
            l0=int((difference > 0.0).sum()),
            l0_with_tolerance=int(changed.sum()),
            l1=float(difference.sum()),
            l2=float((difference**2).sum()),
            ynn=self.measure_ynn(answer),
            out_of_range=self.count_out_of_range(answer),
            changes=tuple(name for name, one in zip(self.model.features, changed, strict=True) if one),
        )

    def count_redundant(self, row: np.ndarray, answer: np.ndarray, changed: np.ndarray) -> int:
        """Of how many changed columns, each undone by itself, the change is not needed."""
        places = np.flatnonzero(changed)
        undone = np.repeat(answer[None, :], len(places), axis=0)
        undone[np.arange(len(places)), places] = row[places]
        return int(self.model.approve(undone).sum())

    def count_violations(self, row: np.ndarray, answer: np.ndarray) -> int:
        """How many immutable features are changed: numbers beyond rounding, categories after decoding."""
        pairs = zip(self.model.decode_categories(row), self.model.decode_categories(answer), strict=True)
        differ = [bool(abs(a - b) > TOLERANCE) for a, b in zip(row, answer, strict=True)]
        count = len(self.model.columns) - len(self.model.categories)
        differ[count:] = [before != after for before, after in pairs]
        return sum(
            changed and name in self.model.immutable for changed, name in zip(differ, self.model.features, strict=True)
        )

    def count_out_of_range(self, answer: np.ndarray) -> int:
        """How many columns have a value that nothing in the data's range has."""
        binary = np.isin(self.model.features, self.model.categories)
        outside = (answer < -TOLERANCE) | (answer > 1.0 + TOLERANCE)
        between = binary & (np.minimum(np.abs(answer), np.abs(answer - 1.0)) > TOLERANCE)
        return int((outside | between).sum())

    def measure_ynn(self, answer: np.ndarray) -> float:
        """The share of the nearest rows of the table that the model approves."""
        nearest = self._neighbours.kneighbors(answer[None, :], return_distance=False)[0]
        return float(self._approved[nearest].mean())


def summarize(measured: Sequence[AnswerMeasures | None]) -> dict[str, float | int | None]:
    """The means over the answers, as CARLA takes them, and the share of rows that have one."""
    known = [one for one in measured if one is not None]

    def mean(name: str) -> float | None:
        return float(np.mean([getattr(one, name) for one in known])) if known else None

    return {
        "rows": len(measured),
        "success": len(known) / len(measured) if measured else None,
        "redundancy": mean("redundancy"),
        "redundancy with tolerance": mean("redundancy_with_tolerance"),
        "violations": mean("violations"),
        "l0": mean("l0"),
        "l0 with tolerance": mean("l0_with_tolerance"),
        "l1": mean("l1"),
        "l2": mean("l2"),
        "yNN": mean("ynn"),
        "out of range": sum(one.out_of_range > 0 for one in known),
        "immutable changed": sum(one.immutable_changed > 0 for one in known),
    }

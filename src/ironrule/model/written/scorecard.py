"""Scorecards: points per bin of every feature, added up and compared with a cut-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.model.written.bins import Bins, columns_of, names_of
from ironrule.model.written.labels import Labels, chosen, two_labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scorecard:
    """Whoever has ``cutoff`` points or more gets the second class, everybody else the first.

    >>> import pandas as pd
    >>> card = Scorecard(
    ...     (Bins("age", edges=(25, 40), points=(0, 12, 20)), Bins("home", values={"own": 15, "rent": 3})),
    ...     cutoff=20, classes=("denied", "approved"),
    ... )
    >>> people = pd.DataFrame({"age": [30, 41], "home": ["rent", "own"]})
    >>> card.points(people).tolist(), card.predict(people).tolist()
    ([15.0, 35.0], ['denied', 'approved'])
    """

    parts: Sequence[Bins]
    cutoff: float
    base: float = 0.0
    classes: Labels = (0, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "classes", two_labels(self.classes))
        if not np.isfinite([self.cutoff, self.base]).all():
            raise InputError(expected="cutoff and base must be finite", got=f"{self.cutoff!r} and {self.base!r}")

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The two labels."""
        return np.array(self.classes)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The columns that the scorecard looks at."""
        return np.array(names_of(self.parts), dtype=object)

    def points(self, table: Any) -> Floats:
        """The points of every row: the base, and those of every part, added in order."""
        columns = columns_of(table, names_of(self.parts))
        total = np.full(len(table), float(self.base))
        for part in self.parts:
            total += part.of(columns[part.column])
        return total

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """The class of every row."""
        return chosen(self.points(table) >= self.cutoff, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The scorecard as plain data."""
        parts = [part.to_dict() for part in self.parts]
        return {"parts": parts, "cutoff": self.cutoff, "base": self.base, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scorecard:
        """The scorecard that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        if not {"parts", "cutoff"} <= set(data) <= {"parts", "cutoff", "base", "classes"}:
            raise InputError(
                expected="a scorecard must have the keys 'parts' and 'cutoff', and may have 'base' and 'classes'",
                got=f"keys {sorted(data)}",
            )
        parts = tuple(Bins.from_dict(part) for part in data["parts"])
        return cls(parts, data["cutoff"], data.get("base", 0.0), tuple(data.get("classes", (0, 1))))

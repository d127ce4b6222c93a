"""Two-layer additive models: sums of points through logistic functions, weighted, added up, and through one more.

The model of Chen, Lin, Rudin, Shaposhnik, Wang and Wang for the FICO challenge is one ("An Interpretable Model with
Globally Consistent Explanations for Credit Risk", 2018).
"""

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
class Subscale:
    """One part of a two-layer model: ``weight`` times the logistic function of ``bias`` plus its points."""

    weight: float
    bias: float
    parts: Sequence[Bins]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not np.isfinite([self.weight, self.bias]).all():
            raise InputError(expected="weight and bias must be finite", got=f"{self.weight!r} and {self.bias!r}")


@dataclass(frozen=True, slots=True)
class TwoLayerAdditive:
    """The second class has the probability logistic(bias + the sum of the subscales); above one half it is predicted.

    >>> import pandas as pd
    >>> debt, loans = Bins("debt", edges=(10,), points=(0, 3)), Bins("loans", edges=(2,), points=(0, 2))
    >>> model = TwoLayerAdditive((Subscale(4.0, -1.0, (debt, loans)),), bias=-2.0, classes=("good", "bad"))
    >>> people = pd.DataFrame({"debt": [3, 40], "loans": [1, 5]})
    >>> model.predict(people).tolist(), model.predict_proba(people)[:, 1].round(2).tolist()
    (['good', 'bad'], [0.28, 0.87])
    """

    subscales: Sequence[Subscale]
    bias: float
    classes: Labels = (0, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subscales", tuple(self.subscales))
        object.__setattr__(self, "classes", two_labels(self.classes))
        if not np.isfinite(self.bias):
            raise InputError(expected="bias must be finite", got=repr(self.bias))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The two labels."""
        return np.array(self.classes)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The columns that the model looks at."""
        return np.array(self._names(), dtype=object)

    def _names(self) -> tuple[str, ...]:
        return names_of([part for subscale in self.subscales for part in subscale.parts])

    def decision_function(self, table: Any) -> Floats:
        """The log odds of the second class."""
        columns = columns_of(table, self._names())
        total = np.full(len(table), float(self.bias))
        for subscale in self.subscales:
            inner = np.full(len(table), float(subscale.bias))
            for part in subscale.parts:
                inner += part.of(columns[part.column])
            total += subscale.weight * _logistic(inner)
        return total

    def predict_proba(self, table: Any) -> Floats:
        """The probabilities of both classes."""
        second = _logistic(self.decision_function(table))
        return np.stack([1.0 - second, second], axis=1)

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """The class of every row: the second where its log odds are positive."""
        return chosen(self.decision_function(table) > 0, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data."""
        subscales = [
            {"weight": one.weight, "bias": one.bias, "parts": [part.to_dict() for part in one.parts]}
            for one in self.subscales
        ]
        return {"subscales": subscales, "bias": self.bias, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TwoLayerAdditive:
        """The model that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        if not {"subscales", "bias"} <= set(data) <= {"subscales", "bias", "classes"}:
            raise InputError(
                expected="a two-layer model must have the keys 'subscales' and 'bias', and may have 'classes'",
                got=f"keys {sorted(data)}",
            )
        odd = [one for one in data["subscales"] if set(one) != {"weight", "bias", "parts"}]
        if odd:
            raise InputError(
                expected="every subscale must have the keys 'weight', 'bias' and 'parts'", got=f"keys {sorted(odd[0])}"
            )
        subscales = tuple(
            Subscale(one["weight"], one["bias"], tuple(Bins.from_dict(part) for part in one["parts"]))
            for one in data["subscales"]
        )
        return cls(subscales, data["bias"], tuple(data.get("classes", (0, 1))))


def _logistic(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-values)))

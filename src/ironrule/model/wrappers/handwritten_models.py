"""Classifiers that are written by hand, with the methods of a scikit-learn estimator.

- :class:`Scorecard`: points per bin of every feature (:class:`Bins`), added up and compared with a cut-off.
- :class:`TwoLayerAdditive`: sums of points through logistic functions, weighted, added up, and through one more. The
  model of Chen, Lin, Rudin, Shaposhnik, Wang and Wang for the FICO challenge is one ("An Interpretable Model with
  Globally Consistent Explanations for Credit Risk", 2018).
- :class:`RuleClassifier`: rows that satisfy one of the rules get one outcome, all others the other. With a single
  rule this is the synthetic classifier of Geng, Schleich and Suciu (VLDB 2022): the shortest rule that explains a
  denial is then the classifier's own, and a search can be judged by whether it finds it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, BoolArray, Float64Array, IntpArray
from ironrule.errors import InputError, ModelError, describe_value
from ironrule.model.model_input import read_columns
from ironrule.rule.rule import Rule
from ironrule.space.feature import Value, is_missing, value_from_json, value_to_json
from ironrule.space.table import read_table
from ironrule.wording import format_count

Labels = tuple[Any, Any]


def require_two_labels(labels: Sequence[Any]) -> Labels:
    """Two distinct labels; raises InputError otherwise."""
    pair = () if isinstance(labels, str) else tuple(labels)
    if len(pair) != 2 or pair[0] == pair[1]:
        raise InputError(expected="classes must be two distinct labels", got=describe_value(labels))
    return pair[0], pair[1]


def choose_labels(second: BoolArray, labels: Labels) -> AnyArray:
    """The second label where it holds, the first elsewhere."""
    return np.array(labels)[second.astype(np.intp)]


def _require_keys(data: Mapping[str, Any], required: set[str], optional: set[str], rule: str) -> None:
    if not required <= set(data) <= required | optional:
        raise InputError(expected=rule, got=f"keys {sorted(data)}")


def _require_finite(**numbers: float) -> None:
    if not np.isfinite(list(numbers.values())).all():
        got = " and ".join(map(repr, numbers.values()))
        raise InputError(expected=f"{' and '.join(numbers)} must be finite", got=got)


class TwoClassModel(ABC):
    """What handwritten models have in common with a fitted classifier of scikit-learn: labels and names of columns."""

    __slots__ = ()
    classes: Labels

    @property
    def classes_(self) -> AnyArray:
        """The two labels."""
        return np.array(self.classes)

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that the model looks at, each once, in order."""

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The same as scikit-learn has them."""
        return np.array(self.columns, dtype=object)


BINS_KEYS = {"column", "edges", "points", "values", "missing", "other"}


@dataclass(frozen=True, slots=True)
class Bins:
    """The points of one column.

    A value listed in ``values`` (a category, or a number that stands for itself, such as a code for "no record") has
    the points listed there. Any other number has those of its bin: bin k holds ``edges[k - 1] <= x < edges[k]``, so
    there is one bin more than edges. Missing has ``missing``, and whatever is left has ``other``; None there means
    that such a value is refused.

    >>> age = Bins("age", edges=(25, 40), points=(0, 12, 20), missing=5)
    >>> age.look_up(np.array([24.5, 25, 90, np.nan])).tolist()
    [0.0, 12.0, 20.0, 5.0]
    >>> Bins("home", values={"own": 15, "rent": 3}, other=0).look_up(np.array(["rent", "boat"], dtype=object)).tolist()
    [3.0, 0.0]
    """

    column: str
    edges: Sequence[float] = ()
    points: Sequence[float] = ()
    values: Mapping[Value, float] | Sequence[tuple[Value, float]] = ()
    missing: float | None = None
    other: float | None = None

    def __post_init__(self) -> None:
        pairs = self.values.items() if isinstance(self.values, Mapping) else self.values
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        object.__setattr__(self, "points", tuple(float(points) for points in self.points))
        object.__setattr__(self, "values", tuple((value, float(points)) for value, points in pairs))
        for name in ("missing", "other"):
            points = getattr(self, name)
            object.__setattr__(self, name, None if points is None else float(points))
        self._check()

    def _check(self) -> None:
        if self.points and len(self.points) != len(self.edges) + 1:
            raise InputError(
                expected=f"{self.column!r} must have points for one bin more than it has edges",
                got=f"{format_count(len(self.points), 'point')} for {format_count(len(self.edges), 'edge')}",
            )
        if (self.edges and not self.points) or any(low >= high for low, high in pairwise(self.edges)):
            rule = f"the edges of {self.column!r} must be strictly increasing, with points for their bins"
            raise InputError(expected=rule, got=f"edges {self.edges} and points {self.points}")
        listed = [value for value, _ in self.listed_values]
        if len(set(listed)) < len(listed) or any(map(is_missing, listed)):
            raise InputError(
                expected=f"the values of {self.column!r} must be distinct and not missing",
                got=describe_value(listed),
                hint="give the points of a missing value as missing=",
            )
        if not all(map(math.isfinite, (*self.edges, *self.point_table))):
            rule = f"the edges and points of {self.column!r} must be finite numbers"
            raise InputError(expected=rule, got=f"edges {self.edges} and points {self.point_table}")

    @property
    def listed_values(self) -> tuple[tuple[Value, float], ...]:
        """The values that stand for themselves, with their points."""
        return cast(tuple[tuple[Value, float], ...], self.values)

    @property
    def point_table(self) -> tuple[float, ...]:
        """All points, by place: those of the bins, of the values, of missing and of anything else."""
        rest = [points for points in (self.missing, self.other) if points is not None]
        return (*self.points, *(points for _, points in self.listed_values), *rest)

    def find_places(self, values: AnyArray) -> IntpArray:
        """For every value its place in the table; raises ModelError if one has none."""
        numbers = _to_numbers(values)
        after = len(self.points) + len(self.listed_values)
        rest = after + (self.missing is not None) if self.other is not None else -1
        places = np.searchsorted(np.array(self.edges), numbers, "right") if self.points else np.full(len(values), rest)
        places[np.isnan(numbers)] = rest
        for place, (value, _) in enumerate(self.listed_values, start=len(self.points)):
            places[np.asarray(values == value, dtype=np.bool_)] = place
        places[_find_missing(values)] = after if self.missing is not None else -1
        if (places < 0).any():
            odd = values[np.flatnonzero(places < 0)[0]]
            raise ModelError(f"the model has no points for {odd!r} in column {self.column!r}")
        return places

    def look_up(self, values: AnyArray) -> Float64Array:
        """The points of every value."""
        return np.array(self.point_table)[self.find_places(values)]

    def to_dict(self) -> dict[str, Any]:
        """The points as plain data, without what is not set."""
        values = [[value_to_json(value), points] for value, points in self.listed_values]
        data = {"column": self.column, "edges": list(self.edges), "points": list(self.points), "values": values}
        return {name: item for name, item in data.items() if item} | {
            name: getattr(self, name) for name in ("missing", "other") if getattr(self, name) is not None
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bins:
        """The points that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        rule = f"points must have the key 'column', and no keys but {sorted(BINS_KEYS)}"
        _require_keys(data, {"column"}, BINS_KEYS, rule)
        values = tuple((value_from_json(value), points) for value, points in data.get("values", ()))
        return cls(**{**data, "values": values})


def _to_numbers(values: AnyArray) -> Float64Array:
    """Values as numbers, NaN where they are none."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([float(v) if isinstance(v, (int, float, np.number)) else np.nan for v in values], dtype=np.float64)


def _find_missing(values: AnyArray) -> BoolArray:
    if values.dtype.kind in "biuf":
        return np.asarray(values != values, dtype=np.bool_)
    return np.fromiter(map(is_missing, values), np.bool_, len(values))


def list_columns(parts: Sequence[Bins]) -> tuple[str, ...]:
    """The columns of these, each once, in order."""
    return tuple(dict.fromkeys(part.column for part in parts))


@dataclass(frozen=True, slots=True)
class Scorecard(TwoClassModel):
    """A row with ``cutoff`` points or more gets the second class, any other row the first.

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
        object.__setattr__(self, "classes", require_two_labels(self.classes))
        _require_finite(cutoff=self.cutoff, base=self.base)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the scorecard looks at."""
        return list_columns(self.parts)

    def points(self, table: Any) -> Float64Array:
        """The points of every row: the base, and those of every part, added in order."""
        columns = read_columns(table, self.columns)
        total = np.full(len(table), float(self.base))
        for part in self.parts:
            total += part.look_up(columns[part.column])
        return total

    def predict(self, table: Any) -> AnyArray:
        """The class of every row."""
        return choose_labels(self.points(table) >= self.cutoff, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The scorecard as plain data."""
        parts = [part.to_dict() for part in self.parts]
        return {"parts": parts, "cutoff": self.cutoff, "base": self.base, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scorecard:
        """The scorecard that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        rule = "a scorecard must have the keys 'parts' and 'cutoff', and may have 'base' and 'classes'"
        _require_keys(data, {"parts", "cutoff"}, {"base", "classes"}, rule)
        parts = tuple(Bins.from_dict(part) for part in data["parts"])
        return cls(parts, data["cutoff"], data.get("base", 0.0), tuple(data.get("classes", (0, 1))))


@dataclass(frozen=True, slots=True)
class Subscale:
    """One part of a two-layer model: ``weight`` times the logistic function of ``bias`` plus its points."""

    weight: float
    bias: float
    parts: Sequence[Bins]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        _require_finite(weight=self.weight, bias=self.bias)

    def to_dict(self) -> dict[str, Any]:
        """The subscale as plain data."""
        return {"weight": self.weight, "bias": self.bias, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Subscale:
        """The subscale that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        rule = "every subscale must have the keys 'weight', 'bias' and 'parts'"
        _require_keys(data, {"weight", "bias", "parts"}, set(), rule)
        return cls(data["weight"], data["bias"], tuple(Bins.from_dict(part) for part in data["parts"]))


@dataclass(frozen=True, slots=True)
class TwoLayerAdditive(TwoClassModel):
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
        object.__setattr__(self, "classes", require_two_labels(self.classes))
        _require_finite(bias=self.bias)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model looks at."""
        return list_columns([part for subscale in self.subscales for part in subscale.parts])

    def decision_function(self, table: Any) -> Float64Array:
        """The log odds of the second class."""
        columns = read_columns(table, self.columns)
        total = np.full(len(table), float(self.bias))
        for subscale in self.subscales:
            inner = np.full(len(table), float(subscale.bias))
            for part in subscale.parts:
                inner += part.look_up(columns[part.column])
            total += subscale.weight * _apply_logistic(inner)
        return total

    def predict_proba(self, table: Any) -> Float64Array:
        """The probabilities of both classes."""
        second = _apply_logistic(self.decision_function(table))
        return np.stack([1.0 - second, second], axis=1)

    def predict(self, table: Any) -> AnyArray:
        """The class of every row: the second where its log odds are positive."""
        return choose_labels(self.decision_function(table) > 0, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The model as plain data."""
        subscales = [subscale.to_dict() for subscale in self.subscales]
        return {"subscales": subscales, "bias": self.bias, "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TwoLayerAdditive:
        """The model that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        rule = "a two-layer model must have the keys 'subscales' and 'bias', and may have 'classes'"
        _require_keys(data, {"subscales", "bias"}, {"classes"}, rule)
        subscales = tuple(Subscale.from_dict(subscale) for subscale in data["subscales"])
        return cls(subscales, data["bias"], tuple(data.get("classes", (0, 1))))


def _apply_logistic(values: Float64Array) -> Float64Array:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-values)))


@dataclass(frozen=True, slots=True)
class RuleClassifier(TwoClassModel):
    """A row that satisfies one of the rules gets the first class, any other row the second.

    >>> import pandas as pd
    >>> from ironrule import Component, Rule
    >>> poor = Rule((Component("income", "<=", 500), Component("accounts", ">=", 4)))
    >>> model = RuleClassifier((poor,), classes=("denied", "approved"))
    >>> model.predict(pd.DataFrame({"income": [500, 500, 900], "accounts": [4, 3, 9]})).tolist()
    ['denied', 'approved', 'approved']
    """

    rules: Sequence[Rule]
    classes: Labels = (0, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "classes", require_two_labels(self.classes))
        odd = [rule for rule in self.rules if not isinstance(rule, Rule)]
        if odd:
            raise InputError(expected="rules must be Rule objects", got=type(odd[0]).__name__)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rules speak of; of a one-hot feature those of its pattern."""
        parts = [component for rule in self.rules for component in rule.components]
        names = [name for c in parts for name in ([name for name, _ in c.one_hot_columns] or [c.column])]
        return tuple(dict.fromkeys(names))

    def predict(self, table: Any) -> AnyArray:
        """The class of every row."""
        read = read_table(table, self.columns if isinstance(table, np.ndarray) else None)
        free = np.ones(len(read), dtype=np.bool_)
        for rule in self.rules:
            free &= ~rule.covers(read)
        return choose_labels(free, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The classifier as plain data."""
        return {"rules": [rule.to_dict() for rule in self.rules], "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleClassifier:
        """The classifier that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        rule = "a RuleClassifier must have the key 'rules', and may have 'classes'"
        _require_keys(data, {"rules"}, {"classes"}, rule)
        return cls(tuple(Rule.from_dict(rule) for rule in data["rules"]), tuple(data.get("classes", (0, 1))))

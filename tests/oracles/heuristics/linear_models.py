"""Questions about linear models of three features with 101 values each, in normal form, and about a landscape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Points
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import BoxQuery
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import case_of

LINEAR_SPACE = Space(tuple(Feature(name, tuple(range(101)), ordered=True) for name in "abc"))


@dataclass(frozen=True, slots=True)
class Slope:
    """What a column adds: so much for each unit."""

    slope: float

    def __call__(self, values: Any) -> Float64Array:
        return np.asarray(self.slope * values)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionModel:
    """A model that is a function of codes; desired where that is above 0."""

    function: Any

    def desired(self, points: Points) -> BoolArray:
        return np.asarray(self.scores(points) > 0.0)

    def scores(self, points: Points) -> Float64Array:
        return np.asarray(self.function(points), dtype=np.float64)


def tabulate_codes(form: Any, space: Space) -> TabulatedModel:
    """A normal form whose columns are the codes themselves."""
    columns = TabulatedColumns(np.arange(len(space)), tuple(np.arange(float(size)) for size in space.sizes))
    return TabulatedModel(form, columns)


def linear_sum(slopes: Sequence[float], limit: float) -> TreeSum:
    """Desired where the weighted sum of codes is above a limit."""
    terms = tuple(Term(column, Slope(slope)) for column, slope in enumerate(slopes))
    return TreeSum(((Margin(-limit, (LinkedGroup((), terms=terms),)),),))


def climb_hills(points: Points) -> Float64Array:
    """A low hill of a at 25 and a high one at 80."""
    a = points[:, 0]
    return np.maximum(0.4 - np.abs(a - 25) / 50.0, 1.0 - np.abs(a - 80) / 40.0) - 0.5


def linear_query(
    slopes: Sequence[float],
    limit: float,
    instance: Sequence[int],
    *,
    past: Points | None = None,
    k: int = 1,
    hills: bool = False,
) -> BoxQuery:
    """What may change of an instance: everything. Of the past rows, unless given, a differ most and c least."""
    rows = np.random.default_rng(0).normal(50, [24, 16, 8], size=(201, 3)).round().clip(0, 100).astype(np.int32)
    model = FunctionModel(climb_hills if hills else lambda points: points @ np.array(slopes) - limit)
    case = case_of(
        LINEAR_SPACE,
        np.zeros((101, 101, 101), np.bool_),
        np.array(instance, np.int32),
        rows if past is None else past,
        model=model,
    )
    read = None if hills else tabulate_codes(linear_sum(slopes, limit), LINEAR_SPACE)
    return BoxQuery(replace(case, scoring_model=model, tabulated_model=read), case.components.box(0), k)

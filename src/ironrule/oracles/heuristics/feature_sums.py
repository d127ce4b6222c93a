"""What each feature adds to a model's margins, code by code, where a model is such a sum.

Linear and additive models, scorecards and stumps are; of several classes, each margin between two of them is one. A
point is desired where, for some alternative, all margins are positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.errors import InputError
from ironrule.model.normal_form.separable import split_by_feature
from ironrule.model.normal_form.tree_sum import Link, Margin, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case


def require_tree_sum(case: Case, system: str) -> tuple[TreeSum, TabulatedModel]:
    """The normal form of a case's model, which must be a sum of trees and terms, and what the model sees; raises
    InputError for any other.
    """
    read = case.tabulated_model
    if read is None or not isinstance(read.normal_form, TreeSum):
        raise_unsuitable(system, "a model that was not read" if read is None else f"a {read.normal_form.kind}")
    return read.normal_form, read


def raise_unsuitable(system: str, got: str, needed: str = "trees, or a linear or additive model") -> NoReturn:
    """Raise InputError about a model in which a system cannot search."""
    raise InputError(
        expected=f"{system} needs a model that was read as {needed}",
        got=got,
        hint="pass the fitted model itself instead of its predict method, or search with Wachter(), which needs "
        "scores, or with GeCo() or GrowingSpheres(), which need answers alone",
        code="unsuitable-model",
    )


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedSum:
    """A margin as a function of what every code of every feature adds: offset + link(constant + sum)."""

    tables: tuple[Float64Array, ...]
    constant: float
    offset: float
    link: Link
    has_steps: bool  # whether trees have a part in it, so that it does not change between their thresholds

    @property
    def limit(self) -> float:
        """The margin is positive where the sum of what is added is above this."""
        if self.link.kind == "identity":
            return -self.offset - self.constant
        share = -self.offset / self.link.scale
        if not 0.0 < share < 1.0:
            return -np.inf if share <= 0.0 else np.inf
        return float((np.log(share) - np.log1p(-share) - self.link.shift) / self.link.slope - self.constant)

    def apply(self, total: float) -> tuple[float, float]:
        """The margin for a sum of what is added, and how fast it grows with it."""
        if self.link.kind == "identity":
            return self.offset + self.constant + total, 1.0
        value = float(self.link.apply(np.array([self.constant + total]))[0])
        return self.offset + value, self.link.slope * value * (1.0 - value / self.link.scale)


def tabulate_sums(
    form: TreeSum, read: TabulatedModel, sizes: Sequence[int]
) -> tuple[tuple[TabulatedSum, ...], ...] | None:
    """The margins of all alternatives as sums over the codes of each feature; None if one of them is no such sum.
    Raises Unreadable for a value that the model does not take.
    """
    found = []
    for margins in form.alternatives:
        parts = [_tabulate_sum(margin, read, sizes) for margin in margins]
        if any(part is None for part in parts):
            return None
        found.append(tuple(part for part in parts if part is not None))
    return tuple(found)


def _tabulate_sum(margin: Margin, read: TabulatedModel, sizes: Sequence[int]) -> TabulatedSum | None:
    split = split_by_feature(TreeSum(((margin,),)), read.columns.features)
    if split is None:
        return None
    columns: list[dict[int, AnyArray]] = [{} for _ in sizes]
    for column, (feature, values) in enumerate(zip(read.columns.features, read.columns.values, strict=True)):
        columns[int(feature)][column] = values
    tables = tuple(split.evaluate(j, columns[j], size).values for j, size in enumerate(sizes))
    steps = any(map(split.has_trees, range(len(sizes))))
    return TabulatedSum(tables, split.constant, split.offset, split.link, steps)

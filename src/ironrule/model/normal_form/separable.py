"""Sums in which every feature adds something by itself: linear and additive models, scorecards, stumps.

A sum of trees is *separable* if it is one margin of one sum, perhaps within a logistic function, and each of its trees
and terms looks at columns of one feature alone. What a feature adds then depends on its own value, whatever the others
are, and the model gives the desired outcome where the sum is above a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array, IntpArray
from ironrule.model.normal_form.splits import list_split_columns
from ironrule.model.normal_form.tree_sum import Link, Margin, Term, Tree, TreeSum

OWN_ROUNDING = 1e-12  # of what we add up, by its size
SHORT = 1024.0


@dataclass(frozen=True, slots=True, eq=False)
class FeatureColumns:
    """The columns of one feature, by their position among all that the model sees, as trees and terms look at them."""

    columns: Mapping[int, AnyArray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, key: Any) -> AnyArray:
        rows, column = key
        return np.asarray(self.columns[column][rows])


@dataclass(frozen=True, slots=True, eq=False)
class SeparableMargin:
    """A margin as a link of a constant and what every feature adds, and an offset; ``parts`` has the trees and terms of
    each feature.
    """

    offset: float
    constant: float
    parts: Mapping[int, tuple[Tree | Term, ...]]
    link: Link
    error: float
    relative_error: float

    def evaluate(self, feature: int, columns: Mapping[int, AnyArray], count: int) -> FeatureContribution:
        """What a feature adds for so many rows of its columns; raises Unreadable where the model takes no such value.

        The columns are by their position among all that the model sees.
        """
        seen: Any = FeatureColumns(columns)
        total, size, short = np.zeros(count), 0.0, True
        for part in self.parts.get(feature, ()):
            values = part.evaluate(seen)
            total += values
            size += float(np.abs(values).max(initial=0.0))
            short = short and bool((values * SHORT == np.floor(values * SHORT)).all())
        return FeatureContribution(total, size, short)

    def find_limits(self, contributions: Sequence[FeatureContribution]) -> tuple[float, float]:
        """Sums of contributions up to the first number are surely undesired, and above the second surely desired.

        In between, the model's own arithmetic, or ours, may be off by so much that only the model can say.
        """
        size = abs(self.offset) + abs(self.constant) + math.fsum(one.size for one in contributions)
        error = self.error + self.relative_error * size
        if self.link.kind == "identity":
            # no sum rounds numbers that are all short and not large
            short = all((number * SHORT).is_integer() for number in (self.offset, self.constant)) and size < SHORT**4
            error += 0.0 if short and all(one.is_short for one in contributions) else OWN_ROUNDING * size
            limit = -self.offset - self.constant
            return limit - error, limit + error
        ends = [self._invert_logistic(more - self.offset) for more in (-error, error)]
        lost = [OWN_ROUNDING * (size + abs(end)) if math.isfinite(end) else 0.0 for end in ends]
        return ends[0] - lost[0], ends[1] + lost[1]

    def _invert_logistic(self, level: float) -> float:
        """The sum of contributions at which the link gives a level."""
        share = level / self.link.scale
        if not 0.0 < share < 1.0:
            return -math.inf if share <= 0.0 else math.inf
        return (math.log(share) - math.log1p(-share) - self.link.shift) / self.link.slope - self.constant

    def has_trees(self, feature: int) -> bool:
        """Whether a tree looks at a feature."""
        return any(isinstance(part, Tree) for part in self.parts.get(feature, ()))


@dataclass(frozen=True, slots=True, eq=False)
class FeatureContribution:
    """What a feature adds for some rows, and the sum of its parts' largest sizes."""

    values: Float64Array
    size: float
    is_short: bool  # whether all parts are whole multiples of a small power of two


def split_by_feature(tree_sum: TreeSum, features: IntpArray) -> SeparableMargin | None:
    """A sum as one function per feature; None if it is no such sum. ``features`` has the feature of every column."""
    if len(tree_sum.alternatives) != 1 or len(tree_sum.alternatives[0]) != 1:
        return None
    return _split_margin(tree_sum.alternatives[0][0], features)


def split_alternatives(tree_sum: TreeSum, features: IntpArray) -> list[list[SeparableMargin]] | None:
    """The same for every margin of every alternative; None if one of them is no such sum."""
    found = []
    for margins in tree_sum.alternatives:
        known = [_split_margin(margin, features) for margin in margins]
        separable = [one for one in known if one is not None]
        if len(separable) < len(known):
            return None
        found.append(separable)
    return found


def _split_margin(margin: Margin, features: IntpArray) -> SeparableMargin | None:
    # A logistic link that rises keeps the sum under it in order, if it is the only one; of several linked sums there
    # is no one sum to speak of.
    links = [group.link for group in margin.groups]
    linear = all(link.kind == "identity" for link in links)
    logistic = len(links) == 1 and links[0].kind == "logistic" and links[0].scale > 0.0 and links[0].slope > 0.0
    if not linear and not logistic:
        return None
    parts: dict[int, list[Tree | Term]] = {}
    constants = []
    for group in margin.groups:
        for term in group.terms:
            parts.setdefault(int(features[term.column]), []).append(term)
        for tree in group.trees:
            own = {int(features[column]) for column in list_split_columns(tree.splits)}
            if len(own) > 1:
                return None
            if own:
                parts.setdefault(own.pop(), []).append(tree)
            else:
                constants.append(float(tree.value[0]))
    lost = math.fsum(group.rounding_error for group in margin.groups)
    return SeparableMargin(
        offset=margin.offset,
        constant=math.fsum(constants),
        parts={feature: tuple(some) for feature, some in parts.items()},
        link=links[0] if logistic else Link(),
        error=margin.error + (lost * links[0].scale * links[0].slope if logistic else lost),
        relative_error=margin.relative_error,
    )

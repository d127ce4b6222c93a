"""Models that are written by hand: scorecards, rules, two-layer additive models.

The models themselves are in :mod:`ironrule.model.wrappers.handwritten_models`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, IntpArray
from ironrule.errors import InputError, ModelError
from ironrule.model.model_input import MAX_EXACT_INTEGER
from ironrule.model.normal_form.splits import Lookup, build_table_tree
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.boosting import build_constant_sum
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.tree_scores import GRID, LINK_ERROR, MAX_GRID_SUM, bound_rounding, find_log_odds, is_on_grid
from ironrule.model.wrappers.handwritten_models import Bins, RuleClassifier, Scorecard, TwoLayerAdditive
from ironrule.rule.rule import Component, Rule
from ironrule.space.table import Table


def read_handwritten_model(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of a Scorecard, RuleClassifier or TwoLayerAdditive; None for anything else."""
    if not isinstance(estimator, Scorecard | RuleClassifier | TwoLayerAdditive):
        return None
    require_own_methods(estimator, *_list_parts(estimator))
    sign = 1.0 if desired == (estimator.classes[1],) else -1.0
    if isinstance(estimator, TwoLayerAdditive):
        return _read_two_layer(estimator, sign, threshold)
    if threshold is not None:
        raise Unreadable(f"a {type(estimator).__name__} has no probabilities that could pass a threshold")
    return _read_scorecard(estimator, sign) if isinstance(estimator, Scorecard) else _read_rules(estimator, sign)


def _list_parts(estimator: Scorecard | RuleClassifier | TwoLayerAdditive) -> list[Any]:
    """The objects that a handwritten model asks when it decides."""
    if isinstance(estimator, RuleClassifier):
        return [*estimator.rules, *(component for rule in estimator.rules for component in rule.components)]
    if isinstance(estimator, Scorecard):
        return list(estimator.parts)
    return [*estimator.subscales, *(part for subscale in estimator.subscales for part in subscale.parts)]


def _read_scorecard(card: Scorecard, sign: float) -> TreeSum:
    """Whole points, or fine fractions of them, add up exactly; then a tie with the cut-off is decided here."""
    trees = _build_trees(card.parts, card.feature_names_in_.tolist(), sign)
    size = abs(card.base) + abs(card.cutoff) + sum(max(map(abs, part.point_table)) for part in card.parts)
    numbers = np.array([card.base, card.cutoff, *(points for part in card.parts for points in part.point_table)])
    exact = size <= MAX_GRID_SUM and is_on_grid(numbers)
    offset = sign * (card.base - card.cutoff) + (sign * GRID / 2 if exact else 0.0)
    return TreeSum(((Margin(offset, (LinkedGroup(trees),), 0.0 if exact else bound_rounding(len(trees) + 4, size)),),))


def _read_two_layer(model: TwoLayerAdditive, sign: float, threshold: float | None) -> TreeSum:
    limit, error = (0.0, 0.0) if threshold is None else find_log_odds(float(threshold), 1.0)
    if not np.isfinite(limit):
        return build_constant_sum(limit < 0)
    names = model.feature_names_in_.tolist()
    offset, groups = sign * model.bias - limit, []
    weights = sum(abs(subscale.weight) for subscale in model.subscales)
    error += bound_rounding(len(model.subscales) + 4, abs(model.bias) + abs(limit) + weights)
    for subscale in model.subscales:
        share = sign * subscale.weight
        rises = 1.0 if share > 0 else -1.0
        offset += min(share, 0.0)  # a falling logistic function is a rising one of the negated sum, less 1
        trees = _build_trees(subscale.parts, names, rises)
        size = abs(subscale.bias) + sum(max(map(abs, part.point_table)) for part in subscale.parts)
        inner = bound_rounding(len(trees) + 4, size)
        error += abs(share) * (LINK_ERROR + inner / 4)  # a logistic function is nowhere steeper than a quarter
        if share:
            groups.append(LinkedGroup(trees, Link("logistic", abs(share), 1.0, rises * subscale.bias)))
    return TreeSum(((Margin(offset, tuple(groups), error),),))


def _build_trees(parts: Sequence[Bins], names: list[str], sign: float) -> tuple[Tree, ...]:
    lookups = [Lookup(names.index(part.column), BinLocator(part), _is_increasing(part)) for part in parts]
    tables = [sign * np.array(part.point_table) for part in parts]
    return tuple(build_table_tree((lookup,), table) for lookup, table in zip(lookups, tables, strict=True))


def _is_increasing(part: Bins) -> bool:
    """Whether no number stands for itself, apart from its neighbours."""
    return not any(isinstance(value, (int, float, np.number)) for value, _ in part.listed_values)


@dataclass(frozen=True, slots=True)
class BinLocator:
    """The places of a column's values among its points; a value that the model refuses makes it unreadable."""

    part: Bins

    def __call__(self, values: AnyArray) -> IntpArray:
        try:
            return self.part.find_places(values)
        except ModelError as error:
            raise Unreadable(str(error)) from error


def _read_rules(model: RuleClassifier, sign: float) -> TreeSum:
    """Desired if no rule holds (the sum of those that do is below one half), or if one does: an alternative each."""
    names = model.feature_names_in_.tolist()
    trees = [_build_rule_tree(rule, names, -sign) for rule in model.rules]
    if sign > 0:
        return TreeSum(((Margin(0.5, (LinkedGroup(tuple(trees)),) if trees else ()),),))
    if not trees:
        return build_constant_sum(False)
    return TreeSum(tuple((Margin(-0.5, (LinkedGroup((tree,)),)),) for tree in trees))


def _build_rule_tree(rule: Rule, names: list[str], value: float) -> Tree:
    """A chain of splits: ``value`` where all hold, 0 elsewhere."""
    parts = (part for component in rule.components for part in _split_by_column(component))
    splits = [ComponentSplit(names.index(part.column), part) for part in parts]
    count = len(splits)
    left = [*range(1, count), 2 * count, *[-1] * count, -1] if count else [-1]
    right = [*range(count, 2 * count), *[-1] * count, -1] if count else [-1]
    asked = (*splits, *[None] * (count + 1))
    values = np.array([0.0] * (2 * count) + [value])
    return Tree(asked, np.array(left, np.int32), np.array(right, np.int32), values)


def _split_by_column(component: Component) -> list[Component]:
    """A component as ones that speak of a single column each."""
    return [Component(name, "==", wanted) for name, wanted in component.one_hot_columns] or [component]


@dataclass(frozen=True, slots=True)
class ComponentSplit:
    """A split: values that satisfy a component go left."""

    column: int
    component: Component

    @property
    def turns_once(self) -> bool:
        """Where it compares numbers; one that asks for a value does not."""
        return self.component.op != "==" and self.component.allowed is None

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        self._require_exact_values(values)
        try:
            return self.component.covers(Table(values[:, None], (self.component.column,), None))
        except InputError as error:
            raise Unreadable(str(error)) from error

    def _require_exact_values(self, values: AnyArray) -> None:
        """Whole numbers of the user's table may have lost digits on the way here, as numbers of 53 bits."""
        target = self.component.value
        if not isinstance(target, (int, float)) or abs(target) < MAX_EXACT_INTEGER or values.dtype.kind != "f":
            return
        if (values == float(target)).any():
            raise Unreadable(f"{self.component} compares whole numbers beyond 2^53, which cannot be told apart here")

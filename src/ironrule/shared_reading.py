"""Let the checker use the explainer's reading of a model that the checker has no reader of its own for.

This is the one place where a check may rest on code of the explainer; a result that does says "reading shared".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers.network_form import ActivationFunction, NetworkForm, NetworkLayer, NetworkMargin
from ironrule.checker.readers.normal_form import (
    ColumnTerm,
    EstimatorTarget,
    LinkFunction,
    MarginPart,
    NoReading,
    Reading,
    RegressionTree,
    Split,
    SumForm,
    SumMargin,
)
from ironrule.model import protocol
from ironrule.model.normal_form import network, tree_sum
from ironrule.model.readers.registry import read_estimator
from ironrule.model.readers.sklearn_additive import STRAIGHT_SHAPES, ScaledShape


def convert_normal_form(reading: protocol.NormalForm) -> Reading:
    """A normal form of the explainer in the checker's form; raises NoReading if it is not lent."""
    if isinstance(reading, network.Network):
        return _convert_network(reading)
    if isinstance(reading, tree_sum.TreeSum):
        return _convert_tree_sum(reading)
    raise NoReading(f"the checker does not borrow the explainer's reading of a {reading.kind}")


def read_for_checker(estimator: Any, target: EstimatorTarget, labels: tuple[Any, ...] | None) -> Reading:
    """The explainer's reading of an estimator in the checker's form; raises NoReading if it has none either."""
    try:
        reading = read_estimator(estimator, labels, target.threshold, target.direction)
    except protocol.Unreadable as reason:
        raise NoReading(str(reason)) from None
    return convert_normal_form(reading)


def _convert_network(reading: network.Network) -> NetworkForm:
    layers = tuple(
        NetworkLayer(layer.weights, layer.bias, ActivationFunction(layer.activation.kind, layer.activation.slope))
        for layer in reading.layers
    )
    alternatives = tuple(
        tuple(NetworkMargin(np.asarray(margin.coefficients), margin.offset, margin.error) for margin in margins)
        for margins in reading.alternatives
    )
    return NetworkForm(layers, alternatives, reading.roundoff)


def _convert_tree_sum(reading: tree_sum.TreeSum) -> SumForm:
    return SumForm(tuple(tuple(map(_convert_margin, margins)) for margins in reading.alternatives))


def _convert_margin(margin: tree_sum.Margin) -> SumMargin:
    return SumMargin(margin.offset, tuple(map(_convert_group, margin.groups)), margin.error, margin.relative_error)


def _convert_group(group: tree_sum.LinkedGroup) -> MarginPart:
    link = LinkFunction(group.link.kind, group.link.scale, group.link.slope, group.link.shift)
    return MarginPart(tuple(map(_convert_tree, group.trees)), tuple(map(_convert_term, group.terms)), link)


def _convert_tree(tree: tree_sum.Tree) -> RegressionTree:
    splits: list[Split | None] = [None if split is None else SharedSplit(split) for split in tree.splits]
    return RegressionTree(splits, tree.left.astype(np.intp), tree.right.astype(np.intp), tree.value)


def _convert_term(term: tree_sum.Term) -> ColumnTerm:
    straight = isinstance(term.contribution, ScaledShape) and isinstance(term.contribution.shape, STRAIGHT_SHAPES)
    return ColumnTerm(term.column, _SharedContribution(term), straight)


@dataclass(frozen=True, slots=True)
class SharedSplit:
    """A split of the explainer's reading."""

    split: tree_sum.TreeSplit

    @property
    def column(self) -> int:
        """The column's position."""
        return self.split.column

    @property
    def turns_once(self) -> bool:
        """Whether its answer changes at one number at the most."""
        return tree_sum.turns_once(self.split)

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        try:
            return np.asarray(self.split.goes_left(_convert_integers(values)), dtype=np.bool_)
        except protocol.Unreadable as reason:
            raise NoReading(str(reason)) from None


@dataclass(frozen=True, slots=True, eq=False)
class _SharedContribution:
    term: tree_sum.Term

    def __call__(self, values: AnyArray) -> Float64Array:
        try:
            return np.asarray(self.term.contribution(_convert_integers(values)), dtype=np.float64)
        except protocol.Unreadable as reason:
            raise NoReading(str(reason)) from None


def _convert_integers(values: AnyArray) -> AnyArray:
    """Values in the types that the explainer's readings get: floats for numbers."""
    return values.astype(np.float64) if values.dtype.kind in "biu" else values

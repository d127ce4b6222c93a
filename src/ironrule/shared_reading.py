"""Lend the checker the explainer's reading of a model that the checker has no reading of its own for.

This is the one place where a check may rest on code of the explainer; a result that does says "reading shared".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.checker.readings.network_form import Activation, Layer, NetworkMargin, NetworkReading
from ironrule.checker.readings.normal_form import (
    Floats,
    Link,
    Margin,
    Mask,
    Part,
    Question,
    Split,
    SumReading,
    Term,
    Tree,
    Unreadable,
    Values,
)
from ironrule.model import network, reading
from ironrule.model.readers import read
from ironrule.model.readers.additive import Itself, Scaled


def convert_reading(found: reading.Reading | network.Network) -> SumReading | NetworkReading:
    """A reading of the explainer in the checker's form."""
    return _convert_network(found) if isinstance(found, network.Network) else _convert_sums(found)


def lend_reading(estimator: Any, question: Question, labels: tuple[Any, ...] | None) -> SumReading | NetworkReading:
    """The explainer's reading of an estimator in the checker's form; raises Unreadable if it has none either."""
    try:
        found = read(estimator, labels, question.threshold)
    except reading.Unreadable as reason:
        raise Unreadable(str(reason)) from None
    return convert_reading(found)


def _convert_network(found: network.Network) -> NetworkReading:
    layers = tuple(
        Layer(layer.weights, layer.bias, Activation(layer.activation.kind, layer.activation.slope))
        for layer in found.layers
    )
    alternatives = tuple(
        tuple(NetworkMargin(np.asarray(one.coefficients), one.offset, one.error) for one in margins)
        for margins in found.alternatives
    )
    return NetworkReading(layers, alternatives, found.unit)


def _convert_sums(found: reading.Reading) -> SumReading:
    return SumReading(tuple(tuple(map(_convert_margin, margins)) for margins in found.alternatives))


def _convert_margin(margin: reading.Margin) -> Margin:
    return Margin(margin.offset, tuple(map(_convert_group, margin.groups)), margin.error, margin.relative)


def _convert_group(group: reading.Group) -> Part:
    link = Link(group.link.kind, group.link.scale, group.link.slope, group.link.shift)
    return Part(tuple(map(_convert_tree, group.trees)), tuple(map(_convert_term, group.terms)), link)


def _convert_tree(tree: reading.Tree) -> Tree:
    splits: list[Split | None] = [None if test is None else LentSplit(test) for test in tree.tests]
    return Tree(splits, tree.left.astype(np.intp), tree.right.astype(np.intp), tree.value)


def _convert_term(term: reading.Term) -> Term:
    straight = isinstance(term.of, Scaled) and isinstance(term.of.shape, Itself)
    return Term(term.column, _LentContribution(term), straight)


@dataclass(frozen=True, slots=True)
class LentSplit:
    """A test of the explainer's reading."""

    test: reading.Test

    @property
    def column(self) -> int:
        """The column's position."""
        return self.test.column

    @property
    def turns_once(self) -> bool:
        """Whether its answer changes at one number at the most."""
        return reading.changes_once(self.test)

    def goes_left(self, values: Values) -> Mask:
        """Which of these values of the column go left."""
        try:
            return np.asarray(self.test.goes_left(_as_seen(values)), dtype=np.bool_)
        except reading.Unreadable as reason:
            raise Unreadable(str(reason)) from None


@dataclass(frozen=True, slots=True, eq=False)
class _LentContribution:
    term: reading.Term

    def __call__(self, values: Values) -> Floats:
        try:
            return np.asarray(self.term.of(_as_seen(values)), dtype=np.float64)
        except reading.Unreadable as reason:
            raise Unreadable(str(reason)) from None


def _as_seen(values: Values) -> Values:
    """Values in the types that the explainer's readings get: floats for numbers."""
    return values.astype(np.float64) if values.dtype.kind in "biu" else values

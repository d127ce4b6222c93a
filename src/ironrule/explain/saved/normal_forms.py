"""Sums of trees and networks, to plain data and arrays and back.

What is read is checked as if its author were hostile: children of nodes come after their parents, columns are those
that the model sees, and numbers are finite where a search relies on that. Compiled code would follow any index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.errors import describe_value
from ironrule.explain.saved.archive import ArrayPool, StoredParts, build_damage_error
from ironrule.explain.saved.fields import (
    CONTRIBUTIONS,
    SPLITS,
    STORED_CLASSES,
    NotStorable,
    read_float,
    read_object,
    require_increasing,
    require_int,
    require_list,
    require_object,
    write_float,
    write_object,
)
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.model.normal_form.splits import ThresholdSplits
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Term, Tree, TreeSum
from ironrule.model.protocol import NormalForm, Unreadable
from ironrule.model.saved_model import ListedContribution

MAX_MARGINS = 100_000
ACTIVATIONS = ("identity", "relu", "leaky", "tanh", "logistic")
LINKS = ("identity", "logistic", "step")


def write_normal_form(form: NormalForm, seen: Sequence[AnyArray], pool: ArrayPool) -> dict[str, Any]:
    """A normal form; ``seen`` has what the model sees of every known value, by column. Raises NotStorable."""
    if isinstance(form, Network):
        return _write_network(form, pool)
    if not isinstance(form, TreeSum):
        raise NotStorable(f"a {form.kind} is not stored so far")
    writer = _TreeWriter(seen, pool)
    alternatives = [[writer.write_margin(margin) for margin in margins] for margins in form.alternatives]
    return {"is": "TreeSum", "trees": writer.trees, "splits": writer.splits, "alternatives": alternatives}


class _TreeWriter:
    """Trees and their splits, each written once: sums of several classes share them."""

    def __init__(self, seen: Sequence[AnyArray], pool: ArrayPool) -> None:
        self.seen, self.pool = seen, pool
        self.trees: list[Any] = []
        self.splits: list[Any] = []
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no number of an object is given to another

    def write_margin(self, margin: Margin) -> dict[str, Any]:
        return {
            "offset": write_float(margin.offset),
            "error": write_float(margin.error),
            "relative_error": write_float(margin.relative_error),
            "groups": [self._write_group(group) for group in margin.groups],
        }

    def _write_group(self, group: LinkedGroup) -> dict[str, Any]:
        link = group.link
        return {
            "trees": [self._write_tree(tree) for tree in group.trees],
            "terms": [[term.column, self._write_contribution(term)] for term in group.terms],
            "link": [link.kind, *map(write_float, (link.scale, link.slope, link.shift))],
            "rounding_error": write_float(group.rounding_error),
        }

    def _write_contribution(self, term: Term) -> Any:
        if type(term.contribution) in STORED_CLASSES:
            try:
                return write_object(term.contribution, self.pool)
            except NotStorable:
                pass  # what stands inside is not known: it is listed
        known = np.unique(self.seen[term.column].astype(np.float64))
        try:
            added = np.asarray(term.contribution(known.astype(self.seen[term.column].dtype)), dtype=np.float64)
        except Unreadable as reason:
            raise NotStorable(str(reason)) from None
        return write_object(ListedContribution(known, added), self.pool)

    def _write_tree(self, tree: Tree) -> int:
        if id(tree) not in self._places:
            self._keep(tree, len(self.trees))
            arrays = [self.pool.add(array) for array in (tree.left, tree.right, tree.value)]
            self.trees.append([self._write_splits(tree.splits), *arrays])
        return self._places[id(tree)]

    def _write_splits(self, splits: Any) -> int:
        if id(splits) not in self._places:
            self._keep(splits, len(self.splits))
            self.splits.append(self._describe_splits(splits))
        return self._places[id(splits)]

    def _describe_splits(self, splits: Any) -> Any:
        if not isinstance(splits, ThresholdSplits):
            return [None if split is None else write_object(split, self.pool) for split in splits]
        others = [[node, write_object(split, self.pool)] for node, split in splits.other_splits.items()]
        arrays = [
            self.pool.add(np.asarray(array, dtype=kind))
            for array, kind in ((splits.column, np.int32), (splits.threshold, np.float64), (splits.kind, np.int32))
        ]
        return {"make": write_object(splits.make_split, self.pool), "others": others, "arrays": arrays}

    def _keep(self, thing: Any, place: int) -> None:
        self._places[id(thing)] = place
        self._kept.append(thing)


def read_normal_form(data: Any, parts: StoredParts, width: int) -> TreeSum | Network:
    """The normal form that :func:`write_normal_form` wrote, of a model that sees so many columns."""
    given = require_object(data)
    if given.get("is") == "Network":
        return _read_network(given, parts, width)
    if given.get("is") != "TreeSum":
        raise build_damage_error("a TreeSum or a Network", describe_value(given.get("is")))
    splits = [_read_splits(one, parts, width) for one in require_list(given.get("splits"))]
    trees = [_read_tree(one, parts, splits) for one in require_list(given.get("trees"))]
    alternatives = tuple(
        tuple(_read_margin(margin, parts, trees, width) for margin in require_list(margins))
        for margins in require_list(given.get("alternatives"))
    )
    if sum(map(len, alternatives)) > MAX_MARGINS:
        raise build_damage_error(f"at most {MAX_MARGINS:,} margins", f"{sum(map(len, alternatives)):,}")
    return TreeSum(alternatives)


def _read_splits(data: Any, parts: StoredParts, width: int) -> Any:
    if isinstance(data, list):
        return tuple(None if one is None else _read_split(one, parts, width) for one in data)
    given = require_object(data)
    arrays = require_list(given.get("arrays"))
    if len(arrays) != 3:
        raise build_damage_error("three arrays of splits", len(arrays))
    column, threshold, kind = (
        parts.get_array(reference, dtype) for reference, dtype in zip(arrays, ("i4", "f8", "i4"), strict=True)
    )
    if not len(column) == len(threshold) == len(kind) or not ((column >= -1) & (column < width)).all():
        raise build_damage_error(f"splits of the {width} columns that the model sees", "others")
    others = {
        require_int(pair[0]): _read_split(pair[1], parts, width)
        for pair in map(require_list, require_list(given.get("others")))
        if len(pair) == 2
    }
    make = read_object(given.get("make"), parts)
    if not callable(make):
        raise build_damage_error("what makes splits", describe_value(given.get("make")))
    return ThresholdSplits(column, threshold, kind, make, others)


def _read_split(data: Any, parts: StoredParts, width: int) -> Any:
    split = read_object(data, parts, *SPLITS)
    if not 0 <= split.column < width:
        raise build_damage_error(f"splits of the {width} columns that the model sees", split.column)
    return split


def _read_tree(data: Any, parts: StoredParts, splits: Sequence[Any]) -> Tree:
    given = require_list(data)
    if len(given) != 4:
        raise build_damage_error("the four parts of a tree", len(given))
    left, right, value = (
        parts.get_array(reference, kind) for reference, kind in zip(given[1:], ("i4", "i4", "f8"), strict=True)
    )
    own, nodes = _take(splits, given[0], "splits"), np.arange(len(left))
    inner = left >= 0
    in_order = (left > nodes) & (left < len(nodes)) & (right > nodes) & (right < len(nodes))
    sound = 0 < len(left) == len(right) == len(value) == len(own) and (in_order | ~inner).all()
    if not sound or not np.isfinite(value).all():
        raise build_damage_error("trees whose children come after their parents, with finite values", "another")
    if isinstance(own, ThresholdSplits):
        asked = own.column >= 0
        asked[[node for node in own.other_splits if 0 <= node < len(asked)]] = True
    else:
        asked = np.array([split is not None for split in own], dtype=np.bool_)
    if not asked[inner].all():
        raise build_damage_error("a split for every node of a tree that has children", "none")
    return Tree(own, left, right, value)


def _read_margin(data: Any, parts: StoredParts, trees: Sequence[Tree], width: int) -> Margin:
    given = require_object(data)
    numbers = [read_float(given.get(name)) for name in ("offset", "error", "relative_error")]
    if not np.isfinite(numbers[0]) or min(numbers[1:]) < 0.0:  # an error may be infinite: such a margin is never sure
        raise build_damage_error("a finite offset of a margin, and errors that are not negative", numbers)
    groups = tuple(_read_group(group, parts, trees, width) for group in require_list(given.get("groups")))
    return Margin(numbers[0], groups, numbers[1], numbers[2])


def _read_group(data: Any, parts: StoredParts, trees: Sequence[Tree], width: int) -> LinkedGroup:
    given = require_object(data)
    own = tuple(_take(trees, place, "trees") for place in require_list(given.get("trees")))
    terms = []
    for pair in map(require_list, require_list(given.get("terms"))):
        if len(pair) != 2 or not 0 <= require_int(pair[0]) < width:
            raise build_damage_error(f"terms of the {width} columns that the model sees", describe_value(pair[:1]))
        contribution = read_object(pair[1], parts, *CONTRIBUTIONS)
        _check_contribution(contribution)
        terms.append(Term(pair[0], contribution))
    link = require_list(given.get("link"))
    if len(link) != 4 or link[0] not in LINKS:
        raise build_damage_error(f"a link, one of {', '.join(LINKS)}", describe_value(link))
    numbers = [*map(read_float, link[1:]), read_float(given.get("rounding_error"))]
    if not np.isfinite(numbers).all() or numbers[3] < 0.0 or numbers[0] < 0.0 or numbers[1] < 0.0:
        raise build_damage_error("a link that rises", describe_value(link))
    return LinkedGroup(own, Link(link[0], *numbers[:3]), tuple(terms), numbers[3])


def _check_contribution(contribution: Any) -> None:
    """A list of numbers must rise, and have something added for each."""
    inner = getattr(contribution, "contribution", contribution)
    if isinstance(inner, ListedContribution):
        require_increasing(inner.seen, "numbers that a column adds something for")
        if not 0 < len(inner.seen) == len(inner.added) or not np.isfinite(inner.added).all():
            raise build_damage_error("a finite number that a column adds for each number", "others")


def _take(things: Sequence[Any], place: Any, what: str) -> Any:
    if not 0 <= require_int(place) < len(things):
        raise build_damage_error(f"one of its {len(things)} {what}", place)
    return things[place]


def _write_network(network: Network, pool: ArrayPool) -> dict[str, Any]:
    def write_layer(layer: Layer) -> dict[str, Any]:
        weights, bias = (np.asarray(array, dtype=np.float64) for array in (layer.weights, layer.bias))
        activation = [layer.activation.kind, write_float(layer.activation.slope)]
        return {"weights": pool.add(weights), "bias": pool.add(bias), "activation": activation}

    def write_margin(margin: OutputMargin) -> dict[str, Any]:
        coefficients = pool.add(np.asarray(margin.coefficients, dtype=np.float64))
        return {
            "coefficients": coefficients,
            "offset": write_float(margin.offset),
            "error": write_float(margin.error),
        }

    alternatives = [[write_margin(margin) for margin in margins] for margins in network.alternatives]
    layers = [write_layer(layer) for layer in network.layers]
    return {
        "is": "Network",
        "layers": layers,
        "alternatives": alternatives,
        "roundoff": write_float(network.roundoff),
    }


def _read_network(given: dict[str, Any], parts: StoredParts, width: int) -> Network:
    layers = tuple(_read_layer(require_object(layer), parts) for layer in require_list(given.get("layers")))
    alternatives = tuple(
        tuple(_read_output_margin(require_object(margin), parts) for margin in require_list(margins))
        for margins in require_list(given.get("alternatives"))
    )
    roundoff = read_float(given.get("roundoff"))
    if not layers or len(layers[0].weights) != width or not 0.0 < roundoff < 1.0:
        raise build_damage_error(f"a network of the {width} columns that the model sees", "another")
    try:
        return Network(layers, alternatives, roundoff)
    except Unreadable as reason:
        raise build_damage_error("a network", reason) from None


def _read_layer(given: dict[str, Any], parts: StoredParts) -> Layer:
    activation = require_list(given.get("activation"))
    if len(activation) != 2 or activation[0] not in ACTIVATIONS:
        raise build_damage_error(f"an activation, one of {', '.join(ACTIVATIONS)}", describe_value(activation))
    weights = parts.get_array(given.get("weights"), "f8", 2)
    bias = parts.get_array(given.get("bias"), "f8")
    return Layer(weights, bias, Activation(activation[0], read_float(activation[1])))


def _read_output_margin(given: dict[str, Any], parts: StoredParts) -> OutputMargin:
    error = read_float(given.get("error"))
    if error < 0.0:
        raise build_damage_error("errors that are not negative", error)
    return OutputMargin(parts.get_array(given.get("coefficients"), "f8"), read_float(given.get("offset")), error)

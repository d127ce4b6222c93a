"""The operator ``TreeEnsemble`` of version 5 of ``ai.onnx.ml``, written as the older ones are.

Inner nodes and leaves stand in lists of their own: a node names its children by their places among the nodes, or among
the leaves where ``nodes_trueleafs`` or ``nodes_falseleafs`` says so, and ``tree_roots`` has the nodes that trees begin
at. A leaf or a node may have several parents; here every path gets its own copy. A test for members of a set asks for
one member after the other, as onnxruntime does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.model.protocol import Unreadable, require_readable

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER = MODES.index("BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
# as onnxruntime (1.31) numbers them; the specification has SOFTMAX as 1 and LOGISTIC as 2. A reading that is not what
# onnxruntime does is noticed, since it is compared with the model before it is used.
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
MAX_NODES = 1_000_000
NODE_LISTS = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
Child = tuple[bool, int]  # whether it is a leaf, and its place


def flatten_tree_ensemble(attributes: Mapping[str, Any], single: bool) -> dict[str, Any]:
    """The attributes as those of a ``TreeEnsembleRegressor`` of version 3, whose input is in single or double
    precision; raises Unreadable for what is not understood.
    """
    return _Flattening(attributes, single).run()


def _read_tensor(attributes: Mapping[str, Any], name: str) -> AnyArray:
    from onnx import numpy_helper

    if name not in attributes:
        raise Unreadable(f"its TreeEnsemble lacks {name}")
    return np.asarray(numpy_helper.to_array(attributes[name]))


@dataclass(slots=True)
class _Flattening:
    """The lists of a step on their way from one form to the other."""

    attributes: Mapping[str, Any]
    single: bool
    lists: dict[str, list[Any]] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        given = self.attributes
        modes, splits = _read_tensor(given, "nodes_modes").tolist(), _read_tensor(given, "nodes_splits")
        weights = _read_tensor(given, "leaf_weights")
        expected = np.float32 if self.single else np.float64
        for what, numbers in (("thresholds", splits), ("weights", weights)):
            require_readable(numbers.dtype == expected, f"its {what} are of the type {numbers.dtype}, its input is not")
        lists = [given.get(f"nodes_{name}", ()) for name in NODE_LISTS]
        require_readable({len(modes), len(splits)} == {*map(len, lists)}, "the lists of its nodes differ in length")
        require_readable(all(0 <= mode <= MEMBER for mode in modes), "a node of a tree has a mode that is not known")
        names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
        self.lists = {f"nodes_{name}": [] for name in (*names, "missing_value_tracks_true")}
        self.lists |= {f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
        tree = _Nodes(
            modes=modes,
            splits=splits.astype(np.float64).tolist(),
            columns=lists[0],
            children=[_pair_children(lists[1:], place, len(modes), len(weights)) for place in range(len(modes))],
            tracks=given.get("nodes_missing_value_tracks_true") or [0] * len(modes),
            members=self._read_members(modes),
        )
        targets = given.get("leaf_targetids", ())
        require_readable(len(targets) == len(weights), "the lists of its leaves differ in length")
        for number, root in enumerate(given.get("tree_roots", ())):
            require_readable(0 <= root < len(modes), "a tree begins at a node that is not there")
            self._add_tree(number, root, tree, targets, weights.astype(np.float64).tolist())
        aggregate, transform = int(given.get("aggregate_function", 1)), int(given.get("post_transform", 0))
        known = 0 <= aggregate < len(AGGREGATES) and 0 <= transform < len(TRANSFORMS)
        require_readable(known, "its trees are put together in a way that is not known")
        return {
            **self.lists,
            "n_targets": int(given.get("n_targets", 1)),
            "aggregate_function": AGGREGATES[aggregate],
            "post_transform": TRANSFORMS[transform],
        }

    def _read_members(self, modes: Sequence[int]) -> dict[int, list[float]]:
        """The set of every node that tests for members: one after the other, with NaN behind each."""
        wanted = [place for place, mode in enumerate(modes) if mode == MEMBER]
        if not wanted:
            return {}
        sets: list[list[float]] = [[]]
        for value in _read_tensor(self.attributes, "membership_values").astype(np.float64).tolist():
            if value != value:
                sets.append([])
            else:
                sets[-1].append(value)
        sets = sets[:-1] if sets and not sets[-1] else sets
        require_readable(len(sets) == len(wanted) and all(sets), "its sets of members are not one for each test")
        return dict(zip(wanted, sets, strict=True))

    def _add_tree(
        self, number: int, root: int, nodes: _Nodes, targets: Sequence[int], weights: Sequence[float]
    ) -> None:
        """A tree, its root first; children are numbered as they are met."""
        lists, count = self.lists, 1
        # a node, or a leaf, with the number that it gets, and of a test for members which of them is asked for
        waiting: list[tuple[Child, int, int]] = [((False, root), 0, 0)]
        while waiting:
            (is_leaf, place), own, member = waiting.pop()
            require_readable(len(lists["nodes_modes"]) < MAX_NODES, "its trees have too many nodes")
            lists["nodes_treeids"].append(number)
            lists["nodes_nodeids"].append(own)
            if is_leaf:
                values: tuple[Any, ...] = (0, 0.0, "LEAF", 0, 0, 0)
                for name, value in zip(("treeids", "nodeids", "ids"), (number, own, targets[place]), strict=True):
                    lists[f"target_{name}"].append(value)
                lists["target_weights"].append(weights[place])
            else:
                true, false = nodes.children[place]
                threshold, mode, tracks = nodes.splits[place], nodes.modes[place], nodes.tracks[place]
                following = 0
                if mode == MEMBER:
                    listed = nodes.members[place]
                    threshold, mode = listed[member], MODES.index("BRANCH_EQ")
                    if member + 1 < len(listed):
                        false, following = (False, place), member + 1
                waiting += [(true, count, 0), (false, count + 1, following)]
                values = (nodes.columns[place], threshold, MODES[mode], count, count + 1, tracks)
                count += 2
            names = ("featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
            for name, value in zip(names, values, strict=True):
                lists[f"nodes_{name}"].append(value)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The inner nodes of all trees."""

    modes: Sequence[int]
    splits: Sequence[float]
    columns: Sequence[int]
    children: Sequence[tuple[Child, Child]]
    tracks: Sequence[int]
    members: Mapping[int, list[float]]


def _pair_children(lists: Sequence[Sequence[int]], place: int, nodes: int, leaves: int) -> tuple[Child, Child]:
    """The child where the test holds, and the other one. (Endless paths make too many nodes.)"""
    true, false, true_leaf, false_leaf = (int(one[place]) for one in lists)
    for child, is_leaf in ((true, true_leaf), (false, false_leaf)):
        fits = 0 <= child < (leaves if is_leaf else nodes)
        require_readable(fits, "a child of a node is not there")
    return (bool(true_leaf), true), (bool(false_leaf), false)

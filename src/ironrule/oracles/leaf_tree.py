"""A decision tree's desired leaves, compiled for :mod:`ironrule.oracles.leaves`.

A leaf is a box: for every feature the codes that lead to it. Where a feature is ordered, the values among them are made
one run without gaps, by splitting the leaf if need be. Then a rule excludes the leaf exactly if one single component of
it does: ``F <= v`` and ``F >= v`` together leave v alone, and if v is not in the run, one of them suffices; missing is
excluded by each of them.

Every leaf is put to the model itself, at its lowest and at its highest corner. So the tree's decisions are the model's
own, leaf by leaf; a leaf whose margin lies within the rounding of the model's arithmetic is as the model says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ironrule.model import Model, Unreadable
from ironrule.model.forest import Forest
from ironrule.model.forest_kernels import decide
from ironrule.oracles.leaves_kernels import CHILD, PARENT, SIBLING
from ironrule.space import Points, Space

MOST_NODES = 500_000

Codes = int
"""A set of codes of one feature: bit c stands for code c."""


class LeafTree(NamedTuple):
    """The nodes that lead to desired leaves (columns: see the kernels), and the masks of nominal features."""

    nodes: npt.NDArray[np.int32]
    masks: npt.NDArray[np.uint64]
    leaves: int  # how many there are
    room: int  # how long the stack of a walk can get


def desired_leaves(forests: Sequence[Forest], model: Model, space: Space) -> LeafTree | None:
    """The desired leaves of a model with at most one tree per alternative; None if it has more, or too many leaves.

    Raises Unreadable if the model decides otherwise at a leaf.
    """
    if any(len(forest.root) > 1 for forest in forests):
        return None
    grown = _Grown(space)
    for forest in forests:
        if not grown.add(forest):
            return None
    desired = _desired(grown, forests, model)
    return None if desired is None else grown.packed(desired)


@dataclass(slots=True)
class _Grown:
    """All nodes of all trees in the order of a walk, parents before children; node 0 joins the trees."""

    space: Space
    features: list[int] = field(default_factory=lambda: [-1])
    codes: list[Codes] = field(default_factory=lambda: [0])
    parents: list[int] = field(default_factory=lambda: [-1])
    leaves: list[int] = field(default_factory=list)
    corners: list[tuple[Points, Points]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # which alternative a leaf belongs to
    trees: int = 0

    def add(self, forest: Forest) -> bool:
        """One more alternative; False if that makes too many nodes."""
        masks = _CodeMasks(forest)
        start = int(forest.root[0]) if len(forest.root) else -1
        pending: list[tuple[int, int, int, dict[int, Codes]]] = [(start, 0, -1, {})]
        while pending:
            place, parent, feature, box = pending.pop()
            node = self._append(feature, box, parent)
            if node >= MOST_NODES:
                return False
            if place < 0 or forest.node_left[place] < 0:
                self._end(node, box)
                continue
            asked = int(forest.node_feature[place])
            here, left = box.get(asked, self._all(asked)), masks.of(place)
            for child, side in ((forest.node_left[place], here & left), (forest.node_right[place], here & ~left)):
                pending += [(int(child), node, asked, {**box, asked: run}) for run in self._runs(asked, side)]
        self.trees += 1
        return True

    def _append(self, feature: int, box: dict[int, Codes], parent: int) -> int:
        self.features.append(feature)
        self.codes.append(box.get(feature, 0))
        self.parents.append(parent)
        return len(self.parents) - 1

    def _end(self, node: int, box: dict[int, Codes]) -> None:
        low, high = np.zeros(len(self.space), dtype=np.int32), self.space.sizes - 1
        for feature, codes in box.items():
            low[feature], high[feature] = _lowest(codes), codes.bit_length() - 1
        self.leaves.append(node)
        self.corners.append((low, high))
        self.owners.append(self.trees)

    def _all(self, feature: int) -> Codes:
        return (1 << self.space.features[feature].size) - 1

    def _runs(self, feature: int, codes: Codes) -> Iterator[Codes]:
        """The codes of an ordered feature as runs of neighbouring values, missing with the first of them."""
        about = self.space.features[feature]
        missing = codes & 1 << about.missing_code if about.missing else 0
        values = codes ^ missing
        if not about.ordered or not values:
            yield from (codes,) if codes else ()
            return
        while values:
            run = values & ~(values + (values & -values))
            yield run | missing
            values, missing = values ^ run, 0

    def packed(self, desired: npt.NDArray[np.bool_]) -> LeafTree:
        """What leads to desired leaves."""
        kept = np.zeros(len(self.parents), dtype=np.bool_)
        kept[np.array(self.leaves, dtype=np.intp)[desired]] = True
        for node in range(len(kept) - 1, 0, -1):
            kept[self.parents[node]] |= kept[node]
        numbers = np.cumsum(kept) - 1
        rows: list[list[int]] = []
        words: list[int] = []
        last: dict[int, int] = {}  # the child that a node got last
        for node in np.flatnonzero(kept).tolist():
            parent = int(numbers[self.parents[node]]) if node else -1
            rows.append([self.features[node], *self._content(node, words), -1, -1, parent])
            if node and parent in last:
                rows[last[parent]][SIBLING] = len(rows) - 1
            elif node:
                rows[parent][CHILD] = len(rows) - 1
            last[parent] = len(rows) - 1
        nodes = np.array(rows, dtype=np.int32).reshape(-1, 8)
        return LeafTree(nodes, np.array(words, dtype=np.uint64), int(desired.sum()), _room(nodes))

    def _content(self, node: int, words: list[int]) -> tuple[int, int, int, int]:
        """Lowest and highest code, the code of missing or -1, and where the mask begins or -1."""
        feature, codes = self.features[node], self.codes[node]
        if feature < 0:
            return 0, -1, -1, -1
        about = self.space.features[feature]
        if not about.ordered:
            words += [codes >> 64 * word & 0xFFFFFFFFFFFFFFFF for word in range(-(-about.size // 64))]
            return _lowest(codes), codes.bit_length() - 1, -1, len(words) - -(-about.size // 64)
        missing = about.missing_code if about.missing and codes >> about.missing_code & 1 else -1
        values = codes ^ 1 << missing if missing >= 0 else codes
        return (_lowest(values) if values else 0), values.bit_length() - 1, missing, -1


@dataclass(slots=True)
class _CodeMasks:
    """Which codes go left at a node; equal questions are answered once."""

    forest: Forest
    known: dict[tuple[int, int], Codes] = field(default_factory=dict)

    def of(self, node: int) -> Codes:
        forest, cells = self.forest, self.forest.cells
        feature, start = int(forest.node_feature[node]), int(forest.node_words[node])
        if (feature, start) not in self.known:
            words = forest.masks[start : start + int(cells.word_starts[feature + 1] - cells.word_starts[feature])]
            left = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
            of_code = cells.cell_of[cells.code_starts[feature] : cells.code_starts[feature + 1]]
            packed = np.packbits(left[of_code], bitorder="little")
            self.known[feature, start] = int.from_bytes(packed.tobytes(), "little")
        return self.known[feature, start]


def _room(nodes: npt.NDArray[np.int32]) -> int:
    """The most nodes that can wait at once when a walk puts all children of a node on its stack, in any order."""
    waiting = np.bincount(nodes[1:, PARENT], minlength=max(len(nodes), 1))  # how many children a node has
    for node in range(1, len(nodes)):
        waiting[node] += waiting[nodes[node, PARENT]] - 1  # in place of itself
    return max(1, int(waiting.max()))


def _lowest(codes: Codes) -> int:
    return (codes & -codes).bit_length() - 1


def _desired(grown: _Grown, forests: Sequence[Forest], model: Model) -> npt.NDArray[np.bool_] | None:
    """Which leaves are desired, by the model's own word where the margins leave it open; None if that does not settle
    it.
    """
    low = np.array([corner for corner, _ in grown.corners], dtype=np.int32)
    high = np.array([corner for _, corner in grown.corners], dtype=np.int32)
    at_low, at_high = model.desired(low), model.desired(high)
    possible, sure = _margins(forests, low)
    for points, answers in ((low, at_low), (high, at_high)):
        may, must = (flags.any(axis=0) for flags in _margins(forests, points))
        if (answers & ~may).any() or (must & ~answers).any():
            raise Unreadable("its reading decides otherwise than the model itself at a leaf; the model is only asked")
    own = np.array(grown.owners), np.arange(len(low))
    unsure = possible[own] & ~sure[own]
    if unsure.any() and (len(forests) > 1 or (at_low != at_high)[unsure].any()):
        return None  # the model's word at a corner does not speak for the whole leaf
    return np.asarray(sure[own] | (unsure & at_low))


def _margins(forests: Sequence[Forest], points: Points) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Per alternative, at which points its margins may be positive, and at which they surely are."""
    answers = [decide(forest, points) for forest in forests]
    return np.array([possible for possible, _ in answers]), np.array([sure for _, sure in answers])

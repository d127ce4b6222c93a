"""Compile a decision tree: its desired leaves become one matrix of nodes, which compiled code walks.

A leaf is a box: for every feature the codes that lead to it. Where a feature is ordered, the values among them are
made one run without gaps, by splitting the leaf if need be. Then a rule excludes the leaf exactly if one single
component of it does: ``F <= v`` and ``F >= v`` together leave v alone, and if v is not in the run, one of them
suffices; missing is excluded by each of them.

Every leaf is put to the model itself, at its lowest and at its highest corner. So the tree's decisions are the model's
own, leaf by leaf; a leaf whose margin lies within the rounding of the model's arithmetic is as the model says.

Nodes are rows, children after their parents; only what leads to a desired leaf is kept. A node says which codes of one
feature are left below it: for an ordered feature those from LOW to HIGH and perhaps MISSING (-1 where it is not), for
a nominal one those of the bit mask that begins at MASK (-1 where there is none). Below a node fewer codes are left, so
more components exclude all of them: duals only grow on the way down. The walk for minimal duals therefore takes the
child that adds nothing to the dual first, which soon finds small duals, and skips whatever lies below a node whose
dual contains one found before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Int32Array, Int64Array, Points, UInt64Array
from ironrule.backends.forest.compile import CompiledForest, decide_points
from ironrule.errors import ModelError
from ironrule.jit import ONE, ZERO, kernel, kernel_helper, popcount
from ironrule.model.protocol import Model, Unreadable
from ironrule.model.saved_model import UNDECIDED
from ironrule.space.space import Space

# Columns of the matrix of nodes; CHILD is a node's first child, SIBLING the next child of its parent, -1 for none.
FEATURE, LOW, HIGH, MISSING, MASK, CHILD, SIBLING, PARENT = range(8)


@kernel_helper
def has_code_between(nodes: Int32Array, masks: UInt64Array, node: int, low: int, high: int) -> bool:
    """Whether some code from ``low`` to ``high`` is left at a node."""
    # The part of the node's range that lies in the given one.
    first, last = max(nodes[node, LOW], low), min(nodes[node, HIGH], high)
    start, missing = nodes[node, MASK], nodes[node, MISSING]
    if start >= 0:  # not a function of its own: passing an array on costs more than the loop
        while first <= last and not (masks[start + (first >> 6)] >> np.uint64(first & 63)) & ONE:
            first += 1
    return bool((first <= last) | ((low <= missing) & (missing <= high)))  # no branch to mispredict


@kernel_helper
def contains_found_dual(duals: UInt64Array, top: int, found: UInt64Array, count: int, wide: Any) -> bool:
    """Whether the dual on top of a stack contains one of those found."""
    # A found dual is contained if none of its bits lies outside.
    for place in range(count):
        outside = ZERO
        for w in range(len(wide)):
            outside |= found[place, w] & ~duals[top, w]
        if outside == ZERO:
            return True
    return False


@kernel_helper
def add_minimal_dual(
    duals: UInt64Array, top: int, leaf: int, found: UInt64Array, leaves: Int32Array, count: int, wide: Any
) -> int:
    """Add the dual on top of a stack to those found, and drop those that contain it; how many there are then.

    The new dual must contain none of those found.
    """
    kept = 0
    # Keep those that do not contain the new dual, moved to the front, then append it: none found contains another.
    for place in range(count):
        outside = ZERO
        for w in range(len(wide)):
            outside |= duals[top, w] & ~found[place, w]
        if outside != ZERO:
            leaves[kept] = leaves[place]
            for w in range(len(wide)):
                found[kept, w] = found[place, w]
            kept += 1
    leaves[kept] = leaf
    for w in range(len(wide)):
        found[kept, w] = duals[top, w]
    return kept + 1


@kernel_helper
def find_excluding_components(
    nodes: Int32Array, masks: UInt64Array, node: int, low: int, high: int, lows: Int64Array, highs: Int64Array
) -> Any:
    """Two bits, one per component of the node's feature: whether it excludes all codes from ``low`` to ``high``."""
    bit, bits = 2 * nodes[node, FEATURE], ZERO
    # Bit 2j and bit 2j+1: a component excludes the node if no code is left where box and component overlap.
    for second in range(2):
        least, most = max(low, lows[bit + second]), min(high, highs[bit + second])
        bits |= np.uint64(not has_code_between(nodes, masks, node, least, most)) << np.uint64(second)
    return bits


@kernel
def list_duals(
    nodes: Int32Array,
    masks: UInt64Array,
    box: tuple[Int32Array, Int32Array],
    bounds: tuple[Int64Array, Int64Array],
    found: UInt64Array,
    leaves: Int32Array,
    stack: Int32Array,
    duals: UInt64Array,
    wide: Any,
) -> int:
    """Write the minimal duals of the desired leaves in a box, with a leaf for each; how many there are.

    ``bounds`` are the codes that every component admits; ``wide`` has as many numbers as a dual has words, so that
    the compiler knows; the last row of ``duals`` is scratch.
    """
    (low, high), (lows, highs), here = box, bounds, duals.shape[0] - 1
    # The dual of the root: components that admit nothing of the box.
    for w in range(len(wide)):
        duals[0, w] = ZERO
    for bit in range(lows.shape[0]):
        if max(low[bit >> 1], lows[bit]) > min(high[bit >> 1], highs[bit]):
            duals[0, bit >> 6] |= ONE << np.uint64(bit & 63)
    stack[0] = 0
    # Row t of `duals` belongs to the node stack[t]: the components that exclude all of that node in the box.
    count, top = 0, int(nodes.shape[0] > 0)
    # Depth first. Duals only grow on the way down, so a node whose dual contains one found can be skipped.
    while top > 0:
        top -= 1
        node = stack[top]
        if contains_found_dual(duals, top, found, count, wide):
            continue
        child = nodes[node, CHILD]
        if child < 0:
            count = add_minimal_dual(duals, top, node, found, leaves, count, wide)
            continue
        # The children overwrite this row, so the node's dual is kept in the scratch row.
        for w in range(len(wide)):
            duals[here, w] = duals[top, w]
        near = -1
        # Push the children that have a point in the box, each with the dual of its parent and what it adds itself.
        while child >= 0:
            feature = nodes[child, FEATURE]
            if feature < 0 or has_code_between(nodes, masks, child, low[feature], high[feature]):
                stack[top] = child
                for w in range(len(wide)):
                    duals[top, w] = duals[here, w]
                bits = ZERO
                if feature >= 0:
                    bits = find_excluding_components(nodes, masks, child, low[feature], high[feature], lows, highs)
                    word, shift = feature >> 5, np.uint64(2 * (feature & 31))
                    near = top if (duals[here, word] >> shift) & bits == bits else near
                    duals[top, word] |= bits << shift
                top += 1
            child = nodes[child, SIBLING]
        # A child that adds nothing goes on top: it leads to a small dual soon, which prunes the others.
        if near >= 0:
            stack[near], stack[top - 1] = stack[top - 1], stack[near]
            for w in range(len(wide)):
                duals[near, w], duals[top - 1, w] = duals[top - 1, w], duals[near, w]
    return int(count)


@kernel
def choose_diverse_sets(sets: UInt64Array, chosen: Int64Array) -> int:
    """Choose sets to fill ``chosen``: disjoint ones before others, small ones before large; how many there were."""
    union = np.zeros(sets.shape[1], np.uint64)
    taken = np.zeros(sets.shape[0], np.bool_)
    many = min(chosen.shape[0], sets.shape[0])
    # A greedy choice: the smallest set that is disjoint from all chosen so far, or the smallest if there is none.
    for place in range(many):
        best, least = -1, 1 << 30
        for one in range(sets.shape[0]):
            size, common = 0, 0
            for w in range(union.shape[0]):
                size += int(popcount(sets[one, w]))
                common |= int(sets[one, w] & union[w] != ZERO)
            # An element in common with the chosen sets counts as much as 1024 elements more.
            cost = size + common * 1024
            if not taken[one] and cost < least:
                best, least = one, cost
        chosen[place] = best
        taken[best] = True
        for w in range(union.shape[0]):
            union[w] |= sets[best, w]
    return int(many)


@kernel_helper
def find_nearest_code(nodes: Int32Array, masks: UInt64Array, node: int, code: int, low: int, high: int) -> int:
    """The nearest code from ``low`` to ``high`` that is left at a node; of a nominal feature the first."""
    first, last = int(max(nodes[node, LOW], low)), int(min(nodes[node, HIGH], high))
    # The code itself if it is left. Otherwise the nearest end of the run, or missing if no value is left in the box.
    # Codes of a nominal feature have no distance: the first one is as good as any.
    if low <= code <= high and has_code_between(nodes, masks, node, code, code):
        first = code
    elif nodes[node, MASK] < 0:
        first = min(max(code, first), last) if first <= last else int(nodes[node, MISSING])
    else:
        while not has_code_between(nodes, masks, node, first, first):
            first += 1
    return first


@kernel
def fill_nearest_points(
    nodes: Int32Array,
    masks: UInt64Array,
    leaves: Int32Array,
    instance: Int32Array,
    box: tuple[Int32Array, Int32Array],
    points: Int32Array,
) -> None:
    """Write for every leaf its point in the box that is nearest to the instance."""
    # From each leaf up to the root; -1 means that no node has spoken of the feature yet.
    for row in range(leaves.shape[0]):
        for feature in range(instance.shape[0]):
            points[row, feature] = -1
        node = leaves[row]
        while node >= 0:  # the lowest node that speaks of a feature says what the leaf has of it
            feature = nodes[node, FEATURE]
            if feature >= 0 and points[row, feature] < 0:
                low, high = box[0][feature], box[1][feature]
                points[row, feature] = find_nearest_code(nodes, masks, node, instance[feature], low, high)
            node = nodes[node, PARENT]
        # Features that the leaf does not restrict: the instance's own code, or the nearest one in the box.
        for feature in range(instance.shape[0]):
            if points[row, feature] < 0:
                points[row, feature] = min(max(instance[feature], box[0][feature]), box[1][feature])


@kernel
def flag_desired(
    nodes: Int32Array, masks: UInt64Array, points: Int32Array, stack: Int32Array, flags: BoolArray
) -> None:
    """Which points lie in a desired leaf."""
    # Down all branches that admit the point, until a leaf is reached; several, since node 0 joins all alternatives.
    for row in range(points.shape[0]):
        stack[0] = 0
        top = int(nodes.shape[0] > 0)
        while top > 0 and not flags[row]:
            top -= 1
            child = nodes[stack[top], CHILD]
            flags[row] = child < 0
            while child >= 0:
                feature = nodes[child, FEATURE]
                code = points[row, max(feature, 0)]
                if feature < 0 or has_code_between(nodes, masks, child, code, code):
                    stack[top] = child
                    top += 1
                child = nodes[child, SIBLING]


@kernel
def list_leaves(
    nodes: Int32Array, masks: UInt64Array, box: tuple[Int32Array, Int32Array], stack: Int32Array, leaves: Int32Array
) -> int:
    """Write the desired leaves that have a point in the box; how many there are."""
    stack[0], count = 0, 0
    top = int(nodes.shape[0] > 0)
    # Depth first, along the branches that have a code in the box.
    while top > 0:
        top -= 1
        node = stack[top]
        child = nodes[node, CHILD]
        if child < 0:
            leaves[count] = node
            count += 1
        while child >= 0:
            feature = nodes[child, FEATURE]
            if feature < 0 or has_code_between(nodes, masks, child, box[0][max(feature, 0)], box[1][max(feature, 0)]):
                stack[top] = child
                top += 1
            child = nodes[child, SIBLING]
    return int(count)


MAX_NODES = 500_000
CodeSet = int
"""A set of codes of one feature: bit c stands for code c."""


class LeafTree(NamedTuple):
    """The nodes that lead to desired leaves (columns: FEATURE to PARENT), and the masks of nominal features."""

    nodes: Int32Array
    masks: UInt64Array
    leaf_count: int  # how many there are
    stack_size: int  # how long the stack of a walk can get


def compile_leaf_tree(forests: Sequence[CompiledForest], model: Model, space: Space) -> LeafTree | None:
    """The desired leaves of a model with at most one tree per alternative; None if it has more, or too many leaves.

    Raises Unreadable if the model decides otherwise at a leaf.
    """
    if any(len(forest.root) > 1 for forest in forests):
        return None
    grown = _LeafTreeBuilder(space)
    for forest in forests:
        if not grown.add(forest):
            return None
    desired = _decide_leaves(grown, forests, model)
    return None if desired is None else grown.pack(desired)


@dataclass(slots=True)
class _LeafTreeBuilder:
    """All nodes of all trees in the order of a walk, parents before children; node 0 joins the trees."""

    space: Space
    features: list[int] = field(default_factory=lambda: [-1])
    codes: list[CodeSet] = field(default_factory=lambda: [0])
    parents: list[int] = field(default_factory=lambda: [-1])
    leaves: list[int] = field(default_factory=list)
    corners: list[tuple[Points, Points]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # which alternative a leaf belongs to
    tree_count: int = 0

    def add(self, forest: CompiledForest) -> bool:
        """Add the tree of one more alternative; False if that makes too many nodes."""
        masks = _LeftCodes(forest)
        start = int(forest.root[0]) if len(forest.root) else -1
        pending: list[tuple[int, int, int, dict[int, CodeSet]]] = [(start, 0, -1, {})]
        # Depth first. An entry has the tree's node, its parent among the nodes built here, the feature that the parent
        # asks, and the codes left per feature.
        while pending:
            place, parent, feature, box = pending.pop()
            node = len(self.parents)
            self.features.append(feature)
            self.codes.append(box.get(feature, 0))
            self.parents.append(parent)
            # Refuse instead of running out of memory: splitting into runs can make more nodes than the tree has.
            if node >= MAX_NODES:
                return False
            if place < 0 or forest.node_left[place] < 0:
                self._add_leaf(node, box)
                continue
            asked = int(forest.node_feature[place])
            here, left = box.get(asked, (1 << self.space.features[asked].size) - 1), masks.find_at(place)
            # A child gets a copy per run of its codes: at an ordered feature every node has one run without gaps.
            for child, side in ((forest.node_left[place], here & left), (forest.node_right[place], here & ~left)):
                for run in self._split_into_runs(asked, side):
                    pending.append((int(child), node, asked, {**box, asked: run}))
        self.tree_count += 1
        return True

    def _add_leaf(self, node: int, box: dict[int, CodeSet]) -> None:
        low, high = np.zeros(len(self.space), dtype=np.int32), self.space.sizes - 1
        for feature, codes in box.items():
            # The corners: the lowest and the highest code of every feature; all of it where the path does not ask.
            low[feature], high[feature] = _find_lowest_code(codes), codes.bit_length() - 1
        self.leaves.append(node)
        self.corners.append((low, high))
        self.owners.append(self.tree_count)

    def _split_into_runs(self, feature: int, codes: CodeSet) -> Iterator[CodeSet]:
        """The codes of an ordered feature as runs of neighbouring values, missing with the first of them."""
        about = self.space.features[feature]
        missing = codes & 1 << about.missing_code if about.missing else 0
        values = codes ^ missing
        if not about.ordered or not values:
            yield from (codes,) if codes else ()
            return
        while values:
            # Adding the lowest one carries through the first run of ones, so it clears exactly that run.
            run = values & ~(values + (values & -values))
            yield run | missing
            values, missing = values ^ run, 0

    def pack(self, desired: BoolArray) -> LeafTree:
        """The nodes that lead to desired leaves, as arrays."""
        kept = np.zeros(len(self.parents), dtype=np.bool_)
        kept[np.array(self.leaves, dtype=np.intp)[desired]] = True
        # Children come after their parents, so one pass from the back marks every ancestor of a desired leaf.
        for node in range(len(kept) - 1, 0, -1):
            kept[self.parents[node]] |= kept[node]
        numbers = np.cumsum(kept) - 1
        rows: list[list[int]] = []
        words: list[int] = []
        last: dict[int, int] = {}  # the child that a node got last
        # Number what is kept without gaps, and chain the children of a node: CHILD to the first, SIBLING to the next.
        for node in np.flatnonzero(kept).tolist():
            parent = int(numbers[self.parents[node]]) if node else -1
            rows.append([self.features[node], *self._encode_codes(node, words), -1, -1, parent])
            if node and parent in last:
                rows[last[parent]][SIBLING] = len(rows) - 1
            elif node:
                rows[parent][CHILD] = len(rows) - 1
            last[parent] = len(rows) - 1
        nodes = np.array(rows, dtype=np.int32).reshape(-1, 8)
        return LeafTree(nodes, np.array(words, dtype=np.uint64), int(desired.sum()), _compute_stack_size(nodes))

    def _encode_codes(self, node: int, words: list[int]) -> tuple[int, int, int, int]:
        """Lowest and highest code, the code of missing or -1, and where the mask begins or -1."""
        feature, codes = self.features[node], self.codes[node]
        if feature < 0:
            return 0, -1, -1, -1
        about = self.space.features[feature]
        # Nominal features get a bit mask, in which missing is a code like any other; ordered ones a run and missing.
        if not about.ordered:
            words += [codes >> 64 * word & 0xFFFFFFFFFFFFFFFF for word in range(-(-about.size // 64))]
            return _find_lowest_code(codes), codes.bit_length() - 1, -1, len(words) - -(-about.size // 64)
        missing = about.missing_code if about.missing and codes >> about.missing_code & 1 else -1
        values = codes ^ 1 << missing if missing >= 0 else codes
        return (_find_lowest_code(values) if values else 0), values.bit_length() - 1, missing, -1


@dataclass(slots=True)
class _LeftCodes:
    """Which codes go left at a node; equal splits are answered once."""

    forest: CompiledForest
    cache: dict[tuple[int, int], CodeSet] = field(default_factory=dict)

    def find_at(self, node: int) -> CodeSet:
        forest, cells = self.forest, self.forest.cells
        feature, start = int(forest.node_feature[node]), int(forest.node_mask_starts[node])
        if (feature, start) not in self.cache:
            # The node's mask is over cells; spread it over codes, as a Python integer with a bit per code.
            words = forest.mask_words[start : start + int(cells.word_starts[feature + 1] - cells.word_starts[feature])]
            left = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
            of_code = cells.cell_by_code[cells.code_starts[feature] : cells.code_starts[feature + 1]]
            packed = np.packbits(left[of_code], bitorder="little")
            self.cache[feature, start] = int.from_bytes(packed.tobytes(), "little")
        return self.cache[feature, start]


def _compute_stack_size(nodes: Int32Array) -> int:
    """The most nodes that can wait at once when a walk puts all children of a node on its stack, in any order."""
    waiting = np.bincount(nodes[1:, PARENT], minlength=max(len(nodes), 1))  # how many children a node has
    # Parents come first: below a node waits what waited at its parent, less the node itself, plus its children.
    for node in range(1, len(nodes)):
        waiting[node] += waiting[nodes[node, PARENT]] - 1
    return max(1, int(waiting.max()))


def _find_lowest_code(codes: CodeSet) -> int:
    return (codes & -codes).bit_length() - 1


def _decide_leaves(grown: _LeafTreeBuilder, forests: Sequence[CompiledForest], model: Model) -> BoolArray | None:
    """Which leaves are desired. Where rounding leaves it open the model's corners decide; None if they do not."""
    low = np.array([corner for corner, _ in grown.corners], dtype=np.int32)
    high = np.array([corner for _, corner in grown.corners], dtype=np.int32)
    try:
        at_low, at_high = model.desired(low), model.desired(high)
    except ModelError as error:
        if error.code != UNDECIDED:
            raise
        return None  # a saved model does not decide its own corners where rounding leaves them open
    possible, sure = _evaluate_margins(forests, low)
    # The reading must agree with the model at both corners of every leaf, as far as rounding does not leave it open.
    for points, answers in ((low, at_low), (high, at_high)):
        may, must = (flags.any(axis=0) for flags in _evaluate_margins(forests, points))
        if (answers & ~may).any() or (must & ~answers).any():
            raise Unreadable("its reading decides otherwise than the model itself at a leaf; the model is only asked")
    # Of each leaf only the margins of its own alternative count.
    own = np.array(grown.owners), np.arange(len(low))
    unsure = possible[own] & ~sure[own]
    if unsure.any() and (len(forests) > 1 or (at_low != at_high)[unsure].any()):
        return None  # the model's word at a corner does not speak for the whole leaf
    return np.asarray(sure[own] | (unsure & at_low))


def _evaluate_margins(forests: Sequence[CompiledForest], points: Points) -> tuple[BoolArray, BoolArray]:
    """Per alternative, at which points its margins may be positive, and at which they surely are."""
    answers = [decide_points(forest, points) for forest in forests]
    return np.array([possible for possible, _ in answers]), np.array([sure for _, sure in answers])

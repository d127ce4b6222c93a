"""Upper bounds of sums of trees and terms over pieces of a box, for many pieces at once.

**Split sets.** Splits that send the same codes of a feature to the left are one *split set*: a forest of a million
nodes has a few thousand. Two codes of a feature are in one *cell* if they are on the same side of every split set and
every term sees the same value: the model then computes the same for both, to the last bit.

**Path sets.** A piece reaches a node only if it has, for every feature that the path to the node asks about, a code
that goes that way at every node: with two thresholds one code must lie between both. So each edge of a tree stands for
the *path set*: the codes that are left of its feature after all splits from the root on. Equal path sets are numbered
once.

**Bounds.** For every distinct set of codes it is found once which path sets it meets. From there, level by level, the
nodes that a piece reaches follow; a tree adds its best leaf among them, and the terms of a feature add their largest
sum. Whatever points a piece has, the margin of none is above the bound.

**Rounding.** Adding n doubles in any order is off by less than n u times the sum of their sizes, u = 2**-53 (Higham
2002, section 4.2). A part's sum S is so known up to some e. Behind a link the checker takes link(S + e), which is not
below the true value since links rise; a logistic function itself is taken to be good to 32 units, and what the rounding
of its argument can do is added: it never rises faster than a quarter of its scale. All in all a margin is known up to

    u ((parts + 1) (|offset| + what the parts can be) + sum of the parts' own errors)

plus what the model's own arithmetic may be off. One value alone, added to the offset, is compared with zero without any
error: the sign of a sum of two doubles is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array, Int32Array, IntpArray, UInt8Array
from ironrule.checker.bounds.pieces import Pieces, PieceTest
from ironrule.checker.preprocessing import EstimatorColumns
from ironrule.checker.readers.normal_form import LinkFunction, MarginPart, RegressionTree, Split, SumForm, SumMargin

SETS_PER_BLOCK = 512
MAX_RUN_ENTRIES = 1 << 24


@dataclass(frozen=True, eq=False)
class SplitSets:
    """``codes[j]`` has the split sets of feature j: per set the codes that go left, eight to a byte. Sets are numbered
    feature by feature.
    """

    sizes: tuple[int, ...]
    codes: tuple[UInt8Array, ...]
    sets_by_tree: dict[int, IntpArray]  # by identity of a tree's splits: the set of every node, -1 at a leaf
    term_values: tuple[tuple[AnyArray, ...], ...]  # per feature, what its terms see of every code

    @cached_property
    def cells(self) -> tuple[IntpArray, ...]:
        """The cell of every code, feature by feature."""
        return tuple(_find_cells(*three) for three in zip(self.sizes, self.codes, self.term_values, strict=True))

    @cached_property
    def features(self) -> IntpArray:
        """The feature of every split set."""
        return np.repeat(np.arange(len(self.codes)), [len(rows) for rows in self.codes])

    @cached_property
    def _flat(self) -> tuple[UInt8Array, IntpArray]:
        """All split sets end to end, and where each begins."""
        lengths = np.concatenate([[0], *(np.full(len(rows), rows.shape[1]) for rows in self.codes)])
        return np.concatenate([np.empty(0, np.uint8), *(rows.ravel() for rows in self.codes)]), np.cumsum(lengths)

    def goes_left(self, sets: IntpArray, points: Int32Array) -> BoolArray:
        """Whether each point goes left at a split set of its own."""
        flat, starts = self._flat
        codes = points[np.arange(len(points)), self.features[sets]]
        return np.asarray((flat[starts[sets] + (codes >> 3)] >> (7 - (codes & 7))) & 1, dtype=np.bool_)


def _find_cells(size: int, rows: UInt8Array, seen: tuple[AnyArray, ...]) -> IntpArray:
    """The cell of every code of one feature."""
    # rows of bytes, in whose order cells are numbered: the bytes of a number of four start with the highest
    parts = [np.unique(values, return_inverse=True)[1].reshape(-1, 1).astype(">u4").view(np.uint8) for values in seen]
    for start in range(0, len(rows), SETS_PER_BLOCK):
        parts.append(np.packbits(np.unpackbits(rows[start : start + SETS_PER_BLOCK], axis=1, count=size), axis=0).T)
    if not parts:
        return np.zeros(size, dtype=np.intp)
    _, cells = np.unique(np.ascontiguousarray(np.concatenate(parts, axis=1)), axis=0, return_inverse=True)
    return np.asarray(cells.ravel(), dtype=np.intp)


def build_split_sets(reading: SumForm, columns: EstimatorColumns, sizes: Sequence[int]) -> SplitSets:
    """All split sets of a reading over columns."""
    parts = [part for margins in reading.alternatives for margin in margins for part in margin.parts]
    found = _SplitSetCollector(columns, [{} for _ in sizes])
    trees = {id(tree.splits): tree for part in parts for tree in part.trees}  # trees with the same splits once
    places = {key: found.locate(tree) for key, tree in trees.items()}
    starts = np.concatenate([[0], np.cumsum([len(known) for known in found.known])])
    used = sorted({term.column for part in parts for term in part.terms})
    every = zip(found.known, sizes, strict=True)
    return SplitSets(
        tuple(sizes),
        tuple(np.frombuffer(b"".join(known), np.uint8).reshape(len(known), (size + 7) // 8) for known, size in every),
        {key: np.where(place < 0, -1, starts[feature] + place) for key, (feature, place) in places.items()},
        tuple(tuple(columns[k].values for k in used if columns[k].feature == j) for j in range(len(sizes))),
    )


@dataclass(slots=True)
class _SplitSetCollector:
    """Per feature the split sets that have come up, numbered, by the codes that go left."""

    columns: EstimatorColumns
    known: list[dict[bytes, int]]
    place_by_split: dict[Split, tuple[int, int]] = field(default_factory=dict)

    def locate(self, tree: RegressionTree) -> tuple[IntpArray, IntpArray]:
        """For every node the feature of its split and the split set's number there; -1 at a leaf."""
        found = [(-1, -1) if split is None else self._locate_split(split) for split in tree.splits]
        features, places = np.array(found, dtype=np.intp).reshape(-1, 2).T
        return features, places

    def _locate_split(self, split: Split) -> tuple[int, int]:
        if split not in self.place_by_split:
            column = self.columns[split.column]
            left = np.packbits(np.asarray(split.goes_left(column.values), dtype=np.bool_)).tobytes()
            known = self.known[column.feature]
            self.place_by_split[split] = (column.feature, known.setdefault(left, len(known)))
        return self.place_by_split[split]


class CodeRuns(NamedTuple):
    """The codes of path sets as runs of neighbours (first, and one past the last); each set ends with an empty run."""

    owners: IntpArray  # per set, its first run
    first: IntpArray
    end: IntpArray


@dataclass(slots=True, eq=False)
class PathSets:
    """Path sets, numbered as they come up; eight codes to a byte."""

    split_sets: SplitSets
    sets: list[bytes] = field(default_factory=list)
    numbers: dict[tuple[int, bytes], int] = field(default_factory=dict)
    features: list[int] = field(default_factory=list)
    side_sets: IntpArray = field(init=False)  # per split set the path sets left and right, one after the other
    pairs: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain = []
        for feature, (rows, size) in enumerate(zip(self.split_sets.codes, self.split_sets.sizes, strict=True)):
            everything = np.packbits(np.ones(size, dtype=np.bool_))
            for row in rows:
                plain += [self._number(feature, row), self._number(feature, everything & ~row)]
        self.side_sets = np.array(plain, dtype=np.intp)

    def _number(self, feature: int, row: UInt8Array) -> int:
        key = (feature, row.tobytes())
        if key not in self.numbers:
            self.numbers[key] = len(self.sets)
            self.sets.append(key[1])
            self.features.append(feature)
        return self.numbers[key]

    def intersect(self, before: IntpArray, after: IntpArray) -> IntpArray:
        """For pairs of path sets of one feature, the codes in both; -1 before stands for all codes."""
        pairs, places = np.unique(np.stack([before, after], axis=1), axis=0, return_inverse=True)
        found = np.array([self._intersect_pair(int(one), int(other)) for one, other in pairs], dtype=np.intp)
        return found[places.ravel()]

    def _intersect_pair(self, one: int, other: int) -> int:
        if one < 0:
            return other
        if (one, other) not in self.pairs:
            rows = [np.frombuffer(self.sets[place], dtype=np.uint8) for place in (one, other)]
            self.pairs[one, other] = self._number(self.features[one], rows[0] & rows[1])
        return self.pairs[one, other]

    def list_path_sets(self, feature: int) -> IntpArray:
        """The path sets of a feature."""
        return np.flatnonzero(np.array(self.features, dtype=np.intp) == feature)

    def find_runs(self, feature: int) -> CodeRuns:
        """These as runs."""
        size = self.split_sets.sizes[feature]
        rows = [self.sets[place] for place in self.list_path_sets(feature).tolist()]
        return _find_runs(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), (size + 7) // 8), size)


def flag_intersecting_sets(runs: CodeRuns, size: int, sets: BoolArray) -> BoolArray:
    """For every path set of a feature and every set of its codes, whether they have a code in common.

    A set meets a run if the set's first code from the run's beginning on comes before the run's end.
    """
    met = np.zeros((len(runs.owners), len(sets)), dtype=np.bool_)
    step = max(1, MAX_RUN_ENTRIES // max(1, len(runs.first)))
    for start in range(0, len(sets) if len(runs.owners) else 0, step):
        part = sets[start : start + step]
        following = np.full((len(part), size + 1), size, dtype=np.int32)  # per code, the next one in the set
        following[:, :-1] = np.where(part, np.arange(size), size)
        following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
        inside = following[:, runs.first] < runs.end
        met[:, start : start + step] = np.logical_or.reduceat(inside, runs.owners, axis=1).T
    return met


def _find_runs(rows: UInt8Array, size: int) -> CodeRuns:
    firsts, ends, counts = [], [], []
    for start in range(0, len(rows), SETS_PER_BLOCK):
        padded = np.zeros((len(rows[start : start + SETS_PER_BLOCK]), size + 2), dtype=np.int8)
        padded[:, 1:-1] = np.unpackbits(rows[start : start + SETS_PER_BLOCK], axis=1, count=size)
        steps = np.diff(padded, axis=1, append=0)  # one column more, for the empty run at the end
        begins, stops = steps == 1, steps == -1
        begins[:, size], stops[:, size + 1] = True, True
        firsts.append(np.nonzero(begins)[1])
        ends.append(np.nonzero(stops)[1] % (size + 1))
        counts.append(begins.sum(axis=1))
    if not counts:
        return CodeRuns(*(np.empty(0, dtype=np.intp) for _ in range(3)))
    owners = np.concatenate([[0], np.cumsum(np.concatenate(counts))[:-1]])
    return CodeRuns(owners.astype(np.intp), np.concatenate(firsts), np.concatenate(ends))


class TreeLevels(NamedTuple):
    """Several trees: nodes numbered level by level over all trees, the two children of a node next to each other."""

    roots: int
    levels: tuple[slice, ...]  # the nodes below the roots, by depth
    parents: IntpArray  # per node; a root has none
    path_sets: IntpArray  # per node, what the path to it leaves of the feature that was asked about last
    split_set: IntpArray  # per node, -1 for a leaf
    child: IntpArray  # per node, the first of its two children
    value: Float64Array  # per node
    rising: tuple[IntpArray, ...]  # the worst leaf of every tree, the next ones of those that have more, and so on
    starts: IntpArray  # per tree, those with most leaves first, where its own begin in `values`
    values: Float64Array  # of leaves, tree by tree, rising


def arrange_by_level(trees: Sequence[RegressionTree], path_sets: PathSets) -> TreeLevels:
    """Number the nodes in reach of the roots; what is left of each feature on the way joins the path sets."""
    flat, feature_of = _flatten_trees(trees, path_sets.split_sets), path_sets.split_sets.features
    nodes, parents, edges = [flat.roots], [np.full(len(trees), -1)], [np.full(len(trees), -1)]
    left = np.full((len(trees), len(path_sets.split_sets.sizes)), -1, dtype=np.intp)  # per node and feature a path set
    levels, first = list[slice](), 0
    while len(nodes[-1]):  # level by level: from the nodes of one depth to their children
        here = nodes[-1]
        inner = np.flatnonzero(flat.split_set[here] >= 0)
        asked = np.repeat(flat.split_set[here[inner]], 2)
        left, places = np.repeat(left[inner], 2, axis=0), np.arange(len(asked))
        taken = path_sets.side_sets[2 * asked + places % 2]
        edges.append(path_sets.intersect(left[places, feature_of[asked]], taken))
        left[places, feature_of[asked]] = edges[-1]
        parents.append(np.repeat(first + inner, 2))
        nodes.append(np.stack([flat.left[here[inner]], flat.right[here[inner]]], axis=1).ravel())
        first += len(here)
        levels += [slice(first, first + len(nodes[-1]))] if len(inner) else []
    return _rank_leaves(flat, tuple(levels), np.concatenate(nodes), np.concatenate(parents), np.concatenate(edges))


class _FlatTrees(NamedTuple):
    """The nodes of all trees end to end."""

    roots: IntpArray
    owner: IntpArray
    left: IntpArray
    right: IntpArray
    split_set: IntpArray
    value: Float64Array


def _flatten_trees(trees: Sequence[RegressionTree], split_sets: SplitSets) -> _FlatTrees:
    sizes = [len(tree.left) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)])[: len(trees)].astype(np.intp)
    base = np.repeat(roots, sizes)
    empty = np.empty(0, dtype=np.intp)
    left, right = (np.concatenate([empty, *(getattr(tree, name) for tree in trees)]) for name in ("left", "right"))
    asked = [np.where(tree.left < 0, -1, split_sets.sets_by_tree[id(tree.splits)]) for tree in trees]
    value = np.concatenate([np.empty(0), *(tree.value for tree in trees)])
    owner, split_set = np.repeat(np.arange(len(trees)), sizes), np.concatenate([empty, *asked])
    return _FlatTrees(roots, owner, left + base, right + base, split_set, value)


def _rank_leaves(
    flat: _FlatTrees, levels: tuple[slice, ...], nodes: IntpArray, parents: IntpArray, path_sets: IntpArray
) -> TreeLevels:
    split_set, value, roots = flat.split_set[nodes], flat.value[nodes], len(flat.roots)
    child = np.full(len(nodes), -1, dtype=np.intp)
    child[parents[roots::2]] = np.arange(roots, len(nodes), 2)
    ends = np.flatnonzero(split_set < 0)
    owners = flat.owner[nodes[ends]]
    counts = np.bincount(owners, minlength=roots)
    leaves = ends[np.lexsort((value[ends], owners, -counts[owners]))]
    counts = np.sort(counts)[::-1]
    starts = np.cumsum(counts) - counts
    rising = tuple(leaves[starts[: np.count_nonzero(counts > rank)] + rank] for rank in range(counts.max(initial=0)))
    return TreeLevels(
        roots=roots,
        levels=levels,
        parents=parents,
        path_sets=path_sets,
        split_set=split_set,
        child=child,
        value=value,
        rising=rising,
        starts=starts,
        values=value[leaves],
    )


def find_best_leaves(trees: TreeLevels, possible: BoolArray) -> Float64Array:
    """Per tree, those with most leaves first, and piece the best value in reach; ``possible``: path sets it meets."""
    if trees.roots == 0:
        return np.zeros((0, possible.shape[1]))
    reached = np.empty((len(trees.split_set), possible.shape[1]), dtype=np.bool_)
    reached[: trees.roots] = True
    for level in trees.levels:
        possible.take(trees.path_sets[level], axis=0, out=reached[level], mode="clip")  # "clip" needs no copy of `out`
        reached[level] &= reached.take(trees.parents[level], axis=0, mode="clip")
    best = np.zeros((trees.roots, possible.shape[1]), dtype=np.min_scalar_type(len(trees.rising)))
    for rank, leaves in enumerate(trees.rising[1:], 1):  # a better leaf in reach replaces a worse one
        here = best[: len(leaves)]
        np.maximum(here, reached.take(leaves, axis=0, mode="clip") * best.dtype.type(rank), out=here)
    return np.asarray(trees.values.take(trees.starts[:, None] + best, mode="clip"))


def evaluate_trees(trees: TreeLevels, split_sets: SplitSets, points: Int32Array) -> Float64Array:
    """For every tree and point the value of the leaf that the point reaches."""
    values = np.empty((trees.roots, len(points)))
    for root in range(trees.roots):
        node = np.full(len(points), root, dtype=np.intp)
        going = np.flatnonzero(trees.split_set[node] >= 0)
        while len(going):  # the points that have not reached a leaf yet go one node down
            left = split_sets.goes_left(trees.split_set[node[going]], points[going])
            node[going] = trees.child[node[going]] + ~left
            going = going[trees.split_set[node[going]] >= 0]
        values[root] = trees.value[node]
    return values


MAX_NODE_ENTRIES = 1 << 22  # nodes times pieces looked at together
ROUNDOFF = 2.0**-53
LOGISTIC_ERROR_UNITS = 32  # units that a logistic function may be off by itself; NumPy's exp is good to 4


class PreparedPart(NamedTuple):
    """One part: its trees, what its terms add for every code of a feature, its link, and how far off it may be."""

    trees: TreeLevels
    terms: tuple[tuple[int, Float64Array], ...]
    link: LinkFunction
    error: float


class PreparedMargin(NamedTuple):
    """One margin; where its bound is not above ``-slack`` it is surely not positive."""

    offset: float
    parts: tuple[PreparedPart, ...]
    slack: float


@dataclass(frozen=True, slots=True, eq=False)
class SumBounds:
    """A reading prepared: its split sets, and its margins."""

    split_sets: SplitSets
    alternatives: tuple[tuple[PreparedMargin, ...], ...]
    path_sets_by_feature: tuple[IntpArray, ...]  # per feature its path sets
    runs: tuple[CodeRuns, ...]

    halves_pieces: ClassVar[bool] = False
    reaches_across_gaps: ClassVar[bool] = False

    @property
    def cells(self) -> tuple[IntpArray, ...]:
        """Per feature the cell of every code; codes of one cell are the same to the model."""
        return self.split_sets.cells

    def flag_closed(self, pieces: Pieces, alternative: int, flag_feasible: PieceTest | None = None) -> BoolArray:
        """Which pieces surely hold no feasible point where all margins of this alternative are positive."""
        features = zip(self.runs, self.split_sets.sizes, pieces.sets, strict=True)
        met = [flag_intersecting_sets(*three) for three in features]
        width = sum(map(len, met))
        closed = np.zeros(len(pieces), dtype=np.bool_)
        for margin in self.alternatives[alternative]:
            terms = [part.terms for part in margin.parts]
            # per part and feature the largest of what its terms add, for every set of codes
            largest = [[(j, np.where(pieces.sets[j], adds, -np.inf).max(axis=1)) for j, adds in some] for some in terms]
            step = max(8, MAX_NODE_ENTRIES // max([width, *(len(part.trees.value) for part in margin.parts), 1]))
            left = np.flatnonzero(~closed)
            for some in (left[start : start + step] for start in range(0, len(left), step)):
                rows = pieces.rows[some]
                possible = np.empty((width, len(rows)), dtype=np.bool_)
                for j, meeting in enumerate(met):
                    one_set = len(pieces.sets[j]) == 1
                    taken = meeting if one_set else meeting.take(rows[:, j], axis=1, mode="clip")
                    possible[self.path_sets_by_feature[j]] = taken
                sums = [find_best_leaves(part.trees, possible).sum(axis=0) for part in margin.parts]
                for total, tops in zip(sums, largest, strict=True):
                    total += np.sum([most[rows[:, j]] for j, most in tops], axis=0)
                closed[some] = _sum_parts(margin, sums) <= -margin.slack  # false where the slack is not a number
        if flag_feasible is not None:
            left = np.flatnonzero(~closed)
            closed[left] = ~flag_feasible(pieces.select(left))
        return closed

    def decide(self, points: Int32Array) -> tuple[BoolArray, BoolArray]:
        """Which points may be desired, and which surely are."""
        possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
        for margins in self.alternatives:
            may, must = np.ones(len(points), dtype=np.bool_), np.ones(len(points), dtype=np.bool_)
            for margin in margins:
                sums = [self._evaluate(part, points) for part in margin.parts]
                may &= ~(_sum_parts(margin, sums) <= -margin.slack)
                must &= _sum_parts(margin, sums, -1.0) > margin.slack
            possible |= may
            sure |= must
        return possible, sure

    def _evaluate(self, part: PreparedPart, points: Int32Array) -> Float64Array:
        total: Float64Array = evaluate_trees(part.trees, self.split_sets, points).sum(axis=0)
        for feature, adds in part.terms:
            total += adds[points[:, feature]]
        return total


def _sum_parts(margin: PreparedMargin, sums: list[Float64Array], direction: float = 1.0) -> Float64Array:
    """A margin from the sums of its parts: not below the true one (direction -1: not above) but for the slack."""
    total = np.array(margin.offset)
    for part, value in zip(margin.parts, sums, strict=True):
        plain = part.link.kind == "identity"
        total = total + (value if plain else apply_link(part.link, value + direction * part.error))
    return np.asarray(total)


def apply_link(link: LinkFunction, total: Float64Array) -> Float64Array:
    """What a link makes of sums."""
    if link.kind == "step":
        return np.where(total > link.shift, link.scale, 0.0)
    with np.errstate(over="ignore"):
        return np.asarray(link.scale / (1.0 + np.exp(-(link.slope * total + link.shift))))


def prepare_sum_bounds(reading: SumForm, columns: EstimatorColumns, sizes: Sequence[int]) -> SumBounds:
    """Prepare a reading; raises NoReading where it cannot answer for a value of a column."""
    split_sets = build_split_sets(reading, columns, sizes)
    path_sets = PathSets(split_sets)
    margins = [[_prepare_margin(one, columns, path_sets) for one in margins] for margins in reading.alternatives]
    numbers, runs = map(path_sets.list_path_sets, range(len(sizes))), map(path_sets.find_runs, range(len(sizes)))
    return SumBounds(split_sets, tuple(map(tuple, margins)), tuple(numbers), tuple(runs))


def _prepare_margin(margin: SumMargin, columns: EstimatorColumns, path_sets: PathSets) -> PreparedMargin:
    adds = [_compute_contributions(part, columns) for part in margin.parts]
    sizes = [_measure_sizes(part, own) for part, own in zip(margin.parts, adds, strict=True)]
    errors = [(len(own) + 1) * ROUNDOFF * sum(own) if len(own) > 1 else 0.0 for own in sizes]
    parts = [
        PreparedPart(arrange_by_level(part.trees, path_sets), _merge_terms(own), part.link, error)
        for part, own, error in zip(margin.parts, adds, errors, strict=True)
    ]
    rising = all(part.link.scale >= 0 and part.link.slope >= 0 for part in margin.parts)
    slack = _bound_rounding(margin, sizes, errors)
    return PreparedMargin(margin.offset, tuple(parts), slack if rising and np.isfinite(slack) else np.nan)


def _compute_contributions(part: MarginPart, columns: EstimatorColumns) -> list[tuple[int, Float64Array]]:
    """For every term its feature, and what it adds for every code."""
    terms = [(columns[term.column], term.contribution) for term in part.terms]
    return [(column.feature, np.asarray(add(column.values), np.float64)) for column, add in terms]


def _measure_sizes(part: MarginPart, adds: Sequence[tuple[int, Float64Array]]) -> list[float]:
    """The largest absolute value of every tree and term."""
    trees = [float(np.abs(tree.value).max(initial=0.0)) for tree in part.trees]
    return trees + [float(np.abs(own).max(initial=0.0)) for _, own in adds]


def _merge_terms(adds: Sequence[tuple[int, Float64Array]]) -> tuple[tuple[int, Float64Array], ...]:
    """What all terms of a feature add together, for every code."""
    of_feature: dict[int, Float64Array] = {}
    for feature, own in adds:
        of_feature[feature] = of_feature.get(feature, 0.0) + own
    return tuple(of_feature.items())


def _bound_rounding(margin: SumMargin, sizes: Sequence[Sequence[float]], errors: Sequence[float]) -> float:
    """How far a margin may be off, by the model's arithmetic and by the checker's; nothing is below a NaN."""
    models = margin.error + margin.relative_error * (abs(margin.offset) + sum(map(sum, sizes)))
    exact = models == 0.0 and not any(errors) and all(part.link.kind != "logistic" for part in margin.parts)
    if exact and len(margin.parts) <= 1:
        return 0.0
    reach, own = abs(margin.offset), 0.0
    for part, parts_sizes, error in zip(margin.parts, sizes, errors, strict=True):
        size, link = sum(parts_sizes), part.link
        reach += size if link.kind == "identity" else abs(link.scale)
        if link.kind == "identity":
            own += error
        elif link.kind == "logistic":  # the error of a sum before a step was spent before it
            own += abs(link.scale) * ROUNDOFF * (abs(link.slope) * size + abs(link.shift) + LOGISTIC_ERROR_UNITS)
    return models + own + ROUNDOFF * ((len(margin.parts) + 1) * reach + 8 * models)

"""Upper bounds of margins over pieces of which only few features may change: what can a change gain at most?

A piece of a box leaves some features *undecided*: they keep the row's value, or they change. Which of them change is
limited by what changes cost. Here a margin is bounded by a number, its *base*, which it does not exceed while all
undecided features stay, and by the *gain* of every undecided feature, so that

    margin  <=  base + the gains of the features that do change.

**Trees.** A leaf needs some undecided features to change: those of which the path to it does not allow the row's
value. Of a tree, the base is its best leaf in reach that needs none. What another leaf has more is shared equally among
the features that it needs, and a feature's gain is the largest of its shares: if a point ends in a leaf, all features
that the leaf needs have changed, and their gains are together no less than its value. Leaves that need more changes
than can be paid are not in reach.

**Terms** of a feature gain what their best value has more than the row's own; **networks** the same, in the linear
function that bounds them (:mod:`~ironrule.checker.bounds.bound_propagation`).

**Terms whose values cost differently** are bounded together: for any price of cost, the whole is no more than

    price * limit + the sum, over all features, of the largest (what a value adds - price * what it costs)

(Lagrangian relaxation: for any price this is a bound, so nothing rests on how the price was found). For linear models
it is nearly exact, once gaps are narrow enough: a number in one adds no more than the better of its ends, and costs no
less than the cheaper one. Which gaps are too wide for that, the same bound tells (``count_parts``).

**Which features change** is then a knapsack: gains are maximized, costs limited. Two bounds of it are taken: the one
that allows fractions of items (Dantzig, "Discrete-variable extremum problems", 1957), and the largest gains of as many
features as can be paid.

Rounding is covered by a share of all sizes that are added up, far more than it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds.pieces import Pieces
from ironrule.checker.bounds.sum_bounds import (
    PreparedMargin,
    PreparedPart,
    SumBounds,
    TreeLevels,
    apply_link,
    flag_intersecting_sets,
)

MAX_BLOCK_ENTRIES = 1 << 21  # numbers in one array of a block of pieces
RELATIVE_ERROR = 1e-11  # of all sizes that a bound adds up, for the rounding of gains and their sums
PRICE_STEPS = 2.0 ** (np.arange(-10, 11) / 4)  # tried for one bound, as multiples of what is needed per cost
PRICE_ROUNDS, PRICES_BETWEEN = 5, 9  # how often a better price is sought, and among how many
LEAST_SPARE = 1e-3  # of what is needed: numbers are put no closer than for so much to spare
TINY_COST, LARGE_COST = 1e-300, 1e300  # finite: what is multiplied with zero must become zero


class ChangePieces(NamedTuple):
    """Pieces with what may change in them: per piece and feature whether it is undecided, and what its cheapest change
    costs at least; and what all undecided features may cost together, infinite where only the largest cost counts.
    """

    pieces: Pieces
    undecided: BoolArray
    costs: Float64Array
    left: Float64Array
    limit: float  # that all features together must cost less than; infinite where costs are not added up
    top: float = np.inf  # that every feature must cost less than
    low: IntpArray | None = None  # per feature the first atom, the last, and what is known of it
    high: IntpArray | None = None
    status: IntpArray | None = None
    sides: IntpArray | None = None  # of a network's units: 1 where their sum is not below zero, -1 where not above

    def select(self, rows: IntpArray | slice) -> ChangePieces:
        """Some of them."""
        pieces = Pieces(self.pieces.sets, self.pieces.rows[rows])
        ranges = [None if one is None else one[rows] for one in (self.low, self.high, self.status, self.sides)]
        return ChangePieces(
            pieces, self.undecided[rows], self.costs[rows], self.left[rows], self.limit, self.top, *ranges
        )

    def with_sides(self, sides: IntpArray) -> ChangePieces:
        """The same with sides of the units of one network."""
        return ChangePieces(*self[:-1], sides)

    def __len__(self) -> int:
        return len(self.left)


NO_CUT = (-1, -1, -1)


class ChangeAnswer(NamedTuple):
    """Which pieces surely hold no desired point that can be paid; and for the choice of where to cut what each
    undecided feature may gain, and for some pieces the cut itself: the unit that is to be given a side, or else the
    feature and the atom after which it is to be cut.
    """

    closed: BoolArray
    gains: Float64Array
    cuts: IntpArray

    @classmethod
    def build(cls, changes: ChangePieces) -> ChangeAnswer:
        """Of no piece anything is known yet."""
        cuts = np.full((len(changes), 3), -1, dtype=np.intp)
        return cls(np.zeros(len(changes), dtype=np.bool_), np.zeros(changes.undecided.shape), cuts)


class ChangeBounds(Protocol):
    """What bounds the margins of a reading over such pieces."""

    @property
    def unit_count(self) -> int:
        """How many units may be given a side."""

    def flag_closed(self, changes: ChangePieces) -> ChangeAnswer:
        """What is known of every piece."""

    def count_parts(self, changes: ChangePieces, limit: float) -> list[Float64Array]:
        """Per feature and code into how many parts the gap beside the code is to be cut so that these pieces may be
        closed: their bounds take what the far end of a gap adds for what the near end costs. 0: no gap is to blame.
        """


def bound_knapsack(gains: Float64Array, costs: Float64Array, left: Float64Array) -> Float64Array:
    """For every row the most that features can gain together which cost less than what is left.

    >>> bound_knapsack(np.array([[3.0, 2.0, 1.0]]), np.array([[2.0, 1.0, 1.0]]), np.array([2.5]))
    array([4.25])
    """
    costs = np.maximum(costs, TINY_COST)
    order = np.argsort(-gains / costs, axis=1)
    sorted_gains, sorted_costs = (np.take_along_axis(one, order, axis=1) for one in (gains, costs))
    with np.errstate(invalid="ignore"):
        before = np.cumsum(sorted_costs, axis=1) - sorted_costs
        shares = np.clip((left[:, None] - before) / sorted_costs, 0.0, 1.0)
    shares[np.isnan(shares)] = 1.0
    fractional = (sorted_gains * shares).sum(axis=1)
    count = (np.cumsum(np.sort(np.where(gains > 0, costs, np.inf), axis=1), axis=1) < left[:, None]).sum(axis=1)
    falling = -np.sort(-gains, axis=1)
    largest = np.where(np.arange(gains.shape[1]) < count[:, None], falling, 0.0).sum(axis=1)
    return np.asarray(np.minimum(fractional, largest))


@dataclass(frozen=True, slots=True, eq=False)
class ChangeableTrees:
    """Trees as a change of one row sees them.

    ``leaves`` are their nodes, tree by tree; ``needs`` says of every leaf and feature whether the path to the leaf asks
    the feature to change, ``least_costs`` what that costs at least. ``pairs`` are all leaves with one feature that each
    needs, sorted by tree and feature, ``groups`` where each tree and feature begins among them, and ``group_features``
    the feature.
    """

    levels: TreeLevels
    leaves: IntpArray
    starts: IntpArray
    trees: IntpArray
    needs: Float64Array
    least_costs: Float64Array
    pair_leaves: IntpArray
    pair_features: IntpArray
    groups: IntpArray
    group_sums: Float64Array

    @classmethod
    def build(
        cls, levels: TreeLevels, own_inside: BoolArray, features: IntpArray, costs: Float64Array
    ) -> ChangeableTrees:
        """``own_inside`` says of every path set whether it has the row's own code, ``features`` and ``costs`` of which
        feature it is, and what the cheapest of its codes costs.
        """
        count, width = len(levels.split_set), int(features.max(initial=-1)) + 1
        needs, least = np.zeros((count, width), dtype=np.bool_), np.zeros((count, width))
        owner = np.arange(count)
        for level in levels.levels:
            parents, sets, nodes = levels.parents[level], levels.path_sets[level], np.arange(level.start, level.stop)
            needs[level], least[level], owner[level] = needs[parents], least[parents], owner[parents]
            needs[nodes, features[sets]] = ~own_inside[sets]
            least[nodes, features[sets]] = np.where(own_inside[sets], 0.0, costs[sets])
        leaves = np.flatnonzero(levels.split_set < 0)
        leaves = leaves[np.argsort(owner[leaves], kind="stable")]
        needs, least, trees = needs[leaves], least[leaves], owner[leaves]
        pair_leaves, pair_features = np.nonzero(needs)
        order = np.lexsort((pair_features, trees[pair_leaves]))
        pair_leaves, pair_features = pair_leaves[order], pair_features[order]
        keys = trees[pair_leaves] * max(width, 1) + pair_features
        groups = np.flatnonzero(np.diff(keys, prepend=-1))
        group_sums = np.zeros((width, len(groups)))
        group_sums[pair_features[groups], np.arange(len(groups))] = 1.0
        return cls(
            levels=levels,
            leaves=leaves,
            starts=np.flatnonzero(np.diff(trees, prepend=-1)),
            trees=trees,
            needs=needs.astype(np.float64),
            least_costs=least,
            pair_leaves=pair_leaves,
            pair_features=pair_features,
            groups=groups,
            group_sums=group_sums,
        )

    @property
    def width(self) -> int:
        """How many numbers a piece takes in the largest array."""
        return max(len(self.levels.split_set), len(self.pair_leaves), 1)

    def bound(
        self, possible: BoolArray, undecided: BoolArray, left: Float64Array
    ) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Per piece the base, the best that leaves in reach add up to, and per feature the gain. ``possible``: path
        sets that a piece meets.
        """
        pieces, width = len(left), self.needs.shape[1]
        gains = np.zeros((undecided.shape[1], pieces))
        if len(self.leaves) == 0:
            return np.zeros(pieces), np.zeros(pieces), gains
        levels, reached = self.levels, np.ones((len(self.levels.split_set), pieces), dtype=np.bool_)
        for level in levels.levels:
            np.take(possible, levels.path_sets[level], axis=0, out=reached[level], mode="clip")
            reached[level] &= reached.take(levels.parents[level], axis=0, mode="clip")
        free = undecided.T[:width].astype(np.float64)
        count = self.needs @ free
        # what a leaf needs costs so much at least; rounding is on the side of what is in reach
        inside = reached[self.leaves] & (self.least_costs @ free * (1.0 - RELATIVE_ERROR) < left)
        value = levels.value[self.leaves][:, None]
        base = np.maximum.reduceat(np.where(inside & (count == 0), value, -np.inf), self.starts, axis=0)
        best = np.maximum.reduceat(np.where(inside, value, -np.inf), self.starts, axis=0)
        if len(self.groups):
            tree_of_leaf = np.cumsum(np.bincount(self.starts, minlength=len(self.leaves))) - 1
            share = np.where(inside & (count > 0), np.maximum(value - base[tree_of_leaf], 0.0), 0.0)
            share /= np.maximum(count, 1.0)
            pairs = share.take(self.pair_leaves, axis=0)
            pairs *= free.take(self.pair_features, axis=0)
            gains[:width] = self.group_sums @ np.maximum.reduceat(pairs, self.groups, axis=0)
        return base.sum(axis=0), best.sum(axis=0), gains


OwnTerm = tuple[int, Float64Array, float]  # a feature, what a term adds for every code of it, and for the row's own


class ChangeablePart(NamedTuple):
    """A part of a margin: its trees, what its terms add per code and for the row's own code, and its link. ``varying``
    are the terms that do not add the same for every code, ``constant`` is what all others add.
    """

    trees: ChangeableTrees
    part: PreparedPart
    own_terms: tuple[OwnTerm, ...]
    varying: tuple[OwnTerm, ...]
    constant: float


class ChangeableMargin(NamedTuple):
    """A margin, and the rounding that is added beside its slack."""

    margin: PreparedMargin
    parts: tuple[ChangeablePart, ...]
    rounding: float


@dataclass(frozen=True, slots=True, eq=False)
class SumChangeBounds:
    """A sum of trees and terms as changes of one row see it."""

    bounds: SumBounds
    alternatives: tuple[tuple[ChangeableMargin, ...], ...]
    code_costs: tuple[Float64Array, ...]
    costs: tuple[Float64Array, ...]

    @classmethod
    def build(
        cls, bounds: SumBounds, own: Int32Array, code_costs: Sequence[Float64Array], costs: Sequence[Float64Array]
    ) -> SumChangeBounds:
        """``code_costs``: what every code of a feature, or a number in a gap beside it, costs at least; ``costs``: what
        the code itself does.
        """
        count = sum(map(len, bounds.path_sets_by_feature))
        inside, features, least_costs = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.intp), np.zeros(count)
        for j, numbers in enumerate(bounds.path_sets_by_feature):
            if not len(numbers):
                continue
            alone = np.zeros((1, bounds.split_sets.sizes[j]), dtype=np.bool_)
            alone[0, own[j]] = True
            runs = bounds.runs[j]
            features[numbers], inside[numbers] = j, flag_intersecting_sets(runs, alone.shape[1], alone)[:, 0]
            ends = zip(runs.first.tolist(), runs.end.tolist(), strict=True)
            least = np.array([code_costs[j][first:end].min(initial=np.inf) for first, end in ends])
            least_costs[numbers] = np.minimum(np.minimum.reduceat(least, runs.owners), LARGE_COST)
        alternatives = tuple(
            tuple(_build_margin(margin, own, inside, features, least_costs) for margin in margins)
            for margins in bounds.alternatives
        )
        return cls(bounds, alternatives, tuple(code_costs), tuple(costs))

    unit_count: ClassVar[int] = 0

    def flag_closed(self, changes: ChangePieces) -> ChangeAnswer:
        """See :class:`ChangeBounds`."""
        answer = ChangeAnswer.build(changes)
        width = max([1, *(part.trees.width for one in self._margins() for part in one.parts)])
        step = max(4, MAX_BLOCK_ENTRIES // width)
        for some in (slice(start, start + step) for start in range(0, len(changes), step)):
            answer.closed[some], answer.gains[some] = self._flag_block(changes.select(some))
        return answer

    def _margins(self) -> Iterator[ChangeableMargin]:
        for margins in self.alternatives:
            yield from margins

    def _flag_block(self, changes: ChangePieces) -> tuple[BoolArray, Float64Array]:
        pieces, sizes = changes.pieces, self.bounds.split_sets.sizes
        possible = np.empty((sum(map(len, self.bounds.path_sets_by_feature)), len(changes)), dtype=np.bool_)
        for j, (runs, size) in enumerate(zip(self.bounds.runs, sizes, strict=True)):
            numbers = self.bounds.path_sets_by_feature[j]
            if len(numbers):
                used, rows = np.unique(pieces.rows[:, j], return_inverse=True)
                possible[numbers] = flag_intersecting_sets(runs, size, pieces.sets[j][used])[:, rows.ravel()]
        closed, gains = np.ones(len(changes), dtype=np.bool_), np.zeros(changes.undecided.shape)
        for margins in self.alternatives:
            here = np.zeros(len(changes), dtype=np.bool_)
            for margin in margins:
                total, own_gains = self._bound_margin(margin, changes, possible)
                here |= total <= -(margin.margin.slack + margin.rounding)  # false where the slack is not a number
                gains = np.maximum(gains, own_gains)
            closed &= here
        return closed, gains

    def _bound_margin(
        self, margin: ChangeableMargin, changes: ChangePieces, possible: BoolArray
    ) -> tuple[Float64Array, Float64Array]:
        """The bound of a margin, and the gains."""
        total, joint = np.full(len(changes), margin.margin.offset), np.zeros(len(changes))
        plain, shared = np.zeros(len(changes)), np.zeros(changes.undecided.shape)
        trees, terms = np.zeros(len(changes)), list[OwnTerm]()
        gains = np.zeros(changes.undecided.shape)
        for part in margin.parts:
            base, best, own_gains = part.trees.bound(possible, changes.undecided, changes.left)
            part_gains, tree_best = own_gains.T.copy(), best
            base, best = base + part.constant, best + part.constant
            for j, adds, own in part.varying:
                largest = np.where(changes.pieces.sets[j], adds, -np.inf).max(axis=1)[changes.pieces.rows[:, j]]
                free = changes.undecided[:, j]
                part_gains[:, j] += np.where(free, largest - own, 0.0)
                base, best = base + np.where(free, own, largest), best + largest
            gains += part_gains
            if part.part.link.kind == "identity":
                joint, plain, shared = joint + base, plain + best, shared + part_gains
                trees, terms = trees + tree_best, [*terms, *part.own_terms]
            else:
                most = np.minimum(best, base + bound_knapsack(part_gains, changes.costs, changes.left))
                total = total + apply_link(part.part.link, most + part.part.error + margin.rounding)
        least = np.minimum(plain, joint + bound_knapsack(shared, changes.costs, changes.left))
        if terms and np.isfinite(changes.limit):
            enough = -(margin.margin.slack + margin.rounding) - total - trees
            prices = _list_prices(margin, terms, changes.limit)
            least = np.minimum(least, trees + bound_at_prices(terms, self.code_costs, changes, prices, enough)[0])
        return total + least, gains

    def count_parts(self, changes: ChangePieces, limit: float) -> list[Float64Array]:
        """See :class:`ChangeBounds`: where terms alone are added up."""
        counts, rows = [np.zeros(len(one)) for one in self.code_costs], changes.pieces.rows
        affordable = [np.where(one < limit, one, np.inf) for one in self.costs]
        for margin in self._margins():
            terms = [term for part in margin.parts for term in part.own_terms]
            if not terms or any(len(part.trees.leaves) or part.part.link.kind != "identity" for part in margin.parts):
                continue
            enough = np.full(len(changes), -(margin.margin.slack + margin.rounding + margin.margin.offset))
            prices = _list_prices(margin, terms, changes.limit)
            least, price = bound_at_prices(terms, affordable, changes, prices, np.full(len(changes), -np.inf))
            spare = np.maximum(enough - least, LEAST_SPARE * np.abs(enough - sum(own for _, _, own in terms)))
            each = (spare / (2 * len(terms)))[:, None]
            for j, adds, _ in terms:
                counts[j] = np.maximum(
                    counts[j],
                    count_loose_parts(
                        adds,
                        changes.pieces.sets[j][rows[:, j]],
                        price,
                        loose=self.code_costs[j],
                        exact=affordable[j],
                        each=each,
                    ),
                )
        return counts


def count_loose_parts(
    adds: Float64Array,
    inside: BoolArray,
    price: Float64Array,
    *,
    loose: Float64Array,
    exact: Float64Array,
    each: Float64Array,
) -> Float64Array:
    """Into how many parts the gap beside each code is to be cut so that, at a price for every piece, the numbers in it
    add no more than by ``each`` beyond what codes add at their exact costs.
    """
    loosely, exactly = (
        np.where(inside & np.isfinite(costs), adds - price[:, None] * np.minimum(costs, LARGE_COST), -np.inf)
        for costs in (loose, exact)
    )
    best = exactly.max(axis=1, keepdims=True)
    known = np.where(np.isfinite(exactly), exactly, best)
    with np.errstate(invalid="ignore"):
        parts = np.where(loosely > best + each, (loosely - known) / each, 0.0)
    return np.asarray(np.nan_to_num(parts, posinf=0.0).max(axis=0, initial=0.0))


def _list_prices(margin: ChangeableMargin, terms: Sequence[OwnTerm], limit: float) -> Float64Array:
    """The prices of cost that are tried first; none, 0, where costs are not added up."""
    if not np.isfinite(limit):
        return np.zeros(1)
    needed = abs(margin.margin.offset + sum(own for _, _, own in terms))
    return np.asarray(needed / max(limit, TINY_COST) * PRICE_STEPS)


def bound_at_prices(
    terms: Sequence[OwnTerm],
    code_costs: Sequence[Float64Array],
    changes: ChangePieces,
    prices: Float64Array,
    enough: Float64Array,
    rounds: int = PRICE_ROUNDS,
) -> tuple[Float64Array, Float64Array]:
    """What terms add at most where all changes together cost less than the limit, and at which price of cost. The bound
    is convex in the price: it is sought near the best one again, unless it is small enough.
    """
    limit = changes.limit if np.isfinite(changes.limit) else 0.0
    return PricedTerms.build(terms, code_costs, changes).bound(prices, enough, limit, rounds)


@dataclass(frozen=True, slots=True, eq=False)
class PricedTerms:
    """What the sets of codes of some pieces add and cost, all sets one behind the other.

    ``adds`` and ``costs`` have their codes, ``lengths`` how many each set has, ``numbers`` per piece and term the set.
    ``constant`` is what terms add that are left out, since they add the same in every piece at any price: those that
    are constant, of features that may stay in all pieces.
    """

    adds: Float64Array
    costs: Float64Array
    lengths: IntpArray
    numbers: IntpArray
    constant: float

    @classmethod
    def build(cls, terms: Sequence[OwnTerm], code_costs: Sequence[Float64Array], changes: ChangePieces) -> PricedTerms:
        """Codes with infinite costs may not be chosen."""
        adds, costs, lengths, numbers = [np.empty(0)], [np.empty(0)], [np.empty(0, dtype=np.intp)], list[IntpArray]()
        constant, count = 0.0, 0
        for j, term_adds, _ in terms:
            used, rows = np.unique(changes.pieces.rows[:, j], return_inverse=True)
            inside = changes.pieces.sets[j][used] & np.isfinite(code_costs[j])
            least_costs = np.where(inside, code_costs[j], np.inf).min(axis=1)
            if (term_adds == term_adds[0]).all() and (least_costs == 0.0).all():
                constant += float(term_adds[0])
                continue
            adds.append(np.where(inside, term_adds, -np.inf).ravel())
            costs.append(np.where(inside, code_costs[j], 0.0).ravel())
            lengths.append(np.full(len(used), inside.shape[1]))
            numbers.append(rows.ravel() + count)
            count += len(used)
        return cls(
            adds=np.concatenate(adds),
            costs=np.concatenate(costs),
            lengths=np.concatenate(lengths),
            numbers=np.stack(numbers, axis=1) if numbers else np.empty((len(changes), 0), dtype=np.intp),
            constant=constant,
        )

    def select(self, pieces: IntpArray) -> PricedTerms:
        """Those of some pieces, with the sets that these have."""
        numbers, is_used = self.numbers[pieces], np.zeros(len(self.lengths), dtype=np.bool_)
        is_used[numbers] = True
        codes = np.repeat(is_used, self.lengths)
        renumbered = (np.cumsum(is_used) - 1)[numbers]
        return PricedTerms(self.adds[codes], self.costs[codes], self.lengths[is_used], renumbered, self.constant)

    def add_up(self, prices: Float64Array) -> Float64Array:
        """Per price and piece, what all terms add at most, less what it costs at that price."""
        totals = np.full((len(prices), len(self.numbers)), self.constant)
        if len(self.adds):
            starts = np.cumsum(self.lengths) - self.lengths
            step = max(1, MAX_BLOCK_ENTRIES // max(len(self.adds), self.numbers.size))
            for some in (slice(start, start + step) for start in range(0, len(prices), step)):
                best = np.maximum.reduceat(self.adds - prices[some, None] * self.costs, starts, axis=1)
                totals[some] += best[:, self.numbers].sum(axis=2)
        return totals

    def bound(
        self, prices: Float64Array, enough: Float64Array, limit: float, rounds: int
    ) -> tuple[Float64Array, Float64Array]:
        """See :func:`bound_at_prices`."""
        totals = self.add_up(prices) + (prices * limit)[:, None]
        best = totals.argmin(axis=0)
        least, chosen = totals.min(axis=0), prices[best]
        for place in np.unique(best[least > enough]).tolist() if rounds and len(prices) > 1 else ():
            some = np.flatnonzero((best == place) & (least > enough))
            ends = prices[max(place - 1, 0)], prices[min(place + 1, len(prices) - 1)]
            finer = np.linspace(*ends, PRICES_BETWEEN)
            own, price = self.select(some).bound(finer, enough[some], limit, rounds - 1)
            chosen[some] = np.where(own < least[some], price, chosen[some])
            least[some] = np.minimum(least[some], own)
        return least, chosen


def _build_margin(
    margin: PreparedMargin, own: Int32Array, inside: BoolArray, features: IntpArray, costs: Float64Array
) -> ChangeableMargin:
    parts, size = list[ChangeablePart](), abs(margin.offset)
    for part in margin.parts:
        terms = tuple((j, adds, float(adds[own[j]])) for j, adds in part.terms)
        trees = ChangeableTrees.build(part.trees, inside, features, costs)
        varying = tuple(term for term in terms if (term[1] != term[2]).any())
        constant = sum(own for _, adds, own in terms if not (adds != own).any())
        parts.append(ChangeablePart(trees, part, terms, varying, constant))
        if len(trees.leaves):
            size += float(np.maximum.reduceat(np.abs(part.trees.value[trees.leaves]), trees.starts).sum())
        size += sum(float(np.abs(adds).max(initial=0.0)) for _, adds, _ in terms) + abs(part.link.scale)
    return ChangeableMargin(margin, tuple(parts), RELATIVE_ERROR * size)

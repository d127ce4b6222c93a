"""That nothing costs less: a branch and bound of the checker's own, over what the features of a row may become.

A *piece* says of every feature whether it stays as it is, changes, or is undecided, and to which atoms
(:mod:`~ironrule.checker.changes.atoms`) it may change. All changes that cost less than a limit are one piece at first.
A piece is closed

1. if its features that change cost too much already, or are all those of an earlier counterfactual;
2. if no point of it satisfies the constraints;
3. if, for one of the conditions that a counterfactual must meet, the bounds of
   :mod:`~ironrule.checker.bounds.change_bounds` show that no point of it does.

An open piece is cut: the undecided feature that may gain most changes, or stays; where all are decided, the feature
with most atoms is cut in the middle. For a network, unless changes are counted, the atoms of the feature that moves its
bound most are cut at once: most cheap changes are small ones of many features. Of a piece that is a single point the
model itself is asked. What is a single combination of values and gaps, and is not closed, is left open: nothing is
proven then.

Nothing here rests on what a search has found: the limit alone comes from the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.bounds.change_bounds import ChangeBounds, ChangePieces
from ironrule.checker.bounds.pieces import Pieces, PieceTest
from ironrule.checker.changes.atoms import CHANGES, STAYS, UNDECIDED, FeatureAtoms

PIECES_PER_ROUND = 512
MAX_OPEN_PIECES = 256  # combinations with gaps that stay open: more of them are not gathered
ROUNDS = 3  # in which what is too expensive is left out
MAX_EXAMPLES = 64  # pieces that wait, by which it is said where numbers are needed
MOST_PARTS = 200  # of one gap


class CheaperChangeProblem(NamedTuple):
    """What is to be proven empty: the changes that cost less than a limit.

    ``bounds`` has one entry for every condition that a counterfactual must meet; ``decide`` asks the models themselves
    about points that may be chosen, ``admits`` says which may. ``must_change`` are features whose own value may not
    stay. With ``adds_up`` costs are added up, else the largest counts. With ``cuts_ranges`` atoms are halved before it
    is decided whether their feature changes.
    """

    atoms: tuple[FeatureAtoms, ...]
    bounds: tuple[ChangeBounds, ...]
    decide: Callable[[Int32Array], BoolArray]
    admits: Callable[[Int32Array], BoolArray]
    flag_feasible: PieceTest | None
    must_change: BoolArray
    adds_up: bool = True
    cuts_ranges: bool = False


class ChangeFrontier(NamedTuple):
    """Pieces: per feature the first and the last atom, and what is known of it; and sides of a network's units."""

    low: IntpArray
    high: IntpArray
    status: IntpArray
    sides: IntpArray

    def __len__(self) -> int:
        return len(self.low)

    def select(self, rows: IntpArray | BoolArray | slice) -> ChangeFrontier:
        """Some of them."""
        return ChangeFrontier(*(one[rows] for one in self))

    def copy(self) -> ChangeFrontier:
        """The same, to be altered."""
        return ChangeFrontier(*(one.copy() for one in self))


def join_frontiers(parts: Sequence[ChangeFrontier]) -> ChangeFrontier:
    """All pieces of several frontiers."""
    return ChangeFrontier(*(np.concatenate(some) for some in zip(*parts, strict=True)))


@dataclass(slots=True, eq=False)
class ChangeSearch:
    """One proof that nothing costs less than a limit and changes all features of no earlier counterfactual.

    ``pieces`` were looked at, ``waiting`` are not closed yet, ``cheaper`` is a cheaper counterfactual if one was met.
    Of combinations of values and gaps that stay open, ``open_gaps`` has the features and the atoms.
    """

    problem: CheaperChangeProblem
    limit: float
    earlier: BoolArray  # one row for each: the features that it changes
    waiting: list[ChangeFrontier] = field(default_factory=list)
    cheaper: Int32Array | None = None
    pieces: int = 0
    open_gaps: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.waiting.append(self._build_first())

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return self.cheaper is None and not self.waiting and not self.open_gaps

    def run(self, max_pieces: int) -> None:
        """Close pieces, the last first, until nothing is left or so many were looked at in all."""
        waiting = self.waiting
        while waiting and self.pieces < max_pieces and len(self.open_gaps) < MAX_OPEN_PIECES:
            taken = list[ChangeFrontier]()
            while waiting and sum(map(len, taken)) < PIECES_PER_ROUND:
                taken.append(waiting.pop())
            here = join_frontiers(taken)
            if len(here) > PIECES_PER_ROUND:
                waiting.append(here.select(slice(0, len(here) - PIECES_PER_ROUND)))
                here = here.select(slice(len(here) - PIECES_PER_ROUND, None))
            self.pieces += len(here)
            parts, self.cheaper = self._divide(here)
            if self.cheaper is not None:
                return
            waiting += [parts] if len(parts) else []

    def count_parts(self) -> dict[tuple[int, int], int]:
        """By feature and code, into how many parts the gap behind the code is to be cut so that the bounds of what
        waits get better.
        """
        found: dict[tuple[int, int], int] = {}
        waiting = join_frontiers([*self.waiting, self._build_first()]).select(slice(-MAX_EXAMPLES, None))
        changes = self._build_pieces(*self._leave_out_expensive(waiting))
        for bounds in self.problem.bounds if len(changes) else ():
            counted = zip(self.problem.atoms, bounds.count_parts(changes, self.limit), strict=True)
            for j, (atoms, counts) in enumerate(counted):
                for code, count in _choose_gaps(atoms, counts):
                    found[j, code] = max(found.get((j, code), 0), count)
        return found

    def _build_first(self) -> ChangeFrontier:
        atoms = self.problem.atoms
        low = np.zeros((1, len(atoms)), dtype=np.intp)
        high = np.array([[len(one) - 1 for one in atoms]], dtype=np.intp)
        status = np.where(self.problem.must_change, CHANGES, UNDECIDED).astype(np.intp)
        units = sum(bounds.unit_count for bounds in self.problem.bounds)
        return ChangeFrontier(low, high, status[None, :], np.zeros((1, units), dtype=np.intp))

    def _divide(self, here: ChangeFrontier) -> tuple[ChangeFrontier, Int32Array | None]:
        """The parts of pieces that are not closed; and a cheaper counterfactual, if one is met."""
        here, costs, left = self._leave_out_expensive(here)
        changes = self._build_pieces(here, costs, left)
        closed = np.zeros(len(here), dtype=np.bool_)
        if self.problem.flag_feasible is not None and len(here):
            closed = ~self.problem.flag_feasible(changes.pieces)
        gains, cuts, start = np.zeros(here.status.shape), np.full((len(here), 3), -1, dtype=np.intp), 0
        for bounds in self.problem.bounds:
            rows, units = np.flatnonzero(~closed), slice(start, start + bounds.unit_count)
            if len(rows):
                answer = bounds.flag_closed(changes.select(rows).with_sides(here.sides[rows, units]))
                closed[rows], gains[rows] = answer.closed, answer.gains
                answer.cuts[:, 0] += np.where(answer.cuts[:, 0] >= 0, start, 0)
                cuts[rows] = np.where(np.any(cuts[rows] >= 0, axis=1, keepdims=True), cuts[rows], answer.cuts)
            start = units.stop
        rows = np.flatnonzero(~closed)
        here, gains, cuts, cheaper = self._settle_points(here.select(rows), gains[rows], cuts[rows])
        return self._cut(here, gains, cuts), cheaper

    def _leave_out_expensive(self, here: ChangeFrontier) -> tuple[ChangeFrontier, Float64Array, Float64Array]:
        """The pieces without what cannot be paid, those that are left; what changes cost in them, and what is left."""
        here = here.copy()
        low, high, status, _ = here
        costs, alive = np.zeros(low.shape), np.ones(len(here), dtype=np.bool_)
        left = np.full(len(here), np.inf)
        for j, atoms in enumerate(self.problem.atoms):
            costs[:, j] = atoms.find_least_costs(low[:, j], high[:, j])
        for _ in range(ROUNDS):
            before = here.copy()
            paid = np.where(status == CHANGES, costs, 0.0)
            alive &= np.isfinite(paid).all(axis=1)
            if self.problem.adds_up:
                with np.errstate(invalid="ignore"):
                    left = self.limit - paid.sum(axis=1)
                alive &= left > 0
            for j in np.flatnonzero((status != STAYS).any(axis=0)).tolist():
                atoms = self.problem.atoms[j]
                room = left + paid[:, j] if self.problem.adds_up else np.full(len(here), self.limit)
                room[~alive] = np.inf
                low[:, j], high[:, j] = atoms.shrink(low[:, j], high[:, j], status[:, j], room)
                alive &= (status[:, j] != CHANGES) | (low[:, j] <= high[:, j])
                costs[:, j] = atoms.find_least_costs(low[:, j], high[:, j])
                status[(status[:, j] == UNDECIDED) & ~(costs[:, j] < room), j] = STAYS
            alive &= self._keep_earlier_apart(status)
            if all(np.array_equal(one, other) for one, other in zip(before, here, strict=True)):
                break  # another round would find nothing more
        rows = np.flatnonzero(alive)
        stays = status == STAYS
        for j, atoms in enumerate(self.problem.atoms):
            low[stays[:, j], j] = high[stays[:, j], j] = atoms.own
        used = costs if self.problem.adds_up else np.zeros_like(costs)
        return here.select(rows), np.where(status == UNDECIDED, used, 0.0)[rows], left[rows]

    def _keep_earlier_apart(self, status: IntpArray) -> BoolArray:
        """Let a feature stay where otherwise all of an earlier counterfactual would change; which pieces do not already
        change all.
        """
        fine = np.ones(len(status), dtype=np.bool_)
        for chosen in self.earlier:
            own = status[:, chosen]
            fine &= ~(own == CHANGES).all(axis=1)
            last = ((own == CHANGES).sum(axis=1) == own.shape[1] - 1) & (own == UNDECIDED).any(axis=1)
            rows, places = np.nonzero((status == UNDECIDED) & chosen & last[:, None])
            status[rows, places] = STAYS
        return fine

    def _build_pieces(self, here: ChangeFrontier, costs: Float64Array, left: Float64Array) -> ChangePieces:
        """The pieces as sets of codes."""
        sets, rows = list[BoolArray](), np.empty(here.low.shape, dtype=np.int32)
        for j, atoms in enumerate(self.problem.atoms):
            low, high, status = here.low[:, j], here.high[:, j], here.status[:, j]
            keys = (low * len(atoms) + high) * (CHANGES + 1) + status
            _, first, places = np.unique(keys, return_index=True, return_inverse=True)
            sets.append(atoms.flag_codes(low[first], high[first], status[first]))
            rows[:, j] = places.ravel()
        limit = self.limit if self.problem.adds_up else np.inf
        pieces, undecided = Pieces(tuple(sets), rows), here.status == UNDECIDED
        return ChangePieces(
            pieces, undecided, costs, left, limit, self.limit, here.low, here.high, here.status, here.sides
        )

    def _cut(self, here: ChangeFrontier, gains: Float64Array, cuts: IntpArray) -> ChangeFrontier:
        """Every piece in two: a unit gets either side, or of one feature it is decided whether it changes, or its atoms
        are parted, in the middle unless bounds say where.
        """
        by_unit = cuts[:, 0] >= 0
        if by_unit.any():
            parts = [self._cut(here.select(~by_unit), gains[~by_unit], cuts[~by_unit])]
            units, rows = cuts[by_unit, 0], np.arange(np.count_nonzero(by_unit))
            for side in (1, -1):
                parts.append(here.select(by_unit))
                parts[-1].sides[rows, units] = side
            return join_frontiers(parts)
        if not len(here):
            return here
        rows, own = np.arange(len(here)), np.array([one.own for one in self.problem.atoms])
        halves = here.high > here.low
        if not self.problem.cuts_ranges:
            halves &= here.status == CHANGES
        by_gain = np.where(halves if self.problem.cuts_ranges else here.status == UNDECIDED, gains, -1.0)
        wide = np.where(halves, here.high - here.low, 0)
        choose = (by_gain.max(axis=1) > 0) | (wide.max(axis=1) == 0)
        feature = np.where(choose, by_gain.argmax(axis=1), wide.argmax(axis=1))
        named = cuts[:, 1] >= 0
        feature = np.where(named, cuts[:, 1], feature)
        halves[named, feature[named]] = True
        first, second = here.copy(), here.copy()
        decided = ~halves[rows, feature]
        first.status[rows[decided], feature[decided]] = STAYS
        second.status[rows[decided], feature[decided]] = CHANGES
        halved = np.flatnonzero(~decided)
        places = feature[halved]
        low, high, own = here.low[halved, places], here.high[halved, places], own[places]
        middle = np.where((low < own) & (own < high), own, (low + high) // 2)
        middle = np.where(named[halved], np.clip(cuts[halved, 2], low, high - 1), middle)
        first.high[halved, places], second.low[halved, places] = middle, middle + 1
        for part in (first, second):  # without the row's own atom the feature changes
            moved = (part.low[halved, places] > own) | (part.high[halved, places] < own)
            part.status[halved[moved], places[moved]] = CHANGES
        return join_frontiers([first, second])

    def _settle_points(
        self, here: ChangeFrontier, gains: Float64Array, cuts: IntpArray
    ) -> tuple[ChangeFrontier, Float64Array, IntpArray, Int32Array | None]:
        """Ask the models about the pieces that are single points. Where undecided features gain nothing, the point at
        which they stay is asked about too.
        """
        decided, single = here.status != UNDECIDED, here.low == here.high
        ready = np.flatnonzero((single | ~decided).all(axis=1) & ((gains <= 0) | decided).all(axis=1))
        points = np.empty((len(ready), len(self.problem.atoms)), dtype=np.int32)
        gaps = np.zeros(len(ready), dtype=np.bool_)
        for j, atoms in enumerate(self.problem.atoms):
            chosen = np.where(decided[ready, j], here.low[ready, j], atoms.own)
            points[:, j], gaps = atoms.cheapest[chosen], gaps | atoms.is_gap[chosen]
        goes_on = gaps & (cuts[ready, 0] >= 0)  # gaps in which units have either side
        for row in ready[gaps & ~goes_on & decided[ready].all(axis=1)][:MAX_OPEN_PIECES]:
            for j, atoms in enumerate(self.problem.atoms):
                if atoms.is_gap[here.low[row, j]]:
                    self.open_gaps.add((j, int(here.low[row, j])))
        # of a gap its end that costs less is asked about: that is no proof, but a cheaper one if the model desires it
        known = np.flatnonzero(self.problem.admits(points)) if len(points) else np.arange(0)
        found = known[self.problem.decide(points[known])] if len(known) else known
        if len(found):
            return here, gains, cuts, points[found[0]]
        over = np.ones(len(here), dtype=np.bool_)
        over[ready[decided[ready].all(axis=1) & ~goes_on]] = False
        return here.select(over), gains[over], cuts[over], None


def _choose_gaps(atoms: FeatureAtoms, counts: Float64Array) -> Iterator[tuple[int, int]]:
    """For every code with a count the gap beside it that costs less, by the code before it, and the count."""
    gap_costs = np.full(len(counts) + 1, np.inf)
    gap_costs[atoms.begins[atoms.is_gap]] = atoms.costs[atoms.is_gap]
    for code in np.flatnonzero(counts).tolist():
        behind = gap_costs[code] <= gap_costs[code - 1]  # the last entry stands for a gap before the first code
        if np.isfinite(gap_costs[code if behind else code - 1]):
            yield code if behind else code - 1, int(min(counts[code], MOST_PARTS))

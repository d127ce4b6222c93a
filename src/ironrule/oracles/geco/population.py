"""GeCo's population: what may change, how candidates are varied, and which survive.

* Feasible changes: for every feature, or group of features that constraints tie, the values it may change to, weighted
  by how often the history has them, so that common values are tried first. All values lie in one flat table with one
  rising column of weights, so that drawing for many units at once is one binary search.
* Operators: mutation, crossover, selective mutation, and the repair of broken constraints.
* Selection: from many counterfactuals to a few good ones, without useless changes and different from each other.
* The population itself asks the model about every candidate once, and keeps the fittest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, IntpArray, Points, UInt64Array
from ironrule.hitting.reduce import find_minimal_sets
from ironrule.oracles.geco.candidates import (
    NO_FEATURE,
    Deltas,
    InstanceDistance,
    ZobristHash,
    build_deltas,
    join_deltas,
    override_changes,
    pad_columns,
)
from ironrule.oracles.protocol import Case, Run
from ironrule.rule.box import Box
from ironrule.rule.kernels import compute_duals
from ironrule.space.constraints.binding import Predicate


@dataclass(frozen=True, slots=True, eq=False)
class FeasibleChanges:
    """Units (features that change together) and the code combinations that each may take in a box."""

    columns: Points  # one row per unit: its features, padded with -1
    combinations: Points  # all units' combinations, one after the other
    starts: Int64Array
    cumulative: Float64Array

    @property
    def count(self) -> int:
        """How many units may change at all."""
        return len(self.columns)

    def draw(self, rng: np.random.Generator, units: Int64Array) -> Deltas:
        """For every named unit a change drawn by weight."""
        # The weights of unit u lie between below and above in the running sum. A uniform number in between, found by
        # binary search, picks a combination by weight; clipping keeps rounding from picking one of a neighbouring
        # unit.
        below = np.where(self.starts[units] > 0, self.cumulative[self.starts[units] - 1], 0.0)
        above = self.cumulative[self.starts[units + 1] - 1]
        places = np.searchsorted(self.cumulative, below + rng.random(len(units)) * (above - below), side="right")
        places = np.clip(places, self.starts[units], self.starts[units + 1] - 1)
        return Deltas(self.columns[units], self.combinations[places])

    def list_single_changes(self, rng: np.random.Generator, most: int) -> Deltas:
        """Single changes: all values of a unit that has at most ``most``, that many drawn ones otherwise."""
        sizes = np.diff(self.starts)
        # `short`: the units with few values, all of which are listed. `whole`: the places of these values in the flat
        # table.
        short = np.flatnonzero(sizes <= most)
        whole = np.flatnonzero(np.repeat(sizes <= most, sizes))
        drawn = self.draw(rng, np.repeat(np.flatnonzero(sizes > most), most))
        features = np.concatenate([np.repeat(self.columns[short], sizes[short], axis=0), drawn.features])
        return Deltas(features, np.concatenate([self.combinations[whole], drawn.codes]))


def find_feasible_changes(case: Case, box: Box) -> FeasibleChanges:
    """What may change in a box: one unit per group of tied features with listed combinations, one per other feature."""
    units = [(group.columns, group.combinations) for group in case.feasible.groups if group.combinations is not None]
    grouped = {j for columns, _ in units for j in columns}
    # Features that no group of tied features has become units of their own, with every code of the box.
    for j in np.flatnonzero(box.high > box.low).tolist():
        if j not in grouped:
            units.append(((j,), np.arange(box.low[j], box.high[j] + 1, dtype=np.int32)[:, None]))
    fitting = ((columns, _keep_changes_in_box(case, box, columns, rows)) for columns, rows in units)
    kept = [(columns, rows) for columns, rows in fitting if len(rows)]
    width = max((len(columns) for columns, _ in kept), default=1)
    weights = [_weigh_by_frequency(case, columns, rows) for columns, rows in kept]
    return FeasibleChanges(
        _stack_padded([np.array([columns], dtype=np.int32) for columns, _ in kept], width, NO_FEATURE),
        _stack_padded([rows for _, rows in kept], width, 0),
        np.concatenate([[0], np.cumsum([len(rows) for _, rows in kept], dtype=np.int64)]).astype(np.int64),
        np.cumsum(np.concatenate([np.zeros(0), *weights])),
    )


def _stack_padded(parts: list[Points], width: int, filler: int) -> Points:
    return np.concatenate([np.empty((0, width), dtype=np.int32), *(pad_columns(part, width, filler) for part in parts)])


def _keep_changes_in_box(case: Case, box: Box, columns: tuple[int, ...], rows: Points) -> Points:
    """The combinations that lie in the box and change something."""
    places = list(columns)
    inside = ((rows >= box.low[places]) & (rows <= box.high[places])).all(axis=1)
    fitting: Points = rows[inside & (rows != case.instance[places]).any(axis=1)]
    return fitting


def _weigh_by_frequency(case: Case, columns: tuple[int, ...], rows: Points) -> Float64Array:
    """Relative frequencies in the history, as if the tied features were independent, scaled to sum to one."""
    weights = np.ones(len(rows))
    # A product of frequencies; one is added to each count, so that values never seen can still be drawn.
    for place, column in enumerate(columns):
        seen = case.history.frequencies[column]
        weights *= (seen[rows[:, place]] + 1.0) / (seen.sum() + len(seen))
    return np.asarray(weights / weights.sum())


MAX_TRIED_VALUES = 64
MAX_CONSTRAINT_ROUNDS = 4


def mutate(rng: np.random.Generator, parents: Deltas, changes: FeasibleChanges, each: int, instance: Points) -> Deltas:
    """``each`` children per parent: one more unit is changed, to a value drawn by its frequency."""
    chosen = np.repeat(np.arange(len(parents)), each)
    units = rng.integers(0, changes.count, size=len(chosen))
    return override_changes(parents[chosen], changes.draw(rng, units), instance)


def crossover(rng: np.random.Generator, parents: Deltas, count: int, instance: Points) -> Deltas:
    """Children of random pairs: the changes of both, the better parent's value where they disagree."""
    # Members are ordered from best to worst, so after sorting the first of a pair is the better parent.
    pairs = np.sort(rng.integers(0, len(parents), size=(count, 2)), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return override_changes(parents[pairs[:, 1]], parents[pairs[:, 0]], instance)


def mutate_selectively(found: Deltas, ordered: BoolArray, instance: Points) -> Deltas:
    """Counterfactuals closer to the instance: each change undone, and each ordered change halved."""
    # One child for every change of every candidate: this change undone, and, for ordered features, halved towards the
    # instance (in codes).
    rows, slots = np.nonzero(found.features != NO_FEATURE)
    features = found.features[rows, slots]
    original = instance[features]
    halved = original + (found.codes[rows, slots] - original) // 2
    moves = ordered[features] & (halved != original)
    undone = Deltas(features[:, None], original[:, None])
    nearer = Deltas(features[moves][:, None], halved[moves][:, None])
    parents = found[np.concatenate([rows, rows[moves]])]
    changes = Deltas(np.concatenate([undone.features, nearer.features]), np.concatenate([undone.codes, nearer.codes]))
    return override_changes(parents, changes, instance)


def enforce_constraints(rng: np.random.Generator, case: Case, box: Box, candidates: Deltas) -> Deltas:
    """Candidates that keep every constraint: a broken one is mended by changing a feature of its consequence."""
    if not case.feasible.predicates or len(candidates) == 0:
        return candidates
    points = candidates.expand(case.instance)
    # Mending one constraint may break another, so a few rounds are made; what is still broken then is dropped.
    for _ in range(MAX_CONSTRAINT_ROUNDS):
        if case.feasible.admits(points).all():
            break
        # The broken points are dealt at random to the features of the consequence: each point has one feature
        # changed.
        for predicate in case.feasible.predicates:
            broken = np.flatnonzero(~predicate(points, case.feasible.instance))
            places = predicate.consequence_columns or predicate.columns
            lots = rng.integers(0, max(1, len(places)), size=len(broken))
            for lot, column in enumerate(places):
                _satisfy_constraint(rng, case, box, predicate, points=points, broken=broken[lots == lot], column=column)
    return build_deltas(points[case.feasible.admits(points)], case.instance)


def _satisfy_constraint(
    rng: np.random.Generator, case: Case, box: Box, predicate: Predicate, points: Points, broken: IntpArray, column: int
) -> None:
    """Give one feature, in every broken point, a value that satisfies the constraint where there is such a value."""
    codes = np.arange(box.low[column], box.high[column] + 1, dtype=np.int32)
    if len(codes) > MAX_TRIED_VALUES:
        codes = rng.choice(codes, MAX_TRIED_VALUES, replace=False)
    # All codes (or a random choice of them) are tried in each broken point; one that satisfies the constraint is
    # taken at random.
    trials = np.repeat(points[broken], len(codes), axis=0)
    trials[:, column] = np.tile(codes, len(broken))
    holds = predicate(trials, case.feasible.instance).reshape(len(broken), len(codes))
    chosen = np.argmax(holds * rng.random(holds.shape), axis=1)
    mendable = holds.any(axis=1)
    points[broken[mendable], column] = codes[chosen[mendable]]


FlagDesired = Callable[[Deltas], BoolArray]


def undo_useless_changes(case: Case, found: Deltas, distance: InstanceDistance, ask: FlagDesired) -> Deltas:
    """Undo changes, one at a time and the largest first, as long as the point stays desired and can occur."""
    alive = np.ones(len(found), dtype=np.bool_)
    # Greedy: each round tries to undo every single change of every candidate in one call of the model, and then
    # undoes the largest possible one per candidate. `alive` are the candidates that lost a change in the last round;
    # each has finitely many, so the loop ends.
    while alive.any():
        rows, slots = np.nonzero((found.features != NO_FEATURE) & alive[:, None])
        features = found.features[rows, slots]
        undone_each = Deltas(features[:, None], case.instance[features][:, None])
        trials = override_changes(found[rows], undone_each, case.instance)
        good = case.feasible.admits(trials.expand(case.instance))
        good[good] = ask(trials[good])
        gains = np.full(found.features.shape, -np.inf)
        gains[rows[good], slots[good]] = distance.measure_codes(features, found.codes[rows, slots])[good]
        alive &= gains.max(axis=1) > -np.inf
        best = gains[alive].argmax(axis=1)
        undone = found.features[alive, best]
        # Finished candidates get padding, which changes nothing.
        changes = np.full((len(found), 1), NO_FEATURE, dtype=np.int32)
        changes[alive, 0] = undone
        found = override_changes(found, Deltas(changes, case.instance[changes]), case.instance)
    return found


def keep_nearest_per_dual(case: Case, found: Deltas, distance: InstanceDistance) -> Deltas:
    """The nearest counterfactual of every distinct dual, nearest first."""
    order = np.argsort(distance(found), kind="stable")
    duals = compute_duals(found[order].expand(case.instance), case.components.low, case.components.high)
    _, first = np.unique(duals, axis=0, return_index=True)
    return found[order[np.sort(first)]]


def select_diverse(case: Case, found: Deltas, distance: InstanceDistance, k: int) -> Deltas:
    """Up to k of those whose dual contains no other's, nearest first, preferring features not yet changed."""
    found = keep_nearest_per_dual(case, found, distance)
    duals = compute_duals(found.expand(case.instance), case.components.low, case.components.high)
    # A dual that contains another one demands less of a rule, so only minimal duals are of use to the search.
    strong = {row.tobytes() for row in find_minimal_sets(duals)}
    found = found[np.array([row.tobytes() in strong for row in duals], dtype=np.bool_)]
    return found[_pick_spread_out(found.expand(case.instance) != case.instance, distance(found), k)]


def _pick_spread_out(changed: BoolArray, cost: Float64Array, k: int) -> IntpArray:
    chosen: list[int] = []
    times = np.zeros(changed.shape[1])
    penalty = np.zeros(len(cost))
    # Greedy: the cheapest one next, where cost is the distance plus how often, on average, the features that a
    # candidate changes were changed by those already chosen.
    for _ in range(min(k, len(cost))):
        pick = int(np.argmin(cost + penalty + np.where(np.isin(np.arange(len(cost)), chosen), np.inf, 0.0)))
        chosen.append(pick)
        times += changed[pick]
        penalty = (changed * times).sum(axis=1) / np.maximum(changed.sum(axis=1), 1)
    return np.array(sorted(chosen, key=lambda place: (cost[place], place)), dtype=np.intp)


def fill_up(case: Case, chosen: Deltas, spare: Deltas, k: int) -> Deltas:
    """The chosen ones and, up to k, spare ones that are farthest from all chosen so far."""
    points = np.concatenate([chosen.expand(case.instance), spare.expand(case.instance)])
    scaled = points / np.maximum(case.space.sizes - 1, 1)
    picked = list(range(len(chosen)))
    # Farthest-first (Gonzalez 1985): the point whose nearest picked point is farthest comes next; 0 means only copies
    # are left.
    while len(picked) < k:
        gaps = np.abs(scaled[:, None, :] - scaled[picked][None, :, :]).sum(axis=2).min(axis=1)
        if gaps.max() == 0.0:
            break
        picked.append(int(gaps.argmax()))
    return build_deltas(points[picked], case.instance)


MAX_SELECTIVE_MUTATIONS = 24
MAX_ARCHIVED = 500


def _build_empty_deltas() -> Deltas:
    return Deltas(np.empty((0, 1), dtype=np.int32), np.empty((0, 1), dtype=np.int32))


@dataclass(slots=True, eq=False)
class CandidatePopulation:
    """The candidates of one query. The model is asked about each candidate once, whatever generation makes it again.

    ``seen`` holds the hashes of those it was asked about, sorted, and ``answers`` what it said of each; the instance
    itself, whose hash is 0, counts as asked. ``archive`` keeps the nearest counterfactual of every dual met, also
    when it is no longer a member, so that near variants of one change do not crowd out a different one.
    """

    case: Case
    box: Box
    changes: FeasibleChanges
    distance: InstanceDistance
    hashing: ZobristHash
    run: Run
    limit: int
    members: Deltas = field(default_factory=_build_empty_deltas)
    desired: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    seen: UInt64Array = field(default_factory=lambda: np.zeros(1, dtype=np.uint64))
    answers: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=np.bool_))
    archive: Deltas = field(default_factory=_build_empty_deltas)
    tried: int = 0

    @property
    def has_counterfactual(self) -> bool:
        """Whether some member is a counterfactual."""
        return bool(self.desired.any())

    def admit(self, newcomers: Deltas) -> None:
        """Ask the model about the newcomers not seen before, as many as the budget allows; keep the fittest of all."""
        candidates = enforce_constraints(self.run.rng, self.case, self.box, newcomers)
        hashes = self.hashing(candidates)
        # At least one, so that asking the model raises BudgetExhausted when nothing is left of the budget.
        fresh = self._find_unseen(hashes)[: max(1, self.run.meter.evaluations_left)]
        if len(fresh) == 0:
            return
        desired = self._ask(candidates[fresh], hashes[fresh])
        if desired.any():
            found = join_deltas([self.archive, candidates[fresh][desired]])
            self.archive = keep_nearest_per_dual(self.case, found, self.distance)[slice(0, MAX_ARCHIVED)]
        members = join_deltas([self.members, candidates[fresh]])
        flags = np.concatenate([self.desired, desired])
        # Counterfactuals first, then by distance from the instance (the last key of lexsort counts first).
        # The limit holds for candidates; counterfactuals may be twice as many, for diversity.
        capacity = max(self.limit, min(int(flags.sum()), 2 * self.limit))
        order = np.lexsort((self.distance(members), ~flags))[:capacity]
        self.members, self.desired = members[order], flags[order]

    def flag_desired(self, candidates: Deltas) -> BoolArray:
        """Which candidates are desired; the model is asked about those not seen before, and none becomes a member."""
        hashes = self.hashing(candidates)
        fresh = self._find_unseen(hashes)
        if len(fresh):
            self._ask(candidates[fresh], hashes[fresh])
        return np.asarray(self.answers[np.searchsorted(self.seen, hashes)])

    def _find_unseen(self, hashes: UInt64Array) -> IntpArray:
        """The places of the hashes that are new, and that no earlier one equals."""
        # `seen` is sorted and begins with 0, so every hash has a place at or before it.
        distinct, first = np.unique(hashes, return_index=True)
        places = np.searchsorted(self.seen, distinct, side="right") - 1
        return np.sort(first[self.seen[places] != distinct])

    def _ask(self, fresh: Deltas, hashes: UInt64Array) -> BoolArray:
        desired = self.run.meter.desired(self.case.model, fresh.expand(self.case.instance))
        self.tried += len(fresh)
        # Insert the new hashes, and the answers beside them, where they keep `seen` sorted.
        order = np.argsort(hashes)
        places = np.searchsorted(self.seen, hashes[order])
        self.seen = np.insert(self.seen, places, hashes[order])
        self.answers = np.insert(self.answers, places, desired[order])
        return desired

    def restart(self) -> None:
        """Begin anew; what the model was asked stays remembered."""
        self.members, self.desired = _build_empty_deltas(), np.zeros(0, dtype=np.bool_)

    def make_children(self, mutations: int, crossovers: int) -> Deltas:
        """Mutations of every member, and crossings of pairs."""
        if len(self.members) == 0:
            return self.changes.list_single_changes(self.run.rng, self.limit)
        instance = self.case.instance
        mutated = mutate(self.run.rng, self.members, self.changes, mutations, instance)
        return join_deltas([mutated, crossover(self.run.rng, self.members, crossovers, instance)])

    def make_nearer(self) -> Deltas:
        """Selective mutations of the best counterfactuals."""
        ordered = np.array([feature.ordered for feature in self.case.space.features])
        return mutate_selectively(self.counterfactuals()[:MAX_SELECTIVE_MUTATIONS], ordered, self.case.instance)

    def counterfactuals(self) -> Deltas:
        """The counterfactuals, nearest first."""
        return self.members[self.desired]

    def hash_best(self, k: int) -> UInt64Array:
        """The best k counterfactuals, as hashes."""
        return self.hashing(self.counterfactuals()[slice(0, k)])

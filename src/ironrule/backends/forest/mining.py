"""Mine counterfactuals of a forest before anything is proven.

The rounds of an implicit hitting set search are all alike: a rule that hits the duals known so far, a counterfactual
in its box, the dual of that one. As long as counterfactuals are easily found, nothing in between needs Python, so the
rounds run as one compiled loop. A search in a single box is one round with the box given, so that the ascent is
compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int32Array, Int64Array, Points, UInt64Array
from ironrule.backends.forest.ascent import climb_to_counterfactual, pull_back, trace_trees
from ironrule.backends.forest.branch_and_bound import FOUND, PROVEN, UNSURE, search_boxes, start_search
from ironrule.backends.forest.compile import CompiledForest
from ironrule.backends.forest.workspace import LOG_END, ForestWorkspace
from ironrule.backends.nearest import fill_nearest_codes
from ironrule.hitting.bits import list_members
from ironrule.hitting.minimum import (
    LCG_INCREMENT,
    LCG_MULTIPLIER,
    allocate_repair_workspace,
    choose_greedily,
    fill_incidence,
    repair_in_place,
)
from ironrule.hitting.reduce import count_bits
from ironrule.jit import ONE, kernel, kernel_helper
from ironrule.model.normal_form.cells import Cells
from ironrule.oracles.protocol import BoxQuery, Case, MiningRequest, MiningResult
from ironrule.verdict.certificate import NO_SPLIT, Cover, CoverSplit, find_code_ranges

NO_INTEGERS, NO_FLOATS, NO_WORDS = np.empty(0, np.int64), np.empty(0), np.empty((0, 1), np.uint64)
RANDOM_STEP = 2.0**-53  # the last of the bits that a random number between 0 and 1 has
# How `mine_rounds` ends; its docstring explains each.
MORE_ROUNDS, NO_RULE, ENDED, RULE_HOLDS, ASK_MODEL = 0, 1, 2, 3, 4
RANDOM_STATE, BOXES_SEEN = 0, 1  # what the two numbers of a mining workspace's state are
BOX_GIVEN = -1.0  # instead of a weight
TIE_BREAK = 1e-9  # weights differ by less in a random choice among equals


@dataclass(frozen=True, slots=True, eq=False)
class SearchLog:
    """The log of a finished search: its boxes in preorder. An entry is ``NO_SPLIT`` for a closed box, and
    2 * cell + upper for a split after that cell (:func:`_decode_split`).
    """

    cells: Cells
    entries: Int64Array

    @property
    def pieces(self) -> int:
        """How many boxes were closed."""
        # A binary tree with m splits has m + 1 leaves, so 2m + 1 entries.
        return len(self.entries) // 2 + 1

    def cover(self) -> Cover:
        """The cover that this is."""
        # Many boxes are split at the same place: each distinct split is listed once, and the tree holds its number.
        split = self.entries != NO_SPLIT
        distinct, places = np.unique(self.entries[split], return_inverse=True)
        tree = np.full(len(self.entries), NO_SPLIT, dtype=np.int64)
        tree[split] = places.ravel()
        return Cover(tuple(_decode_split(self.cells, entry) for entry in distinct.tolist()), tuple(tree.tolist()))


def _decode_split(cells: Cells, entry: int) -> CoverSplit:
    """A feature, and the codes of the part that was looked at first."""
    # Cells of all features are numbered in one sequence. The lower part has the cells up to this one; `upper` says
    # that the search looked at the part above first.
    cell, upper = divmod(entry, 2)
    feature = int(np.searchsorted(cells.cell_starts, cell, side="right")) - 1
    start, end = cells.code_starts[feature], cells.code_starts[feature + 1]
    low = cells.cell_by_code[start:end] <= cell - cells.cell_starts[feature]
    return feature, find_code_ranges(~low if upper else low)


class MiningWorkspace(NamedTuple):
    """The arrays of mining. Elements are the permitted components, numbered without gaps; none where a box is given."""

    instance: Int32Array
    origin: Int64Array  # the instance's cells, or those of the nearest point in a single box
    start: Int64Array  # the cells to climb from
    box_low: Int32Array  # where the rule of the last round holds
    box_high: Int32Array
    order: Int64Array  # the features in a random order
    points: Int32Array  # the counterfactuals
    state: Any  # the state of the random numbers, and how many boxes were looked at
    feature: Int64Array = NO_INTEGERS  # per element, its feature and the codes that it admits
    low: Int64Array = NO_INTEGERS
    high: Int64Array = NO_INTEGERS
    top: Int64Array = NO_INTEGERS  # per feature, the last code
    weights: Float64Array = NO_FLOATS
    costs: Float64Array = NO_FLOATS
    hit: UInt64Array = NO_WORDS  # per element, the duals that it hits
    starts: Int64Array = NO_INTEGERS  # per dual, its elements
    elements: Int64Array = NO_INTEGERS
    repair_arrays: Any = (NO_FLOATS, NO_INTEGERS, NO_FLOATS, NO_INTEGERS)  # what local search works on
    chosen: BoolArray = np.empty(0, np.bool_)  # the rule of the last round
    spare: UInt64Array = np.empty(0, np.uint64)


@kernel_helper
def _next_random(table: MiningWorkspace) -> Any:
    """The next 53 random bits; the upper ones are the best."""
    # A linear congruential generator. Its low bits are weak, so the lowest eleven are dropped and 53 are left.
    table.state[RANDOM_STATE] = table.state[RANDOM_STATE] * LCG_MULTIPLIER + LCG_INCREMENT
    return table.state[RANDOM_STATE] >> np.uint64(11)


@kernel_helper
def _shuffle_features(table: MiningWorkspace) -> None:
    """Put the features into a random order."""
    # The shuffle of Fisher and Yates; only the upper 31 bits are used.
    for place in range(table.order.shape[0] - 1, 0, -1):
        other = np.int64((_next_random(table) >> np.uint64(22)) % np.uint64(place + 1))
        table.order[place], table.order[other] = table.order[other], table.order[place]


@kernel_helper
def _choose_rule(table: MiningWorkspace, duals: int, within: float, steps: int) -> bool:
    """A hitting set of the duals: a quick one, ties at random, or one within a weight, by local search from the last;
    whether one was found.
    """
    # No limit: the greedy heuristic. Costs that differ a little at random break ties differently in every round.
    if within == np.inf:
        for i in range(table.weights.shape[0]):
            table.costs[i] = table.weights[i] * (1.0 + TIE_BREAK * RANDOM_STEP * np.float64(_next_random(table)))
        choose_greedily(table.hit, table.weights, table.costs, table.chosen, table.spare)
        return True
    # A limit: local search from the last rule, as long as the steps last. Not finding a rule proves nothing.
    score, age, priority, count = table.repair_arrays
    for i in range(score.shape[0]):
        score[i], age[i] = 0.0, 0
    for e in range(duals):
        priority[e], count[e] = 1.0, 0
    work = score, age, priority[:duals], count[:duals]
    starts = table.starts[: duals + 1]
    return repair_in_place(
        table.hit, starts, table.elements, table.weights, table.chosen, within, steps, _next_random(table), work
    )


@kernel_helper
def _compute_box(table: MiningWorkspace) -> None:
    """Where the chosen rule holds."""
    # Begin with the whole space, and intersect with the codes that each chosen component admits.
    for j in range(table.top.shape[0]):
        table.box_low[j], table.box_high[j] = 0, table.top[j]
    for i in range(table.weights.shape[0]):
        if table.chosen[i]:
            j = table.feature[i]
            table.box_low[j] = max(table.box_low[j], table.low[i])
            table.box_high[j] = min(table.box_high[j], table.high[i])


@kernel_helper
def _add_dual(table: MiningWorkspace, point: Int32Array, dual: int) -> bool:
    """Note the dual of a counterfactual; whether anything hits it."""
    end = table.starts[dual]
    # The dual of a point has the elements that are false there. Each is written twice: as a bit in `hit` (by element)
    # and in the list `elements` (by dual).
    for i in range(table.weights.shape[0]):
        code = point[table.feature[i]]
        if code < table.low[i] or code > table.high[i]:
            table.hit[i, dual >> 6] |= ONE << np.uint64(dual & 63)
            table.elements[end] = i
            end += 1
    table.starts[dual + 1] = end
    return bool(end > table.starts[dual])


@kernel
def mine_rounds(
    forest: CompiledForest,
    workspace: ForestWorkspace,
    table: MiningWorkspace,
    duals: int,
    found: int,
    rounds: int,
    within: float,
    limits: tuple[int, int, int],
) -> tuple[int, int]:
    """Mine for some rounds; the number of counterfactuals found so far, and how the last round ended.

    MORE_ROUNDS: all rounds are done. NO_RULE: no rule within the weight ``within`` was found. RULE_HOLDS: the last
    rule has no counterfactual, and the workspace's log proves it. ASK_MODEL: the model itself must be asked about the
    workspace's point. ENDED: none was found within the limits, or no rule excludes the last one, or the box was given.
    ``limits`` are sweeps of climbing, steps of local search, and boxes of the search where climbing fails. If
    ``within`` is BOX_GIVEN, the table has the box already.
    """
    sweeps, steps, boxes = limits
    # Implicit hitting set rounds: choose a rule, look for a counterfactual in its box, add its dual.
    for _ in range(rounds):
        if within != BOX_GIVEN:
            if not _choose_rule(table, duals + found, within, steps):
                return found, NO_RULE
            _compute_box(table)
        # This also resets the workspace: domains[0] has the open cells of the box, and the log is empty.
        start_search(forest, table.box_low, table.box_high, workspace)
        for j in range(table.start.shape[0]):
            workspace.point[j] = table.start[j]
        _shuffle_features(table)
        # Climbing is cheap. Where it fails, a short branch and bound looks on, and may prove that there is none.
        if not climb_to_counterfactual(forest, workspace, workspace.domains[0], table.order, sweeps):
            status, seen = search_boxes(forest, workspace, boxes)
            table.state[BOXES_SEEN] += np.uint64(seen)
            if status != FOUND:
                return found, RULE_HOLDS if status == PROVEN else ASK_MODEL if status == UNSURE else ENDED
            # Pulling back needs the trees' values at the point that the search has found.
            trace_trees(forest, workspace)
        # Pull the point towards the instance in a random order of features: small duals, and different ones.
        _shuffle_features(table)
        pull_back(forest, workspace, table.origin, table.order)
        # From cells back to codes: in every cell the code nearest to the instance that lies in the box.
        point = table.points[found]
        fill_nearest_codes(forest.cells, workspace.point, table.instance, table.box_low, table.box_high, point)
        found += 1
        # A dual without elements means that no rule with the permitted components excludes this counterfactual.
        if within == BOX_GIVEN or not _add_dual(table, point, duals + found - 1):
            return found, ENDED
    return found, MORE_ROUNDS


ROUNDS_PER_CALL = 40  # rounds between two looks at the budget
SWEEPS = 3  # over all features, in climbing
MAX_BOXES_PER_ROUND = 600  # looked at where climbing fails
USUAL_TREES = 1_000  # forests with more have shorter portions, and fewer boxes


def mine_counterfactuals(
    forest: CompiledForest,
    workspace: ForestWorkspace,
    case: Case,
    request: MiningRequest,
    rounds: int,
    rng: np.random.Generator,
) -> Iterator[MiningResult]:
    """Run the rounds in portions, and yield the result of each."""
    bits = np.array(list_members(request.allowed), dtype=np.int64)
    table, within = _allocate_mining_workspace(forest, case, request, bits, rounds=rounds, rng=rng), request.max_weight
    found, status, many = 0, MORE_ROUNDS, max(1, len(forest.root) // USUAL_TREES)
    limits = SWEEPS, request.max_steps, MAX_BOXES_PER_ROUND // many
    # A portion per call, so that the caller can look at its budget in between.
    while status == MORE_ROUNDS and found < rounds:
        before, portion, table.state[BOXES_SEEN] = found, min(max(1, ROUNDS_PER_CALL // many), rounds - found), 0
        found, status = mine_rounds(forest, workspace, table, len(request.duals), found, portion, within, limits)
        rule = sum(1 << bit for bit in bits[table.chosen].tolist())
        points, boxes = table.points[before:found], int(table.state[BOXES_SEEN])
        if status == RULE_HOLDS:
            proof = SearchLog(forest.cells, workspace.log[: workspace.counters[LOG_END]].copy())
            yield MiningResult(points, rule, proof, proof.pieces, boxes)
        else:
            yield MiningResult(points, None if status == NO_RULE else rule, boxes=boxes)


def find_by_ascent(
    forest: CompiledForest,
    workspace: ForestWorkspace,
    query: BoxQuery,
    *,
    home: Int64Array,
    start: Int64Array,
    rng: np.random.Generator,
    boxes: int = 0,
) -> tuple[Points | None, int]:
    """A counterfactual in a box uphill from a point, pulled back towards another, both given by cells, or else by a
    search of so many boxes; and how that ended. The search may go on in the workspace.
    """
    table = MiningWorkspace(
        instance=query.case.instance,
        origin=home,
        start=start,
        box_low=query.box.low,
        box_high=query.box.high,
        order=np.arange(len(home)),
        points=np.empty((1, len(home)), dtype=np.int32),
        state=_seed_state(rng),
    )
    found, status = mine_rounds(forest, workspace, table, 0, 0, 1, BOX_GIVEN, (SWEEPS, 0, boxes))
    return table.points[0] if found else None, status


def _allocate_mining_workspace(
    forest: CompiledForest, case: Case, request: MiningRequest, bits: Int64Array, rounds: int, rng: np.random.Generator
) -> MiningWorkspace:
    duals, relevant, features = np.ascontiguousarray(request.duals), case.components, len(case.space)
    # Elements are the permitted components, numbered from 0; `places` maps a component's bit to its element.
    places = np.zeros(64 * duals.shape[1], dtype=np.int64)
    places[bits] = np.arange(len(bits))
    # Room for the known duals and for one more per round, each with all elements at the most.
    most, size = len(duals) + rounds, int(count_bits(duals).sum()) + rounds * len(bits)
    hit = np.zeros((len(bits), -(-most // 64)), dtype=np.uint64)
    starts, elements = np.zeros(most + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    fill_incidence(duals, places, hit, starts, elements)
    chosen = np.array([request.start_rule >> bit & 1 for bit in list_members(request.allowed)], dtype=np.bool_)
    home = forest.cells.locate(case.instance)
    return MiningWorkspace(
        instance=case.instance,
        origin=home,
        start=home,
        feature=bits >> 1,
        low=relevant.low[bits],
        high=relevant.high[bits],
        top=case.space.code_limits.top,
        weights=request.weights[bits],
        costs=np.empty(len(bits)),
        hit=hit,
        starts=starts,
        elements=elements,
        repair_arrays=allocate_repair_workspace(len(bits), most),
        chosen=chosen,
        box_low=np.empty(features, dtype=np.int32),
        box_high=np.empty(features, dtype=np.int32),
        spare=np.empty(hit.shape[1], dtype=np.uint64),
        order=np.arange(features),
        points=np.empty((rounds, features), dtype=np.int32),
        state=_seed_state(rng),
    )


def _seed_state(rng: np.random.Generator) -> UInt64Array:
    return np.array([rng.bit_generator.random_raw(), 0], dtype=np.uint64)

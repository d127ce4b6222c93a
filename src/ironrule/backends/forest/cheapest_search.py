"""Branch and bound for the cheapest change under a cost that is a sum over features, by the bounds of messages.

Of every box, cells that cost too much are closed, messages are passed on (:mod:`.change_messages`), and the point that
the messages favour is tried; then the box is split where the trees' best leaves ask for different cells. Leaves with
which the bound does not reach zero are *dead*: the parts of the box do without them, and when few leaves or cells are
left, the box gets a problem of its own (:mod:`.change_reduction`). The price of cost is raised where the favoured point
costs more than the limit, and lowered where it costs less. Each counterfactual that is found is pulled back towards the
instance and lowers the limit.

A first counterfactual comes from the instance itself, by the moves that bring most for what they cost. It is then
sought again without one of its changes, as long as that makes it cheaper: a low limit is half the proof.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.backends.forest.ascent import compute_least_margin, move_point, profile_feature, trace_trees
from ironrule.backends.forest.branch_and_bound import OUT_OF_BUDGET, PROVEN, UNSURE, build_low_mask, is_denied
from ironrule.backends.forest.change_messages import (
    Messages,
    bound_margin,
    drop_leaves,
    has_cell,
    measure_error,
    pass_messages,
    start_box,
)
from ironrule.backends.forest.change_problem import ChangeProblem
from ironrule.backends.forest.change_search import accept_point, pull_towards_instance
from ironrule.backends.forest.change_tables import (
    ChangeTables,
    close_cells,
    find_cheapest_open,
    is_cheap,
    is_open,
)
from ironrule.backends.forest.compile import CompiledForest, decide_point, evaluate_margin
from ironrule.backends.forest.workspace import ForestWorkspace
from ironrule.jit import kernel, kernel_helper

SWEEPS = 10  # over all features, at most, for one box; and for the first one, from each price
FIRST_SWEEPS = 60
LEAST_PROGRESS = 0.05  # of a bound: with less no further sweep is worth it
PRICE_RISE, PRICE_FALL = 1.3, 0.5  # by which the step of a price changes
LEAST_PRICE_STEP, LARGEST_PRICE_STEP = 0.01, 0.3
FIRST_PRICES = (0.25, 0.5, 0.75)  # of the price at which the instance itself, as it is, would reach the limit
# What a search says beside PROVEN, OUT_OF_BUDGET and UNSURE: a box is small, a point was found, a box may wait.
SMALL, FOUND, LATER = 4, 5, 6
SMALL_SHARE = 0.7  # of a problem's leaves, or cells
MAX_MOVES = 100  # on the way to a first counterfactual


class WaitingBoxes(NamedTuple):
    """The boxes that wait, the last on top."""

    domains: UInt64Array
    dead: UInt64Array  # leaves that no counterfactual of a box reaches
    counters: Int64Array  # the depth of the box on top, and whether the model was asked about its point


@kernel_helper
def _adapt_price(problem: ChangeProblem, tables: ChangeTables, state: Messages, margin: int, limit: float) -> None:
    """Raise the price of a margin if the point that is favoured costs too much; lower it if it does not."""
    cost = 0.0
    for feature in range(state.chosen.shape[0]):
        cost += tables.cell_costs[problem.cells.cell_starts[feature] + state.chosen[feature]]
    sign = 1.0 if cost > limit else -1.0
    # The same way again: faster; back: more slowly.
    step = state.price_steps[margin] * (PRICE_RISE if sign == state.price_signs[margin] else PRICE_FALL)
    step = min(max(step, LEAST_PRICE_STEP), LARGEST_PRICE_STEP)
    state.price_steps[margin], state.price_signs[margin] = step, sign
    price = state.prices[margin] * (1.0 + sign * step)
    if state.least_prices[margin] <= price <= state.largest_prices[margin]:
        state.prices[margin] = price


@kernel_helper
def _find_least_cost(
    problem: ChangeProblem, state: Messages, margin: int, limit: float, bound: float, error: float
) -> float:
    """What no counterfactual costs less than, by the bound of a margin for what costs less than a limit."""
    price = state.prices[margin]
    if price <= 0.0:
        return 0.0
    # With a lower limit, the bound is lower by the price times the difference: where it reaches zero, nothing is left.
    # The second error stands for the rounding of this line.
    return float(limit - (bound + problem.slack[margin] + 2.0 * error) / price)


@kernel
def bound_box(
    problem: ChangeProblem,
    tables: ChangeTables,
    state: Messages,
    domain: UInt64Array,
    dead: UInt64Array,
    limit: float,
    sweeps: int,
    adapts: bool,
) -> tuple[float, float]:
    """The least bound of all margins for what costs less than a limit, minus infinity if no counterfactual does;
    cells that none has are closed, and leaves that none reaches are noted as dead. And what no counterfactual of the
    box costs less than, infinite if none is below the limit.
    """
    least, least_cost = np.inf, 0.0
    if not start_box(problem, tables, state, domain, dead):
        return -np.inf, np.inf
    for margin in range(problem.offset.shape[0]):
        bound = bound_margin(problem, tables, state, margin, limit)
        if bound + measure_error(problem, state, margin, limit) <= -problem.slack[margin]:
            return -np.inf, np.inf
        before = bound
        for sweep in range(sweeps):
            for feature in range(state.chosen.shape[0]):
                bound = pass_messages(problem, tables, state, domain, margin, feature, bound, limit)
                if bound == -np.inf:
                    return -np.inf, np.inf
            bound = bound_margin(problem, tables, state, margin, limit)
            error = measure_error(problem, state, margin, limit)
            if bound + error <= -problem.slack[margin]:
                return -np.inf, np.inf
            drop_leaves(problem, state, dead, margin, bound, error)
            least_cost = max(least_cost, _find_least_cost(problem, state, margin, limit, bound, error))
            least_bound = bound
            if adapts:
                _adapt_price(problem, tables, state, margin, limit)
                bound = bound_margin(problem, tables, state, margin, limit)  # at the new price
            if sweep > 0 and before - least_bound < LEAST_PROGRESS * abs(least_bound):
                break
            before = least_bound
        least = min(least, bound)
    return least, least_cost


@kernel
def close_first_box(forest: CompiledForest, tables: ChangeTables, domain: UInt64Array) -> bool:
    """Close what costs as much as the limit, or is forbidden; whether anything is left."""
    further, _, _ = close_cells(forest, tables, domain)
    return further >= 0


@kernel
def measure_shortfalls(
    forest: CompiledForest, tables: ChangeTables, sums: Float64Array, shortfalls: Float64Array
) -> None:
    """By how much every margin falls short of zero at the instance; 0 where it does not."""
    for margin in range(shortfalls.shape[0]):
        shortfalls[margin] = max(0.0, -evaluate_margin(forest, margin, tables.home, sums)[0])


@kernel_helper
def _weigh_best_leaves(problem: ChangeProblem, state: Messages) -> None:
    """Per cell, the weight of the best leaves' masks whose open cells begin, or end, there."""
    state.begins[:] = 0.0
    state.ends[:] = 0.0
    for tree in range(problem.tree_margin.shape[0]):
        leaf = state.tree_best[tree]
        # A leaf weighs what its tree could lose.
        weight = problem.leaf_values[leaf] - problem.leaf_values[problem.leaf_starts[tree + 1] - 1]
        for place in range(problem.leaf_mask_starts[leaf], problem.leaf_mask_starts[leaf + 1]):
            mask = problem.leaf_masks[place]
            feature = problem.use_feature[problem.mask_use[mask]]
            start, first, last = problem.cells.cell_starts[feature], -1, -1
            for number in range(start, start + state.open_count[feature]):
                if has_cell(problem, mask, state.open_cells[number]):
                    last = state.open_cells[number]
                    first = last if first < 0 else first
            if first >= 0:
                state.begins[start + first] += weight
                state.ends[start + last] += weight


@kernel_helper
def _choose_split(problem: ChangeProblem, state: Messages) -> tuple[int, int]:
    """The feature of the best split and the last cell below it, -1 twice if no feature has two open cells."""
    _weigh_best_leaves(problem, state)
    best_feature, best_cut, best_score = -1, -1, -1.0
    for feature in range(state.chosen.shape[0]):
        start = problem.cells.cell_starts[feature]
        end = start + state.open_count[feature]
        above, below = 0.0, 0.0
        for number in range(start, end):
            above += state.begins[start + state.open_cells[number]]
        # Good splits make both halves lose much: see `choose_split` of branch_and_bound.
        for number in range(start, end - 1):
            cell = state.open_cells[number]
            above -= state.begins[start + cell]
            below += state.ends[start + cell]
            score = min(above, below) + 0.1 * max(above, below)
            if score > best_score:
                best_feature, best_cut, best_score = feature, cell, score
    return best_feature, best_cut


@kernel_helper
def _split_box(problem: ChangeProblem, waiting: WaitingBoxes, depth: int, feature: int, cut: int, lower: bool) -> None:
    """Split the box at a depth: its lower half, or else its upper half, comes on top."""
    domain = waiting.domains[depth]
    for word in range(domain.shape[0]):
        waiting.domains[depth + 1, word] = domain[word]
    for word in range(waiting.dead.shape[1]):
        waiting.dead[depth + 1, word] = waiting.dead[depth, word]
    start = problem.cells.word_starts[feature]
    for word in range(problem.cells.word_starts[feature + 1] - start):
        low, whole = build_low_mask(cut - 64 * word), domain[start + word]
        near = whole & low if lower else whole & ~low
        waiting.domains[depth + 1, start + word] = near
        domain[start + word] = whole & ~near


@kernel_helper
def _is_small(problem: ChangeProblem, state: Messages, least_leaves: int) -> bool:
    """Whether so little is left in the box of a problem with some leaves that a problem of its own is worth it."""
    leaves, cells = 0, 0
    for leaf in range(state.leaf_scores.shape[0]):
        leaves += state.leaf_scores[leaf] > -np.inf
    for feature in range(state.open_count.shape[0]):
        cells += state.open_count[feature]
    all_leaves, all_cells = problem.leaf_values.shape[0], problem.forest_cells.shape[0]
    is_small = leaves < SMALL_SHARE * all_leaves or cells < SMALL_SHARE * all_cells
    return bool(all_leaves >= least_leaves and is_small)


@kernel_helper
def _try_favoured_point(
    forest: CompiledForest,
    forest_tables: ChangeTables,
    workspace: ForestWorkspace,
    problem: ChangeProblem,
    tables: ChangeTables,
    state: Messages,
    domain: UInt64Array,
) -> tuple[bool, bool]:
    """Set the workspace's point to the one that the messages favour; whether it may be a counterfactual below the
    limit, and whether it surely is.
    """
    for feature in range(state.chosen.shape[0]):
        if not is_open(problem, domain, feature, state.chosen[feature]):
            state.chosen[feature] = find_cheapest_open(problem, tables, domain, feature)
        cell = problem.cells.cell_starts[feature] + state.chosen[feature]
        workspace.point[feature] = problem.forest_cells[cell]
    if not is_cheap(forest, forest_tables, workspace.point):
        return False, False
    return decide_point(forest, workspace.point, workspace.sums)


@kernel
def search_cheapest(
    forest: CompiledForest,
    forest_tables: ChangeTables,
    workspace: ForestWorkspace,
    problem: ChangeProblem,
    tables: ChangeTables,
    state: Messages,
    waiting: WaitingBoxes,
    least_leaves: int,
    goal: float,
    boxes: int,
) -> tuple[int, int, float]:
    """Go on with the boxes that wait: PROVEN if nothing costs less than its limit, OUT_OF_BUDGET, FOUND with a
    counterfactual that does, UNSURE with a point that only the model can decide, SMALL if the box on top should have a
    problem of its own, or LATER if it holds nothing that costs less than the goal; the boxes seen; and what nothing in
    the box on top costs less than. After UNSURE, calling again means that it was answered; after FOUND, the limits are
    lower.
    """
    depth, answered, seen = waiting.counters[0], waiting.counters[1] != 0, 0
    waiting.counters[1] = 0
    while depth >= 0:
        waiting.counters[0] = depth
        # The stack is full if the caller sees that depth.
        if seen >= boxes or depth + 1 >= waiting.domains.shape[0]:
            waiting.counters[1] = 1 if answered else 0
            return OUT_OF_BUDGET, seen, 0.0
        seen += 1
        domain, dead = waiting.domains[depth], waiting.dead[depth]
        further, _, limit = close_cells(problem, tables, domain)
        bound, least_cost = -np.inf, np.inf
        if further >= 0:
            bound, least_cost = bound_box(problem, tables, state, domain, dead, limit, SWEEPS, True)
        if bound == -np.inf:
            depth, answered = depth - 1, False
            continue
        possible, sure = _try_favoured_point(forest, forest_tables, workspace, problem, tables, state, domain)
        if sure:
            pull_towards_instance(forest, forest_tables, workspace)
            waiting.counters[1] = 1 if answered else 0
            return FOUND, seen, least_cost  # the same box comes next, which has become smaller
        if least_cost >= goal:
            return LATER, seen, least_cost
        if _is_small(problem, state, least_leaves):
            waiting.counters[1] = 1 if answered else 0
            return SMALL, seen, least_cost
        feature, cut = _choose_split(problem, state)
        # After an answer the box is bounded again, and may favour another point. Its halves ask about that one; if it
        # has no halves, nothing else does.
        if possible and (feature < 0 or not answered) and not is_denied(workspace):
            waiting.counters[1] = 1
            return UNSURE, seen, least_cost
        answered = False
        if feature < 0:
            depth -= 1
            continue
        _split_box(problem, waiting, depth, feature, cut, state.chosen[feature] <= cut)
        depth += 1
    waiting.counters[0] = depth
    return PROVEN, seen, np.inf


@kernel_helper
def _completes_forbidden(tables: ChangeTables, point: Int64Array, feature: int) -> bool:
    """Whether a point changes all features of an earlier counterfactual once a feature changes too."""
    for earlier in range(tables.forbidden.shape[0]):
        stays = False
        for other in range(point.shape[0]):
            own = other != feature and point[other] == tables.home[other]
            stays = stays or (tables.forbidden[earlier, other] and own)
        if not stays:
            return True
    return False


@kernel_helper
def _find_best_move(
    forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace, frozen: BoolArray
) -> tuple[int, int]:
    """The feature and the cell whose move brings most, towards zero, for what it costs; -1 twice if none brings any."""
    chosen, chosen_cell, most = -1, -1, 0.0
    for feature in range(frozen.shape[0]):
        if frozen[feature] or _completes_forbidden(tables, workspace.point, feature):
            continue
        profile_feature(forest, workspace, tables.start_domain, feature)
        start, here = forest.cells.cell_starts[feature], workspace.point[feature]
        before = compute_least_margin(forest, workspace, here)
        for number in range(start, forest.cells.cell_starts[feature + 1]):
            cell = tables.cheapest_cells[number]
            if not is_open(forest, tables.start_domain, feature, cell):
                continue
            after = compute_least_margin(forest, workspace, cell)
            if after <= before + 1e-12:
                continue
            cost = tables.cell_costs[start + cell] - tables.cell_costs[start + here]
            # A move that costs nothing, or saves something, is better than any other.
            worth = (min(after, 1e-9) - before) / max(cost, 1e-9)
            if worth > most:
                chosen, chosen_cell, most = feature, cell, worth
    return chosen, chosen_cell


@kernel
def descend(
    forest: CompiledForest, tables: ChangeTables, workspace: ForestWorkspace, start: Int64Array, frozen: BoolArray
) -> bool:
    """Look for a counterfactual from a point on, without moves of frozen features; whether it is cheaper than the
    limit, which is lowered then.
    """
    for feature in range(start.shape[0]):
        workspace.point[feature] = start[feature]
    trace_trees(forest, workspace)
    for _ in range(MAX_MOVES):
        if decide_point(forest, workspace.point, workspace.sums)[1]:
            pull_towards_instance(forest, tables, workspace)
            pull_towards_instance(forest, tables, workspace)
            if not is_cheap(forest, tables, workspace.point):
                return False
            accept_point(forest, tables, workspace)
            return True
        feature, cell = _find_best_move(forest, tables, workspace, frozen)
        if feature < 0:
            return False
        move_point(forest, workspace, feature, cell)
    return False

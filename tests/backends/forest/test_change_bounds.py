"""The bounds under sums of costs, against every point of a box: prices, limits and boxes change all the time."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points, UInt64Array
from ironrule.backends.forest.change_messages import Messages, allocate_messages
from ironrule.backends.forest.change_problem import ChangeProblem, build_change_problem, number_atoms
from ironrule.backends.forest.change_reduction import merge_cells, reduce_problem
from ironrule.backends.forest.change_tables import ChangeTables, build_change_tables
from ironrule.backends.forest.cheapest import CheapestSearch, prove_cheapest
from ironrule.backends.forest.cheapest_search import bound_box, close_first_box
from ironrule.backends.forest.cheapest_sequence import CheapestSequence
from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum
from ironrule.backends.forest.workspace import allocate_forest_workspace
from ironrule.backends.nearest import ChangeCosts
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSum
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.cost import CostTable
from ironrule.space.feature import Feature
from random_tree_sums import Among, constrained_space, margins
from tiny_cases import case_of, constraints, every_point, run_of

COSTS = [0.0, 0.1, 0.3, 1.0, 1.0, 2.0, 7.5, np.inf]
PRICES = [0.0, 0.03, 0.3, 0.3, 1.0, 3.0, 40.0]
LIMITS = [0.3, 1.1, 2.0, 4.0, 100.0]


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """One alternative of a sum of trees and what changes cost in it."""

    case: Case
    margins: tuple[Margin, ...]
    forest: CompiledForest
    costs: ChangeCosts
    tables: ChangeTables

    def evaluate(self, points: Points) -> Float64Array:
        """All margins by the plain meaning of trees; the first one is minus infinity for what cannot occur."""
        values = np.array([margin.evaluate(points) for margin in self.margins])
        values[0, ~self.case.feasible.admits(points)] = -np.inf
        return values

    def measure(self, points: Points) -> Float64Array:
        return np.asarray(np.sum([cost[points[:, j]] for j, cost in enumerate(self.costs.code_costs)], axis=0))

    def may_be_desired(self, values: Float64Array) -> BoolArray:
        return np.asarray((values > -self.forest.slack[:, None]).all(axis=0))


def build_sum(case: Case, parts: tuple[Margin, ...], cost: CostTable, limit: float) -> Sum:
    sizes = case.space.sizes.tolist()
    columns = TabulatedColumns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    (forest,) = compile_tree_sum(TreeSum((parts,)), columns, case.space)
    query = BoxQuery(case, case.components.box(0), 1, cost=cost)
    costs = ChangeCosts.build(query, forest.cells)
    tables = build_change_tables(forest, costs, query, np.zeros((0, len(sizes)), dtype=np.bool_))
    tables.limit[0] = limit
    return Sum(case, parts, forest, costs, tables)


@st.composite
def sums(draw: st.DrawFn) -> Sum:
    """Trees over a few features, constraints on what can occur, costs of which some are free or infinite, a limit."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    features = tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(sizes))
    space = constrained_space(features, draw(st.lists(constraints(features, of_instance=False), max_size=1)))
    occurring = every_point(space)[space.feasible.admits(every_point(space))]
    instance = occurring[draw(st.integers(0, len(occurring) - 1))]
    case = case_of(space, np.zeros(sizes, dtype=np.bool_), instance, occurring[:1])
    parts = [np.array([draw(st.sampled_from(COSTS)) for _ in range(size)]) for size in sizes]
    for part, own in zip(parts, instance, strict=True):
        part[own] = 0.0
    some = draw(st.lists(margins(sizes, linked=False), min_size=1, max_size=2))
    return build_sum(case, tuple(some), CostTable(tuple(parts)), draw(st.sampled_from(LIMITS)))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What is left of a sum below its limit, and every point of it."""

    whole: Sum
    problem: ChangeProblem
    tables: ChangeTables
    cells: Int64Array  # of the problem, a row per point
    values: Float64Array  # per margin and point
    costs: Float64Array

    @property
    def limit(self) -> float:
        return float(self.tables.limit[0])

    def contains(self, domain: UInt64Array) -> BoolArray:
        """Which points a domain has."""
        words = self.problem.cells.word_starts[:-1] + (self.cells >> 6)
        return np.asarray(((domain[words] >> (self.cells & 63).astype(np.uint64)) & np.uint64(1)).all(axis=1))

    def build_domain(self, chosen: list[Any]) -> UInt64Array:
        """The domain of some cells per feature."""
        domain = np.zeros_like(self.tables.start_domain)
        for j, cells in enumerate(chosen):
            for cell in cells:
                domain[self.problem.cells.word_starts[j] + (cell >> 6)] |= np.uint64(1) << np.uint64(cell & 63)
        return domain

    def list_forest_cells(self) -> Int64Array:
        """The cells of the forest that every point stands for."""
        return np.asarray(self.problem.forest_cells[self.problem.cells.cell_starts[:-1] + self.cells])

    def meets_dead_leaf(self, dead: UInt64Array) -> BoolArray:
        """Which points reach a leaf that is dead: one of which every mask has their cell."""
        problem, reaches = self.problem, np.zeros(len(self.cells), dtype=np.bool_)
        for leaf in range(len(problem.leaf_values)):
            if not (int(dead[leaf >> 6]) >> (leaf & 63)) & 1:
                continue
            inside = np.ones(len(self.cells), dtype=np.bool_)
            for mask in problem.leaf_masks[problem.leaf_mask_starts[leaf] : problem.leaf_mask_starts[leaf + 1]]:
                cell = self.cells[:, problem.use_feature[problem.mask_use[mask]]]
                words = problem.mask_words[problem.mask_starts[mask] + (cell >> 6)]
                inside &= ((words >> (cell & 63).astype(np.uint64)) & np.uint64(1)) != 0
            reaches |= inside
        return reaches

    def weigh(self, prices: Float64Array) -> Float64Array:
        """Per margin and point, the value and the price of what it costs less than the limit."""
        return np.asarray(self.values + prices[:, None] * (self.tables.limit[0] - self.costs))


def build_problem(whole: Sum, merges: bool) -> Problem | None:
    domain = whole.tables.start_domain.copy()
    if not close_first_box(whole.forest, whole.tables, domain):
        return None
    built = build_change_problem(whole.forest, whole.tables, domain, merges)
    if built is None:
        return None
    return list_points(whole, *built)


def list_points(whole: Sum, problem: ChangeProblem, tables: ChangeTables) -> Problem:
    """A problem with all its points."""
    cells = np.indices(tuple(np.diff(problem.cells.cell_starts).tolist())).reshape(len(tables.home), -1).T
    points = [
        whole.costs.find_cheapest_point(problem.forest_cells[problem.cells.cell_starts[:-1] + row]) for row in cells
    ]
    codes = np.array(points)
    return Problem(whole, problem, tables, cells, whole.evaluate(codes), whole.measure(codes))


@settings(max_examples=100)
@given(sums(), st.booleans())
def test_what_is_left_stands_for_every_cheap_point(whole: Sum, merges: bool) -> None:
    """With the same margins, at no higher cost, and without a change that the point itself does not make."""
    points, left = every_point(whole.case.space), build_problem(whole, merges)
    values, costs = whole.evaluate(points), whole.measure(points)
    occurs = (values > -np.inf).all(axis=0) & (costs < whole.tables.limit[0])
    if left is None:
        assert not occurs.any()
        return
    starts = left.problem.cells.cell_starts[:-1]
    assert left.tables.cell_costs[starts + left.cells].sum(axis=1) == pytest.approx(left.costs)
    stays = left.cells == left.tables.home
    for place in np.flatnonzero(occurs):
        own = whole.forest.cells.locate(points[place]) == whole.tables.home
        stands = np.isclose(left.values, values[:, [place]], rtol=0, atol=1e-9).all(axis=0)
        assert (stands & (left.costs <= costs[place]) & stays[:, own].all(axis=1)).any()


@settings(max_examples=150)
@given(sums(), st.booleans(), st.data())
def test_no_box_is_bounded_too_low(whole: Sum, merges: bool, data: st.DataObject) -> None:
    """Messages go on from box to box, while prices, limits and boxes change as they like."""
    left = build_problem(whole, merges)
    assume(left is not None)
    assert left is not None
    state = allocate_messages(left.problem, np.array([data.draw(st.sampled_from(PRICES)) for _ in whole.margins]))
    random = data.draw(st.randoms(use_true_random=False))
    for _ in range(5):
        if random.random() < 0.4:
            state.prices[:] = [random.choice(PRICES) for _ in whole.margins]
        if random.random() < 0.3:
            left.tables.limit[0] *= random.choice(
                [0.7, 0.95, 1.3]
            )  # a search never raises it; no bound depends on that
        chosen = [[cell for cell in range(count) if random.random() < 0.8] for count in (left.cells.max(axis=0) + 1)]
        bound_and_compare(
            left, state, left.build_domain(chosen), sweeps=random.randint(1, 5), adapts=random.random() < 0.7
        )
    for place in random.sample(range(len(left.cells)), min(5, len(left.cells))):
        assert_exact(left, state, place)


def bound_and_compare(left: Problem, state: Messages, before: UInt64Array, *, sweeps: int, adapts: bool) -> None:
    """Bound a box; compare with all its points."""
    after, dead = before.copy(), no_leaves(left.problem)
    bound, least_cost = bound_box(left.problem, left.tables, state, after, dead, left.limit, sweeps, adapts)
    cheap = left.contains(before) & (left.costs < left.tables.limit[0])
    wanted = cheap & left.whole.may_be_desired(left.values)
    if bound == -np.inf:
        assert not wanted.any()
        return
    assert left.costs[wanted].min(initial=np.inf) >= least_cost
    assert left.contains(after)[wanted].all()
    assert not left.meets_dead_leaf(dead)[wanted].any()
    weighed = left.weigh(state.prices)[:, left.contains(after) & ~left.meets_dead_leaf(dead)]
    if weighed.size:
        assert bound >= weighed.max(axis=1).min() - tolerate(left, state)


def no_leaves(problem: ChangeProblem) -> UInt64Array:
    return np.zeros((len(problem.leaf_values) + 63) // 64, dtype=np.uint64)


def assert_exact(left: Problem, state: Messages, place: int) -> None:
    """Whatever the messages are, of one point alone nothing is lost and nothing is added."""
    domain = left.build_domain([[cell] for cell in left.cells[place]])
    for sweeps in (0, 1):
        dead = no_leaves(left.problem)
        bound, least_cost = bound_box(left.problem, left.tables, state, domain.copy(), dead, left.limit, sweeps, False)
        exact = float(left.weigh(state.prices)[:, place].min())
        if bound == -np.inf:
            assert (left.weigh(state.prices)[:, place] <= tolerate(left, state) - left.whole.forest.slack).any()
        else:
            assert bound == pytest.approx(exact, abs=tolerate(left, state))
            assert least_cost <= left.costs[place] or not left.whole.may_be_desired(left.values)[place]


def tolerate(left: Problem, state: Messages) -> float:
    return float(1e-9 * (1.0 + (state.prices * left.tables.limit[0]).max() + state.size.max()))


@settings(max_examples=150)
@given(sums(), st.booleans(), st.data())
def test_problems_of_boxes_of_boxes_lose_no_counterfactual(whole: Sum, merges: bool, data: st.DataObject) -> None:
    """What is left of a box that was bounded stands for every counterfactual in it; so does what is left of that."""
    left = build_problem(whole, merges)
    assume(left is not None)
    assert left is not None
    state = allocate_messages(left.problem, np.array([data.draw(st.sampled_from(PRICES)) for _ in whole.margins]))
    random = data.draw(st.randoms(use_true_random=False))
    for _ in range(3):
        chosen = [[cell for cell in range(count) if random.random() < 0.85] for count in (left.cells.max(axis=0) + 1)]
        domain, dead = left.build_domain(chosen), no_leaves(left.problem)
        inside = left.contains(domain)
        wanted = inside & (left.costs < left.tables.limit[0]) & whole.may_be_desired(left.values)
        adapts = random.random() < 0.7
        sweeps = random.randint(1, 4)
        bound, _ = bound_box(left.problem, left.tables, state, domain, dead, left.limit, sweeps, adapts)
        reduced = None
        if bound > -np.inf:
            reduced = reduce_problem(left.problem, left.tables, state, domain=domain, dead=dead, merges=merges)
        if reduced is None:
            assert not wanted.any()
            return
        smaller = list_points(whole, *reduced[:2])
        assert_stands_for(smaller, left, wanted)
        assert_allows_as_much_rounding(smaller, reduced[2], left, state)
        state = reduced[2]
        left = smaller
        bound_and_compare_wanted(left, state)


def assert_stands_for(smaller: Problem, left: Problem, wanted: BoolArray) -> None:
    """Every wanted point has one with the same margins, at no higher cost, that changes nothing more."""
    starts = smaller.problem.cells.cell_starts[:-1]
    assert smaller.tables.cell_costs[starts + smaller.cells].sum(axis=1) == pytest.approx(smaller.costs)
    assert smaller.contains(smaller.tables.start_domain).all()
    for j, start in enumerate(starts):
        order = smaller.tables.cheapest_cells[start : start + smaller.problem.cells.cell_starts[j + 1] - start]
        assert sorted(order) == list(range(len(order)))
        assert (np.diff(smaller.tables.cell_costs[start + order]) >= 0).all()
    stays, stays_before = smaller.cells == smaller.tables.home, left.cells == left.tables.home
    for place in np.flatnonzero(wanted):
        stands = np.isclose(smaller.values, left.values[:, [place]], rtol=0, atol=1e-9).all(axis=0)
        stands &= smaller.costs <= left.costs[place]
        assert (stands & stays[:, stays_before[place]].all(axis=1)).any()


def assert_allows_as_much_rounding(smaller: Problem, new: Messages, left: Problem, state: Messages) -> None:
    """What was dropped counts on, and no message is larger than its use's size."""
    assert (smaller.problem.slack == left.problem.slack).all()
    assert (smaller.problem.size >= left.problem.size).all()
    assert smaller.problem.rounding[0] >= left.problem.rounding[0]
    assert (new.size >= state.size).all()
    for use, first in enumerate(smaller.problem.use_cells[:-1]):
        assert new.sizes[use] >= np.abs(new.messages[first : smaller.problem.use_cells[use + 1]]).max()


def bound_and_compare_wanted(left: Problem, state: Messages) -> None:
    """The bound of a whole problem, by the messages that it was given, against its counterfactuals."""
    domain = left.tables.start_domain.copy()
    wanted = (left.costs < left.tables.limit[0]) & left.whole.may_be_desired(left.values)
    bound, _ = bound_box(left.problem, left.tables, state, domain, no_leaves(left.problem), left.limit, 0, False)
    if wanted.any():
        assert bound >= left.weigh(state.prices)[:, wanted].max(axis=1).min() - tolerate(left, state)


def build_stump(feature: int, values: list[float]) -> Tree:
    """A tree over one feature with a leaf for every code."""
    last = len(values) - 1
    splits = [part for code in range(last) for part in (Among(feature, frozenset([code])), None)]
    left = [child for code in range(last) for child in (2 * code + 1, -1)]
    right = [child for code in range(last) for child in (2 * code + 2, -1)]
    leaves = [value for code in range(last) for value in (0.0, values[code])]
    return Tree(
        (*splits, None),
        np.array([*left, -1], np.int32),
        np.array([*right, -1], np.int32),
        np.array([*leaves, values[last]]),
    )


def test_atoms_are_the_cells_in_the_same_masks() -> None:
    """Of two uses with more cells than a word has bits, and with masks of many atoms."""
    rng, cells, masks = np.random.default_rng(0), 100, 8
    inside = rng.random((2 * masks, cells)) < 0.5
    words = np.packbits(np.pad(inside, ((0, 0), (0, 28))), axis=1, bitorder="little").view(np.uint64).ravel()
    starts, atoms, mask_starts, mask_atoms = number_atoms(
        np.array([0, cells, 2 * cells]), np.array([0, masks, 2 * masks]), np.arange(2 * masks + 1) * 2, words
    )
    for use in range(2):
        of_cell, own = atoms[use * cells : (use + 1) * cells], inside[use * masks : (use + 1) * masks]
        assert sorted(set(of_cell)) == list(range(starts[use], starts[use + 1]))
        assert ((of_cell[:, None] == of_cell) == (own.T[:, None] == own.T).all(axis=2)).all()
        for mask in range(masks):
            first, end = mask_starts[use * masks + mask : use * masks + mask + 2]
            assert sorted(mask_atoms[first:end]) == sorted(set(of_cell[own[mask]]))


@pytest.mark.parametrize("dead_code", range(4))
def test_each_mask_of_a_leaf_in_reach_tells_cells_apart(dead_code: int) -> None:
    """The cell of a dead leaf, cheap as it may be, does not stand for that of another leaf."""
    features, origin = (Feature("f0", (0, 1, 2, 3), ordered=True),), np.zeros(1, np.int32)
    case = case_of(constrained_space(features, []), np.zeros(4, bool), origin, origin[None, :])
    tree = build_stump(0, [-1.0, 0.1, 0.2, 0.3])
    cost = CostTable((np.where(np.arange(4) == dead_code, 0.5, [0.0, 1.0, 2.0, 3.0]) * (np.arange(4) > 0),))
    left = build_problem(build_sum(case, (Margin(0.0, (LinkedGroup((tree,)),)),), cost, 100.0), merges=True)
    assert left is not None
    dead, state = no_leaves(left.problem), allocate_messages(left.problem, np.ones(1))
    dead[0] = 1 << int(np.flatnonzero(left.problem.leaf_values == tree.value[tree.left < 0][dead_code])[0])
    wanted = ~left.meets_dead_leaf(dead)
    assert wanted.sum() == 3
    domain = left.tables.start_domain
    reduced = reduce_problem(left.problem, left.tables, state, domain=domain, dead=dead)
    assert reduced is not None
    assert_stands_for(list_points(left.whole, *reduced[:2]), left, wanted)


def build_sum_at_threshold() -> Problem:
    """Trees that add up to exactly zero where both features have their last codes, and to more nowhere."""
    features = tuple(Feature(f"f{j}", (0, 1, 2), ordered=True) for j in range(2))
    origin = np.zeros(2, np.int32)
    case = case_of(constrained_space(features, []), np.zeros((3, 3), bool), origin, origin[None, :])
    trees = (build_stump(0, [-2.0, 0.2, 0.7]), build_stump(1, [-3.0, -0.9, -0.7]))
    cost = CostTable((np.array([0.0, 5.3, 2.7]), np.array([0.0, 4.1, 1.9])))
    left = build_problem(build_sum(case, (Margin(0.0, (LinkedGroup(trees),)),), cost, 100.0), merges=True)
    assert left is not None
    return left


def test_of_cells_that_no_mask_tells_apart_the_cheapest_stays() -> None:
    left = build_sum_at_threshold()
    domain, none = left.build_domain([[1, 2], [1, 2]]), np.zeros(0, dtype=np.int64)
    cells, starts = merge_cells(left.problem, left.tables.cheapest_cells, domain, none, True)
    assert (cells.tolist(), starts.tolist()) == ([2, 5], [0, 1, 2])


def test_a_box_that_costs_as_much_as_the_limit_is_closed() -> None:
    left = build_sum_at_threshold()
    (place,) = np.flatnonzero((left.cells == 2).all(axis=1))
    cost, box = float(left.costs[place]), left.build_domain([[1, 2], [1, 2]])
    for limit, is_open in ((cost, False), (math.nextafter(cost, math.inf), True)):
        left.tables.limit[0] = limit
        assert close_first_box(left.whole.forest, left.whole.tables, box.copy()) == is_open


def test_rounding_closes_nothing() -> None:
    """A point at the threshold that costs next to the limit: what is added up is far larger than what comes out."""
    left = build_sum_at_threshold()
    (place,) = np.flatnonzero((left.cells == 2).all(axis=1))
    assert left.values[0, place] == 0.0 < left.whole.forest.slack[0] < 1e-13
    left.tables.limit[0] = math.nextafter(float(left.costs[place]), math.inf)
    rng, state = np.random.default_rng(0), allocate_messages(left.problem, np.ones(1))
    for price in 10.0 ** rng.uniform(0, 5, 300):
        state.prices[0] = price
        bound_and_compare(left, state, left.build_domain([[1, 2], [1, 2]]), sweeps=2, adapts=False)
        bound_and_compare(left, state, left.build_domain([[2], [2]]), sweeps=1, adapts=False)


def build_random_tree(rng: np.random.Generator, sizes: tuple[int, ...], depth: int) -> Tree:
    """A whole tree: the children of node i are 2 i + 1 and 2 i + 2."""
    inner, nodes = 2**depth - 1, np.arange(2 ** (depth + 1) - 1)
    columns = rng.integers(0, len(sizes), inner).tolist()
    splits = [Among(j, frozenset(range(int(rng.integers(1, sizes[j]))))) for j in columns]
    left = np.where(nodes < inner, 2 * nodes + 1, -1).astype(np.int32)
    right = np.where(nodes < inner, 2 * nodes + 2, -1).astype(np.int32)
    return Tree(
        (*splits, *[None] * (inner + 1)), left, right, np.where(nodes < inner, 0.0, rng.normal(size=len(nodes)))
    )


def build_random_sum(
    seed: int, sizes: tuple[int, ...], trees: int, depth: int, share: float, *, margins: int = 1, error: float = 0.0
) -> tuple[Sum, BoolArray]:
    """A sum of which a share of all points is desired, and which; within the error the model decides as it likes."""
    rng = np.random.default_rng(seed)
    features = tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(sizes))
    points, parts = every_point(constrained_space(features, [])), []
    for _ in range(margins):
        group = LinkedGroup(tuple(build_random_tree(rng, sizes, depth) for _ in range(trees)))
        raw = Margin(0.0, (group,)).evaluate(points)
        parts.append(Margin(-float(np.quantile(raw, 1.0 - share)), (group,), error=error))
    values = np.array([part.evaluate(points) for part in parts])
    # The model's word is a function of the leaves that a point reaches.
    _, alike = np.unique(
        np.array([t.evaluate(points) for p in parts for t in p.groups[0].trees]).T, axis=0, return_inverse=True
    )
    whims = rng.random(len(points))[alike.ravel()] < 0.4
    desired = (values > error).all(axis=0) | ((values > -error).all(axis=0) & whims)
    instance = points[rng.choice(np.flatnonzero(~desired))]
    weights = [rng.choice([0.1, 1.0, 1.3, 2.0, 5.0]) * rng.uniform(0.9, 1.1, size) for size in sizes]
    costs = [np.abs(np.arange(len(w)) - own) * w for w, own in zip(weights, instance, strict=True)]
    case = case_of(constrained_space(features, []), desired.reshape(sizes), instance, points[:1])
    return build_sum(case, tuple(parts), CostTable(tuple(costs)), 1.0), desired


@pytest.mark.parametrize("margins", [1, 2])
def test_bounds_hold_while_their_prices_adapt(margins: int) -> None:
    """From any first price, in as many sweeps as bring progress, below limits next to what the cheapest costs."""
    for seed in range(40):
        whole, desired = build_random_sum(seed, (4, 4, 4, 4), 8, 2, 0.05, margins=margins)
        whole.tables.limit[0] = 1.1 * whole.measure(every_point(whole.case.space))[desired].min(initial=1e3)
        left = build_problem(whole, merges=True)
        assert left is not None
        for price in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
            state = allocate_messages(left.problem, np.full(margins, price))
            bound_and_compare(left, state, left.tables.start_domain, sweeps=20, adapts=True)
            bound_and_compare(left, state, left.tables.start_domain, sweeps=20, adapts=True)


def search_below(whole: Sum, limit: float, least_leaves: int = 0) -> float:
    """What the cheapest counterfactual below a limit costs, infinite if there is none, without a quick answer."""
    workspace = allocate_forest_workspace(whole.forest)
    sequence = CheapestSequence(1, limit, np.zeros((0, len(whole.tables.home)), dtype=np.bool_))
    search = CheapestSearch(whole.forest, sequence.prepare(whole.tables), workspace, least_leaves=least_leaves)
    query = BoxQuery(whole.case, whole.case.components.box(0), 1, cost=CostTable(whole.costs.code_costs))
    prove_cheapest([search], query, whole.costs, sequence, 100_000, run_of())
    assert sequence.proven_below == math.inf
    return min(map(whole.costs.measure_point, sequence.points), default=math.inf)


@pytest.mark.parametrize("shape", [(4, 8, 2, 0.05), (5, 10, 3, 0.05), (5, 20, 3, 0.02)])
@pytest.mark.parametrize(("margins", "error"), [(1, 0.0), (2, 0.0), (1, 0.3), (2, 0.3)])
def test_searches_from_any_limit_find_the_cheapest(
    shape: tuple[int, int, int, float], margins: int, error: float
) -> None:
    """From limits next to the answer, below which proofs hang on prices, to far above."""
    features, trees, depth, share = shape
    for seed in range(25):
        whole, desired = build_random_sum(seed, (4,) * features, trees, depth, share, margins=margins, error=error)
        costs = whole.measure(every_point(whole.case.space))
        least = float(costs[desired].min(initial=math.inf))
        top = least if least < math.inf else float(costs.max())
        for factor in (1.0, 1.0001, 1.1, 1.5, 10.0):
            expected = least if least < factor * top else math.inf
            # Boxes get problems of their own as soon as they are smaller, or never.
            least_leaves = 0 if (seed + int(factor)) % 2 else 10_000
            assert search_below(whole, factor * top, least_leaves) == pytest.approx(expected), (seed, factor)


def test_features_of_many_cells_lose_no_counterfactual() -> None:
    """More cells than a word has bits, and masks of many atoms."""
    for seed, merges in ((0, True), (1, False), (3, False)):
        whole, desired = build_random_sum(seed, (160, 2), 40, 4, 0.05)
        costs = whole.measure(every_point(whole.case.space))
        least = float(costs[desired].min())
        whole.tables.limit[0] = 2.0 * float(costs.max())
        left = build_problem(whole, merges)
        assert left is not None
        state, rng = allocate_messages(left.problem, np.array([0.1 / least])), np.random.default_rng(seed)
        bound_and_compare(left, state, left.tables.start_domain, sweeps=2, adapts=True)
        chosen = [np.flatnonzero(rng.random(count) < 0.9).tolist() for count in left.cells.max(axis=0) + 1]
        domain, dead = left.build_domain(chosen), no_leaves(left.problem)
        assert bound_box(left.problem, left.tables, state, domain, dead, left.limit, 2, True)[0] > -np.inf
        wanted = left.contains(domain) & ~left.meets_dead_leaf(dead)
        assert wanted.any()
        reduced = reduce_problem(left.problem, left.tables, state, domain=domain, dead=dead, merges=merges)
        assert reduced is not None
        smaller = list_points(whole, *reduced[:2])
        assert len(smaller.cells) > 64
        assert_stands_for(smaller, left, wanted)
        bound_and_compare(smaller, reduced[2], smaller.tables.start_domain, sweeps=2, adapts=True)
        known = {tuple(row) for row in left.list_forest_cells()[wanted].tolist()}
        places = [place for place, row in enumerate(smaller.list_forest_cells().tolist()) if tuple(row) in known]
        for place in places[::5]:
            assert_exact(smaller, reduced[2], place)
        assert len(places) > 5
        assert search_below(whole, 10.0 * least) == pytest.approx(least)


APART = build_stump(0, [-2.0, 0.25, 0.5, 0.75])
# Where the second feature stays, only the first code matters; its change, after which all do, is forbidden.
ALIKE = Tree(
    (Among(1, frozenset([0])), Among(0, frozenset([0])), None, None, *APART.splits),
    np.array([1, 2, -1, -1, *np.where(APART.left < 0, -1, APART.left + 4)], np.int32),
    np.array([4, 3, -1, -1, *np.where(APART.right < 0, -1, APART.right + 4)], np.int32),
    np.array([0.0, 0.0, -2.0, 0.0, *APART.value]),
)


@pytest.mark.parametrize("tree", [APART, ALIKE], ids=["apart", "alike"])
@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)))
def test_each_cell_in_doubt_is_asked_about(tree: Tree, wanted: tuple[bool, ...]) -> None:
    """That the model accepts one must not hide a cheaper one that is left alone in its box; that it denies one says
    nothing of others that no leaf in reach tells apart.
    """
    table = np.zeros((4, 2), dtype=np.bool_)
    table[1:, 0] = wanted
    features = tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(table.shape))
    origin = np.zeros(2, np.int32)
    case = case_of(constrained_space(features, []), table, origin, origin[None, :])
    for costs in itertools.permutations([1.0, 3.0, 5.0]):
        cost = CostTable((np.array([0.0, *costs]), np.array([0.0, math.inf])))
        whole = build_sum(case, (Margin(0.0, (LinkedGroup((tree,)),), error=1.0),), cost, 1.0)
        least = min((one for one, is_wanted in zip(costs, wanted, strict=True) if is_wanted), default=math.inf)
        assert search_below(whole, 10.0) == least


def test_where_all_changes_are_free_prices_stay_finite() -> None:
    features = tuple(Feature(f"f{j}", (0, 1), ordered=True) for j in range(2))
    table, origin = np.array([[False, False], [True, True]]), np.zeros(2, np.int32)
    case = case_of(constrained_space(features, []), table, origin, origin[None, :])
    parts = [
        Margin(0.0, (LinkedGroup((build_stump(j, values),)),)) for j, values in enumerate([[-1.0, 1.0], [1.0, 2.0]])
    ]
    whole = build_sum(case, tuple(parts), CostTable((np.zeros(2), np.zeros(2))), 1.0)
    assert search_below(whole, math.nextafter(0.0, math.inf)) == 0.0

"""The cheapest counterfactuals of networks under any cost, against every point, against numbers drawn, and by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.nearest import GapCosts
from ironrule.backends.network.change_places import ChangePlaces, list_change_places
from ironrule.backends.network.cheapest import CheapestNetworkSearch
from ironrule.backends.network.compile import CompiledNetwork, compile_network
from ironrule.backends.network.cost_bounds import bound_parts_on_cores
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case
from ironrule.rule.cost import CostTable
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from network_costs import (
    DrawnCost,
    draw_cost,
    draw_positions,
    know_tables_less,
    list_codes,
    move_positions,
    see_positions,
)
from random_networks import are_desired_numbers, interval_models, network_models
from tiny_cases import case_of, exceptions_in, run_of


def build_search(case: Case, read: TabulatedModel, cost: DrawnCost, limit: int = 4_000) -> CheapestNetworkSearch:
    assert isinstance(read.normal_form, Network)
    nets = compile_network(read.normal_form, read.columns, case.space, case.feasible)
    box = case.components.box(0)
    return CheapestNetworkSearch(nets, case, box, cost.table, cost.gaps, model=case.model, run=run_of(), limit=limit)


@settings(max_examples=150)
@given(network_models(), st.integers(0, 1 << 32))
def test_each_is_the_cheapest_of_all_points(made: tuple[Case, TabulatedModel], seed: int) -> None:
    case, read = made
    cost = draw_cost(case, np.random.default_rng(seed), has_gaps=False)
    search, measure = build_search(case, read, cost, limit=100_000), cost.table.measure_point
    left = [point for point in exceptions_in(case, search.box) if np.isfinite(measure(point))]
    left, earlier = [point for point in left if (point != case.instance).any()], list[frozenset[int]]()
    for _ in range(3):
        found = search.find_next(earlier)
        if not left:
            assert found.point is None
            assert found.bound == np.inf
            break
        assert found.point is not None
        assert any((found.point == other).all() for other in left)
        assert found.cost == measure(found.point) == pytest.approx(min(map(measure, left)), rel=1e-8)
        assert found.bound == pytest.approx(found.cost, rel=1e-8)  # nothing stays open where there are single points
        changed = found.point != case.instance
        earlier.append(frozenset(np.flatnonzero(changed).tolist()))
        left = [other for other in left if not (other != case.instance)[changed].all()]


def find_cheapest_number(
    read: TabulatedModel, cost: DrawnCost, rng: np.random.Generator, earlier: list[frozenset[int]]
) -> float:
    """What the cheapest costs of many numbers that are surely desired."""

    def measure(positions: Any) -> Any:
        good = are_desired_numbers(read, see_positions(read, positions))
        changed = positions != cost.own
        good &= changed.any(axis=1)
        for features in earlier:
            good &= ~changed[:, sorted(features)].all(axis=1)
        return np.where(good, cost.measure(positions), np.inf)

    positions = draw_positions(cost, rng, 1_500)
    costs = measure(positions)
    for _ in range(8):
        best = np.argsort(costs)[:40]
        tried = np.concatenate([positions[best], move_positions(cost, rng, np.repeat(positions[best], 8, axis=0))])
        positions, costs = tried, measure(tried)
    return float(costs.min())


@settings(max_examples=120)
@given(interval_models(), st.integers(0, 1 << 32))
def test_no_number_costs_less_than_the_bound(made: tuple[Case, TabulatedModel], seed: int) -> None:
    case, read = made
    rng = np.random.default_rng(seed)
    cost = know_tables_less(case, read, draw_cost(case, rng, has_gaps=True))
    if are_desired_numbers(read, see_positions(read, case.instance[None, :].astype(float)))[0]:  # it needs no change
        return
    if not all(np.isfinite(part).any() for part in cost.table.parts):  # some feature may not even stay as it is
        return
    search, earlier = build_search(case, read, cost, limit=int(rng.choice([1, 5, 400]))), list[frozenset[int]]()
    for _ in range(2):
        found = search.find_next(earlier)
        assert find_cheapest_number(read, cost, rng, earlier) >= found.bound * (1.0 - 1e-8) - 1e-12
        if found.point is None:
            break
        assert found.cost == cost.table.measure_point(found.point) >= found.bound
        earlier.append(frozenset(np.flatnonzero(found.point != case.instance).tolist()))


@settings(max_examples=120)
@given(interval_models(), st.integers(0, 1 << 32))
def test_edges_are_nowhere_above_what_numbers_cost(made: tuple[Case, TabulatedModel], seed: int) -> None:
    case, read = made
    rng = np.random.default_rng(seed)
    cost = draw_cost(case, rng, has_gaps=True)
    search = build_search(case, read, cost)
    for net in search.nets:
        places = list_change_places(net, case, search.box, cost.table, cost.gaps)
        for j in range(0 if places is None else len(case.space)):
            assert places is not None
            span = range(int(places.starts[j]), int(places.starts[j + 1]) - 1)
            for place in (place for place in span if places.joined[place]):
                first, last = places.codes[place : place + 2].tolist()
                if abs(last - first) != 1 or not cost.gaps.after[j][min(first, last)]:
                    continue  # a missing value lies between them, or one of them is the begin of numbers beside the own
                share = np.linspace(0.01, 0.99, 15)
                positions = np.repeat(case.instance[None, :].astype(float), len(share), axis=0)
                positions[:, j] = first + share * (last - first)
                line = (1.0 - share) * places.edge[place] + share * places.edge[place + 1]
                assert (line <= cost.measure(positions) + 1e-9).all()


def draw_parts(
    net: CompiledNetwork, places: ChangePlaces, sums: Any, rng: np.random.Generator, count: int
) -> tuple[Any, Any, Any, Any, Any]:
    """Random parts: ranges, multipliers, slopes of lines, and sides of units; with sums given, some take their sides.

    With these sums, the ranges are whole.
    """
    sizes, units = np.diff(places.starts), int(net.unit_starts[-1])
    ends = np.sort(rng.integers(0, sizes, (2, count, len(sizes))), axis=0)
    sides = rng.choice([-1, 1], (count, units))
    if len(sums):
        sides[::2] = np.where(sums[rng.integers(0, len(sums), len(sides[::2]))] >= 0.0, 1, -1)
        ends[0, ::2], ends[1, ::2] = 0, sizes - 1
    rectified = np.repeat((net.activations == 1) | (net.activations == 2), net.widths)
    phases = np.where(rectified & (rng.random((count, units)) < 0.5), sides, 0)
    multipliers = phases * rng.exponential(1.0, (count, units)) * (rng.random((count, units)) < 0.7)
    slopes = np.where(rng.random((count, units)) < 0.5, rng.random((count, units)), np.nan)
    return ends[0].astype(np.int64), ends[1].astype(np.int64), phases.astype(np.int64), multipliers, slopes


def compute_sums(network: Network, seen: Any) -> Any:
    """The sums of all units."""
    values, found = seen, list[Any]()
    for layer in network.layers:
        found.append(values @ layer.weights + layer.bias)
        values = layer.activation.apply(found[-1])
    return np.concatenate(found, axis=1)


@settings(max_examples=150)
@given(interval_models(), st.integers(0, 1 << 32))
def test_no_number_of_a_part_costs_less_than_its_bound(made: tuple[Case, TabulatedModel], seed: int) -> None:
    case, read = made
    rng, count = np.random.default_rng(seed), 12
    cost = know_tables_less(case, read, draw_cost(case, rng, has_gaps=True))
    search = build_search(case, read, cost)
    assert isinstance(read.normal_form, Network)
    if len(search.nets) > 1:  # which of them desires a number is not told apart here
        return
    net = search.nets[0]
    places = list_change_places(net, case, search.box, cost.table, cost.gaps)
    if places is None:
        return
    some = see_positions(read, draw_positions(cost, rng, 2_000))
    sums = compute_sums(read.normal_form, some[are_desired_numbers(read, some)])
    nearest = np.argsort(abs(sums).min(axis=1))[:20]  # sums near to zero, where sides meet
    low, high, phases, multipliers, slopes = draw_parts(net, places, sums[nearest], rng, count)
    codes = [list_codes(places, *ends) for ends in zip(low, high, strict=True)]
    largest = [float(part[np.isfinite(part)].max(initial=0.0)) for part in cost.table.parts]
    limit = (1.0 + 2.0 * cost.table.combine_parts(largest)) * float(rng.choice([0.1, 0.4, 1.0]))
    adds_up = cost.table.combine == "sum"
    found = bound_parts_on_cores(
        net,
        places,
        low,
        high,
        phases,
        multipliers=multipliers,
        line_slopes=slopes,
        limit=limit,
        adds_up=adds_up,
        steps=3,
    )
    for row in range(count):
        positions = draw_positions(cost, rng, 1_000, codes[row])
        seen, costs = see_positions(read, positions), cost.measure(positions)
        has_own = (low[row] <= places.own) & (places.own <= high[row])
        good = ((positions != cost.own) | has_own).all(axis=1) & (costs < limit)
        good &= are_desired_numbers(read, seen) & (phases[row] * compute_sums(read.normal_form, seen) >= 0.0).all(
            axis=1
        )
        assert costs[good].min(initial=np.inf) >= min(found.lower[row], limit) * (1.0 - 1e-8) - 1e-12


def test_a_missing_value_does_not_part_numbers() -> None:
    """What stands for it lies between two numbers, but a column of its own tells it from all of them."""
    feature = Feature("x", (0.0, 10.0), ordered=True, missing=True, interval=True)
    # Numbers from 4.5 to 5.5 are desired. A missing value turns all three units off or on, not as any number does.
    first = Layer(np.array([[1.0, 1.0, 1.0], [-200.0, 200.0, -200.0]]), -np.array([4.0, 5.0, 6.0]), Activation("relu"))
    last = Layer(np.array([[1.0], [-2.0], [1.0]]), np.array([-0.5]))
    network = Network((first, last), ((OutputMargin(np.ones(1), 0.0),),))
    columns = TabulatedColumns(np.zeros(2, np.intp), (np.array([0.0, 10.0, 5.0]), np.array([0.0, 0.0, 1.0])))
    instance, nobody = np.zeros(1, dtype=np.int32), np.zeros(3, dtype=np.bool_)
    case = case_of(Space((feature,)), nobody, instance, instance[None, :])
    gaps = GapCosts((np.array([True, False, False]),), ("unknown",), (0.0,))
    table = CostTable((np.array([0.0, 1.0, 2.0]),), "sum")
    box = case.components.box(0)
    for some in (table, replace(table, combine="max")):
        nets = compile_network(network, columns, case.space)
        search = CheapestNetworkSearch(nets, case, box, some, gaps, model=case.model, run=run_of(), limit=1_000)
        assert search.find_next([]).bound <= 0.45


def test_a_part_is_not_given_up_while_no_counterfactual_is_known() -> None:
    values = np.linspace(0.0, 1.0, 17)
    layers = (
        Layer(np.array([[7.7, -12.3], [-6.1, -10.6]]), np.array([1.7, 0.4]), Activation("tanh")),
        Layer(np.array([[-0.3, 2.8], [-1.2, -3.9]]), np.array([0.1, 0.4]), Activation("tanh")),
    )
    network = Network(layers, ((OutputMargin(np.array([-0.6, 3.3]), -3.57),),))  # 0.1 below zero at the best
    features = tuple(Feature(name, tuple(values.tolist()), ordered=True, interval=True) for name in "ab")
    instance, nobody = np.zeros(2, dtype=np.int32), np.zeros((17, 17), dtype=np.bool_)
    case = case_of(Space(features), nobody, instance, instance[None, :])
    nets = compile_network(network, TabulatedColumns(np.arange(2), (values, values)), case.space)
    gaps = GapCosts((np.arange(17) < 16,) * 2, ("straight",) * 2, (0.0, 0.0), 1.0)
    table, box = CostTable((np.where(values > 0.0, 1.0 + values, 0.0),) * 2, "sum"), case.components.box(0)
    found = CheapestNetworkSearch(nets, case, box, table, gaps, model=case.model, run=run_of()).find_next([])
    assert found.point is None
    assert found.bound == np.inf

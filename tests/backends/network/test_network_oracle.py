"""The exact oracle for networks, on tiny random ones against looking at every point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.compile import compile_tree_sum
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.network.bound_propagation import relax_activation
from ironrule.backends.network.box_bounds import bound_on_cores
from ironrule.backends.network.compile import (
    CompiledNetwork,
    activate,
    compile_network,
    compute_margins,
    decide_points,
)
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.backends.network.partition import BoxPartition
from ironrule.backends.network.workspace import STATUS_CLOSED, STATUS_FOUND, find_open_cells
from ironrule.backends.registry import JointOracle
from ironrule.jit import kernel
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, TreeSum
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted
from random_networks import nets_out_of_reach, network_cases
from random_tree_sums import trees
from tiny_cases import case_of, consistent, every_point, exceptions_in, meter_of, problem_of, rules_of, run_of, subsets


@kernel
def compute_lines(kind: int, slope: float, low: float, high: float) -> tuple[float, float, float, float]:
    return relax_activation(kind, slope, low, high)


@kernel
def compute_activation(kind: int, slope: float, z: float) -> float:
    return activate(kind, slope, z)


@settings(deadline=None, max_examples=400)
@given(network_cases(), st.data())
def test_every_box_is_decided_and_rightly(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    k = data.draw(st.integers(1, 4))
    verdict = oracle.find(
        BoxQuery(case, box, k), Run(meter_of(None), np.random.default_rng(data.draw(st.integers(0, 3))))
    )
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    assert not isinstance(verdict, Unrefuted)
    if isinstance(verdict, Proven):
        assert not exceptions
    else:
        assert isinstance(verdict, Refuted)
        found = [point.tobytes() for point in verdict.points]
        assert 1 <= len(found) <= k
        assert len(set(found)) == len(found)
        assert set(found) <= exceptions


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_without_climbing_cutting_alone_decides_every_box(
    made: tuple[Case, NetworkOracle], data: st.DataObject
) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
        few = replace(oracle, batch=data.draw(st.integers(1, 40)))
        answer = few.find_or_prove(BoxQuery(case, box), run_of())
    assert answer is not None
    if isinstance(answer, tuple):
        assert not exceptions
        assert all(parts.cover().pieces == parts.pieces for parts in answer)
    else:
        assert answer.tobytes() in exceptions


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_a_closed_part_holds_no_point_that_may_be_desired(
    made: tuple[Case, NetworkOracle], data: st.DataObject
) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    points = every_point(case.space)
    inside = points[box.contains(points)]
    for net in oracle.nets:
        open_cells = find_open_cells(net, box)
        parts = BoxPartition.build(net.cells, open_cells, box)
        outcome = bound_on_cores(net, open_cells, parts.low[:1], parts.high[:1])
        most, _ = compute_margins(net, net.cells.locate(inside))
        if outcome.status[0] == STATUS_CLOSED:
            assert (most <= 0.0).all()
        if outcome.status[0] == STATUS_FOUND:
            assert compute_margins(net, outcome.points)[1][0] > 0.0


@settings(deadline=None, max_examples=150)
@given(network_cases(), st.integers(0, 3))
def test_the_minimum_rule_is_consistent_and_nothing_shorter_is(made: tuple[Case, NetworkOracle], seed: int) -> None:
    case, oracle = made
    findings = solve(problem_of(case, oracle, k=8, seed=seed), Minimum())
    rule = findings.rules[0]
    shortest = next(one for one in subsets(case.components.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, rule)
    assert rule.bit_count() == shortest.bit_count() == findings.lower_bound


@settings(deadline=None, max_examples=100)
@given(network_cases())
def test_a_net_says_of_every_point_what_its_network_says(made: tuple[Case, NetworkOracle]) -> None:
    case, oracle = made
    points = every_point(case.space)
    points = points[case.feasible.admits(points)]
    desired = case.model.desired(points)
    answers = [decide_points(net, points) for net in oracle.nets]
    assert not (desired & ~np.any([may for may, _ in answers], axis=0)).any()
    assert not (np.any([must for _, must in answers], axis=0) & ~desired).any()


@settings(deadline=None, max_examples=100)
@given(network_cases(), st.data())
def test_the_open_cells_are_those_of_the_codes_in_a_box(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    points = every_point(case.space)
    for net in oracle.nets:
        open_cells, inside = find_open_cells(net, box), net.cells.locate(points[box.contains(points)])
        for j in range(len(case.space)):
            some = slice(*open_cells.starts[j : j + 2])
            cells = np.unique(inside[:, j])
            assert open_cells.cells[some].tolist() == cells.tolist()
            assert open_cells.values[some].tolist() == net.cell_values[net.cells.cell_starts[j] + cells].tolist()


@settings(deadline=None, max_examples=100)
@given(network_cases(), st.data())
def test_the_point_of_an_open_part_lies_in_it(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    for net in oracle.nets:
        open_cells = find_open_cells(net, box)
        parts = BoxPartition.build(net.cells, open_cells, box)
        outcome = bound_on_cores(net, open_cells, parts.low[:1], parts.high[:1])
        if outcome.status[0] != STATUS_CLOSED:
            pairs = zip(outcome.points[0].tolist(), np.split(open_cells.cells, open_cells.starts[1:-1]), strict=True)
            assert all(cell in some for cell, some in pairs)


def sum_above_one(texts: list[str]) -> tuple[Case, NetworkOracle]:
    """Desired where f0 + f1 > 1; no column of the network shows f2."""
    features = tuple(Feature(f"f{j}", (0, 1, 2), ordered=True) for j in range(3))
    space = Space(features, tuple(map(parse_constraint, texts)))
    columns = TabulatedColumns(np.array([0, 1], dtype=np.intp), (np.arange(3.0), np.arange(3.0)))
    network = Network((Layer(np.ones((2, 1)), np.zeros(1)),), ((OutputMargin(np.ones(1), -1.0),),))
    points = every_point(space)
    table = (points[:, 0] + points[:, 1] > 1).reshape(3, 3, 3)
    nothing = np.zeros((1, 3), dtype=np.int32)
    return case_of(space, table, nothing[0], nothing), NetworkOracle(compile_network(network, columns, space), batch=1)


@pytest.mark.parametrize(
    "texts",
    [
        ["cf.f0 == 0 or cf.f0 + cf.f1 <= 2"],  # the highest point cannot occur
        ["if cf.f0 + cf.f1 > 1 then cf.f2 == 1"],  # nor can one with the instance's f2
        ["if cf.f0 == 2 then cf.f2 == 2", "if cf.f1 > 0 then cf.f2 == 1"],
    ],
)
def test_a_point_that_cannot_occur_does_not_hide_one_that_can(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
    case, oracle = sum_above_one(texts)
    verdict = oracle.find(BoxQuery(case, case.components.box(0)), run_of())
    assert isinstance(verdict, Refuted)
    assert {point.tobytes() for point in verdict.points} <= {
        p.tobytes() for p in exceptions_in(case, case.components.box(0))
    }


def test_what_cannot_occur_is_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
    case, oracle = sum_above_one(["cf.f0 + cf.f1 <= 1"])
    verdict = oracle.find(BoxQuery(case, case.components.box(0)), run_of())
    assert isinstance(verdict, Proven)


ENDS = st.one_of(st.floats(-6, 6), st.floats(-1e-3, 1e-3), st.floats(-800, 800), st.sampled_from([-0.0, 0.0, 1e-300]))


@settings(deadline=None, max_examples=1000)
@given(st.integers(0, 4), st.sampled_from([0.0, 0.01, 0.5, 1.0]), ENDS, ENDS)
def test_lines_lie_below_and_above_their_activation(kind: int, slope: float, one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    below, below_at, above, above_at = compute_lines(kind, slope, low, high)
    for z in [*np.linspace(low, high, 41).tolist(), low, high]:
        value = compute_activation(kind, slope, z)
        reserve = 1e-13 * (abs(z) + max(abs(low), abs(high)) + 1.0)
        assert below * z + below_at <= value + reserve
        assert above * z + above_at >= value - reserve


@settings(deadline=None, max_examples=100)
@given(network_cases(), st.data())
def test_a_network_and_a_forest_are_asked_together(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    sizes = tuple(case.space.sizes.tolist())
    tree = data.draw(trees(sizes))
    columns = TabulatedColumns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    tree_sum = TreeSum(((Margin(0.25, (LinkedGroup((tree,)),)),),))
    forests = compile_tree_sum(tree_sum, columns, case.space)
    points = every_point(case.space)
    either = case.model.desired(points) | (tree_sum.margins(points)[0] > 0)
    table = either.reshape(sizes)
    if table[tuple(case.instance)]:
        return
    both = case_of(case.space, table, case.instance, points[case.space.feasible.admits(points)][:5])
    box = both.components.box(data.draw(rules_of(both)))
    verdict = JointOracle((oracle, ForestOracle(forests))).find(BoxQuery(both, box, 2), run_of())
    exceptions = {point.tobytes() for point in exceptions_in(both, box)}
    assert isinstance(verdict, Proven) == (not exceptions)
    if isinstance(verdict, Proven):
        assert len(verdict.certificate.covers) == len(oracle.nets) + 1
    else:
        assert isinstance(verdict, Refuted)
        assert {point.tobytes() for point in verdict.points} <= exceptions


POSITIVE = ((OutputMargin(np.ones(1), 0.0),),)


def both_high(limit: float) -> Network:
    """Desired where two numbers are together more than a limit, flat where they are less."""
    layers = (
        Layer(np.ones((2, 1)), np.array([-limit]), Activation("relu")),
        Layer(np.ones((1, 1)), np.array([-0.25])),
    )
    return Network(layers, POSITIVE)


def found_in(space: Space, network: Network, columns: TabulatedColumns) -> bool:
    """Whether the oracle finds an exception in the whole of a space, from its first point."""
    points = every_point(space)
    table = (np.max(network.margins(columns.look_up(points)), axis=0) > 0.0).reshape(tuple(space.sizes))
    case = case_of(space, table, points[0], points[:1])
    box = Box(points[0], points[-1])
    verdict = NetworkOracle(compile_network(network, columns, space)).find(BoxQuery(case, box), run_of())
    assert isinstance(verdict, Refuted) == (len(exceptions_in(case, box)) > 0)
    return isinstance(verdict, Refuted)


@pytest.mark.parametrize(("most", "found"), [(4, True), (3, False)])
def test_where_the_best_point_of_a_part_cannot_occur_others_are_looked_for(most: int, found: bool) -> None:
    features = tuple(Feature(name, (0, 1, 2, 3), ordered=True) for name in "ab")
    columns = TabulatedColumns(np.arange(2), (np.arange(4.0), np.arange(4.0)))
    space = Space(features, (parse_constraint(f"cf.a + cf.b <= {most}"),))
    assert found_in(space, both_high(3.5), columns) is found


@pytest.mark.parametrize(("constraint", "found"), [("cf.b == 1", True), ("cf.c == 1", True), ("cf.b == 2", False)])
def test_of_values_that_a_network_does_not_tell_apart_one_may_occur_and_another_not(
    constraint: str, found: bool
) -> None:
    features = tuple(Feature(name, (0, 1, 2), ordered=True) for name in "abc")
    columns = TabulatedColumns(
        np.array([0, 1, 1]), (np.arange(3.0), np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0]))
    )
    network = Network((Layer(np.array([[1.0], [0.5], [0.5]]), np.array([-1.5])),), POSITIVE)
    space = Space(
        features, (parse_constraint(f"cf.a == 0 or {constraint}"), parse_constraint("cf.a == 0 or cf.a == 1"))
    )
    assert found_in(space, network, columns) is found


def test_a_logistic_function_of_small_sums_is_not_small() -> None:
    space = Space((Feature("a", (0, 1), ordered=True),))
    columns = TabulatedColumns(np.zeros(1, np.intp), (np.array([0.0, 0.01]),))
    layers = (
        Layer(np.ones((1, 1)), np.zeros(1), Activation("logistic")),
        Layer(-np.ones((1, 1)), np.zeros(1), Activation("tanh")),
        Layer(-np.ones((1, 1)), np.array([-0.4])),
    )
    (net,) = compile_network(Network(layers, POSITIVE), columns, space)
    box = Box(np.zeros(1, np.int32), np.ones(1, np.int32))
    open_cells = find_open_cells(net, box)
    parts = BoxPartition.build(net.cells, open_cells, box)
    assert bound_on_cores(net, open_cells, parts.low[:1], parts.high[:1]).status[0] == STATUS_FOUND


@pytest.mark.parametrize("net", nets_out_of_reach())
def test_numbers_out_of_reach_close_nothing(net: CompiledNetwork) -> None:
    ends = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
    open_cells = find_open_cells(net, Box(np.zeros(1, np.int32), np.ones(1, np.int32)))
    assert compute_margins(net, np.arange(2)[:, None])[1].max() > 0.0
    assert bound_on_cores(net, open_cells, *ends).status[0] != STATUS_CLOSED

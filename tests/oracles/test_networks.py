"""The exact oracle for networks, on tiny random ones against looking at every point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.model.forest import compile_reading
from ironrule.model.net import Net, compile_network
from ironrule.model.net_kernels import activated, cells_at, decide, margins_at
from ironrule.model.network import Activation, Layer, Network, Preference
from ironrule.model.reading import Group, Margin, Reading
from ironrule.model.tabulate import Columns
from ironrule.oracles import Case, Ensemble, Networks
from ironrule.oracles.net_opening_kernels import opened_in
from ironrule.oracles.net_parts import Parts, bounded
from ironrule.oracles.net_relaxing_kernels import lines
from ironrule.oracles.net_room import CLOSED, FOUND, Opened
from ironrule.oracles.together import Together
from ironrule.rule import Box
from ironrule.rule.bit_kernels import kernel
from ironrule.search import Minimum, solve
from ironrule.space import Feature, Space, parse
from ironrule.verdict import Proven, Refuted, Unrefuted
from networks import nets_out_of_reach, network_cases
from readings import trees
from tiny import case_of, consistent, every_point, exceptions_in, meter_of, problem_of, rules_of, subsets


@kernel
def lines_of(kind: int, slope: float, low: float, high: float) -> tuple[float, float, float, float]:
    return lines(kind, slope, low, high)


@kernel
def activation_of(kind: int, slope: float, z: float) -> float:
    return activated(kind, slope, z)


@settings(deadline=None, max_examples=400)
@given(network_cases(), st.data())
def test_every_box_is_decided_and_rightly(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    k = data.draw(st.integers(1, 4))
    verdict = oracle.find(case, box, k, meter_of(None), np.random.default_rng(data.draw(st.integers(0, 3))))
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
def test_without_climbing_cutting_alone_decides_every_box(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.oracles.networks.Work._uphill", lambda *_: None)
        few = replace(oracle, batch=data.draw(st.integers(1, 40)))
        answer = few.one(case, box, meter_of(None), np.random.default_rng(0))
    assert answer is not None
    if isinstance(answer, tuple):
        assert not exceptions
        assert all(parts.cover().pieces == parts.pieces for parts in answer)
    else:
        assert answer.tobytes() in exceptions


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_a_closed_part_holds_no_point_that_may_be_desired(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    points = every_point(case.space)
    inside = points[box.contains(points)]
    for net in oracle.nets:
        opened = opened_in(net, box)
        parts = Parts.of(net.cells, opened, box)
        outcome = bounded(net, opened, parts.low[:1], parts.high[:1])
        most, _ = margins_at(net, cells_at(net, inside))
        if outcome.status[0] == CLOSED:
            assert (most <= 0.0).all()
        if outcome.status[0] == FOUND:
            assert margins_at(net, outcome.points)[1][0] > 0.0


@settings(deadline=None, max_examples=150)
@given(network_cases(), st.integers(0, 3))
def test_the_minimum_rule_is_consistent_and_nothing_shorter_is(made: tuple[Case, Networks], seed: int) -> None:
    case, oracle = made
    findings = solve(problem_of(case, oracle, k=8, seed=seed), Minimum())
    rule = findings.rules[0]
    shortest = next(one for one in subsets(case.relevant.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, rule)
    assert rule.bit_count() == shortest.bit_count() == findings.lower_bound


@settings(deadline=None, max_examples=100)
@given(network_cases())
def test_a_net_says_of_every_point_what_its_network_says(made: tuple[Case, Networks]) -> None:
    case, oracle = made
    points = every_point(case.space)
    points = points[case.feasible.admits(points)]
    desired = case.model.desired(points)
    answers = [decide(net, points) for net in oracle.nets]
    assert not (desired & ~np.any([may for may, _ in answers], axis=0)).any()
    assert not (np.any([must for _, must in answers], axis=0) & ~desired).any()


@settings(deadline=None, max_examples=100)
@given(network_cases(), st.data())
def test_the_open_cells_are_those_of_the_codes_in_a_box(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    points = every_point(case.space)
    for net in oracle.nets:
        opened, inside = opened_in(net, box), cells_at(net, points[box.contains(points)])
        for j in range(len(case.space)):
            some = slice(*opened.starts[j : j + 2])
            cells = np.unique(inside[:, j])
            assert opened.cells[some].tolist() == cells.tolist()
            assert opened.values[some].tolist() == net.value[net.cells.cell_starts[j] + cells].tolist()


@settings(deadline=None, max_examples=100)
@given(network_cases(), st.data())
def test_the_point_of_an_open_part_lies_in_it(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    for net in oracle.nets:
        opened = opened_in(net, box)
        parts = Parts.of(net.cells, opened, box)
        outcome = bounded(net, opened, parts.low[:1], parts.high[:1])
        if outcome.status[0] != CLOSED:
            pairs = zip(outcome.points[0].tolist(), np.split(opened.cells, opened.starts[1:-1]), strict=True)
            assert all(cell in some for cell, some in pairs)


def sum_above_one(texts: list[str]) -> tuple[Case, Networks]:
    """Desired where f0 + f1 > 1; no column of the network shows f2."""
    features = tuple(Feature(f"f{j}", (0, 1, 2), ordered=True) for j in range(3))
    space = Space(features, tuple(map(parse, texts)))
    columns = Columns(np.array([0, 1], dtype=np.intp), (np.arange(3.0), np.arange(3.0)))
    network = Network((Layer(np.ones((2, 1)), np.zeros(1)),), ((Preference(np.ones(1), -1.0),),))
    points = every_point(space)
    table = (points[:, 0] + points[:, 1] > 1).reshape(3, 3, 3)
    nothing = np.zeros((1, 3), dtype=np.int32)
    return case_of(space, table, nothing[0], nothing), Networks(compile_network(network, columns, space), batch=1)


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
    monkeypatch.setattr("ironrule.oracles.networks.Work._uphill", lambda *_: None)
    case, oracle = sum_above_one(texts)
    verdict = oracle.find(case, case.relevant.box(0), 1, meter_of(None), np.random.default_rng(0))
    assert isinstance(verdict, Refuted)
    assert {point.tobytes() for point in verdict.points} <= {
        p.tobytes() for p in exceptions_in(case, case.relevant.box(0))
    }


def test_what_cannot_occur_is_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.oracles.networks.Work._uphill", lambda *_: None)
    case, oracle = sum_above_one(["cf.f0 + cf.f1 <= 1"])
    verdict = oracle.find(case, case.relevant.box(0), 1, meter_of(None), np.random.default_rng(0))
    assert isinstance(verdict, Proven)


ENDS = st.one_of(st.floats(-6, 6), st.floats(-1e-3, 1e-3), st.floats(-800, 800), st.sampled_from([-0.0, 0.0, 1e-300]))


@settings(deadline=None, max_examples=1000)
@given(st.integers(0, 4), st.sampled_from([0.0, 0.01, 0.5, 1.0]), ENDS, ENDS)
def test_lines_lie_below_and_above_their_activation(kind: int, slope: float, one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    below, below_at, above, above_at = lines_of(kind, slope, low, high)
    for z in [*np.linspace(low, high, 41).tolist(), low, high]:
        value = activation_of(kind, slope, z)
        reserve = 1e-13 * (abs(z) + max(abs(low), abs(high)) + 1.0)
        assert below * z + below_at <= value + reserve
        assert above * z + above_at >= value - reserve


@settings(deadline=None, max_examples=100)
@given(network_cases(), st.data())
def test_a_network_and_a_forest_are_asked_together(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    sizes = tuple(case.space.sizes.tolist())
    tree = data.draw(trees(sizes))
    columns = Columns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    reading = Reading(((Margin(0.25, (Group((tree,)),)),),))
    forests = compile_reading(reading, columns, case.space)
    points = every_point(case.space)
    either = case.model.desired(points) | (reading.margins(points)[0] > 0)
    table = either.reshape(sizes)
    if table[tuple(case.instance)]:
        return
    both = case_of(case.space, table, case.instance, points[case.space.feasible.admits(points)][:5])
    box = both.relevant.box(data.draw(rules_of(both)))
    verdict = Together((oracle, Ensemble(forests))).find(both, box, 2, meter_of(None), np.random.default_rng(0))
    exceptions = {point.tobytes() for point in exceptions_in(both, box)}
    assert isinstance(verdict, Proven) == (not exceptions)
    if isinstance(verdict, Proven):
        assert len(verdict.certificate.covers) == len(oracle.nets) + 1
    else:
        assert isinstance(verdict, Refuted)
        assert {point.tobytes() for point in verdict.points} <= exceptions


POSITIVE = ((Preference(np.ones(1), 0.0),),)


def both_high(limit: float) -> Network:
    """Desired where two numbers are together more than a limit, flat where they are less."""
    layers = (
        Layer(np.ones((2, 1)), np.array([-limit]), Activation("relu")),
        Layer(np.ones((1, 1)), np.array([-0.25])),
    )
    return Network(layers, POSITIVE)


def found_in(space: Space, network: Network, columns: Columns) -> bool:
    """Whether the oracle finds an exception in the whole of a space, from its first point."""
    points = every_point(space)
    table = (np.max(network.margins(columns.at(points)), axis=0) > 0.0).reshape(tuple(space.sizes))
    case = case_of(space, table, points[0], points[:1])
    box = Box(points[0], points[-1])
    verdict = Networks(compile_network(network, columns, space)).find(case, box, 1, meter_of(), np.random.default_rng())
    assert isinstance(verdict, Refuted) == (len(exceptions_in(case, box)) > 0)
    return isinstance(verdict, Refuted)


@pytest.mark.parametrize(("most", "found"), [(4, True), (3, False)])
def test_where_the_best_point_of_a_part_cannot_occur_others_are_looked_for(most: int, found: bool) -> None:
    features = tuple(Feature(name, (0, 1, 2, 3), ordered=True) for name in "ab")
    columns = Columns(np.arange(2), (np.arange(4.0), np.arange(4.0)))
    space = Space(features, (parse(f"cf.a + cf.b <= {most}"),))
    assert found_in(space, both_high(3.5), columns) is found


@pytest.mark.parametrize(("constraint", "found"), [("cf.b == 1", True), ("cf.c == 1", True), ("cf.b == 2", False)])
def test_of_values_that_a_network_does_not_tell_apart_one_may_occur_and_another_not(
    constraint: str, found: bool
) -> None:
    features = tuple(Feature(name, (0, 1, 2), ordered=True) for name in "abc")
    columns = Columns(np.array([0, 1, 1]), (np.arange(3.0), np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0])))
    network = Network((Layer(np.array([[1.0], [0.5], [0.5]]), np.array([-1.5])),), POSITIVE)
    space = Space(features, (parse(f"cf.a == 0 or {constraint}"), parse("cf.a == 0 or cf.a == 1")))
    assert found_in(space, network, columns) is found


def test_a_logistic_function_of_small_sums_is_not_small() -> None:
    space = Space((Feature("a", (0, 1), ordered=True),))
    columns = Columns(np.zeros(1, np.intp), (np.array([0.0, 0.01]),))
    layers = (
        Layer(np.ones((1, 1)), np.zeros(1), Activation("logistic")),
        Layer(-np.ones((1, 1)), np.zeros(1), Activation("tanh")),
        Layer(-np.ones((1, 1)), np.array([-0.4])),
    )
    (net,) = compile_network(Network(layers, POSITIVE), columns, space)
    box = Box(np.zeros(1, np.int32), np.ones(1, np.int32))
    opened = opened_in(net, box)
    parts = Parts.of(net.cells, opened, box)
    assert bounded(net, opened, parts.low[:1], parts.high[:1]).status[0] == FOUND


@pytest.mark.parametrize("net", nets_out_of_reach())
def test_numbers_out_of_reach_close_nothing(net: Net) -> None:
    ends = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
    opened = Opened(np.array([0, 2]), np.arange(2), net.value)
    assert margins_at(net, np.arange(2)[:, None])[1].max() > 0.0
    assert bounded(net, opened, *ends).status[0] != CLOSED

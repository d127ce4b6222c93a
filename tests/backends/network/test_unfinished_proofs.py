"""Queries about networks that end early, and parts in which nothing can occur, against looking at every point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.engine import CpuEngine
from ironrule.backends.network.oracle import NetworkOracle, compute_explored_share
from ironrule.backends.network.partition import BoxPartition, FeasibleCombinations, SubBoxes
from ironrule.backends.network.workspace import OpenCells, find_open_cells
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted
from random_networks import network_cases
from tiny_cases import case_of, every_point, exceptions_in, rules_of, run_of

Ints = npt.NDArray[np.int64]


class LimitedMeter(Meter):
    """A meter whose budget is spent after so many looks at it."""

    looks_left: int = 0

    def check(self, ahead: int = 0) -> None:
        self.looks_left -= 1
        if self.looks_left < 0:
            raise BudgetExhausted
        super().check(ahead)


def meter_with(looks: int) -> Meter:
    meter = LimitedMeter()
    meter.looks_left = looks
    return meter


def true_share(case: Case, box: Box) -> float:
    """The share of exceptions among the points of a box that can occur."""
    points = every_point(case.space)
    inside = points[box.contains(points) & case.feasible.admits(points)]
    return len(exceptions_in(case, box)) / max(1, len(inside))


def without_climbing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.integers(1, 12), st.data())
def test_exceptions_lie_in_what_is_not_explored(
    made: tuple[Case, NetworkOracle], limit: int, data: st.DataObject
) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    with pytest.MonkeyPatch.context() as patch:
        without_climbing(patch)
        verdict = replace(oracle, limit=limit, batch=1).find(BoxQuery(case, box), run_of())
    assert isinstance(verdict, (Unrefuted, Proven)) or len(exceptions_in(case, box))
    if isinstance(verdict, Unrefuted):
        assert 0.0 <= verdict.explored < 1.0
        assert true_share(case, box) <= 1.0 - verdict.explored


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.integers(1, 6), st.data())
def test_a_spent_budget_leaves_what_was_found_out(
    made: tuple[Case, NetworkOracle], looks: int, data: st.DataObject
) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    memory = CachingOracle(replace(oracle, batch=1), exact=True)
    with pytest.MonkeyPatch.context() as patch:
        without_climbing(patch)
        try:
            memory.find(BoxQuery(case, box), Run(meter_with(looks), np.random.default_rng(0)))
        except BudgetExhausted as spent:
            known = spent.partial_verdict
        else:
            return
    if known is None:  # while further counterfactuals were sought
        return
    assert memory.lookup(box) is known
    if isinstance(known, Refuted):
        assert known.points[0].tobytes() in {point.tobytes() for point in exceptions_in(case, box)}
    else:
        assert isinstance(known, Unrefuted)
        assert true_share(case, box) <= 1.0 - known.explored
        assert known.samples == 0 or known.confidence >= 0.95


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_parts_are_dropped_where_nothing_can_occur_and_nowhere_else(
    made: tuple[Case, NetworkOracle], data: st.DataObject
) -> None:
    case, oracle = made
    box, net = case.components.box(data.draw(rules_of(case))), oracle.nets[0]
    open_cells = find_open_cells(net, box)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 16)))
    ends = np.sort(rng.integers(0, np.diff(open_cells.starts), size=(2, 20, len(case.space))), axis=0)
    taken = SubBoxes(np.arange(20), *ends)
    kept = FeasibleCombinations.build(net, open_cells, case.feasible, box).keep_feasible(taken)
    points = every_point(case.space)
    points = points[box.contains(points) & case.feasible.admits(points)]
    for number, low, high in zip(*taken, strict=True):
        assert (number in kept.number) == holds_any(net.cells.locate(points), open_cells, low, high)


def holds_any(cells: Ints, open_cells: OpenCells, low: Ints, high: Ints) -> bool:
    """Whether one of some points, given by cells, lies in a part."""
    inside = np.ones(len(cells), np.bool_)
    for j in range(len(low)):
        some = open_cells.cells[open_cells.starts[j] : open_cells.starts[j + 1]]
        inside &= np.isin(cells[:, j], some[low[j] : high[j] + 1])
    return bool(inside.any())


def folded_case() -> tuple[Case, NetworkOracle]:
    """Desired nowhere: |a - b| + |a + b - 7| is never above 7, but each of the two may be 7."""
    space = Space(tuple(Feature(name, tuple(range(8)), ordered=True) for name in "ab"))
    columns = TabulatedColumns(np.arange(2), (np.arange(8.0), np.arange(8.0)))
    layers = (
        Layer(np.array([[1.0, -1, 1, -1], [-1, 1, 1, -1]]), np.array([0.0, 0, -7, 7]), Activation("relu")),
        Layer(np.ones((4, 1)), np.array([-7.25])),
    )
    network = Network(layers, ((OutputMargin(np.ones(1), 0.0),),))
    table, first = np.zeros((8, 8), np.bool_), np.zeros((1, 2), np.int32)
    return case_of(space, table, first[0], first), NetworkOracle(compile_network(network, columns, space), batch=1)


def test_the_share_explored_grows_until_all_is_proven() -> None:
    case, oracle = folded_case()
    box = Box(np.zeros(2, np.int32), np.full(2, 7, np.int32))
    shares = []
    for limit in range(1, 200, 2):
        verdict = replace(oracle, limit=limit).find(BoxQuery(case, box), run_of())
        if isinstance(verdict, Proven):
            break
        assert isinstance(verdict, Unrefuted)
        shares.append(verdict.explored)
    assert isinstance(verdict, Proven)
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert 0.5 < shares[-1] < 1.0


def test_what_is_left_open_counts_by_points() -> None:
    case, oracle = folded_case()
    box, net = Box(np.zeros(2, np.int32), np.full(2, 7, np.int32)), oracle.nets[0]
    parts = BoxPartition.build(net.cells, find_open_cells(net, box), box)
    parts.cut(parts.take(1), np.array([[0, 2]]))
    parts.take(1)  # and closed: five of eight values of one feature
    assert compute_explored_share((net,), (parts,), case.feasible, box) == pytest.approx(5 / 8)
    tied = Space(case.space.features, (parse_constraint("cf.a == 0 or cf.b == 0"),))
    assert compute_explored_share((net,), (parts,), tied.feasible, box) == 0.0  # 24 open points, of 15 that can occur
    parts.low[0], parts.high[0] = (0, 2), (0, 3)
    assert compute_explored_share((net,), (parts,), tied.feasible, box) == pytest.approx(1 - 2 / 15)


def test_a_budget_in_seconds_lets_a_query_pass_the_limit_of_the_engine() -> None:
    case, oracle = folded_case()
    box, brief = Box(np.zeros(2, np.int32), np.full(2, 7, np.int32)), replace(oracle, engine=CpuEngine(limit=1))
    timed = Meter(Budget(seconds=600.0))
    assert isinstance(brief.find(BoxQuery(case, box), run_of()), Unrefuted)
    assert isinstance(brief.find(BoxQuery(case, box), Run(timed, np.random.default_rng(0))), Proven)
    assert isinstance(
        replace(brief, limit=1).find(BoxQuery(case, box), Run(timed, np.random.default_rng(0))), Unrefuted
    )

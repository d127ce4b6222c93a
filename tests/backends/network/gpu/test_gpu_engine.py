"""Bounds by torch against the kernels' own, and against looking at every point; on a GPU where there is one, else on
torch's CPU device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch")

from ironrule.backends.network.bound_propagation import bound_margin  # noqa: E402
from ironrule.backends.network.box_bounds import bound_on_cores, load_boxes, relax_network  # noqa: E402
from ironrule.backends.network.compile import (  # noqa: E402
    CompiledNetwork,
    activate,
    compute_margins,
)
from ironrule.backends.network.engine import CpuEngine, choose_engine  # noqa: E402
from ironrule.backends.network.gpu.bound_propagation import relax_activations  # noqa: E402
from ironrule.backends.network.gpu.engine import (  # noqa: E402
    EMULATION_VARIABLE,
    DeviceQuery,
    TorchEngine,
)
from ironrule.backends.network.oracle import NetworkOracle  # noqa: E402
from ironrule.backends.network.partition import BoxPartition, SubBoxes  # noqa: E402
from ironrule.backends.network.workspace import (  # noqa: E402
    LANES,
    STATUS_CLOSED,
    STATUS_FOUND,
    STATUS_OPEN,
    STATUS_POINT,
    NetworkWorkspace,
    OpenCells,
    allocate_network_workspace,
    find_open_cells,
)
from ironrule.errors import InputError  # noqa: E402
from ironrule.jit import kernel  # noqa: E402
from ironrule.oracles.protocol import BoxQuery, Case  # noqa: E402, Run
from ironrule.rule.box import Box  # noqa: E402
from ironrule.search.driver import solve  # noqa: E402
from ironrule.search.minimum import Minimum  # noqa: E402
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted  # noqa: E402
from random_networks import interval_cases, nets_out_of_reach, network_cases  # noqa: E402
from tiny_cases import consistent, every_point, exceptions_in, problem_of, rules_of, run_of, subsets  # noqa: E402

Ints = npt.NDArray[np.int64]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TORCH = TorchEngine(DEVICE, min_boxes=0)
NEAR = 1e-9


@kernel
def margins_over(
    net: CompiledNetwork,
    open_cells: OpenCells,
    low: Ints,
    high: Ints,
    workspace: NetworkWorkspace,
    bounds: npt.NDArray[np.float64],
) -> None:
    """The kernels' bounds of all margins over boxes."""
    for row in range(0, low.shape[0], LANES):
        load_boxes(net, open_cells, low, high, row, workspace)
        relax_network(net, open_cells, workspace)
        for margin in range(net.offset.shape[0]):
            workspace.margin[:] = margin
            bound_margin(net, open_cells, workspace)
            for lane in range(min(LANES, low.shape[0] - row)):
                bounds[row + lane, margin] = workspace.bound[lane]


@kernel
def compute_activation(kind: int, slope: float, z: float) -> float:
    return activate(kind, slope, z)


def margins_by_torch(net: CompiledNetwork, open_cells: OpenCells, low: Ints, high: Ints) -> npt.NDArray[np.float64]:
    """The bounds of all margins over boxes."""
    query = DeviceQuery.build(DEVICE, net, open_cells)
    ends = query.inputs.build_boxes(*(torch.tensor(places, device=DEVICE) for places in (low, high)))
    return np.asarray(query.compute_bounds(ends).margins.cpu().numpy())


def some_parts(case: Case, net: CompiledNetwork, data: st.DataObject) -> tuple[OpenCells, Ints, Ints]:
    """The box of a rule, and parts of it."""
    box = case.components.box(data.draw(rules_of(case)))
    open_cells = find_open_cells(net, box)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    counts, n = np.diff(open_cells.starts), len(open_cells.starts) - 1
    ends = np.sort(rng.integers(0, counts, size=(2, int(rng.integers(1, 40)), n)), axis=0)
    low, high = (np.concatenate([ends[i], [[0] * n, counts - 1][i : i + 1]]).astype(np.int64) for i in range(2))
    return open_cells, low, high


@settings(deadline=None, max_examples=300)
@given(st.one_of(network_cases(), interval_cases()), st.data())
def test_margins_are_bounded_as_the_kernels_bound_them(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    net = oracle.nets[0]
    open_cells, low, high = some_parts(case, net, data)
    found = margins_by_torch(net, open_cells, low, high)
    wanted = np.empty_like(found)
    margins_over(net, open_cells, low, high, allocate_network_workspace(net, low.shape[1]), wanted)
    assert (np.abs(found - wanted) <= NEAR * (1.0 + np.abs(wanted) + net.unit_sizes.max())).all()


@settings(deadline=None, max_examples=400)
@given(st.one_of(network_cases(), interval_cases()), st.data())
def test_boxes_are_closed_found_and_cut_as_the_kernels_do(
    made: tuple[Case, NetworkOracle], data: st.DataObject
) -> None:
    case, oracle = made
    net = oracle.nets[0]
    open_cells, low, high = some_parts(case, net, data)
    ours, theirs = TORCH.bound_boxes(net, open_cells, low, high), bound_on_cores(net, open_cells, low, high)
    clear = (np.abs(margins_by_torch(net, open_cells, low, high)) > NEAR * (1.0 + net.unit_sizes.max())).all(axis=1)
    # a tie between places may go either way
    settled = clear & (ours.status != STATUS_FOUND) & (theirs.status != STATUS_FOUND)
    assert (ours.status == theirs.status)[settled].all()
    for one in (ours, theirs):
        open_ones = one.status == STATUS_OPEN
        feature, place = one.cuts[open_ones].T
        rows = np.flatnonzero(open_ones)
        assert (low[rows, feature] <= place).all()
        assert (place < high[rows, feature]).all()
    both = (ours.status == STATUS_OPEN) & (theirs.status == STATUS_OPEN)
    same = ours.cuts[both, 0] == theirs.cuts[both, 0]
    assert np.abs(ours.cuts[both, 1] - theirs.cuts[both, 1])[same].max(initial=0) <= 1


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_a_closed_box_holds_no_point_that_may_be_desired(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    points = every_point(case.space)
    for net in oracle.nets:
        open_cells, low, high = some_parts(case, net, data)
        outcome = TORCH.bound_boxes(net, open_cells, low, high)
        cells = net.cells.locate(points)
        most, _ = compute_margins(net, cells)
        place = np.full((len(points), len(case.space)), -1)
        for j in range(len(case.space)):
            here = open_cells.cells[open_cells.starts[j] : open_cells.starts[j + 1]]
            found = np.searchsorted(here, cells[:, j])
            known = here[np.minimum(found, len(here) - 1)] == cells[:, j]
            place[known, j] = found[known]
        for row, status in enumerate(outcome.status):
            inside = ((place >= low[row]) & (place <= high[row])).all(1)
            if status == STATUS_CLOSED:
                assert (most[inside] <= 0.0).all()
            if status == STATUS_FOUND:
                assert compute_margins(net, outcome.points[row : row + 1])[1][0] > 0.0
            if status == STATUS_POINT:
                assert (low[row] == high[row]).all()
            if status != STATUS_CLOSED:  # where the bound is reached
                assert (cells[inside] == outcome.points[row]).all(1).any()


@settings(deadline=None, max_examples=200)
@given(network_cases(), st.data())
def test_with_torch_every_box_is_decided_and_rightly(made: tuple[Case, NetworkOracle], data: st.DataObject) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    batch, max_bytes = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([1, 1 << 12, 1 << 32]))
    there = replace(oracle, batch=batch, engine=TorchEngine(DEVICE, min_boxes=0, max_bytes=max_bytes))
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
        verdict = there.find(BoxQuery(case, box, 2), run_of())
    assert not isinstance(verdict, Unrefuted)
    if isinstance(verdict, Proven):
        assert not exceptions
        assert verdict.certificate.with_built_covers().points >= len(oracle.nets)
    else:
        assert isinstance(verdict, Refuted)
        assert {point.tobytes() for point in verdict.points} <= exceptions


@settings(deadline=None, max_examples=200)
@given(network_cases(), st.data())
def test_the_kernels_close_every_piece_of_a_cover_found_with_torch(
    made: tuple[Case, NetworkOracle], data: st.DataObject
) -> None:
    case, oracle = made
    box = case.components.box(data.draw(rules_of(case)))
    for net in oracle.nets:
        open_cells = find_open_cells(net, box)
        parts = BoxPartition.build(net.cells, open_cells, box)
        while parts.waiting:
            some = parts.take(64)
            outcome = TORCH.bound_boxes(net, open_cells, some.low, some.high)
            closed = outcome.status == STATUS_CLOSED
            assert (bound_on_cores(net, open_cells, some.low[closed], some.high[closed]).status == STATUS_CLOSED).all()
            cut = outcome.status == STATUS_OPEN
            parts.cut(SubBoxes(*(one[cut] for one in some)), outcome.cuts[cut])


@settings(deadline=None, max_examples=60)
@given(network_cases(), st.integers(0, 3))
def test_with_torch_the_minimum_rule_is_found(made: tuple[Case, NetworkOracle], seed: int) -> None:
    case, oracle = made
    findings = solve(problem_of(case, replace(oracle, engine=TORCH), k=8, seed=seed), Minimum())
    shortest = next(one for one in subsets(case.components.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, findings.rules[0])
    assert findings.rules[0].bit_count() == shortest.bit_count() == findings.lower_bound


ENDS = st.one_of(st.floats(-6, 6), st.floats(-1e-3, 1e-3), st.floats(-800, 800), st.sampled_from([-0.0, 0.0, 1e-300]))


@settings(deadline=None, max_examples=1000)
@given(st.integers(0, 4), st.sampled_from([0.0, 0.01, 0.5, 1.0]), ENDS, ENDS)
def test_lines_lie_below_and_above_their_activation(kind: int, slope: float, one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    ends: tuple[Any, Any] = tuple(torch.tensor([end], dtype=torch.float64) for end in (low, high))
    below, below_at, above, above_at = (float(line[0]) for line in relax_activations(kind, slope, *ends))
    for z in [*np.linspace(low, high, 41).tolist(), low, high]:
        value = compute_activation(kind, slope, z)
        reserve = 1e-13 * (abs(z) + max(abs(low), abs(high)) + 1.0)
        assert below * z + below_at <= value + reserve
        assert above * z + above_at >= value - reserve


def test_few_boxes_are_left_to_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        "ironrule.backends.network.gpu.engine.bound_on_cores", lambda *given: asked.append(len(given[2]))
    )
    nothing: Any = None
    TorchEngine("cpu", min_boxes=5).bound_boxes(
        nothing, nothing, np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64)
    )
    assert asked == [4]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_cores_serve_where_no_device_is_named(device: str | None) -> None:
    assert choose_engine(device) == CpuEngine()


@pytest.mark.parametrize("device", ["no such", "mps", "cuda:99"])
def test_a_device_that_cannot_serve_is_refused(device: str) -> None:
    with pytest.raises(InputError, match=r"device"):
        choose_engine(device)


def test_products_put_together_from_narrower_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1 << 30, 1 << 31))
    there = choose_engine("cuda")
    assert isinstance(there, TorchEngine)
    assert there.max_bytes == 1 << 28
    assert there.batch > CpuEngine().batch
    monkeypatch.setenv(EMULATION_VARIABLE, "1")
    with pytest.raises(InputError, match=EMULATION_VARIABLE):
        choose_engine("cuda")


@pytest.mark.parametrize("net", nets_out_of_reach())
def test_numbers_out_of_reach_close_nothing(net: CompiledNetwork) -> None:
    ends = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
    open_cells = find_open_cells(net, Box(np.zeros(1, np.int32), np.ones(1, np.int32)))
    assert TORCH.bound_boxes(net, open_cells, *ends).status[0] != STATUS_CLOSED

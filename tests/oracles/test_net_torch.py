"""Bounds by torch against the kernels' own, and against looking at every point; on a GPU where there is one, else on
torch's CPU device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from ironrule.errors import InputError  # noqa: E402
from ironrule.model.net import Net  # noqa: E402
from ironrule.model.net_kernels import activated, cells_at, margins_at  # noqa: E402
from ironrule.oracles import Case, Networks  # noqa: E402
from ironrule.oracles.net_bounding_kernels import margin_bound  # noqa: E402
from ironrule.oracles.net_deciding_kernels import relax_all, seat  # noqa: E402
from ironrule.oracles.net_engine import Cores, engine_on  # noqa: E402
from ironrule.oracles.net_lines_torch import lines  # noqa: E402
from ironrule.oracles.net_opening_kernels import opened_in  # noqa: E402
from ironrule.oracles.net_parts import Parts, Taken, bounded  # noqa: E402
from ironrule.oracles.net_question_torch import Question  # noqa: E402
from ironrule.oracles.net_room import CLOSED, FOUND, LANES, OPEN, POINT, Opened, Room, room_for  # noqa: E402
from ironrule.oracles.net_torch import EMULATED, TorchEngine  # noqa: E402
from ironrule.rule.bit_kernels import kernel  # noqa: E402
from ironrule.search import Minimum, solve  # noqa: E402
from ironrule.verdict import Proven, Refuted, Unrefuted  # noqa: E402
from networks import nets_out_of_reach, network_cases  # noqa: E402
from tiny import consistent, every_point, exceptions_in, meter_of, problem_of, rules_of, subsets  # noqa: E402

Ints = npt.NDArray[np.int64]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TORCH = TorchEngine(DEVICE, few=0)
NEAR = 1e-9


@kernel
def margins_over(net: Net, opened: Opened, low: Ints, high: Ints, room: Room, bounds: npt.NDArray[np.float64]) -> None:
    """The kernels' bounds of all margins over boxes."""
    for row in range(0, low.shape[0], LANES):
        seat(opened, low, high, row, room)
        relax_all(net, opened, room)
        for margin in range(net.offset.shape[0]):
            room.margin[:] = margin
            margin_bound(net, opened, room)
            for lane in range(min(LANES, low.shape[0] - row)):
                bounds[row + lane, margin] = room.bound[lane]


@kernel
def activation_of(kind: int, slope: float, z: float) -> float:
    return activated(kind, slope, z)


def margins_by_torch(net: Net, opened: Opened, low: Ints, high: Ints) -> npt.NDArray[np.float64]:
    """The bounds of all margins over boxes."""
    question = Question.on(DEVICE, net, opened)
    ends = question.entry.ends(*(torch.tensor(places, device=DEVICE) for places in (low, high)))
    return np.asarray(question.bounds(ends).margins.cpu().numpy())


def some_parts(case: Case, net: Net, data: st.DataObject) -> tuple[Opened, Ints, Ints]:
    """The box of a rule, and parts of it."""
    box = case.relevant.box(data.draw(rules_of(case)))
    opened = opened_in(net, box)
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    counts, n = np.diff(opened.starts), len(opened.starts) - 1
    ends = np.sort(rng.integers(0, counts, size=(2, int(rng.integers(1, 40)), n)), axis=0)
    low, high = (np.concatenate([ends[i], [[0] * n, counts - 1][i : i + 1]]).astype(np.int64) for i in range(2))
    return opened, low, high


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_margins_are_bounded_as_the_kernels_bound_them(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    net = oracle.nets[0]
    opened, low, high = some_parts(case, net, data)
    found = margins_by_torch(net, opened, low, high)
    wanted = np.empty_like(found)
    margins_over(net, opened, low, high, room_for(net, low.shape[1]), wanted)
    assert (np.abs(found - wanted) <= NEAR * (1.0 + np.abs(wanted) + net.sizes.max())).all()


@settings(deadline=None, max_examples=400)
@given(network_cases(), st.data())
def test_boxes_are_closed_found_and_cut_as_the_kernels_do(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    net = oracle.nets[0]
    opened, low, high = some_parts(case, net, data)
    ours, theirs = TORCH.bounded(net, opened, low, high), bounded(net, opened, low, high)
    clear = (np.abs(margins_by_torch(net, opened, low, high)) > NEAR * (1.0 + net.sizes.max())).all(axis=1)
    settled = clear & (ours.status != FOUND) & (theirs.status != FOUND)  # a tie between places may go either way
    assert (ours.status == theirs.status)[settled].all()
    for one in (ours, theirs):
        open_ones = one.status == OPEN
        feature, place = one.cuts[open_ones].T
        rows = np.flatnonzero(open_ones)
        assert (low[rows, feature] <= place).all()
        assert (place < high[rows, feature]).all()
    both = (ours.status == OPEN) & (theirs.status == OPEN)
    same = ours.cuts[both, 0] == theirs.cuts[both, 0]
    assert np.abs(ours.cuts[both, 1] - theirs.cuts[both, 1])[same].max(initial=0) <= 1


@settings(deadline=None, max_examples=300)
@given(network_cases(), st.data())
def test_a_closed_box_holds_no_point_that_may_be_desired(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    points = every_point(case.space)
    for net in oracle.nets:
        opened, low, high = some_parts(case, net, data)
        outcome = TORCH.bounded(net, opened, low, high)
        cells = cells_at(net, points)
        most, _ = margins_at(net, cells)
        place = np.full((len(points), len(case.space)), -1)
        for j in range(len(case.space)):
            here = opened.cells[opened.starts[j] : opened.starts[j + 1]]
            found = np.searchsorted(here, cells[:, j])
            known = here[np.minimum(found, len(here) - 1)] == cells[:, j]
            place[known, j] = found[known]
        for row, status in enumerate(outcome.status):
            inside = ((place >= low[row]) & (place <= high[row])).all(1)
            if status == CLOSED:
                assert (most[inside] <= 0.0).all()
            if status == FOUND:
                assert margins_at(net, outcome.points[row : row + 1])[1][0] > 0.0
            if status == POINT:
                assert (low[row] == high[row]).all()
            if status != CLOSED:  # where the bound is reached
                assert (cells[inside] == outcome.points[row]).all(1).any()


@settings(deadline=None, max_examples=200)
@given(network_cases(), st.data())
def test_with_torch_every_box_is_decided_and_rightly(made: tuple[Case, Networks], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    batch, room = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([1, 1 << 12, 1 << 32]))
    there = replace(oracle, batch=batch, engine=TorchEngine(DEVICE, few=0, room=room))
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.oracles.networks.Work._uphill", lambda *_: None)
        verdict = there.find(case, box, 2, meter_of(None), np.random.default_rng(0))
    assert not isinstance(verdict, Unrefuted)
    if isinstance(verdict, Proven):
        assert not exceptions
        assert verdict.certificate.drawn().points >= len(oracle.nets)
    else:
        assert isinstance(verdict, Refuted)
        assert {point.tobytes() for point in verdict.points} <= exceptions


@settings(deadline=None, max_examples=200)
@given(network_cases(), st.data())
def test_the_kernels_close_every_piece_of_a_cover_found_with_torch(
    made: tuple[Case, Networks], data: st.DataObject
) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    for net in oracle.nets:
        opened = opened_in(net, box)
        parts = Parts.of(net.cells, opened, box)
        while parts.waiting:
            some = parts.taken(64)
            outcome = TORCH.bounded(net, opened, some.low, some.high)
            closed = outcome.status == CLOSED
            assert (bounded(net, opened, some.low[closed], some.high[closed]).status == CLOSED).all()
            cut = outcome.status == OPEN
            parts.cut(Taken(*(one[cut] for one in some)), outcome.cuts[cut])


@settings(deadline=None, max_examples=60)
@given(network_cases(), st.integers(0, 3))
def test_with_torch_the_minimum_rule_is_found(made: tuple[Case, Networks], seed: int) -> None:
    case, oracle = made
    findings = solve(problem_of(case, replace(oracle, engine=TORCH), k=8, seed=seed), Minimum())
    shortest = next(one for one in subsets(case.relevant.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, findings.rules[0])
    assert findings.rules[0].bit_count() == shortest.bit_count() == findings.lower_bound


ENDS = st.one_of(st.floats(-6, 6), st.floats(-1e-3, 1e-3), st.floats(-800, 800), st.sampled_from([-0.0, 0.0, 1e-300]))


@settings(deadline=None, max_examples=1000)
@given(st.integers(0, 4), st.sampled_from([0.0, 0.01, 0.5, 1.0]), ENDS, ENDS)
def test_lines_lie_below_and_above_their_activation(kind: int, slope: float, one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    ends: tuple[Any, Any] = tuple(torch.tensor([end], dtype=torch.float64) for end in (low, high))
    below, below_at, above, above_at = (float(line[0]) for line in lines(kind, slope, *ends))
    for z in [*np.linspace(low, high, 41).tolist(), low, high]:
        value = activation_of(kind, slope, z)
        reserve = 1e-13 * (abs(z) + max(abs(low), abs(high)) + 1.0)
        assert below * z + below_at <= value + reserve
        assert above * z + above_at >= value - reserve


def test_few_boxes_are_left_to_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("ironrule.oracles.net_torch.bounded", lambda *given: asked.append(len(given[2])))
    nothing: Any = None
    TorchEngine("cpu", few=5).bounded(nothing, nothing, np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64))
    assert asked == [4]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_cores_serve_where_no_device_is_named(device: str | None) -> None:
    assert engine_on(device) == Cores()


@pytest.mark.parametrize("device", ["no such", "mps", "cuda:99"])
def test_a_device_that_cannot_serve_is_refused(device: str) -> None:
    with pytest.raises(InputError, match=r"device"):
        engine_on(device)


def test_products_put_together_from_narrower_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1 << 30, 1 << 31))
    there = engine_on("cuda")
    assert isinstance(there, TorchEngine)
    assert there.room == 1 << 28
    assert there.batch > Cores().batch
    monkeypatch.setenv(EMULATED, "1")
    with pytest.raises(InputError, match=EMULATED):
        engine_on("cuda")


@pytest.mark.parametrize("net", nets_out_of_reach())
def test_numbers_out_of_reach_close_nothing(net: Net) -> None:
    ends = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
    opened = Opened(np.array([0, 2]), np.arange(2), net.value)
    assert TORCH.bounded(net, opened, *ends).status[0] != CLOSED

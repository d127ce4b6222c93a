"""Networks over whole intervals: what the oracle proves holds for the numbers between the values too."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.hitting.bits import list_members
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted
from random_networks import draw_seen_numbers, has_desired_numbers, interval_models
from tiny_cases import case_of, exceptions_in, run_of


def oracle_of(case: Case, read: TabulatedModel) -> NetworkOracle:
    assert isinstance(read.normal_form, Network)
    return NetworkOracle(compile_network(read.normal_form, read.columns, case.space))


@settings(deadline=None, max_examples=300)
@given(interval_models(), st.integers(0, 1 << 32))
def test_no_number_of_a_proven_box_is_desired(made: tuple[Case, TabulatedModel], seed: int) -> None:
    case, read = made
    rng, memory = np.random.default_rng(seed), CachingOracle(oracle_of(case, read), exact=True)
    rule = case.components.usable
    # Boxes that grow out of one another, so that proofs are extended across gaps.
    for bit in rng.permutation(list_members(rule)).tolist():
        box = case.components.box(rule & ~(1 << bit))
        verdict = memory.find(BoxQuery(case, box), run_of())
        if isinstance(verdict, Proven):
            rule &= ~(1 << bit)
            assert not has_desired_numbers(read, draw_seen_numbers(case, read, box, rng, 400))
        elif isinstance(verdict, Refuted):
            wrong = {point.tobytes() for point in exceptions_in(case, box)}
            assert all(point.tobytes() in wrong for point in verdict.points)


def build_tent(at: float, width: float, values: tuple[float, ...], interval: bool) -> tuple[Case, TabulatedModel]:
    """A network that desires what lies within so much of a number."""
    feature = Feature("x", values, ordered=True, interval=interval or None)
    first = Layer(np.ones((1, 3)), -np.array([at - width, at, at + width]), Activation("relu"))
    last = Layer(np.array([[1.0], [-2.0], [1.0]]) / width, np.array([-0.5]))
    network = Network((first, last), ((OutputMargin(np.ones(1), 0.0),),))
    read = TabulatedModel(network, TabulatedColumns(np.zeros(1, np.intp), (np.array(values),)))
    space, nobody = Space((feature,)), np.zeros(len(values), dtype=np.bool_)
    instance = np.zeros(1, dtype=np.int32)
    return case_of(space, nobody, instance, instance[None, :]), read


def ask(made: tuple[Case, TabulatedModel], first: int, last: int) -> Proven | Refuted | Unrefuted:
    case, read = made
    box = Box(np.array([first], dtype=np.int32), np.array([last], dtype=np.int32))
    return oracle_of(case, read).find(BoxQuery(case, box), run_of())


def test_a_narrow_spike_between_two_values_is_never_overlooked() -> None:
    values = tuple(np.arange(11.0).tolist())
    for width in (0.4, 1e-3, 1e-6):
        assert isinstance(ask(build_tent(4.5, width, values, interval=False), 0, 10), Proven)
        assert isinstance(ask(build_tent(4.5, width, values, interval=True), 0, 10), Unrefuted)


def test_a_bound_that_ends_before_the_spike_is_proven() -> None:
    made = build_tent(4.5, 0.3, tuple(np.arange(11.0).tolist()), interval=True)
    assert isinstance(ask(made, 0, 4), Proven)
    assert isinstance(ask(made, 5, 10), Proven)
    assert isinstance(ask(made, 4, 5), Unrefuted)


def test_a_spike_is_not_lost_between_a_proven_box_and_what_is_added() -> None:
    for inner, outer in (((0, 4), (0, 10)), ((5, 10), (0, 10)), ((5, 7), (2, 9)), ((4, 4), (4, 10))):
        case, read = build_tent(4.5, 0.3, tuple(np.arange(11.0).tolist()), interval=True)
        memory = CachingOracle(oracle_of(case, read), exact=True)
        first, second = (Box(*(np.array([end], dtype=np.int32) for end in ends)) for ends in (inner, outer))
        assert isinstance(memory.find(BoxQuery(case, first), run_of()), Proven)
        assert isinstance(memory.find(BoxQuery(case, second), run_of()), Unrefuted)

"""Proofs that extend other proofs: nothing is left out, and nothing is claimed that is not so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.hitting.bits import list_members
from ironrule.model.normal_form.network import Network
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.caching import CachingOracle, ExtendedCover, cut_into_slabs
from ironrule.oracles.protocol import BoxQuery, Capabilities, Case, Run
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter
from ironrule.verdict.certificate import Cover
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict
from random_networks import network_models
from tiny_cases import case_of, every_point, exceptions_in, meter_of, run_of


def boxes_of(draw: st.DrawFn, sizes: list[int]) -> Box:
    ends = [sorted(draw(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)))) for size in sizes]
    return Box(*(np.array([end[side] for end in ends], dtype=np.int32) for side in range(2)))


@st.composite
def nested_boxes(draw: st.DrawFn) -> tuple[Box, Box]:
    """A box and one inside it."""
    outer = boxes_of(draw, draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    inner = boxes_of(draw, (outer.high - outer.low + 1).tolist())
    return outer, Box(outer.low + inner.low, outer.low + inner.high)


@given(nested_boxes())
def test_slabs_and_the_inner_box_are_the_whole_box_and_do_not_overlap(made: tuple[Box, Box]) -> None:
    outer, inner = made
    grid = np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(outer.low, outer.high, strict=True)), indexing="ij")
    points = np.stack([codes.ravel() for codes in grid], axis=1)
    slabs = cut_into_slabs(outer, inner, lambda *_: False)
    assert slabs is not None
    parts = [inner, *(slab.box for slab in slabs)]
    assert (sum(part.contains(points).astype(int) for part in parts) == 1).all()
    assert sum(part.size for part in parts) == outer.size


def assert_true(case: Case, box: Box, verdict: Verdict) -> None:
    wrong = {point.tobytes() for point in exceptions_in(case, box)}
    if isinstance(verdict, Proven):
        assert not wrong
        assert (verdict.certificate.low, verdict.certificate.high) == (tuple(box.low), tuple(box.high))
    elif isinstance(verdict, Refuted):
        assert all(point.tobytes() in wrong for point in verdict.points)
    else:
        points = every_point(case.space)
        there = points[box.contains(points) & case.feasible.admits(points)]
        assert len(wrong) / max(1, len(there)) <= 1.0 - verdict.explored
        assert verdict.explored < 1.0


@settings(deadline=None, max_examples=300)
@given(network_models(), st.integers(0, 1 << 32), st.sampled_from([0.0, 2.0]))
def test_little_effort_claims_nothing_that_is_not_so(
    made: tuple[Case, TabulatedModel], seed: int, share: float
) -> None:
    case, read = made
    assert isinstance(read.normal_form, Network)
    oracle = replace(NetworkOracle(compile_network(read.normal_form, read.columns, case.space)), batch=1)
    caching, rule = CachingOracle(oracle, exact=True), case.components.usable
    for bit in np.random.default_rng(seed).permutation(list_members(rule)).tolist():
        shorter = rule & ~(1 << bit)
        box = case.components.box(shorter)
        for effort in (share / oracle.engine.limit, 1.0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
                verdict = caching.find(BoxQuery(case, box, 1, effort), run_of())
            assert_true(case, box, verdict)
            assert effort < 1.0 or not isinstance(verdict, Unrefuted)
        rule = shorter if isinstance(verdict, Proven) else rule


@settings(deadline=None, max_examples=150)
@given(network_models(), st.integers(0, 1 << 32), st.integers(1, 8))
def test_several_counterfactuals_beside_a_proven_box_are_all_true(
    made: tuple[Case, TabulatedModel], seed: int, k: int
) -> None:
    case, read = made
    assert isinstance(read.normal_form, Network)
    caching, rule = (
        CachingOracle(NetworkOracle(compile_network(read.normal_form, read.columns, case.space))),
        case.components.usable,
    )
    rng = np.random.default_rng(seed)
    assert_true(
        case,
        case.components.box(rule),
        caching.find(BoxQuery(case, case.components.box(rule), k), Run(meter_of(), rng)),
    )
    for _ in range(6):
        bits = rng.permutation(list_members(rule))[: rng.integers(1, 4)].tolist()
        shorter = rule & ~sum(1 << bit for bit in bits)
        box = case.components.box(shorter)
        verdict = caching.find(BoxQuery(case, box, k), Run(meter_of(), rng))
        assert_true(case, box, verdict)
        rule = shorter if isinstance(verdict, Proven) else rule


class Deciding:
    """An oracle whose proofs can be extended; it says of every box what it was told to, and notes which were asked."""

    def __init__(self, *verdicts: Verdict | BudgetExhausted) -> None:
        self.verdicts, self.asked = list(verdicts), list[Box]()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(extender=self)

    def has_gap_after(self, feature: int, code: int) -> bool:  # noqa: ARG002
        return False

    def find(self, query: BoxQuery, run: Run) -> Verdict:  # noqa: ARG002
        self.asked.append(query.box)
        said = self.verdicts.pop(0)
        if isinstance(said, BudgetExhausted):
            raise said
        return query.case.build_proven(query.box, 1, (Cover((), (-1,)),)) if isinstance(said, Proven) else said


def a_case() -> Case:
    """Two ordered features of five values, the instance in the middle."""
    space = Space(tuple(Feature(f"f{place}", tuple(range(5)), ordered=True) for place in range(2)))
    instance = np.full(2, 2, dtype=np.int32)
    return case_of(space, np.zeros((5, 5), dtype=np.bool_), instance, instance[None, :])


def ask_twice(second: Verdict | BudgetExhausted) -> tuple[Case, Deciding, Verdict | None]:
    """The verdict on f0 <= 2 after a proof of f0 <= 2 and f1 <= 2."""
    case = a_case()
    proof = case.build_proven(case.components.box(0), 1)
    oracle = Deciding(proof, second)
    caching = CachingOracle(oracle, exact=True)
    small, large = Box(*_ends([0, 0], [2, 2])), Box(*_ends([0, 0], [2, 4]))
    caching.find(BoxQuery(case, small), Run(Meter(Budget()), np.random.default_rng(0)))
    try:
        verdict = caching.find(BoxQuery(case, large), Run(Meter(Budget()), np.random.default_rng(0)))
    except BudgetExhausted as spent:
        return case, oracle, spent.partial_verdict
    return case, oracle, verdict


def _ends(low: list[int], high: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(low, dtype=np.int32), np.array(high, dtype=np.int32)


def test_only_what_is_new_is_asked_about() -> None:
    case = a_case()
    _, oracle, verdict = ask_twice(case.build_proven(case.components.box(0), 1))
    assert isinstance(verdict, Proven)
    assert [(box.low.tolist(), box.high.tolist()) for box in oracle.asked] == [([0, 0], [2, 2]), ([0, 3], [2, 4])]
    assert isinstance(verdict.certificate.covers[0], ExtendedCover)
    assert verdict.certificate.covers[0].cover() == Cover(((1, ((3, 4),)),), (0, -1, -1))


def test_the_share_explored_counts_what_was_proven_before() -> None:
    _, _, verdict = ask_twice(Unrefuted(tried=7, samples=0, confidence=0.0, explored=0.5))
    assert isinstance(verdict, Unrefuted)
    assert verdict.explored == pytest.approx(0.8)
    assert verdict.samples == 0


def test_samples_of_the_only_slab_bound_the_whole_when_the_budget_is_spent() -> None:
    _, _, verdict = ask_twice(BudgetExhausted(Unrefuted(tried=100, samples=100, confidence=0.95, explored=0.0)))
    assert isinstance(verdict, Unrefuted)
    assert (verdict.samples, verdict.confidence) == (100, 0.95)
    assert verdict.explored == pytest.approx(0.6)


def test_a_proof_by_enumeration_is_not_extended() -> None:
    case = a_case()
    caching = CachingOracle(Deciding(), exact=True)
    box = case.components.box(0)
    caching.proven_boxes.add(box, case.build_proven(box, 25))
    assert caching.proven_boxes.find_inside(box, lambda *_: False) is None

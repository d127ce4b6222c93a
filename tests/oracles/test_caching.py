"""The oracle with a cache: what it saves, and that what it concludes by itself is true."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict
from tiny_cases import case_of, cases, exceptions_in, meter_of, rules_of, run_of


@dataclass(frozen=True, slots=True, eq=False)
class Doubting:
    """An oracle that never finds anything in the boxes it is told to overlook, and is exhaustive elsewhere."""

    overlooked: list[Box] = field(default_factory=list)
    asked: list[Box] = field(default_factory=list)
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        self.asked.append(query.box)
        if any(
            np.array_equal(query.box.low, other.low) and np.array_equal(query.box.high, other.high)
            for other in self.overlooked
        ):
            return Unrefuted(tried=1, samples=0, confidence=0.0)
        return Exhaustive().find(query, run)


def a_case(desired: list[list[int]]) -> Case:
    """Three ordered features of five values; the instance is in the middle."""
    space = Space(tuple(Feature(f"f{place}", tuple(range(5)), ordered=True) for place in range(3)))
    table = np.zeros((5, 5, 5), dtype=np.bool_)
    table[tuple(np.array(desired, dtype=np.int64).reshape(-1, 3).T)] = True
    instance = np.full(3, 2, dtype=np.int32)
    return case_of(space, table, instance, instance[None, :])


def find(caching: CachingOracle, case: Case, rule: int, k: int = 3) -> Verdict:
    return caching.find(BoxQuery(case, case.components.box(rule), k), run_of())


def as_points(rows: list[list[int]]) -> Points:
    return np.array(rows, dtype=np.int32)


def test_a_box_is_asked_about_once() -> None:
    case, oracle = a_case([[4, 2, 2]]), Doubting()
    caching = CachingOracle(oracle)
    assert find(caching, case, 0b000000) is find(caching, case, 0b000000)
    assert find(caching, case, 0b000001) is find(caching, case, 0b000001)
    assert len(oracle.asked) == 2


def test_every_question_that_reaches_the_oracle_is_counted() -> None:
    case, meter = a_case([[4, 2, 2]]), meter_of()
    caching = CachingOracle(Doubting())
    for rule in (0, 1, 0, 1, 0b100):
        caching.find(BoxQuery(case, case.components.box(rule), 3), Run(meter, np.random.default_rng(0)))
    assert meter.events["oracle calls"] == 2  # rule 0b100 is refuted by what rule 0 found


def test_a_known_counterfactual_refutes_every_other_box_that_holds_it() -> None:
    case, oracle = a_case([[4, 2, 2]]), Doubting()
    caching = CachingOracle(oracle)
    find(caching, case, 0)
    verdict = find(caching, case, 0b000100)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[4, 2, 2]]
    assert len(oracle.asked) == 1


def test_the_nearest_known_counterfactuals_come_first_and_at_most_k_of_them() -> None:
    case, caching = a_case([[4, 4, 4], [4, 2, 2], [4, 4, 2]]), CachingOracle(Doubting())
    caching.add_counterfactuals(as_points([[4, 4, 4], [4, 2, 2], [4, 4, 2]]))
    verdict = find(caching, case, 0, k=2)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[4, 2, 2], [4, 4, 2]]


def test_adding_counterfactuals_drops_what_was_unrefuted_and_keeps_what_was_proven() -> None:
    case = a_case([[4, 2, 2], [2, 2, 4]])
    whole, proven = case.components.box(0), case.components.box(0b010001)
    oracle = Doubting([whole])
    caching = CachingOracle(oracle)
    assert isinstance(find(caching, case, 0), Unrefuted)
    assert isinstance(caching.lookup(whole), Unrefuted)
    caching.searched.clear()  # else the box inside the whole space is not searched either
    assert isinstance(find(caching, case, 0b010001), Proven)
    caching.add_counterfactuals(as_points([[4, 2, 2]]))
    assert caching.lookup(whole) is None
    assert isinstance(caching.lookup(proven), Proven)
    assert isinstance(find(caching, case, 0), Refuted)


def test_a_counterfactual_found_in_one_box_ends_the_doubt_about_another() -> None:
    case = a_case([[4, 2, 2]])
    overlooked = case.components.box(0b000100)
    caching = CachingOracle(Doubting([overlooked]))
    assert isinstance(find(caching, case, 0b000100), Unrefuted)
    assert isinstance(find(caching, case, 0b010000), Refuted)
    assert not isinstance(caching.lookup(overlooked), Unrefuted)
    assert isinstance(find(caching, case, 0b000100), Refuted)


def test_a_box_inside_a_proven_one_gets_a_proof_of_its_own_and_inside_an_unrefuted_one_none() -> None:
    case = a_case([[4, 2, 2]])
    oracle = Doubting([case.components.box(0b000100)])
    caching = CachingOracle(oracle)
    assert isinstance(find(caching, case, 0b000001), Proven)
    own = find(caching, case, 0b000101)
    assert isinstance(own, Proven)
    assert own.certificate.points == case.components.box(0b000101).size
    assert isinstance(find(caching, case, 0b000100), Unrefuted)
    inside = find(caching, case, 0b001100)
    assert isinstance(inside, Unrefuted)
    assert (inside.tried, inside.samples, inside.exception_bound) == (0, 0, 1.0)
    assert len(oracle.asked) == 3


def test_an_exact_oracle_is_asked_about_parts_of_what_it_could_not_decide() -> None:
    case = a_case([[4, 2, 2]])
    caching = CachingOracle(Doubting([case.components.box(0b000100)]), exact=True)
    assert isinstance(find(caching, case, 0b000100), Unrefuted)
    assert isinstance(find(caching, case, 0b000101), Proven)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_whatever_is_asked_in_whatever_order_the_answers_are_those_of_enumeration(data: st.DataObject) -> None:
    case = data.draw(cases())
    caching = CachingOracle(Exhaustive())
    for rule in data.draw(st.lists(rules_of(case), max_size=12)):
        box, k = case.components.box(rule), data.draw(st.integers(1, 3))
        verdict = caching.find(BoxQuery(case, box, k), run_of())
        exceptions = {point.tobytes() for point in exceptions_in(case, box)}
        assert isinstance(verdict, Refuted if exceptions else Proven)
        if isinstance(verdict, Refuted):
            assert {point.tobytes() for point in verdict.points} <= exceptions
        assert caching.lookup(box) is verdict


@dataclass(frozen=True, slots=True)
class Stopped:
    """An oracle that is stopped after it has found something."""

    reason: str
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        verdict = Exhaustive().find(query, run)
        assert isinstance(verdict, Refuted)
        return replace(verdict, stopped=self.reason)


@pytest.mark.parametrize(("reason", "stop"), [("budget", BudgetExhausted), ("interrupted", KeyboardInterrupt)])
def test_what_an_oracle_found_before_it_was_stopped_is_remembered_and_the_stop_passed_on(
    reason: str, stop: type[BaseException]
) -> None:
    case, caching = a_case([[4, 2, 2]]), CachingOracle(Stopped(reason))
    with pytest.raises(stop):
        find(caching, case, 0)
    assert caching.points is not None
    assert caching.points.tolist() == [[4, 2, 2]]
    assert isinstance(find(caching, case, 0b000100), Refuted)

"""The oracle that remembers: what it saves, and that what it concludes by itself is true."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.oracles import Case, Exhaustive, Remembering
from ironrule.rule import Box
from ironrule.space import Feature, Points, Space
from ironrule.verdict import Meter, Proven, Refuted, Spent, Unrefuted, Verdict
from tiny import case_of, cases, exceptions_in, meter_of, rules_of


@dataclass(frozen=True, slots=True, eq=False)
class Doubting:
    """An oracle that never finds anything in the boxes it is told to overlook, and is exhaustive elsewhere."""

    overlooked: list[Box] = field(default_factory=list)
    asked: list[Box] = field(default_factory=list)

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        self.asked.append(box)
        if any(
            np.array_equal(box.low, other.low) and np.array_equal(box.high, other.high) for other in self.overlooked
        ):
            return Unrefuted(tried=1, samples=0, confidence=0.0)
        return Exhaustive().find(case, box, k, meter, rng)


def a_case(desired: list[list[int]]) -> Case:
    """Three ordered features of five values; the instance is in the middle."""
    space = Space(tuple(Feature(f"f{place}", tuple(range(5)), ordered=True) for place in range(3)))
    table = np.zeros((5, 5, 5), dtype=np.bool_)
    table[tuple(np.array(desired, dtype=np.int64).reshape(-1, 3).T)] = True
    instance = np.full(3, 2, dtype=np.int32)
    return case_of(space, table, instance, instance[None, :])


def find(memory: Remembering, case: Case, rule: int, k: int = 3) -> Verdict:
    return memory.find(case, case.relevant.box(rule), k, meter_of(), np.random.default_rng(0))


def as_points(rows: list[list[int]]) -> Points:
    return np.array(rows, dtype=np.int32)


def test_a_box_is_asked_about_once() -> None:
    case, oracle = a_case([[4, 2, 2]]), Doubting()
    memory = Remembering(oracle)
    assert find(memory, case, 0b000000) is find(memory, case, 0b000000)
    assert find(memory, case, 0b000001) is find(memory, case, 0b000001)
    assert len(oracle.asked) == 2


def test_every_question_that_reaches_the_oracle_is_counted() -> None:
    case, meter = a_case([[4, 2, 2]]), meter_of()
    memory = Remembering(Doubting())
    for rule in (0, 1, 0, 1, 0b100):
        memory.find(case, case.relevant.box(rule), 3, meter, np.random.default_rng(0))
    assert meter.events["oracle calls"] == 2  # rule 0b100 is refuted by what rule 0 found


def test_a_known_counterfactual_refutes_every_other_box_that_holds_it() -> None:
    case, oracle = a_case([[4, 2, 2]]), Doubting()
    memory = Remembering(oracle)
    find(memory, case, 0)
    verdict = find(memory, case, 0b000100)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[4, 2, 2]]
    assert len(oracle.asked) == 1


def test_the_nearest_known_counterfactuals_come_first_and_at_most_k_of_them() -> None:
    case, memory = a_case([[4, 4, 4], [4, 2, 2], [4, 4, 2]]), Remembering(Doubting())
    memory.learn(as_points([[4, 4, 4], [4, 2, 2], [4, 4, 2]]))
    verdict = find(memory, case, 0, k=2)
    assert isinstance(verdict, Refuted)
    assert verdict.points.tolist() == [[4, 2, 2], [4, 4, 2]]


def test_learning_forgets_what_was_unrefuted_and_keeps_what_was_proven() -> None:
    case = a_case([[4, 2, 2], [2, 2, 4]])
    whole, proven = case.relevant.box(0), case.relevant.box(0b010001)
    oracle = Doubting([whole])
    memory = Remembering(oracle)
    assert isinstance(find(memory, case, 0), Unrefuted)
    assert isinstance(memory.recall(whole), Unrefuted)
    memory.clean.clear()  # else the box inside the whole space is not searched either
    assert isinstance(find(memory, case, 0b010001), Proven)
    memory.learn(as_points([[4, 2, 2]]))
    assert memory.recall(whole) is None
    assert isinstance(memory.recall(proven), Proven)
    assert isinstance(find(memory, case, 0), Refuted)


def test_a_counterfactual_found_in_one_box_ends_the_doubt_about_another() -> None:
    case = a_case([[4, 2, 2]])
    overlooked = case.relevant.box(0b000100)
    memory = Remembering(Doubting([overlooked]))
    assert isinstance(find(memory, case, 0b000100), Unrefuted)
    assert isinstance(find(memory, case, 0b010000), Refuted)
    assert not isinstance(memory.recall(overlooked), Unrefuted)
    assert isinstance(find(memory, case, 0b000100), Refuted)


def test_a_box_inside_a_proven_one_gets_a_proof_of_its_own_and_inside_an_unrefuted_one_none() -> None:
    case = a_case([[4, 2, 2]])
    oracle = Doubting([case.relevant.box(0b000100)])
    memory = Remembering(oracle)
    assert isinstance(find(memory, case, 0b000001), Proven)
    own = find(memory, case, 0b000101)
    assert isinstance(own, Proven)
    assert own.certificate.points == case.relevant.box(0b000101).size
    assert isinstance(find(memory, case, 0b000100), Unrefuted)
    inside = find(memory, case, 0b001100)
    assert isinstance(inside, Unrefuted)
    assert (inside.tried, inside.samples, inside.bound) == (0, 0, 1.0)
    assert len(oracle.asked) == 3


def test_an_oracle_that_reads_is_asked_about_parts_of_what_it_could_not_decide() -> None:
    case = a_case([[4, 2, 2]])
    memory = Remembering(Doubting([case.relevant.box(0b000100)]), reads=True)
    assert isinstance(find(memory, case, 0b000100), Unrefuted)
    assert isinstance(find(memory, case, 0b000101), Proven)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_whatever_is_asked_in_whatever_order_the_answers_are_those_of_enumeration(data: st.DataObject) -> None:
    case = data.draw(cases())
    memory = Remembering(Exhaustive())
    for rule in data.draw(st.lists(rules_of(case), max_size=12)):
        box, k = case.relevant.box(rule), data.draw(st.integers(1, 3))
        verdict = memory.find(case, box, k, meter_of(), np.random.default_rng(0))
        exceptions = {point.tobytes() for point in exceptions_in(case, box)}
        assert isinstance(verdict, Refuted if exceptions else Proven)
        if isinstance(verdict, Refuted):
            assert {point.tobytes() for point in verdict.points} <= exceptions
        assert memory.recall(box) is verdict


@dataclass(frozen=True, slots=True)
class Stopped:
    """An oracle that is stopped after it has found something."""

    reason: str

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        verdict = Exhaustive().find(case, box, k, meter, rng)
        assert isinstance(verdict, Refuted)
        return replace(verdict, stopped=self.reason)


@pytest.mark.parametrize(("reason", "stop"), [("budget", Spent), ("interrupted", KeyboardInterrupt)])
def test_what_an_oracle_found_before_it_was_stopped_is_remembered_and_the_stop_passed_on(
    reason: str, stop: type[BaseException]
) -> None:
    case, memory = a_case([[4, 2, 2]]), Remembering(Stopped(reason))
    with pytest.raises(stop):
        find(memory, case, 0)
    assert memory.points is not None
    assert memory.points.tolist() == [[4, 2, 2]]
    assert isinstance(find(memory, case, 0b000100), Refuted)

"""GeCo on tiny spaces, where exhaustive search says what there is to find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.oracles import Case, GeCo, Mix
from ironrule.oracles.geco.deltas import from_points
from ironrule.oracles.geco.distance import Distance
from ironrule.oracles.geco.operators import cascade
from ironrule.oracles.geco.refine import diverse
from ironrule.rule import Box
from ironrule.rule.duals import duals_of, minimal
from ironrule.space import Feature, Points, Space, bind, constrained, feasible, parse
from ironrule.verdict import Refuted, Unrefuted, Verdict
from tiny import TableModel, case_of, cases, every_point, exceptions_in, meter_of, rules_of


@st.composite
def questions(draw: st.DrawFn) -> tuple[Case, Box]:
    case = draw(cases(recourse=draw(st.booleans())))
    return case, case.relevant.box(draw(rules_of(case)))


def find(question: tuple[Case, Box], k: int, seed: int, geco: GeCo | None = None) -> Verdict:
    case, box = question
    return (geco or GeCo()).find(case, box, k, meter_of(), np.random.default_rng(seed))


def points_of(verdict: Verdict) -> Points:
    assert isinstance(verdict, Refuted)
    return verdict.points


@settings(deadline=None, max_examples=150)
@given(questions(), st.integers(1, 5), st.integers(0, 99))
def test_a_counterfactual_is_found_whenever_there_is_one(question: tuple[Case, Box], k: int, seed: int) -> None:
    expected = Refuted if len(exceptions_in(*question)) else Unrefuted
    assert isinstance(find(question, k, seed), expected)


@settings(deadline=None, max_examples=100)
@given(questions(), st.integers(1, 5), st.integers(0, 99))
def test_no_change_is_useless_and_no_two_counterfactuals_have_one_dual(
    question: tuple[Case, Box], k: int, seed: int
) -> None:
    case, _ = question
    verdict = find(question, k, seed)
    if not isinstance(verdict, Refuted):
        return
    assert isinstance(case.model, TableModel)
    for point in verdict.points:
        for changed in np.flatnonzero(point != case.instance):
            undone = point.copy()
            undone[changed] = case.instance[changed]
            assert not (case.feasible.admits(undone[None, :])[0] and case.model.table[tuple(undone)])
    duals = duals_of(verdict.points, case.relevant.low, case.relevant.high)
    assert len(np.unique(duals, axis=0)) == len(duals)


@settings(deadline=None, max_examples=100)
@given(questions(), st.integers(1, 5), st.integers(0, 99))
def test_the_model_is_asked_about_a_point_once_and_never_outside_the_box(
    question: tuple[Case, Box], k: int, seed: int
) -> None:
    case, box = question
    assert isinstance(case.model, TableModel)
    case.model.asked.clear()
    verdict = find(question, k, seed)
    asked = np.concatenate([np.empty((0, len(case.space)), np.int32), *case.model.asked])
    assert len(np.unique(asked, axis=0)) == len(asked)
    assert box.contains(asked).all()
    assert case.feasible.admits(asked).all()
    if isinstance(verdict, Unrefuted):
        assert verdict.tried == len(asked)


@settings(deadline=None, max_examples=60)
@given(cases(), st.integers(0, 99))
def test_every_counterfactual_stands_before_every_other_candidate_and_nearer_before_farther(
    case: Case, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    population = GeCo(population=10).start(case, case.relevant.box(0), meter_of(), rng)
    for _ in range(4):
        points = case.feasible.draw(rng, *_ends(case), 30)
        population.admit(from_points(points, case.instance))
        flags = population.desired
        assert not (flags[1:] & ~flags[:-1]).any()
        for part in (population.members[flags], population.members[~flags]):
            assert (np.diff(population.distance(part)) >= 0).all()
        assert len(population.members) <= max(10, min(int(flags.sum()), 20))


def _ends(case: Case) -> tuple[Points, Points]:
    box = case.relevant.box(0)
    return box.low, box.high


@settings(deadline=None, max_examples=60)
@given(cases(), st.integers(1, 5))
def test_diverse_choices_have_distinct_minimal_duals(case: Case, k: int) -> None:
    exceptions = exceptions_in(case, case.relevant.box(0))
    distance = Distance.of(case.space, case.instance, Mix())
    chosen = diverse(case, from_points(exceptions, case.instance), distance, k).expand(case.instance)
    relevant = case.relevant
    smallest = {row.tobytes() for row in minimal(duals_of(exceptions, relevant.low, relevant.high))}
    duals = {row.tobytes() for row in duals_of(chosen, relevant.low, relevant.high)}
    assert duals <= smallest
    assert len(duals) == len(chosen) == min(k, len(smallest))


def naive_distance(space: Space, instance: Points, point: Points, mix: Mix) -> float:
    parts = []
    for feature, home, code in zip(space.features, instance.tolist(), point.tolist(), strict=True):
        if home == code:
            parts.append(0.0)
        elif not feature.ordered or feature.missing_code in (home, code):
            parts.append(1.0)
        elif feature.numeric:
            values = feature.values
            parts.append(abs(values[code] - values[home]) / (values[-1] - values[0]))
        else:
            parts.append(abs(code - home) / (len(feature.values) - 1))
    n = len(space)
    changed = sum(home != code for home, code in zip(instance.tolist(), point.tolist(), strict=True))
    norms = (changed / n, sum(parts) / n, (sum(part**2 for part in parts) / n) ** 0.5, max(parts))
    return float(np.dot(norms, (mix.l0, mix.l1, mix.l2, mix.linf)))


@settings(deadline=None, max_examples=60)
@given(cases(), st.tuples(*[st.floats(0, 2)] * 4))
def test_the_distance_mixes_the_four_norms(case: Case, weights: tuple[float, float, float, float]) -> None:
    mix, points = Mix(*weights), every_point(case.space)
    distances = Distance.of(case.space, case.instance, mix)(from_points(points, case.instance))
    expected = [naive_distance(case.space, case.instance, point, mix) for point in points]
    assert distances == pytest.approx(expected)


def chained_case(texts: Sequence[str], desired: Points, monkeypatch: pytest.MonkeyPatch, listed: int) -> Case:
    """Four ordered features of six values, nothing desired but one point; a person at the bottom of all of them."""
    monkeypatch.setattr(constrained, "LISTED_COMBINATIONS", listed)
    space = Space(tuple(Feature(name, tuple(range(6)), ordered=True) for name in ("degree", "age", "income", "debt")))
    instance = np.zeros(4, dtype=np.int32)
    table = np.zeros((6, 6, 6, 6), dtype=np.bool_)
    table[tuple(desired.T)] = True
    allowed = feasible(space.features, [bind(parse(text), space.features) for text in texts], instance)
    return case_of(space, table, instance, instance[None, :], allowed)


CHAIN = (
    "if cf.degree > x.degree then cf.age >= x.age + 4",
    "if cf.age > x.age then cf.income == cf.age",
    "if cf.income > x.income then cf.debt in (5, 0)",
)


@pytest.mark.parametrize("listed", [200_000, 1, 0])
@pytest.mark.parametrize("seed", range(3))
def test_a_chain_of_implications_is_followed_to_its_end(
    listed: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = chained_case(CHAIN, np.array([[1, 4, 4, 5], [1, 5, 5, 0], [2, 0, 0, 0]]), monkeypatch, listed)
    found = points_of(find((case, case.relevant.box(0)), 5, seed))
    assert set(map(tuple, found.tolist())) <= {(1, 4, 4, 5), (1, 5, 5, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_a_cascade_mends_what_a_single_change_breaks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = chained_case(CHAIN, np.array([[1, 4, 4, 5]]), monkeypatch, listed=0)
    degree = np.array([[1, 0, 0, 0]], dtype=np.int32)
    mended = cascade(
        np.random.default_rng(seed),
        case,
        case.relevant.box(0),
        from_points(np.repeat(degree, 50, axis=0), degree[0] * 0),
    ).expand(case.instance)
    assert len(mended) > 0
    assert case.feasible.admits(mended).all()
    assert (mended[:, 0] == 1).all()


@pytest.mark.parametrize("text", ["if cf.degree >= 1 then x.age >= 3", "x.age >= 3", "if x.age < 3 then cf.degree < 1"])
def test_a_constraint_whose_consequence_is_about_the_instance_alone_is_kept(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = chained_case((text,), np.array([[1, 0, 0, 0], [0, 0, 0, 3]]), monkeypatch, listed=0)
    verdict = find((case, case.relevant.box(0)), 5, seed=0)
    if text.startswith("x"):
        assert isinstance(verdict, Unrefuted)
    else:
        assert points_of(verdict).tolist() == [[0, 0, 0, 3]]


@pytest.mark.parametrize("evaluations", [1, 2, 5, 20, 60])
def test_what_a_budget_found_is_kept_when_it_ends(evaluations: int) -> None:
    space = Space(tuple(Feature(f"f{place}", tuple(range(4)), ordered=True) for place in range(3)))
    table = np.ones((4, 4, 4), dtype=np.bool_)
    instance = np.zeros(3, dtype=np.int32)
    table[0, 0, 0] = False
    case = case_of(space, table, instance, instance[None, :])
    meter = meter_of(evaluations)
    verdict = GeCo().find(case, case.relevant.box(0), 2, meter, np.random.default_rng(0))
    assert points_of(verdict).any(axis=1).all()
    assert meter.evaluations <= evaluations

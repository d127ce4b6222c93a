"""GeCo on tiny spaces, where exhaustive search says what there is to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.hitting.reduce import find_minimal_sets
from ironrule.model.history import build_history
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights, build_deltas
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.geco.population import enforce_constraints, find_feasible_changes, select_diverse
from ironrule.oracles.protocol import BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.rule.instance_components import build_instance_components
from ironrule.rule.kernels import compute_duals
from ironrule.space.constraints import feasible
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.feasible import build_feasible_region
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted, Verdict
from tiny_cases import Flags, TableModel, case_of, cases, codes_of, every_point, exceptions_in, meter_of, rules_of


@st.composite
def questions(draw: st.DrawFn) -> tuple[Case, Box]:
    case = draw(cases(recourse=draw(st.booleans())))
    return case, case.components.box(draw(rules_of(case)))


def find(question: tuple[Case, Box], k: int, seed: int, geco: GeCo | None = None) -> Verdict:
    case, box = question
    return (geco or GeCo()).find(BoxQuery(case, box, k), Run(meter_of(), np.random.default_rng(seed)))


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
    duals = compute_duals(verdict.points, case.components.low, case.components.high)
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
    population = GeCo(population=10).build_population(BoxQuery(case, case.components.box(0)), Run(meter_of(), rng))
    for _ in range(4):
        points = case.feasible.draw(rng, *_ends(case), 30)
        population.admit(build_deltas(points, case.instance))
        flags = population.desired
        assert not (flags[1:] & ~flags[:-1]).any()
        for part in (population.members[flags], population.members[~flags]):
            assert (np.diff(population.distance(part)) >= 0).all()
        assert len(population.members) <= max(10, min(int(flags.sum()), 20))


def _ends(case: Case) -> tuple[Points, Points]:
    box = case.components.box(0)
    return box.low, box.high


@settings(deadline=None, max_examples=60)
@given(cases(), st.integers(1, 5))
def test_diverse_choices_have_distinct_minimal_duals(case: Case, k: int) -> None:
    exceptions = exceptions_in(case, case.components.box(0))
    distance = InstanceDistance.build(case.space, case.instance, NormWeights())
    chosen = select_diverse(case, build_deltas(exceptions, case.instance), distance, k).expand(case.instance)
    components = case.components
    smallest = {row.tobytes() for row in find_minimal_sets(compute_duals(exceptions, components.low, components.high))}
    duals = {row.tobytes() for row in compute_duals(chosen, components.low, components.high)}
    assert duals <= smallest
    assert len(duals) == len(chosen) == min(k, len(smallest))


def naive_distance(space: Space, instance: Points, point: Points, norm_weights: NormWeights) -> float:
    parts = []
    for feature, original, code in zip(space.features, instance.tolist(), point.tolist(), strict=True):
        if original == code:
            parts.append(0.0)
        elif not feature.ordered or feature.missing_code in (original, code):
            parts.append(1.0)
        elif feature.numeric:
            values = feature.values
            parts.append(abs(values[code] - values[original]) / (values[-1] - values[0]))
        else:
            parts.append(abs(code - original) / (len(feature.values) - 1))
    n = len(space)
    changed = sum(original != code for original, code in zip(instance.tolist(), point.tolist(), strict=True))
    norms = (changed / n, sum(parts) / n, (sum(part**2 for part in parts) / n) ** 0.5, max(parts))
    return float(np.dot(norms, (norm_weights.l0, norm_weights.l1, norm_weights.l2, norm_weights.linf)))


@settings(deadline=None, max_examples=60)
@given(cases(), st.tuples(*[st.floats(0, 2)] * 4))
def test_the_distance_mixes_the_four_norms(case: Case, weights: tuple[float, float, float, float]) -> None:
    norm_weights, points = NormWeights(*weights), every_point(case.space)
    distances = InstanceDistance.build(case.space, case.instance, norm_weights)(build_deltas(points, case.instance))
    expected = [naive_distance(case.space, case.instance, point, norm_weights) for point in points]
    assert distances == pytest.approx(expected)


def chained_case(texts: Sequence[str], desired: Points, monkeypatch: pytest.MonkeyPatch, listed: int) -> Case:
    """Four ordered features of six values, nothing desired but one point; a person at the bottom of all of them."""
    monkeypatch.setattr(feasible, "MAX_LISTED_COMBINATIONS", listed)
    space = Space(tuple(Feature(name, tuple(range(6)), ordered=True) for name in ("degree", "age", "income", "debt")))
    instance = np.zeros(4, dtype=np.int32)
    table = np.zeros((6, 6, 6, 6), dtype=np.bool_)
    table[tuple(desired.T)] = True
    allowed = build_feasible_region(
        space.features, [bind_constraint(parse_constraint(text), space.features) for text in texts], instance
    )
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
    found = points_of(find((case, case.components.box(0)), 5, seed))
    assert set(map(tuple, found.tolist())) <= {(1, 4, 4, 5), (1, 5, 5, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_a_cascade_mends_what_a_single_change_breaks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = chained_case(CHAIN, np.array([[1, 4, 4, 5]]), monkeypatch, listed=0)
    degree = np.array([[1, 0, 0, 0]], dtype=np.int32)
    mended = enforce_constraints(
        np.random.default_rng(seed),
        case,
        case.components.box(0),
        build_deltas(np.repeat(degree, 50, axis=0), degree[0] * 0),
    ).expand(case.instance)
    assert len(mended) > 0
    assert case.feasible.admits(mended).all()
    assert (mended[:, 0] == 1).all()


@pytest.mark.parametrize("text", ["if cf.degree >= 1 then x.age >= 3", "x.age >= 3", "if x.age < 3 then cf.degree < 1"])
def test_a_constraint_whose_consequence_is_about_the_instance_alone_is_kept(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = chained_case((text,), np.array([[1, 0, 0, 0], [0, 0, 0, 3]]), monkeypatch, listed=0)
    verdict = find((case, case.components.box(0)), 5, seed=0)
    if text.startswith("x"):
        assert isinstance(verdict, Unrefuted)
    else:
        assert points_of(verdict).tolist() == [[0, 0, 0, 3]]


@pytest.mark.parametrize(("evaluations", "stopped"), [(1, "budget"), (2, "budget"), (5, "budget"), (1_000, None)])
def test_what_a_budget_found_is_kept_when_it_ends(evaluations: int, stopped: str | None) -> None:
    space = Space(tuple(Feature(f"f{place}", tuple(range(4)), ordered=True) for place in range(3)))
    table = np.ones((4, 4, 4), dtype=np.bool_)
    instance = np.zeros(3, dtype=np.int32)
    table[0, 0, 0] = False
    case = case_of(space, table, instance, instance[None, :])
    meter = meter_of(evaluations)
    verdict = GeCo().find(BoxQuery(case, case.components.box(0), 2), Run(meter, np.random.default_rng(0)))
    assert points_of(verdict).any(axis=1).all()
    assert isinstance(verdict, Refuted)
    assert verdict.stopped == stopped
    assert meter.evaluations <= evaluations


@dataclass(frozen=True, slots=True, eq=False)
class Stubborn:
    """A model that says no to everything, and keeps what it was asked."""

    asked: list[Points] = field(default_factory=list)

    def desired(self, points: Points) -> Flags:
        self.asked.append(points.copy())
        return np.zeros(len(points), dtype=np.bool_)


def stubborn_case(past: int) -> tuple[Case, Stubborn]:
    """Six features of fifty values, the instance in the middle; so many past rows that the model once desired."""
    space = Space(tuple(Feature(f"f{place}", tuple(range(50)), ordered=True) for place in range(6)))
    rows = np.random.default_rng(1).integers(0, 50, size=(past, 6), dtype=np.int32)
    model, components = Stubborn(), build_instance_components(space, np.full(6, 25, dtype=np.int32))
    history = build_history(space, codes_of(space, rows), np.ones(past, dtype=np.bool_))
    return Case(space, model, history, components, space.feasible), model


def differing(points: Points, others: Points) -> Points:
    """In how many features each point differs from the nearest of the others."""
    return np.asarray((points[:, None, :] != others[None, :, :]).sum(axis=2).min(axis=1))


@pytest.mark.parametrize("past", [0, 40])
def test_before_it_gives_up_every_effort_is_made_in_the_promised_order(past: int) -> None:
    case, model = stubborn_case(past)
    box = case.components.box(case.components.select(["f0 <=", "f1 >="]))
    geco = GeCo(population=12, initial=5, generations=2, restarts=2, samples=300)
    verdict = find((case, box), k=5, seed=0, geco=geco)
    assert isinstance(verdict, Unrefuted)
    assert verdict.tried == sum(map(len, model.asked))
    assert all(box.contains(points).all() for points in model.asked)

    efforts, original = iter(model.asked), case.instance[None, :]
    singles = next(efforts)
    assert (differing(singles, original) == 1).all()
    assert set((singles != original).nonzero()[1].tolist()) == set(range(6))
    seeds = [original, singles]
    if past:
        clipped = next(efforts)
        assert set(map(tuple, clipped.tolist())) == set(map(tuple, box.clip(case.history.seeds).tolist()))
        seeds.append(clipped)
    parents = np.concatenate(seeds)
    for restart in range(3):
        if restart:
            parents = next(efforts)
            assert len(parents) == 12
            assert differing(parents, original).mean() > 5  # drawn from the whole box, not bred from the nearest
        for _ in range(2):
            children = next(efforts)
            assert len(children) >= 12
            assert (differing(children, parents) <= 2).all()
            parents = np.concatenate([parents, children])
    samples = next(efforts)
    assert len(samples) == 300
    assert differing(samples, original).mean() > 5
    assert next(efforts, None) is None


def test_a_small_box_is_asked_about_completely_before_it_gives_up() -> None:
    case, model = stubborn_case(past=0)
    box = Box(np.full(6, 24, dtype=np.int32), np.full(6, 26, dtype=np.int32))
    verdict = find((case, box), k=5, seed=0, geco=GeCo(generations=1, restarts=0))
    assert isinstance(verdict, Unrefuted)
    assert len(np.unique(np.concatenate(model.asked), axis=0)) == 3**6 - 1  # all but the instance


def test_changes_are_drawn_as_often_as_the_history_has_their_values() -> None:
    counts = {"grade": (70, 20, 0, 9, 1), "job": (1, 50, 49)}
    space = Space(
        (Feature("grade", tuple(range(5)), ordered=True), Feature("job", ("cook", "clerk", "smith"), ordered=False))
    )
    columns = [np.repeat(np.arange(len(some)), some) for some in counts.values()]
    history = np.stack(columns, axis=1).astype(np.int32)
    case = case_of(space, np.zeros((5, 3), dtype=np.bool_), np.array([1, 0], dtype=np.int32), history)
    changes = find_feasible_changes(case, case.components.box(0))
    for unit, seen in enumerate(counts.values()):
        drawn = changes.draw(np.random.default_rng(0), np.full(20_000, unit))
        assert set(drawn.features.ravel().tolist()) == {unit}
        weights = np.array(seen) + 1.0
        weights[case.instance[unit]] = 0.0
        shares = np.bincount(drawn.codes.ravel(), minlength=len(seen)) / 20_000
        assert shares == pytest.approx(weights / weights.sum(), abs=0.015)


@dataclass(frozen=True, slots=True, eq=False)
class Interrupted:
    """A model that desires all but the instance, and is stopped by Ctrl-C after so many calls."""

    instance: Points
    calls: list[int]

    def desired(self, points: Points) -> Flags:
        if not self.calls:
            raise KeyboardInterrupt
        self.calls.pop()
        return np.asarray((points != self.instance).any(axis=1))


def test_ctrl_c_after_something_was_found_gives_it_and_says_so() -> None:
    case, _ = stubborn_case(past=0)
    model = Interrupted(case.instance, [1])
    stopped = Case(case.space, model, case.history, case.components, case.feasible)
    verdict = find((stopped, case.components.box(0)), k=3, seed=0)
    assert isinstance(verdict, Refuted)
    assert verdict.stopped == "interrupted"
    assert 1 <= len(verdict.points) <= 3
    assert (verdict.points != case.instance).any(axis=1).all()


def test_ctrl_c_before_anything_was_found_is_passed_on() -> None:
    case, _ = stubborn_case(past=0)
    stopped = Case(case.space, Interrupted(case.instance, []), case.history, case.components, case.feasible)
    with pytest.raises(KeyboardInterrupt):
        find((stopped, case.components.box(0)), k=3, seed=0)

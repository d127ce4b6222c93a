"""What every algorithm promises, on tiny random cases against all rules there are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Oracle, Run
from ironrule.rule.box import Box
from ironrule.search.algorithms import ALGORITHMS, load_algorithm
from ironrule.search.anchor import Anchor
from ironrule.search.driver import SearchResult, solve
from ironrule.search.genetic import AddOneCrossover, GeneticRule, GeneticRuleCF, HistorySampler, _Evolution
from ironrule.search.greedy_cf import GreedyRuleCF
from ironrule.search.min_set_cover import MinSetCover
from ironrule.search.problem import Algorithm, Problem, SearchState
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Verdict
from tiny_cases import case_of, cases, consistent, every_point, exceptions_in, problem_of, subsets

BY_THE_PAST = {"min_set_cover", "anchor"}  # what past rows do not show is not seen by these
every_algorithm = pytest.mark.parametrize(
    "algorithm", [load_algorithm(name)() for name in ALGORITHMS], ids=list(ALGORITHMS)
)
BEYOND = [name for name in ALGORITHMS if name not in BY_THE_PAST]
algorithms_that_look_beyond_the_past = pytest.mark.parametrize(
    "algorithm", [load_algorithm(name)() for name in BEYOND], ids=BEYOND
)
every_exact_oracle = pytest.mark.parametrize(
    "oracle", [Exhaustive(), SearchThenProve()], ids=["exhaustive", "search_then_prove"]
)
AS_PROGRAMMED = {  # by the paper's authors, but for one dual instead of five: more than five are rare on tiny spaces
    "greedy, as programmed": GreedyRuleCF(duals=1),
    "genetic, as programmed": GeneticRuleCF(sampler=HistorySampler(), crossover=AddOneCrossover(), duals=1),
}
WITH_ORACLE = {"greedy": GreedyRuleCF(), "genetic": GeneticRuleCF(), **AS_PROGRAMMED}
algorithms_with_oracle = pytest.mark.parametrize("algorithm", WITH_ORACLE.values(), ids=WITH_ORACLE)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A case, and what a rule for it may and must use."""

    case: Case
    allowed: int
    required: tuple[int, ...]
    k: int

    def problem(self, oracle: Oracle, seed: int = 0) -> Problem:
        return problem_of(self.case, oracle, k=self.k, seed=seed, allowed=self.allowed, required=self.required)

    def fits(self, rule: int) -> bool:
        return rule & ~self.allowed == 0 and all(rule & some for some in self.required)

    def consistent_rules(self) -> list[int]:
        """All that fit, shortest first."""
        return [rule for rule in subsets(self.allowed) if self.fits(rule) and consistent(self.case, rule)]


@st.composite
def tasks(draw: st.DrawFn, restricted: bool = True) -> Task:
    case = draw(cases(most_features=4, most_codes=3))
    usable = case.components.usable_numbers
    forbidden = [bit for bit in usable if restricted and draw(st.integers(0, 5)) == 0]
    allowed = sum(1 << bit for bit in usable if bit not in forbidden)
    wanted = [bit for bit in usable if bit not in forbidden and restricted and draw(st.integers(0, 5)) == 0]
    required = tuple(allowed & (0b11 << (bit // 2 * 2)) if draw(st.booleans()) else 1 << bit for bit in wanted)
    return Task(case, allowed, required, draw(st.integers(1, 5)))


def assert_honest(case: Case, findings: SearchResult) -> None:
    """No verdict says what enumeration contradicts."""
    assert len(findings.rules) == len(findings.verdicts) >= 1
    for rule, verdict in zip(findings.rules, findings.verdicts, strict=True):
        box = case.components.box(rule)
        exceptions = {point.tobytes() for point in exceptions_in(case, box)}
        if isinstance(verdict, Proven):
            assert not exceptions
        if isinstance(verdict, Refuted):
            assert {point.tobytes() for point in verdict.points} <= exceptions
        past = case.history.desired.points()
        assert isinstance(verdict, Refuted) or not box.contains(past).any()


@every_algorithm
@every_exact_oracle
@settings(deadline=None, max_examples=25)
@given(task=tasks(), seed=st.integers(0, 99))
def test_rules_hold_for_the_instance_use_what_they_may_and_carry_honest_verdicts(
    algorithm: Algorithm, oracle: Oracle, task: Task, seed: int
) -> None:
    findings = solve(task.problem(oracle, seed), algorithm)
    assert findings.stopped is None
    assert 1 <= len(findings.rules) <= task.k
    assert len(set(findings.rules)) == len(findings.rules)
    assert all(task.fits(rule) for rule in findings.rules)
    assert all(task.case.components.box(rule).contains(task.case.instance[None, :])[0] for rule in findings.rules)
    assert not any(later & rule == rule for i, rule in enumerate(findings.rules) for later in findings.rules[i + 1 :])
    assert_honest(task.case, findings)


@every_algorithm
@settings(deadline=None, max_examples=15)
@given(task=tasks(), seed=st.integers(0, 99))
def test_the_same_seed_gives_the_same_rules(algorithm: Algorithm, task: Task, seed: int) -> None:
    first, second = (solve(task.problem(SearchThenProve(), seed), algorithm) for _ in range(2))
    assert first.rules == second.rules
    assert list(map(type, first.verdicts)) == list(map(type, second.verdicts))


@algorithms_with_oracle
@every_exact_oracle
@settings(deadline=None, max_examples=40)
@given(task=tasks(), seed=st.integers(0, 99))
def test_the_best_rule_is_proven_and_without_redundant_components_whenever_some_rule_is_consistent(
    algorithm: Algorithm, oracle: Oracle, task: Task, seed: int
) -> None:
    findings = solve(task.problem(oracle, seed), algorithm)
    possible, best = task.consistent_rules(), findings.rules[0]
    assert isinstance(findings.verdicts[0], Proven if possible else Refuted)
    if possible:
        assert best in possible
        assert not any(best & ~(1 << bit) in possible for bit in range(best.bit_length()) if best >> bit & 1)


@pytest.mark.parametrize("duals", [None, 5, 1])
@every_exact_oracle
@settings(deadline=None, max_examples=40)
@given(task=tasks(), seed=st.integers(0, 99))
def test_the_greedy_search_finds_a_shortest_consistent_rule_however_many_duals_an_extension_hits(
    duals: int | None, oracle: Oracle, task: Task, seed: int
) -> None:
    possible = task.consistent_rules()
    best = solve(task.problem(oracle, seed), GreedyRuleCF(duals=duals)).rules[0]
    assert not possible or best.bit_count() == possible[0].bit_count()


@pytest.mark.parametrize(
    "algorithm", [GeneticRule(), GeneticRule(sampler=HistorySampler(), crossover=AddOneCrossover())]
)
@settings(deadline=None, max_examples=40)
@given(task=tasks(restricted=False), seed=st.integers(0, 99))
def test_the_plain_genetic_search_ends_with_rules_that_no_past_row_contradicts(
    algorithm: Algorithm, task: Task, seed: int
) -> None:
    findings = solve(task.problem(Exhaustive(), seed), algorithm)
    assert_honest(task.case, findings)
    past = task.case.history.desired.points()
    for rule in findings.rules:
        assert not task.case.components.box(rule).contains(past).any()


@every_algorithm
def test_a_model_that_never_says_yes_is_explained_by_the_empty_rule(algorithm: Algorithm) -> None:
    case = _corner_case(desired=False)
    findings = solve(problem_of(case, SearchThenProve(), k=1), algorithm)
    assert findings.rules == (0,)
    assert isinstance(findings.verdicts[0], Proven)


@every_algorithm
def test_what_is_required_is_all_that_a_rule_has_if_the_model_never_says_yes(algorithm: Algorithm) -> None:
    case = _corner_case(desired=False)
    findings = solve(
        problem_of(case, SearchThenProve(), k=1, required=(case.components.select(["age <="]),)), algorithm
    )
    assert findings.rules == (case.components.select(["age <="]),)
    assert isinstance(findings.verdicts[0], Proven)


@algorithms_that_look_beyond_the_past
def test_where_no_rule_can_be_consistent_the_longest_is_refuted_although_no_past_row_shows_it(
    algorithm: Algorithm,
) -> None:
    _assert_the_longest_is_refuted(algorithm, _corner_case(desired=True))


@every_algorithm
def test_where_past_rows_contradict_every_rule_the_longest_is_refuted(algorithm: Algorithm) -> None:
    _assert_the_longest_is_refuted(algorithm, _corner_case(desired=True, all_past=True))


def _assert_the_longest_is_refuted(algorithm: Algorithm, case: Case) -> None:
    allowed = case.components.select(["age <=", "age >="])
    findings = solve(problem_of(case, SearchThenProve(), k=1, allowed=allowed), algorithm)
    assert findings.rules == (allowed,)
    assert isinstance(findings.verdicts[0], Refuted)


def _corner_case(desired: bool, all_past: bool = False) -> Case:
    """Two ordered features of three values; everybody but the instance in the middle gets one outcome.

    The history is the instance alone, or every point.
    """
    space = Space((Feature("age", (1, 2, 3), ordered=True), Feature("debt", (1, 2, 3), ordered=True)))
    table = np.full((3, 3), desired)
    instance = np.ones(2, dtype=np.int32)
    table[1, 1] = False
    return case_of(space, table, instance, every_point(space) if all_past else instance[None, :])


@every_algorithm
def test_a_search_says_what_it_did(algorithm: Algorithm) -> None:
    case = _corner_case(desired=True, all_past=type(algorithm) in {load_algorithm(name) for name in BY_THE_PAST})
    problem = problem_of(case, Exhaustive(), k=2)
    findings = solve(problem, algorithm)
    meter = problem.meter
    assert findings.rules[0] == case.components.usable
    assert meter.evaluations == sum(map(len, case.model.asked))  # type: ignore[attr-defined]
    assert meter.calls == len(case.model.asked)  # type: ignore[attr-defined]
    assert meter.events["candidates"] > 0
    expected = {
        GreedyRuleCF: ({"cf rules"}, {"oracle calls", "extensions"}),
        GeneticRule: ({"preparation", "crossover", "mutate", "selection", "check"}, {"generations"}),
        GeneticRuleCF: (
            {"preparation", "crossover", "mutate", "selection", "cf rules", "reduction"},
            {"generations", "oracle calls", "extensions"},
        ),
        Anchor: ({"bandit", "precision", "check"}, set()),
        MinSetCover: ({"hitting set", "check"}, set()),
    }
    operators, counts = expected.get(type(algorithm), (set(), set()))
    assert operators <= set(meter.seconds)
    assert counts <= {name for name, count in meter.events.items() if count > 0}


@pytest.mark.parametrize("algorithm", [GeneticRule(generations=1), GeneticRuleCF(generations=1)])
def test_a_limit_on_generations_stops_a_genetic_search_with_honest_verdicts(algorithm: Algorithm) -> None:
    case = _corner_case(desired=True)
    problem = problem_of(case, Exhaustive(), k=3)
    findings = solve(problem, algorithm)
    assert problem.meter.events["generations"] >= 1
    assert_honest(case, findings)


def _stable_top(algorithm: GeneticRule | GeneticRuleCF, k: int) -> tuple[Problem, SearchResult]:
    case = _corner_case(desired=True)
    problem = problem_of(case, Exhaustive(), k=k)
    return problem, solve(problem, algorithm)


@pytest.mark.parametrize("algorithm", [GeneticRule(), GeneticRuleCF()])
def test_a_genetic_search_ends_long_before_its_last_generation(algorithm: GeneticRule | GeneticRuleCF) -> None:
    problem, findings = _stable_top(algorithm, k=1)
    assert 1 < problem.meter.events["generations"] < algorithm.generations
    assert isinstance(findings.verdicts[0], Proven)


def test_a_narrow_queue_still_ends_with_a_consistent_rule() -> None:
    case = _corner_case(desired=True)
    findings = solve(problem_of(case, Exhaustive(), k=1), GreedyRuleCF(q=1))
    assert isinstance(findings.verdicts[0], Proven)


@dataclass(frozen=True, slots=True, eq=False)
class Telling:
    """An oracle that knows some counterfactuals, tells the first ones that lie in a box, and keeps the boxes."""

    points: Points
    asked: list[Box] = field(default_factory=list)
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:  # noqa: ARG002
        self.asked.append(query.box)
        inside = self.points[query.box.contains(self.points)]
        return query.case.build_refuted(inside[: query.k]) if len(inside) else NOT_SEARCHED


def _three_numbers(desired: Points, past: Points | None = None) -> Case:
    """Three ordered features of three values; desired are the points given; the instance is in the middle."""
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(3)))
    table = np.zeros((3, 3, 3), dtype=np.bool_)
    table[tuple(desired.T)] = True
    instance = np.ones(3, dtype=np.int32)
    return case_of(space, table, instance, instance[None, :] if past is None else past)


def test_the_greedy_search_takes_a_short_candidate_before_a_longer_one_that_would_do_as_well() -> None:
    desired = np.array([[2, 1, 2], [1, 2, 2]], dtype=np.int32)  # past f2 <= 1, and past f0 <= 1 or f1 <= 1
    case = _three_numbers(desired)
    short, long = case.components.select(["f2 <="]), case.components.select(["f0 <=", "f1 <="])
    assert consistent(case, short)
    assert consistent(case, long)
    assert long < short  # as numbers, so that only cardinality can decide for the short one
    assert GreedyRuleCF().run(problem_of(case, Telling(desired)), SearchState()) == [short]


def test_among_candidates_of_one_length_the_greedy_search_asks_first_about_the_one_that_past_rows_support() -> None:
    both, one = np.array([[2, 2, 1]], dtype=np.int32), np.array([[1, 2, 1]], dtype=np.int32)
    desired = np.concatenate([both, one])
    case, oracle = _three_numbers(desired, past=one), Telling(desired)
    contradicted, supported = case.components.select(["f0 <="]), case.components.select(["f1 <="])
    assert contradicted < supported  # as numbers, so that only the past row can decide
    assert GreedyRuleCF().run(problem_of(case, oracle, k=1), SearchState()) == [supported]
    expected = [case.components.box(0), case.components.box(supported)]
    assert [(box.low.tolist(), box.high.tolist()) for box in oracle.asked] == [
        (box.low.tolist(), box.high.tolist()) for box in expected
    ]


@pytest.mark.parametrize(("one", "other"), [([0, 2], [4, 6, 8]), ([0], [3]), ([], [5, 7]), ([0, 1, 2, 3], [6, 8])])
def test_a_crossing_has_one_component_more_than_its_longer_parent(one: list[int], other: list[int]) -> None:
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(6)))
    instance = np.ones(6, dtype=np.int32)
    case = case_of(space, np.zeros((3,) * 6, dtype=np.bool_), instance, instance[None, :])
    parents = [sum(1 << bit for bit in bits) for bits in (one, other)]
    evolution = _Evolution(problem_of(case, Exhaustive()), SearchState(), GeneticRule(c=20))
    children, union = evolution._crossover(parents), parents[0] | parents[1]
    size = min(max(len(one), len(other)) + 1, union.bit_count())
    assert {child.bit_count() for child in children} == {size}
    assert all(child & ~union == 0 for child in children)
    assert len(children) > 1 or size == union.bit_count()


def test_a_rule_that_contains_the_reduced_best_one_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _three_numbers(np.array([[2, 1, 1]], dtype=np.int32))
    best, reduced = case.components.select(["f0 <=", "f1 <="]), case.components.select(["f0 <="])
    other = case.components.select(["f0 <=", "f2 >="])
    monkeypatch.setattr(_Evolution, "run", lambda _: [best, other])
    assert solve(problem_of(case, Exhaustive()), GeneticRuleCF()).rules == (reduced,)


def test_a_short_rule_that_is_refuted_hides_no_longer_one_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _three_numbers(np.array([[2, 1, 1], [1, 2, 1]], dtype=np.int32))
    short = case.components.select(["f0 <="])
    long, longest = short | case.components.select(["f1 <="]), short | case.components.select(["f1 <=", "f2 <="])
    monkeypatch.setattr(_Evolution, "run", lambda _: [short, long, longest])
    findings = solve(problem_of(case, Exhaustive()), GeneticRule())
    assert findings.rules == (long, short)
    assert [type(verdict) for verdict in findings.verdicts] == [Proven, Refuted]


def _extensions_after(generations: int, every: int) -> int:
    """How many rules counterfactuals gave to a genetic search, in a case where only the longest rule is consistent.

    Past rows contradict every shorter rule, so the top is never data consistent in the first generations.
    """
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(8)))
    instance = np.ones(8, dtype=np.int32)
    steps = np.eye(8, dtype=np.int32)
    around = np.concatenate([instance + steps, instance - steps])
    table = np.zeros((3,) * 8, dtype=np.bool_)
    table[tuple(around.T)] = True
    problem = problem_of(case_of(space, table, instance, around), Telling(around), k=1)
    GeneticRuleCF(generations=generations, every=every, q=20).run(problem, SearchState())
    assert problem.meter.events["generations"] == generations
    return problem.meter.events["extensions"]


@pytest.mark.parametrize("every", [2, 3])
def test_counterfactuals_give_rules_at_the_start_and_then_only_every_so_many_generations(every: int) -> None:
    counts = [_extensions_after(generations, every) for generations in range(1, 2 * every + 1)]
    assert counts[0] > 0
    grown = [1 + place for place in range(1, len(counts)) if counts[place] > counts[place - 1]]
    assert grown == [every, 2 * every]

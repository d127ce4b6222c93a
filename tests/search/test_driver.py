"""The loop that drives every algorithm: whatever stops it, the answer is the best it has and an honest verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.search.algorithms import ALGORITHMS, load_algorithm
from ironrule.search.driver import SearchResult, solve
from ironrule.search.problem import Algorithm, Problem, SearchState
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Unrefuted, Verdict
from tiny_cases import Flags, TableModel, case_of, cases, consistent, exceptions_in, problem_of

every_algorithm = pytest.mark.parametrize(
    "algorithm", [load_algorithm(name)() for name in ALGORITHMS], ids=list(ALGORITHMS)
)


@dataclass(frozen=True, slots=True, eq=False)
class Interrupting:
    """A model during whose ``last`` call somebody presses Ctrl-C."""

    table: Flags
    last: int
    calls: list[int] = field(default_factory=list)

    def desired(self, points: Points) -> Flags:
        self.calls.append(len(points))
        if len(self.calls) >= self.last:
            raise KeyboardInterrupt
        return np.asarray(self.table[tuple(points.T)])


def a_case(model: object = None, past: bool = True) -> Case:
    """Five features of four values; desired are those far above or far below the middle."""
    rng = np.random.default_rng(7)
    space = Space(
        (
            *(Feature(f"f{place}", (0, 1, 2, 3), ordered=True, missing=place == 1) for place in range(4)),
            Feature("job", ("cook", "clerk", "smith"), ordered=False),
        )
    )
    table = _outcomes(space)
    instance = np.array([1, 1, 2, 1, 0], dtype=np.int32)
    rows = np.stack([rng.integers(0, size, size=30) for size in space.sizes], axis=1).astype(np.int32)
    return case_of(space, table, instance, rows if past else instance[None, :], model=model)


def _outcomes(space: Space) -> Flags:
    grid = np.indices(tuple(space.sizes))
    table: Flags = (grid[:4].sum(axis=0) + 2 * (grid[4] == 2) >= 8) | (grid[:3].sum(axis=0) <= 1)
    assert not table[1, 1, 2, 1, 0]
    return table


def assert_honest(problem: Problem, findings: SearchResult) -> None:
    """Every verdict stands before enumeration, and nothing known contradicts a rule that is not refuted."""
    case = problem.case
    table = _outcomes(case.space) if not isinstance(case.model, TableModel) else case.model.table
    known_case = case_of(case.space, table, case.instance, case.history.codes.points(), case.feasible)
    known = [case.history.desired.points()] + ([] if problem.oracle.points is None else [problem.oracle.points])
    for rule, verdict in zip(findings.rules, findings.verdicts, strict=True):
        box = case.components.box(rule)
        exceptions = {point.tobytes() for point in exceptions_in(known_case, box)}
        assert rule & ~problem.allowed == 0
        assert problem.meets_requirements(rule) or findings.stopped is None
        match verdict:
            case Proven():
                assert not exceptions
            case Refuted():
                assert {point.tobytes() for point in verdict.points} <= exceptions
            case Unrefuted():
                assert not any(box.contains(points).any() for points in known)
                assert verdict.samples <= verdict.tried


@every_algorithm
@pytest.mark.parametrize("searches_first", [True, False])
def test_a_budget_of_any_size_gives_an_honest_answer_and_is_never_passed(
    algorithm: Algorithm, searches_first: bool
) -> None:
    stopped = []
    for evaluations in (*range(1, 60, 3), *range(60, 600, 45), *range(600, 6_000, 900), 20_000, None):
        oracle = SearchThenProve() if searches_first else Exhaustive()
        problem = problem_of(a_case(), oracle, k=2, budget=Budget(evaluations=evaluations))
        findings = solve(problem, algorithm)
        assert evaluations is None or problem.meter.evaluations <= evaluations
        assert_honest(problem, findings)
        stopped.append(findings.stopped)
    assert (stopped[0], stopped[-1]) == ("budget", None)


@every_algorithm
def test_ctrl_c_at_any_moment_gives_an_honest_answer(algorithm: Algorithm) -> None:
    finished = solve(problem := problem_of(a_case(), SearchThenProve(), k=2), algorithm)
    assert finished.stopped is None
    calls = problem.meter.calls
    for last in sorted({*range(1, min(12, calls + 1)), *range(1, calls + 1, 1 + calls // 12)}):
        problem = problem_of(a_case(Interrupting(_outcomes(a_case().space), last)), SearchThenProve(), k=2)
        findings = solve(problem, algorithm)
        assert findings.stopped == "interrupted"
        assert_honest(problem, findings)


@every_algorithm
@settings(deadline=None, max_examples=40)
@given(case=cases(), evaluations=st.integers(1, 3_000), forbidden=st.integers(0, 2**10 - 1))
def test_no_budget_makes_a_search_claim_what_enumeration_contradicts(
    algorithm: Algorithm, case: Case, evaluations: int, forbidden: int
) -> None:
    allowed = case.components.usable & ~(forbidden & forbidden >> 3)
    required = (allowed & -allowed,) if allowed and forbidden & 1 else ()
    problem = problem_of(
        case, SearchThenProve(), k=2, budget=Budget(evaluations=evaluations), allowed=allowed, required=required
    )
    findings = solve(problem, algorithm)
    assert problem.meter.evaluations <= evaluations
    assert_honest(problem, findings)


@dataclass(slots=True, eq=False)
class Proposing:
    """An algorithm that proposes the given rules, one list per run."""

    runs: list[list[int]]
    attempts: int = 20

    def run(self, problem: Problem, state: SearchState) -> list[int]:  # noqa: ARG002
        state.best = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        return state.best


@dataclass(frozen=True, slots=True)
class Blind:
    """An oracle that never finds anything."""

    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:  # noqa: ARG002
        return NOT_SEARCHED


def test_a_rule_that_the_check_refutes_is_searched_for_again() -> None:
    case = a_case()
    algorithm = Proposing([[0], [case.components.usable]])
    findings = solve(problem_of(case, Blind()), algorithm)
    assert findings.rules == (case.components.usable,)
    assert isinstance(findings.verdicts[0], Proven)


def test_a_refuted_rule_is_returned_as_refuted_and_last_when_attempts_run_out() -> None:
    case = a_case()
    findings = solve(problem_of(case, Blind()), Proposing([[0, case.components.usable]], attempts=1))
    assert findings.rules == (case.components.usable, 0)
    assert [type(verdict) for verdict in findings.verdicts] == [Proven, Refuted]


def test_what_one_check_finds_counts_against_rules_that_were_checked_before() -> None:
    sizes = (300, 30, 300)
    space = Space(tuple(Feature(f"f{place}", tuple(range(size)), ordered=True) for place, size in enumerate(sizes)))
    instance = np.zeros(3, dtype=np.int32)
    table = np.zeros(sizes, dtype=np.bool_)
    table[299, 0, 0] = True
    case = case_of(space, table, instance, instance[None, :])
    drawn, listed = case.components.select(["f1 <="]), case.components.select(["f2 <="])
    assert isinstance(solve(problem_of(case, Blind()), Proposing([[drawn]], attempts=1)).verdicts[0], Unrefuted)
    findings = solve(problem_of(case, Blind()), Proposing([[drawn, listed]], attempts=1))
    assert [type(verdict) for verdict in findings.verdicts] == [Refuted, Refuted]


def test_a_past_row_refutes_a_rule_although_neither_search_nor_check_came_upon_it() -> None:
    space = Space(tuple(Feature(f"f{place}", tuple(range(50)), ordered=True) for place in range(4)))
    instance = np.full(4, 25, dtype=np.int32)
    rare = np.array([[26, 24, 1, 49], [25, 25, 25, 25]], dtype=np.int32)

    @dataclass(frozen=True, slots=True)
    class OneRow:
        def desired(self, points: Points) -> Flags:
            return np.asarray((points == rare[0]).all(axis=1))

    table = np.zeros((50,) * 4, dtype=np.bool_)
    table[tuple(rare[0])] = True
    case = case_of(space, table, instance, rare, model=OneRow())
    findings = solve(problem_of(case, Blind()), Proposing([[0]], attempts=1))
    assert isinstance(findings.verdicts[0], Refuted)
    assert findings.verdicts[0].points.tolist() == rare[:1].tolist()


def test_a_check_that_refutes_is_remembered_when_the_next_check_is_interrupted() -> None:
    case = a_case(past=False)
    outer, inner = 0, case.components.select(["f0 >="])
    whole, part = case.components.box(outer).size, case.components.box(inner).size
    problem = problem_of(case, Blind(), budget=Budget(evaluations=whole + part - 1))
    findings = solve(problem, Proposing([[outer, inner]]))
    assert findings.stopped == "budget"
    assert problem.oracle.points is not None
    assert findings.rules[0] != outer
    assert_honest(problem, findings)


def test_an_unrefuted_rule_carries_the_bound_that_its_fresh_samples_give() -> None:
    space = Space(tuple(Feature(f"f{place}", tuple(range(50)), ordered=True) for place in range(4)))
    instance = np.full(4, 25, dtype=np.int32)
    case = case_of(space, np.zeros((50,) * 4, dtype=np.bool_), instance, instance[None, :])
    findings = solve(problem_of(case, Blind()), Proposing([[0]], attempts=1))
    verdict = findings.verdicts[0]
    assert isinstance(verdict, Unrefuted)
    assert (verdict.samples, verdict.confidence) == (10_000, 0.975)
    assert 0 < verdict.exception_bound < 0.001
    several = solve(problem_of(case, Blind(), k=3), Proposing([[1, 2, 4]])).verdicts
    doubts = [1 - one.confidence for one in several if isinstance(one, Unrefuted)]
    assert doubts == pytest.approx([0.05 / 2, 0.05 / 6, 0.05 / 12])


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """An oracle that knows the truth without asking the model, or gives up; it keeps the boxes."""

    table: Flags
    gives_up: bool = False
    asked: list[Box] = field(default_factory=list)
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        run.meter.check()
        self.asked.append(query.box)
        if self.gives_up:
            return NOT_SEARCHED
        inside = tuple(slice(low, high + 1) for low, high in zip(query.box.low, query.box.high, strict=True))
        found = np.argwhere(self.table[inside]).astype(np.int32) + query.box.low
        return query.case.build_refuted(found[: query.k]) if len(found) else query.case.build_proven(query.box, 0)


def _read(case: Case, oracle: Reading, budget: Budget | None = None) -> Problem:
    """A problem whose oracle reads the model."""
    problem = problem_of(case, oracle, budget=budget)
    return replace(problem, oracle=CachingOracle(oracle, exact=True))


def _rare(points: list[list[int]]) -> tuple[Case, Flags]:
    """Four features of fifty values; desired are the points given, far too few for samples to come upon."""
    table = np.zeros((50,) * 4, dtype=np.bool_)
    table[tuple(np.array(points, dtype=np.int32).reshape(-1, 4).T)] = True
    return _large_case(TableModel(table)), table


def test_an_oracle_that_reads_the_model_decides_a_rule_that_the_search_never_asked_about() -> None:
    case, table = _rare([[26, 24, 1, 49]])
    below = case.components.select(["f0 <="])
    for rules, verdicts in (([below], [Proven]), ([0], [Refuted]), ([0, below], [Proven, Refuted])):
        problem = _read(case, oracle := Reading(table))
        findings = solve(problem, Proposing([rules], attempts=1))
        assert [type(verdict) for verdict in findings.verdicts] == verdicts
        assert (len(oracle.asked), problem.meter.evaluations) == (len(rules), 0)
    unread = solve(problem_of(case, Reading(table)), Proposing([[0]], attempts=1))
    assert isinstance(unread.verdicts[0], Unrefuted)


def test_what_an_oracle_that_reads_the_model_said_in_the_search_it_is_not_asked_again() -> None:
    case, table = _rare([])
    problem = _read(case, oracle := Reading(table))
    problem.ask(0)
    assert isinstance(solve(problem, Proposing([[0]])).verdicts[0], Proven)
    assert len(oracle.asked) == 1


def test_where_an_oracle_that_reads_the_model_gives_up_points_are_drawn() -> None:
    case, table = _rare([])
    problem = _read(case, oracle := Reading(table, gives_up=True))
    verdict = solve(problem, Proposing([[0]], attempts=1)).verdicts[0]
    assert isinstance(verdict, Unrefuted)
    assert (verdict.samples, len(oracle.asked)) == (10_000, 1)
    small = case.components.usable
    assert isinstance(solve(problem, Proposing([[small]], attempts=1)).verdicts[0], Proven)  # by looking at its point


def test_a_budget_that_is_spent_leaves_no_question_to_an_oracle_that_reads_the_model() -> None:
    case, table = _rare([])
    problem = _read(case, oracle := Reading(table), Budget(seconds=1e-9))
    findings = solve(problem, Proposing([[0]], attempts=1))
    assert (findings.stopped, oracle.asked) == ("budget", [])
    assert isinstance(findings.verdicts[0], Unrefuted)


@every_algorithm
@settings(deadline=None, max_examples=25)
@given(case=cases(most_features=4, most_codes=3), seed=st.integers(0, 99))
def test_with_an_oracle_that_reads_the_model_no_verdict_is_left_open(
    algorithm: Algorithm, case: Case, seed: int
) -> None:
    problem = problem_of(case, Exhaustive(), k=3, seed=seed)
    findings = solve(replace(problem, oracle=CachingOracle(Exhaustive(), exact=True)), algorithm)
    for rule, verdict in zip(findings.rules, findings.verdicts, strict=True):
        assert isinstance(verdict, Proven if consistent(case, rule) else Refuted)


def test_an_interrupted_search_falls_back_to_the_shortest_rule_that_meets_what_is_known() -> None:
    problem = problem_of(a_case(), SearchThenProve(), budget=Budget(evaluations=1))
    findings = solve(problem, load_algorithm("greedy_cf")())
    demands = problem.list_demands()
    assert (demands & problem.pack_rule(findings.rules[0])).any(axis=1).all()
    past = problem.case.history.desired.points()
    assert not problem.case.components.box(findings.rules[0]).contains(past).any()
    assert len(past) > 0
    assert not consistent(problem.case, 0)


@every_algorithm
def test_a_search_without_budget_says_so_when_past_rows_contradict_all_that_is_allowed(algorithm: Algorithm) -> None:
    case = a_case()
    allowed = case.components.select(["f0 <="])
    findings = solve(problem_of(case, SearchThenProve(), budget=Budget(evaluations=1), allowed=allowed), algorithm)
    assert findings.rules == (allowed,)
    assert isinstance(findings.verdicts[0], Refuted)


def _large_case(model: object = None) -> Case:
    """Four features of fifty values, nobody desired: far too many points to enumerate."""
    space = Space(tuple(Feature(f"f{place}", tuple(range(50)), ordered=True) for place in range(4)))
    instance = np.full(4, 25, dtype=np.int32)
    return case_of(space, np.zeros((50,) * 4, dtype=np.bool_), instance, instance[None, :], model=model)


@dataclass(frozen=True, slots=True)
class Lavish:
    """An algorithm that asks the model as often as it may, and then proposes the empty rule."""

    attempts: int = 1

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        state.best = [0]
        while count := min(problem.meter.evaluations_left, 50_000):
            problem.meter.desired(problem.case.model, np.repeat(problem.case.instance[None, :], count, axis=0))
        return state.best


@pytest.mark.parametrize(("evaluations", "kept"), [(1_000, 100), (150_000, 10_000)])
def test_a_tenth_of_the_evaluations_is_kept_for_the_final_check(evaluations: int, kept: int) -> None:
    problem = problem_of(_large_case(), Blind(), budget=Budget(evaluations=evaluations))
    findings = solve(problem, Lavish())
    verdict = findings.verdicts[0]
    assert isinstance(verdict, Unrefuted)
    assert (verdict.samples, verdict.tried, findings.stopped) == (kept, kept, None)
    assert verdict.exception_bound < 1.0
    assert problem.meter.evaluations == evaluations


@pytest.mark.parametrize("reason", ["budget", "interrupted"])
def test_verdicts_already_earned_stand_when_a_later_check_is_stopped(reason: str) -> None:
    case = a_case(past=False)
    whole = case.components.usable
    first = case.components.box(whole).size
    budget = Budget(evaluations=first + 1) if reason == "budget" else None
    model = TableModel(_outcomes(case.space)) if reason == "budget" else Interrupting(_outcomes(case.space), last=2)
    problem = problem_of(a_case(model, past=False), Blind(), budget=budget)
    findings = solve(problem, Proposing([[whole, 0]]))
    assert (findings.rules, findings.stopped) == ((whole,), reason)
    assert isinstance(findings.verdicts[0], Proven)


def test_several_verdicts_already_earned_stand_and_refuted_rules_go_last() -> None:
    case = a_case(past=False)
    whole, loose = case.components.usable, case.components.select(["f0 >="])
    tight = whole & ~case.components.select(["job"])
    model = Interrupting(_outcomes(case.space), last=4)
    findings = solve(problem_of(a_case(model, past=False), Blind()), Proposing([[whole, loose, tight, tight & ~1]]))
    assert (findings.rules, findings.stopped) == ((whole, tight, loose), "interrupted")
    assert [type(verdict) for verdict in findings.verdicts] == [Proven, Proven, Refuted]

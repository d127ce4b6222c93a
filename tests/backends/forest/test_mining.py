"""Counterfactuals mined in a compiled loop, on tiny random sums of trees against looking at every point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings, strategies as st
from sklearn.ensemble import GradientBoostingClassifier

from ironrule import Explainer
from ironrule.backends.forest import mining
from ironrule.backends.forest.compile import compute_least_margins
from ironrule.backends.forest.mining import find_by_ascent
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.forest.workspace import allocate_forest_workspace
from ironrule.explain.query import build_case
from ironrule.hitting.bits import list_members
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import BoxQuery, Capabilities, Case, MiningRequest, MiningResult, Run
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.verdict.budget import Budget, BudgetExhausted
from ironrule.verdict.verdict import Proven
from random_tree_sums import read_cases
from tiny_cases import consistent, exceptions_in, meter_of, problem_of, rules_of, run_of, subsets


def mine(
    case: Case, oracle: ForestOracle, allowed: int, rounds: int, seed: int
) -> tuple[MiningRequest, list[MiningResult]]:
    problem = problem_of(case, oracle, allowed=allowed)
    request = MiningRequest(problem.list_demands(), problem.allowed, problem.weights)
    return request, list(oracle.mine(case, request, rounds, Run(meter_of(), np.random.default_rng(seed))))


@settings(deadline=None, max_examples=300)
@given(read_cases(), st.data())
def test_what_is_mined_are_exceptions_that_each_refute_a_rule_which_met_all_before(
    made: tuple[Case, ForestOracle], data: st.DataObject
) -> None:
    case, oracle = made
    allowed, rounds = data.draw(rules_of(case)), data.draw(st.integers(0, 40))
    known, portions = mine(case, oracle, allowed, rounds, data.draw(st.integers(0, 3)))
    exceptions = {point.tobytes() for point in exceptions_in(case, case.components.box(0))}
    points = [point for portion in portions for point in portion.points]
    assert {point.tobytes() for point in points} <= exceptions
    assert len(points) <= rounds * len(oracle.forests)
    duals = [int(dual) for dual in known.duals[:, 0]]
    for point in points:
        dual = int(known.add_points(case, point[None, :]).duals[-1, 0])
        # else the rule, which hits the other, would exclude the point; no permitted rule hits an empty one
        assert all(other & ~dual for other in duals if other)
        duals.append(dual)


@settings(deadline=None, max_examples=300)
@given(read_cases(), st.data())
def test_its_last_rule_hits_what_can_be_hit(made: tuple[Case, ForestOracle], data: st.DataObject) -> None:
    case, oracle = made
    allowed = data.draw(rules_of(case))
    known, portions = mine(case, oracle, allowed, 40, data.draw(st.integers(0, 3)))
    if not portions:
        assert not oracle.forests
        return
    rule = portions[-1].rule
    assert rule is not None
    assert rule & ~allowed == 0
    for portion in portions[:-1]:
        known = known.add_points(case, portion.points)
    assert all(int(dual) & rule for dual in known.duals[:, 0] if dual)


@settings(deadline=None, max_examples=300)
@given(read_cases(), st.data())
def test_rules_within_a_weight_weigh_no_more_and_hit_all_that_is_known(
    made: tuple[Case, ForestOracle], data: st.DataObject
) -> None:
    case, oracle = made
    problem, start = problem_of(case, oracle), data.draw(rules_of(case))
    size = problem.weights.size
    weights = np.array(data.draw(st.lists(st.sampled_from([1.0, 2.0, 4.0, 1e12]), min_size=size, max_size=size)))
    within = data.draw(st.sampled_from([0.0, 2.0, 3.0, 6.0]))
    request = MiningRequest(
        problem.list_demands(), problem.allowed, weights, max_weight=within, start_rule=start, max_steps=30
    )
    portions = list(oracle.mine(case, request, data.draw(st.integers(1, 40)), run_of()))
    exceptions = {point.tobytes() for point in exceptions_in(case, case.components.box(0))}
    assert {point.tobytes() for portion in portions for point in portion.points} <= exceptions
    for portion in portions:
        rule, before = portion.rule, request
        request = request.add_points(case, portion.points)
        if rule is None:
            assert len(oracle.forests) > 1 or portion is portions[-1]
            continue
        assert sum(weights[bit] for bit in list_members(rule)) <= within
        assert all(int(dual) & rule for dual in before.duals[:, 0])


@settings(deadline=None, max_examples=300)
@given(read_cases(), st.data())
def test_a_rule_that_comes_with_a_proof_has_no_exception_and_the_proof_is_remembered(
    made: tuple[Case, ForestOracle], data: st.DataObject
) -> None:
    case, oracle = made
    problem = problem_of(case, oracle, allowed=data.draw(rules_of(case)))
    request = MiningRequest(problem.list_demands(with_history=False), problem.allowed, problem.weights)
    proven = False
    for some in problem.oracle.mine(case, request, 40, problem.run):
        if some.proof is None:
            continue
        assert some.rule is not None
        assert len(oracle.forests) == 1
        box = case.components.box(some.rule)
        assert len(exceptions_in(case, box)) == 0
        verdict = problem.oracle.lookup(box)
        assert isinstance(verdict, Proven)
        assert verdict.certificate.points == some.proof.pieces
        proven = True
    event("proven" if proven else "not proven")


@settings(deadline=None, max_examples=150)
@given(read_cases(), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.data())
def test_however_much_is_mined_the_rule_is_minimum(
    made: tuple[Case, ForestOracle], rounds: int, seed: int, reads: bool, data: st.DataObject
) -> None:
    case, oracle = made
    problem = problem_of(case, replace(oracle, first_boxes=data.draw(st.sampled_from([0, 1, 64]))), k=8, seed=seed)
    problem.oracle.exact = reads
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mining, "MAX_BOXES_PER_ROUND", data.draw(st.sampled_from([0, 1, 600])))
        patch.setattr(mining, "USUAL_TREES", data.draw(st.sampled_from([1, 1_000])))
        findings = solve(problem, Minimum(rounds=data.draw(st.sampled_from([rounds, 80]))))
    shortest = next(one for one in subsets(case.components.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, findings.rules[0])
    assert findings.rules[0].bit_count() == shortest.bit_count() == findings.lower_bound


@settings(deadline=None, max_examples=50)
@given(read_cases(), st.integers(0, 3))
def test_the_same_seed_mines_the_same(made: tuple[Case, ForestOracle], seed: int) -> None:
    case, oracle = made
    _, one = mine(case, oracle, case.components.usable, 20, seed)
    _, two = mine(case, oracle, case.components.usable, 20, seed)
    assert [(some.points.tolist(), some.rule) for some in one] == [(some.points.tolist(), some.rule) for some in two]


def test_a_spent_budget_ends_it_with_what_was_found_remembered() -> None:
    class Endless:
        """An oracle that finds one more point in every portion."""

        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(miner=self)

        def mine(self, *_: object) -> Iterator[MiningResult]:
            for place in range(4):
                yield MiningResult(np.full((1, 2), place, dtype=np.int32), 0)

    caching, meter = CachingOracle(Endless()), meter_of(None)  # type: ignore[arg-type]
    meter.budget = Budget(seconds=1e-9)
    portions = caching.mine(None, None, 64, Run(meter, np.random.default_rng(0)))  # type: ignore[arg-type]
    next(portions)
    with pytest.raises(BudgetExhausted):
        next(portions)
    assert caching.points is not None
    assert caching.points.tolist() == [[0, 0]]
    assert meter.events["oracle calls"] == 1


def test_climbing_over_more_features_than_a_word_has_bits_finds_what_the_model_desires() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, size=(600, 70))
    target = (rows[:, 1] + rows[:, 65] - rows[:, 2] + (rows[:, 66] > 1) * (rows[:, 3] > 1) > 3).astype(int)
    model = GradientBoostingClassifier(n_estimators=40, max_depth=4, random_state=0).fit(rows, target)
    explainer = Explainer(model, rows, desired=1, progress=False)
    forest = explainer._context.compiled_model.alternatives[0]  # type: ignore[union-attr]
    workspace = allocate_forest_workspace(forest)
    for row in np.flatnonzero(~explainer.outcomes)[:50]:
        case = build_case(explainer._context, int(row))
        home, whole = forest.cells.locate(case.instance), case.components.box(0)
        point, _ = find_by_ascent(forest, workspace, BoxQuery(case, whole), home=home, start=home, rng=rng)
        assert point is not None
        assert compute_least_margins(forest, forest.cells.locate(point)[None, :])[0] > 0
        assert model.predict([list(explainer.space.decode_row(case.embed(point)).values())])[0] == 1
        again, _ = find_by_ascent(
            forest, workspace, BoxQuery(case, whole), home=home, start=forest.cells.locate(point), rng=rng
        )
        assert again is not None
        assert compute_least_margins(forest, forest.cells.locate(again)[None, :])[0] > 0
        assert ((again == point) | (again == case.instance)).all()


def test_short_proofs_are_mined() -> None:
    rows = np.random.default_rng(1).integers(0, 6, size=(400, 6))
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] > rows[:, 2])
    explainer = Explainer(model, rows, desired=True, progress=False)
    proven = 0
    for row in np.flatnonzero(~explainer.outcomes)[:20]:
        case = build_case(explainer._context, int(row))
        problem = problem_of(case, explainer._context.oracle)  # type: ignore[arg-type]
        request = MiningRequest(problem.list_demands(with_history=False), problem.allowed, problem.weights)
        found = list(problem.oracle.mine(case, request, 80, problem.run))
        proven += found[-1].proof is not None
        assert sum(some.boxes for some in found) > 0
    assert proven > 10


@pytest.mark.parametrize("interrupted", range(2, 12))  # the first query takes two looks
def test_whoever_is_interrupted_after_the_first_query_has_a_proven_rule(interrupted: int) -> None:
    rows = np.random.default_rng(1).integers(0, 6, size=(400, 6))
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] > rows[:, 2])
    explainer = Explainer(model, rows, desired=True, progress=False)
    looks = []

    def watch(_: object) -> None:
        looks.append(1)
        if len(looks) > interrupted:
            raise KeyboardInterrupt

    found = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]), budget=Budget(callback=watch), widen=False)
    assert isinstance(found.verdict, Proven)


def test_a_search_with_tiny_weights_comes_to_an_end() -> None:
    rows = np.random.default_rng(1).integers(0, 6, size=(400, 4))
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] > rows[:, 2])
    explainer = Explainer(model, rows, desired=True, progress=False)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    given = {"x0": 1.0, "x1": 0.7, "x2": 0.4, "x3": 1.3}
    plain = explainer.explain(row, weights=given, widen=False)
    hundred_thousandths = {"x0": 1e-5, "x1": 0.7e-5, "x2": 0.4e-5, "x3": 1.3e-5}
    tiny = explainer.explain(row, weights=hundred_thousandths, widen=False)
    assert plain.minimum_among_permitted
    assert tiny.minimum_among_permitted
    assert tiny.weight == plain.weight / 10**5

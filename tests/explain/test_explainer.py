"""The public face: what an explainer accepts, refuses, promises and leaves alone."""

import copy
import dataclasses
import json
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import ironrule
from applications import DENIED, GRADES, decide, past, score, wide
from ironrule import Budget, Explainer, Proven, Refuted, Space, Unrefuted
from ironrule.errors import BudgetError, ConstraintError, InputError, ModelError, OutcomeError, SpaceError, TableError
from ironrule.explain.query import build_case
from ironrule.search.algorithms import ALGORITHMS

PAST, WIDE = past(), wide()
LOW = {f"f{j}": int(value) for j, value in enumerate([2, 3, 4, 5, 5, 5, 5, 5])}


@pytest.fixture(scope="module")
def explainer():
    return Explainer(decide, PAST, desired="good")


@pytest.fixture(scope="module")
def large():
    return Explainer(score, WIDE)


def without_times(explanation):
    """All of an explanation but the time it took, and the digest of that."""
    data = {name: value for name, value in explanation.to_dict().items() if name != "digest"}
    times = ("seconds", "operator_seconds", "compile_seconds")
    data["statistics"] = {k: v for k, v in data["statistics"].items() if k not in times}
    return data


def exceptions(explanation, model, table):
    """How many rows satisfy the rule and are desired."""
    desired = np.asarray(model(table))
    desired = desired == "good" if desired.dtype.kind == "U" else desired > 0.5
    return int((explanation.rule.covers(table) & desired).sum())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_explanation_has_what_the_contract_names(explainer, algorithm):
    explanation = explainer.explain(DENIED, algorithm=algorithm, k=3, seed=1)
    assert isinstance(explanation.rule.components, tuple)
    for component in explanation.rule.components:
        assert component.op in ("<=", ">=", "==")
        assert component.value == DENIED[component.feature]
    assert explanation.rules[0] is explanation.rule
    assert 1 <= len(explanation.rules) <= 3
    assert isinstance(explanation.verdict, (ironrule.Proven, ironrule.Refuted, ironrule.Unrefuted))
    assert explanation.cardinality == len(explanation.rule.components)
    assert explanation.coverage == int(explanation.rule.covers(PAST).sum())
    assert explanation.counterfactuals  # also from "genetic", whose search never asks for any
    for counterfactual in explanation.counterfactuals:
        row = pd.DataFrame([dict(counterfactual.values)])
        assert decide(row).tolist() == ["good"]
        assert {c.feature: c.after for c in counterfactual.changes}.items() <= dict(counterfactual.values).items()
        assert all(change.before == DENIED[change.feature] for change in counterfactual.changes)
    assert explanation.statistics.algorithm == ALGORITHMS[algorithm].class_name
    assert explanation.statistics.evaluations >= explanation.statistics.model_calls > 0
    assert exceptions(explanation, decide, PAST) == 0


def test_the_rule_of_a_small_space_is_proven_and_has_no_exception_anywhere(explainer):
    explanation = explainer.explain(DENIED)
    assert isinstance(explanation.verdict, Proven)
    assert explanation.verdict.certificate.space == explainer.space.fingerprint
    points = np.indices(tuple(explainer.space.sizes)).reshape(len(explainer.space), -1).T
    table = pd.DataFrame([explainer.space.decode_row(point) for point in points])
    assert exceptions(explanation, decide, table) == 0
    assert explanation.verdict.certificate.points == int(explanation.rule.covers(table).sum())


def test_the_rule_of_a_large_space_is_unrefuted_with_a_bound(large):
    explanation = large.explain(LOW)
    assert isinstance(explanation.verdict, Unrefuted)
    assert explanation.verdict.exception_bound < 0.01
    assert set(explanation.rule.features) <= {"f0", "f1", "f2"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_counterfactual_of_an_explanation_changes_all_that_another_one_does(explainer, algorithm):
    for seed in range(3):
        explanation = explainer.explain(DENIED, algorithm, k=5, seed=seed)
        assert len(explanation.counterfactuals) > 1
        assert_minimal_duals(explainer, explanation)


def test_past_rows_that_refute_a_rule_are_listed_only_where_no_other_changes_less(explainer):
    explanation = explainer.explain(DENIED, Proposing([]), k=50)  # the empty rule, which every desired row refutes
    assert isinstance(explanation.verdict, Refuted)
    assert 1 < len(explanation.counterfactuals) < len(explanation.verdict.points)
    assert_minimal_duals(explainer, explanation)


def assert_minimal_duals(explainer, explanation):
    duals = [dual_of(explainer, counterfactual) for counterfactual in explanation.counterfactuals]
    assert not any(one <= other for i, one in enumerate(duals) for j, other in enumerate(duals) if i != j)


def dual_of(explainer, counterfactual):
    """The components of the denied row that a counterfactual breaks."""
    own = build_case(explainer._context, DENIED).components
    code = explainer.space.encode_row(dict(counterfactual.values))
    return {bit for bit in own.usable_numbers if not own.low[bit] <= code[bit // 2] <= own.high[bit]}


@pytest.mark.parametrize("algorithm", ["genetic_cf", "genetic"])
def test_no_rule_of_the_top_k_adds_something_to_a_better_one(explainer, algorithm):
    for seed in range(3):
        rules = [set(rule.conditions) for rule in explainer.explain(DENIED, algorithm, k=20, seed=seed).rules]
        assert not any(rule <= later for place, rule in enumerate(rules) for later in rules[place + 1 :])


def test_an_algorithm_may_come_as_a_value(large):
    explanation = large.explain(LOW, ironrule.GreedyRuleCF(q=10))
    assert explanation.statistics.algorithm == "GreedyRuleCF"


ROW = int(np.flatnonzero(decide(PAST) == "bad")[3])


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        np.int64(ROW),
        dict(PAST.iloc[ROW]),
        PAST.iloc[ROW],
        PAST.iloc[[ROW]],
        pl.DataFrame(PAST)[ROW],
        pa.Table.from_pandas(PAST).slice(ROW, 1),
        PAST.iloc[ROW].tolist(),
        PAST.iloc[ROW].to_numpy(),
        PAST.iloc[[ROW]].to_numpy(),
        tuple(PAST.iloc[ROW]),
    ],
    ids=lambda row: type(row).__name__,
)
def test_a_row_may_come_in_any_form(explainer, row):
    assert without_times(explainer.explain(row)) == without_times(explainer.explain(ROW))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (DENIED | {"height": 5}, "may only have columns of the space, got 'height'"),
        ({k: v for k, v in DENIED.items() if k != "job"}, "must have a value for 'job'"),
        (DENIED | {"income": 1.5}, "'income' must be a whole number, as all its values are, got 1.5"),
        (DENIED | {"income": float("inf")}, "'income' must be a finite number, got inf"),
        (DENIED | {"income": 10**30}, "'income' must be an integer of 64 bits, got 1000"),
        (DENIED | {"income": [1]}, r"'income' must be a single value: .*, got \[1\]"),
        (DENIED | {"grade": "best"}, "'best' has no place in the order of 'grade'"),
        (DENIED | {"income": "1"}, "'income' must be a number, got '1'"),
        (PAST.iloc[:2], "row must be a single row, got a table of 2 rows"),
        (PAST.iloc[:0], "at least one row"),
        (len(PAST), "must be from 0 to 199 .*, got 200"),
        ([1, 2, 3], "row must have 6 values, like the data, got 3"),
        ("income=1", "row must be a dictionary"),
        (True, "row must be a dictionary"),
        (None, "row must be a dictionary"),
        (1.5, "row must be a dictionary"),
    ],
    ids=str,
)
def test_a_row_that_does_not_fit_is_refused(explainer, row, message):
    with pytest.raises(TableError, match=message):
        explainer.explain(row)
    with pytest.raises(TableError, match=message):
        explainer.counterfactuals(row)


def test_a_row_outside_the_domain_is_explained_as_in_an_extended_space(explainer):
    row = DENIED | {"income": 0}
    longer = Explainer(decide, PAST, desired="good", space=explainer.space.extend_domains(row))
    explanation = explainer.explain(row)
    assert isinstance(explanation.verdict, Proven)
    assert explanation.extended_values == {"income": (0,)}
    assert explanation.rule == longer.explain(row).rule
    assert explainer.space["income"].values == (1, 2, 3, 4)


def test_a_row_with_the_desired_outcome_is_refused(explainer):
    for question in (explainer.explain, explainer.counterfactuals):
        with pytest.raises(OutcomeError, match="must have the undesired outcome, got the desired outcome") as refused:
            question(DENIED | {"income": 4, "accounts": 0})
        assert refused.value.code == "row-not-denied"


@pytest.mark.parametrize("budget", [0, 0.0, -1])
def test_a_budget_of_zero_is_refused(explainer, budget):
    with pytest.raises(BudgetError, match=f"seconds must be positive, got {float(budget)}"):
        explainer.explain(DENIED, budget=budget)
    with pytest.raises(BudgetError, match="evaluations must be positive, got 0"):
        explainer.explain(DENIED, budget=Budget(evaluations=0))


@pytest.mark.parametrize("budget", ["10", True, [1]])
def test_a_budget_that_is_none_is_refused(explainer, budget):
    with pytest.raises(BudgetError, match="budget must be a Budget, a number of seconds, or None"):
        explainer.explain(DENIED, budget=budget)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", None])
def test_k_must_be_a_positive_whole_number(explainer, k):
    for question in (explainer.explain, explainer.counterfactuals):
        with pytest.raises(InputError) as refused:
            question(DENIED, k=k)
        assert str(refused.value) == f"k must be a positive integer, got {k!r}"


class RecordingOracle:
    """Asks the default oracle, and counts the questions."""

    def __init__(self):
        self.questions = 0

    def find(self, query, run):
        self.questions += 1
        return ironrule.SearchThenProve().find(query, run)


@pytest.mark.parametrize("algorithm", ["minimum", "greedy_cf", "genetic_cf"])
def test_the_oracle_of_a_model_that_can_only_be_asked_is_the_users_choice(explainer, algorithm):
    oracle = RecordingOracle()
    found = ironrule.Explainer(decide, PAST, desired="good", oracle=oracle).explain(DENIED, algorithm)
    usual = explainer.explain(DENIED, algorithm)
    assert found.rule == usual.rule
    assert type(found.verdict) is type(usual.verdict) is Proven
    assert oracle.questions == found.statistics.oracle_calls > 0


class LyingOracle:
    """Proves whatever it is asked about."""

    def find(self, query, _):
        return query.case.build_proven(query.box, 1)


class WrongOracle:
    """Calls the instance a counterfactual."""

    def find(self, query, _):
        return query.case.build_refuted(query.case.instance[None, :])


@pytest.mark.parametrize("algorithm", ["minimum", "greedy_cf", "genetic_cf", "min_set_cover"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_false_proof_of_a_users_oracle_is_not_believed(algorithm, nested):
    oracle = ironrule.SearchThenProve(prover=LyingOracle()) if nested else LyingOracle()
    found = ironrule.Explainer(decide, PAST, desired="good", oracle=oracle).explain(DENIED, algorithm)
    if isinstance(found.verdict, Proven):
        covered = found.rule.covers(PAST)
        assert not (covered & (np.asarray(decide(PAST)) == "good")).any()
        assert not found.verdict.certificate.covers  # by enumeration, not by its word


@pytest.mark.parametrize("algorithm", ["minimum", "greedy_cf"])
def test_a_point_that_is_no_counterfactual_is_refused(algorithm):
    explainer = ironrule.Explainer(decide, PAST, desired="good", oracle=WrongOracle())
    with pytest.raises(InputError, match="an oracle must answer with points of the box") as refused:
        explainer.explain(DENIED, algorithm)
    assert refused.value.code == "wrong-oracle-answer"


def test_listings_and_derived_explainers_ask_the_chosen_oracle_too():
    oracle = RecordingOracle()
    chosen = ironrule.Explainer(decide, PAST, desired="good", oracle=oracle)
    for ask in (
        lambda: list(chosen.rules(DENIED)),
        lambda: list(chosen.change_sets(DENIED)),
        lambda: chosen.where("cf.accounts >= 1").explain(DENIED),
        lambda: chosen.with_more_rows(PAST[:3]).explain(DENIED),
    ):
        before = oracle.questions
        ask()
        assert oracle.questions > before


def test_a_batch_of_another_oracle_is_refused(tmp_path):
    ask = {"output": tmp_path / "batch", "workers": 1, "progress": False}
    for oracle in ("geco", "geco"):  # the same one goes on
        Explainer(decide, PAST, desired="good", oracle=oracle).explain_many(range(5), **ask)
    with pytest.raises(InputError, match="other options"):
        Explainer(decide, PAST, desired="good").explain_many(range(5), **ask)


def test_an_oracle_can_be_named(explainer):
    named = ironrule.Explainer(decide, PAST, desired="good", oracle="search_then_prove").explain(DENIED)
    assert without_times(named) == without_times(explainer.explain(DENIED))


def test_what_is_no_oracle_is_refused_before_any_work():
    with pytest.raises(InputError, match=r"oracle must be one of .*geco.*, got 'magic'") as refused:
        ironrule.Explainer(decide, PAST, desired="good", oracle="magic")
    assert refused.value.code == "unknown-oracle"


def test_an_unknown_algorithm_is_refused_with_those_there_are(explainer):
    with pytest.raises(InputError, match=r"one of minimum, greedy_cf, genetic_cf, genetic.*, got 'magic'") as refused:
        explainer.explain(DENIED, algorithm="magic")
    assert refused.value.code == "unknown-algorithm"


@pytest.mark.parametrize("algorithm", [ironrule.GeneticRule, ironrule.GreedyRuleCF, 3, None, object()])
def test_what_is_no_algorithm_is_refused(explainer, algorithm):
    with pytest.raises(
        InputError, match=r"algorithm must be one of .*, got .*; or pass an object such as GreedyRuleCF\(\)"
    ):
        explainer.explain(DENIED, algorithm=algorithm)


EITHER = pd.DataFrame({"job": ["cook", "clerk"] * 4, "income": [1, 1, 2, 2] * 2, "debt": [0, 0, 0, 0, 1, 1, 1, 1]})


def neither_cook_nor_poor(table):
    return ((table["job"] != "cook") & (table["income"] > 1)).astype(float)


@pytest.mark.parametrize(
    ("weights", "rule"),
    [
        (None, ["job == 'cook'"]),
        ({}, ["job == 'cook'"]),
        ("paper", ["income <= 1"]),  # where an equality counts 2
        ({"job": 3}, ["income <= 1"]),
        ({"job ==": 1.5}, ["income <= 1"]),
        ({"income <=": 0.5}, ["income <= 1"]),
        ({"income": 2}, ["job == 'cook'"]),
        ({"job": 4, "income": 5}, ["job == 'cook'"]),
        ({"debt": 0.1}, ["job == 'cook'"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("algorithm", ["greedy_cf", "genetic_cf"])
def test_weights_say_which_of_two_rules_counts_as_shorter(weights, rule, algorithm):
    row = {"job": "cook", "income": 1, "debt": 0}
    explanation = Explainer(neither_cook_nor_poor, EITHER).explain(row, algorithm, weights=weights)
    assert [f"{c.feature} {c.op} {c.value!r}" for c in explanation.rule.components] == rule
    assert isinstance(explanation.verdict, Proven)


def test_weights_can_make_a_longer_rule_the_lighter_one():
    def model(table):
        return ((table["job"] != "cook") & ((table["income"] > 1) | (table["debt"] < 1))).astype(float)

    explainer, row = Explainer(model, EITHER), {"job": "cook", "income": 1, "debt": 1}
    assert explainer.explain(row).rule.features == ("job",)
    heavy = explainer.explain(row, weights={"job": 2.5})
    assert (heavy.rule.features, heavy.cardinality) == (("income", "debt"), 2)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ("Paper", InputError, "weights must be 'paper' or a mapping from features to weights, got 'Paper'"),
        (3, InputError, "weights must be 'paper' or a mapping"),
        (["job"], InputError, "weights must be 'paper' or a mapping"),
        ({"job": 0}, InputError, "the weight of 'job' must be a positive number, got 0"),
        ({"job": -1}, InputError, "must be a positive number"),
        ({"job": float("nan")}, InputError, "must be a positive number"),
        ({"job": float("inf")}, InputError, "must be a positive number"),
        ({"job": True}, InputError, "must be a positive number"),
        ({"job": "2"}, InputError, "must be a positive number, got '2'"),
        ({"height": 2}, SpaceError, "unknown feature 'height'"),
        ({"job <=": 2}, InputError, "a component of 'job' must use ==, got 'job <='"),
    ],
    ids=str,
)
def test_weights_that_make_no_sense_are_refused(explainer, weights, error, message):
    with pytest.raises(error, match=message):
        explainer.explain(DENIED, weights=weights)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_requirements_and_prohibitions_are_kept(explainer, algorithm):
    asked = explainer.explain(DENIED, algorithm=algorithm, require=["since"], forbid=["accounts", "income >="])
    assert "since" in asked.rule.features
    assert "accounts" not in asked.rule.features
    assert ("income", ">=") not in [(c.feature, c.op) for c in asked.rule.components]
    assert not isinstance(asked.verdict, Refuted)
    assert exceptions(asked, decide, PAST) == 0


def test_a_component_may_be_required(explainer):
    asked = explainer.explain(DENIED, require="accounts >=")
    assert ("accounts", ">=") in [(c.feature, c.op) for c in asked.rule.components]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_prohibition_that_leaves_no_consistent_rule_is_refuted_not_claimed(explainer, algorithm):
    asked = explainer.explain(DENIED, algorithm=algorithm, forbid=["income", "grade"])
    assert isinstance(asked.verdict, Refuted)
    point = pd.DataFrame([dict(asked.verdict.counterfactual.values)])
    assert decide(point).tolist() == ["good"]
    assert asked.rule.covers(point).all()
    everything = explainer.explain(DENIED, algorithm=algorithm, forbid=list(explainer.space.names))
    assert isinstance(everything.verdict, Refuted)
    assert everything.cardinality == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"require": ["height"]}, SpaceError, "unknown feature 'height'"),
        ({"forbid": ["incom"]}, SpaceError, r"did you mean 'income'\?"),
        ({"require": ["income"], "forbid": ["income"]}, InputError, "'income' cannot be required for this row"),
        ({"require": ["income >="]}, InputError, "excludes nothing or is forbidden"),
        ({"require": ["job <="]}, InputError, "a component of 'job' must use ==, got 'job <='"),
    ],
)
def test_requirements_that_make_no_sense_are_refused(explainer, options, error, message):
    with pytest.raises(error, match=message):
        explainer.explain(DENIED, **options)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_seed_and_evaluations_give_the_same_answer(large, algorithm):
    budget = Budget(evaluations=30_000)
    first, second = (large.explain(LOW, algorithm, budget=budget, seed=3) for _ in range(2))
    assert without_times(first) == without_times(second)
    again = Explainer(score, WIDE).explain(LOW, algorithm, budget=budget, seed=3)
    assert without_times(first) == without_times(again)


def test_the_global_random_state_is_left_alone(explainer):
    numbers, others = np.random.get_state(), random.getstate()  # noqa: NPY002
    Explainer(decide, PAST, desired="good")
    for algorithm in ALGORITHMS:
        explainer.explain(DENIED, algorithm)
    explainer.counterfactuals(DENIED)
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(one, other) for one, other in zip(numbers, after, strict=True))
    assert random.getstate() == others


@pytest.mark.parametrize("make", [past, lambda: pl.DataFrame(past()), lambda: pa.Table.from_pandas(past())])
def test_explainers_and_explanations_pickle(make):
    explainer = Explainer(by_position, make(), desired="good")
    again = pickle.loads(pickle.dumps(explainer))
    assert again.space == explainer.space
    one, other = explainer.explain(DENIED), again.explain(DENIED)
    assert without_times(one) == without_times(other)
    assert pickle.loads(pickle.dumps(one)) == one


def by_position(table):
    """The same decision for a table of any library."""
    frame = pd.DataFrame({name: table[name].to_numpy() for name in PAST.columns})
    return decide(frame.assign(debt=frame["debt"].astype(float)))


def as_polars(table):
    return pl.DataFrame(table).with_columns(pl.col("grade").cast(pl.Enum(GRADES)))


@pytest.mark.parametrize("make", [as_polars, pa.Table.from_pandas])
def test_every_library_gives_the_same_explanation(explainer, make):
    other = Explainer(by_position, make(PAST), desired="good")
    assert without_times(other.explain(DENIED)) == without_times(explainer.explain(DENIED))


def test_several_threads_get_the_answers_that_one_gets(large):
    rows = [row for row in range(40) if score(WIDE.iloc[[row]])[0] <= 0.5][:8]
    budget = Budget(evaluations=20_000)
    alone = [without_times(large.explain(row, budget=budget)) for row in rows]
    with ThreadPoolExecutor(8) as pool:
        together = [without_times(one) for one in pool.map(lambda row: large.explain(row, budget=budget), rows)]
    assert together == alone


def test_explaining_changes_neither_the_explainer_nor_the_data():
    data = past()
    explainer = Explainer(decide, data, desired="good")
    first = without_times(explainer.explain(DENIED))
    before = pickle.dumps(explainer)
    explainer.explain(ROW, "genetic_cf", forbid=["income"])
    explainer.counterfactuals(DENIED, features_to_vary=["income"])
    assert without_times(explainer.explain(DENIED)) == first
    assert pickle.dumps(explainer) == before
    pd.testing.assert_frame_equal(data, past())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("evaluations", [1, 2, 10, 50, 100, 500])
def test_a_tiny_budget_gives_an_honest_answer(large, algorithm, evaluations):
    explanation = large.explain(LOW, algorithm, budget=Budget(evaluations=evaluations))
    assert explanation.statistics.evaluations <= evaluations
    assert exceptions(explanation, score, WIDE) == 0 or isinstance(explanation.verdict, Refuted)
    assert not isinstance(explanation.verdict, Proven)
    if isinstance(explanation.verdict, Unrefuted):
        assert explanation.verdict.samples <= explanation.verdict.tried <= evaluations
    for counterfactual in explanation.counterfactuals:
        assert score(pd.DataFrame([dict(counterfactual.values)]))[0] > 0.5
    json.loads(explanation.to_json())


class Interrupting:
    """Presses Ctrl-C at one of its calls."""

    def __init__(self):
        self.left = 10**9

    def __call__(self, table):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return score(table)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("calls", [1, 2, 3, 5, 10])
def test_ctrl_c_gives_the_best_so_far_and_no_false_claim(algorithm, calls):
    model = Interrupting()
    explainer = Explainer(model, WIDE)
    model.left = calls
    explanation = explainer.explain(LOW, algorithm)
    interrupted = model.left < 0
    assert interrupted or algorithm == "min_set_cover"  # which asks once, for the final check
    assert explanation.statistics.stopped == ("interrupted" if interrupted else None)
    assert not isinstance(explanation.verdict, Proven)
    assert exceptions(explanation, score, WIDE) == 0 or isinstance(explanation.verdict, Refuted)
    assert ("The search was interrupted" in str(explanation)) == interrupted


def test_ctrl_c_among_counterfactuals_gives_none_and_says_so():
    model = Interrupting()
    explainer = Explainer(model, WIDE)
    model.left = 1
    found = explainer.counterfactuals(LOW)
    assert len(found) == 0
    assert found.statistics.stopped == "interrupted"


@pytest.mark.parametrize("calls", [2, 3])
def test_ctrl_c_after_some_counterfactuals_gives_those_and_says_so(calls):
    model = Interrupting()
    explainer = Explainer(model, WIDE)
    model.left = calls
    found = explainer.counterfactuals(LOW, k=3)
    assert 1 <= len(found) <= 3
    assert found.statistics.stopped == "interrupted"
    assert all(score(pd.DataFrame([dict(item.values)]))[0] > 0.5 for item in found)


def test_ctrl_c_in_a_later_check_leaves_the_earlier_rules_verdicts_alone():
    model = Interrupting()
    asked = Explainer(model, WIDE)
    model.left = 2  # the row itself, and the check of the first rule
    explanation = asked.explain(LOW, Proposing(["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"], ["f0", "f1", "f2"]))
    assert explanation.statistics.stopped == "interrupted"
    assert len(explanation.rules) == 1
    assert set(explanation.rule.features) == set(LOW)
    assert isinstance(explanation.verdict, Proven)


class Proposing:
    """An algorithm that knows the rules already, by their features."""

    attempts = 1

    def __init__(self, *rules):
        self.rules = rules

    def run(self, problem, state):
        state.best = [problem.case.components.select(names) for names in self.rules]
        return state.best


def test_a_model_that_ends_the_program_has_failed():
    def model(_):
        raise SystemExit(0)

    with pytest.raises(ModelError, match=r"the model failed on a table of 400 rows: SystemExit: 0"):
        Explainer(model, WIDE)


def test_a_model_that_fails_while_explaining_is_shown():
    def model(table):
        if (table["f0"] > 9).any():
            raise ZeroDivisionError("no such f0")
        return score(table)

    explainer = Explainer(model, WIDE, space=Space.infer(WIDE, domains={"f0": [10]}))
    with pytest.raises(ModelError, match="ZeroDivisionError: no such f0"):
        explainer.explain(LOW)


def test_a_model_that_wavers_does_not_crash_the_search():
    rng = np.random.default_rng(0)
    explainer = Explainer(score, WIDE)
    wavering = copy.copy(explainer)
    context = explainer._context
    own = context.model.primary
    black_box = dataclasses.replace(own, decision=_Wavering(rng, own.decision))
    noisy = dataclasses.replace(context.model, primary=black_box, black_boxes=(black_box,))
    wavering._context = dataclasses.replace(context, model=noisy)
    explanation = wavering.explain(LOW, budget=Budget(evaluations=50_000))
    assert explanation.statistics.evaluations <= 50_000


class _Wavering:
    """A decision that flips one answer in a hundred, but never for a single row."""

    def __init__(self, rng, decision):
        self.rng, self.decision, self.undesired_name = rng, decision, decision.undesired_name

    def __call__(self, table, rows):
        answer = self.decision(table, rows)
        return answer if rows == 1 else answer ^ (self.rng.random(rows) < 0.01)


def pipeline():
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["job"]), remainder="passthrough")
    return make_pipeline(columns, DecisionTreeClassifier(random_state=0))


def test_a_pipeline_on_raw_columns_is_explained_in_raw_columns():
    data = PAST[["income", "accounts", "job"]]
    target = np.where((data["income"] >= 3) & (data["job"] != "cook"), "good", "bad")
    model = pipeline().fit(data, target)
    explainer = Explainer(model, data.assign(target=target), desired="good")
    assert explainer.space.names == ("income", "accounts", "job")
    explanation = explainer.explain({"income": 1, "accounts": 3, "job": "cook"})
    assert isinstance(explanation.verdict, Proven)
    assert explanation.cardinality == 1
    assert str(explanation.rule).endswith("gets: 'bad'.")
    by_number = explainer.explain(int(np.flatnonzero(target == "bad")[0]))
    assert isinstance(by_number.verdict, Proven)
    with pytest.raises(TableError, match="the data must have the model's column 'job', got columns income, accounts"):
        Explainer(model, data[["income", "accounts"]], desired="good")


def test_with_a_threshold_the_outcome_of_a_rule_is_a_score_and_no_label():
    data = PAST[["income", "accounts"]]
    target = np.where(data["income"] >= 3, "good", "bad")
    model = DecisionTreeClassifier(random_state=0).fit(data, target)
    explanation = Explainer(model, data, desired="good", threshold=0.7).explain({"income": 1, "accounts": 0})
    assert explanation.rule.outcome == "at most 0.7 for 'good'"
    assert str(explanation.rule) == "Everyone with income = 1 gets: at most 0.7 for 'good'."
    assert Explainer(model, data, desired="good").explain({"income": 1, "accounts": 0}).rule.outcome == "'bad'"


def test_several_classes_may_be_desired():
    data = PAST[["income", "accounts"]]
    model = DecisionTreeClassifier(random_state=0).fit(data, data["income"].map({1: "c", 2: "b", 3: "a", 4: "a"}))
    explanation = Explainer(model, data, desired={"a", "b"}).explain({"income": 1, "accounts": 0})
    assert [str(component) for component in explanation.rule.components] == ["income = 1"]
    assert explanation.rule.outcome == "'c'"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"desired": "best"}, OutcomeError, "one of .'best'., got labels 'bad', 'good'"),
        ({"desired": None}, OutcomeError, "name the desired class: desired="),
        ({"desired": "good", "threshold": 0.5}, OutcomeError, "either a desired class or a threshold"),
        ({"desired": "good", "constraints": ["cf.incme >= 1"]}, ConstraintError, "did you mean cf.income"),
        ({"desired": "good", "constraints": ["cf.income >= x.incme"]}, ConstraintError, "did you mean x.income"),
        (
            {"desired": "good", "constraints": ["cf.income > 4"]},
            ConstraintError,
            "no point of the space satisfies the constraints: 'cf.income > 4'",
        ),
        ({"desired": "good", "constraints": "cf.income >"}, ConstraintError, "column"),
        ({"desired": "good", "constraints": [3]}, ConstraintError, "a constraint must be a string .*, got 3"),
        ({"desired": "good", "space": "a"}, InputError, "space must be a Space, .*, got str"),
        ({"desired": "good", "space": {"income": [1, 2]}}, InputError, "space must be a Space, .*, got dict"),
    ],
)
def test_an_explainer_that_cannot_work_is_refused_at_once(options, error, message):
    with pytest.raises(error, match=message):
        Explainer(decide, PAST, **options)


def test_constraints_on_cf_alone_shrink_the_space():
    with pytest.warns(UserWarning, match=r"\d+ of 200 past rows break the constraints on the space and are left out"):
        explainer = Explainer(decide, PAST, desired="good", constraints=["cf.grade != 'high'", "cf.income >= x.income"])
    assert [str(constraint) for constraint in explainer.space.constraints] == ["cf.grade != 'high'"]
    assert len(explainer.outcomes) == int((PAST["grade"] != "high").sum())
    explanation = explainer.explain(DENIED)
    assert isinstance(explanation.verdict, Proven)
    assert [str(component) for component in explanation.rule.components] == ["income = 1"]
    for counterfactual in (*explanation.counterfactuals, *explainer.counterfactuals(DENIED)):
        assert counterfactual.values["grade"] != "high"
    with pytest.raises(ConstraintError, match=r"the row does not satisfy .cf\.grade != 'high'"):
        explainer.explain(DENIED | {"grade": "high", "debt": 1.0})


def test_a_history_that_breaks_every_constraint_is_refused():
    data = PAST[PAST["income"] < 4]
    space = Space.infer(PAST)
    with pytest.raises(ConstraintError, match="no past row satisfies the constraints"):
        Explainer(decide, data, desired="good", space=space, constraints="cf.income >= 4")


def test_a_history_without_desired_rows_can_be_explained():
    data = WIDE[score(WIDE) <= 0.5]
    explanation = Explainer(score, data).explain(LOW)
    assert exceptions(explanation, score, WIDE) == 0
    assert not isinstance(explanation.verdict, Refuted)


def test_a_model_that_never_desires_has_the_empty_rule():
    explanation = Explainer(lambda table: np.zeros(len(table)), WIDE[["f0", "f1"]]).explain({"f0": 1, "f1": 1})
    assert explanation.cardinality == 0
    assert isinstance(explanation.verdict, Proven)
    assert explanation.coverage == len(WIDE)
    assert explanation.counterfactuals == ()


def test_arrays_are_explained_by_the_names_of_the_space():
    def model(matrix):
        return matrix[:, 0] / 10

    data = WIDE[["f0", "f1"]].to_numpy()
    explanation = Explainer(model, data).explain(np.array([2, 7]))
    assert [(c.feature, c.op, c.value) for c in explanation.rule.components] == [("x0", "<=", 2)]
    named = Explainer(model, data, space=Space.infer(data, names=["income", "age"]))
    assert [c.feature for c in named.explain([2, 7]).rule.components] == ["income"]


def test_an_explainer_has_a_telling_repr(explainer):
    assert repr(explainer).startswith("<Explainer: Space(6 features: 5 ordered, 1 nominal;")
    assert "200 past rows" in repr(explainer)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(InputError, match="seed must be a non-negative integer"):
        Explainer(decide, past(), desired="good").explain(DENIED, seed=seed)


def test_only_the_chosen_columns_become_features():
    table = past().assign(target=1)
    explainer = Explainer(decide, table, desired="good", columns=list(past().columns))
    assert "target" not in explainer.space.names


def test_the_counterfactuals_of_an_explanation_keep_to_what_may_change():
    free = Explainer(decide, past(), desired="good").explain(DENIED)
    bound = Explainer(decide, past(), desired="good", constraints=["cf.income == x.income"]).explain(DENIED)
    assert any(change.feature == "income" for found in free.counterfactuals for change in found.changes)
    assert not any(change.feature == "income" for found in bound.counterfactuals for change in found.changes)
    assert free.rule == bound.rule


@pytest.mark.parametrize("wrong", [3, None])
def test_names_that_are_no_list_are_refused(wrong):
    explainer = Explainer(decide, past(), desired="good")
    with pytest.raises(InputError, match=f"must be a list of strings, got {wrong}"):
        explainer.explain(DENIED, forbid=wrong)
    with pytest.raises(InputError, match=f"must be a list of strings, got {wrong}"):
        Explainer(decide, past(), desired="good", constraints=wrong)


def test_numbers_of_numpy_are_numbers():
    explainer = Explainer(decide, past(), desired="good")
    explanation = explainer.explain(DENIED, budget=Budget(evaluations=np.int64(100_000)), weights={"job": np.int64(2)})
    assert explanation.rule.components

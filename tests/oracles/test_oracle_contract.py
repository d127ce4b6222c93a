"""What every oracle promises, on tiny random cases against exhaustive enumeration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.backend import OracleRequest
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.tree.backend import TREE
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.exhaustive import enumerate_box
from ironrule.oracles.heuristics.actionable_recourse import ActionableRecourse
from ironrule.oracles.heuristics.cem import CEM
from ironrule.oracles.heuristics.dice import DiCE
from ironrule.oracles.heuristics.focus import FOCUS
from ironrule.oracles.heuristics.wachter import Wachter
from ironrule.oracles.latent.cchvae import CCHVAE
from ironrule.oracles.latent.clue import CLUE
from ironrule.oracles.latent.cruds import CRUDS
from ironrule.oracles.latent.dense_network import AutoencoderTraining
from ironrule.oracles.latent.revise import REVISE
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Oracle, Run
from ironrule.oracles.registry import ORACLES
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict
from random_trees import compiled, margin_of, tree_of_table
from tiny_cases import TableModel, cases, exceptions_in, meter_of, rules_of


@dataclass(frozen=True, slots=True)
class TreeOfTable:
    """The tree oracle, which needs a tree, on the tree of the case's table; branch and bound under constraints."""

    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        assert isinstance(query.case.model, TableModel)
        table = query.case.model.table
        forests = compiled(query.case.space, (margin_of(tree_of_table(table)),), feasible=query.case.feasible)
        if query.case.feasible.predicates:
            return ForestOracle(forests).find(query, run)
        oracle = TREE.build_oracle(OracleRequest(forests, query.case.space, TableModel(table)))
        assert isinstance(oracle, TreeOracle)
        return oracle.find(query, run)


@dataclass(frozen=True, slots=True)
class OnAverages:
    """A system that needs a sum of what each feature adds: here each code's share of desired points. The table is no
    such sum, so the model denies much of what the system finds.
    """

    system: Oracle
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        case = query.case
        assert isinstance(case.model, TableModel)
        assert case.tabulated_model is not None
        table, features = case.model.table, range(case.model.table.ndim)
        shares = [table.mean(axis=tuple(other for other in features if other != j)) for j in features]
        terms = tuple(Term(j, share.__getitem__) for j, share in enumerate(shares))
        form = TreeSum(((Margin(-table.mean() * len(shares) - 0.1, (LinkedGroup((), terms=terms),)),),))
        read = replace(case.tabulated_model, normal_form=form)
        return self.system.find(replace(query, case=replace(case, tabulated_model=read)), run)


# Where the defaults would take long, less of the same.
TRAINING = AutoencoderTraining(latent=2, hidden=4, epochs=5)
QUICK: dict[str, Oracle] = {
    "actionable_recourse": OnAverages(ActionableRecourse(programs=5)),
    "cchvae": CCHVAE(samples=30, step=1.0, training=TRAINING),
    "cem": CEM(searches=3, steps=8),
    "clue": CLUE(steps=20, training=TRAINING),
    "cruds": CRUDS(samples=100, training=TRAINING),
    "revise": REVISE(rounds=2, steps=20, training=TRAINING),
    "dice": DiCE(samples=20),
    "dice, genetic": DiCE("genetic", samples=20, generations=8),
    "dice, gradient": DiCE("gradient", steps=12),
    "focus": FOCUS(steps=25),
    "wachter": Wachter(rounds=3, steps=8, starts=2),
}
MADE: dict[str, Oracle] = {**{name: make() for name, make in ORACLES.items()}, **QUICK, "tree": TreeOfTable()}
every_oracle = pytest.mark.parametrize("oracle", MADE.values(), ids=list(MADE))


@st.composite
def questions(draw: st.DrawFn, recourse: bool = False) -> tuple[Case, Box]:
    case = draw(cases(recourse=recourse))
    return case, case.components.box(draw(rules_of(case)))


def tell_more(case: Case) -> Case:
    """The case with scores, and with a normal form: the tree of its table."""
    assert isinstance(case.model, TableModel)
    form = TreeSum(((margin_of(tree_of_table(case.model.table)),),))
    columns = TabulatedColumns(np.arange(len(case.space)), tuple(np.arange(size) for size in case.space.sizes))
    return replace(case, scoring_model=case.model, tabulated_model=TabulatedModel(form, columns))


def ask(oracle: Oracle, question: tuple[Case, Box], k: int, seed: int, evaluations: int | None = None) -> Any:
    """The verdict, or None if the budget was spent first; the meter; never more evaluations than the budget has."""
    case, box = question
    meter = meter_of(evaluations)
    assert isinstance(case.model, TableModel)
    case.model.asked.clear()
    verdict: Verdict | None = None
    try:
        verdict = oracle.find(BoxQuery(tell_more(case), box, k), Run(meter, np.random.default_rng(seed)))
    except BudgetExhausted:
        assert evaluations is not None
    asked = sum(map(len, case.model.asked))
    assert meter.evaluations == asked
    assert evaluations is None or asked <= evaluations
    return verdict


def check(question: tuple[Case, Box], k: int, verdict: Verdict | None) -> None:
    """A verdict claims nothing that enumeration contradicts."""
    exceptions = {point.tobytes() for point in exceptions_in(*question)}
    if isinstance(verdict, Refuted):
        found = [point.tobytes() for point in verdict.points]
        assert 1 <= len(found) <= k
        assert len(set(found)) == len(found)
        assert set(found) <= exceptions
        assert verdict.counterfactual.values == question[0].space.decode_row(verdict.points[0])
    elif isinstance(verdict, Proven):
        assert not exceptions
        assert verdict.certificate.space == question[0].space.fingerprint
    elif verdict is not None:
        assert isinstance(verdict, Unrefuted)
        assert verdict.samples <= verdict.tried


@every_oracle
@settings(deadline=None, max_examples=60)
@given(question=questions(), k=st.integers(1, 6), seed=st.integers(0, 99))
def test_no_verdict_claims_what_enumeration_contradicts(
    oracle: Oracle, question: tuple[Case, Box], k: int, seed: int
) -> None:
    check(question, k, ask(oracle, question, k, seed))


@every_oracle
@settings(deadline=None, max_examples=40)
@given(question=questions(recourse=True), k=st.integers(1, 3), seed=st.integers(0, 99))
def test_constraints_on_the_change_from_the_instance_are_kept(
    oracle: Oracle, question: tuple[Case, Box], k: int, seed: int
) -> None:
    check(question, k, ask(oracle, question, k, seed))


@every_oracle
@settings(deadline=None, max_examples=40)
@given(question=questions(), evaluations=st.integers(1, 400), seed=st.integers(0, 99))
def test_a_budget_is_never_passed_and_what_it_allows_is_honest(
    oracle: Oracle, question: tuple[Case, Box], evaluations: int, seed: int
) -> None:
    check(question, 3, ask(oracle, question, 3, seed, evaluations))


@every_oracle
@settings(deadline=None, max_examples=25)
@given(question=questions(), seed=st.integers(0, 99), evaluations=st.sampled_from([None, 50, 200]))
def test_the_same_seed_gives_the_same_answer(
    oracle: Oracle, question: tuple[Case, Box], seed: int, evaluations: int | None
) -> None:
    first, second = (ask(oracle, question, 3, seed, evaluations) for _ in range(2))
    assert type(first) is type(second)
    if isinstance(first, Refuted):
        assert np.array_equal(first.points, second.points)
    else:
        assert first == second


@every_oracle
@settings(deadline=None, max_examples=25)
@given(case=cases())
def test_a_box_with_only_the_instance_has_no_counterfactual(oracle: Oracle, case: Case) -> None:
    alone = Box(case.instance.copy(), case.instance.copy())
    verdict = ask(oracle, (case, alone), 3, seed=0)
    assert not isinstance(verdict, Refuted)
    check((case, alone), 3, verdict)


@pytest.mark.parametrize("name", ["exhaustive", "search_then_prove"])
@settings(deadline=None, max_examples=40)
@given(question=questions(), seed=st.integers(0, 99))
def test_oracles_that_prove_decide_every_small_box(name: str, question: tuple[Case, Box], seed: int) -> None:
    verdict = ask(ORACLES[name](), question, 2, seed)
    assert isinstance(verdict, Refuted if len(exceptions_in(*question)) else Proven)


@settings(deadline=None, max_examples=40)
@given(question=questions(), k=st.integers(1, 5))
def test_the_exhaustive_oracle_finds_as_many_counterfactuals_as_there_are(question: tuple[Case, Box], k: int) -> None:
    verdict = ask(ORACLES["exhaustive"](), question, k, seed=0)
    found = len(verdict.points) if isinstance(verdict, Refuted) else 0
    assert found == min(k, len(exceptions_in(*question)))


def test_boxes_of_more_than_64_features_can_be_enumerated() -> None:
    low, high = np.zeros(70, np.int32), np.zeros(70, np.int32)
    high[[0, 69]] = 1, 2
    points = np.concatenate(list(enumerate_box(Box(low, high))))
    assert points[:, [0, 69]].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]

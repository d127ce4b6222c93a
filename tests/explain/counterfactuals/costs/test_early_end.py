"""Counterfactuals whose search ended early: those called proven, by the user's own model and every point."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from test_counterfactual_costs import FACTORIES, NAMES, StatedCost, make_explainer

import ironrule
from ironrule import Budget, Cost, Counterfactuals, Explainer
from ironrule.backends.forest import cheapest
from ironrule.verdict.budget import BudgetExhausted, Meter

SEEDS = (1, 4, 9)


def build_budget(looks: int) -> Budget:
    """A budget that ends when the search looks at it for the last of so many times."""
    left = looks

    def count_down(_: Meter) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise BudgetExhausted

    return Budget(callback=count_down)


def check_first(found: Counterfactuals, stated: StatedCost, points: np.ndarray, desired: np.ndarray) -> None:
    """None of the first that are proven is beaten by a desired point that does not change all of an earlier one."""
    open_points = points[desired]
    totals = stated.measure(open_points)
    for item in found[: found.proven_count]:
        values = np.array([[float(item.values[name]) for name in NAMES]])
        assert totals.min() >= stated.measure(values)[0] - found.resolution - 1e-6
        left = ~(open_points != stated.row)[:, values[0] != stated.row].all(axis=1)
        open_points, totals = open_points[left], totals[left]


@pytest.mark.parametrize("norm", ["fewest", "l1", "l2"])
@pytest.mark.parametrize("kind", [kind for kind in FACTORIES if kind != "network"])
def test_what_is_proven_of_the_first_holds_wherever_the_budget_ends(kind, norm, monkeypatch):
    monkeypatch.setattr(cheapest, "BOXES_PER_LOOK", 1)
    cost = Cost(norm, prices={"age": 0.7})
    for seed in SEEDS:
        explainer = make_explainer(kind, seed, "seen")
        if explainer is None:
            continue
        data = pd.DataFrame({name: explainer._context.table.column(name).values for name in NAMES})
        row = int(np.flatnonzero(~explainer.outcomes)[0])
        points = np.array(list(itertools.product(*(sorted(data[name].unique()) for name in NAMES))), dtype=float)
        desired = explainer._context.arguments.models[0].predict(pd.DataFrame(points, columns=NAMES)) == 1
        stated, is_whole = StatedCost(cost, data, data.iloc[row].to_numpy(dtype=float)), False
        for looks in itertools.count():
            found = explainer.counterfactuals(row, k=3, cost=cost, budget=build_budget(looks))
            check_first(found, stated, points, desired)
            assert Counterfactuals.from_json(found.to_json()) == found
            is_whole = found.statistics.stopped is None
            if is_whole:
                break
            assert found.proven_count <= len(found)
            assert not found.proven
        assert found.proven_count == len(found)


@pytest.fixture(scope="module")
def fitted() -> tuple[Explainer, pd.DataFrame, int]:
    """A forest whose search has more to do than a few boxes."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.integers(0, 6, (300, 5)), columns=list("abcde"))
    score = data["a"] + 0.7 * data["b"] - 0.5 * data["c"] + rng.normal(0, 1.5, 300)
    model = FACTORIES["forest"](0).set_params(n_estimators=12, max_depth=5).fit(data, (score > 6).astype(int))
    explainer = Explainer(model, data, desired=1)
    return explainer, data, int(explainer.row_numbers[~explainer.outcomes][3])


def test_texts_and_documents_say_how_many_are_proven_and_the_checker_proves_these(fitted, monkeypatch):
    monkeypatch.setattr(cheapest, "BOXES_PER_LOOK", 1)
    explainer, data, row = fitted
    model, seen = explainer._context.arguments.models[0], set()
    for looks in itertools.count():
        found = explainer.counterfactuals(row, k=3, cost="l1", budget=build_budget(looks))
        if found.proven_count not in seen:
            check = ironrule.check(found, model, data, desired=1)
            nearest = [one for one in check.findings if one.claim.startswith("nearest")]
            assert [one.status for one in nearest] == ["holds"] * max(1, found.proven_count)
            assert check.status == ("proven" if found.proven else "undecided")
            partly = found.proven_count > 0 and not found.proven
            assert ("first" in repr(found)) == ("first" in found._repr_html_()) == partly
            assert ("proven_count" in found.to_dict()) == partly
        seen.add(found.proven_count)
        if found.proven:
            break
    assert {0, 3} < seen


def test_a_count_that_is_no_count_is_refused(fitted):
    explainer, data, row = fitted
    document = explainer.counterfactuals(row, k=2, cost="l1").to_dict() | {"proven": False, "proven_count": 3}
    document = ironrule.verdict.digest.add_digest({name: one for name, one in document.items() if name != "digest"})
    with pytest.raises(ironrule.InputError, match="proven_count must be from 0 to 2, got 3"):
        Counterfactuals.from_dict(document)
    with pytest.raises(ironrule.InputError, match="proven_count must be at most 2, got 3"):
        ironrule.check(document, explainer._context.arguments.models[0], data, desired=1)


def test_a_forged_count_is_refuted(fitted):
    """The second is left out: what was the third is then not the nearest of those that are left."""
    explainer, data, row = fitted
    found = explainer.counterfactuals(row, k=3, cost="l1")
    costs = [one.cost for one in found.measure()]
    assert costs[1] < costs[2] - 0.001
    document = found.to_dict() | {"proven": False, "proven_count": 2}
    document["counterfactuals"] = [document["counterfactuals"][place] for place in (0, 2)]
    document = ironrule.verdict.digest.add_digest({name: one for name, one in document.items() if name != "digest"})
    check = ironrule.check(document, explainer._context.arguments.models[0], data, desired=1)
    assert [one.claim for one in check.failures] == ["nearest 2"]

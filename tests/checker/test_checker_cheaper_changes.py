"""That nothing costs less: over whole intervals, for sums of features under every cost; and what forgeries say."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from change_examples import fit, rewrite, write_changes
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Checker, Cost, Explainer, Target
from ironrule.checker.bounds.change_bounds import ChangePieces, bound_at_prices
from ironrule.checker.bounds.pieces import Pieces

COSTS = {
    "l1": Cost("l1", per_change=0.02),
    "l2": Cost("l2", prices={"x1": 2.0}),
    "linf": Cost("linf"),
    "linf by percentile": Cost("linf", scale="percentile"),
    "fewest in deviations": Cost("fewest", scale="mad", prices={"x0": {"up": 0.5, "down": 3.0}}),
}


@pytest.fixture(scope="module")
def scaled() -> tuple[Any, np.ndarray, np.ndarray]:
    """A linear model behind a scaler, its data, and a row that it denies."""
    rng = np.random.default_rng(3)
    table = np.round(rng.normal(size=(40, 3)) * [1.0, 20.0, 3.0], 1)
    scores = (table / table.std(axis=0)) @ [1.0, -0.8, 0.5] + rng.normal(size=40) / 3
    model = make_pipeline(StandardScaler(), LogisticRegression(C=10.0)).fit(table, (scores > 0.4).astype(int))
    return model, table, table[model.predict(table) == 0][2]


@pytest.mark.parametrize("name", COSTS)
def test_the_cheapest_over_whole_intervals_is_confirmed_and_a_dearer_one_is_not(name: str, scaled: Any) -> None:
    model, table, row = scaled
    checker, cost = Checker(model, table), COSTS[name]
    found = Explainer(model, table).counterfactuals(row, k=1, cost=cost, progress=False)
    told = checker.check(found)
    assert (found.proven, told.status, told.reading) == (True, "proven", "own"), str(told)
    document = json.loads(found.to_json())
    point = np.array(list(document["counterfactuals"][0]["values"].values()))
    low, high = table.min(axis=0), table.max(axis=0)
    farther = np.clip(row + (point - row) * 1.25, low, high)
    assert (model.predict(farther[None, :]) == 1).all()
    claim = rewrite(document, counterfactuals=[write_changes(row, farther)], scope={**document["scope"], "k": 1})
    told = checker.check(claim)
    assert told.status == "refuted", str(told)
    assert "there is a nearer one" in told.failures[0].sentence
    none = rewrite(document, counterfactuals=[])
    assert checker.check(none).status == "refuted"


@pytest.mark.parametrize(
    ("norm", "asked"),
    [
        ("l2", {"margin": 0.1}),
        ("linf", {"target": Target(above=0.55, at_most=0.75)}),
        ("l1", {"constraints": ["cf.x0 >= x.x0", "cf.x1 <= 3"]}),
    ],
    ids=["margin", "band", "constraints"],
)
def test_targets_and_constraints_over_whole_intervals_are_decided(norm: Any, asked: Any, scaled: Any) -> None:
    model, table, row = scaled
    found = Explainer(model, table).counterfactuals(row, k=1, cost=Cost(norm), progress=False, **asked)
    told = Checker(model, table).check(found)
    assert (found.proven, told.status) == (True, "proven"), str(told)


def test_what_is_said_to_be_exact_is_confirmed_only_if_it_is(scaled: Any) -> None:
    """Rounded numbers cost a little more than need be: without the resolution the claim is false."""
    model, table, row = scaled
    document = json.loads(Explainer(model, table).counterfactuals(row, k=1, cost=Cost("l2"), progress=False).to_json())
    assert document["resolution"] > 0
    assert Checker(model, table).check(rewrite(document, resolution=0.0)).status != "proven"


PIECES = st.integers(1, 3).flatmap(
    lambda features: st.tuples(
        *[
            st.lists(
                st.tuples(st.integers(-6, 6), st.sampled_from([0, 0, 1, 2, 3, 5, float("inf")]), st.booleans()),
                min_size=1,
                max_size=4,
            )
            for _ in range(features)
        ]
    )
)


@settings(deadline=None, max_examples=150)
@given(PIECES, st.integers(1, 12), st.lists(st.floats(0, 8), min_size=1, max_size=4), st.integers(0, 2))
def test_no_choice_that_can_be_paid_adds_more_than_the_bound(
    features: Any, limit: int, prices: list[float], rounds: int
) -> None:
    adds = [np.array([one[0] for one in some], dtype=float) for some in features]
    costs = [np.array([one[1] for one in some], dtype=float) for some in features]
    inside = [np.array([one[2] for one in some]) for some in features]
    count = len(features)
    pieces = Pieces(tuple(flags[None, :] for flags in inside), np.zeros((1, count), dtype=np.int32))
    changes = ChangePieces(pieces, np.ones((1, count), dtype=bool), np.zeros((1, count)), np.zeros(1), float(limit))
    terms = [(j, own, 0.0) for j, own in enumerate(adds)]
    enough = np.full(1, -np.inf)
    bound, price = bound_at_prices(terms, costs, changes, np.array(sorted(prices)), enough, rounds)
    choices = [
        [(a, c) for a, c, here in zip(*three, strict=True) if here] for three in zip(adds, costs, inside, strict=True)
    ]
    payable = [sum(a for a, _ in one) for one in itertools.product(*choices) if sum(c for _, c in one) < limit]
    assert bound[0] >= max(payable, default=-np.inf) - 1e-9
    assert min(prices) - 1e-9 <= price[0] <= max(prices) + 1e-9


def test_a_better_price_is_found_between_those_that_are_tried_first() -> None:
    """The largest gain for a cost below 2 is 2, at the price 1: of two items that gain 1 for each cost."""
    adds, costs = np.array([0.0, 2.0]), np.array([0.0, 2.0])
    pieces = Pieces((np.ones((1, 2), dtype=bool),) * 2, np.zeros((1, 2), dtype=np.int32))
    changes = ChangePieces(pieces, np.ones((1, 2), dtype=bool), np.zeros((1, 2)), np.zeros(1), 2.0)
    terms, tried = [(0, adds, 0.0), (1, adds, 0.0)], np.array([0.0, 0.7, 2.3])
    coarse = bound_at_prices(terms, [costs, costs], changes, tried, np.full(1, -np.inf), 0)[0]
    fine = bound_at_prices(terms, [costs, costs], changes, tried, np.full(1, -np.inf))[0]
    assert coarse[0] > 2.5
    assert 2.0 <= fine[0] < 2.001


def test_suggested_changes_are_the_nearest_within_their_limits() -> None:
    model, table, row = fit("forest", 3)
    checker = Checker(model, table)
    document = json.loads(Explainer(model, table).explain(row, k=2).to_json())
    changes = document["changes"]
    assert changes["proven"]
    assert changes["limits"]
    assert changes["counterfactuals"]

    def find(altered: dict[str, Any]) -> tuple[str, str]:
        told = checker.check(rewrite(document, changes={**changes, **altered}))
        return next(one[1:] for one in told.findings if one.claim == "suggested changes")

    status, sentence = find({})
    assert (status, "within the limits, where nothing becomes missing, nothing" in sentence) == ("holds", True)
    points = np.array(list(itertools.product(*map(np.unique, table.T))))
    limits = {name: one["moves"] for name, one in changes["limits"].items()}
    fits = model.predict(points) == 1
    for j in range(3):
        moves = limits.get(f"x{j}", ["rise", "fall"])
        fits &= (points[:, j] <= row[j]) | ("rise" in moves)
        fits &= (points[:, j] >= row[j]) | ("fall" in moves)
    first = np.array(list(changes["counterfactuals"][0]["values"].values()))
    more = [point for point in points[fits] if (point != row).sum() > (first != row).sum()]
    status, sentence = find({"counterfactuals": [write_changes(row, more[0])]})
    assert (status, "there is a nearer one" in sentence) == ("undecided", True)
    status, sentence = find({"counterfactuals": [], "complete": True})
    assert (status, "there is another one" in sentence) == ("undecided", True)
    moved = changes["counterfactuals"][0]["changes"][0]["feature"]
    status, sentence = find({"limits": {**changes["limits"], moved: {"moves": [], "reason": "immutable"}}})
    assert (status, "must satisfy the constraints" in sentence) == ("fails", True)
    assert find({"counterfactuals": [write_changes(row, more[0])], "proven": False})[1].endswith("is not claimed")


def test_suggested_changes_by_a_cost_are_read_and_checked() -> None:
    model, table, row = fit("logistic", 1)
    document = json.loads(Explainer(model, table).explain(row, k=1, change_cost=Cost("l2")).to_json())
    assert (document["changes"]["cost"]["norm"], document["changes"]["proven"]) == ("l2", True)
    told = Checker(model, table).check(document)
    said = next(one for one in told.findings if one.claim == "suggested changes")
    assert (told.status, said.status) == ("proven", "holds")
    assert "nothing is nearer by more than" in said.sentence
    odd = rewrite(document, changes={**document["changes"], "cost": {"norm": "l7", "scale": "range"}})
    assert Checker(model, table).check(odd).status == "refuted"


@pytest.mark.parametrize("kind", ["tree", "forest"])
def test_a_region_that_could_be_larger_is_not_confirmed(kind: str) -> None:
    model, table, row = fit(kind, 3)
    explainer, checker = Explainer(model, table), Checker(model, table)
    found = explainer.counterfactuals(row, progress=False)[0]
    region = explainer.counterfactual_region(found, features="all")
    told = checker.check(region)
    assert (region.maximal, told.status) == (True, "proven"), str(told)
    assert "lets in a point that is denied" in told.findings[-1].sentence
    document, narrowed = json.loads(region.to_json()), 0
    for place, part in enumerate(document["rule"]["components"]):
        added = document["scope"]["breakpoints"].get(part["feature"], [])
        values = sorted({*table[:, int(part["feature"][1:])].tolist(), *added})
        own, step = document["counterfactual"]["values"][part["feature"]], {"<=": -1, ">=": 1}.get(part["op"])
        if step is None or part["value"] == own:
            continue
        inner = values[values.index(part["value"]) + step]
        altered = json.loads(region.to_json())
        for rule in (altered["rule"], altered["rounded"]):
            rule["components"][place]["value"] = inner
        one = next(one for one in altered["ranges"] if one["feature"] == part["feature"])
        one["high" if part["op"] == "<=" else "low"] = inner
        told = checker.check(rewrite(altered))
        assert [finding.claim for finding in told.failures] == ["maximal"], str(told)
        narrowed += 1
        assert checker.check(rewrite(altered, maximal=False)).status == "proven"
    assert narrowed


def test_constraints_on_changes_say_how_far_a_region_could_go() -> None:
    model, table, row = fit("boosted", 1)
    limits = ["cf.x0 >= x.x0"]
    explainer = Explainer(model, table, constraints=limits)
    found = explainer.counterfactuals(row, progress=False)[0]
    region = explainer.counterfactual_region(found, features="all")
    told = Checker(model, table, constraints=limits).check(region)
    assert (region.maximal, told.status) == (True, "proven"), str(told)
    assert told.notes[-1] == "that a region is no larger for constraints on changes was taken from the document"
    document = json.loads(region.to_json())
    assert document["scope"]["change_constraints"] == limits
    free = rewrite(document, scope={**document["scope"], "change_constraints": []})
    assert [one.claim for one in Checker(model, table).check(free).failures] == ["maximal"]


def test_suggested_changes_are_checked_under_the_constraints_that_their_document_names() -> None:
    model, table, row = fit("boosted", 1)
    free = Explainer(model, table).explain(row, k=1).changes[0]
    name = next(iter(free.changes)).feature
    limits = [f"cf.{name} == x.{name}"]
    document = json.loads(Explainer(model, table, constraints=limits).explain(row, k=1).to_json())
    assert document["changes"]["constraints"] == limits
    finding = next(one for one in Checker(model, table).check(document).findings if one.claim == "suggested changes")
    assert (finding.status, "1 constraint of the document" in finding.sentence) == ("holds", True)
    changes = {key: value for key, value in document["changes"].items() if key != "constraints"}
    untold = Checker(model, table).check(rewrite(document, changes=changes))
    assert next(one.status for one in untold.findings if one.claim == "suggested changes") == "undecided"

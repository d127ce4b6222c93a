"""The overview: its figures are those of the rows and of the batch, counted again in another way."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from server_examples import DENIED, build_demo, open_client

from ironrule import Cost, Explanation, Feature
from ironrule.model.decision import Direction
from ironrule.rule.cost import parse_price_texts, parse_step_texts
from ironrule.server.served_model import ServedModel
from ironrule.server.views.cases import build_cost_examples
from ironrule.server.views.overview import MAX_GROUPS, build_groups
from ironrule.server.views.scores import SCORE_BINS, assign_score_bins
from ironrule.space.space import Space
from waiting import wait_until


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=200), st.booleans(), st.integers(0, 2**20))
def test_groups_hold_every_row_once_and_count_who_is_denied(values: list[int], ordered: bool, seed: int) -> None:
    feature = Feature("a", tuple(sorted(set(values))), ordered=ordered)
    column = np.array([feature.code(value) for value in values])
    outcomes = np.random.default_rng(seed).random(len(values)) < 0.6
    groups = build_groups(feature, column, outcomes)
    assert len(groups) <= MAX_GROUPS
    assert sum(group["rows"] for group in groups) == len(values)
    assert sum(group["undesired"] for group in groups) == int((~outcomes).sum())
    for group in groups:
        low, _, high = group["group"].partition(" to ")
        if "other" in group["group"]:
            continue
        inside = [int(low) <= value <= int(high or low) for value in values]
        assert group["rows"] == sum(inside)
        assert group["undesired"] == int((~outcomes & inside).sum())
        assert group["share"] == pytest.approx(group["undesired"] / group["rows"], abs=1e-4)


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=60).filter(lambda all: len(set(all)) > 1),
    st.none() | st.integers(0, 40),
    st.sampled_from(("above", "below")),
    st.integers(0, 2**20),
)
def test_no_bar_has_scores_of_both_sides_of_the_threshold(
    numbers: list[int], cut: int | None, direction: Direction, seed: int
) -> None:
    scores = np.array(numbers) / 40.0
    threshold = None if cut is None else min(max(cut / 40.0, scores.min()), scores.max())
    outcomes = np.random.default_rng(seed).random(len(scores)) < 0.5
    if threshold is not None:  # a row that is exactly there may have either outcome
        outcomes = np.where(scores == threshold, outcomes, (scores > threshold) == (direction == "above"))
    bins = assign_score_bins(scores, outcomes, threshold, direction)
    assert bins.count in (SCORE_BINS, SCORE_BINS + 1)
    assert ((bins.places >= 0) & (bins.places < bins.count)).all()
    for score, place in zip(scores, bins.places, strict=True):
        left = bins.start + place * bins.width
        assert left - 1e-9 <= score <= left + bins.width + 1e-9
    if threshold is not None:
        edge = bins.find_place(threshold) * bins.count
        assert edge == pytest.approx(round(edge), abs=0.01)
        is_right = bins.places >= round(edge)
        assert (is_right == (outcomes == (direction == "above"))).all()


def test_examples_of_prices_and_steps_can_be_typed() -> None:
    features = (
        Feature("a share", (0.001, 0.25), ordered=True),
        Feature("rooms", tuple(range(1, 9)), ordered=True),
        Feature("home", ("own", "rent"), ordered=False),
    )
    for count in (1, 2, 3):
        for some in permutations(features, count):
            space = Space(some)
            examples = build_cost_examples(space)
            prices = [examples[key] for key in ("price", "directions", "never")]
            cost = Cost(
                "l1",
                prices=parse_price_texts([one for one in prices if one is not None]),
                steps=parse_step_texts([one for one in (examples["step"],) if one is not None]),
            )
            assert set(cost.names) <= set(space.names)
            assert bool(cost.steps) == any(one.ordered for one in some)
    assert build_cost_examples(Space(features[:1]))["step"] == "a share=0.002"
    assert build_cost_examples(Space(features[1:]))["step"] == "rooms=1"
    money = Feature("loan amount", (250, 18_000), ordered=True)
    assert build_cost_examples(Space((*features, money)))["step"] == "loan amount=100"  # the longer steps show more


@pytest.fixture(scope="module")
def served_model() -> ServedModel:
    return build_demo()


def start_batch(client: httpx.Client, **fields: str) -> str:
    """Explain by a batch; gives its address when it has ended."""
    where = client.post("/batches", data=fields).headers["location"]
    wait_until(lambda: client.get(f"{where}.json").json()["state"] not in ("waiting", "running") or None, "the batch")
    return str(where)


def test_the_overview_counts_rows_groups_rules_and_features(served_model: ServedModel, tmp_path: Path) -> None:
    with open_client(served_model, tmp_path) as client:
        before = client.get("/overview.json?by=housing").json()
        assert before["batch"] is None
        assert "Not known yet" in client.get("/overview").text
        outcomes = served_model.explainer.outcomes
        assert (before["total"], before["undesired"]) == (len(outcomes), int((~outcomes).sum()))
        homes = {"own", "rent", "for free"}
        assert {group["group"] for group in before["groups"]} == homes
        for group in before["groups"]:
            found = client.post("/applicants", data={"text": f"housing = {group['group']}", "outcome": "undesired"})
            listed = client.get(found.headers["location"], headers={"accept": "application/json"}).json()
            assert listed["total"] == group["undesired"]
        assert sum(bar["undesired"] for bar in before["scores"]["bars"]) == before["undesired"]

        where = start_batch(client, most="12")
        after, lines = client.get("/overview.json").json()["batch"], client.get(f"{where}/results.json").json()["lines"]
        assert (after["rows_done"], after["rows_total"], after["has_ended"]) == (12, 12, True)
        explanations = [
            Explanation.from_dict(client.get(f"/api/explanations/{line['explanation']}").json()["document"])
            for line in lines
        ]
        shown = Counter(name for one in explanations for name in one.shown.rule.features)
        assert {one["feature"]: one["rules"] for one in after["features"]} == shown
        assert after["covered"] == 12
        assert after["uncovered"] == 0
        covering = {line["row"]: one for line, one in zip(lines, explanations, strict=True)}
        covered = set()
        for rule in after["rules"]:
            wide = covering[rule["row"]].wider
            assert wide is not None
            flags = wide.rule.covers(pd.DataFrame([dict(one.instance) for one in covering.values()]))
            inside = {row for row, holds in zip(covering, flags, strict=True) if holds}
            assert rule["covered_rows"] == len(inside)
            covered |= inside
        assert covered == set(covering)
        assert f'<a href="{where}">12 applicants</a>' in client.get("/overview").text


def test_a_batch_under_constraints_says_nothing_of_all(served_model: ServedModel, tmp_path: Path) -> None:
    with open_client(served_model, tmp_path) as client:
        body = {"rows": [DENIED], "where": ["cf.duration_in_month >= 24"]}
        name = client.post("/api/jobs/batch", json=body).json()["job"]
        wait_until(lambda: client.get(f"/api/jobs/{name}").json()["state"] == "done" or None, "the batch")
        assert client.get(f"/batches/{name}.json").json()["verdicts"] == {"proven": 1}
        assert client.get("/overview.json").json()["batch"] is None

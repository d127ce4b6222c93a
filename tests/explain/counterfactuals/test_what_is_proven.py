"""The table in docs/counterfactuals.md of what is proven: every cell of it is asked about."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule import Cost, Explainer, Target

PAGE = Path(__file__).parents[3] / "docs" / "counterfactuals.md"
HEADING = "| model |"


def build_network(seed: int) -> Any:
    return MLPClassifier((4,), activation="tanh", solver="lbfgs", max_iter=60, random_state=seed)


def build_forest(seed: int) -> Any:
    return RandomForestClassifier(4, max_depth=3, random_state=seed)


MODELS: dict[str, tuple[Callable[[int], Any], ...]] = {
    "decision tree": (lambda seed: DecisionTreeClassifier(max_depth=3, random_state=seed),),
    "forest, boosted trees": (build_forest,),
    "linear model": (lambda _: LogisticRegression(),),
    "additive model": (lambda _: GradientBoostingClassifier(n_estimators=5, max_depth=1),),
    "network": (build_network,),
    "forest and linear model in one": (
        lambda seed: VotingClassifier([("a", LogisticRegression()), ("b", build_forest(seed))], voting="soft"),
    ),
    "network with forest": (build_network, build_forest),
    "two networks": (build_network, build_network),
    "forest with linear model": (build_forest, lambda _: LogisticRegression()),
}
COSTS = {
    "fewest": Cost(),
    "l1": Cost("l1"),
    "l2": Cost("l2"),
    "linf": Cost("linf"),
    "prices": Cost("l1", prices={"a": {"up": 1, "down": 3}}),
    "steps": Cost(steps={"a": 0.2}),
    "MAD": Cost("l1", "mad"),
    "percentile": Cost("l1", "percentile"),
}
GOALS: dict[str, dict[str, Any]] = {
    "class": {"target": "yes"},
    "score": {"target": Target(above=0.55)},
    "band": {"target": Target(above=0.5, at_most=0.6)},
    "margin": {"margin": 0.03},
}


@functools.cache
def build_case(name: str) -> tuple[Explainer, list[Any], int]:
    """An explainer, further models, and a row that none of them desires."""
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"a": rng.normal(size=60).round(1), "b": rng.integers(0, 5, 60), "c": rng.integers(0, 3, 60)})
    built = []
    for seed, build in enumerate(MODELS[name]):
        score = (data / data.std()) @ np.array([1.0, 0.7 - 1.2 * seed, 0.5]) + rng.normal(0, 0.3, 60)
        model = build(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            built.append(model.fit(data, np.where(score > score.median(), "yes", "no")))
    explainer = Explainer(built[0], data, desired="yes")
    return explainer, built[1:], int(explainer.row_numbers[~explainer.outcomes][0])


def is_counterfactual_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    return all(explainer.counterfactuals(row, k=k, **options).proven for k in (1, 2))


def is_diverse_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    return explainer.diverse_counterfactuals(row, k=2, spread=0.2, **options).proven


def is_menu_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    menu = explainer.change_menu(row, **options)
    sets = explainer.change_sets(row, **options)
    assert {one.features for one in sets} == {one.features for one in menu}
    return menu.complete and sets.complete and all(one.proven and one.minimal for one in menu)


def are_groups_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    return all(one.proven for one in explainer.group_changes(row, [["a", "b"], ["c"]], **options))


def is_none_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    found = explainer.find_forbidding_restrictions(row, features_to_vary=["c"], **options)
    return found.counterfactual is not None or (found.proven and found.minimal)


def is_region_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    proven = []
    for goal in GOALS.values():  # all of them take no time
        given = goal | {name: models for name, models in options.items() if name == "models"}
        (found,) = explainer.counterfactuals(row, k=1, **given)
        region = explainer.counterfactual_region(found, "all", **given)
        assert region.margin == goal.get("margin", 0.0)
        proven.append(region.proven)
    return all(proven)


def is_past_row_proven(explainer: Explainer, row: int, options: dict[str, Any]) -> bool:
    return explainer.past_counterfactuals(row, k=1, **options).proven


ANSWERS = {
    "`counterfactuals`": is_counterfactual_proven,
    "`diverse_counterfactuals`": is_diverse_proven,
    "`change_menu`, `change_sets`": is_menu_proven,
    "`group_changes`": are_groups_proven,
    "`find_forbidding_restrictions`": is_none_proven,
    "`counterfactual_region`": is_region_proven,
    "`past_counterfactuals`": is_past_row_proven,
}


@functools.cache
def read_table() -> dict[str, dict[str, str]]:
    """The table of the page: by model and kind of answer what it says."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(HEADING))
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[start:]]
    head, *body = rows[: next(place for place, line in enumerate(lines[start:]) if not line.startswith("|"))]
    return {name: dict(zip(head[1:], cells, strict=True)) for name, *cells in body[1:]}


def test_the_table_has_a_row_for_every_model_and_a_column_for_every_answer() -> None:
    table = read_table()
    assert set(table) == set(MODELS)
    assert all(set(row) == set(ANSWERS) for row in table.values())
    assert {re.sub(r"[^a-z]", "", cell) for row in table.values() for cell in row.values()} == {"proven", "no"}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("name", MODELS)
def test_what_the_table_says_is_so(name: str, answer: str) -> None:
    explainer, further, row = build_case(name)
    places = [*MODELS].index(name) + [*ANSWERS].index(answer)
    goals, costs = [*GOALS], [*COSTS]
    goal, cost = goals[places % len(goals)], costs[(places * 3) % len(costs)]
    if ("change_sets" in answer or "forbidding" in answer) and "network" in name and goal == "band":
        goal = "score"  # as the page says
    options = GOALS[goal] | {"cost": COSTS[cost]} | ({"models": further} if further else {})
    assert ANSWERS[answer](explainer, row, options) == (read_table()[name][answer] == "proven"), (goal, cost)


def test_of_a_function_nothing_is_proven() -> None:
    explainer, _, row = build_case("decision tree")
    model = explainer._context.arguments.models[0]
    asked = Explainer(lambda rows: model.predict(rows), explainer._context.table.native, desired="yes")
    for answer in ("`counterfactuals`", "`diverse_counterfactuals`", "`change_menu`, `change_sets`", "`group_changes`"):
        assert not ANSWERS[answer](asked, row, {})

"""Least steps of roles: documents name them, the checker proves claims under them, and wrong words are found."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from change_examples import BUILDERS, Document, failing, fit, rewrite, write_changes

from ironrule import Checker, Cost, Explainer, Role
from ironrule.checker.changes.space import _find_constant
from ironrule.checker.space.constraints import parse_constraint

STEPS = {"x0": 2, "x1": 0.75}  # x0 has whole numbers in floats, from 0 to 4; x1 halves up to 1.5
ROLES = {"x0": Role(minimum_step=2), "x1": Role(direction="rise", minimum_step=0.75), "x2": Role(direction="fall")}
RULES = {"domain": "seen"}, {}


def obeys(points: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Which points the roles permit."""
    apart = np.abs(points - row)
    fits = (points[:, 1] >= row[1]) & (points[:, 2] <= row[2])
    for j, step in enumerate(STEPS.values()):
        fits &= (points[:, j] == row[j]) | (apart[:, j] >= step * (1 - 2e-6))
    return np.asarray(fits)


def measure(points: np.ndarray, row: np.ndarray, table: np.ndarray, norm: str) -> np.ndarray:
    """What points cost; changes count for 1,000 each where they come first."""
    apart = np.abs(points - row) / np.ptp(table, axis=0)
    if norm == "linf":
        return np.asarray(apart.max(axis=1))
    return apart.sum(axis=1) + (1000.0 * (points != row).sum(axis=1) if norm == "fewest" else 0.0)


@pytest.mark.parametrize("norm", ["fewest", "l1", "linf"])
@pytest.mark.parametrize("kind", BUILDERS)
def test_claims_under_least_steps_are_proven_and_confirmed_as_dense_samples_have_it(kind: str, norm: Any) -> None:
    model, table, row = fit(kind, 2)
    checker = Checker(model, table)
    ends = [np.linspace(low, high, 25) for low, high in zip(table.min(axis=0), table.max(axis=0), strict=True)]
    sides = [
        np.append(some, [own, own - step, own + step]) for some, own, step in zip(ends, row, (2, 0.75, 1), strict=True)
    ]
    for options in RULES:
        found = Explainer(model, table, roles=ROLES, **options).counterfactuals(
            row, k=1, cost=Cost(norm), progress=False
        )
        told = checker.check(found)
        assert (found.proven, told.status) == (True, "proven"), f"{options} {told}"
        document = json.loads(found.to_json())
        assert sum(" + " in text for text in document["scope"]["change_constraints"]) == len(STEPS)
        values = [np.unique(column) for column in table.T] if options else [np.unique(some) for some in sides]
        points = np.array(list(itertools.product(*values)))
        inside = (points >= table.min(axis=0)) & (points <= table.max(axis=0))
        points = points[inside.all(axis=1)]
        good = points[(model.predict(points) == 1) & obeys(points, row)]
        if not len(found):
            assert not len(good)
            continue
        own = np.array(list(document["counterfactuals"][0]["values"].values()))
        assert obeys(own[None, :], row)[0]
        costs, claimed = measure(good, row, table, norm), measure(own[None, :], row, table, norm)[0]
        assert (costs >= claimed - 3 * found.resolution - 1e-5).all()
        forbidden = points[(model.predict(points) == 1) & ~obeys(points, row)]
        dearer = good[costs > claimed + 3 * found.resolution + 0.02]
        for point in (*forbidden[:: max(1, len(forbidden) // 4)], *dearer[:: max(1, len(dearer) // 4)]):
            forged = rewrite(document, counterfactuals=[write_changes(row, point)])
            told = checker.check(forged)
            assert told.status == "refuted", f"{options} {point} {told}"


@pytest.mark.parametrize("kind", ["forest", "logistic", "network"])
def test_a_document_that_leaves_a_step_out_or_has_another_is_not_confirmed(kind: str) -> None:
    """Only where nothing nearer is reached without it, which an unrestricted search says."""
    model, table, row = fit(kind, 2)
    roles = {"x0": Role(minimum_step=2), "x1": "immutable", "x2": "immutable"}
    found = Explainer(model, table, roles=roles).counterfactuals(row, k=1, progress=False)
    if not found.items:
        pytest.skip("no change of this feature is enough")
    document, checker = json.loads(found.to_json()), Checker(model, table)
    scope, free = document["scope"], ["cf.x1 == x.x1", "cf.x2 == x.x2"]
    loose = Explainer(model, table).counterfactuals(row, k=1, constraints=free, progress=False)
    nearer = loose[0].changes[0].after != found[0].changes[0].after
    told = checker.check(rewrite(document, scope={**scope, "change_constraints": free}))
    assert told.status == ("refuted" if nearer else "proven"), str(told)
    other = [text.replace("2", "4.5") if " + " in text else text for text in scope["change_constraints"]]
    told = checker.check(rewrite(document, scope={**scope, "change_constraints": other}))
    assert failing(told) == ["counterfactuals"], str(told)


@pytest.fixture(scope="module")
def advised() -> tuple[Checker, Document]:
    """An explanation whose suggestions obey least steps, and a checker."""
    model, table, row = fit("boosted", 2)
    document = json.loads(Explainer(model, table, roles=ROLES).explain(row, k=2).to_json())
    return Checker(model, table), document


def find_advice(advised: tuple[Checker, Document], **altered: Any) -> tuple[str, str]:
    """What becomes of the suggested changes, where they are altered."""
    checker, document = advised
    told = checker.check(rewrite(document, changes={**document["changes"], **altered}))
    return next((one.status, one.sentence) for one in told.findings if one.claim == "suggested changes")


def test_suggestions_under_least_steps_are_decided(advised: tuple[Checker, Document]) -> None:
    changes = advised[1]["changes"]
    assert changes["proven"]
    assert changes["limits"]["x1"]["reason"] == "may only rise by at least 0.75"
    status, sentence = find_advice(advised)
    assert (status, "within the limits and" in sentence and "nothing" in sentence) == ("holds", True)
    assert "not decided" not in sentence


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("x0", {"moves": ["rise", "fall"], "reason": "by at least 1"}),
        ("x0", {"moves": ["rise", "fall"], "reason": "by at least 2.5"}),
        ("x1", {"moves": ["rise"], "reason": "may only rise by at least 0.74"}),
        ("x1", {"moves": ["rise"], "reason": "may only fall by at least 0.75"}),
        ("x2", {"moves": ["fall"], "reason": "may only fall by at least 1"}),
        ("x2", {"moves": ["fall"], "reason": "immutable"}),
        ("x2", {"moves": ["fall"], "reason": "may change as it likes"}),
    ],
)
def test_other_words_for_a_limit_are_found(advised: tuple[Checker, Document], name: str, limit: Document) -> None:
    limits = {**advised[1]["changes"]["limits"], name: limit}
    status, sentence = find_advice(advised, limits=limits)
    assert (status, f"what limits '{name}' must be named as it is" in sentence) == ("fails", True)


def test_words_without_their_constraint_are_found(advised: tuple[Checker, Document]) -> None:
    constraints = [text for text in advised[1]["changes"]["constraints"] if "0.75" not in text and "0.749" not in text]
    assert len(constraints) == len(advised[1]["changes"]["constraints"]) - 1
    assert find_advice(advised, constraints=constraints)[0] == "fails"


def test_menus_and_reasons_under_least_steps_are_confirmed() -> None:
    model, table, row = fit("boosted", 2)
    checker, explainer = Checker(model, table), Explainer(model, table, roles=ROLES)
    assert checker.check(explainer.change_menu(row, progress=False)).status == "proven"
    narrow = Explainer(model, table, roles={"x0": Role(minimum_step=3.9), "x1": "immutable", "x2": "immutable"})
    why = narrow.find_forbidding_restrictions(row, progress=False)
    told = checker.check(why)
    assert (why.proven, told.status) == (True, "proven"), str(told)
    document = json.loads(why.to_json())
    for one in document["needed"]:
        text = one["text"].replace("immutable", "protected").replace("3.9", "1.9").replace("3.8", "1.8")
        altered = [{**other, "text": text if other is one else other["text"]} for other in document["needed"]]
        status = checker.check(rewrite(document, needed=altered)).status
        assert status == ("proven" if "immutable" in one["text"] else "refuted")


@pytest.mark.parametrize(
    ("side", "constant"),
    [
        ("x.x0 + 1.5", 1.5),
        ("x.x0 * 2 - x.x1 / 4", None),
        ("1 + 1", 2.0),
        ("5 / (1e308 * 10)", 0.0),
        ("x.x0 / 0", None),
        ("cf.x1 + 1", None),
        ("-x.x1", None),
    ],
)
def test_what_a_constraint_compares_with_is_calculated_from_the_row(side: str, constant: float | None) -> None:
    model, table, _ = fit("logistic", 1)
    space = Checker(model, table)._materials.space
    row = np.zeros(3, dtype=np.int32)
    parsed = parse_constraint(f"cf.x0 >= {side}").formula
    own = space.features[1].values[0]
    wanted = {"x.x0 * 2 - x.x1 / 4": -own / 4, "-x.x1": -own}.get(side, constant)
    assert _find_constant(parsed.parts[1], space, row) == wanted

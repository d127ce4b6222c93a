"""Counterfactuals and regions under the checker: true claims are confirmed, false and altered ones never."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from change_examples import BUILDERS, Document, failing, fit, make_table, rewrite, write_changes
from handmade_models import SLOPES, linear, rows
from hypothesis import given, settings, strategies as st

from ironrule import Checker, Cost, Explainer, Target, check
from ironrule.errors import InputError
from ironrule.results.changes.region import CounterfactualRegion
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.verdict.digest import add_digest

COSTS = {
    "default": Cost(),
    "fewest by percentile": Cost("fewest", scale="percentile", prices={"x0": 2.0}),
    "l1 with a charge": Cost("l1", scale="mad", prices={"x1": {"up": 0.5, "down": 3.0}}, per_change=0.25),
    "l2": Cost("l2", prices={"x2": math.inf}),
    "linf": Cost("linf", prices={"x0": {"up": 2.0, "down": math.inf}}),
    "steps": Cost("l1", steps={"x0": 2.0}),
}


def claim(document: Document, *items: Document) -> Document:
    """The document with other counterfactuals, said to be the nearest, exactly."""
    scope = {**document["scope"], "k": max(1, len(items))}
    return rewrite(document, counterfactuals=list(items), proven=True, resolution=0.0, domains={}, scope=scope)


@pytest.mark.parametrize("kind", BUILDERS)
def test_nearest_counterfactuals_are_confirmed_under_every_cost(kind: str) -> None:
    model, table, row = fit(kind)
    checker, explainer = Checker(model, table), Explainer(model, table, domain="seen")
    for name, cost in COSTS.items():
        found = explainer.counterfactuals(row, k=2, cost=cost, progress=False)
        result = checker.check(found.to_json())
        assert (found.proven, result.status) == (True, "proven"), f"{name}: {result}"


@pytest.mark.parametrize("kind", BUILDERS)
def test_nearest_counterfactuals_over_whole_intervals_are_confirmed(kind: str) -> None:
    model, table, row = fit(kind)
    found = Explainer(model, table).counterfactuals(row, k=1, progress=False)
    result = check(found, model, table, intervals=True, desired=1)
    assert (found.proven, result.status, result.reading, result.notes) == (True, "proven", "own", ()), str(result)


@pytest.mark.parametrize("kind", ["forest", "logistic", "network"])
@pytest.mark.parametrize(
    "options",
    [
        {"margin": 0.1},
        {"target": Target(above=0.35, at_most=0.6)},
        {"target": Target(at_most=0.9, above=0.7), "margin": 0.05},
    ],
    ids=["margin", "band", "band with margin"],
)
def test_targets_and_margins_are_part_of_what_is_checked(kind: str, options: dict[str, Any]) -> None:
    model, table, row = fit(kind)
    explainer = Explainer(model, table, domain="seen")
    document = json.loads(explainer.counterfactuals(row, k=1, progress=False, **options).to_json())
    points = np.array(list(itertools.product(*map(np.unique, table.T))))
    scores, margin = model.predict_proba(points)[:, 1], options.get("margin", 0.0)
    target = options.get("target", Target(above=0.5))
    good = (scores > target.above + margin) & (scores <= (target.at_most or 2.0) - margin)
    if "target" not in options:
        good &= np.asarray(model.predict(points) == 1)
    checker = Checker(model, table)
    for point in points[good]:
        told = checker.check(claim(document, write_changes(row, point)))
        assert told.status == ("proven" if _is_nearest(point, points[good], row, table) else "refuted"), str(told)
    assert checker.check(claim(document)).status == ("refuted" if good.any() else "proven")
    for point in points[~good & (points != row).any(axis=1)][:8]:
        assert failing(checker.check(claim(document, write_changes(row, point)))) == ["counterfactuals"]


def _is_nearest(point: np.ndarray, good: np.ndarray, row: np.ndarray, table: np.ndarray) -> bool:
    def measure(one: np.ndarray) -> tuple[int, float]:
        return int((one != row).sum()), round(float((np.abs(one - row) / np.ptp(table, axis=0)).sum()), 9)

    return measure(point) == min(map(measure, good))


def test_several_models_must_agree() -> None:
    model, table, row = fit("forest")
    other = BUILDERS["boosted"]().fit(*make_table(1))
    found = Explainer(model, table, domain="seen").counterfactuals(row, models=[other], progress=False)
    result = check(found, model, table, models=[other])
    assert (found.proven, result.status) == (True, "proven"), str(result)
    assert check(found, model, table).status == "undecided"


def measure_cost(cost: Cost, row: np.ndarray, point: np.ndarray, table: np.ndarray) -> tuple[float, float]:
    """What a change costs, in the plainest way: what comes first, and what decides among equals."""
    parts = []
    for j, (old, new) in enumerate(zip(row, point, strict=True)):
        column, price = table[:, j], cost.get_price(f"x{j}")
        middle = np.abs(column - np.median(column))
        deviation = np.median(middle) or middle.mean()
        apart = {
            "range": abs(new - old) / np.ptp(column),
            "mad": abs(new - old) / deviation,
            "percentile": abs((column < new).mean() - (column < old).mean()),
        }[cost.scale]
        each = price.up if new > old else price.down
        parts.append(0.0 if new == old else math.inf if each == math.inf else apart * each)
    count = float((row != point).sum())
    if math.inf in parts:
        return math.inf, math.inf
    total = {"l2": math.hypot(*parts), "linf": max(parts)}.get(cost.norm, sum(parts) + cost.per_change * count)
    return (count, total) if cost.norm == "fewest" else (0.0, total)


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    """Any cost of three features."""
    norm = draw(st.sampled_from(["fewest", "l1", "l2", "linf"]))
    each = st.sampled_from([0.5, 1.0, 2.0, 0.0, math.inf])
    price = st.one_of(each, st.fixed_dictionaries({"up": each, "down": each}))
    prices = draw(st.dictionaries(st.sampled_from(["x0", "x1", "x2"]), price, max_size=2))
    charge = draw(st.sampled_from([0.0, 0.3])) if norm == "l1" else 0.0
    return Cost(norm, draw(st.sampled_from(["range", "mad", "percentile"])), prices=prices, per_change=charge)


RESTRICTIONS = (
    "cf.x0 >= x.x0",
    "cf.x1 != x.x1",
    "if cf.x0 > x.x0 then cf.x2 == x.x2",
    "cf.x0 + cf.x1 <= 4",
    "cf.x2 > 0",
)


def holds(text: str, row: np.ndarray, point: np.ndarray) -> bool:
    """The same constraints in Python."""
    return {
        "cf.x0 >= x.x0": point[0] >= row[0],
        "cf.x1 != x.x1": point[1] != row[1],
        "if cf.x0 > x.x0 then cf.x2 == x.x2": point[0] <= row[0] or point[2] == row[2],
        "cf.x0 + cf.x1 <= 4": point[0] + point[1] <= 4,
        "cf.x2 > 0": point[2] > 0,
    }[text]


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from(sorted(BUILDERS)), st.integers(0, 50), costs(), st.sets(st.sampled_from(RESTRICTIONS), max_size=2)
)
def test_a_claim_is_confirmed_exactly_if_enumeration_says_so(
    kind: str, seed: int, cost: Cost, constraints: set[str]
) -> None:
    model, table, row = fit(kind, seed)
    texts = sorted(constraints)
    asked = {"cost": cost, "constraints": texts}
    try:
        document = json.loads(
            Explainer(model, table, domain="seen").counterfactuals(row, progress=False, **asked).to_json()
        )
    except InputError:  # nothing at all may occur
        return
    checker = Checker(model, table)
    points = np.array(list(itertools.product(*map(np.unique, table.T))))
    desired = np.asarray(model.predict(points)) == 1
    allowed = [all(holds(text, row, point) for text in texts) for point in points]
    keys = [measure_cost(cost, row, point, table) for point in points]
    finite = [key[1] < math.inf for key in keys]
    good = np.flatnonzero(desired & allowed & finite)
    best = min((keys[place] for place in good), default=None)
    assert checker.check(claim(document)).status == ("proven" if best is None else "refuted")
    bad = [place for place in range(len(points)) if place not in good and (points[place] != row).any()]
    for place in (*good[:30], *bad[:: max(1, len(bad) // 6)]):
        told = checker.check(claim(document, write_changes(row, points[place])))
        is_best = place in good and best is not None and keys[place] <= (best[0], best[1] + 1e-9)
        assert told.status == ("proven" if is_best else "refuted"), f"{points[place]}: {told}"


def _swap(document: Document) -> Document:
    return rewrite(document, counterfactuals=document["counterfactuals"][::-1])


def _scope(**fields: Any) -> Callable[[Document], Document]:
    return lambda document: rewrite(document, scope={**document["scope"], **fields})


def _item(change: Callable[[Document], Any]) -> Callable[[Document], Document]:
    def alter(document: Document) -> Document:
        items = copy.deepcopy(document["counterfactuals"])
        change(items[0])
        return rewrite(document, counterfactuals=items)

    return alter


ALTERED: dict[str, tuple[Callable[[Document], Document], str, str]] = {
    "the digest": (lambda d: {**d, "resolution": 0.5}, "digest", "refuted"),
    "another value": (_item(lambda one: one["values"].update(x0=99.0)), "counterfactuals", "refuted"),
    "a change that is none": (_item(lambda one: one["changes"].pop()), "counterfactuals", "refuted"),
    "a change from another value": (
        _item(lambda one: one["changes"][0].update(before=2.5)), "counterfactuals", "refuted"
    ),
    "another order": (_swap, "counterfactuals", "refuted"),
    "the same twice": (
        lambda d: rewrite(d, counterfactuals=[d["counterfactuals"][0]] * 2), "counterfactuals", "refuted"
    ),
    "fewer than there are": (lambda d: rewrite(d, counterfactuals=d["counterfactuals"][:1]), "no other", "refuted"),
    "more than were asked for": (_scope(k=1), "counterfactuals", "refuted"),
    "the first left out": (lambda d: rewrite(d, counterfactuals=d["counterfactuals"][1:]), "nearest", "refuted"),
    "the target": (lambda d: rewrite(d, target={"above": 0.9}), "decision", "refuted"),
    "the decision": (
        lambda d: rewrite(d, scope={**d["scope"], "decision": {"desired": [0], "threshold": None, "margin": 0.0}}),
        "model", "undecided",
    ),
    "a margin": (lambda d: rewrite(d, margin=0.2), "model", "undecided"),
    "the model": (_scope(model="0" * 32), "model", "undecided"),
    "the space": (_scope(space="0" * 64), "space", "undecided"),
    "the domains": (_scope(breakpoints={"x0": [0.25]}), "space", "undecided"),
    "constraints on the space": (_scope(constraints=["cf.x0 > 1"]), "space", "refuted"),
    "a restriction that it breaks": (_scope(change_constraints=["cf.x0 == x.x0", "cf.x1 == x.x1", "cf.x2 == x.x2"]),
                                     "counterfactuals", "refuted"),
    "features that it changes": (_scope(features_to_vary=[]), "counterfactuals", "refuted"),
    "a feature that there is not": (_scope(features_to_vary=["x9"]), "restrictions", "refuted"),
    "a price that forbids it": (
        lambda d: rewrite(d, cost={"norm": "fewest", "scale": "range", "prices": {f"x{j}": "inf" for j in range(3)}}),
        "counterfactuals", "refuted",
    ),
    "the row": (lambda d: rewrite(d, instance={**d["instance"], "x0": 77.0}), "restrictions", "refuted"),
    "models beside": (lambda d: rewrite(d, further_models=2), "decision", "undecided"),
    "no scope": (lambda d: add_digest({k: v for k, v in d.items() if k != "scope"}), "decision", "undecided"),
}  # fmt: skip


@pytest.fixture(scope="module")
def good() -> tuple[Any, np.ndarray, Document]:
    for seed in range(1, 40):  # the first for which there are two
        model, table, row = fit("forest", seed)
        found = Explainer(model, table, domain="seen").counterfactuals(row, k=2, progress=False)
        if found.proven and len(found) == 2:
            break
    assert len(found) == 2
    return model, table, json.loads(found.to_json())


@pytest.mark.parametrize("name", ALTERED)
def test_altered_documents_are_not_confirmed(good: tuple[Any, np.ndarray, Document], name: str) -> None:
    model, table, document = good
    alter, where, status = ALTERED[name]
    told = check(alter(copy.deepcopy(document)), model, table)
    assert told.status == status, str(told)
    wrong = [finding.claim for finding in told.findings if finding.status != "holds"]
    assert wrong[0].startswith(where), str(told)


@pytest.mark.parametrize(
    "fields",
    [
        {"unknown": 1},
        {"resolution": -0.1},
        {"proven": 1},
        {"cost": {"norm": "l3", "scale": "range"}},
        {"cost": {"norm": "l1", "scale": "range", "prices": {"x0": -1}}},
        {"cost": {"norm": "l2", "scale": "range", "per_change": 1.0}},
        {"cost": {"norm": "l1", "scale": "range", "steps": {"x0": 0}}},
        {"cost": {"norm": "l2", "scale": "range", "prices": {"x0": 1e200}}},
        {"cost": {"norm": "l1", "scale": "range", "per_change": 1e300}},
        {"counterfactuals_format": 1},
        {"counterfactuals_format": True},
        {"margin": "0.1"},
        {"instance": []},
    ],
    ids=str,
)
def test_malformed_documents_are_refused(good: tuple[Any, np.ndarray, Document], fields: Document) -> None:
    model, table, document = good
    with pytest.raises(InputError):
        check(rewrite(document, **fields), model, table)


def test_that_none_was_asked_for_is_refused(good: tuple[Any, np.ndarray, Document]) -> None:
    model, table, document = good
    nothing = claim(document)
    with pytest.raises(InputError, match="positive"):
        check(rewrite(nothing, scope={**document["scope"], "k": 0}), model, table)


def test_a_step_next_to_nothing_confirms_nothing(good: tuple[Any, np.ndarray, Document]) -> None:
    model, table, document = good
    fine = {"norm": "l1", "scale": "range", "steps": {f"x{j}": 1e-320 for j in range(3)}}
    assert check(rewrite(claim(document), cost=fine), model, table).status != "refuted"
    assert failing(check(rewrite(document, cost=fine), model, table)) == ["counterfactuals"]


def test_regions_of_a_document_are_checked_along() -> None:
    model, table, row = fit("boosted")
    explainer = Explainer(model, table)
    found = explainer.counterfactuals(row, k=1, progress=False)
    region = json.loads(explainer.counterfactual_region(found[0]).to_json())
    document = rewrite(json.loads(found.to_json()), regions=[region])
    told = check(document, model, table)
    assert told.status == "proven"
    assert told.findings[-1][:2] == ("region 1", "holds")
    other = {**region, "fixed": {**region["fixed"], "x9": 1.0}}
    assert failing(check(rewrite(document, regions=[add_digest(other)]), model, table)) == ["region 1"]
    elsewhere = copy.deepcopy(region)
    elsewhere["counterfactual"]["values"]["x0"] = 0.0
    assert failing(check(rewrite(document, regions=[add_digest(elsewhere)]), model, table)) == ["region 1"]


def test_what_is_not_proven_is_never_confirmed(good: tuple[Any, np.ndarray, Document]) -> None:
    model, table, document = good
    told = check(rewrite(document, proven=False), model, table)
    assert (told.status, failing(told)) == ("undecided", [])


def test_between_values_a_finer_claim_than_is_true_is_not_confirmed() -> None:
    """The model turns at 2.4301 of x0: with 2.5 a counterfactual is near, but not as near as it could be."""
    model, past = linear([[1.0, 0.0]], [-2.4301]), np.array([[0.0, 0.0], [1.0, 1.0], [4.0, 0.0], [8.0, 1.0]])
    document = json.loads(Explainer(model, past).counterfactuals(past[1], progress=False).to_json())
    assert check(document, model, past).status == "proven"
    moved = {"values": {"x0": 2.5, "x1": 1.0}, "changes": [{"feature": "x0", "before": 1.0, "after": 2.5}]}
    coarse = rewrite(document, counterfactuals=[moved], resolution=0.01)
    fine = rewrite(document, counterfactuals=[moved], resolution=0.008)
    assert [check(one, model, past).status for one in (coarse, fine)] == ["proven", "refuted"]


def test_a_caller_who_means_something_else_is_told(good: tuple[Any, np.ndarray, Document]) -> None:
    model, table, document = good
    assert failing(check(document, model, table, desired=0)) == ["decision"]
    assert failing(check(document, model, table, desired=1, threshold=0.7)) == ["decision"]
    assert failing(check(document, model, table, desired=1, margin=0.1)) == ["decision"]
    assert check(document, model, table, desired=1, margin=0.0).strict
    assert check(document, model, table, desired=1, intervals=True).status == "undecided"
    assert check(document, model, table, constraints=["cf.x0 >= x.x0"]).status == "undecided"


def test_counterfactuals_are_read_back_with_their_scope(good: tuple[Any, np.ndarray, Document]) -> None:
    _, _, document = good
    read = Counterfactuals.from_dict(document)
    assert read.scope is not None
    assert json.loads(read.to_json()) == document


@pytest.mark.parametrize("kind", ["boosted", "logistic", "network"])
def test_regions_are_confirmed_and_larger_ones_are_not(kind: str) -> None:
    model, table, row = fit(kind)
    explainer = Explainer(model, table, domain="seen")
    region = explainer.counterfactual_region(explainer.counterfactuals(row, progress=False)[0], features="all")
    read = CounterfactualRegion.from_json(region.to_json())
    assert read == region
    told = check(region, model, table)
    assert (region.proven, told.status, told.document) == (True, "proven", "region"), str(told)
    assert told.findings[-1][:2] == ("maximal", "holds")
    document = json.loads(region.to_json())
    free = rewrite(
        document, rule={**document["rule"], "components": []}, rounded={**document["rounded"], "components": []}
    )
    assert check(free, model, table).status == "refuted"
    certificate = document["verdict"]["certificate"]
    largest = [size - 1 for size in (len(np.unique(column)) for column in table.T)]
    whole = {**certificate, "low": [0] * 3, "high": largest}
    domains = {f"x{j}": np.unique(table[:, j]).tolist() for j in range(3)}
    before = {change["feature"]: change["before"] for change in document["counterfactual"]["changes"]}
    values = document["counterfactual"]["values"]
    ranges = [
        {"feature": name, "low": own[0], "high": own[-1], "first": own[0], "last": own[-1],
         "before": before.get(name, values[name]), "after": values[name], "any_value": True}
        for name, own in domains.items()
    ]  # fmt: skip
    forged = rewrite(free, ranges=ranges, verdict={"kind": "proven", "certificate": whole})
    assert failing(check(forged, model, table)) == ["region"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda d: d["fixed"].update(x0=99.0), "ranges"),
        (lambda d: d["ranges"][0].update(low=-1.0), "ranges"),
        (lambda d: d["rule"].update(outcome="1"), "counterfactual"),
        (lambda d: d["rounded"]["components"].pop(), "rounded"),
        (lambda d: d["counterfactual"]["values"].update(x0=99.0), "counterfactual"),
        (lambda d: d["verdict"]["certificate"].update(model="0"), "region"),
        (lambda d: d["verdict"]["certificate"].update(covers=[]), "region"),
    ],
)
def test_altered_regions_are_refuted(change: Callable[[Document], Any], where: str) -> None:
    table = rows(4, 3, 3, 2)
    model = linear(SLOPES, [-2.0])
    explainer = Explainer(model, table)
    found = explainer.counterfactuals(20, progress=False)
    document = json.loads(explainer.counterfactual_region(found[0]).to_json())
    assert check(document, model, table).status == "proven"
    change(document)
    assert failing(check(add_digest(document), model, table))[:1] == [where]


@pytest.mark.parametrize("cost", ["fewest", "l1", "linf"])
def test_what_a_heuristic_found_is_in_order_and_not_refuted(cost: str) -> None:
    model, table, row = fit("forest")
    explainer = Explainer(model, table, domain="seen")
    for seed in range(4):
        found = explainer.counterfactuals(row, k=5, algorithm="geco", cost=cost, seed=seed, progress=False)
        result = check(found, model, table)
        assert (len(found) > 1, found.proven, result.status) == (True, False, "undecided"), str(result)


def test_counterfactuals_that_differ_in_value_are_proven_again() -> None:
    model, table, row = fit("forest")
    apart = Explainer(model, table, domain="seen").diverse_counterfactuals(row, k=3, progress=False)
    result = check(apart, model, table)
    assert (len(apart), apart.proven, apart.spread, result.status) == (2, True, 0.1, "proven"), str(result)
    assert Counterfactuals.from_json(apart.to_json()) == apart
    document = json.loads(apart.to_json())
    worse = copy.deepcopy(document)
    worse["counterfactuals"][1] = write_changes(row, row)
    assert check(add_digest(worse), model, table).status == "refuted"


GOALS: dict[str, dict[str, Any]] = {"band": {}, "margin": {"margin": 0.1}, "models": {"margin": 0.02}}


def move_side(document: Document, table: np.ndarray) -> Document:
    """The region with one side moved out by a value, in all that speaks of it, and in its certificate."""
    moved, known = copy.deepcopy(document), document["scope"].get("breakpoints", {})
    for one in moved["ranges"]:
        name, place = one["feature"], int(one["feature"][1:])
        values = sorted({*table[:, place].tolist(), *known.get(name, ())})
        if one["any_value"] or one["high"] == values[-1]:
            continue
        code = values.index(one["high"]) + 1
        one["high"] = values[code]
        for rule in (moved["rule"], moved["rounded"]):
            for part in rule["components"]:
                if (part["feature"], part["op"]) == (name, "<="):
                    part["value"] = values[code]
            if code == len(values) - 1:
                rule["components"] = [p for p in rule["components"] if (p["feature"], p["op"]) != (name, "<=")]
                one["any_value"] = one["low"] == values[0]
        moved["verdict"]["certificate"]["high"][place] = code
        return rewrite(moved)
    raise AssertionError("no side can be moved")


@pytest.mark.parametrize("kind", ["tree", "boosted", "logistic", "network"])
@pytest.mark.parametrize("goal", GOALS)
def test_regions_of_targets_are_confirmed_and_forged_ones_are_not(kind: str, goal: str) -> None:
    model, table, _ = fit(kind)
    options, further = GOALS[goal], [fit("forest", 2)[0]] if goal == "models" else []
    explainer, checker = Explainer(model, table, domain="seen"), Checker(model, table, models=further)
    scores = model.predict_proba(table)[:, 1]
    known = np.unique(scores).tolist()
    if goal == "band":  # with points on both of its ends
        options = {"target": Target(above=known[len(known) // 3], at_most=known[-2])}
    row = table[np.argmin(scores)]
    found = explainer.counterfactuals(row, k=1, models=further, progress=False, **options)
    region = explainer.counterfactual_region(found[0], features="all", models=further)
    told = checker.check(region)
    assert (region.proven, told.status) == (True, "proven"), str(told)
    document = json.loads(region.to_json())
    forged = move_side(document, table)
    assert region.maximal
    assert checker.check(forged).status == "refuted"
    assert checker.check(rewrite(forged, maximal=False)).status == "refuted"
    assert checker.check(rewrite(document, margin=0.3)).status != "proven"
    assert checker.check(rewrite(document, target={"above": 0.9})).status == "refuted"
    plain = {name: value for name, value in document.items() if name not in ("target", "margin", "further_models")}
    assert checker.check(rewrite(plain)).status != "proven"
    # all that names the goal is changed, not only its field
    said = "a score above 0.9"
    decision = {**document["scope"]["decision"], "desired": None, "threshold": 0.9}
    decision.pop("upper", None)
    harder = {**plain, "target": {"above": 0.9}, "scope": {**document["scope"], "decision": decision}}
    harder |= {name: {**document[name], "outcome": said} for name in ("rule", "rounded")}
    assert Checker(model, table).check(rewrite(harder)).status != "proven"
    if further:
        assert Checker(model, table).check(region).status == "undecided"
        alone = {name: {**document[name], "outcome": document[name]["outcome"].partition(" and with")[0]} for name in
                 ("rule", "rounded")}  # fmt: skip
        dropped = {name: value for name, value in rewrite(document, **alone).items() if name != "further_models"}
        assert checker.check(rewrite(dropped)).status != "proven"


def test_a_region_must_be_about_what_its_counterfactuals_reach() -> None:
    model, table, row = fit("logistic")
    explainer = Explainer(model, table, domain="seen")
    found = explainer.counterfactuals(row, k=1, margin=0.1, progress=False)
    own = json.loads(explainer.counterfactual_region(found[0]).to_json())
    document = json.loads(found.to_json())
    assert check(rewrite(document, regions=[own]), model, table).status == "proven"
    other = json.loads(explainer.counterfactual_region(found[0], margin=0.0).to_json())
    assert failing(check(rewrite(document, regions=[other]), model, table)) == ["region 1"]

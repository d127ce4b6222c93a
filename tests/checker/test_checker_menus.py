"""Menus and forbidding restrictions under the checker: what it confirms is so by exhaustive search."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from change_examples import BUILDERS, Document, failing, fit, rewrite, write_changes

from ironrule import ChangeMenu, Checker, Cost, Explainer, Infeasibility, Role, check
from ironrule.errors import InputError

NAMES = ("x0", "x1", "x2")
LIMITS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {  # restrictions, and which points they allow
    "cf.x0 <= x.x0": lambda row, points: points[:, 0] <= row[0],
    "cf.x0 >= x.x0": lambda row, points: points[:, 0] >= row[0],
    "cf.x1 == x.x1": lambda row, points: points[:, 1] == row[1],
    "cf.x1 <= x.x1": lambda row, points: points[:, 1] <= row[1],
    "cf.x2 <= x.x2": lambda row, points: points[:, 2] <= row[2],
}


class Grid:
    """All points of a small space that a model gives the desired outcome, and what each changes and costs."""

    def __init__(self, kind: str, seed: int = 1) -> None:
        self.model, self.table, self.row = fit(kind, seed)
        every = np.array(list(itertools.product(*map(np.unique, self.table.T))))
        self.points = every[np.asarray(self.model.predict(every)) == 1]
        self.distances = (np.abs(self.points - self.row) / np.ptp(self.table, axis=0)).sum(axis=1)
        self.sets = [frozenset(np.flatnonzero(moved).tolist()) for moved in self.points != self.row]
        self.explainer = Explainer(self.model, self.table, domain="seen")
        self.checker = Checker(self.model, self.table)

    @property
    def minimal_sets(self) -> set[frozenset[int]]:
        """The sets of features whose change can do it, where no fewer of them can."""
        return {one for one in self.sets if not any(other < one for other in self.sets)}

    def list_changes(self, features: frozenset[int]) -> list[tuple[float, np.ndarray]]:
        """The changes of just these features, nearest first."""
        places = [place for place, one in enumerate(self.sets) if one == features]
        return sorted(((float(self.distances[p]), self.points[p]) for p in places), key=lambda one: one[0])

    def write_entry(self, features: frozenset[int], distance: float, point: np.ndarray) -> Document:
        """An entry of a menu as documents have it."""
        names = [NAMES[j] for j in sorted(features)]
        return {
            "name": " + ".join(names), "features": names, "counterfactual": write_changes(self.row, point),
            "distance": distance, "proven": True, "minimal": True, "resolution": 0.0,
        }  # fmt: skip


@pytest.fixture(scope="module", params=BUILDERS)
def grid(request: pytest.FixtureRequest) -> Grid:
    return Grid(request.param)


@pytest.fixture(scope="module")
def several() -> tuple[Grid, Document]:
    """A menu of several minimal sets, one of two features."""
    for seed in range(1, 60):
        found = Grid("forest", seed)
        if len(found.minimal_sets) > 1 and max(map(len, found.minimal_sets)) > 1:
            return found, json.loads(found.explainer.change_menu(found.row, progress=False).to_json())
    raise AssertionError("no such menu")


def test_an_entry_is_confirmed_exactly_if_it_is_minimal_and_the_cheapest(grid: Grid) -> None:
    document = json.loads(grid.explainer.change_menu(grid.row, progress=False).to_json())
    seen = set()
    for features in {*grid.sets}:
        for distance, point in grid.list_changes(features)[:3]:
            entry = grid.write_entry(features, distance, point)
            told = grid.checker.check(rewrite(document, entries=[entry], complete=False))
            cheapest = distance <= grid.list_changes(features)[0][0] + 1e-9
            good = features in grid.minimal_sets and cheapest
            assert told.status == ("proven" if good else "refuted"), str(told)
            seen.add(good)
    assert seen == {True, False}


@pytest.mark.parametrize("which", range(3))
def test_a_menu_is_complete_exactly_if_it_has_all_minimal_sets(which: int) -> None:
    grid = Grid("tree", (1, 4, 6)[which])
    document = json.loads(grid.explainer.change_menu(grid.row, progress=False).to_json())
    entries = [grid.write_entry(one, *grid.list_changes(one)[0]) for one in grid.minimal_sets]
    entries.sort(key=lambda one: (len(one["features"]), one["distance"]))
    for chosen in itertools.product([True, False], repeat=len(entries)):
        some = [entry for entry, keep in zip(entries, chosen, strict=True) if keep]
        told = grid.checker.check(rewrite(document, entries=some, complete=True))
        assert told.status == ("proven" if all(chosen) else "refuted"), str(told)


@pytest.mark.parametrize("domain", ["seen", "interval"])
def test_menus_as_they_are_found_are_confirmed(grid: Grid, domain: str) -> None:
    explainer = grid.explainer if domain == "seen" else Explainer(grid.model, grid.table)
    limits = {"constraints": ["cf.x0 + cf.x1 <= 4"], "cost": Cost("l1", "mad", prices={"x2": math.inf, "x1": 2.0})}
    menus = [explainer.change_menu(grid.row, progress=False)]
    if domain == "seen":  # elsewhere the cost of a linear model is often undecided
        menus.append(explainer.change_menu(grid.row, progress=False, **limits))
    menus.append(explainer.group_changes(grid.row, {"both": ["x0", "x1"], "last": ["x2"]}, progress=False))
    for menu in menus:
        assert ChangeMenu.from_json(menu.to_json()) == menu
        told = grid.checker.check(menu)
        assert (told.status, told.document) == ("proven", "menu"), str(told)


def test_groups_are_confirmed_exactly_if_nothing_in_them_is_cheaper(grid: Grid) -> None:
    document = json.loads(grid.explainer.group_changes(grid.row, {"own": ["x0", "x1"]}, progress=False).to_json())
    within = [place for place, one in enumerate(grid.sets) if one <= {0, 1}]
    keys = {place: (len(grid.sets[place]), grid.distances[place]) for place in within}
    entry = {
        "name": "own", "features": ["x0", "x1"], "distance": None, "counterfactual": None, "proven": True,
        "minimal": None, "resolution": 0.0,
    }  # fmt: skip
    none = grid.checker.check(rewrite(document, entries=[entry]))
    assert none.status == ("refuted" if within else "proven"), str(none)
    for place in within[:6]:
        own = {"counterfactual": write_changes(grid.row, grid.points[place]), "distance": float(grid.distances[place])}
        told = grid.checker.check(rewrite(document, entries=[{**entry, **own}]))
        best = min(keys.values())
        is_best = keys[place][0] == best[0] and keys[place][1] <= best[1] + 1e-9
        assert told.status == ("proven" if is_best else "refuted"), str(told)


def _entry(place: int, **fields: Any) -> Callable[[Document], Document]:
    return lambda d: rewrite(d, entries=[{**e, **(fields if n == place else {})} for n, e in enumerate(d["entries"])])


def _scope(**fields: Any) -> Callable[[Document], Document]:
    return lambda document: rewrite(document, scope={**document["scope"], **fields})


ALTERED_MENUS: dict[str, tuple[Callable[[Document], Document], str, str]] = {
    "the digest": (lambda d: {**d, "complete": False}, "digest", "refuted"),
    "the distance": (_entry(0, distance=0.001), "entry 1", "refuted"),
    "a cost": (_entry(0, cost=0.001), "entry 1", "refuted"),
    "another row": (lambda d: rewrite(d, instance={**d["instance"], "x0": 77.0}), "restrictions", "refuted"),
    "another order": (lambda d: rewrite(d, entries=d["entries"][::-1]), "order", "refuted"),
    "an entry left out": (lambda d: rewrite(d, entries=d["entries"][:-1]), "complete", "refuted"),
    "the first left out": (lambda d: rewrite(d, entries=d["entries"][1:]), "complete", "refuted"),
    "an entry twice": (lambda d: rewrite(d, entries=[d["entries"][0]] * 2), "entries", "refuted"),
    "another name": (_entry(0, name="x9"), "entries", "refuted"),
    "hardly the cheapest": (_entry(0, resolution=0.5), "cheapest 1", "undecided"),
    "more features than change": (_entry(0, features=["x0", "x1", "x2"], name="x0 + x1 + x2"), "entries", "refuted"),
    "no change": (_entry(0, counterfactual=None, distance=None), "entries", "refuted"),
    "not the cheapest, as it says": (_entry(0, proven=False), "cheapest 1", "undecided"),
    "not minimal, as it says": (_entry(0, minimal=False), "minimal 1", "undecided"),
    "not said whether minimal": (_entry(0, minimal=None), "entries", "refuted"),
    "a menu of groups": (lambda d: rewrite(d, kind="groups"), "entries", "refuted"),
    "a target": (lambda d: rewrite(d, target={"above": 0.9}), "decision", "refuted"),
    "a margin": (lambda d: rewrite(d, margin=0.4), "model", "undecided"),
    "the model": (_scope(model="0" * 32), "model", "undecided"),
    "the space": (_scope(space="0" * 64), "space", "undecided"),
    "features that it changes": (_scope(features_to_vary=[]), "entries", "refuted"),
    "a constraint that it breaks": (_scope(change_constraints=["cf.x0 == x.x0", "cf.x1 == x.x1", "cf.x2 == x.x2"]),
                                    "entry 1", "refuted"),
    "models beside": (lambda d: rewrite(d, further_models=2), "decision", "undecided"),
    "no scope": (lambda d: rewrite({k: v for k, v in d.items() if k != "scope"}), "decision", "undecided"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED_MENUS)
def test_altered_menus_are_not_confirmed(several: tuple[Grid, Document], name: str) -> None:
    grid, document = several
    assert check(document, grid.model, grid.table).status == "proven"
    alter, where, status = ALTERED_MENUS[name]
    told = grid.checker.check(alter(copy.deepcopy(document)))
    assert told.status == status, str(told)
    assert next(finding.claim for finding in told.findings if finding.status != "holds") == where, str(told)


def test_a_menu_that_claims_less_is_confirmed_for_what_it_claims(several: tuple[Grid, Document]) -> None:
    grid, document = several
    told = grid.checker.check(rewrite(document, entries=document["entries"][:1], complete=False))
    assert told.status == "proven"
    assert "there may be others" in told.rule
    assert grid.checker.check(rewrite(document, entries=[], complete=False)).status == "undecided"


def test_what_the_caller_means_is_compared(several: tuple[Grid, Document]) -> None:
    grid, document = several
    assert check(document, grid.model, grid.table, desired=1).strict
    assert failing(check(document, grid.model, grid.table, desired=0)) == ["decision"]
    assert check(document, grid.model, grid.table, constraints=["cf.x0 >= x.x0"]).status == "undecided"


def write_restrictions(grid: Grid, texts: tuple[str, ...], witnesses: list[np.ndarray]) -> list[Document]:
    return [
        {"kind": "constraint", "text": text, "feature": None, "constraints": [text], "nearest": False,
         "without_it": write_changes(grid.row, point), "resolution": 0.0}
        for text, point in zip(texts, witnesses, strict=True)
    ]  # fmt: skip


def select(grid: Grid, texts: tuple[str, ...]) -> np.ndarray:
    """The counterfactuals that obey some restrictions."""
    keep = np.ones(len(grid.points), dtype=bool)
    for text in texts:
        keep &= LIMITS[text](grid.row, grid.points)
    return grid.points[keep]


def test_restrictions_are_confirmed_exactly_if_they_forbid_all_and_each_is_needed(grid: Grid) -> None:
    """Every set of restrictions is claimed in turn, with whatever counterfactual there is without each."""
    found = grid.explainer.find_forbidding_restrictions(grid.row, constraints=[*LIMITS], progress=False)
    document = rewrite(json.loads(found.to_json()), counterfactual=None, proven=True, minimal=True)
    confirmed = 0
    for count in range(len(LIMITS) + 1):
        for texts in itertools.combinations(LIMITS, count):
            left = [select(grid, (*texts[:place], *texts[place + 1 :])) for place in range(count)]
            witnesses = [some[-1] if len(some) else grid.points[0] for some in left]
            needed = write_restrictions(grid, texts, witnesses)
            told = grid.checker.check(rewrite(document, needed=needed))
            good = not len(select(grid, texts)) and all(map(len, left))
            assert told.status == ("proven" if good else "refuted"), f"{texts}: {told}"
            confirmed += good
    assert bool(confirmed) == (not len(select(grid, tuple(LIMITS))))
    assert confirmed


@pytest.fixture(scope="module")
def none() -> tuple[Grid, Document]:
    """Restrictions of all kinds, each of which is needed."""
    grid = Grid("logistic")
    found = grid.explainer.find_forbidding_restrictions(
        grid.row,
        features_to_vary=["x0", "x1"],
        constraints=["cf.x1 <= x.x1"],
        cost=Cost("l1", prices={"x0": math.inf}),
        progress=False,
    )
    assert (found.proven, found.minimal, len(found.needed)) == (True, True, 2), str(found)
    return grid, json.loads(found.to_json())


def _needed(place: int, **fields: Any) -> Callable[[Document], Document]:
    return lambda d: rewrite(d, needed=[{**one, **(fields if n == place else {})} for n, one in enumerate(d["needed"])])


def _swap_witnesses(document: Document) -> Document:
    first, second = document["needed"]
    swapped = [{**one, "without_it": other["without_it"], "nearest": False}
               for one, other in ((first, second), (second, first))]  # fmt: skip
    return rewrite(document, needed=swapped)


ALTERED_RESTRICTIONS: dict[str, tuple[Callable[[Document], Document], str, str]] = {
    "the digest": (lambda d: {**d, "minimal": False}, "digest", "refuted"),
    "a restriction left out": (lambda d: rewrite(d, needed=d["needed"][:1]), "none", "refuted"),
    "all left out": (lambda d: rewrite(d, needed=[]), "none", "refuted"),
    "a restriction twice": (lambda d: rewrite(d, needed=[*d["needed"], d["needed"][0]]), "needed", "refuted"),
    "one for another that there was": (
        _needed(1, kind="constraint", feature=None, text="cf.x1 <= x.x1", constraints=["cf.x1 <= x.x1"]),
        "none", "refuted",
    ),
    "one more": (
        lambda d: rewrite(d, needed=[*d["needed"], {**d["needed"][0], "kind": "constraint", "feature": None,
                                                    "text": "cf.x1 <= x.x1", "constraints": ["cf.x1 <= x.x1"],
                                                    "nearest": False}]),
        "needed 3", "refuted",
    ),
    "one that there was not": (_needed(1, constraints=["cf.x0 >= 99"]), "needed", "refuted"),
    "a feature that did vary": (_needed(0, feature="x1"), "needed", "refuted"),
    "a feature that there is not": (_needed(0, feature="x9"), "needed", "refuted"),
    "a price that nobody asked for": (
        lambda d: rewrite({k: v for k, v in d.items() if k != "cost"}), "needed", "refuted"
    ),
    "the role of another feature": (_needed(1, kind="role", feature="x1"), "needed", "refuted"),
    "the words of a feature that may not vary": (_needed(0, text="immutable by law"), "needed", "refuted"),
    "a role that is none": (_needed(1, kind="role", text="protected by law"), "needed", "refuted"),
    "hardly the nearest": (_needed(0, resolution=0.5), "needed 1", "undecided"),
    "the words of a constraint": (_needed(1, kind="constraint", feature=None, text="cf.x0 == 0"), "needed", "refuted"),
    "counterfactuals that break the others": (_swap_witnesses, "needed 1", "refuted"),
    "no counterfactual": (_needed(0, without_it=None, nearest=False), "needed 1", "undecided"),
    "one that is not the nearest": (_needed(1, nearest=True), "needed 2", "refuted"),
    "a counterfactual after all": (
        lambda d: rewrite(d, counterfactual=d["needed"][0]["without_it"]), "counterfactual", "refuted"
    ),
    "not minimal, as it says": (lambda d: rewrite(d, minimal=False), "minimal", "undecided"),
    "not proven, as it says": (lambda d: rewrite(d, proven=False), "none", "undecided"),
    "the model": (_scope(model="0" * 32), "model", "undecided"),
    "another target": (lambda d: rewrite(d, target={"above": 0.9}), "decision", "refuted"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED_RESTRICTIONS)
def test_altered_restrictions_are_not_confirmed(none: tuple[Grid, Document], name: str) -> None:
    grid, document = none
    document = _scope(change_constraints=[*document["scope"]["change_constraints"], "cf.x1 <= x.x1"])(document)
    assert check(document, grid.model, grid.table).status == "proven"
    alter, where, status = ALTERED_RESTRICTIONS[name]
    told = grid.checker.check(alter(copy.deepcopy(document)))
    assert told.status == status, str(told)
    assert next(finding.claim for finding in told.findings if finding.status != "holds") == where, str(told)


def _role(one: Any) -> Role:
    return Role(**one) if isinstance(one, dict) else Role(one)


@pytest.mark.parametrize("domain", ["seen", "interval"])
def test_restrictions_as_they_are_found_are_confirmed(grid: Grid, domain: str) -> None:
    explainer = grid.explainer if domain == "seen" else Explainer(grid.model, grid.table)
    own = float(grid.row[0])
    asked: list[dict[str, Any]] = [
        {"features_to_vary": ["x1"], "constraints": ["cf.x1 == x.x1"]},
        {"permitted_range": {"x0": [own, own]}, "constraints": ["cf.x1 == x.x1", "cf.x2 == x.x2"]},
        {"features_to_vary": [], "margin": 0.05},
    ]
    roles = {"x0": "immutable", "x1": "protected", "x2": {"direction": "rise"}}
    bound = Explainer(grid.model, grid.table, domain="seen", roles={name: _role(one) for name, one in roles.items()})
    told = grid.checker.check(bound.find_forbidding_restrictions(grid.row, constraints=["cf.x2 <= x.x2"]))
    assert told.status == "proven", str(told)
    for limits in asked:
        found = explainer.find_forbidding_restrictions(grid.row, progress=False, **limits)
        assert Infeasibility.from_json(found.to_json()) == found
        told = grid.checker.check(found)
        assert (found.proven, told.status, told.document) == (True, "proven", "infeasibility"), str(told)


def test_that_nothing_is_desired_at_all_is_confirmed_alone_where_it_is_so(grid: Grid) -> None:
    document = json.loads(grid.explainer.find_forbidding_restrictions(grid.row, progress=False).to_json())
    assert grid.checker.check(document).status == "undecided"  # there is one
    forged = rewrite(document, counterfactual=None, proven=True, minimal=True)
    assert failing(grid.checker.check(forged)) == ["none"]


@pytest.mark.parametrize(
    "fields",
    [
        {"unknown": 1},
        {"complete": 1},
        {"kind": "sets"},
        {"menu_format": 2},
        {"menu_format": True},
        {"entries": {}},
        {"entries": [{}]},
        {"margin": -1.0},
        {"margin": 10**400},
        {"instance": []},
        {"cost": {"norm": "l3", "scale": "range"}},
    ],
    ids=str,
)
def test_malformed_menus_are_refused(several: tuple[Grid, Document], fields: Document) -> None:
    grid, document = several
    with pytest.raises(InputError):
        grid.checker.check(rewrite(document, **fields))
    if "unknown" not in fields and fields != {"margin": -1.0}:
        with pytest.raises(InputError):
            ChangeMenu.from_dict(rewrite(document, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"unknown": 1},
        {"proven": None},
        {"infeasibility_format": 0},
        {"needed": [{"kind": "role"}]},
        {"needed": None},
        {"counterfactual": []},
        {"statistics": {}},
    ],
    ids=str,
)
def test_malformed_restrictions_are_refused(none: tuple[Grid, Document], fields: Document) -> None:
    grid, document = none
    with pytest.raises(InputError):
        grid.checker.check(rewrite(document, **fields))
    if "unknown" not in fields:
        with pytest.raises(InputError):
            Infeasibility.from_dict(rewrite(document, **fields))


@pytest.mark.parametrize("read", [ChangeMenu.from_json, Infeasibility.from_json])
def test_what_is_no_document_is_not_read(read: Callable[[str], Any]) -> None:
    for text in ("", "[]", "{}", '{"menu_format": 1}', '{"infeasibility_format": 1, "digest": "0"}'):
        with pytest.raises(InputError):
            read(text)


def test_a_menu_that_was_modified_is_not_read(several: tuple[Grid, Document]) -> None:
    with pytest.raises(InputError, match="digest"):
        ChangeMenu.from_dict({**several[1], "complete": False})


def test_a_menu_in_a_document_of_counterfactuals_is_checked_along(several: tuple[Grid, Document]) -> None:
    grid, menu = several
    outer = json.loads(grid.explainer.counterfactuals(grid.row, progress=False).to_json())
    told = grid.checker.check(rewrite(outer, menu=menu))
    assert (told.status, told.findings[-1][:2]) == ("proven", ("menu", "holds")), str(told)
    left_out = rewrite(menu, entries=menu["entries"][:-1])
    assert failing(grid.checker.check(rewrite(outer, menu=left_out))) == ["menu"]
    elsewhere = rewrite(menu, instance={**menu["instance"], "x0": 0.0})
    assert failing(grid.checker.check(rewrite(outer, menu=elsewhere))) == ["menu"]
    assert failing(grid.checker.check(rewrite(outer, why_none=menu))) == ["why_none"]
    assert grid.checker.check(rewrite(outer, menu=_entry(0, proven=False)(menu))).status == "undecided"
    unwritten = grid.checker.check(rewrite(outer, menu={"entries": []}))
    assert (unwritten.status, unwritten.notes[-1]) == (
        "proven", "what the document says besides was not checked: menu"
    )  # fmt: skip


def test_restrictions_in_a_document_of_counterfactuals_must_be_in_force_there() -> None:
    grid = Grid("logistic")
    limits = {"features_to_vary": ["x1"], "constraints": ["cf.x1 == x.x1"]}
    outer = json.loads(grid.explainer.counterfactuals(grid.row, progress=False, **limits).to_json())
    why = json.loads(grid.explainer.find_forbidding_restrictions(grid.row, progress=False, **limits).to_json())
    told = grid.checker.check(rewrite(outer, why_none=why))
    assert (told.status, told.findings[-1][:2]) == ("proven", ("why_none", "holds")), str(told)
    open_way = json.loads(grid.explainer.find_forbidding_restrictions(grid.row, progress=False).to_json())
    assert grid.checker.check(rewrite(outer, why_none=open_way)).status == "proven"  # it claims nothing
    free = rewrite(outer, scope={key: one for key, one in outer["scope"].items() if key != "features_to_vary"})
    assert "why_none" in failing(grid.checker.check(rewrite(free, why_none=why)))
    without = rewrite(outer, scope={**outer["scope"], "change_constraints": []})
    assert "why_none" in failing(grid.checker.check(rewrite(without, why_none=why)))

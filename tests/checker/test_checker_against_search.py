"""The parts of the checker, which share nothing with the search, held against the search's own and against truth."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from checker_examples import CORPUS, EXAMPLES
from handmade_models import bank, rows
from hypothesis import given, settings, strategies as st

from ironrule import Checker
from ironrule.checker import lower_bound
from ironrule.checker.bounds.sum_bounds import (
    PathSets,
    SplitSets,
    arrange_by_level,
    build_split_sets,
    evaluate_trees,
    find_best_leaves,
    flag_intersecting_sets,
)
from ironrule.checker.components import (
    encode_component,
    encode_counterfactual,
    encode_point,
    find_permitted_components,
    intersect_ranges,
)
from ironrule.checker.document import RestrictionsClaim
from ironrule.checker.preprocessing import EstimatorColumn
from ironrule.checker.readers.normal_form import MarginPart, RegressionTree, SumForm, SumMargin
from ironrule.checker.result import Check, ClaimFailed, Finding
from ironrule.checker.space.space import CheckerSpace, space_from_json
from ironrule.explain.options import parse_weights
from ironrule.hitting.bits import unpack_sets
from ironrule.oracles.protocol import Case
from ironrule.rule.kernels import compute_duals
from ironrule.verdict.digest import add_digest, compute_digest, to_canonical_json
from tiny_cases import cases, every_point, rules_of


@st.composite
def restrictions_of(draw: st.DrawFn, case: Case) -> RestrictionsClaim:
    """Names of features and components, and weights of some."""
    names = [case.space.names[bit // 2] for bit in case.components.usable_numbers]
    names += [
        f"{name} {case.components.component(bit).op}"
        for name, bit in zip(names, case.components.usable_numbers, strict=True)
    ]
    some = st.lists(st.sampled_from(names), max_size=2).map(tuple) if names else st.just(())
    weights = st.sampled_from([Fraction(1, 2), Fraction(2), Fraction(13, 4)])
    each = st.dictionaries(st.sampled_from(names), weights, max_size=3) if names else st.none()
    return RestrictionsClaim(draw(some), draw(some), draw(st.one_of(st.none(), st.just("paper"), each)))


@settings(deadline=None, max_examples=100)
@given(cases(), st.data())
def test_components_duals_and_weights_are_those_of_the_search(case: Case, data: st.DataObject) -> None:
    relevant, restrictions, space = (
        case.components,
        data.draw(restrictions_of(case)),
        space_from_json(case.space.to_dict()),
    )
    allowed = relevant.usable & ~relevant.select(restrictions.forbid)
    required = tuple(relevant.select([name]) & allowed for name in restrictions.require)
    if not all(required):
        with pytest.raises(ClaimFailed, match="usable"):
            find_permitted_components(space, case.instance, restrictions)
        return
    mine = find_permitted_components(space, case.instance, restrictions)
    points = every_point(case.space)
    assert (mine.allowed, mine.required) == (allowed, required)
    assert sum(1 << bit for bit in mine.components) == relevant.usable
    multiples, unit = parse_weights(restrictions.weights, relevant)
    assert [mine.weigh(1 << bit) for bit in relevant.usable_numbers] == [
        int(multiples[bit]) * unit for bit in relevant.usable_numbers
    ]
    duals = unpack_sets(compute_duals(points, relevant.low, relevant.high))
    assert [mine.find_dual(point) for point in points] == [dual & allowed for dual in duals]


@settings(deadline=None, max_examples=100)
@given(cases(), st.data())
def test_a_rule_in_the_users_terms_is_the_box_that_it_was(case: Case, data: st.DataObject) -> None:
    rule, space = data.draw(rules_of(case)), space_from_json(case.space.to_dict())
    plain = json.loads(json.dumps(case.components.rule(rule, "denied").to_dict()))
    low, high = intersect_ranges(space, [encode_component(space, part) for part in plain["components"]])
    box = case.components.box(rule)
    assert (low == box.low).all()
    assert (high == box.high).all()
    allowed = find_permitted_components(space, case.instance, RestrictionsClaim((), (), None))
    bits = [allowed.find_number(encode_component(space, part)) for part in plain["components"]]
    assert sum(1 << bit for bit in bits) == rule


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_which_path_sets_a_set_of_codes_meets_is_seen_from_their_runs(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 20))
    flags = st.lists(st.lists(st.booleans(), min_size=size, max_size=size), max_size=6)
    asked, sets = (np.array(data.draw(flags), dtype=np.bool_).reshape(-1, size) for _ in range(2))
    seen = tuple(np.array(data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))) for _ in range(2))
    splits = SplitSets((1, size), (np.zeros((1, 1), np.uint8), np.packbits(asked, axis=1)), {}, ((), seen))
    paths = PathSets(splits)
    both = (
        paths.intersect(paths.side_sets[2:4].repeat(len(asked)), np.tile(paths.side_sets[2::2], 2))
        if len(asked)
        else []
    )
    met = np.zeros((len(paths.sets), len(sets)), np.bool_)
    met[paths.list_path_sets(1)] = flag_intersecting_sets(paths.find_runs(1), size, sets)
    for number, left in enumerate(asked):
        first, second = paths.side_sets[2 * number + 2], paths.side_sets[2 * number + 3]
        assert met[first].tolist() == (sets & left).any(axis=1).tolist()
        assert met[second].tolist() == (sets & ~left).any(axis=1).tolist()
        assert met[both[number]].tolist() == (sets & asked[0] & left).any(axis=1).tolist()
        assert met[both[len(asked) + number]].tolist() == (sets & ~asked[0] & left).any(axis=1).tolist()
        points = np.stack([np.zeros(size, np.int32), np.arange(size, dtype=np.int32)], axis=1)
        assert splits.goes_left(np.full(size, number + 1), points).tolist() == left.tolist()
    alike = np.concatenate([asked, np.array(seen)]).T
    of = splits.cells[1]
    assert [[(a == b).all() for b in alike] for a in alike] == (of[:, None] == of).tolist()


def test_a_leaf_between_two_thresholds_is_reached_only_with_a_value_between_them() -> None:
    shape = np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1])
    tree = RegressionTree((AtMost(0, 2.5), AtMost(0, 1.5), None, None, None), *shape, np.array([0.0, 0, 1, 2, 9]))
    reading = SumForm(((SumMargin(0.0, (MarginPart((tree,)),)),),))
    paths = PathSets(build_split_sets(reading, [EstimatorColumn(0, np.arange(4.0))], [4]))
    trees = arrange_by_level([tree], paths)
    sets = np.array([[1, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]], dtype=np.bool_)
    possible = np.zeros((len(paths.sets), len(sets)), np.bool_)
    possible[paths.list_path_sets(0)] = flag_intersecting_sets(paths.find_runs(0), 4, sets)
    assert find_best_leaves(trees, possible)[0].tolist() == [2, 9, 2, 1]
    points = np.arange(4, dtype=np.int32)[:, None]
    assert evaluate_trees(trees, paths.split_sets, points)[0].tolist() == [2, 2, 9, 1]


@dataclass(frozen=True, slots=True)
class AtMost:
    """Goes left up to a threshold."""

    column: int
    threshold: float
    turns_once: ClassVar[bool] = True

    def goes_left(self, values: Any) -> Any:
        return values <= self.threshold


def least(duals: list[int], weights: list[int]) -> float:
    """The weight of a lightest hitting set, by looking at all."""
    best = math.inf
    for chosen in itertools.product([0, 1], repeat=len(weights)):
        rule = sum(bit << place for place, bit in enumerate(chosen))
        if all(dual & rule for dual in duals):
            best = min(best, sum(weight for weight, bit in zip(weights, chosen, strict=True) if bit))
    return best


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 127), max_size=8), st.lists(st.sampled_from([1, 2, 7]), min_size=7, max_size=7))
@pytest.mark.parametrize("way", ["branching", "program"])
def test_the_least_weight_of_a_hitting_set_is_found(way: str, duals: list[int], weights: list[int]) -> None:
    truth = least(duals, weights)
    with pytest.MonkeyPatch.context() as patch:
        if way == "program":
            patch.setattr(lower_bound, "MAX_NODES", 0)
        for bound in (truth, truth + 1, truth + 5, truth - 1) if truth < math.inf else (5,):
            chosen = lower_bound.find_lighter_hitting_set(duals, weights, int(bound))
            assert (chosen is None) == (truth >= bound)
            if chosen is not None:
                assert all(dual & chosen for dual in duals)
                assert sum(weight for place, weight in enumerate(weights) if chosen >> place & 1) < bound


def test_weights_too_large_for_a_solver_are_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_bound, "MAX_NODES", 0)
    with pytest.raises(TimeoutError):
        lower_bound.find_lighter_hitting_set([0b11, 0b10], [1, 1 << 40], 2)


def linear_space() -> CheckerSpace:
    return space_from_json(EXAMPLES["linear"].explainer().space.to_dict())


@pytest.mark.parametrize(
    "component",
    [
        {"feature": "x9", "op": "<=", "value": 1.0},
        {"feature": "x0", "op": "<=", "value": 0.5},
        {"feature": "x0", "op": "<=", "value": True},
        {"feature": "x0", "op": "<=", "value": "1"},
        {"feature": "x0", "op": "<=", "value": None},
        {"feature": "x0", "op": "<=", "value": [1.0]},
        {"feature": "x0", "op": "<=", "value": {"date": "soon"}},
        {"feature": "x0", "op": "<=", "value": 1.0, "column": "x1"},
        {"feature": "x0", "op": "<=", "value": 1.0, "allowed": [0.0]},
        {"feature": "x0", "op": "<=", "value": 1.0, "one_hot_columns": [["x1", 1]]},
    ],
    ids=str,
)
def test_a_component_that_the_space_does_not_have_fails(component: dict[str, Any]) -> None:
    assert encode_component(linear_space(), {"feature": "x0", "op": "<=", "value": 1}).high == 1
    with pytest.raises(ClaimFailed):
        encode_component(linear_space(), component)


def test_points_have_a_value_for_every_feature_and_no_more() -> None:
    space, good = linear_space(), {"x0": 1.0, "x1": 0.0, "x2": 0.0, "x3": 1.0}
    assert encode_point(space, good).tolist() == [1, 0, 0, 1]
    for wrong in ({"x0": 1.0}, {**good, "x4": 1.0}, {**good, "x0": 9.0}, {**good, "x3": True}):
        with pytest.raises(ClaimFailed):
            encode_point(space, wrong)
    with pytest.raises(ClaimFailed, match="changes"):
        encode_counterfactual(space, encode_point(space, good), {"values": good, "changes": [{"feature": "x0"}]})


def widened(value: float, more: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """The document of the asked model with a wider rule: x0 up to a value, x2 from 1 on."""
    document = json.loads((CORPUS / "good" / "asked.json").read_text())
    parts = [{"feature": "x0", "op": "<=", "value": value}, {"feature": "x2", "op": ">=", "value": 1.0}, *more]
    inside = np.all([rows(4, 3, 3)[:, 0] <= value, rows(4, 3, 3)[:, 2] >= 1.0], axis=0)
    certificate = document["rules"][0]["verdict"]["certificate"] | {
        "points": int(inside.sum()), "low": [0, 0, 1], "high": [int(value), 2, 2]
    }  # fmt: skip
    outcome = document["rules"][0]["rule"]["outcome"]
    document["wider"] = {
        "rule": {"components": parts, "outcome": outcome},
        "verdict": {"kind": "proven", "certificate": certificate},
        "coverage": int(inside.sum()),
    }
    return add_digest(document)


def test_a_wider_rule_holds_all_that_the_best_one_does_and_is_proven_too() -> None:
    checker = Checker(bank, rows(4, 3, 3))
    assert checker.check(widened(1.0)).status == "proven"
    failed = {failure.claim: failure.sentence for failure in checker.check(widened(2.0)).failures}
    assert "there is an exception" in failed["wider rule: verdict"]
    narrow = checker.check(widened(1.0, ({"feature": "x1", "op": ">=", "value": 1.0},)))
    assert [failure.claim for failure in narrow.failures] == ["wider rule"]
    assert "all that the best rule covers" in narrow.failures[0].sentence


@pytest.mark.parametrize(
    ("claimed", "statuses", "expected"),
    [
        ("proven", ["holds", "holds"], "proven"),
        ("proven", ["holds", "undecided"], "undecided"),
        ("proven", ["fails", "undecided"], "refuted"),
        ("refuted", ["holds"], "refuted"),
        ("refuted", ["undecided"], "undecided"),
        ("unrefuted", ["holds"], "undecided"),
        ("unrefuted", ["fails"], "refuted"),
    ],
)
def test_the_status_follows_from_the_findings(claimed: Any, statuses: list[Any], expected: str) -> None:
    check = Check("Everyone gets: 0.", claimed, tuple(Finding("a claim", status, "because") for status in statuses))
    assert check.status == expected
    assert check.to_dict()["status"] == expected
    assert str(check).splitlines()[1].startswith(f"Check: {expected}. ")
    assert "because" in str(check)


def test_a_check_shows_itself_in_notebooks_with_everything_escaped() -> None:
    check = Check("Everyone with <b> gets: 0.", "proven", (Finding("<i>", "holds", "a & b"),))
    html = check._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<i>" not in html
    assert "a &amp; b" in html
    assert "proven" in html


def test_a_digest_sees_every_change_but_the_way_of_writing() -> None:
    document = {"b": [1.0, {"c": None}], "a": "ä"}
    assert compute_digest(document) == compute_digest({"a": "ä", "b": [1, {"c": None}], "digest": "old"})
    assert compute_digest(document) != compute_digest({"a": "ä", "b": [True, {"c": None}]})
    assert compute_digest(document) != compute_digest({"a": "ä", "b": ["1", {"c": None}]})
    assert add_digest(document)["digest"] == compute_digest(document)
    assert to_canonical_json(2.5) == "2.5"

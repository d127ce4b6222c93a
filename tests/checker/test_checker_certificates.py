"""Covers under the checker: what the search proves is confirmed and nothing false is, by looking at every point."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from altered_certificates import accepted, confirm, corrupted, covers, has_exception
from hypothesis import given, settings, strategies as st
from tiny_settings import Setting, bounds_for, scope_of_reading, settings_of_models

from ironrule.backends.forest.compile import compile_tree_sum
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.checker import document
from ironrule.checker.bounds.pieces import Pieces, halve_pieces, split_box
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import BoxQuery
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.certificate import Certificate, Cover
from ironrule.verdict.verdict import Proven
from random_tree_sums import Among
from tiny_cases import case_of, every_point, rules_of, run_of


def certificate_of(made: Setting, data: st.DataObject) -> Certificate | None:
    """What the exact oracle hands out for a rule, if it proves it."""
    case = made.case
    box = case.components.box(data.draw(rules_of(case)))
    oracle = ForestOracle(compile_tree_sum(made.reading, made.columns, case.space))
    verdict = oracle.find(BoxQuery(case, box), run_of())
    return verdict.certificate.with_built_covers() if isinstance(verdict, Proven) else None


@settings(deadline=None, max_examples=60)
@given(settings_of_models(), st.data())
def test_what_the_exact_oracle_proves_the_checker_confirms(made: Setting, data: st.DataObject) -> None:
    certificate = certificate_of(made, data)
    if certificate is not None and certificate.covers:
        assert not has_exception(made, certificate)
        confirm(made, certificate)


@settings(deadline=None, max_examples=60)
@given(settings_of_models(), st.data())
def test_no_cover_of_a_box_with_an_exception_is_ever_accepted(made: Setting, data: st.DataObject) -> None:
    box = made.case.components.box(data.draw(rules_of(made.case)))
    sizes = made.case.space.sizes.tolist()
    some = tuple(data.draw(covers(sizes)) for _ in made.reading.alternatives)
    low, high = (tuple(codes.tolist()) for codes in (box.low, box.high))
    certificate = Certificate("cover", sum(cover.pieces for cover in some), "", "", low, high, some)
    if has_exception(made, certificate):
        assert not accepted(made, certificate)


@settings(deadline=None, max_examples=60)
@given(settings_of_models(), st.data())
def test_a_corrupted_certificate_is_accepted_only_if_it_is_still_true(made: Setting, data: st.DataObject) -> None:
    certificate = certificate_of(made, data)
    if certificate is None or not certificate.covers:
        return
    altered = corrupted(data.draw, certificate, made.case.space.sizes.tolist())
    if accepted(made, altered):
        assert not has_exception(made, altered)


@settings(deadline=None, max_examples=60)
@given(settings_of_models())
def test_pieces_of_one_point_each_are_closed_exactly_where_the_reading_surely_denies(made: Setting) -> None:
    points = every_point(made.case.space)
    sets = tuple(np.eye(size, dtype=np.bool_) for size in made.case.space.sizes)
    (model,), seen = made.scope.models_with_bounds, made.columns.look_up(points)
    for place, alternative in enumerate(made.reading.alternatives):
        closed = model.bounds.flag_closed(Pieces(sets, points), place)
        possible = np.array([margin.evaluate(seen) + margin.bound_error(seen) for margin in alternative])
        slacks = [margin.slack for margin in model.bounds.alternatives[place]]
        surely = np.array([margin.evaluate(seen) + slack for margin, slack in zip(alternative, slacks, strict=True)])
        assert not (closed & (possible > 1e-9).all(axis=0)).any()
        assert closed[(surely < -1e-9).any(axis=0)].all()
    possible, sure = model.bounds.decide(points)
    desired = made.case.model.desired(points)
    assert not (desired & ~possible).any()
    assert not (sure & ~desired).any()


def test_the_pieces_of_a_cover_are_a_partition_of_the_box() -> None:
    cover = document.CoverClaim(((0, ((0, 0), (2, 2))), (1, ((1, 1),))), (0, 1, -1, -1, -1))
    pieces = split_box(cover, (0, 0), (2, 1), (4, 2))
    points = [tuple(map(tuple, np.stack(np.meshgrid(*pieces.codes(k)), -1).reshape(-1, 2))) for k in range(3)]
    assert sorted(sum(points, ())) == [(a, b) for a in range(3) for b in range(2)]
    assert points == [((0, 1), (2, 1)), ((0, 0), (2, 0)), ((1, 0), (1, 1))]


@pytest.mark.parametrize(
    ("splits", "tree"),
    [
        ((), ()),
        ((), (-1, -1)),
        (((0, ((0, 0),)),), (0, -1)),
        (((0, ((0, 0),)),), (0, -1, -1, -1)),
        (((0, ((0, 0),)),), (1, -1, -1)),
        (((0, ((0, 0),)),), (-2,)),
        (((2, ((0, 0),)),), (-1,)),
        (((-1, ((0, 0),)),), (-1,)),
        (((0, ((0, 4),)),), (-1,)),
        (((0, ((-1, 1),)),), (-1,)),
        (((0, ((1, 0),)),), (-1,)),
        (((0, ((2, 3), (0, 1))),), (-1,)),
        (((0, ((0, 1), (1, 2))),), (-1,)),
    ],
    ids=str,
)
def test_a_cover_that_is_not_well_formed_fails(splits: Any, tree: Any) -> None:
    with pytest.raises(ClaimFailed, match="must"):
        split_box(document.CoverClaim(splits, tree), (0, 0), (3, 1), (4, 2))


def test_a_very_deep_cover_needs_no_recursion() -> None:
    depth = 50_000
    pieces = split_box(document.CoverClaim(((0, ((0, 0),)),), (0, -1) * depth + (-1,)), (0,), (1,), (2,))
    assert len(pieces) == 2  # all the others are empty


def stump(values: list[float], tests: Any = None) -> Tree:
    """One leaf, or a root with two."""
    if tests is None:
        return Tree((None,), np.array([-1], np.int32), np.array([-1], np.int32), np.array(values))
    shape = (np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32))
    return Tree((tests, None, None), *shape, np.array([0.0, *values]))


def closes(margin: Margin) -> bool:
    """Whether the bound alone closes the whole of a space of one feature."""
    space = Space((Feature("a", (0, 1), ordered=True),))
    columns = TabulatedColumns(np.zeros(1, np.intp), (np.arange(2),))
    bounds = bounds_for(TabulatedModel(TreeSum(((margin,),)), columns), space)
    return bool(bounds.flag_closed(split_box(document.CoverClaim((), (-1,)), (0,), (1,), (2,)), 0)[0])


@pytest.mark.parametrize(
    ("margin", "closed"),
    [
        (Margin(-1.0, ()), True),
        (Margin(0.0, ()), True),
        (Margin(2.0**-60, ()), False),
        (Margin(-1.0, (LinkedGroup((stump([1.0]),)),)), True),  # a tie is undesired
        (Margin(-1.0, (LinkedGroup((stump([1.0]),)),), error=1e-300), False),
        (Margin(-1.0, (LinkedGroup((stump([0.5]), stump([0.5]))),)), False),  # two roundings: the model must say
        (Margin(-1.0, (LinkedGroup((stump([0.5]), stump([0.4999]))),)), True),
        (Margin(-1.0, (LinkedGroup((stump([0.5]), stump([0.4999]))),), relative_error=1e-3), False),
        (Margin(-0.5, (LinkedGroup((stump([0.0]),), Link("logistic", 1.0, 1.0, 0.0)),)), False),
        (Margin(-0.5, (LinkedGroup((stump([-0.001]),), Link("logistic", 1.0, 1.0, 0.0)),)), True),
        (Margin(-0.5, (LinkedGroup((stump([0.25]),), Link("step", 1.0, 1.0, 0.25)),)), True),
        (Margin(-0.5, (LinkedGroup((stump([0.125]), stump([0.125])), Link("step", 1.0, 1.0, 0.25)),)), False),
        (Margin(-9.0, (LinkedGroup((stump([1.0]),), Link("identity", -1.0)),)), False),  # a falling link bounds nothing
        (Margin(-9.0, (LinkedGroup((stump([1e308]), stump([-1e308]), stump([1e308]))),)), False),
        (Margin(-9.0, (LinkedGroup((stump([np.nan]),)),)), False),
    ],
)  # fmt: skip
def test_a_margin_is_surely_not_positive_only_where_rounding_cannot_turn_it(margin: Margin, closed: bool) -> None:
    assert closes(margin) is closed


def test_too_many_points_to_ask_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.checker.certificates.MAX_COMBINATIONS_PER_PIECE", 1)
    monkeypatch.setattr("ironrule.checker.certificates.MAX_HALVINGS", 0)
    made = undecided_setting()
    certificate = Certificate("cover", 1, "", "", (0,), (1,), (Cover((), (-1,)),))
    with pytest.raises(ClaimFailed, match="2 kinds of points"):
        confirm(made, certificate)


def test_an_open_piece_is_cut_in_two_until_its_points_can_be_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ironrule.checker.certificates.MAX_COMBINATIONS_PER_PIECE", 1)
    certificate = Certificate("cover", 1, "", "", (0,), (1,), (Cover((), (-1,)),))
    assert "the model itself denies 2 points" in confirm(undecided_setting(), certificate)


@settings(deadline=None, max_examples=60)
@given(settings_of_models(), st.data())
def test_the_halves_of_pieces_are_a_partition_of_them(made: Setting, data: st.DataObject) -> None:
    sizes = made.case.space.sizes.tolist()
    cover = data.draw(covers(sizes))
    try:
        pieces = split_box(
            document.CoverClaim(cover.splits, cover.tree), [0] * len(sizes), [size - 1 for size in sizes], sizes
        )
    except ClaimFailed:
        return
    for feature in range(len(pieces.sets)):
        features = np.full(len(pieces), feature)
        parts = halve_pieces(pieces, features, made.scope.models_with_bounds[0].bounds.cells)
        assert list_points(parts) == list_points(pieces)


def list_points(pieces: Pieces) -> list[tuple[int, ...]]:
    """Every point of every piece."""
    return sorted(
        point for place in range(len(pieces)) for point in product(*(c.tolist() for c in pieces.codes(place)))
    )


def test_a_piece_on_which_rounding_decides_is_put_to_the_model() -> None:
    made = undecided_setting()
    certificate = Certificate("cover", 1, "", "", (0,), (1,), (Cover((), (-1,)),))
    assert "the model itself denies 2 points" in confirm(made, certificate)
    made.case.model.table[1] = True
    with pytest.raises(ClaimFailed, match="there is an exception: a: 0 -> 1"):
        confirm(made, certificate)


def tied_setting(constraint: str, desired: int, instance: tuple[int, int]) -> Setting:
    """A model of two features that a constraint ties: some b is desired, but the reading says so for sure of none."""
    features = tuple(Feature(name, (0, 1, 2), ordered=True) for name in "ab")
    table = np.zeros((3, 3), np.bool_)
    table[:, desired] = True
    row = np.array(instance, np.int32)
    case = case_of(Space(features, (parse_constraint(constraint),)), table, row, row[None, :])
    tests = [stump([0.0, 0.0], Among(1, frozenset([code]))) for code in range(2)]
    reading = TreeSum(((Margin(0.0, (LinkedGroup(tuple(tests)),), error=1.0),),))
    columns = TabulatedColumns(np.arange(2), (np.arange(3), np.arange(3)))
    return Setting(case, reading, columns, scope_of_reading(case, TabulatedModel(reading, columns), row[None, :]))


@pytest.mark.parametrize(
    ("constraint", "low", "high", "holds"),
    [
        ("cf.a + cf.b <= 2", (1, 2), (2, 2), True),  # whoever has b = 2 here has too much in all
        ("cf.a + cf.b <= 2", (0, 2), (2, 2), False),  # a = 0, b = 2 can occur, and is desired
        ("cf.a + cf.b <= 2", (0, 0), (2, 1), True),
        ("cf.a + cf.b <= 2", (2, 0), (2, 2), True),
        ("cf.a + cf.b <= 2", (0, 0), (2, 2), False),
        ("cf.a + cf.b >= 4", (0, 2), (2, 2), False),  # the last one alone can occur
        ("cf.a + cf.b >= 4", (0, 2), (1, 2), True),
    ],
)
def test_only_what_can_occur_is_an_exception(
    constraint: str, low: tuple[int, ...], high: tuple[int, ...], holds: bool
) -> None:
    made = tied_setting(constraint + " or cf.b == 1", 2, (0, 1))
    certificate = Certificate("cover", 1, "", "", low, high, (Cover((), (-1,)),))
    assert accepted(made, certificate) is holds is not has_exception(made, certificate)


def test_what_cannot_occur_is_not_even_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.checker.certificates.MAX_COMBINATIONS_PER_PIECE", 0)
    made = tied_setting("cf.a + cf.b <= 2", 2, (0, 1))
    assert accepted(made, Certificate("cover", 1, "", "", (1, 2), (2, 2), (Cover((), (-1,)),)))
    assert not accepted(made, Certificate("cover", 1, "", "", (0, 1), (2, 1), (Cover((), (-1,)),)))


def test_a_group_of_features_too_large_to_list_closes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.checker.bounds.feasible.MAX_COMBINATIONS", 8)
    certificate = Certificate("cover", 1, "", "", (1, 2), (2, 2), (Cover((), (-1,)),))
    assert not accepted(tied_setting("cf.a + cf.b <= 2", 2, (0, 1)), certificate)


def undecided_setting() -> Setting:
    """A model of which its reading says nothing for sure."""
    space = Space((Feature("a", (0, 1), ordered=True),))
    points = every_point(space)
    case = case_of(space, np.zeros(2, np.bool_), points[0], points)
    tree = stump([0.0, 0.0], Among(0, frozenset([0])))
    reading = TreeSum(((Margin(0.0, (LinkedGroup((tree,)),), error=1.0),),))
    columns = TabulatedColumns(np.zeros(1, np.intp), (np.arange(2),))
    return Setting(case, reading, columns, scope_of_reading(case, TabulatedModel(reading, columns), points))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": 2}, "2 pieces are claimed, but the covers have 1"),
        ({"covers": (), "points": 0}, "at least one, got none"),
        ({"low": (0, 0)}, "codes for 1 features"),
        ({"low": (-1,)}, "codes from 0 to 1"),
        ({"high": (2,)}, "codes from 0 to 1"),
        ({"low": (1,), "high": (0,)}, "in order"),
        ({"high": (10**40,)}, "codes from 0 to 1"),
        ({"method": "enumeration"}, "enumeration must not have covers"),
        ({"method": "enumeration", "covers": ()}, "1 points are claimed, but the box has 2"),
    ],
    ids=str,
)
def test_a_certificate_that_does_not_fit_fails(change: Any, message: str) -> None:
    made = undecided_setting()
    good = Certificate("cover", 1, "", "", (0,), (1,), (Cover((), (-1,)),))
    confirm(made, good)
    with pytest.raises(ClaimFailed, match=message):
        confirm(made, replace(good, **change))


def test_enumeration_asks_again_and_large_boxes_are_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    made = undecided_setting()
    asked = Certificate("enumeration", 2, "", "", (0,), (1,))
    assert "all 2 points" in confirm(made, asked)
    monkeypatch.setattr("ironrule.checker.certificates.MAX_ENUMERATED_POINTS", 1)
    with pytest.raises(ClaimUndecided, match="more than the 1 points"):
        confirm(made, asked)
    monkeypatch.undo()
    made.case.model.table[1] = True
    with pytest.raises(ClaimFailed, match="there is an exception"):
        confirm(made, asked)

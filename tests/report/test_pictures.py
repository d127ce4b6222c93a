"""What pictures show, against the explanation and the past rows; and what they say where something is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scenes import ROW, SPACE, past, proven, refuted, unrefuted, widened

import ironrule
from ironrule.explain import Explanation
from ironrule.explain.background import Need, Seen
from ironrule.report.pictures.growth import NOT_ASKED, NOT_AT_HAND, growth_of
from ironrule.report.pictures.ladder import NO_HISTORY, ladder_of
from ironrule.report.pictures.layouts import growth_drawing, ladder_drawing, needs_drawing, overview_drawing
from ironrule.report.pictures.looks import LOOKS, PROVEN
from ironrule.report.pictures.marks import Rect, fitted, hatched
from ironrule.report.pictures.needs import UNKNOWN, needs_of
from ironrule.report.pictures.overview import overview_of
from ironrule.report.pictures.plots import drawing_of
from ironrule.report.words import Words


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return proven()


def kinds(drawing) -> list[str]:
    return [mark.kind for mark in drawing.marks if isinstance(mark, Rect)]


def test_a_rung_shows_the_rows_that_its_condition_admits(explanation):
    ladder, table = ladder_of(explanation), past()
    assert [rung.label for rung in ladder.rungs] == ["Monthly income", "Home"]
    for rung, component in zip(ladder.rungs, explanation.rule.components, strict=True):
        inside = component.covers(table)
        assert sum(bar.admitted for bar in rung.bars) == inside.sum()
        assert sum(bar.others for bar in rung.bars) == (~inside).sum()
    income, home = ladder.rungs
    assert (income.condition, income.mine) == ("≤ 500 EUR", "500 EUR")
    assert income.span[0] == 0
    assert income.span[1] == income.mark
    assert home.span == (0, 1 / 3)
    assert home.mark == pytest.approx(1 / 6)
    assert [tick.text for tick in home.ticks] == ["rent", "own", "family"]
    assert income.ticks[-1].text == "not given"
    assert ladder.notes == ()


def test_after_widening_both_bounds_are_shown(explanation):
    income, home = ladder_of(widened(explanation)).rungs
    assert income.wider == "≤ 680 EUR"
    assert income.wider_span is not None
    assert income.wider_span[0] == 0
    assert income.wider_span[1] > income.span[1]
    assert home.wider is None
    drawing = drawing_of(widened(explanation))
    assert "proven as far as ≤ 680 EUR" in drawing.texts
    assert kinds(drawing).count("wider") == 1
    assert "wider" not in kinds(drawing_of(explanation))


def test_a_wider_rule_that_is_not_proven_is_not_shown(explanation):
    wide = widened(explanation)
    assert wide.wider is not None
    doubtful = replace(wide, wider=replace(wide.wider, verdict=unrefuted(explanation).verdict))
    for one in (doubtful, replace(unrefuted(wide), wider=wide.wider)):
        assert "wider" not in kinds(drawing_of(one))
        assert growth_of(one).wider is None
        assert "680" not in one.to_html("person")


def test_a_missing_value_is_marked_in_its_own_place():
    explainer = ironrule.Explainer(lambda table: table["income"] >= 300, past(), space=SPACE)
    found = explainer.explain(ROW | {"income": None}, "minimum", k=1)
    assert str(found.rule) == "Everyone with income = missing gets: a score of at most 0.5."
    (rung,) = ladder_of(found).rungs
    assert (rung.condition, rung.mine) == ("= not given", "not given")
    assert rung.span == (0.93, 1.0)
    assert 0.93 < rung.mark < 1.0
    assert sum(bar.admitted for bar in rung.bars) == past()["income"].isna().sum()


def test_the_cases_satisfy_all_parts_but_one(explanation):
    needs = needs_of(explanation)
    assert needs.components == (("Monthly income", "≤ 500 EUR"), ("Home", "= rent"))
    assert [case.place for case in needs.cases] == [0, 1]
    assert all(case.values is not None for case in needs.cases)
    assert needs.cases[0].values[1] == "rent"
    assert needs.cases[1].values[0] == "500 EUR"
    assert needs.cases[1].others == ("grade: high",)
    drawing = needs_drawing(needs)
    assert (kinds(drawing).count("fails"), kinds(drawing).count("satisfies")) == (2 + 1, 4 + 1)


def test_a_part_that_nobody_needs_for_sure_is_said_to_be_unknown(explanation):
    background = explanation.background
    assert background is not None
    needs = (Need(background.needs[0].component, None), background.needs[1])
    drawing = drawing_of(replace(explanation, behind=Seen(replace(background, needs=needs))), "needs")
    assert UNKNOWN in drawing.texts
    assert kinds(drawing).count("unknown") == 1
    assert kinds(drawing).count("fails") == 1 + 1


def test_growth_tells_rows_and_outcomes_of_every_step(explanation):
    growth = growth_of(widened(explanation))
    assert growth.steps[0].label == "everyone"
    assert growth.steps[0].covered == 200
    assert growth.steps[-1].covered == explanation.coverage
    assert growth.steps[-1].desired == 0
    assert growth.wider == 48
    drawing = growth_drawing(growth)
    assert f"{explanation.coverage:,} (0 desired)" in drawing.texts
    assert "48" in drawing.texts


def test_an_explanation_read_back_shows_what_it_has_and_says_what_is_missing(explanation):
    bare = ironrule.Explanation.from_json(widened(explanation).to_json())
    ladder = ladder_of(bare)
    assert ladder.notes == (NO_HISTORY,)
    assert [rung.bars for rung in ladder.rungs] == [(), ()]
    assert [rung.condition for rung in ladder.rungs] == ["≤ 500", "= rent"]
    income = ladder.rungs[0]
    assert income.wider_span is not None
    assert income.wider_span[1] > income.span[1]
    assert income.wider_span[0] == income.span[0]
    assert "inside" not in kinds(ladder_drawing(ladder))
    assert needs_of(bare).cases == ()
    assert needs_drawing(needs_of(bare)).texts[-1] == needs_of(bare).notes[0]
    assert growth_of(bare).notes == (NOT_AT_HAND,)
    assert [step.covered for step in growth_of(bare).steps] == [200, explanation.coverage]
    again = bare.with_history(past(), SPACE)
    assert growth_of(again).notes == (NOT_ASKED,)
    assert ladder_of(again).rungs == ladder_of(widened(explanation)).rungs


def test_only_what_is_proven_has_a_full_area_a_full_badge_and_the_word(explanation):
    for make, look in zip((lambda one: one, unrefuted, refuted), LOOKS, strict=True):
        drawing = drawing_of(make(explanation))
        areas = [mark for mark in drawing.marks if isinstance(mark, Rect) and mark.kind == "admitted"]
        badge = next(mark for mark in drawing.marks if isinstance(mark, Rect) and mark.kind == "badge")
        full = look is PROVEN
        assert areas
        assert all((area.fill is not None) == full and area.dashed != full for area in areas)
        assert (badge.fill == look.colour) == full
        assert look.meaning in drawing.texts
        told = " ".join(drawing.texts).replace("not proven", "")
        assert ("proven" in told) == full
        others = {one.colour for one in LOOKS} - {look.colour}
        assert not others & {getattr(mark, "stroke", None) for mark in drawing.marks}
        assert not others & {getattr(mark, "fill", None) for mark in drawing.marks}


def test_the_title_claims_no_more_than_is_known(explanation):
    titles = [ladder_drawing(ladder_of(make(explanation))).texts[0] for make in (unrefuted, refuted)]
    assert titles[0].startswith("As far as was searched, everyone with all of this gets")
    assert titles[1].startswith("The rule says: everyone with all of this gets")


def test_a_ladder_in_pieces_has_all_rungs_once(explanation):
    ladder = ladder_of(explanation)
    pieces = ladder.split(1)
    assert [piece.rungs for piece in pieces] == [(ladder.rungs[0],), (ladder.rungs[1],)]
    assert [piece.begun for piece in pieces] == [False, True]
    assert ladder_drawing(pieces[1]).texts[0].startswith("(continued) everyone")
    assert ladder.split(6) == (ladder,)


def test_a_rule_without_parts_is_drawn_too():
    explainer = ironrule.Explainer(lambda table: table["income"] > 5000, past(), space=SPACE)
    found = explainer.explain(ROW)
    assert found.rule.components == ()
    assert ladder_drawing(ladder_of(found)).texts[0] == "Everyone gets: a score of at most 0.5"
    assert needs_drawing(needs_of(found)).texts[-1] == "The rule has no parts that could go."
    assert growth_drawing(growth_of(found)).texts[1] == "everyone"
    assert overview_drawing(overview_of([found])).texts[0] == "What is known of 1 rule"


def test_the_overview_counts_verdicts_lengths_and_features(explanation):
    short = replace(explanation.rule, components=explanation.rule.components[:1])
    third = refuted(replace(explanation, ranked=(replace(explanation.ranked[0], rule=short),)))
    overview = overview_of([explanation, unrefuted(explanation), third])
    assert overview.count == 3
    assert [(look.word, number) for look, number in overview.verdicts] == [
        ("proven", 1), ("unrefuted", 1), ("refuted", 1)
    ]  # fmt: skip
    assert [(length, sum(number for _, number in split)) for length, split in overview.lengths] == [(1, 1), (2, 2)]
    assert [(name, [(look.word, n) for look, n in split]) for name, split in overview.features] == [
        ("Monthly income", [("proven", 1), ("unrefuted", 1), ("refuted", 1)]),
        ("Home", [("proven", 1), ("unrefuted", 1)]),
    ]
    drawing = overview_drawing(overview)
    assert "not proven: no exception was found (1, 33 %)" in drawing.texts
    assert kinds(drawing).count("proven") == 1 + 1 + 1 + 2


def test_an_overview_of_nothing_is_refused():
    with pytest.raises(ironrule.InputError, match="at least one explanation"):
        overview_of([])


def test_a_kind_of_picture_that_does_not_exist_is_refused(explanation):
    with pytest.raises(ironrule.InputError, match="kind must be one of ladder, needs, growth, got 'pie'"):
        explanation.plot("pie")


def test_texts_are_broken_after_signs_and_cut_visibly():
    assert fitted("a_very_long_name_of_a_feature", 60, 12, 2)[-1].endswith("…")
    assert fitted("unbreakable" * 5, 100, 12, 1) == ["unbreakableun…"]
    assert "".join(fitted("status_of_existing_checking_account", 150, 12, 9)) == "status_of_existing_checking_account"
    assert fitted("", 100) == [""]


@pytest.mark.parametrize("crossed", [False, True])
def test_hatching_stays_inside_its_area(crossed):
    lines = hatched(Rect(10, 20, 33, 14), "#000000", 7, crossed)
    assert lines
    for line in lines:
        assert 10 - 1e-9 <= min(line.x1, line.x2) <= max(line.x1, line.x2) <= 43 + 1e-9
        assert 20 - 1e-9 <= min(line.y1, line.y2) <= max(line.y1, line.y2) <= 34 + 1e-9


def test_friendly_words_reach_the_picture(explanation):
    drawing = ladder_drawing(ladder_of(explanation, Words.of(explanation, friendly=True)))
    assert "you: 500 EUR" in drawing.texts
    assert not any("row" in text for text in drawing.texts)


def test_a_rule_of_many_parts_has_dark_cells_instead_of_signs_and_fewer_numbers(explanation):
    needs = needs_of(explanation)
    many = replace(
        needs,
        components=needs.components * 10,
        cases=tuple(replace(needs.cases[0], place=place, values=("x",) * 20) for place in range(20)),
    )
    drawing = needs_drawing(many)
    assert "✗" not in drawing.texts
    assert kinds(drawing).count("fails") == 20 + 1
    assert [text for text in drawing.texts if text.isdigit()] == ["1", "5", "10", "15", "20"]

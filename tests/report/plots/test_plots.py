"""What plots show, against the explanation and the past rows; and what they say where something is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ironrule
from ironrule.report.plots import conditions, growth
from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import PROVEN_STYLE, VERDICT_STYLES, Rectangle, draw_hatched, wrap_text
from ironrule.report.plots.growth import NO_OUTCOMES, build_growth_plot, draw_growth
from ironrule.report.plots.matplotlib_plots import draw_explanation
from ironrule.report.plots.needs import UNKNOWN_NEED, build_needs_plot, draw_needs
from ironrule.report.plots.overview import build_overview, draw_overview
from ironrule.results.background import ComponentNeed
from ironrule.results.explanation import Explanation
from ironrule.rule.counterfactual import LazyValue
from report_examples import ROW, SPACE, past, proven, refuted, unrefuted, widened


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return proven()


def kinds(drawing) -> list[str]:
    return [shape.kind for shape in drawing.shapes if isinstance(shape, Rectangle)]


def test_a_plotted_condition_shows_the_rows_that_it_admits(explanation):
    plot, table = build_conditions_plot(explanation), past()
    assert [condition.label for condition in plot.conditions] == ["Monthly income", "Home"]
    for condition, component in zip(plot.conditions, explanation.rule.components, strict=True):
        inside = component.covers(table)
        assert sum(bar.admitted for bar in condition.bars) == inside.sum()
        assert sum(bar.others for bar in condition.bars) == (~inside).sum()
    income, home = plot.conditions
    assert (income.condition, income.own_value) == ("≤ 500 EUR", "500 EUR")
    assert income.span[0] == 0
    assert income.span[1] == income.own_position
    assert home.span == (0, 1 / 3)
    assert home.own_position == pytest.approx(1 / 6)
    assert [tick.text for tick in home.ticks] == ["rent", "own", "family"]
    assert income.ticks[-1].text == "not given"
    assert plot.notes == ()


def test_after_widening_both_bounds_are_shown(explanation):
    income, home = build_conditions_plot(widened(explanation)).conditions
    assert income.wider == "≤ 680 EUR"
    assert income.wider_span is not None
    assert income.wider_span[0] == 0
    assert income.wider_span[1] > income.span[1]
    assert home.wider is None
    drawing = draw_explanation(widened(explanation))
    assert "proven as far as ≤ 680 EUR" in drawing.texts
    assert kinds(drawing).count("wider") == 1
    assert "wider" not in kinds(draw_explanation(explanation))


def test_a_wider_rule_that_is_not_proven_is_not_shown(explanation):
    wide = widened(explanation)
    assert wide.wider is not None
    doubtful = replace(wide, wider=replace(wide.wider, verdict=unrefuted(explanation).verdict))
    for one in (doubtful, replace(unrefuted(wide), wider=wide.wider)):
        assert "wider" not in kinds(draw_explanation(one))
        assert build_growth_plot(one).wider is None
        assert "680" not in one.to_html("person")


def test_a_missing_value_is_marked_in_its_own_place():
    explainer = ironrule.Explainer(lambda table: table["income"] >= 300, past(), space=SPACE)
    found = explainer.explain(ROW | {"income": None}, "minimum", k=1)
    assert str(found.rule) == "Everyone with Monthly income = missing gets: a score of at most 0.5."
    (condition,) = build_conditions_plot(found).conditions
    assert (condition.condition, condition.own_value) == ("= not given", "not given")
    assert condition.span == (0.93, 1.0)
    assert 0.93 < condition.own_position < 1.0
    assert sum(bar.admitted for bar in condition.bars) == past()["income"].isna().sum()


def test_the_examples_satisfy_all_parts_but_one(explanation):
    needs = build_needs_plot(explanation)
    assert needs.components == (("Monthly income", "≤ 500 EUR"), ("Home", "= rent"))
    assert [example.component_index for example in needs.examples] == [0, 1]
    assert all(example.values is not None for example in needs.examples)
    assert needs.examples[0].values[1] == "rent"
    assert needs.examples[1].values[0] == "500 EUR"
    assert needs.examples[1].others == ("grade: high",)
    drawing = draw_needs(needs)
    assert (kinds(drawing).count("fails"), kinds(drawing).count("satisfies")) == (2 + 1, 4 + 1)


def test_a_part_that_nobody_needs_for_sure_is_said_to_be_unknown(explanation):
    background = explanation.background
    assert background is not None
    needs = (ComponentNeed(background.needs[0].component, None), background.needs[1])
    known = LazyValue(lambda: replace(background, needs=needs))
    drawing = draw_explanation(replace(explanation, lazy_background=known), "needs")
    assert UNKNOWN_NEED in drawing.texts
    assert kinds(drawing).count("unknown") == 1
    assert kinds(drawing).count("fails") == 1 + 1


def test_growth_tells_rows_and_outcomes_of_every_step(explanation):
    plot = build_growth_plot(widened(explanation))
    assert plot.bars[0].label == "everyone"
    assert plot.bars[0].covered == 200
    assert plot.bars[-1].covered == explanation.coverage
    assert plot.bars[-1].desired == 0
    assert plot.wider == 48
    drawing = draw_growth(plot)
    assert f"{explanation.coverage:,} (0 desired)" in drawing.texts
    assert "48" in drawing.texts


def test_an_explanation_read_back_shows_what_it_has_and_says_what_is_missing(explanation):
    bare = ironrule.Explanation.from_json(widened(explanation).to_json())
    plot = build_conditions_plot(bare)
    assert plot.notes == (conditions.NO_HISTORY,)
    assert [condition.bars for condition in plot.conditions] == [(), ()]
    assert [condition.condition for condition in plot.conditions] == ["≤ 500 EUR", "= rent"]
    income = plot.conditions[0]
    assert income.wider_span is not None
    assert income.wider_span[1] > income.span[1]
    assert income.wider_span[0] == income.span[0]
    assert "inside" not in kinds(draw_conditions(plot))
    assert build_needs_plot(bare).examples == ()
    assert draw_needs(build_needs_plot(bare)).texts[-1] == build_needs_plot(bare).notes[0]
    assert build_growth_plot(bare).notes == (growth.NO_HISTORY,)
    assert [bar.covered for bar in build_growth_plot(bare).bars] == [200, explanation.coverage]
    again = bare.with_history(past(), SPACE)
    assert build_growth_plot(again).notes == (NO_OUTCOMES,)
    assert build_conditions_plot(again).conditions == build_conditions_plot(widened(explanation)).conditions


def test_only_what_is_proven_has_a_full_area_a_full_badge_and_the_word(explanation):
    for make, style in zip((lambda one: one, unrefuted, refuted), VERDICT_STYLES, strict=True):
        drawing = draw_explanation(make(explanation))
        areas = [shape for shape in drawing.shapes if isinstance(shape, Rectangle) and shape.kind == "admitted"]
        badge = next(shape for shape in drawing.shapes if isinstance(shape, Rectangle) and shape.kind == "badge")
        full = style is PROVEN_STYLE
        assert areas
        assert all((area.fill is not None) == full and area.dashed != full for area in areas)
        assert (badge.fill == style.colour) == full
        assert style.meaning in drawing.texts
        told = " ".join(drawing.texts).replace("not proven", "")
        assert ("proven" in told) == full
        others = {one.colour for one in VERDICT_STYLES} - {style.colour}
        assert not others & {getattr(shape, "stroke", None) for shape in drawing.shapes}
        assert not others & {getattr(shape, "fill", None) for shape in drawing.shapes}


def test_the_title_claims_no_more_than_is_known(explanation):
    titles = [draw_conditions(build_conditions_plot(make(explanation))).texts[0] for make in (unrefuted, refuted)]
    assert titles[0].startswith("As far as we searched, everyone with all of this gets")
    assert titles[1].startswith("The rule says: everyone with all of this gets")


def test_a_conditions_plot_in_pieces_has_every_condition_once(explanation):
    plot = build_conditions_plot(explanation)
    pieces = plot.split(1)
    assert [piece.conditions for piece in pieces] == [(plot.conditions[0],), (plot.conditions[1],)]
    assert [piece.is_continued for piece in pieces] == [False, True]
    assert draw_conditions(pieces[1]).texts[0].startswith("(continued) everyone")
    assert plot.split(6) == (plot,)


def test_a_rule_without_parts_is_drawn_too():
    explainer = ironrule.Explainer(lambda table: table["income"] > 5000, past(), space=SPACE)
    found = explainer.explain(ROW)
    assert found.rule.components == ()
    assert draw_conditions(build_conditions_plot(found)).texts[0] == "Everyone gets: a score of at most 0.5"
    assert draw_needs(build_needs_plot(found)).texts[-1] == "The rule has no parts that could be left out."
    assert draw_growth(build_growth_plot(found)).texts[1] == "everyone"
    assert draw_overview(build_overview([found])).texts[0] == "What is known of 1 rule"


def test_the_overview_counts_verdicts_lengths_and_features(explanation):
    short = replace(explanation.rule, components=explanation.rule.components[:1])
    third = refuted(replace(explanation, ranked=(replace(explanation.ranked[0], rule=short),)))
    overview = build_overview([explanation, unrefuted(explanation), third])
    assert overview.count == 3
    assert [(style.word, number) for style, number in overview.verdicts] == [
        ("proven", 1), ("unrefuted", 1), ("refuted", 1)
    ]  # fmt: skip
    assert [(length, sum(number for _, number in split)) for length, split in overview.lengths] == [(1, 1), (2, 2)]
    assert [(name, [(style.word, n) for style, n in split]) for name, split in overview.features] == [
        ("Monthly income", [("proven", 1), ("unrefuted", 1), ("refuted", 1)]),
        ("Home", [("proven", 1), ("unrefuted", 1)]),
    ]
    drawing = draw_overview(overview)
    assert "not proven: no exception was found (1, 33%)" in drawing.texts
    assert kinds(drawing).count("proven") == 1 + 1 + 1 + 2


def test_an_overview_of_nothing_is_refused():
    with pytest.raises(ironrule.InputError, match="at least one explanation"):
        build_overview([])


def test_a_kind_of_plot_that_does_not_exist_is_refused(explanation):
    with pytest.raises(ironrule.InputError, match="kind must be one of conditions, needs, growth, got 'pie'"):
        explanation.plot("pie")


def test_texts_are_broken_after_signs_and_cut_visibly():
    assert wrap_text("a_very_long_name_of_a_feature", 60, 12, 2)[-1].endswith("…")
    assert wrap_text("unbreakable" * 5, 100, 12, 1) == ["unbreakableun…"]
    assert (
        "".join(wrap_text("status_of_existing_checking_account", 150, 12, 9)) == "status_of_existing_checking_account"
    )
    assert wrap_text("", 100) == [""]


@pytest.mark.parametrize("crossed", [False, True])
def test_hatching_stays_inside_its_area(crossed):
    _, *lines = draw_hatched(Rectangle(10, 20, 33, 14), "#000000", 7, crossed)
    assert lines
    for line in lines:
        assert 10 - 1e-9 <= min(line.x1, line.x2) <= max(line.x1, line.x2) <= 43 + 1e-9
        assert 20 - 1e-9 <= min(line.y1, line.y2) <= max(line.y1, line.y2) <= 34 + 1e-9


def test_a_rule_of_many_parts_has_dark_cells_instead_of_signs_and_fewer_numbers(explanation):
    needs = build_needs_plot(explanation)
    many = replace(
        needs,
        components=needs.components * 10,
        examples=tuple(replace(needs.examples[0], component_index=place, values=("x",) * 20) for place in range(20)),
    )
    drawing = draw_needs(many)
    assert "✗" not in drawing.texts
    assert kinds(drawing).count("fails") == 20 + 1
    assert [text for text in drawing.texts if text.isdigit()] == ["1", "5", "10", "15", "20"]

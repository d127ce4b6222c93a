"""Plots of counterfactuals and regions: what stands where, and that axes and SVG have the same."""

from __future__ import annotations

import datetime
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from ironrule import CounterfactualRegion, Counterfactuals
from ironrule.report.plots.changes import (
    LINE_WIDTH,
    LINE_X,
    build_changes_plot,
    draw_changes,
    draw_region,
    find_position,
)
from ironrule.report.plots.drawing import Rectangle, Triangle, render_svg
from ironrule.results.changes.region import FeatureRange
from ironrule.results.explanation import Statistics
from ironrule.results.scope import DomainSummary
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.rule import Component, Rule
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.verdict import Proven, Unrefuted
from report_examples import read

mpl.use("Agg")
STATISTICS = Statistics(
    algorithm="Nearest", seed=0, seconds=0.1, generations=0, candidates=0, oracle_calls=0, model_calls=0,
    evaluations=0, operator_seconds={}, stopped=None,
)  # fmt: skip
ROW = {"income": 20.0, "accounts": 4, "job": "<b>cook", "since": datetime.date(2024, 1, 1)}
ITEMS = (
    Counterfactual.from_values(ROW, ROW | {"income": 30.0, "accounts": 1}),
    Counterfactual.from_values(ROW, ROW | {"job": None}),
    Counterfactual.from_values(ROW, ROW | {"since": datetime.date(2024, 1, 11)}),
)
DOMAINS = {
    "income": DomainSummary("interval", False, 0.0, 100.0),
    "accounts": DomainSummary("integers", False, 0, 4),
    "job": DomainSummary("list", True, values=("clerk", "<b>cook")),
    "since": DomainSummary("seen", False, datetime.date(2024, 1, 1), datetime.date(2024, 1, 21), count=3),
}
FOUND = Counterfactuals(ROW, ITEMS, STATISTICS, proven=True, domains=DOMAINS)
PROOF = Proven(Certificate("cover", 1, "space", "model", low=(0,), high=(0,)))
REGION = CounterfactualRegion(
    counterfactual=ITEMS[0],
    rule=Rule((Component("income", ">=", 25.0), Component("income", "<=", 75.0)), "the desired outcome"),
    rounded=Rule((Component("income", ">=", 25.0), Component("income", "<=", 75.0)), "the desired outcome"),
    ranges=(
        FeatureRange("income", 25.0, 75.0, 0.0, 100.0, 20.0, 30.0),
        FeatureRange("accounts", 0, 4, 0, 4, 4, 1, any_value=True),
    ),
    fixed={"job": "<b>cook"},
    verdict=PROOF,
    maximal=True,
    statistics=STATISTICS,
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_every_change_lies_where_its_values_are_in_the_domain():
    lines = build_changes_plot(FOUND).counterfactuals
    assert [(line.label, line.before, line.after) for line in lines[0]] == [
        ("income", 0.2, 0.3),
        ("accounts", 1.0, 0.25),
    ]
    assert [(line.text, line.before, line.after) for line in lines[1]] == [("<b>cook → not given", None, None)]
    assert [(line.before, line.after) for line in lines[2]] == [(0.0, 0.5)]


def test_without_domains_the_values_shown_are_the_range():
    lines = build_changes_plot(replace(FOUND, domains={})).counterfactuals
    assert [(line.before, line.after) for line in lines[0]] == [(0.0, 1.0), (1.0, 0.0)]


def test_a_value_of_a_single_point_has_a_place():
    assert find_position(3, (3, 3)) == 0.5
    assert find_position(9, (0, 3)) == 1.0


@pytest.mark.parametrize("draw", [lambda: (draw_changes(build_changes_plot(FOUND)), FOUND.plot()),
                                  lambda: (draw_region(REGION), REGION.plot())])  # fmt: skip
def test_axes_and_svg_have_every_text_of_the_drawing(draw):
    drawing, axes = draw()
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.texts] == list(drawing.texts)
    parsed = read(render_svg(drawing))
    assert all(text in parsed.text for text in drawing.texts)
    assert "b" not in parsed.tags


def test_the_marks_are_at_the_values():
    drawing = draw_changes(build_changes_plot(FOUND))
    new = [shape.x for shape in drawing.shapes if isinstance(shape, Triangle)]
    assert LINE_X + 0.3 * LINE_WIDTH in new
    assert "1: income 20 → 30" in drawing.description.replace(".0", "")
    assert "Proven to be the nearest." in drawing.texts
    unproven = draw_changes(build_changes_plot(replace(FOUND, proven=False)))
    assert "Found by search: nearer ones may exist." in unproven.texts


def test_no_counterfactuals_are_told_in_words():
    drawing = draw_changes(build_changes_plot(replace(FOUND, items=())))
    assert "there is no counterfactual" in drawing.texts


def test_a_region_is_filled_only_where_it_is_proven():
    areas = [s for s in draw_region(REGION).shapes if isinstance(s, Rectangle) and s.kind == "region"]
    assert [(area.x, area.width) for area in areas] == [(LINE_X + 0.25 * LINE_WIDTH, 0.5 * LINE_WIDTH),
                                                        (LINE_X, LINE_WIDTH)]  # fmt: skip
    assert all(area.fill for area in areas)
    drawing = draw_region(replace(REGION, verdict=Unrefuted(10, 10, 0.95), maximal=False))
    areas = [s for s in drawing.shapes if isinstance(s, Rectangle) and s.kind == "region"]
    assert not any(area.fill for area in areas)
    assert any("Not proven" in text for text in drawing.texts)

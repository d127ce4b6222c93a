"""Names, values, labels and units that look like markup or like a template stay text in every report."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import ironrule
from ironrule.report.audiences import render_batch_report, render_report
from ironrule.report.plots.matplotlib_plots import PLOT_KINDS, draw_explanation
from ironrule.report.templating import get_environment, render_template
from ironrule.report.validator import CheckCommand
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from report_examples import read, unrefuted

MARKUP = '<script>alert(1)</script>"onload="&amp;{{ 7 * 7 }}{% raw %}'
FEATURE, VALUE, LABEL, UNIT, PAID = (f"{kind}{MARKUP}" for kind in ("feature", "value", "label", "unit", "paid"))
ROW = {FEATURE: VALUE, "age": 3}
Render = Callable[[ironrule.Explainer, ironrule.Explanation], str]
REPORTS: dict[str, tuple[Render, set[str]]] = {  # with the texts that must be found in each
    "person": (lambda _, e: render_report(e), {VALUE, LABEL, UNIT, PAID}),
    "unrefuted": (lambda _, e: render_report(unrefuted(e)), {VALUE, LABEL, UNIT, PAID}),
    "validator": (lambda _, e: render_report(e, "validator", CheckCommand(MARKUP, MARKUP)), {FEATURE, VALUE, PAID}),
    "letters": (lambda _, e: render_batch_report([e, e], "person", [MARKUP, ""]), {VALUE, LABEL, UNIT, PAID}),
    "account": (lambda _, e: render_batch_report([e, e], "validator", [MARKUP, ""]), {FEATURE, VALUE}),
    "notebook explanation": (lambda _, e: e._repr_html_(), {FEATURE, VALUE, LABEL, UNIT, PAID}),
    "notebook batch": (lambda x, _: x.explain_many([0], workers=1, progress=False)._repr_html_(), {FEATURE, VALUE}),
    "notebook counterfactuals": (lambda x, _: x.counterfactuals(ROW)._repr_html_(), {FEATURE, VALUE}),
    "notebook judgement": (lambda x, e: x.judge(ROW, e.rule)._repr_html_(), {FEATURE, VALUE, PAID}),
    "notebook diagnosis": (lambda x, e: x.diagnose(e)._repr_html_(), {FEATURE, VALUE}),
}


@pytest.fixture(scope="module")
def explainer() -> ironrule.Explainer:
    feature = Feature(FEATURE, (VALUE, "b"), ordered=False, label=LABEL, unit=UNIT)
    space = Space((feature, Feature("age", tuple(range(30)), ordered=True, label=LABEL, unit=UNIT)))
    rows = pd.DataFrame({FEATURE: [VALUE, "b"] * 15, "age": list(range(30))})
    return ironrule.Explainer(
        lambda table: [PAID if paid else MARKUP for paid in (table[FEATURE] == "b") & (table["age"] > 5)],
        rows,
        desired=PAID,
        space=space,
    )


@pytest.mark.parametrize("report", REPORTS)
def test_markup_stays_text(report, explainer):
    render, expected = REPORTS[report]
    page = read(render(explainer, explainer.explain(ROW)))  # fails on script tags and attributes that run code
    # drawings cut long texts, but not the sentence for screen readers
    text = " ".join([page.text, *(value for _, name, value in page.attributes if name == "aria-label")])
    assert {wanted for wanted in expected if wanted not in text} == set()


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_markup_stays_text_in_every_plot(kind, explainer):
    drawing = draw_explanation(explainer.explain(ROW), kind)
    assert read(render_template("drawing.svg", drawing=drawing)).tags.count("text") == len(drawing.texts)


def test_the_reports_above_use_every_template(explainer):
    for render, _ in REPORTS.values():
        render(explainer, explainer.explain(ROW))
    environment = get_environment()
    assert environment.cache is not None
    assert {name for _, name in environment.cache} == set(environment.list_templates())

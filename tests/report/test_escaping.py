"""Names, values, labels and units that look like markup or like a template stay text in every report."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pandas as pd
import pytest

import ironrule
from ironrule import NoticeOptions, ReasonCatalogue, ReportOptions
from ironrule.report.audiences import render_batch_report, render_report
from ironrule.report.check_command import CheckCommand
from ironrule.report.plots.matplotlib_plots import PLOT_KINDS, draw_explanation
from ironrule.report.templating import get_environment, render_template
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
    "letter with fields": (
        lambda _, e: e.to_html("person", report=EVIL_REPORT),
        {f"own{MARKUP}", *(f"{name}{MARKUP}" for name in ("creditor", "recipient", "reference", "contact"))},
    ),
    "validator with fields": (
        lambda _, e: e.to_html("validator", report=EVIL_REPORT),
        {f"{name}{MARKUP}" for name in ("asked_by", "reference", "model", "data")},
    ),
    "letters": (lambda _, e: render_batch_report([e, e], "person", [MARKUP, ""]), {VALUE, LABEL, UNIT, PAID}),
    "account": (lambda _, e: render_batch_report([e, e], "validator", [MARKUP, ""]), {LABEL, VALUE}),
    "ladder": (lambda x, _: make_ladder(x)._repr_html_(), {LABEL, VALUE}),
    "ladder page": (lambda x, _: make_ladder(x).to_html("validator"), {LABEL, VALUE}),
    "ladder letter": (lambda x, _: make_ladder(x).to_html("person"), {VALUE, LABEL, UNIT, PAID}),
    "notice": (lambda x, _: make_ladder(x).to_html("notice", notice=EVIL_NOTICE), {VALUE, LABEL, UNIT, MARKUP}),
    "notice with labels": (lambda x, _: make_ladder(x).to_html("notice", notice=EVIL_LABELS), {f"own{MARKUP}"}),
    "notice with a catalogue": (
        lambda x, _: make_ladder(x).to_html("notice", notice=EVIL_CATALOGUE),
        {f"code{MARKUP}", f"sentence{MARKUP}"},
    ),
    "notices": (
        lambda x, _: x.explain_many([0], workers=1, ladders=True).to_html("notice", notice=EVIL_NOTICE),
        {VALUE, LABEL, UNIT, MARKUP},
    ),
    "notebook explanation": (lambda _, e: e._repr_html_(), {VALUE, LABEL, UNIT, PAID}),
    "notebook explainer": (lambda x, _: x._repr_html_(), {PAID}),
    "notebook batch": (lambda x, _: x.explain_many([0], workers=1, progress=False)._repr_html_(), {LABEL, VALUE}),
    "comparison of batches": (lambda x, _: compare_batches(x).to_html(), {LABEL, VALUE}),
    "notebook comparison": (lambda x, _: compare_batches(x)._repr_html_(), {LABEL}),
    "notebook counterfactuals": (lambda x, _: x.counterfactuals(ROW)._repr_html_(), {LABEL, VALUE}),
    "notebook judgement": (lambda x, e: x.judge(ROW, e.rule)._repr_html_(), {LABEL, VALUE, PAID}),
    "notebook diagnosis": (lambda x, e: x.diagnose(e)._repr_html_(), {LABEL, VALUE}),
}

FIELDS = ("creditor", "recipient", "reference", "salutation", "signature")
EVIL_NOTICE = NoticeOptions(fields={name: f"{name}{MARKUP}" for name in FIELDS}, date=datetime.date(2026, 3, 1))
EVIL_REPORT = ReportOptions(
    labels={FEATURE: {"label": f"own{MARKUP}", "values": {VALUE: f"own{MARKUP}"}}},
    fields={name: f"{name}{MARKUP}" for name in (*FIELDS, "contact", "asked_by")},
    model_file=f"model{MARKUP}",
    data_file=f"data{MARKUP}",
    check_options=(MARKUP,),
)
EVIL_LABELS = NoticeOptions(
    labels={FEATURE: {"label": f"own{MARKUP}", "unit": f"own{MARKUP}", "values": {VALUE: f"own{MARKUP}"}}}
)
EVIL_ENTRY = {"code": f"code{MARKUP}", "en": f"sentence{MARKUP}"}
EVIL_CATALOGUE = NoticeOptions(
    catalogue=ReasonCatalogue.from_dict({FEATURE: {"is": EVIL_ENTRY}, "age": {"low": EVIL_ENTRY, "high": EVIL_ENTRY}})
)


def make_ladder(explainer: ironrule.Explainer) -> ironrule.Ladder:
    """A ladder whose last rung has a reason about each feature, and whose short rule leads."""
    return explainer.ladder(ROW, 1, at_least=0.01)


def compare_batches(explainer: ironrule.Explainer) -> ironrule.BatchComparison:
    batch = explainer.explain_many([0], workers=1, progress=False)
    return batch.compare(batch)


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

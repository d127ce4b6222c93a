"""Reports in a real browser: an accessibility audit for both audiences, of one row and of a batch, at two widths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import open_chromium
from playwright.sync_api import Browser, Page

import ironrule
from ironrule.cli.commands.demo import build_demo_explainer
from ironrule.report.audiences import render_batch_report, render_report

WIDTHS = {"desktop": 1280, "phone": 390}
SEVERE = ("moderate", "serious", "critical")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of every kind: proven, searched for, with pictures and without, one and several."""
    explainer, folder = build_demo_explainer(), tmp_path_factory.mktemp("reports")
    denied = [row for row, desired in enumerate(explainer.outcomes) if not desired][:3]
    proven = explainer.explain(denied[0])
    searched = explainer.explain(denied[1], "genetic", budget=ironrule.Budget(evaluations=2_000))
    stored = ironrule.Explanation.from_json(proven.to_json())
    batch = explainer.explain_many(denied, workers=1, progress=False)
    ladder = explainer.ladder(denied[0], at_least=0.5)
    right_to_left = folder / "ar.toml"
    right_to_left.write_text('extends = "en"\ncode = "ar"\ndirection = "rtl"\n', encoding="utf-8")
    fields = dict.fromkeys(("creditor", "recipient", "signature"), "First line\nSecond line\nThird line")
    made = {
        "person": render_report(proven, "person"),
        "validator": render_report(proven, "validator"),
        "person-searched": render_report(searched, "person"),
        "validator-searched": render_report(searched, "validator"),
        "person-stored": render_report(stored, "person"),
        "validator-stored": render_report(stored, "validator"),
        "batch-person": batch.to_html("person", history=explainer),
        "batch-validator": batch.to_html("validator"),
        "batch-of-one": render_batch_report([proven], "validator"),
        "ladder-person": ladder.to_html("person"),
        "notice": ladder.to_html("notice", notice=ironrule.NoticeOptions(fields=fields)),
        "notice-de": ladder.to_html("notice", notice=ironrule.NoticeOptions(fields=fields, language="de")),
        "notice-rtl": ladder.to_html("notice", notice=ironrule.NoticeOptions(fields=fields, language=right_to_left)),
    }
    for name, text in made.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


KINDS = ("person", "validator", "person-searched", "validator-searched", "person-stored", "validator-stored",
         "batch-person", "batch-validator", "batch-of-one", "ladder-person", "notice", "notice-de",
         "notice-rtl")  # fmt: skip
NOTICES = ("notice", "notice-de", "notice-rtl")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as made:
        yield made


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": WIDTHS[request.param], "height": 850}, bypass_csp=True)
    yield context.new_page()
    context.close()


def test_every_kind_of_report_is_audited(reports: dict[str, Path]) -> None:
    assert set(reports) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_finds_nothing_in_a_report(page: Page, reports: dict[str, Path], kind: str) -> None:
    page.goto(reports[kind].as_uri())
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SEVERE] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_runs_out_of_no_window(page: Page, reports: dict[str, Path], kind: str) -> None:
    page.goto(reports[kind].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_what_is_wider_than_a_phone_is_reached_with_the_keyboard(browser: Browser, reports: dict[str, Path]) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 850})
    page.goto(reports["batch-validator"].as_uri())
    reached = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className"))
    assert {"picture", "wide"} <= reached
    page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_asks_for_nothing_from_elsewhere(browser: Browser, reports: dict[str, Path], kind: str) -> None:
    page, asked = browser.new_page(), list[str]()
    page.on("request", lambda one: asked.append(one.url))
    page.goto(reports[kind].as_uri())
    assert asked == [reports[kind].as_uri()]
    page.close()


@pytest.mark.parametrize("paper", ["A4", "Letter"])
@pytest.mark.parametrize("kind", NOTICES)
def test_a_notice_prints_on_one_page(browser: Browser, reports: dict[str, Path], kind: str, paper: str) -> None:
    page = browser.new_page()
    page.goto(reports[kind].as_uri())
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper))) == 1
    page.close()


def test_a_notice_starts_on_the_side_of_its_language(browser: Browser, reports: dict[str, Path]) -> None:
    places = []
    for kind in ("notice", "notice-rtl"):
        page = browser.new_page(viewport={"width": 900, "height": 900})
        page.goto(reports[kind].as_uri())
        box = page.locator(".recipient").bounding_box()
        assert box is not None
        places.append(box["x"])
        page.close()
    assert places[0] < 450 < places[1]

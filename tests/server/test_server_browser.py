"""The pages in a real browser: the whole path, by mouse, by keyboard, on a phone, with an accessibility audit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import open_chromium
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from server_examples import DENIED, build_gated_model, open_client

from ironrule import Explanation
from ironrule.server.served_model import ServedModel
from waiting import PATIENCE, wait_until

expect.set_options(timeout=PATIENCE * 1000)

SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
SERIOUS = ("serious", "critical")
TOKEN = "a-secret-of-many-letters"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as made:
        yield made


@pytest.fixture(params=[("desktop", "light"), ("phone", "dark")], ids="-".join)
def any_page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    size, scheme = request.param
    yield from open_page(browser, size, scheme=scheme)


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    yield from open_page(browser, request.param)


@pytest.fixture
def wide(browser: Browser) -> Iterator[Page]:
    yield from open_page(browser)


def is_expected(said: ConsoleMessage) -> bool:
    """No complaint, or one that a whole page came with a status such as 422; a file of a page must always be there."""
    whole_page = not re.search("/static/|/api/", said.location["url"])
    refused = said.text.startswith("Failed to load resource: the server responded with a status of 4")
    return said.type not in ("error", "warning") or (refused and whole_page)


def open_page(
    browser: Browser, size: str = "desktop", javascript: bool = True, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """A page of a size and a scheme of colours; whatever the browser complains about fails the test."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, java_script_enabled=javascript, color_scheme=scheme
    )
    page, complaints = context.new_page(), []
    page.on("console", lambda said: None if is_expected(said) else complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(PATIENCE * 1000)
    yield page
    context.close()
    assert complaints == []


def check_accessibility(page: Page) -> None:
    """No serious finding of axe, and nothing that runs out of the window to the right."""
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS] == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_from_the_search_to_the_checked_proof(page: Page, client: httpx.Client, tmp_path: Path) -> None:
    page.goto(f"{client.base_url}")
    check_accessibility(page)
    page.get_by_label("Search", exact=True).fill("duration in month = 48")
    page.get_by_label("Outcome").select_option("undesired")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("found for “duration in month = 48”")
    assert "duration" not in page.url
    page.get_by_role("link", name=f"Applicant {DENIED}", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Applicant {DENIED}")
    check_accessibility(page)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.get_by_role("heading", name="Everyone like this gets the same")).to_be_visible()
    expect(page.get_by_text("44 or more", exact=True)).to_be_visible()
    check_accessibility(page)
    explanation = page.url

    with page.expect_download() as download:
        page.get_by_role("link", name="Certificate (JSON)").click()
    download.value.save_as(tmp_path / "why.json")
    assert Explanation.from_json((tmp_path / "why.json").read_text()).rule.cardinality == 3
    with page.expect_download() as download:
        page.get_by_role("link", name="Download: For the applicant").click()
    download.value.save_as(tmp_path / "report.html")
    assert "48" in (tmp_path / "report.html").read_text()

    page.get_by_role("link", name="What if").click()
    page.get_by_label("duration in month").fill("42")
    page.get_by_role("button", name="See the outcome").click()
    expect(page.get_by_role("status")).to_contain_text("Then the outcome is ✓ good")
    expect(page.get_by_role("status")).to_contain_text("no longer applies")
    check_accessibility(page)

    page.goto(explanation)
    page.get_by_role("button", name="Check the proof").click()
    expect(page.get_by_role("status")).to_contain_text("Every claim was checked against the model")
    check_accessibility(page)
    page.get_by_label("A file").set_input_files(tmp_path / "why.json")
    expect(page.get_by_label("The explanation as JSON")).not_to_have_value("")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("✓ proven")


def test_counterfactuals_and_other_settings(page: Page, client: httpx.Client) -> None:
    page.goto(f"{client.base_url}/applicants/{DENIED}")
    page.get_by_text("What would have changed the outcome?").click()
    page.get_by_role("checkbox", name="age in years", exact=True).check()
    check_accessibility(page)
    page.get_by_label("Constraints on the changes").fill("cf.job == x.job")
    page.get_by_role("button", name="Find the nearest changes").click()
    expect(page.get_by_text("Proven: each is the nearest")).to_be_visible()
    expect(page.get_by_role("heading", name="Any value in these ranges would do")).to_be_visible()
    expect(page.get_by_role("img", name="What would have changed the outcome")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("button", name="Show all sets of features").press("Enter")
    expect(page.get_by_role("heading", name="All sets of features to choose from")).to_be_visible()
    expect(page.get_by_text("These are all")).to_be_visible()
    check_accessibility(page)
    page.goto(f"{client.base_url}/applicants/{DENIED}")
    page.get_by_text("What would have changed the outcome?").click()
    for name in ("status of existing checking account", "duration in month", "savings account and bonds"):
        page.get_by_role("checkbox", name=name, exact=True).check()
    page.get_by_label("To be reached").select_option("“good”")
    page.get_by_role("button", name="Find the nearest changes").click()
    expect(page.get_by_text("these restrictions together forbid every change")).to_be_visible()
    check_accessibility(page)
    page.goto(f"{client.base_url}/applicants/{DENIED}")
    page.get_by_text("Ask for a rule with settings of your own").click()
    page.get_by_label("Algorithm").select_option("greedy_cf")
    page.get_by_role("checkbox", name="age in years must appear").check()
    page.get_by_role("button", name="Explain with these settings").click()
    expect(page.locator(".conditions")).to_contain_text("age in years")
    page.get_by_text("Ask for another rule").click()
    expect(page.get_by_role("checkbox", name="age in years must appear")).to_be_checked()
    check_accessibility(page)


def test_progress_appears_by_itself_and_can_be_stopped(wide: Page, tmp_path: Path) -> None:
    page, (gate, served_model) = wide, build_gated_model()
    with open_client(served_model, tmp_path) as client:
        row = client.get("/api/applicants?outcome=undesired").json()["applicants"][0]["row"]
        page.goto(f"{client.base_url}/applicants/{row}")
        gate.open.clear()
        page.get_by_role("button", name="Explain", exact=True).click()
        expect(page.get_by_role("heading", name="Searching")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("Running.")
        check_accessibility(page)
        gate.open.set()  # nobody touches the page: it goes on by itself
        page.wait_for_url("**/explanations/*")
        expect(page.get_by_text("Everyone like this gets the same")).to_be_visible()
        check_accessibility(page)
        page.goto(f"{client.base_url}/applicants/{row}")
        gate.open.clear()
        page.get_by_role("button", name="Explain", exact=True).click()
        page.get_by_role("button", name="Stop, and show the best so far").click()
        gate.open.set()
        page.wait_for_url("**/explanations/*")
        expect(page.get_by_text("The search was interrupted")).to_be_visible()


def test_without_javascript_the_answer_comes_too(browser: Browser, tmp_path: Path) -> None:
    gate, served_model = build_gated_model()
    with open_client(served_model, tmp_path) as client:
        row = client.get("/api/applicants?outcome=undesired").json()["applicants"][0]["row"]
        for page in open_page(browser, javascript=False):
            page.goto(f"{client.base_url}/applicants/{row}")
            gate.open.clear()
            page.get_by_role("button", name="Explain", exact=True).click()
            expect(page.get_by_role("heading", name="Searching")).to_be_visible()
            gate.open.set()
            page.wait_for_url("**/explanations/*")
            expect(page.get_by_text("Everyone like this gets the same")).to_be_visible()


def test_the_keyboard_alone_is_enough(wide: Page, client: httpx.Client) -> None:
    page = wide
    page.goto(f"{client.base_url}/applicants")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="New applicant")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search", exact=True)).to_be_focused()
    page.keyboard.type(f"row {DENIED}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/applicants/{DENIED}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the skip link
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Explain in a few conditions")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Explain", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/explanations/*")


def test_login_needs_a_known_token(wide: Page, german: ServedModel, tmp_path: Path) -> None:
    page = wide
    with open_client(german, tmp_path, tokens={TOKEN: "ann"}) as client:
        page.goto(f"{client.base_url}/applicants/{DENIED}")
        check_accessibility(page)
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.goto(f"{client.base_url}/applicants/{DENIED}")
        page.get_by_role("button", name="Explain", exact=True).click()
        page.wait_for_url("**/explanations/*")
        page.get_by_role("heading", name="In the audit log").click()  # the record is folded
        expect(page.get_by_text("ann", exact=True)).to_be_visible()
        page.get_by_role("button", name="Log out (ann)").click()
        page.wait_for_url("**/login")


def test_every_page_passes_the_audit_in_light_and_dark(any_page: Page, client: httpx.Client) -> None:
    page = any_page
    explained = client.post("/api/explain", json={"row": DENIED}).json()["number"]
    bounded = client.post("/api/ladder", json={"row": DENIED, "at_least": 0.5}).json()["number"]
    changes = client.post("/api/counterfactuals", json={"row": DENIED, "region": True}).json()["number"]
    batch = client.post("/batches", data={"most": "3"}).headers["location"]
    wait_until(lambda: client.get(f"{batch}.json").json()["state"] == "done" or None, "the batch")
    answers = f"/explanations/{explained}", f"/ladders/{bounded}", f"/counterfactuals/{changes}", batch
    lists = "/overview", "/applicants?sort=score", "/batches", "/explanations", "/log", "/api", "/check", "/login"
    for path in (*lists, f"/applicants/{DENIED}", "/applicants/new", *answers, "/applicants/99999"):
        page.goto(f"{client.base_url}{path}")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        check_accessibility(page)


def test_a_search_that_is_not_understood_can_be_mended_with_one_click(any_page: Page, client: httpx.Client) -> None:
    page = any_page
    page.goto(f"{client.base_url}/applicants")
    page.get_by_label("Search", exact=True).fill("durration >= 40")
    page.get_by_label("Search", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("did you mean duration in month?")
    expect(page.get_by_label("Search", exact=True)).to_have_value("durration >= 40")
    check_accessibility(page)
    page.get_by_role("button", name="Search for “duration in month >= 40”").click()
    expect(page.get_by_role("status")).to_contain_text("found for “duration in month >= 40”")
    page.get_by_text("Add a condition").click()
    page.get_by_label("Feature").select_option("housing")
    page.get_by_label("Value").fill("rent")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("button", name="Remove housing = rent")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("link", name="score").click()
    expect(page.get_by_role("columnheader", name="score")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Remove housing = rent").click()
    expect(page.get_by_role("button", name="Remove housing = rent")).to_have_count(0)


def test_a_new_applicant_by_the_keyboard_alone(wide: Page, client: httpx.Client) -> None:
    page = wide
    values = client.get(f"/applicants/{DENIED}.json").json()["values"]
    page.goto(f"{client.base_url}/applicants/new")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the skip link
    for place, one in enumerate(values):
        page.keyboard.press("Tab")
        field = page.locator(f"#f{place}")
        expect(field).to_be_focused()
        if field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(one["typed"])  # as typing its first letters does
        else:
            page.keyboard.press("Control+a")
            page.keyboard.type("two years" if place == 1 else one["typed"])
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Decide, and explain in a few conditions")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("1 value cannot be used")
    expect(page.locator("#f1")).to_have_value("two years")
    check_accessibility(page)
    page.get_by_role("link", name="duration in month").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # the browser goes on behind the place that the link names
    page.locator("#f1").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(values[1]["typed"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/ladders/*")
    expect(page.get_by_role("heading", name="Score")).to_be_visible()
    page.get_by_role("link", name="Change values").click()
    expect(page.locator("#f1")).to_have_value(values[1]["typed"])


def test_a_batch_shows_its_progress_and_fills_the_overview(any_page: Page, tmp_path: Path) -> None:
    page, (gate, served_model) = any_page, build_gated_model()
    with open_client(served_model, tmp_path) as client:
        page.goto(f"{client.base_url}/overview")
        page.get_by_role("link", name="Explain many applicants").click()
        page.get_by_label("At most this many applicants").fill("4")
        gate.open.clear()
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_role("progressbar", name="Applicants explained")).to_be_visible()
        expect(page.get_by_text("0 of 4 applicants.")).to_be_visible()
        check_accessibility(page)
        gate.open.set()  # nobody touches the page: it goes on by itself
        expect(page.get_by_role("heading", name="Done")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download as a table (CSV)").click()
        download.value.save_as(tmp_path / "batch.csv")
        assert len((tmp_path / "batch.csv").read_text().splitlines()) == 5
        page.get_by_role("link", name="overview", exact=True).click()
        expect(page.get_by_role("heading", name="Features in the rules")).to_be_visible()
        check_accessibility(page)


def test_a_report_is_looked_at_in_the_browser(any_page: Page, client: httpx.Client) -> None:
    page = any_page
    number = client.post("/api/explain", json={"row": DENIED}).json()["number"]
    page.goto(f"{client.base_url}/explanations/{number}")
    page.get_by_role("link", name="Look at it: For the applicant").click()
    page.wait_for_url("**/report.html?audience=person&show=true")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("link", name="Download: For a validator")).to_be_visible()


def test_an_audit_can_fail(wide: Page) -> None:
    page = wide
    page.set_content('<html lang="en"><title>x</title><main><img src="data:,"><input></main></html>')
    with pytest.raises(AssertionError):
        check_accessibility(page)


def test_another_site_can_do_nothing_here(browser: Browser, client: httpx.Client) -> None:
    before = client.post("/api/explain", json={"row": DENIED}).json()["number"]
    context = browser.new_context()
    page = context.new_page()
    evil = "http://localhost:9/"  # not blocked by the browser itself, as a site from elsewhere would be
    page.route(evil, lambda route: route.fulfill(body="<h1>evil</h1>", content_type="text/html"))
    page.goto(evil)
    form = f"<form method=post action={client.base_url}/applicants/{DENIED}/explain><button>go</button></form>"
    page.evaluate(f"document.body.innerHTML = {json.dumps(form)}")
    page.get_by_role("button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Forbidden")
    context.close()
    assert client.post("/api/explain", json={"row": DENIED}).json()["number"] == before + 1

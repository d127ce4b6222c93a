"""The pictures of docs/reports.md and docs/ladder.md: what people and validators read of one decision.

Both models are trained on the bundled German credit data. XGBoost (100 trees of depth 6) denies an applicant by a rule
of ten conditions: the person's report (on a screen, on a phone, and in German), the validator's report and the account
of a few cases. The boosted trees of ``ironrule demo`` deny one whom they were not trained on: the letter of a ladder,
as it opens and with the complete rule unfolded, and the notice.

Labels and reasons for people outside the field are in german_labels.toml and german_reasons.toml beside this file.
``report-person-before.png`` is the same applicant's report by version 0.1, and is not drawn again.
"""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from skops import io
from xgboost import XGBClassifier

from ironrule import Explainer, Ladder, NoticeOptions, ReasonCatalogue, ReportOptions
from ironrule.cli.commands.demo import DESIRED_CLASS, build_boosting_model
from ironrule.data import GERMAN_TARGET, load_german
from tools.screenshots.browser import DOCS, open_browser, shrink_picture

PICTURES = DOCS / "pictures"
LABELS = Path(__file__).with_name("german_labels.toml")
REASONS = Path(__file__).with_name("german_reasons.toml")
ROW, SOME = 13, 6  # the applicant, and how many cases an account has
LADDER_ROW = 118  # the applicant of the letter and of the notice
DAY = datetime.date(2026, 3, 31)
TRUSTED = (
    "sklearn.compose._column_transformer.make_column_selector",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
)
FIELDS = {
    "creditor": "Example Savings Bank\n12 Market Street\nSpringfield",
    "recipient": "Ms Jane Sample\n7 Garden Lane\nSpringfield",
    "reference": "L-2026-00417",
    "contact": "Customer service, telephone 0800 000 000\nhelp@bank.example",
}
NOTICE_FIELDS = {name: FIELDS[name] for name in ("creditor", "recipient", "reference")}
NOTICE_FIELDS["signature"] = "Example Savings Bank\nLending department"


def build_explainer() -> tuple[Explainer, Path]:
    """The explainer, and a folder with the files of its model and data."""
    rows, target = load_german()
    columns = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    trees = XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0)
    model = make_pipeline(columns, trees).fit(rows, (target == "good").astype(int))
    folder = Path(tempfile.mkdtemp())
    io.dump(model, folder / "model.skops")
    rows.assign(**{GERMAN_TARGET: target}).to_csv(folder / "loans.csv", index=False)
    return Explainer(model, rows, desired=1, labels=LABELS, progress=False), folder


def build_ladder() -> Ladder:
    """A ladder of at most four conditions, and the complete rule."""
    model, rows, space, is_fresh = build_boosting_model()
    explainer = Explainer(model, rows, desired=DESIRED_CLASS, space=space, measure=is_fresh, progress=False)
    return explainer.ladder(LADDER_ROW, 4, budget=None)


def draw(browser: Browser, html: str, name: str, width: int, height: float | None = None, part: str = "") -> None:
    """The beginning of a page of this width; the whole page without a height, or up to a part, which is unfolded."""
    page = browser.new_page(viewport={"width": width, "height": 1000})
    page.set_content(html)
    if part:
        page.locator("details").evaluate("part => part.open = true")
        box = page.locator(part).bounding_box()
        assert box is not None
        height = box["y"] + box["height"] + 20
    full = float(page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0.0, "y": 0.0, "width": float(width), "height": full if height is None else min(height, full)}
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, full_page=True, clip=clip)  # type: ignore[arg-type]
    page.close()
    shrink_picture(path, 64)


def draw_reports(browser: Browser, names: frozenset[str]) -> None:
    """The reports of the applicant whom XGBoost denies."""
    explainer, folder = build_explainer()
    explanation = explainer.explain(ROW)
    files = ReportOptions(
        date=DAY,
        fields={"asked_by": "Internal audit, J. Doe", "reference": "V-2026-031"},
        model_file="model.skops",
        data_file="loans.csv",
        check_options=("--target", GERMAN_TARGET, "--trust", *TRUSTED),
        explanation_file="report.html",
    )
    person = explanation.to_html("person", report=ReportOptions(fields=FIELDS, date=DAY))
    german = explanation.to_html("person", report=ReportOptions(fields=FIELDS, date=DAY, language="de"))
    denied = np.flatnonzero(~explainer.outcomes)[:SOME].tolist()
    with contextlib.chdir(folder):  # so that files are named as in a folder of one's own
        validator = explanation.to_html("validator", report=files)
        account = explainer.explain_many(denied, workers=1, progress=False).to_html("validator", report=files)
    pages: dict[str, tuple[str, int, float]] = {
        "report-person": (person, 800, 2250),
        "report-person-phone": (person, 390, 2600),
        "report-person-german": (german, 800, 1150),
        "report-validator": (validator, 800, 1850),
        "report-account": (account, 800, 2000),
    }
    for name in sorted(names & pages.keys()):
        html, width, height = pages[name]
        draw(browser, html, name, width, height)


def draw_ladder(browser: Browser, names: frozenset[str]) -> None:
    """The letter and the notice of the applicant whom the demo's trees deny."""
    ladder = build_ladder()
    letter = ladder.to_html("person", report=ReportOptions(labels=LABELS, date=DAY, fields=NOTICE_FIELDS))
    notice = NoticeOptions(catalogue=ReasonCatalogue.from_file(REASONS), labels=LABELS, date=DAY, fields=NOTICE_FIELDS)
    pages: dict[str, Callable[[], None]] = {
        "ladder-person": lambda: draw(browser, letter, "ladder-person", 800, 1131),
        "ladder-person-unfolded": lambda: draw(browser, letter, "ladder-person-unfolded", 800, part="details .answer"),
        "notice": lambda: draw(browser, ladder.to_html("notice", notice=notice), "notice", 794, 1131),
    }
    for name in sorted(names & pages.keys()):
        pages[name]()


LADDERS = frozenset({"ladder-person", "ladder-person-unfolded", "notice"})
REPORTS = frozenset(
    {"report-person", "report-person-phone", "report-person-german", "report-validator", "report-account"}
)
NAMES = REPORTS | LADDERS


def take_pictures(names: frozenset[str]) -> None:
    """Explain the applicants whose pictures are wanted, write their reports, draw them."""
    with open_browser() as browser:
        if names & REPORTS:
            draw_reports(browser, names)
        if names & LADDERS:
            draw_ladder(browser, names)

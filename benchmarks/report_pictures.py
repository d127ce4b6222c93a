"""The pictures of reports in docs/reports.md: what a person and a validator read of a rule with ten conditions.

XGBoost (100 trees of depth 6) is trained on the bundled German credit data, and one applicant whom it denies is
explained. The person's report (on a screen, on a phone, and as it prints), its German version, the validator's report
and the account of a few cases are drawn by Chromium:

    python -m benchmarks.report_pictures

Labels for people outside the field are in german_labels.toml beside this file. ``report-person-before.png`` is the same
applicant's report by version 0.1, and is not drawn again.
"""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from skops import io
from xgboost import XGBClassifier

from benchmarks.ladder_pictures import CHROMIUM, HERE, PICTURES
from ironrule import Explainer, ReportOptions
from ironrule.data import GERMAN_TARGET, load_german

LABELS = HERE / "german_labels.toml"
ROW, SOME = 13, 6  # the applicant, and how many cases an account has
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


def draw(browser: Browser, html: str, name: str, width: int, top: float = 0, height: float | None = None) -> None:
    """A part of a page of this width as a picture; the whole page without a height."""
    page = browser.new_page(viewport={"width": width, "height": 1000})
    page.set_content(html)
    full = float(page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": top, "width": width, "height": full - top if height is None else min(height, full - top)}
    page.screenshot(path=PICTURES / name, full_page=True, clip=clip)
    page.close()
    Image.open(PICTURES / name).convert("RGB").quantize(64).save(PICTURES / name, optimize=True)


def main() -> None:
    """Explain the applicant, write the reports, draw them."""
    explainer, folder = build_explainer()
    explanation = explainer.explain(ROW)
    print(explanation)
    person = explanation.to_html("person", report=ReportOptions(fields=FIELDS, date=DAY))
    german = explanation.to_html("person", report=ReportOptions(fields=FIELDS, date=DAY, language="de"))
    files = ReportOptions(
        date=DAY,
        fields={"asked_by": "Internal audit, J. Doe", "reference": "V-2026-031"},
        model_file="model.skops",
        data_file="loans.csv",
        check_options=("--target", GERMAN_TARGET, "--trust", *TRUSTED),
        explanation_file="report.html",
    )
    denied = np.flatnonzero(~explainer.outcomes)[:SOME].tolist()
    with contextlib.chdir(folder):  # so that files are named as in a folder of one's own
        validator = explanation.to_html("validator", report=files)
        account = explainer.explain_many(denied, workers=1, progress=False).to_html("validator", report=files)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        draw(browser, person, "report-person.png", 800, height=2250)
        draw(browser, person, "report-person-phone.png", 390, height=2600)
        draw(browser, german, "report-person-german.png", 800, height=1150)
        draw(browser, validator, "report-validator.png", 800, height=1850)
        draw(browser, account, "report-account.png", 800, height=2000)
        browser.close()


if __name__ == "__main__":
    main()

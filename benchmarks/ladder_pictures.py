"""The pictures of docs/ladder.md and docs/reports.md: what a person reads of a rule with 23 components.

XGBoost (100 trees of depth 6) is trained on 6,000 rows of FICO's HELOC data. A row that it does not know and denies is
explained by a ladder, which is measured on the other rows. Its letter (as it opens, and with the complete rule
unfolded) and its notice are drawn by Chromium:

    python -m benchmarks.ladder_pictures

Labels, units and reasons for people outside the field are in heloc_labels.toml and heloc_reasons.toml beside this file.
"""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from xgboost import XGBClassifier

from benchmarks.data import heloc
from ironrule import Explainer, Ladder, NoticeOptions, ReasonCatalogue, ReportOptions, Space

HERE = Path(__file__).parent
PICTURES = HERE.parent / "docs" / "pictures"
LABELS, REASONS = HERE / "heloc_labels.toml", HERE / "heloc_reasons.toml"
CHROMIUM = "/usr/bin/chromium"
ROW, TRAINED_ROWS = 16, 6000
PAST = ("MSince", "MaxDelq", "NumTrades60", "NumTrades90", "NumTradesOpen", "NumInq")  # what happened; codes below 0
FIELDS = {
    "creditor": "Example Savings Bank\n12 Market Street\nSpringfield",
    "recipient": "Ms Jane Sample\n7 Garden Lane\nSpringfield",
    "reference": "HEL-2026-00417",
    "signature": "Example Savings Bank\nLending department",
}


def build_ladder() -> Ladder:
    """The ladder of the row."""
    rows, target = heloc()
    order = np.random.default_rng(0).permutation(len(rows))
    trained, is_fresh = order[:TRAINED_ROWS], np.ones(len(rows), dtype=np.bool_)
    is_fresh[trained] = False
    model = XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0)
    model.fit(rows.iloc[trained], target.iloc[trained])
    texts = tomllib.loads(LABELS.read_text(encoding="utf-8"))
    labels = {name: text["label"] for name, text in texts.items()}
    units = {name: text["unit"] for name, text in texts.items() if "unit" in text}
    space = Space.infer(rows).with_labels(labels, units)
    roles = {name: "immutable" for name in space.names if name.startswith(PAST)}
    explainer = Explainer(model, rows, desired=1, space=space, measure=is_fresh, roles=roles, progress=False)
    return explainer.ladder(ROW, 4, budget=None)  # on a busy machine too, the shortest rule


def draw(browser: Browser, html: str, name: str, width: int, part: str | None = None) -> None:
    """The first page of a report as a picture; or its beginning up to the end of a part, which is unfolded."""
    page = browser.new_page(viewport={"width": width, "height": 1131})
    page.set_content(html)
    height: float = 1131
    if part is not None:
        page.locator("details").evaluate("part => part.open = true")
        box = page.locator(part).bounding_box()
        assert box is not None
        height = box["y"] + box["height"] + 20
    page.screenshot(path=PICTURES / name, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    page.close()
    Image.open(PICTURES / name).convert("RGB").quantize(64).save(PICTURES / name, optimize=True)


def main() -> None:
    """Build the ladder, write its pages, draw them."""
    ladder = build_ladder()
    print(ladder)
    day = datetime.date(2026, 3, 31)
    notice = NoticeOptions(catalogue=ReasonCatalogue.from_file(REASONS), labels=LABELS, date=day, fields=FIELDS)
    letter = ladder.to_html("person", report=ReportOptions(labels=LABELS, date=day, fields=FIELDS))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        draw(browser, letter, "ladder-person.png", 800)
        draw(browser, letter, "ladder-person-unfolded.png", 800, "details .answer")
        draw(browser, ladder.to_html("notice", notice=notice), "notice.png", 794)
        browser.close()


if __name__ == "__main__":
    main()

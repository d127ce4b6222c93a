"""Plots and reports of batches, as they come from many rows at once."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import ironrule
from ironrule.cli.commands.demo import build_demo_explainer
from report_examples import read

mpl.use("Agg")


@pytest.fixture(scope="module")
def explainer() -> ironrule.Explainer:
    return build_demo_explainer()


@pytest.fixture(scope="module")
def batch(explainer: ironrule.Explainer) -> ironrule.Batch:
    denied = [row for row, desired in enumerate(explainer.outcomes) if not desired][:6]
    return explainer.explain_many(denied, workers=1, progress=False)


def test_a_batch_is_drawn_with_the_labels_of_its_space(batch):
    from dataclasses import replace

    labelled = replace(batch, space=batch.space.with_labels({"duration_in_month": "Duration"}))
    axes = labelled.plot()
    texts = [text.get_text() for text in axes.texts]
    assert "What is known of 6 rules" in texts
    assert "proven: there is no exception (6, all); 6 of them with a proof that no shorter rule holds" in texts
    assert "Duration" in texts
    assert "duration_in_month" in [text.get_text() for text in batch.plot().texts]
    plt.close("all")


def test_a_batch_is_reported_with_a_line_per_row(batch, tmp_path: Path):
    path = tmp_path / "all.html"
    html = batch.to_html(path=path)
    assert path.read_text(encoding="utf-8") == html
    text = " ".join(read(html).text.split())
    assert "6 explanations" in text
    assert all(f"row {row} " in text for row in batch.rows)


def test_letters_show_past_rows_where_the_explainer_is_at_hand(batch, explainer):
    bare, full = read(batch.to_html("person")), read(batch.to_html("person", history=explainer))
    assert bare.tags.count("article") == full.tags.count("article") == 6
    assert "svg" not in bare.tags
    assert full.tags.count("svg") >= 6
    assert "How your case compares with past cases" in full.text

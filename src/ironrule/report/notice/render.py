"""Lay notices out by a template: ours, or one of the lender's own that may replace blocks of ours.

Templates run in a sandbox, and all values are escaped (:mod:`ironrule.report.templating`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ironrule.errors import InputError
from ironrule.report.notice.build import build_notice
from ironrule.report.notice.language import load_language
from ironrule.report.notice.wording import NoticeWording
from ironrule.report.templating import render_own_template, render_sandboxed
from ironrule.report.text import collect_labels
from ironrule.results.ladder import Ladder
from ironrule.results.notice import NoticeOptions
from ironrule.rule.phrasing import FeatureLabels
from ironrule.space.space import Space

TEMPLATE = "notice.html"


def render_notice(ladder: Ladder, options: NoticeOptions, space: Space | None = None) -> str:
    """One notice as a whole HTML page."""
    wording = _build_wording(ladder, options, space)
    return render_letters([build_notice(ladder, options, wording)], options, wording)


def render_notices(
    ladders: Sequence[Ladder], rows: Sequence[int], options: NoticeOptions, space: Space | None = None
) -> str:
    """A notice per row of a batch, each on a page of its own; raises InputError, naming the row, if one has none."""
    wording = _build_wording(ladders[0], options, space)
    letters = []
    for ladder, row in zip(ladders, rows, strict=True):
        try:
            letters.append(build_notice(ladder, options, wording, row))
        except InputError as error:
            raise InputError(f"row {row}: {error.statement}", hint=error.hint, code=error.code) from None
    return render_letters(letters, options, wording)


def _build_wording(ladder: Ladder, options: NoticeOptions, space: Space | None) -> NoticeWording:
    """The words of a notice; labels are those of the space, or of what stands behind the explanation."""
    if space is None:
        labels = collect_labels(ladder.explanation, friendly=True)
    else:
        labels = replace(FeatureLabels.from_space(space), friendly=True)
    texts = {**labels.labels.features, **options.feature_texts}  # those of the notice come first
    return NoticeWording(load_language(options.language), labels, texts)


def render_letters(letters: Sequence[dict[str, Any]], options: NoticeOptions, wording: NoticeWording) -> str:
    """Letters as one HTML page."""
    language = wording.language
    values = {
        "notices": letters,
        "language": language.code,
        "direction": language.direction,
        "words": language.get_section("letter"),
        "worth_words": language.get_section("worth"),
    }
    if options.template is None:
        return render_sandboxed(__package__, TEMPLATE, values)
    return render_own_template(__package__, Path(options.template), values)

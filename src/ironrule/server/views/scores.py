"""A score in words and as a small drawing: where it lies among the scores of past rows, and where the threshold is."""

from __future__ import annotations

from typing import Any

from ironrule.explain.row_score import RowScore, RowScorer

DIGITS = 3
MAX_DIGITS = 17
GAUGE_WIDTH = 300.0
BINS = 30


def format_score(value: float, other: float | None = None) -> str:
    """A score with a few digits, more where it would else look equal to another number.

    >>> format_score(0.2142857), format_score(0.4999, 0.5), format_score(0.5, 0.5)
    ('0.214', '0.4999', '0.5')
    """
    for digits in range(DIGITS, MAX_DIGITS + 1):
        text = f"{value:.{digits}g}"
        if other is None or value == other or float(text) != float(f"{other:.{digits}g}"):
            return text
    return repr(value)


def build_score_view(scorer: RowScorer | None, score: RowScore | None, names: dict[str, str]) -> dict[str, Any] | None:
    """What is shown of a score; None where there is none. ``names`` are those of the outcomes."""
    if scorer is None or score is None:
        return None
    return {
        **score.to_dict(),
        "text": format_score(score.value, score.threshold),
        "threshold_text": None if score.threshold is None else format_score(score.threshold, score.value),
        "distance_text": None if score.distance is None else format_score(abs(score.distance)),
        "sentence": _describe_score(score, names),
        "gauge": _build_gauge(scorer, score),
    }


def _describe_score(score: RowScore, names: dict[str, str]) -> str:
    """What the number means, and how far it is from the threshold."""
    if score.threshold is None or score.distance is None:
        return "The outcome does not follow from this number alone, so no threshold is shown."
    needed = f"{'more' if score.direction == 'above' else 'less'} than {format_score(score.threshold, score.value)}"
    if score.distance == 0:
        return f"“{names['desired']}” needs {needed}: the score is exactly there."
    far = format_score(abs(score.distance))
    side = (
        f"{far} too {'little' if score.direction == 'above' else 'much'}" if score.distance < 0 else f"{far} to spare"
    )
    return f"“{names['desired']}” needs {needed}: {side}."


def _build_gauge(scorer: RowScorer, score: RowScore) -> dict[str, Any]:
    """Places on an axis from the least to the largest score, from 0 to 1, and what is written at its ends."""
    marks = [score.value] if score.threshold is None else [score.value, score.threshold]
    low, high = min(float(scorer.past.min()), *marks), max(float(scorer.past.max()), *marks)
    width = (high - low) or 1.0
    return {
        "low": format_score(low),
        "high": format_score(high),
        "place": round((score.value - low) / width, 4),
        "threshold_place": None if score.threshold is None else round((score.threshold - low) / width, 4),
        "desired_is_right": score.direction == "above",
    }

"""A score in words and as a small drawing: where it lies among the scores of past rows, and where the threshold is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array
from ironrule.explain.row_score import TOLERANCE, RowScore, RowScorer
from ironrule.model.decision import Direction

DIGITS = 3
MAX_DIGITS = 17
SCORE_BINS = 20  # from the least to the largest score; one more where they do not begin there


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


@dataclass(frozen=True, slots=True)
class ScoreBins:
    """Bars of one ``width`` side by side, the first of which begins at ``start``, and in which of them each row is."""

    places: Int64Array
    start: float
    width: float
    count: int

    def find_place(self, score: float) -> float:
        """Where a score is, from 0, where the first bar begins, to 1, where the last one ends."""
        return round((score - self.start) / (self.count * self.width), 4)


def assign_score_bins(
    scores: Float64Array, outcomes: BoolArray, threshold: float | None, direction: Direction
) -> ScoreBins:
    """Which bar each row belongs to. The threshold is the edge of a bar, so that none has rows of both sides.

    A row that is exactly there belongs to the side of its outcome, which is the model's: some models approve such rows,
    others deny them.
    """
    low, high = float(scores.min()), float(scores.max())
    edge, width = low if threshold is None else threshold, (high - low) / SCORE_BINS
    if threshold is None:
        is_right = np.ones(len(scores), dtype=np.bool_)
    else:
        is_right = np.where(np.abs(scores - edge) <= TOLERANCE, outcomes == (direction == "above"), scores > edge)
    left = 0 if is_right.all() else _count_bins(edge - low, width)
    right = _count_bins(high - edge, width) if is_right.any() else 0
    steps = np.floor((scores - edge) / width).astype(np.int64)
    places = left + np.where(is_right, np.clip(steps, 0, right - 1), np.clip(steps, -left, -1))
    return ScoreBins(places, edge - left * width, width, left + right)


def _count_bins(length: float, width: float) -> int:
    """How many bars cover a length, at least one; an end that is an edge but for rounding begins no further bar."""
    return max(1, math.ceil(length / width - TOLERANCE))

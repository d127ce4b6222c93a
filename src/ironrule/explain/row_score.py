"""The score of a row: the number that the model compares with a threshold, for those who ask how close a decision was.

Scores are shown and prove nothing; a classifier's labels need not follow its probabilities. So a threshold is named
only if it explains the outcome of every past row: a row above it is desired and one below it is not. Where that fails
(a margin, several models, a model that decides by something else) the score is given without a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array
from ironrule.errors import InputError
from ironrule.explain.context import ExplainerContext, decide_row
from ironrule.explain.extend import extend_to_row
from ironrule.model.decision import Direction, read_classes
from ironrule.model.readers.sklearn_thresholds import find_moved_probability
from ironrule.model.scores import Score, ScoreKind, ScoreScale

TOLERANCE = 1e-9  # within which a number counts as equal to the threshold: either outcome may follow


@dataclass(frozen=True, slots=True)
class RowScore:
    """The score of one row. ``threshold`` is None where the model's decisions do not follow the score alone."""

    value: float
    kind: ScoreKind
    threshold: float | None
    direction: Direction = "above"

    @property
    def distance(self) -> float | None:
        """How far the score is on the desired side of the threshold, below 0 on the other side; None without one."""
        if self.threshold is None:
            return None
        return self.value - self.threshold if self.direction == "above" else self.threshold - self.value

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "value": self.value,
            "kind": self.kind,
            "threshold": self.threshold,
            "direction": self.direction,
            "distance": self.distance,
        }


@dataclass(frozen=True, slots=True, eq=False)
class RowScorer:
    """Scores of the past rows, in their order, and of any other row."""

    past: Float64Array
    kind: ScoreKind
    threshold: float | None
    direction: Direction
    context: ExplainerContext

    def get_past_score(self, position: int) -> RowScore:
        """The score of a past row by its place in the history."""
        return self._build(float(self.past[position]))

    def score(self, row: Any) -> RowScore:
        """The score of a row in any of the forms that ``explain`` takes."""
        context, given = extend_to_row(self.context, row)
        point = decide_row(context, given)[0]
        box = context.model.primary
        assert box.score is not None
        numbers, _ = box.score.read(box.layout.decode(point[None, :]), 1)
        return self._build(float(numbers[0]))

    def _build(self, number: float) -> RowScore:
        return RowScore(number, self.kind, self.threshold, self.direction)


def build_row_scorer(context: ExplainerContext) -> RowScorer | None:
    """Ask the model for the scores of all past rows; None for a model that gives labels alone."""
    box, codes = context.model.primary, context.history.codes
    if box.score is None or len(codes) == 0:
        return None
    parts, scales = [], []
    try:
        for start in range(0, len(codes), box.batch_rows):
            points = codes.points(slice(start, start + box.batch_rows))
            numbers, scale = box.score.read(box.layout.decode(points), len(points))
            parts.append(numbers)
            scales.append(scale)
    except InputError as error:
        if error.code != "scores-required":
            raise
        return None
    past = np.concatenate(parts)
    if np.isin(past, (0.0, 1.0)).all():
        return None  # decisions as numbers, which say nothing of how close they were
    kind: ScoreKind = "score" if any(scale.kind == "score" for scale in scales) else scales[0].kind
    scale = _find_own_scale(context, box.score, scales[0])
    threshold = scale.threshold if _explains(scale, past, context.outcomes) else None
    return RowScorer(past, kind, threshold, scale.direction, context)


def _find_own_scale(context: ExplainerContext, score: Score, scale: ScoreScale) -> ScoreScale:
    """The scale with the threshold of a classifier that asks for another probability than one half."""
    model = context.arguments.models[0]
    moved = find_moved_probability(model)
    if moved is None or score.threshold is not None or scale.kind != "probability":
        return scale
    level, positive = moved
    wanted = [label for place, label in enumerate(read_classes(model) or ()) if place in (score.wanted or ())]
    return replace(scale, threshold=level if wanted == [positive] else 1.0 - level)


def _explains(scale: ScoreScale, past: Float64Array, outcomes: BoolArray) -> bool:
    """Whether every past row is desired exactly if its score is on that side of the threshold."""
    ahead = past - scale.threshold if scale.direction == "above" else scale.threshold - past
    return bool((((ahead > 0) == outcomes) | (np.abs(ahead) <= TOLERANCE)).all())

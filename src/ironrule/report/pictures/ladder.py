"""The rule as a ladder: one rung per feature, its distribution among the past rows with the admitted part marked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ironrule.explain import Explanation
from ironrule.explain.background import Distribution
from ironrule.explain.history import interval
from ironrule.report.pictures.looks import Look, look_of
from ironrule.report.pictures.scale import Bar, Tick, scale_of
from ironrule.report.words import Condition, Words, conditions_of, outcome_of, wider_of
from ironrule.space import Feature

Span = tuple[float, float]

NO_HISTORY = "The past rows are not at hand, so no distributions are shown."


@dataclass(frozen=True, slots=True)
class Rung:
    """One condition on its feature's line from 0 to 1; without past rows there are no bars."""

    label: str
    condition: str
    wider: str | None  # the same with its bounds as far out as is proven, where they could move
    mine: str  # the row's own value
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    span: Span
    wider_span: Span | None
    mark: float  # where the row itself is


@dataclass(frozen=True, slots=True)
class Ladder:
    """All rungs, what they lead to, and what is known of that."""

    rungs: tuple[Rung, ...]
    outcome: str
    look: Look
    notes: tuple[str, ...]
    friendly: bool = False  # told to the person whom the row is about
    begun: bool = False  # whether other rungs came before, in a picture of their own

    def split(self, most: int) -> tuple[Ladder, ...]:
        """The same in pieces that fit a page."""
        starts = range(0, max(1, len(self.rungs)), most)
        return tuple(replace(self, rungs=self.rungs[start : start + most], begun=start > 0) for start in starts)


def ladder_of(explanation: Explanation, words: Words | None = None) -> Ladder:
    """The ladder of the best rule."""
    words, background = words or Words.of(explanation), explanation.background
    shown = {} if background is None else {one.feature.name: one for one in background.distributions}
    further = wider_of(explanation)
    wider = {} if further is None else {one.feature: one for one in conditions_of(further.rule)}
    rungs = tuple(
        _rung(condition, wider.get(condition.feature, condition), shown.get(condition.feature), words, explanation)
        for condition in conditions_of(explanation.rule)
    )
    notes = (NO_HISTORY,) if background is None and rungs else ()
    return Ladder(
        rungs, outcome_of(explanation.rule, words.friendly), look_of(explanation.verdict), notes, words.friendly
    )


def _rung(
    condition: Condition, wider: Condition, seen: Distribution | None, words: Words, explanation: Explanation
) -> Rung:
    mine = explanation.instance[condition.feature]
    moved = None if wider == condition else words.brief(wider)
    texts = (words.label(condition.feature), words.brief(condition), moved, words.value(condition.feature, mine))
    if seen is None:
        span = _rough(condition)
        wide = None if moved is None else _beyond(span, condition, wider)
        return Rung(*texts, (), (Tick(0.5, texts[3]),), span, wide, 0.5)
    feature = seen.feature
    codes, wider_codes, own = admitted(condition, feature), admitted(wider, feature), feature.code(mine)
    scale = scale_of(seen, frozenset((own, codes[0], codes[-1], wider_codes[0], wider_codes[-1])))
    here = sum(scale.span(range(own, own + 1))) / 2
    wide = None if moved is None else scale.span(wider_codes)
    return Rung(*texts, scale.bars(seen.counts, codes), scale.ticks, scale.span(codes), wide, here)


def admitted(condition: Condition, feature: Feature) -> range:
    """The codes that a condition admits."""
    ends = [interval(component, feature) for component in condition.components]
    return range(max(low for low, _ in ends), min(high for _, high in ends) + 1)


def _rough(condition: Condition) -> Span:
    """Where a condition lies on a line without a scale: left or right of the row, or at it."""
    most, least = condition.bound("<="), condition.bound(">=")
    if (most is None) == (least is None):
        return 0.4, 0.6
    return (0.0, 0.5) if least is None else (0.5, 1.0)


def _beyond(span: Span, condition: Condition, wider: Condition) -> Span:
    """Without a scale: a little further on the side where a bound could move."""
    left, right = (0.15 * (condition.bound(op) != wider.bound(op)) for op in (">=", "<="))
    return max(0.0, span[0] - left), min(1.0, span[1] + right)

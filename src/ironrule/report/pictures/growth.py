"""Coverage as the rule grows: the past rows that its first components admit, and how many of them are desired."""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.explain import Explanation
from ironrule.explain.background import Step
from ironrule.report.words import Condition, Words, wider_of

NOT_AT_HAND = "The past rows are not at hand: only the coverage of the whole rule is known."
NOT_ASKED = "The model was not asked about the past rows here, so outcomes are not told apart."


@dataclass(frozen=True, slots=True)
class Grown:
    """The rule up to one component; ``desired`` is None where outcomes are not known."""

    label: str
    covered: int
    desired: int | None


@dataclass(frozen=True, slots=True)
class Growth:
    """The rule as it grows; ``wider`` is what it covers with its bounds as far out as is proven."""

    steps: tuple[Grown, ...]
    rows: int
    wider: int | None
    notes: tuple[str, ...]


def growth_of(explanation: Explanation, words: Words | None = None) -> Growth:
    """The growth of the best rule."""
    words, background, rows = words or Words.of(explanation), explanation.background, explanation.history_rows
    further = wider_of(explanation)
    wider = None if further is None else further.coverage
    if background is None:
        ends = (Grown("everyone", rows, None), Grown("the whole rule", explanation.coverage, None))
        return Growth(ends, rows, wider, (NOT_AT_HAND,))
    steps = tuple(_grown(step, words) for step in background.growth)
    return Growth(steps, rows, wider, () if steps[0].desired is not None else (NOT_ASKED,))


def _grown(step: Step, words: Words) -> Grown:
    if step.component is None:
        return Grown("everyone", step.covered, step.desired)
    condition = Condition(step.component.feature, (step.component,))
    return Grown(f"and {words.label(condition.feature)} {words.brief(condition)}", step.covered, step.desired)

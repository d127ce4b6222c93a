"""Why not shorter: for every component somebody who satisfies all the others and gets the desired outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ironrule.explain import Explanation
from ironrule.explain.background import Need
from ironrule.report.words import Condition, Words, desired_of, outcome_of
from ironrule.rule import Component, Counterfactual

UNKNOWN = "Not known whether this part is needed."
NOT_AT_HAND = "The data is not at hand, so it cannot be shown why every part is needed."


@dataclass(frozen=True, slots=True)
class Case:
    """What the rule without one component would let through; ``values`` by component, None where nothing is known."""

    place: int  # of the component that is left out
    values: tuple[str, ...] | None
    others: tuple[str, ...]  # what else differs from the row, in features that the rule does not name
    past: bool


@dataclass(frozen=True, slots=True)
class Needs:
    """The components, and one case for each."""

    components: tuple[tuple[str, str], ...]  # label and condition
    cases: tuple[Case, ...]
    outcome: str
    desired: str
    notes: tuple[str, ...]


def needs_of(explanation: Explanation, words: Words | None = None) -> Needs:
    """The cases that show that every component is needed, as far as they are known."""
    words, background = words or Words.of(explanation), explanation.background
    components = explanation.rule.components
    needs = () if background is None else background.needs
    heads = tuple((words.label(one.feature), words.brief(Condition(one.feature, (one,)))) for one in components)
    cases = tuple(_case(place, need, components, words) for place, need in enumerate(needs))
    outcome, desired = outcome_of(explanation.rule), desired_of(explanation)
    return Needs(heads, cases, outcome, desired, _notes(explanation, needs))


def _notes(explanation: Explanation, needs: Sequence[Need]) -> tuple[str, ...]:
    background = explanation.background
    if background is None:
        return (NOT_AT_HAND,)
    close = "Who is shown gets the desired outcome from one of the models, or has a score within the margin."
    return (close,) if background.withstands and any(need.counterfactual for need in needs) else ()


def _case(place: int, need: Need, components: Sequence[Component], words: Words) -> Case:
    found = need.counterfactual
    if found is None:
        return Case(place, None, (), False)
    values = tuple(words.value(one.feature, found.values[one.feature]) for one in components)
    return Case(place, values, other_changes(found, {one.feature for one in components}, words), need.past)


def other_changes(found: Counterfactual, named: set[str], words: Words) -> tuple[str, ...]:
    """What a counterfactual changes in features that are not named."""
    return tuple(
        f"{words.label(change.feature)}: {words.value(change.feature, change.after)}"
        for change in found.changes
        if change.feature not in named
    )

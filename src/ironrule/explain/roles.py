"""The roles of all features, declared or guessed, and what follows from them for changes and for rules.

A declared role counts as it is. Of a feature without one, the name and the label may look protected or immutable; of
one that does not and that has an order, the past rows may say which way is better: the rank-biserial correlation of
its values with the model's outcome, that is how much more often the larger of two values, one of a desired and one of
an undesired row, is the desired row's than the other's (Cureton, "Rank-biserial correlation", 1956). A correlation that
is small, or that chance explains, says nothing.

Declared roles hold for every change that is searched for. Guessed ones hold for what an explanation suggests alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.results.advice import ChangeLimit, RuleMark
from ironrule.rule.rule import Rule
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject
from ironrule.space.feature import Feature
from ironrule.space.roles import Direction, Role, RoleGuesses, build_role_constraints
from ironrule.space.space import Space

if TYPE_CHECKING:
    from ironrule.explain.context import ExplainerContext


LEAST_CORRELATION = 0.05  # between -1 and 1; less says nothing about which way is better
LEAST_DEVIATIONS = 3.0  # standard deviations of a correlation that is due to chance
MOVE_WORDS: Mapping[tuple[Direction, ...], str] = {("rise",): "may only rise", ("fall",): "may only fall"}


def list_declared_constraints(space: Space) -> tuple[Constraint, ...]:
    """What the declared roles of a space say about changes."""
    return tuple(limit for feature in space.features for limit in list_role_constraints(feature))


def list_role_constraints(feature: Feature) -> list[Constraint]:
    """What the declared role of a feature says about changes of it."""
    return [] if feature.role is None else list(_list_constraints([(feature, feature.role)]))


def list_guessed_constraints(context: ExplainerContext) -> tuple[Constraint, ...]:
    """What guessed roles say about changes; what is known is not suggested to become missing either."""
    guesses, features = find_guessed_roles(context), context.space.features
    limits = list(_list_constraints((f, guesses[f.name]) for f in features if f.name in guesses))
    if context.role_guesses.direction_by_data:
        for feature in features:
            if feature.missing and feature.role is None and feature.name not in guesses:
                own, other = _name_values(feature)
                limits.append(parse_constraint(f"{own} != missing or {other} == missing"))
    return tuple(limits)


def _list_constraints(roles: Iterable[tuple[Feature, Role]]) -> Iterator[Constraint]:
    for feature, role in roles:
        yield from map(parse_constraint, build_role_constraints(role, *_name_values(feature)))


def _name_values(feature: Feature) -> tuple[str, str]:
    """How constraints call the value of a feature in a counterfactual, and in the row."""
    return str(Reference(Subject.POINT, feature.name)), str(Reference(Subject.INSTANCE, feature.name))


def find_guessed_roles(context: ExplainerContext) -> Mapping[str, Role]:
    """The roles that are guessed of features without a declared one, found once for an explainer."""
    cache = context.guessed_roles
    if not cache:
        history = context.history.codes, context.outcomes
        cache.append({f.name: role for f, role in _guess_roles(context.space, context.role_guesses, *history)})
    return cache[0]


def _guess_roles(
    space: Space, guesses: RoleGuesses, codes: EncodedTable, desired: BoolArray
) -> Iterator[tuple[Feature, Role]]:
    for place, feature in enumerate(space.features):
        kind = guesses.guess_kind(feature.name, feature.label)
        if feature.role is not None:
            continue
        if kind is not None:
            yield feature, Role(kind)
        elif guesses.direction_by_data and feature.ordered:
            # Where the name says nothing, the history may: approved people have more of it, or less.
            column = codes.columns[place]
            counts = [np.bincount(column[chosen], minlength=feature.size) for chosen in (desired, ~desired)]
            rises = find_better_direction(*(count[: len(feature.values)] for count in counts))
            if rises is not None:
                yield feature, Role(higher_is="better" if rises == "rise" else "worse")


def find_better_direction(desired: Int64Array, undesired: Int64Array) -> Direction | None:
    """Which way is better, by how often every value occurs in desired and in undesired rows; None if that is open.

    >>> find_better_direction(np.array([10, 20, 70]), np.array([70, 20, 10]))
    'rise'
    """
    total, other = int(desired.sum()), int(undesired.sum())
    if total == 0 or other == 0:
        return None
    below = np.cumsum(undesired) - undesired
    pairs_up = float((desired * below).sum())
    ties = float((desired * undesired).sum())
    correlation = (2 * pairs_up + ties) / (total * other) - 1
    deviation = math.sqrt((total + other + 1) / (3 * total * other))  # of chance alone, without ties: the largest
    if abs(correlation) < max(LEAST_CORRELATION, LEAST_DEVIATIONS * deviation):
        return None
    return "rise" if correlation > 0 else "fall"


def list_limits(context: ExplainerContext) -> dict[str, ChangeLimit]:
    """Of every feature that may not change freely, why."""
    guesses = find_guessed_roles(context)
    limits = {}
    for feature in context.space.features:
        role = guesses.get(feature.name, feature.role)
        if role is None:
            continue
        by = "" if feature.role is not None else " by its name" if role.kind != "actionable" else " by the data"
        says: list[str] = [role.kind] if role.kind != "actionable" else []
        if role.kind == "actionable" and len(role.moves) < 2:
            says.append(MOVE_WORDS.get(role.moves, "may not change"))
        if role.minimum_step is not None:
            says.append(f"by at least {role.minimum_step}")
        if says:
            limits[feature.name] = ChangeLimit(role.moves, " ".join(says) + by)
    return limits


def mark_rule(context: ExplainerContext, rule: Rule) -> tuple[RuleMark, ...]:
    """The components of a rule that use a protected feature, or that go against the declared direction."""
    marks = []
    for place, component in enumerate(rule.components):
        feature = context.space[component.feature]
        declared = feature.role
        guessed = context.role_guesses.guess_kind(feature.name, feature.label)
        if (guessed if declared is None else declared.kind) == "protected":
            marks.append(RuleMark(place, "protected", declared is not None))
        if declared is not None and (declared.higher_is, component.op) in (("better", ">="), ("worse", "<=")):
            marks.append(RuleMark(place, "against direction"))
    return tuple(marks)

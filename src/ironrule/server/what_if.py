"""A row with some values changed: what the model decides about it, and whether a rule still applies to it.

It explains nothing, so it is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.explain.roles import list_role_constraints
from ironrule.explain.row_score import RowScore
from ironrule.rule.condition import find_code_range
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels, format_label
from ironrule.rule.rule import Component, Rule
from ironrule.server.served_model import ConstraintTexts, ServedModel
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature, Value, value_to_json
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True)
class TriedComponent:
    """A component of a rule, or a constraint, as it is written and in words, and whether a row satisfies it."""

    component: str
    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """The outcome of a changed row; ``components`` says of every component of a rule whether it still holds."""

    values: Mapping[str, Value]
    changed: tuple[str, ...]
    desired: bool
    components: tuple[TriedComponent, ...] | None = None
    not_permitted: tuple[str, ...] = ()  # changed features whose declared role does not permit this change
    score: RowScore | None = None  # None for a model without scores

    @property
    def rule_applies(self) -> bool | None:
        """Whether the whole rule still holds for the row; None where no rule was given."""
        return None if self.components is None else all(one.holds for one in self.components)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        components = [
            {"component": one.component, "text": one.text, "holds": one.holds} for one in self.components or ()
        ]
        return {
            "values": {name: value_to_json(value) for name, value in self.values.items()},
            "changed": list(self.changed),
            "not_permitted": list(self.not_permitted),
            "outcome": "desired" if self.desired else "undesired",
            "score": None if self.score is None else self.score.to_dict(),
            "rule_applies": self.rule_applies,
            "components": None if self.components is None else components,
        }


def evaluate_what_if(
    served_model: ServedModel,
    before: Mapping[str, Value],
    changes: Mapping[str, Any],
    rule: Rule | None,
    where: ConstraintTexts = (),
) -> WhatIfResult:
    """Decide on a row with changes, whether its values were seen before or not.

    A rule of a subspace speaks of the row only if the constraints ``where`` hold too.
    """
    unknown = [name for name in changes if name not in served_model.space.names]
    if unknown:
        served_model.space[unknown[0]]  # raises the error that names the features
    new = served_model.space.find_new_values(changes)
    space = served_model.space.extend_domains(new)
    values = dict(before)
    for name, value in changes.items():
        values[name] = space[name].value(space[name].code(new.get(name, value)))
    changed = tuple(name for name in values if values[name] != before[name])
    components = None
    if rule is not None:
        own = [_try_component(space, values, one) for one in rule.components]
        more = [TriedComponent(text, text, _satisfies_constraint(space, values, text)) for text in where]
        components = (*own, *more)
    forbidden = tuple(name for name in changed if not _is_permitted(space[name], before, values))
    desired, scorer = served_model.explainer.is_desired(values), served_model.scorer
    return WhatIfResult(
        values=values,
        changed=changed,
        desired=desired,
        components=components,
        not_permitted=forbidden,
        score=None if scorer is None else scorer.score(values),
    )


def _is_permitted(feature: Feature, before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
    """Whether the declared role of a feature permits the change of its value."""
    x, point = (np.array([feature.code(values[feature.name])], dtype=np.int32) for values in (before, after))
    limits = list_role_constraints(feature)
    return all(bind_constraint(limit, (feature,))(point[None, :], x)[0] for limit in limits)


def _satisfies_constraint(space: Space, values: Mapping[str, Value], text: str) -> bool:
    point = np.array([[feature.code(values[feature.name]) for feature in space.features]], dtype=np.int32)
    return bool(bind_constraint(parse_constraint(text), space.features)(point, None)[0])


def _try_component(space: Space, values: Mapping[str, Value], component: Component) -> TriedComponent:
    feature, labels = space[component.feature], FeatureLabels.from_space(space, "unquoted")
    low, high = find_code_range(feature, component.op, component.value)
    condition = FeatureCondition(feature.name, (component,))
    text = f"{format_label(feature)}: {labels.format_sentence(condition)}"
    return TriedComponent(str(component), text, low <= feature.code(values[feature.name]) <= high)

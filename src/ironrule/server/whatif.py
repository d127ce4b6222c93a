"""What if: a past row with some values changed, what the model decides then, and whether a rule still speaks of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.errors import InputError
from ironrule.rule import Rule
from ironrule.server.problem import Problem, brief
from ironrule.server.recent import Texts
from ironrule.server.subject import Subject, is_true, text_of
from ironrule.space import Feature, Space, Value, bind, parse
from ironrule.space.plain import to_plain


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The outcome of a changed row; ``applies`` says of every component of a rule whether it still holds."""

    values: Mapping[str, Value]
    changed: tuple[str, ...]
    desired: bool
    components: tuple[tuple[str, bool], ...] | None = None

    @property
    def applies(self) -> bool | None:
        """Whether the whole rule still holds for the row; None where no rule was given."""
        return None if self.components is None else all(holds for _, holds in self.components)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        components = None
        if self.components is not None:
            components = [{"component": text, "holds": holds} for text, holds in self.components]
        return {
            "values": {name: to_plain(value) for name, value in self.values.items()},
            "changed": list(self.changed),
            "outcome": "desired" if self.desired else "undesired",
            "rule_applies": self.applies,
            "components": components,
        }


def what_if(
    subject: Subject, before: Mapping[str, Value], changes: Mapping[str, Any], rule: Rule | None, where: Texts = ()
) -> WhatIf:
    """Decide on a row with changes; a value outside its domain is refused, with the nearest ones named.

    A rule of a part of the space speaks of the row only if the constraints ``where`` hold too.
    """
    values = dict(before)
    for name, value in changes.items():
        feature = subject.space[name]
        values[name] = feature.value(_code(feature, value))
    changed = tuple(name for name in values if values[name] != before[name])
    components = None
    if rule is not None:
        holds = [
            (str(c), is_true(c, subject.space[c.feature], _now(subject, values, c.feature))) for c in rule.components
        ]
        components = (*holds, *((text, _satisfies(subject.space, values, text)) for text in where))
    return WhatIf(values, changed, subject.explainer.desired(values), components)


def _satisfies(space: Space, values: Mapping[str, Value], text: str) -> bool:
    point = np.array([[feature.code(values[feature.name]) for feature in space.features]], dtype=np.int32)
    return bool(bind(parse(text), space.features)(point, None)[0])


def _now(subject: Subject, values: Mapping[str, Value], name: str) -> int:
    return subject.space[name].code(values[name])


def _code(feature: Feature, value: Any) -> int:
    try:
        return feature.code(value)
    except InputError:
        raise _outside(feature, value) from None


def _outside(feature: Feature, value: Any) -> Problem:
    """With the nearest values as a hint, where the order is that of numbers."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (feature.natural and feature.numeric and number):
        return _refused(feature, brief(to_plain(value)))
    place = bisect_left(feature.values, value)
    near = " and ".join(text_of(one) for one in feature.values[max(0, place - 1) : place + 1])
    return _refused(feature, text_of(value), f"the nearest values are {near}")


def _refused(feature: Feature, got: str, hint: str | None = None) -> Problem:
    expected = f"{feature.name!r} must be {feature.describe()}"
    return Problem(422, "value-outside-domain", expected=expected, got=got, hint=hint)


def typed(feature: Feature, text: str) -> Value:
    """A value that somebody typed, or chose from a list, in the feature's own type."""
    text = text.strip()
    known = {text_of(feature.value(code)): feature.value(code) for code in range(feature.size)}
    if text in known:
        return known[text]
    if feature.numeric:
        try:
            number = float(text)
        except ValueError:
            raise _refused(feature, brief(text)) from None
        return int(number) if number.is_integer() else number
    return text

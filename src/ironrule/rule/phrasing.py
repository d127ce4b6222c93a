"""How a rule is put into words: what people read of a component, a condition or a whole rule is phrased here.

``phrase_rule`` writes the sentence, ``Everyone with income <= 500 and job = 'cook' gets: denied.``; what it says of
each feature can be parsed again (:mod:`ironrule.rule.parsing`). ``FeatureLabels`` phrases for plots, reports and web
pages: a feature by its label, a value with its unit, and all components of one feature as one condition, in signs
("≥ 48 months") or in words ("48 months or more", "from 12 to 22 months").
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ironrule.wording import ValueStyle, escape_controls, format_name, format_value

if TYPE_CHECKING:
    from ironrule.rule.rule import Component, Rule
    from ironrule.space.feature import Feature, Value
    from ironrule.space.space import Space

UNNAMED_OUTCOME = "the undesired outcome"
MAX_LISTED = 4  # values of a declared order that are listed one by one


def phrase_comparison(feature: str, operator: str, value: Value) -> str:
    """A feature compared with a value, as rules have it.

    >>> phrase_comparison("income", "<=", 500.0), phrase_comparison("job", "==", "cook")
    ('income <= 500', "job = 'cook'")
    """
    return f"{escape_controls(feature)} {'=' if operator == '==' else operator} {format_value(value)}"


def phrase_conditions(rule: Rule) -> tuple[str, ...]:
    """The components of a rule, with ``F <= v`` and ``F >= v`` read as ``F = v``."""
    ends = [{(c.feature, c.value) for c in rule.components if c.op == op} for op in ("<=", ">=")]
    equal = {feature for feature, _ in ends[0] & ends[1]}
    texts = (phrase_comparison(c.feature, "==" if c.feature in equal else c.op, c.value) for c in rule.components)
    return tuple(dict.fromkeys(texts))


def join_conditions(rule: Rule) -> str:
    """The conditions of a rule in one line; "everyone" where there are none."""
    return " and ".join(phrase_conditions(rule)) or "everyone"


def phrase_rule(rule: Rule) -> str:
    """A rule as a sentence."""
    who = f"Everyone with {join_conditions(rule)}" if rule.components else "Everyone"
    return f"{who} gets: {escape_controls(rule.outcome)}."


def is_named_outcome(name: str) -> bool:
    """Whether people understand the name of an outcome: it is none that stands for an unnamed one, nor a class number.

    >>> is_named_outcome("'denied'"), is_named_outcome("0"), is_named_outcome("False")
    (True, False, False)
    """
    is_number = name.removeprefix("-").replace(".", "", 1).isdecimal()
    return not is_number and name not in (UNNAMED_OUTCOME, "True", "False")


def format_outcome(rule: Rule, friendly: bool = False) -> str:
    """The name of the outcome without quotation marks; to a friend, one without a name is this decision."""
    name = rule.outcome
    if friendly and not is_named_outcome(name):
        return "this decision"
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    return escape_controls(name[1:-1] if quoted else name)


@dataclass(frozen=True, slots=True)
class FeatureCondition:
    """What a rule demands of one feature."""

    feature: str
    components: tuple[Component, ...]

    def bound(self, op: str) -> Component | None:
        """The component with this operator, if there is one."""
        return next((component for component in self.components if component.op == op), None)


def group_conditions(rule: Rule) -> tuple[FeatureCondition, ...]:
    """The rule's conditions, one per feature, in order."""
    parts = rule.components
    return tuple(FeatureCondition(name, tuple(c for c in parts if c.feature == name)) for name in rule.features)


@dataclass(frozen=True, slots=True)
class FeatureLabel:
    """How a person knows a feature: its label and its unit, where the space has them."""

    name: str
    label: str | None = None
    unit: str | None = None


def list_labels(space: Space) -> tuple[FeatureLabel, ...]:
    """The labels of all features of a space."""
    return tuple(FeatureLabel(feature.name, feature.label, feature.unit) for feature in space.features)


def format_label(feature: Feature | FeatureLabel) -> str:
    """A feature's label, or its name as words."""
    return escape_controls(feature.label) if feature.label else format_name(feature.name)


@dataclass(frozen=True, slots=True)
class FeatureLabels:
    """The labels and units at hand; ``friendly`` ones make words of a name that has no label."""

    feature_labels: Mapping[str, FeatureLabel] = field(default_factory=dict)
    friendly: bool = False
    value_style: ValueStyle = "letter"

    @classmethod
    def from_space(cls, space: Space, value_style: ValueStyle = "letter") -> FeatureLabels:
        """Those of a space."""
        return cls({label.name: label for label in list_labels(space)}, value_style=value_style)

    def get(self, feature: str) -> FeatureLabel:
        """The label of a feature, which is empty where none is known."""
        return self.feature_labels.get(feature, FeatureLabel(feature))

    def label(self, feature: str) -> str:
        """How the feature is called."""
        label = self.get(feature)
        if label.label or not self.friendly:
            return escape_controls(label.label or feature)
        text = format_label(label)
        return text[:1].upper() + text[1:]

    def format_value(self, feature: str, value: Value) -> str:
        """A value with its unit."""
        text, unit = format_value(value, self.value_style), self.get(feature).unit
        return f"{text} {escape_controls(unit)}" if unit and value is not None else text

    def format_short(self, condition: FeatureCondition) -> str:
        """A condition in signs: ``≥ 48 months``."""
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            text = self._format_range(condition.feature, least, most)
            return f"= {text}" if least.value == most.value else text
        component = condition.components[0]
        sign = {"<=": "≤", ">=": "≥", "==": "="}[component.op]
        return f"{sign} {self.format_value(condition.feature, component.value)}"

    def format_sentence(self, condition: FeatureCondition) -> str:
        """A condition in words: ``48 months or more``."""
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            text = self._format_range(condition.feature, least, most)
            return text if least.value == most.value else f"from {text}"
        component = condition.components[0]
        text = self.format_value(condition.feature, component.value)
        if component.op == "==":
            return text
        if component.allowed is not None and len(component.allowed) <= MAX_LISTED:
            *first, last = (format_value(value, self.value_style) for value in component.allowed)
            return f"{', '.join(first)} or {last}" if first else last
        lower, higher = ("less", "more") if isinstance(component.value, (int, float)) else ("lower", "higher")
        if isinstance(component.value, datetime.date):
            lower, higher = "earlier", "later"
        return f"{text} or {lower if component.op == '<=' else higher}"

    def _format_range(self, feature: str, least: Component, most: Component) -> str:
        """Two bounds, ``12 to 22 months``; one value where they are the same."""
        text = self.format_value(feature, most.value)
        return text if least.value == most.value else f"{format_value(least.value, self.value_style)} to {text}"

"""How reports and plots phrase things: a feature by its label, a value with its unit, a condition as a sentence.

The components of a rule that speak of one feature make one condition: ``months >= 12`` and ``months <= 22`` are "12 to
22 months".
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from ironrule.results.background import FeatureLabel
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Value
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven

MAX_LISTED = 4  # values of a declared order that are listed one by one
NOT_GIVEN = "not given"
UNNAMED_OUTCOME = Rule(()).outcome


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
    return tuple(
        FeatureCondition(name, tuple(component for component in rule.components if component.feature == name))
        for name in rule.features
    )


def find_proven_wider_rule(explanation: Explanation) -> RankedRule | None:
    """The rule with its bounds as far out as is proven, where they could move at all."""
    wider = explanation.wider
    if wider is None or wider.rule == explanation.rule:
        return None
    return wider if isinstance(wider.verdict, Proven) and isinstance(explanation.verdict, Proven) else None


def format_plain_value(value: object) -> str:
    """A value without quotation marks, as a letter would have it.

    >>> format_plain_value(1250.0), format_plain_value("own house"), format_plain_value(True), format_plain_value(None)
    ('1250', 'own house', 'yes', 'not given')
    """
    if value is None:
        return NOT_GIVEN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value) if str(value).strip() else repr(value)


def format_outcome(rule: Rule, friendly: bool = False) -> str:
    """The name of the outcome without quotation marks; to a friend, one without a name is this decision."""
    name = rule.outcome
    if friendly and name == UNNAMED_OUTCOME:
        return "this decision"
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    return name[1:-1] if quoted else name


def format_desired_outcome(explanation: Explanation, friendly: bool = False) -> str:
    """The name of the desired outcome, where it has one."""
    labels = explanation.decision.desired
    if labels is None:
        return "the other decision" if friendly else "the desired outcome"
    return " or ".join(map(format_plain_value, labels))


@dataclass(frozen=True, slots=True)
class FeatureLabels:
    """The labels and units at hand; ``friendly`` ones make words of a name that has no label."""

    feature_labels: Mapping[str, FeatureLabel] = field(default_factory=dict)
    friendly: bool = False

    @classmethod
    def from_explanation(cls, explanation: Explanation, friendly: bool = False) -> FeatureLabels:
        """Those of the space behind an explanation; none where nothing stands behind it."""
        background = explanation.background
        labels = () if background is None else background.feature_labels
        return cls({label.name: label for label in labels}, friendly)

    @classmethod
    def from_space(cls, space: Space) -> FeatureLabels:
        """Those of a space."""
        return cls({one.name: FeatureLabel(one.name, one.label, one.unit) for one in space.features})

    def label(self, feature: str) -> str:
        """How the feature is called."""
        label = self.feature_labels.get(feature, FeatureLabel(feature)).label
        if label or not self.friendly:
            return label or feature
        text = " ".join(feature.replace("_", " ").split()) or feature
        return text[:1].upper() + text[1:]

    def format_value(self, feature: str, value: Value) -> str:
        """A value with its unit."""
        return format_plain_value(value) if value is None else self._with_unit(feature, format_plain_value(value))

    def _with_unit(self, feature: str, text: str) -> str:
        unit = self.feature_labels.get(feature, FeatureLabel(feature)).unit
        return f"{text} {unit}" if unit else text

    def format_short(self, condition: FeatureCondition) -> str:
        """A condition in signs: ``≥ 48 months``."""
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            if most.value == least.value:
                return f"= {self.format_value(condition.feature, most.value)}"
            return f"{format_plain_value(least.value)} to {self.format_value(condition.feature, most.value)}"
        component = condition.components[0]
        sign = {"<=": "≤", ">=": "≥", "==": "="}[component.op]
        return f"{sign} {self.format_value(condition.feature, component.value)}"

    def format_sentence(self, condition: FeatureCondition) -> str:
        """A condition in words: ``48 months or more``."""
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            return self._format_range(condition.feature, least, most)
        component = condition.components[0]
        text = self.format_value(condition.feature, component.value)
        if component.op == "==":
            return text
        if component.allowed is not None and len(component.allowed) <= MAX_LISTED:
            return _join_alternatives([format_plain_value(value) for value in component.allowed])
        if isinstance(component.value, datetime.date):
            return f"{text} or {'earlier' if component.op == '<=' else 'later'}"
        higher = "more" if isinstance(component.value, (int, float)) else "higher"
        lower = "less" if isinstance(component.value, (int, float)) else "lower"
        return f"{text} or {lower if component.op == '<=' else higher}"

    def _format_range(self, feature: str, least: Component, most: Component) -> str:
        if least.value == most.value:
            return self.format_value(feature, most.value)
        return f"from {format_plain_value(least.value)} to {self.format_value(feature, most.value)}"


def _join_alternatives(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"

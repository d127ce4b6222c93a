"""How pictures and reports name things: a feature by its label, a value with its unit, a condition as people say it.

The components of a rule that speak of one feature make one condition: ``months >= 12`` and ``months <= 22`` are "12 to
22 months".
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from ironrule.explain import Explanation, RankedRule
from ironrule.explain.background import Caption
from ironrule.rule import Component, Rule
from ironrule.space import Space, Value
from ironrule.verdict import Proven

FEW = 4  # values of a declared order that are listed one by one
NOT_GIVEN = "not given"
UNNAMED = Rule(()).outcome


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rule demands of one feature."""

    feature: str
    components: tuple[Component, ...]

    def bound(self, op: str) -> Component | None:
        """The component with this operator, if there is one."""
        return next((component for component in self.components if component.op == op), None)


def conditions_of(rule: Rule) -> tuple[Condition, ...]:
    """The rule's conditions, one per feature, in order."""
    return tuple(
        Condition(name, tuple(component for component in rule.components if component.feature == name))
        for name in rule.features
    )


def wider_of(explanation: Explanation) -> RankedRule | None:
    """The rule with its bounds as far out as is proven, where they could move at all."""
    wider = explanation.wider
    if wider is None or wider.rule == explanation.rule:
        return None
    return wider if isinstance(wider.verdict, Proven) and isinstance(explanation.verdict, Proven) else None


def plain(value: object) -> str:
    """A value without quotation marks, as a letter would have it.

    >>> plain(1250.0), plain("own house"), plain(True), plain(None)
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


def outcome_of(rule: Rule, friendly: bool = False) -> str:
    """The name of the outcome without quotation marks; to a friend, one without a name is this decision."""
    name = rule.outcome
    if friendly and name == UNNAMED:
        return "this decision"
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    return name[1:-1] if quoted else name


def desired_of(explanation: Explanation, friendly: bool = False) -> str:
    """The name of the desired outcome, where it has one."""
    labels = explanation.decision.desired
    if labels is None:
        return "the other decision" if friendly else "the desired outcome"
    return " or ".join(map(plain, labels))


@dataclass(frozen=True, slots=True)
class Words:
    """The labels and units at hand; ``friendly`` ones make words of a name that has no label."""

    captions: Mapping[str, Caption] = field(default_factory=dict)
    friendly: bool = False

    @classmethod
    def of(cls, explanation: Explanation, friendly: bool = False) -> Words:
        """Those of the space behind an explanation; none where nothing stands behind it."""
        background = explanation.background
        captions = () if background is None else background.captions
        return cls({caption.name: caption for caption in captions}, friendly)

    @classmethod
    def over(cls, space: Space) -> Words:
        """Those of a space."""
        return cls({one.name: Caption(one.name, one.label, one.unit) for one in space.features})

    def label(self, feature: str) -> str:
        """How the feature is called."""
        label = self.captions.get(feature, Caption(feature)).label
        if label or not self.friendly:
            return label or feature
        text = " ".join(feature.replace("_", " ").split()) or feature
        return text[:1].upper() + text[1:]

    def value(self, feature: str, value: Value) -> str:
        """A value with its unit."""
        return plain(value) if value is None else self._with_unit(feature, plain(value))

    def _with_unit(self, feature: str, text: str) -> str:
        unit = self.captions.get(feature, Caption(feature)).unit
        return f"{text} {unit}" if unit else text

    def brief(self, condition: Condition) -> str:
        """A condition in signs: ``≥ 48 months``."""
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            if most.value == least.value:
                return f"= {self.value(condition.feature, most.value)}"
            return f"{plain(least.value)} to {self.value(condition.feature, most.value)}"
        component = condition.components[0]
        sign = {"<=": "≤", ">=": "≥", "==": "="}[component.op]
        return f"{sign} {self.value(condition.feature, component.value)}"

    def spoken(self, condition: Condition) -> str:
        """A condition in words: ``48 months or more``."""
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            return self._between(condition.feature, least, most)
        component = condition.components[0]
        text = self.value(condition.feature, component.value)
        if component.op == "==":
            return text
        if component.allowed is not None and len(component.allowed) <= FEW:
            return _listed([plain(value) for value in component.allowed])
        if isinstance(component.value, datetime.date):
            return f"{text} or {'earlier' if component.op == '<=' else 'later'}"
        higher = "more" if isinstance(component.value, (int, float)) else "higher"
        lower = "less" if isinstance(component.value, (int, float)) else "lower"
        return f"{text} or {lower if component.op == '<=' else higher}"

    def _between(self, feature: str, least: Component, most: Component) -> str:
        if least.value == most.value:
            return self.value(feature, most.value)
        return f"from {plain(least.value)} to {self.value(feature, most.value)}"


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"

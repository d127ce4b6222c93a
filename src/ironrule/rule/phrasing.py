"""How a rule is put into words: what people read of a component, a condition or a whole rule is phrased here.

``phrase_rule`` writes the sentence, ``Everyone with income <= 500 and job = 'cook' gets: denied.``; what it says of
each feature can be parsed again (:mod:`ironrule.rule.parsing`). ``FeatureLabels`` phrases for plots, reports and web
pages: a feature by its label, a value with its unit, and all components of one feature as one condition, in signs
("≥ 48 months") or in words ("48 months or more", "from 12 to 22 months").
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ironrule.rule.ends import KNOWN
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.wording import ValueStyle, escape_controls, format_name, format_value

if TYPE_CHECKING:
    from ironrule.rule.counterfactual import Change
    from ironrule.rule.rule import Component, Rule
    from ironrule.space.feature import Feature, Value
    from ironrule.space.space import Space

UNNAMED_OUTCOME = "the undesired outcome"
MAX_LISTED = 4  # values of a declared order that are listed one by one


def phrase_comparison(feature: str, operator: str, value: Value, labels: Labels = NO_LABELS) -> str:
    """A feature compared with a value, as rules have it.

    >>> phrase_comparison("income", "<=", 500.0), phrase_comparison("job", "==", "cook")
    ('income <= 500', "job = 'cook'")
    """
    sign = "=" if operator == "==" else operator
    return f"{name_feature(feature, labels)} {sign} {name_value(feature, value, labels)}"


def phrase_component(component: Component, labels: Labels = NO_LABELS) -> str:
    """A component by itself, as rules have it: at an end of its range it may say that the value is known."""
    return phrase_condition(FeatureCondition(component.feature, (component,)), labels)


def name_feature(feature: str, labels: Labels) -> str:
    """A feature by its label, or by its name."""
    return escape_controls(labels.get_label(feature) or feature)


def name_value(feature: str, value: Value, labels: Labels, style: ValueStyle = "quoted") -> str:
    """A value by its text, or as a number with its unit; as it is where the labels say nothing of it.

    >>> labels = Labels.from_dict({"income": {"unit": "EUR", "format": "grouped"}, "job": {"values": {"A1": "cook"}}})
    >>> name_value("income", 1500.0, labels), name_value("job", "A1", labels), name_value("job", "A2", labels)
    ('1,500 EUR', 'cook', "'A2'")
    """
    text = labels.get_value_text(feature, value)
    if text is not None:
        return escape_controls(text)
    if labels and isinstance(value, (int, float)) and not isinstance(value, bool):
        return escape_controls(labels.add_unit(feature, labels.format_number(feature, value)))
    return format_value(value, style)


def format_change(change: Change) -> tuple[str, str, str]:
    """The feature, the old and the new value of a change."""
    name, labels = change.feature, change.labels
    return name_feature(name, labels), name_value(name, change.before, labels), name_value(name, change.after, labels)


def phrase_condition(condition: FeatureCondition, labels: Labels = NO_LABELS) -> str:
    """What a rule demands of one feature, as rules have it: ``200 <= income <= 500``; in labels in words.

    >>> from ironrule.rule.rule import Component
    >>> both = FeatureCondition("income", (Component("income", ">=", 200), Component("income", "<=", 500)))
    >>> phrase_condition(both), phrase_condition(both, Labels.from_dict({"income": "Monthly income"}))
    ('200 <= income <= 500', 'Monthly income from 200 to 500')
    """
    name, most, least = condition.feature, condition.bound("<="), condition.bound(">=")
    if condition.is_known:
        return f"{name_feature(name, labels)} {KNOWN}"
    listed = list_texts(condition, labels)
    if listed is not None:
        return f"{name_feature(name, labels)} = {listed}"
    if most is None or least is None:
        component = condition.components[0]
        return phrase_comparison(name, condition.operator, component.value, labels)
    if most.value == least.value:
        return phrase_comparison(name, "==", most.value, labels)
    if labels:
        return f"{name_feature(name, labels)} from {format_range(condition, labels, 'quoted')}"
    return f"{format_value(least.value)} <= {escape_controls(name)} <= {format_value(most.value)}"


def list_texts(condition: FeatureCondition, labels: Labels) -> str | None:
    """The few texts of values that bounds on codes admit; None where the labels do not have all of them.

    >>> from ironrule.rule.rule import Component
    >>> labels = Labels.from_dict({"home": {"values": {0: "rent", 1: "own", 2: "free"}}})
    >>> bound = FeatureCondition("home", (Component("home", "<=", 1),))
    >>> list_texts(bound, labels.mark_complete({"home": (0, 2)}))
    'rent or own'
    """
    most, least = condition.bound("<="), condition.bound(">=")
    if most is None and least is None:
        return None
    low, high = (None if one is None else one.value for one in (least, most))
    texts = labels.list_value_texts(condition.feature, low, high)
    if not texts or len(texts) > MAX_LISTED:
        return None
    *first, last = map(escape_controls, texts)
    return f"{', '.join(first)} or {last}" if first else last


def format_range(condition: FeatureCondition, labels: Labels, style: ValueStyle) -> str:
    """Two bounds, ``12 to 22 months``; the unit stands once, where it stands behind the number."""
    name, most, least = condition.feature, condition.bound("<="), condition.bound(">=")
    assert most is not None
    assert least is not None
    low, high = (name_value(name, one.value, labels, style) for one in (least, most))
    unit = labels.get_unit(name)
    ending = f" {escape_controls(unit)}" if unit else ""
    if ending and low.endswith(ending) and high.endswith(ending):
        low = low.removesuffix(ending)
    return f"{low} to {high}"


def phrase_conditions(rule: Rule) -> tuple[str, ...]:
    """The conditions of a rule, one per feature."""
    return tuple(phrase_condition(condition, rule.labels) for condition in group_conditions(rule))


def join_conditions(rule: Rule) -> str:
    """The conditions of a rule in one line; "everyone" where there are none."""
    return " and ".join(phrase_conditions(rule)) or "everyone"


def phrase_rule(rule: Rule) -> str:
    """A rule as a sentence."""
    who = f"Everyone with {join_conditions(rule)}" if rule.components else "Everyone"
    return f"{who} gets: {name_outcome(rule)}."


def name_outcome(rule: Rule) -> str:
    """The outcome of a rule by its label, or by its name."""
    return escape_controls(rule.labels.get_undesired(rule.outcome) or rule.outcome)


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
    label = rule.labels.get_undesired(name)
    if label is not None:
        return escape_controls(label)
    if friendly and not is_named_outcome(name):
        return "this decision"
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    return escape_controls(name[1:-1] if quoted else name)


@dataclass(frozen=True, slots=True)
class FeatureCondition:
    """What a rule demands of one feature."""

    feature: str
    components: tuple[Component, ...]

    @property
    def is_known(self) -> bool:
        """Whether all that is demanded is a value, whichever: bounds at the far ends of the range exclude no other."""
        return all(component.reading == "known" for component in self.components)

    @property
    def operator(self) -> str:
        """The operator of a single component, as it is read: the last value of a short scale or more is this value."""
        component = self.components[0]
        return "==" if component.reading == "equal" else component.op

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


def format_label(feature: Feature | FeatureLabel) -> str:
    """A feature's label, or its name as words."""
    return escape_controls(feature.label) if feature.label else format_name(feature.name)


@dataclass(frozen=True, slots=True)
class FeatureLabels:
    """How conditions are phrased with the labels at hand; ``friendly``: a name that has no label becomes words."""

    labels: Labels = NO_LABELS
    friendly: bool = False
    value_style: ValueStyle = "letter"

    @classmethod
    def from_space(cls, space: Space, value_style: ValueStyle = "letter") -> FeatureLabels:
        """Those of a space."""
        return cls(space.labels, value_style=value_style)

    def get(self, feature: str) -> FeatureLabel:
        """The label of a feature, which is empty where none is known."""
        return FeatureLabel(feature, self.labels.get_label(feature), self.labels.get_unit(feature))

    def label(self, feature: str) -> str:
        """How the feature is called."""
        label = self.get(feature)
        if label.label or not self.friendly:
            return escape_controls(label.label or feature)
        text = format_label(label)
        return text[:1].upper() + text[1:]

    def format_value(self, feature: str, value: Value) -> str:
        """A value by its text, or with its unit."""
        text = name_value(feature, value, self.labels, self.value_style)
        unit = self.get(feature).unit
        is_bare = unit and value is not None and text == format_value(value, self.value_style)
        return f"{text} {escape_controls(unit or '')}" if is_bare else text

    def format_short(self, condition: FeatureCondition) -> str:
        """A condition in signs: ``≥ 48 months``."""
        if condition.is_known:
            return "known"
        listed = list_texts(condition, self.labels)
        if listed is not None:
            return f"= {listed}"
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            if least.value == most.value:
                return f"= {self.format_value(condition.feature, most.value)}"
            return format_range(condition, self.labels, self.value_style)
        component = condition.components[0]
        sign = {"<=": "≤", ">=": "≥", "==": "="}[condition.operator]
        return f"{sign} {self.format_value(condition.feature, component.value)}"

    def format_sentence(self, condition: FeatureCondition) -> str:
        """A condition in words: ``48 months or more``."""
        if condition.is_known:
            return "any value that is given" if self.value_style == "letter" else "any known value"
        listed = list_texts(condition, self.labels)
        if listed is not None:
            return listed
        most, least = condition.bound("<="), condition.bound(">=")
        if most is not None and least is not None:
            if least.value == most.value:
                return self.format_value(condition.feature, most.value)
            return f"from {format_range(condition, self.labels, self.value_style)}"
        component = condition.components[0]
        text = self.format_value(condition.feature, component.value)
        if condition.operator == "==":
            return text
        if component.allowed is not None and len(component.allowed) <= MAX_LISTED:
            *first, last = (
                name_value(component.feature, one, self.labels, self.value_style) for one in component.allowed
            )
            return f"{', '.join(first)} or {last}" if first else last
        lower, higher = ("less", "more") if isinstance(component.value, (int, float)) else ("lower", "higher")
        if isinstance(component.value, datetime.date):
            lower, higher = "earlier", "later"
        return f"{text} or {lower if component.op == '<=' else higher}"

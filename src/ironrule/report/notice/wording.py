"""Values and conditions as the applicant reads them: labels, units, numbers and dates, words for codes."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from ironrule.report.notice.language import NoticeLanguage
from ironrule.rule.phrasing import MAX_LISTED, FeatureCondition, FeatureLabels
from ironrule.rule.rule import Component
from ironrule.space.feature import Value
from ironrule.space.labels import FeatureText, choose_text
from ironrule.wording import format_value

LEAST_GROUPED = 10_000  # numbers without a unit are grouped from here on: smaller ones may be years
NO_TEXT = FeatureText()


@dataclass(frozen=True, slots=True)
class NoticeWording:
    """The words of a notice: its language, the labels of the space, and the lender's own texts, which come first."""

    language: NoticeLanguage
    labels: FeatureLabels = field(default_factory=lambda: FeatureLabels(friendly=True))
    texts: Mapping[str, FeatureText] = field(default_factory=dict)

    def get_label(self, feature: str) -> str:
        """How the feature is called."""
        return choose_text(self._get_text(feature).label, self.language.code) or self.labels.label(feature)

    def format_value(self, feature: str, value: Value) -> str:
        """A value: by its own words where it has some, else as the language writes it, with its unit."""
        own = self._get_text(feature).values.get(format_value(value, "unquoted"))
        if own is not None and (text := choose_text(own, self.language.code)):
            return text
        if value is None:
            return self.language.sentences["values.missing"]
        if isinstance(value, bool):
            return self.language.sentences["values.yes" if value else "values.no"]
        if isinstance(value, datetime.date):
            return self.language.format_date(value)
        unit = self._get_unit(feature)
        text = self._format_bare(feature, value)
        return self.language.phrase("values.with_unit", value=text, unit=unit) if unit and unit != "%" else text

    def format_condition(self, condition: FeatureCondition) -> str:
        """A condition in words: ``1,900 EUR or less``."""
        feature, most, least = condition.feature, condition.bound("<="), condition.bound(">=")
        if most is None or least is None:
            return self._format_component(condition.components[0])
        if most.value == least.value:
            return self.format_value(feature, most.value)
        high = self.format_value(feature, most.value)
        is_number = isinstance(least.value, (int, float)) and self._get_unit(feature) != "%"
        low = self._format_bare(feature, least.value) if is_number else self.format_value(feature, least.value)
        return self.language.phrase("values.between", low=low, high=high)

    def _format_component(self, component: Component) -> str:
        text = self.format_value(component.feature, component.value)
        if component.op == "==":
            return text
        if component.allowed is not None and len(component.allowed) <= MAX_LISTED:
            *first, last = (self.format_value(component.feature, value) for value in component.allowed)
            listed = self.language.sentences["values.comma"].join(first)
            return self.language.phrase("values.alternatives", first=listed, last=last) if first else last
        is_upper, value = component.op == "<=", component.value
        keys = ("lower", "higher")
        if isinstance(value, datetime.date):
            keys = ("until", "since")
        elif isinstance(value, (int, float)):
            keys = ("at_most", "at_least")
        return self.language.phrase(f"values.{keys[0] if is_upper else keys[1]}", value=text)

    def _format_bare(self, feature: str, value: Value) -> str:
        """A value without its unit, but for per cent."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return format_value(value, "letter")
        chosen, unit = self._get_text(feature).number_format, self._get_unit(feature)
        if chosen == "percent":
            return self.language.format_percent(value)
        grouped = chosen in ("grouped", "currency") or (chosen is None and (bool(unit) or abs(value) >= LEAST_GROUPED))
        text = self.language.format_number(value, grouped)
        return self.language.phrase("numbers.percent", number=text) if unit == "%" else text

    def _get_text(self, feature: str) -> FeatureText:
        return self.texts.get(feature, NO_TEXT)

    def _get_unit(self, feature: str) -> str | None:
        own = choose_text(self._get_text(feature).unit, self.language.code)
        return own or self.labels.get(feature).unit

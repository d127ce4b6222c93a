"""Values and conditions as the applicant reads them: labels, units, numbers and dates, words for codes."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ironrule.report.notice.language import NoticeLanguage
from ironrule.rule.phrasing import MAX_LISTED, FeatureCondition, FeatureLabels
from ironrule.rule.rule import Component
from ironrule.space.feature import Value
from ironrule.space.labels import CURRENCY_SIGNS, DEFAULT_LANGUAGE, FeatureText, Labels, choose_text
from ironrule.wording import format_value

LEAST_GROUPED = 10_000  # numbers without a unit are grouped from here on: smaller ones may be years
NO_TEXT = FeatureText()


@dataclass(frozen=True, slots=True)
class NoticeWording:
    """The words of a notice: its language, the labels of the space, and the lender's own texts, which come first."""

    language: NoticeLanguage
    labels: FeatureLabels = field(default_factory=lambda: FeatureLabels(friendly=True))
    texts: Mapping[str, FeatureText] = field(default_factory=dict)

    @classmethod
    def from_labels(cls, language: NoticeLanguage, labels: Labels) -> NoticeWording:
        """The words that labels give in a language; where they have none in it, in another one."""
        labels = replace(labels, language=language.code)
        return cls(language, FeatureLabels(labels, friendly=True), labels.features)

    def get_label(self, feature: str) -> str:
        """How the feature is called."""
        return choose_text(self._get_text(feature).label, self.language.code) or self.labels.label(feature)

    def format_value(self, feature: str, value: Value) -> str:
        """A value: by its own words where it has some, else as the language writes it, with its unit."""
        own = self._find_value_text(feature, value)
        if own is not None:
            return own
        if value is None:
            return self.language.sentences["values.missing"]
        if isinstance(value, bool):
            return self.language.sentences["values.yes" if value else "values.no"]
        if isinstance(value, datetime.date):
            return self.language.format_date(value)
        unit = self._get_unit(feature)
        text = self._format_bare(feature, value)
        if not unit or unit == "%":
            return text
        if unit in CURRENCY_SIGNS and self.language.code == DEFAULT_LANGUAGE:
            return f"-{unit}{text[1:]}" if text.startswith("-") else f"{unit}{text}"
        return self.language.phrase("values.with_unit", value=text, unit=unit)

    def _find_value_text(self, feature: str, value: Value) -> str | None:
        """What a value is called: by the texts of the notice, else by the labels."""
        own = choose_text(self._get_text(feature).find_value(value), self.language.code)
        return own or self.labels.labels.get_value_text(feature, value)

    def has_words(self, feature: str, value: Value) -> bool:
        """Whether a value is told in words of the data or of the labels, and is no number, date or yes and no."""
        return isinstance(value, str) or self._find_value_text(feature, value) is not None

    def format_tick(self, feature: str, value: Value) -> str:
        """A value below the line of a picture: a number without its unit."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        has_text = self._find_value_text(feature, value) is not None
        return self._format_bare(feature, value) if is_number and not has_text else self.format_value(feature, value)

    def format_number(self, feature: str, number: float, digits: int) -> str:
        """A round number below the line of a picture."""
        return self._format_bare(feature, round(number, digits))

    def format_condition(self, condition: FeatureCondition) -> str:
        """A condition in words: ``1,900 EUR or less``."""
        feature, most, least = condition.feature, condition.bound("<="), condition.bound(">=")
        low, high = (None if one is None else one.value for one in (least, most))
        texts = None if most is None and least is None else self.labels.labels.list_value_texts(feature, low, high)
        if condition.is_known:
            return self.language.sentences["values.known"]
        if texts and len(texts) <= MAX_LISTED:
            return self._join_alternatives(texts)
        if most is None or least is None:
            if condition.operator == "==":
                return self.format_value(feature, condition.components[0].value)
            return self._format_component(condition.components[0])
        if most.value == least.value:
            return self.format_value(feature, most.value)
        last = self.format_value(feature, most.value)
        is_number = isinstance(least.value, (int, float)) and self._get_unit(feature) not in ("%", *CURRENCY_SIGNS)
        has_text = self._find_value_text(feature, least.value) is not None
        is_bare = is_number and not has_text
        first = self._format_bare(feature, least.value) if is_bare else self.format_value(feature, least.value)
        return self.language.phrase("values.between", low=first, high=last)

    def _format_component(self, component: Component) -> str:
        text = self.format_value(component.feature, component.value)
        if component.allowed is not None and len(component.allowed) <= MAX_LISTED:
            return self._join_alternatives([self.format_value(component.feature, one) for one in component.allowed])
        is_upper, value = component.op == "<=", component.value
        keys = ("lower", "higher")
        if isinstance(value, datetime.date):
            keys = ("until", "since")
        elif isinstance(value, (int, float)):
            keys = ("at_most", "at_least")
        return self.language.phrase(f"values.{keys[0] if is_upper else keys[1]}", value=text)

    def _join_alternatives(self, texts: Sequence[str]) -> str:
        *first, last = texts
        listed = self.language.sentences["values.comma"].join(first)
        return self.language.phrase("values.alternatives", first=listed, last=last) if first else last

    def _format_bare(self, feature: str, value: Value) -> str:
        """A value without its unit, but for per cent."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return format_value(value, "letter")
        own, unit = self._get_text(feature), self._get_unit(feature)
        chosen = own.number_format
        if chosen == "percent":
            return self.language.format_percent(value)
        grouped = chosen in ("grouped", "currency") or (chosen is None and (bool(unit) or abs(value) >= LEAST_GROUPED))
        text = self._add_decimals(self.language.format_number(value, grouped), own.decimals or 0)
        return self.language.phrase("numbers.percent", number=text) if unit == "%" else text

    def _add_decimals(self, text: str, least: int) -> str:
        """A number with at least so many decimals."""
        decimal = self.language.sentences["numbers.decimal"]
        whole, _, rest = text.partition(decimal)
        return text if len(rest) >= least else f"{whole}{decimal}{rest.ljust(least, '0')}"

    def _get_text(self, feature: str) -> FeatureText:
        return self.texts.get(feature, NO_TEXT)

    def _get_unit(self, feature: str) -> str | None:
        own = choose_text(self._get_text(feature).unit, self.language.code)
        return own or self.labels.get(feature).unit

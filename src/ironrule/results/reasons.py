"""Reasons: what a notice to the applicant names, at most a few, each with a code and a sentence of the lender's own.

They come from a rung of a ladder that is short enough. A component of a rule is a reason if it counts against the
person: by the declared role of its feature ("higher is better"), or by the data (people with this property are approved
less often than others). Others, which a jagged model may need, are conditions of the rule but never reasons. Reasons
are ordered by how much each adds: by the bound that the rule would have without it, on the rows it was chosen on. Same
ladder, same reasons, same order.

A catalogue maps a feature and a direction to a code and to sentences, one per language:

    never_name = ["postcode"]

    [income.low]
    code = "R07"
    en = "Income is too low for the amount requested"
    de = "Das Einkommen ist zu niedrig für den gewünschten Betrag"

The direction is ``low`` for ``F <= v``, ``high`` for ``F >= v`` and ``is`` for ``F = v``. Features may share a code,
which then counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ironrule.errors import InputError
from ironrule.rule.phrasing import FeatureCondition, FeatureLabels
from ironrule.rule.rule import Component
from ironrule.space.feature import Feature, Value, value_from_json, value_to_json
from ironrule.space.labels import DEFAULT_LANGUAGE, read_toml
from ironrule.wording import escape_controls, format_count, format_percent_up, format_repr, render_text

ReasonDirection = Literal["low", "high", "is"]
DIRECTIONS: Mapping[str, ReasonDirection] = {"<=": "low", ">=": "high", "==": "is"}


@dataclass(frozen=True, slots=True)
class RungPart:
    """What is known of one component of a rung, from the rows that the rule was chosen on.

    ``bound_without`` is the bound on exceptions that the rule would have without it; ``approved_share`` the share of
    people with the desired outcome who have this property too; ``other_value`` the nearest value that does not have it
    (of categories the one that most people with the desired outcome have, the first of equals; for a row without a
    value the smallest), None where there is none.
    """

    counts_against: bool
    bound_without: float
    approved_share: float
    other_value: Value

    def to_dict(self) -> dict[str, Any]:
        """The part as plain data."""
        return {
            "counts_against": self.counts_against,
            "bound_without": self.bound_without,
            "approved_share": self.approved_share,
            "other_value": value_to_json(self.other_value),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RungPart:
        """The part that :meth:`to_dict` wrote."""
        return cls(
            bool(data["counts_against"]),
            float(data["bound_without"]),
            float(data["approved_share"]),
            value_from_json(data["other_value"]),
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. ``value`` is the person's, ``other_value`` one that would not have counted against them.

    ``code`` is that of the catalogue, None without one.
    """

    component: Component
    direction: ReasonDirection
    value: Value
    other_value: Value
    approved_share: float
    bound_without: float
    text: str
    code: str | None = None

    @property
    def feature(self) -> str:
        """The feature that the reason is about."""
        return self.component.feature

    def to_dict(self) -> dict[str, Any]:
        """The reason as plain data."""
        return {
            "feature": self.feature,
            "direction": self.direction,
            "value": value_to_json(self.value),
            "other_value": value_to_json(self.other_value),
            "approved_share": self.approved_share,
            "bound_without": self.bound_without,
            "component": self.component.to_dict(),
            "code": self.code,
            "text": self.text,
        }

    def __str__(self) -> str:
        return escape_controls(self.text if self.code is None else f"{self.code}: {self.text}")

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """A code, and its sentence in some languages."""

    code: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReasonCatalogue:
    """Entries by feature and direction, and features that must never be named.

    >>> catalogue = ReasonCatalogue.from_dict({"income": {"low": {"code": "R07", "en": "Income is too low"}}})
    >>> catalogue.entries["income", "low"].code
    'R07'
    """

    entries: Mapping[tuple[str, str], ReasonEntry]
    never_name: frozenset[str] = field(default_factory=frozenset)

    def __repr__(self) -> str:
        count = format_count(len(self.entries), "entry", "entries")
        return f"<ReasonCatalogue: {count}; never named: {', '.join(sorted(self.never_name)) or 'none'}>"

    @classmethod
    def from_file(cls, path: str | Path) -> ReasonCatalogue:
        """The catalogue in a TOML file; raises InputError if it is none."""
        return cls.from_dict(read_toml(path, "reason catalogue"))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ReasonCatalogue:
        """The catalogue in plain data; raises InputError, naming the entry, if it is none."""
        if not isinstance(document, Mapping):
            raise InputError(expected="a reason catalogue must be a table of entries", got=type(document).__name__)
        entries: dict[tuple[str, str], ReasonEntry] = {}
        never_name = document.get("never_name", [])
        if not isinstance(never_name, list) or not all(isinstance(name, str) for name in never_name):
            raise InputError(expected="never_name must be a list of features", got=repr(never_name))
        for feature, directions in document.items():
            if feature == "never_name":
                continue
            _require_table(directions, feature)
            for direction, entry in directions.items():
                name = f"{feature}.{direction}"
                if direction not in DIRECTIONS.values():
                    expected = f"the entry {name!r} of a reason catalogue must end in .low, .high or .is"
                    raise InputError(expected=expected, got=f".{direction}")
                entries[feature, direction] = _parse_entry(entry, name)
        return cls(entries, frozenset(never_name))

    def find_missing(self, features: Iterable[Feature], language: str = DEFAULT_LANGUAGE) -> list[str]:
        """The entries, such as ``income.low``, that features may need and that have no sentence in a language."""
        missing = []
        for feature in features:
            if feature.name in self.never_name:
                continue
            directions = ["low", "high"] if feature.ordered else []
            directions += ["is"] if not feature.ordered or feature.missing else []
            for direction in directions:
                entry = self.entries.get((feature.name, direction))
                if entry is None or language not in entry.texts:
                    missing.append(f"{feature.name}.{direction}")
        return missing


def _require_table(value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        raise InputError(expected=f"{name!r} of a reason catalogue must be a table", got=type(value).__name__)


def _parse_entry(entry: Any, name: str) -> ReasonEntry:
    _require_table(entry, name)
    texts = {key: text for key, text in entry.items() if key != "code"}
    if not isinstance(entry.get("code"), str) or not entry["code"]:
        raise InputError(expected=f'{name!r} of a reason catalogue must have a code, such as "R07"', got=repr(entry))
    if not texts or not all(isinstance(text, str) and text for text in texts.values()):
        expected = f'{name!r} of a reason catalogue must have a sentence per language, such as en = "..."'
        raise InputError(expected=expected, got=repr(texts))
    return ReasonEntry(entry["code"], texts)


def build_reasons(
    components: Sequence[Component],
    parts: Sequence[RungPart],
    instance: Mapping[str, Value],
    *,
    catalogue: ReasonCatalogue | None = None,
    language: str = DEFAULT_LANGUAGE,
    labels: FeatureLabels | None = None,
) -> tuple[Reason, ...]:
    """The reasons among the components of a rung, those that add most first; of those with one code the first, and of
    those about one feature too.

    Raises InputError if a feature must not be named, or if the catalogue has no sentence for a reason.
    """
    if catalogue is not None and not isinstance(catalogue, ReasonCatalogue):
        hint = "read a file with ReasonCatalogue.from_file, plain data with ReasonCatalogue.from_dict"
        raise InputError(expected="catalogue must be a ReasonCatalogue", got=type(catalogue).__name__, hint=hint)
    if not isinstance(language, str):
        raise InputError(expected='language must be a string, such as "en"', got=repr(language))
    for component in components:
        if catalogue is not None and component.feature in catalogue.never_name:
            statement = f"the rule uses {component.feature!r}, which must never be named"
            hint = f"build the ladder without it: forbid the feature {component.feature!r}"
            raise InputError(statement, hint=hint, code="feature-never-named")
    against = [pair for pair in zip(components, parts, strict=True) if pair[1].counts_against]
    reasons: list[Reason] = []
    codes = set[str]()
    # Ties by the text, so that a letter does not depend on the order of columns.
    for component, part in sorted(against, key=lambda pair: (-pair[1].bound_without, str(pair[0]))):
        if any(reason.feature == component.feature for reason in reasons):
            continue  # the other bound of a feature: no value is both too low and too high
        if catalogue is None:
            code, text = None, _phrase_reason(component, part, instance, labels or FeatureLabels())
        else:
            entry = _find_entry(component, catalogue, language)
            code, text = entry.code, entry.texts[language]
        if code is not None and code in codes:
            continue
        codes |= set() if code is None else {code}
        reasons.append(
            Reason(
                component=component,
                direction=DIRECTIONS[component.op],
                value=instance[component.feature],
                other_value=part.other_value,
                approved_share=part.approved_share,
                bound_without=part.bound_without,
                text=text,
                code=code,
            )
        )
    return tuple(reasons)


def _phrase_reason(component: Component, part: RungPart, instance: Mapping[str, Value], labels: FeatureLabels) -> str:
    """A plain sentence, where there is no catalogue."""
    name = component.feature
    condition = labels.format_sentence(FeatureCondition(name, (component,)))
    share = format_percent_up(part.approved_share)
    own = labels.format_value(name, instance[name])
    return f"{labels.label(name)} is {own}: {share} of those approved have {condition}"


def _find_entry(component: Component, catalogue: ReasonCatalogue, language: str) -> ReasonEntry:
    """The entry of a reason; raises InputError if there is none with a sentence in a language."""
    name = f"{component.feature}.{DIRECTIONS[component.op]}"
    entry = catalogue.entries.get((component.feature, DIRECTIONS[component.op]))
    if entry is None or language not in entry.texts:
        missing = name if entry is None else f"{name} in the language {language!r}"
        hint = f'add [{name}] with code = "..." and {language} = "..."; ironrule reasons check lists what is missing'
        raise InputError(f"the reason catalogue has no entry {missing}", hint=hint, code="missing-reason")
    return entry

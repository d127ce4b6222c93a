"""Labels: how people know features, values, units, numbers and outcomes. One file, used wherever something is shown.

A labels file is TOML. A line per feature is enough; a table says more. A text is a string, or has one per language:

    language = "en"                        # which texts are shown, unless somebody asks for others

    income = "Monthly income"
    postcode = { en = "Post code", de = "Postleitzahl" }

    [amount]
    label = "Amount of the loan"
    unit = "€"
    format = "currency"                    # "grouped" (1,500), "plain" (2024), "percent" (0.25 is 25%)
    decimals = 2

    [checking]
    label = { en = "Checking account", de = "Girokonto" }

    [checking.values]
    A11 = { en = "overdrawn", de = "überzogen" }
    missing = "not asked"

    [outcomes]                             # classes, or "desired" and "undesired"
    0 = "denied"
    1 = "approved"

    [numbers]                              # where a language writes them otherwise than we know
    decimal = ","
    thousands = " "

A feature that is itself called ``outcomes``, ``numbers``, ``language`` or ``features`` stands in a table ``features``.

Labels never change what is claimed: a rule keeps its names, codes and exact bounds, which documents and the checker
speak of. So no number is rounded when it is shown: ``decimals`` is the least number of decimals, and one that needs
more keeps them, since with another bound the rule would be another one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from ironrule.errors import InputError, OutcomeError, SpaceError, describe_value
from ironrule.wording import (
    escape_controls,
    format_count,
    format_names,
    format_value,
    group_digits,
    join_lines,
    render_text,
)

if TYPE_CHECKING:
    from ironrule.space.feature import Feature, Value

NumberFormat = Literal["grouped", "plain", "percent", "currency"]
NUMBER_FORMATS: tuple[NumberFormat, ...] = get_args(NumberFormat)
LocalText = str | Mapping[str, str]
"""One text for all languages, or one per language."""

DEFAULT_LANGUAGE = "en"
FEATURE_TEXT_KEYS = ("label", "unit", "format", "decimals", "values", "complete")
RESERVED_KEYS = ("features", "outcomes", "language", "numbers")
MAX_DECIMALS = 15
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(-\w+)?")
MISSING_KEY = "missing"  # of a value's text
DESIRED, UNDESIRED = "desired", "undesired"  # of an outcome's text, beside the classes
DESIRED_BESIDE: dict[str, tuple[Value, ...]] = {"0": (1,), "False": (True,)}  # the default, by the undesired class
CURRENCY_SIGNS = "$£€¥₹₩₽₺₫₴₦"
LONGEST_NUMBER, SHORTEST_NUMBER = 1e15, 1e-6  # beyond these, numbers are written with an exponent


class NumberSigns(NamedTuple):
    """How numbers are written: the decimal sign, what stands between thousands, and a share in percent."""

    decimal: str = "."
    thousands: str = ","
    percent: str = "{number}%"


NARROW_SPACE = "\u202f"
NUMBER_SIGNS: Mapping[str, NumberSigns] = {
    "en": NumberSigns(),
    "de": NumberSigns(",", ".", "{number} %"),
    "es": NumberSigns(",", ".", "{number} %"),
    "fr": NumberSigns(",", NARROW_SPACE, "{number} %"),
    "it": NumberSigns(",", ".", "{number}%"),
    "nl": NumberSigns(",", ".", "{number}%"),
    "pl": NumberSigns(",", NARROW_SPACE, "{number}%"),
    "pt": NumberSigns(",", ".", "{number}%"),
}


def read_toml(path: str | Path, what: str) -> dict[str, Any]:
    """The contents of a TOML file; raises InputError, saying what the file is, if it cannot be read."""
    import tomllib

    if not isinstance(path, (str, Path)):
        raise InputError(expected=f"the {what} must be given by its path", got=type(path).__name__)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{what} not found: {str(path)!r}", hint="check the path", code="file-not-found") from None
    except OSError as error:
        raise InputError(f"cannot read the {what} {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{Path(path).name} is not well-formed TOML: {error}") from None


def choose_text(text: LocalText | None, language: str) -> str | None:
    """The text in a language, or the one for all; None where there is none.

    >>> choose_text({"en": "Income", "de": "Einkommen"}, "de"), choose_text("Income", "de"), choose_text({}, "de")
    ('Einkommen', 'Income', None)
    """
    return text if text is None or isinstance(text, str) else text.get(language)


@dataclass(frozen=True, slots=True)
class FeatureText:
    """How people know a feature; None where nothing is said.

    ``values`` has a text per value, as that is written. ``complete``: every whole number that the feature can be has
    one, so that a bound is told as the texts that it admits; a space finds that out.
    """

    label: LocalText | None = None
    unit: LocalText | None = None
    number_format: NumberFormat | None = None
    values: Mapping[str, LocalText] = field(default_factory=dict)
    decimals: int | None = None
    complete: bool = False

    @classmethod
    def from_dict(cls, name: str, entry: Any) -> FeatureText:
        """The text in plain data, or the label alone; raises InputError, naming the feature, if it is none."""
        if isinstance(entry, FeatureText):
            return entry
        if isinstance(entry, str) or _is_local(entry):
            entry = {"label": entry}
        if not isinstance(entry, Mapping) or not set(entry) <= set(FEATURE_TEXT_KEYS):
            expected = f"the texts of feature {name!r} may have {', '.join(FEATURE_TEXT_KEYS[:-1])}"
            raise InputError(expected=expected, got=describe_value(entry))
        values = entry.get("values", {})
        if not isinstance(values, Mapping):
            raise InputError(
                expected=f"values of feature {name!r} must be a table of texts", got=describe_value(values)
            )
        values = {write_key(value): text for value, text in values.items()}
        texts = [entry[key] for key in ("label", "unit") if key in entry]
        for text in (*texts, *values.values()):
            _check_text(f"a text of feature {name!r}", text)
        number_format, decimals = entry.get("format"), entry.get("decimals")
        if number_format not in (None, *NUMBER_FORMATS):
            expected = f"format of feature {name!r} must be one of {', '.join(NUMBER_FORMATS)}"
            raise InputError(expected=expected, got=describe_value(number_format))
        if decimals is not None and not (type(decimals) is int and 0 <= decimals <= MAX_DECIMALS):
            expected = f"decimals of feature {name!r} must be a whole number from 0 to {MAX_DECIMALS}"
            raise InputError(expected=expected, got=describe_value(decimals))
        return cls(
            label=entry.get("label"),
            unit=entry.get("unit"),
            number_format=number_format,
            values=values,
            decimals=decimals,
            complete=entry.get("complete") is True,
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        entries = {
            "label": self.label,
            "unit": self.unit,
            "format": self.number_format,
            "decimals": self.decimals,
            "values": dict(self.values) or None,
            "complete": self.complete or None,
        }
        return {key: entry for key, entry in entries.items() if entry is not None}

    def find_value(self, value: Value) -> LocalText | None:
        """The text of a value, by how the value is written."""
        return self.values.get(write_key(value)) if self.values else None


def write_key(value: Value) -> str:
    """How a value is written where a text is given for it.

    >>> [write_key(value) for value in ("A11", 3.0, True, None)]
    ['A11', '3', 'True', 'missing']
    """
    return format_value(value, "unquoted") if not isinstance(value, str) else value


def _is_local(entry: Any) -> bool:
    """Whether this is a text per language: its keys are none of those that a feature's texts have."""
    is_texts = isinstance(entry, Mapping) and bool(entry) and all(isinstance(text, str) for text in entry.values())
    return (
        is_texts and not set(entry) & set(FEATURE_TEXT_KEYS) and all(LANGUAGE_CODE.fullmatch(str(key)) for key in entry)
    )


def _check_text(what: str, text: Any) -> None:
    each = list(text.values()) if isinstance(text, Mapping) else [text]
    if not each or not all(isinstance(one, str) and one for one in each):
        expected = f"{what} must be a string, or a table with one string per language"
        raise InputError(expected=expected, got=describe_value(text))


NO_TEXT = FeatureText()


@dataclass(frozen=True, slots=True, repr=False)
class Labels:
    """How people know the features, values and outcomes of a model; nothing that is claimed depends on it.

    ``features`` has the texts per feature, ``outcomes`` those of classes (as they are written), and of ``"desired"``
    and ``"undesired"``. ``language`` says which texts are shown; where one has no text in it, another is taken, English
    first. ``signs`` are those of numbers, where they are not those of the language.

    >>> labels = Labels.from_dict({"job": {"label": "Job", "values": {"A1": "cook"}}, "outcomes": {"0": "denied"}})
    >>> labels.get_label("job"), labels.get_value_text("job", "A1"), labels.get_outcome("0")
    ('Job', 'cook', 'denied')
    """

    features: Mapping[str, FeatureText] = field(default_factory=dict)
    outcomes: Mapping[str, LocalText] = field(default_factory=dict)
    language: str = DEFAULT_LANGUAGE
    signs: NumberSigns | None = None

    @classmethod
    def read(cls, path: str | Path) -> Labels:
        """The labels in a TOML file."""
        return cls.from_dict(read_toml(path, "file of labels"))

    @classmethod
    def from_dict(cls, document: Any) -> Labels:
        """The labels in plain data, as :meth:`to_dict` or a file has them; raises InputError if these are none."""
        if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
            expected = "labels must be a mapping from the names of features to texts"
            raise InputError(expected=expected, got=describe_value(document))
        outcomes, language = document.get("outcomes", {}), document.get("language", DEFAULT_LANGUAGE)
        if not isinstance(outcomes, Mapping):
            raise InputError(expected="outcomes of labels must be a table of texts", got=describe_value(outcomes))
        for text in outcomes.values():
            _check_text("a text of an outcome", text)
        if not isinstance(language, str) or not language:
            expected = 'the language of labels must be a code such as "en"'
            raise InputError(expected=expected, got=describe_value(language))
        listed = document.get("features", {})
        if not isinstance(listed, Mapping):
            raise InputError(expected="features of labels must be a table of texts", got=describe_value(listed))
        features = {**{key: entry for key, entry in document.items() if key not in RESERVED_KEYS}, **listed}
        return cls(
            {name: FeatureText.from_dict(name, entry) for name, entry in features.items()},
            {write_key(name): text for name, text in outcomes.items()},
            language,
            _parse_signs(document.get("numbers")),
        )

    @classmethod
    def parse(cls, given: Labels | Mapping[str, Any] | str | Path | None) -> Labels:
        """Labels, the same as plain data, or the path of a file; none for None."""
        if given is None:
            return NO_LABELS
        if isinstance(given, (str, Path)):
            return cls.read(given)
        return given if isinstance(given, Labels) else cls.from_dict(given)

    def to_dict(self) -> dict[str, Any]:
        """The labels as plain data."""
        document: dict[str, Any] = {"language": self.language}
        document["features"] = {name: text.to_dict() for name, text in self.features.items()}
        if self.outcomes:
            document["outcomes"] = dict(self.outcomes)
        if self.signs is not None:
            document["numbers"] = self.signs._asdict()
        return document

    def __bool__(self) -> bool:
        """Whether anything has a label."""
        return bool(self.features or self.outcomes)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that some text is given in."""
        texts = [*self.outcomes.values()]
        for entry in self.features.values():
            texts += [*entry.values.values(), *(text for text in (entry.label, entry.unit) if text is not None)]
        return tuple(sorted({language for text in texts if not isinstance(text, str) for language in text}))

    def with_language(self, language: str) -> Labels:
        """The same labels, shown in another language; raises InputError if nothing is known of that language."""
        known = sorted({*self.languages, *NUMBER_SIGNS})
        if self.languages and language not in known:
            raise InputError(
                expected=f"the language of labels must be one of {', '.join(known)}",
                got=describe_value(language),
                hint=_build_hint(language, known, "languages"),
            )
        return replace(self, language=language)

    def extend(self, other: Labels) -> Labels:
        """These labels, with others for what they say nothing about."""
        signs = other.signs if self.signs is None else self.signs
        return Labels({**other.features, **self.features}, {**other.outcomes, **self.outcomes}, self.language, signs)

    def choose(self, text: LocalText | None) -> str | None:
        """A text in the language of the labels; where it has none, in English or another one."""
        if text is None or isinstance(text, str):
            return text
        chosen = text.get(self.language) or text.get(DEFAULT_LANGUAGE)
        return chosen or next(iter(text.values()), None)

    def get_label(self, feature: str) -> str | None:
        """What the feature is called, where it has a label."""
        return self.choose(self.features.get(feature, NO_TEXT).label)

    def get_unit(self, feature: str) -> str | None:
        """The unit of a feature's numbers, where it has one."""
        return self.choose(self.features.get(feature, NO_TEXT).unit)

    def get_value_text(self, feature: str, value: Value) -> str | None:
        """What a value is called, where it has a text of its own."""
        return self.choose(self.features.get(feature, NO_TEXT).find_value(value))

    def list_value_texts(self, feature: str, low: Value, high: Value) -> list[str] | None:
        """The texts of all values from one to another, None being no limit; None where not all have texts."""
        text = self.features.get(feature, NO_TEXT)
        if not text.complete:
            return None
        numbers = sorted(int(key) for key in text.values if key != MISSING_KEY)
        first, last = numbers[0] if low is None else low, numbers[-1] if high is None else high
        return [self.get_value_text(feature, number) or "" for number in numbers if first <= number <= last]

    def mark_complete(self, whole_numbers: Mapping[str, tuple[int, int]]) -> Labels:
        """The same labels, told from where to where features of whole numbers go."""
        features = {}
        for name, text in self.features.items():
            low, high = whole_numbers.get(name, (1, 0))
            every = high - low < len(text.values) and all(str(number) in text.values for number in range(low, high + 1))
            features[name] = replace(text, complete=low <= high and every)
        return replace(self, features=features)

    def get_outcome(self, name: str, role: str | None = None) -> str | None:
        """What an outcome is called: a class by its name, quoted or not, else by its role, desired or undesired."""
        quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "'\""
        text = self.outcomes.get(name[1:-1] if quoted else name)
        return self.choose(self.outcomes.get(role or "") if text is None else text)

    def get_desired(self, classes: Sequence[Value] | None, undesired: str | None = None) -> str | None:
        """What the desired outcome is called: by its role, or by its classes, all of which must have a text. Classes
        that nobody named are known from the undesired one: beside 0 it is 1, beside False it is True.
        """
        own = self.choose(self.outcomes.get(DESIRED))
        classes = classes or DESIRED_BESIDE.get(undesired or "")
        if own is not None or not classes:
            return own
        texts = [self.choose(self.outcomes.get(write_key(one))) for one in classes]
        return " or ".join(text for text in texts if text) if all(texts) else None

    def get_undesired(self, name: str) -> str | None:
        """What the undesired outcome is called, whose name is that of a rule's outcome."""
        own = self.choose(self.outcomes.get(UNDESIRED))
        if own is not None:
            return own
        if name.startswith("not "):
            text = self.get_outcome(name.removeprefix("not "))
            return None if text is None else f"not {text}"
        return self.get_outcome(name)

    def format_number(self, feature: str, number: int | float) -> str:
        """A number as the labels say, without its unit but for a percentage.

        >>> labels = Labels.from_dict({"x": {"format": "grouped", "decimals": 2}, "share": {"format": "percent"}})
        >>> labels.format_number("x", 1250.5), labels.format_number("x", 0.125), labels.format_number("share", 0.285)
        ('1,250.50', '0.125', '28.5%')
        """
        own, signs = self.features.get(feature, NO_TEXT), self.get_signs()
        exact = Decimal(str(number))
        if not exact.is_finite() or not (number == 0 or SHORTEST_NUMBER <= abs(number) < LONGEST_NUMBER):
            return format_value(number)
        if own.number_format == "percent":
            exact *= 100
        least = own.decimals or 0
        digits = f"{exact:f}"
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        missing = least - len(digits.partition(".")[2])
        if least and missing > 0:
            digits += ("" if "." in digits else ".") + "0" * missing
        text = group_digits(
            "0" if digits == "-0" else digits,
            signs.decimal,
            signs.thousands,
            own.number_format in ("grouped", "currency"),
        )
        return signs.percent.replace("{number}", text) if own.number_format == "percent" else text

    def add_unit(self, feature: str, text: str) -> str:
        """A number's text with its unit: after it, but a sign of a currency before it in English."""
        unit = self.get_unit(feature)
        if not unit or self.features.get(feature, NO_TEXT).number_format == "percent":
            return text
        if unit == "%":
            return self.get_signs().percent.replace("{number}", text)
        if unit in CURRENCY_SIGNS and self.language == DEFAULT_LANGUAGE:
            return f"-{unit}{text[1:]}" if text.startswith("-") else f"{unit}{text}"
        return f"{text} {escape_controls(unit)}"

    def get_signs(self) -> NumberSigns:
        """How numbers are written."""
        return self.signs or NUMBER_SIGNS.get(self.language.partition("-")[0], NUMBER_SIGNS[DEFAULT_LANGUAGE])

    def check_names(self, features: Iterable[str]) -> None:
        """Raise SpaceError, naming the nearest one, for a feature that is not there."""
        known = [*features]
        for name in self.features:
            if name not in known:
                hint = _build_hint(name, known, "features")
                raise SpaceError(f"unknown feature {name!r} in the labels", hint=hint, code="unknown-feature")

    def check_features(self, features: Iterable[Feature]) -> None:
        """Raise SpaceError, naming the nearest one, for a feature or a value that is not there."""
        known = {feature.name: feature for feature in features}
        self.check_names(known)
        for name, text in self.features.items():
            for value in text.values:
                _check_value(known[name], value)

    def check_outcomes(self, classes: Sequence[Value] | None) -> None:
        """Raise OutcomeError for an outcome that is no class, where the classes are known."""
        if classes is None:
            return
        known = [*map(write_key, classes), DESIRED, UNDESIRED]
        for name in self.outcomes:
            if name not in known:
                hint = _build_hint(name, known, "outcomes")
                raise OutcomeError(f"unknown outcome {name!r} in the labels", hint=hint, code="unknown-outcome")

    def __str__(self) -> str:
        """A line per feature, value and outcome, in the language of the labels."""
        lines = []
        for name, text in self.features.items():
            unit = self.get_unit(name)
            lines.append(f"{name}: {self.get_label(name) or name}" + (f" ({unit})" if unit else ""))
            lines += [f"    {value}: {self.choose(one)}" for value, one in text.values.items()]
        lines += [f"outcome {name}: {self.choose(text)}" for name, text in self.outcomes.items()]
        return join_lines(lines) or "no labels"

    def _repr_html_(self) -> str:
        return render_text(self)

    def __repr__(self) -> str:
        values = sum(len(text.values) for text in self.features.values())
        counts = ((len(self.features), "feature"), (values, "value"), (len(self.outcomes), "outcome"))
        return f"<Labels: {', '.join(format_count(*one) for one in counts)}; language {self.language!r}>"


NO_LABELS = Labels()


def _check_value(feature: Feature, name: str) -> None:
    known = {write_key(value) for value in feature.values} | {MISSING_KEY}
    if name in known or (feature.numeric and _is_between(feature, name)):
        return
    statement = f"unknown value {name!r} of feature {feature.name!r} in the labels"
    hint = _build_hint(name, sorted(known - {MISSING_KEY}), "values")
    raise SpaceError(statement, hint=hint, code="unknown-value")


def _is_between(feature: Feature, text: str) -> bool:
    """Whether this is a number that an interval may take."""
    try:
        number = float(text)
    except ValueError:
        return False
    return (
        feature.can_be_interval and feature.interval is not False and feature.values[0] <= number <= feature.values[-1]
    )


def _build_hint(name: str, known: Iterable[str], what: str) -> str:
    names = [*known]
    lower = {one.lower(): one for one in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[close[0]]!r}?" if close else f"the {what} are {format_names(names, 12)}"


def _parse_signs(entry: Any) -> NumberSigns | None:
    if entry is None:
        return None
    is_texts = isinstance(entry, Mapping) and all(isinstance(one, str) for one in entry.values())
    if not is_texts or not set(entry) <= set(NumberSigns._fields) or "{number}" not in entry.get("percent", "{number}"):
        expected = 'numbers of labels may have decimal, thousands and percent, such as "{number} %"'
        raise InputError(expected=expected, got=describe_value(entry))
    return NumberSigns(**entry)

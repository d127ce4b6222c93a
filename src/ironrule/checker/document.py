"""The document of an explanation: which fields it has, what each may hold, and its digest.

A document of another form is refused as a whole (InputError): further or other fields would
go unchecked. Values of features stay JSON data here; what they mean depends on the space.

The digest is the SHA-256 of the document's canonical JSON without the digest itself: it tells that a document was
modified after it was written. It is no signature: a forger can write a new digest. Nothing that is checked
rests on it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from ironrule.errors import InputError, build_format_error

if TYPE_CHECKING:
    from ironrule.checker.changes.document import ChangeDocument
    from ironrule.checker.ladder_document import LadderDocument

FORMAT = 5
CERTIFICATE_FORMAT = 2
NO_SPLIT = -1  # in a cover's tree: a piece that is not split further
INTEGER_LIMIT = 2**64
MAX_FRACTION_LENGTH = 200  # characters of a weight such as "3/10"
JsonObject = Mapping[str, Any]
SplitRange = tuple[int, int]
Parser = Callable[[Any], Any]  # what a part of the document means; raises TypeError or ValueError if it is malformed
Parsers = dict[str, Parser]  # of fields, by name
MALFORMED = (TypeError, ValueError, LookupError, OverflowError, RecursionError, AttributeError)  # what parsers raise


@dataclass(frozen=True, slots=True)
class CoverClaim:
    """How a box is split into pieces: the distinct splits (a feature and ranges of codes), and the tree of splits."""

    splits: tuple[tuple[int, tuple[SplitRange, ...]], ...]
    tree: tuple[int, ...]

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return len(self.tree) // 2 + 1


@dataclass(frozen=True, slots=True)
class CertificateClaim:
    """A claimed proof that a box, given by the first and last code of every feature, holds no desired point."""

    kind: ClassVar[Literal["proven"]] = "proven"
    method: Literal["cover", "enumeration"]
    points: int
    space: str
    model: str
    low: tuple[int, ...]
    high: tuple[int, ...]
    covers: tuple[CoverClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class ExceptionClaim:
    """A claimed exception to a rule."""

    kind: ClassVar[Literal["refuted"]] = "refuted"
    counterfactual: JsonObject


@dataclass(frozen=True, slots=True)
class SearchClaim:
    """A claimed search that found no exception."""

    kind: ClassVar[Literal["unrefuted"]] = "unrefuted"
    tried: int
    samples: int
    confidence: float
    bound: float
    explored: float = 0.0


@dataclass(frozen=True, slots=True)
class RuleClaim:
    """A rule with what is claimed of it."""

    components: tuple[JsonObject, ...]
    outcome: str
    verdict: CertificateClaim | ExceptionClaim | SearchClaim
    coverage: int


@dataclass(frozen=True, slots=True)
class DecisionClaim:
    """What counts as desired: classes as plain data, the threshold and the side of it that is desired, and the margin
    by which scores may move.
    """

    desired: tuple[Any, ...] | None
    threshold: float | None
    margin: float
    direction: Literal["above", "below"] = "above"


@dataclass(frozen=True, slots=True)
class RestrictionsClaim:
    """Which components a rule had to use and which it must not, and what components weigh."""

    require: tuple[str, ...]
    forbid: tuple[str, ...]
    weights: Mapping[str, Fraction] | Literal["paper"] | None


@dataclass(frozen=True, slots=True)
class ChangesClaim:
    """Changes that are suggested to the person, what is claimed of them, and what limits them."""

    counterfactuals: tuple[JsonObject, ...]
    proven: bool
    complete: bool
    limits: Mapping[str, JsonObject]
    resolution: float = 0.0  # by what share of its range a number may have been rounded
    cost: JsonObject | None = None  # where it is not the usual one
    constraints: tuple[str, ...] = ()  # on changes, which were respected too


@dataclass(frozen=True, slots=True)
class ExplanationDocument:
    """An explanation as its document has it."""

    kind: ClassVar[Literal["explanation"]] = "explanation"
    instance: JsonObject
    rules: tuple[RuleClaim, ...]
    wider: RuleClaim | None
    wider_is_maximal: bool
    wider_witnesses: tuple[tuple[int, ...], ...]
    counterfactuals: tuple[JsonObject, ...]
    history_rows: int
    space: str
    weight: Fraction
    lower_bound: Fraction
    unreadable_reason: str | None
    model: str
    decision: DecisionClaim
    restrictions: RestrictionsClaim
    witnesses: tuple[tuple[int, ...], ...]
    undecided_components: tuple[int, ...]
    model_count: int
    digest: str
    data: JsonObject
    constraints: tuple[str, ...] | None = None  # None where the document names none
    breakpoints: Mapping[str, tuple[Any, ...]] | None = None  # None where the claims are about values seen
    rounded: JsonObject | None = None  # the wider rule with rounded bounds
    extended_values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # added to domains, for new rows
    domains: JsonObject | None = None  # what every feature is said to take
    marks: tuple[JsonObject, ...] = ()
    changes: ChangesClaim | None = None


CHANGE_FORMATS = {"counterfactuals_format", "region_format", "menu_format", "infeasibility_format"}


def parse_document(given: Any) -> ExplanationDocument | LadderDocument | ChangeDocument:
    """The document in a result of any kind, its plain data or its JSON; raises InputError if it is malformed."""
    try:
        data = _load_json(given)
    except MALFORMED as error:
        raise InputError(f"malformed explanation: {error}") from None
    if isinstance(data, dict) and data.keys() & CHANGE_FORMATS:
        from ironrule.checker.changes.document import parse_change_document

        return parse_change_document(data)
    if not isinstance(data, dict) or "ladder_format" not in data:
        return parse_explanation(data)
    from ironrule.checker.ladder_document import parse_ladder

    return parse_ladder(data)


def parse_explanation(data: Any) -> ExplanationDocument:
    """The explanation in JSON data; raises InputError if it is malformed."""
    try:
        if isinstance(data, dict) and repr(data.get("format")) == str(FORMAT):
            fields = _parse_document(data)
            if not fields["rules"]:
                raise ValueError("expected at least one rule, got none")
            return ExplanationDocument(data=data, **fields)
    except MALFORMED as error:
        raise InputError(f"malformed explanation: {error}") from None
    got, remedy = data.get("format") if isinstance(data, dict) else data, "explain the row again"
    raise build_format_error("an explanation", FORMAT, got if isinstance(got, int) else shorten_value(got), remedy)


def _load_json(given: Any) -> Any:
    """What JSON says, each name once, every number finite."""
    data = given.to_dict() if hasattr(given, "to_dict") else given
    text = data if isinstance(data, (str, bytes)) else json.dumps(data, allow_nan=False)
    checks: dict[str, Any] = {"parse_constant": _raise_not_finite, "parse_float": _parse_finite}
    return json.loads(text, object_pairs_hook=_build_object, **checks)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("an object has two fields of the same name")
    return data


def _raise_not_finite(name: str) -> NoReturn:
    raise ValueError(f"expected a finite number, got {name}")


def _parse_finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _raise_not_finite(text[:20])


def parse_text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {shorten_value(value)}")
    return value


def parse_integer(value: Any) -> int:
    """An integer of at most 64 bits; true is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not -INTEGER_LIMIT < value < INTEGER_LIMIT:
        raise TypeError(f"expected an integer, got {shorten_value(value)}")
    return value


def parse_count(value: Any) -> int:
    """An integer that is not negative."""
    if parse_integer(value) < 0:
        raise ValueError(f"a count must not be negative, got {value}")
    return int(value)


def parse_number(value: Any) -> Any:
    """A finite number and nothing that only looks like one."""
    if not isinstance(value, float) or not math.isfinite(value):
        return parse_integer(value)
    return value


def parse_value(value: Any) -> Any:
    """A feature's value or a class: null, true, false, a number, a string, or a date as {"date": ...}."""
    if isinstance(value, dict) and set(value) == {"date"}:
        parse_text(value["date"])
    elif not (value is None or isinstance(value, (bool, str))):
        parse_number(value)
    return value


def parse_weight(value: Any) -> Fraction:
    """A weight as an exact fraction: a number means the decimal that is written, a string is "p/q"; raises TypeError.

    >>> parse_weight(0.1) + parse_weight("1/5"), parse_weight(2.0)
    (Fraction(3, 10), Fraction(2, 1))
    """
    if isinstance(value, str):
        parts = value.split("/")
        if len(value) > MAX_FRACTION_LENGTH or len(parts) != 2 or not all(p.isascii() and p.isdigit() for p in parts):
            raise TypeError(f'expected a weight such as 2 or "3/10", got {shorten_value(value)}')
        return Fraction(int(parts[0]), int(parts[1]) or _raise_not_finite("a fraction over 0"))
    return Fraction(str(parse_number(value)))


def shorten_value(value: Any) -> str:
    """A value for a message, cut where it is long."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of length {len(value)}"
    if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        return "a number of more than 64 bits"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def one_of(what: str, *choices: Any) -> Parser:
    """One of some values; true is not 1."""

    def parse(value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise ValueError(f"{what} must be {' or '.join(map(str, choices))}, got {shorten_value(value)}")
        return value

    return parse


def optional(parse: Parser) -> Parser:
    """What a parser parses, or null."""
    return lambda value: None if value is None else parse(value)


def list_of(parse: Parser) -> Parser:
    """A list of any length."""

    def parse_list(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise TypeError(f"expected a list, got {shorten_value(data)}")
        return tuple(map(parse, data))

    return parse_list


def _tuple_of(*parsers: Parser) -> Parser:
    """A list with as many parts as there are parsers."""

    def parse_tuple(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, list) or len(data) != len(parsers):
            raise TypeError(f"expected a list of length {len(parsers)}, got {shorten_value(data)}")
        return tuple(parse(part) for parse, part in zip(parsers, data, strict=True))

    return parse_tuple


def require_object(data: Any) -> dict[str, Any]:
    """A JSON object, whatever is in it."""
    if not isinstance(data, dict):
        raise TypeError(f"expected a JSON object, got {shorten_value(data)}")
    return data


def object_of(parse: Parser) -> Parser:
    """An object with fields of any names."""
    return lambda data: {name: parse(value) for name, value in require_object(data).items()}


def _parse_local_text(data: Any) -> Any:
    """A text, or one per language."""
    return parse_text(data) if isinstance(data, str) else object_of(parse_text)(data)


def record_of(
    build: Callable[..., Any], fields: Parsers, options: Parsers | None = None, checked_only: Sequence[str] = ()
) -> Parser:
    """An object with exactly these fields, and of the optional ones any; ``build`` gets what they mean, by name, but
    for fields that only have to be well formed.
    """
    every = fields | (options or {})

    def parse_record(data: Any) -> Any:
        names = require_object(data).keys()
        odd = sorted(names - every.keys() | fields.keys() - names)
        if odd:
            raise ValueError(f"{'missing' if odd[0] in fields else 'unknown'} field {shorten_value(odd[0])}")
        parsed = {name: every[name](value) for name, value in data.items()}
        return build(**{name: value for name, value in parsed.items() if name not in checked_only})

    return parse_record


def variant_of(what: str, name: str, parsers: Parsers) -> Parser:
    """An object of several kinds; one of its fields tells which."""

    def parse_variant(data: Any) -> Any:
        kind = require_object(data).get(name)
        if kind not in tuple(parsers):
            raise ValueError(f"{what} must be {' or '.join(parsers)}, got {shorten_value(kind)}")
        return parsers[kind](data)

    return parse_variant


# What a document may hold, from the inside out.
_parse_point = list_of(parse_integer)
_parse_names = list_of(parse_text)
parse_counterfactual = record_of(dict, {
    "values": object_of(parse_value),
    "changes": list_of(record_of(dict, {"feature": parse_text, "before": parse_value, "after": parse_value})),
}, {"exact": object_of(parse_value)})  # fmt: skip
parse_component = record_of(dict, {
    "feature": parse_text, "op": one_of("the op of a component", "<=", ">=", "=="), "value": parse_value,
}, {
    "column": parse_text, "one_hot_columns": list_of(_tuple_of(parse_text, parse_count)),
    "allowed": list_of(parse_value),
})  # fmt: skip
_parse_cover = record_of(CoverClaim, {
    "splits": list_of(_tuple_of(parse_integer, list_of(_tuple_of(parse_integer, parse_integer)))),
    "tree": _parse_point,
})  # fmt: skip
_CERTIFICATE_FIELDS = {
    "format": one_of("the format of a certificate", CERTIFICATE_FORMAT), "method": parse_text, "space": parse_text,
    "model": parse_text, "low": _parse_point, "high": _parse_point, "covers": list_of(_parse_cover),
}  # fmt: skip
_parse_certificate = variant_of("the method of a certificate", "method", {
    "cover": record_of(
        lambda pieces, **fields: CertificateClaim(points=pieces, **fields),
        _CERTIFICATE_FIELDS | {"pieces": parse_integer}, checked_only=("format",),
    ),
    "enumeration": record_of(
        CertificateClaim, _CERTIFICATE_FIELDS | {"points": parse_integer}, checked_only=("format",),
    ),
})  # fmt: skip
parse_verdict = variant_of("a verdict", "kind", {
    "proven": record_of(lambda certificate: certificate, {
        "kind": parse_text, "certificate": _parse_certificate,
    }, checked_only=("kind",)),
    "refuted": record_of(ExceptionClaim, {
        "kind": parse_text, "counterfactual": parse_counterfactual,
    }, checked_only=("kind",)),
    "unrefuted": record_of(lambda exception_bound, **fields: SearchClaim(bound=exception_bound, **fields), {
        "kind": parse_text, "tried": parse_count, "samples": parse_count, "confidence": parse_number,
        "exception_bound": parse_number,
    }, {"explored": parse_number}, checked_only=("kind",)),
})  # fmt: skip
parse_plain_rule = record_of(dict, {"components": list_of(parse_component), "outcome": parse_text})
_parse_rule = record_of(lambda rule, **fields: RuleClaim(**rule, **fields), {
    "rule": parse_plain_rule, "verdict": parse_verdict, "coverage": parse_count,
})  # fmt: skip
parse_statistics = record_of(dict, {
    "algorithm": parse_text, "seconds": parse_number, "operator_seconds": object_of(parse_number),
    "stopped": one_of("stopped", None, "budget", "interrupted"), "seed": parse_count, "generations": parse_count,
    "candidates": parse_count, "oracle_calls": parse_count, "model_calls": parse_count, "evaluations": parse_count,
}, {
    "stopped_by": one_of("stopped_by", None, "finished", "work", "seconds", "evaluations", "interrupted"),
    "budget_seconds": optional(parse_number), "budget_evaluations": optional(parse_count),
    "compile_seconds": parse_number,
})  # fmt: skip
parse_domain = record_of(dict, {
    "kind": one_of("the kind of a domain", "interval", "integers", "seen", "list"),
    "missing": one_of("missing", True, False),
}, {"low": parse_value, "high": parse_value, "count": parse_count, "values": list_of(parse_value)})  # fmt: skip
parse_labels = record_of(dict, {
    "language": parse_text, "features": object_of(record_of(dict, {}, {
        "label": _parse_local_text, "unit": _parse_local_text, "format": parse_text, "decimals": parse_count,
        "values": object_of(_parse_local_text), "complete": one_of("complete", True),
    })),
}, {"outcomes": object_of(_parse_local_text), "numbers": object_of(parse_text)})  # fmt: skip
_parse_document = record_of(dict, {
    "format": parse_integer,
    "instance": object_of(parse_value),
    "rules": list_of(_parse_rule),
    "wider": optional(_parse_rule),
    "wider_is_maximal": one_of("wider_is_maximal", True, False),
    "wider_witnesses": list_of(_parse_point),
    "counterfactuals": list_of(parse_counterfactual),
    "statistics": parse_statistics,
    "history_rows": parse_count,
    "space": parse_text,
    "weight": parse_weight,
    "lower_bound": parse_weight,
    "unreadable_reason": optional(parse_text),
    "model": parse_text,
    "decision": record_of(DecisionClaim, {
        "desired": optional(list_of(parse_value)), "threshold": optional(parse_number), "margin": parse_number,
    }, {"direction": one_of("direction", "above", "below")}),
    "restrictions": record_of(RestrictionsClaim, {
        "require": _parse_names, "forbid": _parse_names,
        "weights": lambda given: given if given in (None, "paper") else object_of(parse_weight)(given),
    }),
    "witnesses": list_of(_parse_point),
    "undecided_components": list_of(parse_count),
    "model_count": parse_count,
    "digest": parse_text,
}, {
    "constraints": _parse_names,
    "breakpoints": object_of(list_of(parse_number)),
    "rounded": parse_plain_rule,
    "extended_values": object_of(list_of(parse_value)),
    "domains": object_of(parse_domain),
    "prefer": one_of("prefer", "length", "coverage"),
    "preference": record_of(dict, {
        "shortest": parse_weight, "is_complete": one_of("is_complete", True, False), "compared": parse_count,
    }),
    "covers_only_instance": one_of("covers_only_instance", True, False),
    "confirmed_by_model": one_of("confirmed_by_model", True, False),
    "marks": list_of(record_of(dict, {
        "component": parse_count, "reason": one_of("the reason of a mark", "protected", "against direction"),
        "declared": one_of("declared", True, False),
    })),
    "changes": record_of(ChangesClaim, {
        "counterfactuals": list_of(parse_counterfactual), "proven": one_of("proven", True, False),
        "complete": one_of("complete", True, False),
        "limits": object_of(record_of(dict, {"moves": _parse_names, "reason": parse_text})),
    }, {"resolution": parse_number, "cost": require_object, "constraints": _parse_names}),
    "labels": parse_labels,
}, checked_only=("format", "labels",
    "statistics", "prefer", "preference", "covers_only_instance", "confirmed_by_model"))  # fmt: skip


def compute_digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of a document's canonical JSON: all fields but the digest.

    >>> compute_digest({"a": 1.0, "digest": "?"}) == compute_digest({"a": 1})
    True
    """
    rest = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(to_canonical_json(rest).encode("ascii")).hexdigest()


def to_canonical_json(value: Any) -> str:
    """Plain data as canonical JSON, equal for what means the same and for nothing else: names in order, no spaces,
    ASCII alone, whole numbers without a decimal point.

    >>> to_canonical_json({"b": 2.0, "a": [True, None]})
    '{"a":[true,null],"b":2}'
    """
    return json.dumps(_normalize_numbers(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _normalize_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normalize_numbers(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return value if set(map(type, value)) <= {int} else [_normalize_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

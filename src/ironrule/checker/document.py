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
from typing import Any, ClassVar, Literal, NoReturn

from ironrule.errors import InputError, build_format_error

FORMAT = 5
CERTIFICATE_FORMAT = 2
NO_SPLIT = -1  # in a cover's tree: a piece that is not split further
INTEGER_LIMIT = 2**64
MAX_FRACTION_LENGTH = 200  # characters of a weight such as "3/10"
JsonObject = Mapping[str, Any]
SplitRange = tuple[int, int]
Parser = Callable[[Any], Any]  # what a part of the document means; raises TypeError or ValueError if it is malformed
Parsers = dict[str, Parser]  # of fields, by name


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


@dataclass(frozen=True, slots=True)
class ExplanationDocument:
    """An explanation as its document has it."""

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


def parse_document(given: Any) -> ExplanationDocument:
    """The document in an explanation, its plain data or its JSON; raises InputError if it is malformed."""
    try:
        data = _load_json(given)
        if isinstance(data, dict) and repr(data.get("format")) == str(FORMAT):
            fields = _parse_document(data)
            if not fields["rules"]:
                raise ValueError("expected at least one rule, got none")
            return ExplanationDocument(data=data, **fields)
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise InputError(f"malformed explanation: {error}") from None
    got, remedy = data.get("format") if isinstance(data, dict) else data, "explain the row again"
    raise build_format_error("an explanation", FORMAT, got if isinstance(got, int) else _shorten(got), remedy)


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


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {_shorten(value)}")
    return value


def _parse_integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -INTEGER_LIMIT < value < INTEGER_LIMIT:
        raise TypeError(f"expected an integer, got {_shorten(value)}")
    return value


def _parse_count(value: Any) -> int:
    if _parse_integer(value) < 0:
        raise ValueError(f"a count must not be negative, got {value}")
    return int(value)


def _parse_number(value: Any) -> Any:
    """A finite number and nothing that only looks like one."""
    if not isinstance(value, float) or not math.isfinite(value):
        return _parse_integer(value)
    return value


def _parse_value(value: Any) -> Any:
    """A feature's value or a class: null, true, false, a number, a string, or a date as {"date": ...}."""
    if isinstance(value, dict) and set(value) == {"date"}:
        _parse_text(value["date"])
    elif not (value is None or isinstance(value, (bool, str))):
        _parse_number(value)
    return value


def parse_weight(value: Any) -> Fraction:
    """A weight as an exact fraction: a number means the decimal that is written, a string is "p/q"; raises TypeError.

    >>> parse_weight(0.1) + parse_weight("1/5"), parse_weight(2.0)
    (Fraction(3, 10), Fraction(2, 1))
    """
    if isinstance(value, str):
        parts = value.split("/")
        if len(value) > MAX_FRACTION_LENGTH or len(parts) != 2 or not all(p.isascii() and p.isdigit() for p in parts):
            raise TypeError(f'expected a weight such as 2 or "3/10", got {_shorten(value)}')
        return Fraction(int(parts[0]), int(parts[1]) or _raise_not_finite("a fraction over 0"))
    return Fraction(str(_parse_number(value)))


def _shorten(value: Any) -> str:
    """A value for a message, cut where it is long."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of length {len(value)}"
    if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        return "a number of more than 64 bits"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _one_of(what: str, *choices: Any) -> Parser:
    """One of some values; true is not 1."""

    def parse(value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise ValueError(f"{what} must be {' or '.join(map(str, choices))}, got {_shorten(value)}")
        return value

    return parse


def _optional(parse: Parser) -> Parser:
    """What a parser parses, or null."""
    return lambda value: None if value is None else parse(value)


def _list_of(parse: Parser) -> Parser:
    """A list of any length."""

    def parse_list(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise TypeError(f"expected a list, got {_shorten(data)}")
        return tuple(map(parse, data))

    return parse_list


def _tuple_of(*parsers: Parser) -> Parser:
    """A list with as many parts as there are parsers."""

    def parse_tuple(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, list) or len(data) != len(parsers):
            raise TypeError(f"expected a list of length {len(parsers)}, got {_shorten(data)}")
        return tuple(parse(part) for parse, part in zip(parsers, data, strict=True))

    return parse_tuple


def _require_object(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TypeError(f"expected a JSON object, got {_shorten(data)}")
    return data


def _object_of(parse: Parser) -> Parser:
    """An object with fields of any names."""
    return lambda data: {name: parse(value) for name, value in _require_object(data).items()}


def _record(
    build: Callable[..., Any], fields: Parsers, options: Parsers | None = None, checked_only: Sequence[str] = ()
) -> Parser:
    """An object with exactly these fields, and of the optional ones any; ``build`` gets what they mean, by name, but
    for fields that only have to be well formed.
    """
    every = fields | (options or {})

    def parse_record(data: Any) -> Any:
        names = _require_object(data).keys()
        odd = sorted(names - every.keys() | fields.keys() - names)
        if odd:
            raise ValueError(f"{'missing' if odd[0] in fields else 'unknown'} field {_shorten(odd[0])}")
        parsed = {name: every[name](value) for name, value in data.items()}
        return build(**{name: value for name, value in parsed.items() if name not in checked_only})

    return parse_record


def _variant(what: str, name: str, parsers: Parsers) -> Parser:
    """An object of several kinds; one of its fields tells which."""

    def parse_variant(data: Any) -> Any:
        kind = _require_object(data).get(name)
        if kind not in tuple(parsers):
            raise ValueError(f"{what} must be {' or '.join(parsers)}, got {_shorten(kind)}")
        return parsers[kind](data)

    return parse_variant


# What a document may hold, from the inside out.
_parse_point = _list_of(_parse_integer)
_parse_names = _list_of(_parse_text)
_parse_counterfactual = _record(dict, {
    "values": _object_of(_parse_value),
    "changes": _list_of(_record(dict, {"feature": _parse_text, "before": _parse_value, "after": _parse_value})),
})  # fmt: skip
_parse_component = _record(dict, {
    "feature": _parse_text, "op": _one_of("the op of a component", "<=", ">=", "=="), "value": _parse_value,
}, {
    "column": _parse_text, "one_hot_columns": _list_of(_tuple_of(_parse_text, _parse_count)),
    "allowed": _list_of(_parse_value),
})  # fmt: skip
_parse_cover = _record(CoverClaim, {
    "splits": _list_of(_tuple_of(_parse_integer, _list_of(_tuple_of(_parse_integer, _parse_integer)))),
    "tree": _parse_point,
})  # fmt: skip
_CERTIFICATE_FIELDS = {
    "format": _one_of("the format of a certificate", CERTIFICATE_FORMAT), "method": _parse_text, "space": _parse_text,
    "model": _parse_text, "low": _parse_point, "high": _parse_point, "covers": _list_of(_parse_cover),
}  # fmt: skip
_parse_certificate = _variant("the method of a certificate", "method", {
    "cover": _record(
        lambda pieces, **fields: CertificateClaim(points=pieces, **fields),
        _CERTIFICATE_FIELDS | {"pieces": _parse_integer}, checked_only=("format",),
    ),
    "enumeration": _record(
        CertificateClaim, _CERTIFICATE_FIELDS | {"points": _parse_integer}, checked_only=("format",),
    ),
})  # fmt: skip
_parse_verdict = _variant("a verdict", "kind", {
    "proven": _record(lambda certificate: certificate, {
        "kind": _parse_text, "certificate": _parse_certificate,
    }, checked_only=("kind",)),
    "refuted": _record(ExceptionClaim, {
        "kind": _parse_text, "counterfactual": _parse_counterfactual,
    }, checked_only=("kind",)),
    "unrefuted": _record(lambda exception_bound, **fields: SearchClaim(bound=exception_bound, **fields), {
        "kind": _parse_text, "tried": _parse_count, "samples": _parse_count, "confidence": _parse_number,
        "exception_bound": _parse_number,
    }, {"explored": _parse_number}, checked_only=("kind",)),
})  # fmt: skip
_parse_rule = _record(lambda rule, **fields: RuleClaim(**rule, **fields), {
    "rule": _record(dict, {"components": _list_of(_parse_component), "outcome": _parse_text}),
    "verdict": _parse_verdict, "coverage": _parse_count,
})  # fmt: skip
_parse_document = _record(dict, {
    "format": _parse_integer,
    "instance": _object_of(_parse_value),
    "rules": _list_of(_parse_rule),
    "wider": _optional(_parse_rule),
    "wider_is_maximal": _one_of("wider_is_maximal", True, False),
    "wider_witnesses": _list_of(_parse_point),
    "counterfactuals": _list_of(_parse_counterfactual),
    "statistics": _record(dict, {
        "algorithm": _parse_text, "seconds": _parse_number, "operator_seconds": _object_of(_parse_number),
        "stopped": _one_of("stopped", None, "budget", "interrupted"), "seed": _parse_count, "generations": _parse_count,
        "candidates": _parse_count, "oracle_calls": _parse_count, "model_calls": _parse_count,
        "evaluations": _parse_count,
    }, {
        "stopped_by": _one_of(
            "stopped_by", None, "finished", "work", "seconds", "evaluations", "interrupted"
        ), "budget_seconds": _optional(_parse_number), "budget_evaluations": _optional(_parse_count),
        "compile_seconds": _parse_number,
    }),
    "history_rows": _parse_count,
    "space": _parse_text,
    "weight": parse_weight,
    "lower_bound": parse_weight,
    "unreadable_reason": _optional(_parse_text),
    "model": _parse_text,
    "decision": _record(DecisionClaim, {
        "desired": _optional(_list_of(_parse_value)), "threshold": _optional(_parse_number), "margin": _parse_number,
    }, {"direction": _one_of("direction", "above", "below")}),
    "restrictions": _record(RestrictionsClaim, {
        "require": _parse_names, "forbid": _parse_names,
        "weights": lambda given: given if given in (None, "paper") else _object_of(parse_weight)(given),
    }),
    "witnesses": _list_of(_parse_point),
    "undecided_components": _list_of(_parse_count),
    "model_count": _parse_count,
    "digest": _parse_text,
}, {
    "constraints": _parse_names,
    "breakpoints": _object_of(_list_of(_parse_number)),
    "rounded": _record(dict, {"components": _list_of(_parse_component), "outcome": _parse_text}),
    "extended_values": _object_of(_list_of(_parse_value)),
    "domains": _object_of(_record(dict, {
        "kind": _one_of("the kind of a domain", "interval", "integers", "seen", "list"),
        "missing": _one_of("missing", True, False),
    }, {"low": _parse_value, "high": _parse_value, "count": _parse_count, "values": _list_of(_parse_value)})),
    "prefer": _one_of("prefer", "length", "coverage"),
    "preference": _record(dict, {
        "shortest": parse_weight, "is_complete": _one_of("is_complete", True, False), "compared": _parse_count,
    }),
    "covers_only_instance": _one_of("covers_only_instance", True, False),
    "marks": _list_of(_record(dict, {
        "component": _parse_count, "reason": _one_of("the reason of a mark", "protected", "against direction"),
        "declared": _one_of("declared", True, False),
    })),
    "changes": _record(ChangesClaim, {
        "counterfactuals": _list_of(_parse_counterfactual), "proven": _one_of("proven", True, False),
        "complete": _one_of("complete", True, False),
        "limits": _object_of(_record(dict, {"moves": _parse_names, "reason": _parse_text})),
    }),
}, checked_only=("format", "statistics", "prefer", "preference", "covers_only_instance"))  # fmt: skip


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

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NoReturn, TypeVar

from ironrule.errors import InputError, build_format_error

FORMAT = 5
CERTIFICATE_FORMAT = 2
NO_SPLIT = -1  # in a cover's tree: a piece that is not split further
DOCUMENT_FIELDS = frozenset((
    "format", "instance", "rules", "wider", "wider_is_maximal", "wider_witnesses", "counterfactuals", "statistics",
    "history_rows", "space", "weight", "lower_bound", "unreadable_reason", "model", "decision", "restrictions",
    "witnesses", "undecided_components", "model_count", "digest",
))  # fmt: skip
OPTIONAL_FIELDS = frozenset(("constraints", "breakpoints"))
COUNT_FIELDS = ("seed", "generations", "candidates", "oracle_calls", "model_calls", "evaluations")
STATISTICS_FIELDS = frozenset(("algorithm", "seconds", "operator_seconds", "stopped", *COUNT_FIELDS))
CERTIFICATE_FIELDS = frozenset(("format", "method", "space", "model", "low", "high", "covers"))
SIZE_FIELDS = {"cover": "pieces", "enumeration": "points"}  # by method
RESTRICTIONS_FIELDS = frozenset(("require", "forbid", "weights"))
UNREFUTED_FIELDS = frozenset(("kind", "tried", "samples", "confidence", "exception_bound"))
INTEGER_LIMIT = 2**64
MAX_FRACTION_LENGTH = 200  # characters of a weight such as "3/10"
T = TypeVar("T")
JsonObject = Mapping[str, Any]
SplitRange = tuple[int, int]


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

    counterfactual: JsonObject


@dataclass(frozen=True, slots=True)
class SearchClaim:
    """A claimed search that found no exception."""

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
    """What counts as desired: classes as plain data, the threshold, and the margin by which scores may move."""

    desired: tuple[Any, ...] | None
    threshold: float | None
    margin: float


@dataclass(frozen=True, slots=True)
class RestrictionsClaim:
    """Which components a rule had to use and which it must not, and what components weigh."""

    require: tuple[str, ...]
    forbid: tuple[str, ...]
    weights: Mapping[str, Fraction] | Literal["paper"] | None


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
    constraints: tuple[str, ...] | None  # None where the document names none
    breakpoints: Mapping[str, tuple[Any, ...]] | None  # None where the claims are about values seen


def parse_document(given: Any) -> ExplanationDocument:
    """The document in an explanation, its plain data or its JSON; raises InputError if it is malformed."""
    try:
        data = _load_json(given)
        if isinstance(data, dict) and repr(data.get("format")) == str(FORMAT):
            return _parse_fields(data)
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise InputError(f"malformed explanation: {error}") from None
    got, remedy = data.get("format") if isinstance(data, dict) else data, "explain the row again"
    raise build_format_error("an explanation", FORMAT, got if isinstance(got, int) else _shorten(got), remedy)


def _load_json(given: Any) -> Any:
    """What JSON says, each name once, every number finite."""
    data = given.to_dict() if hasattr(given, "to_dict") else given
    text = data if isinstance(data, (str, bytes)) else json.dumps(data, allow_nan=False)
    return json.loads(
        text, object_pairs_hook=_build_object, parse_constant=_raise_not_finite, parse_float=_parse_finite
    )


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


def _parse_fields(data: JsonObject) -> ExplanationDocument:
    _require_fields(data, DOCUMENT_FIELDS, OPTIONAL_FIELDS)
    _check_statistics(_require_fields(data["statistics"], STATISTICS_FIELDS))
    rules = _parse_list(_parse_rule, data["rules"])
    if not rules:
        raise ValueError("expected at least one rule, got none")
    return ExplanationDocument(
        instance=_parse_values(data["instance"]),
        rules=rules,
        wider=None if data["wider"] is None else _parse_rule(data["wider"]),
        wider_is_maximal=_parse_bool(data["wider_is_maximal"]),
        wider_witnesses=_parse_list(_parse_point, data["wider_witnesses"]),
        counterfactuals=_parse_list(_parse_counterfactual, data["counterfactuals"]),
        history_rows=_parse_count(data["history_rows"]),
        space=_parse_text(data["space"]),
        weight=parse_weight(data["weight"]),
        lower_bound=parse_weight(data["lower_bound"]),
        unreadable_reason=None if data["unreadable_reason"] is None else _parse_text(data["unreadable_reason"]),
        model=_parse_text(data["model"]),
        decision=_parse_decision(_require_fields(data["decision"], frozenset(("desired", "threshold", "margin")))),
        restrictions=_parse_restrictions(_require_fields(data["restrictions"], RESTRICTIONS_FIELDS)),
        witnesses=_parse_list(_parse_point, data["witnesses"]),
        undecided_components=_parse_list(_parse_count, data["undecided_components"]),
        model_count=_parse_count(data["model_count"]),
        digest=_parse_text(data["digest"]),
        data=data,
        constraints=_parse_list(_parse_text, data["constraints"]) if "constraints" in data else None,
        breakpoints=_parse_breakpoints(data["breakpoints"]) if "breakpoints" in data else None,
    )


def _parse_rule(data: Any) -> RuleClaim:
    _require_fields(data, frozenset(("rule", "verdict", "coverage")))
    rule = _require_fields(data["rule"], frozenset(("components", "outcome")))
    components = _parse_list(_parse_component, rule["components"])
    verdict = _parse_verdict(_require_mapping(data["verdict"]))
    return RuleClaim(components, _parse_text(rule["outcome"]), verdict, _parse_count(data["coverage"]))


def _parse_component(data: Any) -> JsonObject:
    _require_fields(data, frozenset(("feature", "op", "value")), frozenset(("column", "one_hot_columns", "allowed")))
    if data["op"] not in ("<=", ">=", "=="):
        raise ValueError(f"the op of a component must be <=, >= or ==, got {_shorten(data['op'])}")
    _parse_text(data["feature"])
    _parse_value(data["value"])
    if "column" in data:
        _parse_text(data["column"])
    for name, wanted in _parse_list(tuple, data.get("one_hot_columns", [])):
        _parse_text(name)
        _parse_count(wanted)
    _parse_list(_parse_value, data.get("allowed", []))
    return _require_mapping(data)


def _parse_verdict(data: JsonObject) -> CertificateClaim | ExceptionClaim | SearchClaim:
    kind = data.get("kind")
    if kind == "proven":
        return _parse_certificate(_require_fields(data, frozenset(("kind", "certificate")))["certificate"])
    if kind == "refuted":
        shown = _require_fields(data, frozenset(("kind", "counterfactual")))["counterfactual"]
        return ExceptionClaim(_parse_counterfactual(shown))
    if kind == "unrefuted":
        _require_fields(data, UNREFUTED_FIELDS, frozenset(("explored",)))
        shares = [_parse_number(data[name]) for name in ("confidence", "exception_bound")]
        explored = _parse_number(data.get("explored", 0.0))
        return SearchClaim(_parse_count(data["tried"]), _parse_count(data["samples"]), shares[0], shares[1], explored)
    raise ValueError(f"a verdict must be proven, refuted or unrefuted, got {_shorten(kind)}")


def _parse_certificate(data: Any) -> CertificateClaim:
    method = _require_mapping(data).get("method")
    if method not in ("cover", "enumeration"):
        raise ValueError(f"the method of a certificate must be cover or enumeration, got {_shorten(method)}")
    _require_fields(data, CERTIFICATE_FIELDS | {SIZE_FIELDS[method]})
    if _parse_integer(data["format"]) != CERTIFICATE_FORMAT:
        raise ValueError(f"a certificate must have format {CERTIFICATE_FORMAT}, got {data['format']}")
    return CertificateClaim(
        method,
        _parse_integer(data[SIZE_FIELDS[method]]),
        _parse_text(data["space"]),
        _parse_text(data["model"]),
        _parse_point(data["low"]),
        _parse_point(data["high"]),
        _parse_list(_parse_cover, data["covers"]),
    )


def _parse_cover(data: Any) -> CoverClaim:
    _require_fields(data, frozenset(("splits", "tree")))
    return CoverClaim(_parse_list(_parse_split, data["splits"]), _parse_point(data["tree"]))


def _parse_split(data: Any) -> tuple[int, tuple[SplitRange, ...]]:
    feature, ranges = _parse_list(lambda part: part, data)
    pairs = _parse_list(_parse_point, ranges)
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("the range of a cut must have a first and a last code")
    return _parse_integer(feature), tuple((pair[0], pair[1]) for pair in pairs)


def _parse_counterfactual(data: Any) -> JsonObject:
    _require_fields(data, frozenset(("values", "changes")))
    _parse_values(data["values"])
    for change in _parse_list(_require_mapping, data["changes"]):
        _require_fields(change, frozenset(("feature", "before", "after")))
        _parse_text(change["feature"]), _parse_value(change["before"]), _parse_value(change["after"])
    return _require_mapping(data)


def _parse_decision(data: JsonObject) -> DecisionClaim:
    desired = None if data["desired"] is None else _parse_list(_parse_value, data["desired"])
    threshold = None if data["threshold"] is None else _parse_number(data["threshold"])
    return DecisionClaim(desired, threshold, _parse_number(data["margin"]))


def _parse_restrictions(data: JsonObject) -> RestrictionsClaim:
    weights = data["weights"]
    if weights is not None and weights != "paper":
        weights = {name: parse_weight(weight) for name, weight in _require_mapping(weights).items()}
    return RestrictionsClaim(
        _parse_list(_parse_text, data["require"]), _parse_list(_parse_text, data["forbid"]), weights
    )


def _parse_breakpoints(data: Any) -> Mapping[str, tuple[Any, ...]]:
    return {name: _parse_list(_parse_number, values) for name, values in _require_mapping(data).items()}


def _check_statistics(data: JsonObject) -> None:
    """How the explanation was found proves nothing, but must be well formed too."""
    _parse_text(data["algorithm"])
    for name in COUNT_FIELDS:
        _parse_count(data[name])
    for seconds in (data["seconds"], *_require_mapping(data["operator_seconds"]).values()):
        _parse_number(seconds)
    if data["stopped"] not in (None, "budget", "interrupted"):
        raise ValueError(f"stopped must be null, budget or interrupted, got {_shorten(data['stopped'])}")


def _require_fields(data: Any, names: frozenset[str], options: frozenset[str] = frozenset()) -> JsonObject:
    """The mapping, if it has exactly these fields, and of the optional ones any."""
    odd = sorted((names ^ frozenset(_require_mapping(data))) - options)
    if odd:
        raise ValueError(f"{'missing' if odd[0] in names else 'unknown'} field {_shorten(odd[0])}")
    return _require_mapping(data)


def _require_mapping(data: Any) -> JsonObject:
    if not isinstance(data, dict):
        raise TypeError(f"expected a JSON object, got {_shorten(data)}")
    return data


def _parse_list(parse: Callable[[Any], T], data: Any) -> tuple[T, ...]:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {_shorten(data)}")
    return tuple(parse(part) for part in data)


def _parse_values(data: Any) -> JsonObject:
    for value in _require_mapping(data).values():
        _parse_value(value)
    return _require_mapping(data)


def _parse_value(value: Any) -> Any:
    """A feature's value or a class: null, true, false, a number, a string, or a date as {"date": ...}."""
    if isinstance(value, dict) and set(value) == {"date"}:
        _parse_text(value["date"])
    elif not (value is None or isinstance(value, (bool, str))):
        _parse_number(value)
    return value


def _parse_point(data: Any) -> tuple[int, ...]:
    return _parse_list(_parse_integer, data)


def _parse_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {_shorten(value)}")
    return value


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

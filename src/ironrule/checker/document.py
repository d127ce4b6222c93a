"""The form of an explanation's document: which fields there are, and what may stand in each.

A document of another form is refused as a whole (InputError): whatever it says more, or otherwise, nobody would have
checked. Values of features stay plain data here; what they mean is a matter of the space.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NoReturn, TypeVar

from ironrule.errors import InputError

FORMAT = 4
CERTIFICATE_VERSION = 1
CLOSED = -1  # in a cover's tree: a piece that is not cut further
FIELDS = frozenset((
    "format", "instance", "rules", "wider", "widest", "limits", "counterfactuals", "statistics", "history_rows",
    "space", "weight", "lower_bound", "unread", "model", "decision", "permitted", "witnesses", "undecided", "models",
    "digest",
))  # fmt: skip
OPTIONAL_FIELDS = frozenset(("constraints", "breakpoints"))
COUNTS = ("seed", "generations", "candidates", "oracle_calls", "model_calls", "evaluations")
STATISTICS = frozenset(("algorithm", "seconds", "operators", "stopped", *COUNTS))
CERTIFICATE_FIELDS = frozenset(("version", "method", "points", "space", "model", "low", "high", "covers"))
UNREFUTED_FIELDS = frozenset(("kind", "tried", "samples", "confidence", "bound"))
LARGEST_INTEGER = 2**64
LONGEST_FRACTION = 200  # characters of a weight such as "3/10"

T = TypeVar("T")
Plain = Mapping[str, Any]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cover:
    """How a box is cut into pieces: the distinct cuts (a feature and ranges of codes), and the tree of cuts."""

    splits: tuple[tuple[int, tuple[Range, ...]], ...]
    tree: tuple[int, ...]

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return len(self.tree) // 2 + 1


@dataclass(frozen=True, slots=True)
class Certificate:
    """A claimed proof that a box, given by the first and last code of every feature, holds no desired point."""

    method: Literal["cover", "enumeration"]
    points: int
    space: str
    model: str
    low: tuple[int, ...]
    high: tuple[int, ...]
    covers: tuple[Cover, ...] = ()


@dataclass(frozen=True, slots=True)
class ExceptionClaim:
    """A claimed exception to a rule."""

    counterfactual: Plain


@dataclass(frozen=True, slots=True)
class Searched:
    """A claimed search that found no exception."""

    tried: int
    samples: int
    confidence: float
    bound: float
    explored: float = 0.0


@dataclass(frozen=True, slots=True)
class RuleClaim:
    """A rule with what is claimed of it."""

    components: tuple[Plain, ...]
    outcome: str
    verdict: Certificate | ExceptionClaim | Searched
    coverage: int


@dataclass(frozen=True, slots=True)
class DecisionClaim:
    """What counts as desired: classes as plain data, the threshold, and the margin by which scores may move."""

    desired: tuple[Any, ...] | None
    threshold: float | None
    margin: float


@dataclass(frozen=True, slots=True)
class Permission:
    """Which components a rule had to use and which it must not, and what components weigh."""

    require: tuple[str, ...]
    forbid: tuple[str, ...]
    weights: Mapping[str, Fraction] | Literal["paper"] | None


@dataclass(frozen=True, slots=True)
class Document:
    """An explanation as its document has it."""

    instance: Plain
    rules: tuple[RuleClaim, ...]
    wider: RuleClaim | None
    widest: bool
    limits: tuple[tuple[int, ...], ...]
    counterfactuals: tuple[Plain, ...]
    history_rows: int
    space: str
    weight: Fraction
    lower_bound: Fraction
    unread: str | None
    model: str
    decision: DecisionClaim
    permission: Permission
    witnesses: tuple[tuple[int, ...], ...]
    undecided: tuple[int, ...]
    models: int
    digest: str
    whole: Plain
    constraints: tuple[str, ...] | None  # None where the document names none
    breakpoints: Mapping[str, tuple[Any, ...]] | None  # None where the claims are about values seen


def parse_document(given: Any) -> Document:
    """The document in an explanation, its plain data or its JSON; raises InputError if it is malformed."""
    try:
        data = _plain_data(given)
        if isinstance(data, dict) and repr(data.get("format")) == str(FORMAT):
            return _parse_fields(data)
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise InputError(f"malformed explanation: {error}") from None
    got, hint = _shorten(data.get("format") if isinstance(data, dict) else data), "explain the row again to get one"
    raise InputError(expected=f"an explanation must have format {FORMAT}", got=got, hint=hint, code="wrong-format")


def _plain_data(given: Any) -> Any:
    """What JSON says, each name once, every number finite."""
    data = given.to_dict() if hasattr(given, "to_dict") else given
    text = data if isinstance(data, (str, bytes)) else json.dumps(data, allow_nan=False)
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_number, parse_float=_finite)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("an object has two fields of the same name")
    return data


def _refuse_number(name: str) -> NoReturn:
    raise ValueError(f"expected a finite number, got {name}")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text[:20])


def _parse_fields(data: Plain) -> Document:
    _require_fields(data, FIELDS, OPTIONAL_FIELDS)
    _check_statistics(_require_fields(data["statistics"], STATISTICS))
    rules = _parse_list(_parse_rule, data["rules"])
    if not rules:
        raise ValueError("expected at least one rule, got none")
    return Document(
        instance=_parse_values(data["instance"]),
        rules=rules,
        wider=None if data["wider"] is None else _parse_rule(data["wider"]),
        widest=_parse_bool(data["widest"]),
        limits=_parse_list(_parse_point, data["limits"]),
        counterfactuals=_parse_list(_parse_counterfactual, data["counterfactuals"]),
        history_rows=_parse_count(data["history_rows"]),
        space=_parse_text(data["space"]),
        weight=parse_weight(data["weight"]),
        lower_bound=parse_weight(data["lower_bound"]),
        unread=None if data["unread"] is None else _parse_text(data["unread"]),
        model=_parse_text(data["model"]),
        decision=_parse_decision(_require_fields(data["decision"], frozenset(("desired", "threshold", "margin")))),
        permission=_parse_permission(_require_fields(data["permitted"], frozenset(("require", "forbid", "weights")))),
        witnesses=_parse_list(_parse_point, data["witnesses"]),
        undecided=_parse_list(_parse_count, data["undecided"]),
        models=_parse_count(data["models"]),
        digest=_parse_text(data["digest"]),
        whole=data,
        constraints=_parse_list(_parse_text, data["constraints"]) if "constraints" in data else None,
        breakpoints=_parse_breakpoints(data["breakpoints"]) if "breakpoints" in data else None,
    )


def _parse_rule(data: Any) -> RuleClaim:
    _require_fields(data, frozenset(("rule", "verdict", "coverage")))
    rule = _require_fields(data["rule"], frozenset(("components", "outcome")))
    components = _parse_list(_parse_component, rule["components"])
    verdict = _parse_verdict(_require_mapping(data["verdict"]))
    return RuleClaim(components, _parse_text(rule["outcome"]), verdict, _parse_count(data["coverage"]))


def _parse_component(data: Any) -> Plain:
    _require_fields(data, frozenset(("feature", "op", "value")), frozenset(("column", "pattern", "allowed")))
    if data["op"] not in ("<=", ">=", "=="):
        raise ValueError(f"the op of a component must be <=, >= or ==, got {_shorten(data['op'])}")
    _parse_text(data["feature"])
    _parse_value(data["value"])
    if "column" in data:
        _parse_text(data["column"])
    for name, wanted in _parse_list(tuple, data.get("pattern", [])):
        _parse_text(name)
        _parse_count(wanted)
    _parse_list(_parse_value, data.get("allowed", []))
    return _require_mapping(data)


def _parse_verdict(data: Plain) -> Certificate | ExceptionClaim | Searched:
    kind = data.get("kind")
    if kind == "proven":
        return _parse_certificate(_require_fields(data, frozenset(("kind", "certificate")))["certificate"])
    if kind == "refuted":
        shown = _require_fields(data, frozenset(("kind", "counterfactual")))["counterfactual"]
        return ExceptionClaim(_parse_counterfactual(shown))
    if kind == "unrefuted":
        _require_fields(data, UNREFUTED_FIELDS, frozenset(("explored",)))
        shares = [_parse_number(data[name]) for name in ("confidence", "bound")]
        explored = _parse_number(data.get("explored", 0.0))
        return Searched(_parse_count(data["tried"]), _parse_count(data["samples"]), shares[0], shares[1], explored)
    raise ValueError(f"a verdict must be proven, refuted or unrefuted, got {_shorten(kind)}")


def _parse_certificate(data: Any) -> Certificate:
    _require_fields(data, CERTIFICATE_FIELDS)
    if _parse_integer(data["version"]) != CERTIFICATE_VERSION or data["method"] not in ("cover", "enumeration"):
        raise ValueError(f"a certificate must have version {CERTIFICATE_VERSION} and method cover or enumeration")
    return Certificate(
        data["method"],
        _parse_integer(data["points"]),
        _parse_text(data["space"]),
        _parse_text(data["model"]),
        _parse_point(data["low"]),
        _parse_point(data["high"]),
        _parse_list(_parse_cover, data["covers"]),
    )


def _parse_cover(data: Any) -> Cover:
    _require_fields(data, frozenset(("splits", "tree")))
    return Cover(_parse_list(_parse_split, data["splits"]), _parse_point(data["tree"]))


def _parse_split(data: Any) -> tuple[int, tuple[Range, ...]]:
    feature, ranges = _parse_list(lambda part: part, data)
    pairs = _parse_list(_parse_point, ranges)
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("the range of a cut must have a first and a last code")
    return _parse_integer(feature), tuple((pair[0], pair[1]) for pair in pairs)


def _parse_counterfactual(data: Any) -> Plain:
    _require_fields(data, frozenset(("values", "changes")))
    _parse_values(data["values"])
    for change in _parse_list(_require_mapping, data["changes"]):
        _require_fields(change, frozenset(("feature", "before", "after")))
        _parse_text(change["feature"]), _parse_value(change["before"]), _parse_value(change["after"])
    return _require_mapping(data)


def _parse_decision(data: Plain) -> DecisionClaim:
    desired = None if data["desired"] is None else _parse_list(_parse_value, data["desired"])
    threshold = None if data["threshold"] is None else _parse_number(data["threshold"])
    return DecisionClaim(desired, threshold, _parse_number(data["margin"]))


def _parse_permission(data: Plain) -> Permission:
    weights = data["weights"]
    if weights is not None and weights != "paper":
        weights = {name: parse_weight(weight) for name, weight in _require_mapping(weights).items()}
    return Permission(_parse_list(_parse_text, data["require"]), _parse_list(_parse_text, data["forbid"]), weights)


def _parse_breakpoints(data: Any) -> Mapping[str, tuple[Any, ...]]:
    return {name: _parse_list(_parse_number, values) for name, values in _require_mapping(data).items()}


def _check_statistics(data: Plain) -> None:
    """How the explanation was found proves nothing, but must be well formed too."""
    _parse_text(data["algorithm"])
    for name in COUNTS:
        _parse_count(data[name])
    for seconds in (data["seconds"], *_require_mapping(data["operators"]).values()):
        _parse_number(seconds)
    if data["stopped"] not in (None, "budget", "interrupted"):
        raise ValueError(f"stopped must be null, budget or interrupted, got {_shorten(data['stopped'])}")


def _require_fields(data: Any, names: frozenset[str], options: frozenset[str] = frozenset()) -> Plain:
    """The mapping, if it has exactly these fields, and of the optional ones any."""
    odd = sorted((names ^ frozenset(_require_mapping(data))) - options)
    if odd:
        raise ValueError(f"{'missing' if odd[0] in names else 'unknown'} field {_shorten(odd[0])}")
    return _require_mapping(data)


def _require_mapping(data: Any) -> Plain:
    if not isinstance(data, dict):
        raise TypeError(f"expected a JSON object, got {_shorten(data)}")
    return data


def _parse_list(parse: Callable[[Any], T], data: Any) -> tuple[T, ...]:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {_shorten(data)}")
    return tuple(parse(part) for part in data)


def _parse_values(data: Any) -> Plain:
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
    if isinstance(value, bool) or not isinstance(value, int) or not -LARGEST_INTEGER < value < LARGEST_INTEGER:
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
        if len(value) > LONGEST_FRACTION or len(parts) != 2 or not all(p.isascii() and p.isdigit() for p in parts):
            raise TypeError(f'expected a weight such as 2 or "3/10", got {_shorten(value)}')
        return Fraction(int(parts[0]), int(parts[1]) or _refuse_number("a fraction over 0"))
    return Fraction(str(_parse_number(value)))


def _shorten(value: Any) -> str:
    """A value for a message, cut where it is long."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of length {len(value)}"
    if isinstance(value, int) and abs(value) >= LARGEST_INTEGER:
        return "a number of more than 64 bits"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

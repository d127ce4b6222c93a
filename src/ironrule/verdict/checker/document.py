"""The form of an explanation's document: which fields there are, and what may stand in each.

A document that has another form is refused as a whole (InputError): whatever it says more, or otherwise, nobody would
have checked. Values of features stay plain data here; what they mean is a matter of the space.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ironrule.errors import InputError
from ironrule.verdict.certificate import Certificate, text, whole

FORMAT = 3
FIELDS = frozenset(
    (
        "format", "instance", "rules", "wider", "widest", "limits", "counterfactuals", "statistics",
        "history_rows", "space", "weight", "lower_bound", "unread", "model", "decision", "permitted",
        "witnesses", "undecided", "models", "digest",
    )
)  # fmt: skip
COUNTS = ("seed", "generations", "candidates", "oracle_calls", "model_calls", "evaluations")
STATISTICS = frozenset(("algorithm", "seconds", "operators", "stopped", *COUNTS))
CERTIFICATE = frozenset(["version", "method", "points", "space", "model", "low", "high", "covers"])
SEARCHED = frozenset(("kind", "tried", "samples", "confidence", "bound"))
OPTIONAL = frozenset(("column", "pattern", "allowed"))

T = TypeVar("T")
Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counterexample:
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
class Claim:
    """A rule with what is claimed of it."""

    components: tuple[Plain, ...]
    outcome: str
    verdict: Certificate | Counterexample | Searched
    coverage: int


@dataclass(frozen=True, slots=True)
class Decided:
    """What counts as desired."""

    desired: tuple[Any, ...] | None
    threshold: float | None
    margin: float


@dataclass(frozen=True, slots=True)
class Permission:
    """Which rules were permitted, and what components weigh."""

    require: tuple[str, ...]
    forbid: tuple[str, ...]
    weights: Mapping[str, float] | str | None


@dataclass(frozen=True, slots=True)
class Document:
    """An explanation as its document has it."""

    instance: Plain
    rules: tuple[Claim, ...]
    wider: Claim | None
    widest: bool
    limits: tuple[tuple[int, ...], ...]
    counterfactuals: tuple[Plain, ...]
    history_rows: int
    space: str
    weight: float
    lower_bound: float
    unread: str | None
    model: str
    decision: Decided
    permission: Permission
    witnesses: tuple[tuple[int, ...], ...]
    undecided: tuple[int, ...]
    models: int
    digest: str
    whole: Plain
    constraints: tuple[str, ...] | None = None  # as texts; None where the document names none


def document_of(given: Any) -> Document:
    """The document in an explanation, its data or its JSON; raises InputError if it is none."""
    data = _plain_data(given)
    if not isinstance(data, dict) or data.get("format") != FORMAT or isinstance(data["format"], bool):
        came = repr(data.get("format"))[:40] if isinstance(data, dict) else type(data).__name__
        raise InputError(f"an explanation must have format {FORMAT}, but {came} came")
    try:
        return _document(data)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"an explanation must be well formed, but: {error}") from None


def _plain_data(given: Any) -> Any:
    """What JSON says, each name once, no numbers that are none."""
    try:
        readable = given if isinstance(given, (str, bytes)) else json.dumps(_as_data(given), allow_nan=False)
        return json.loads(readable, object_pairs_hook=_distinct, parse_constant=_no_number)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"an explanation must be JSON, but: {error}") from None


def _as_data(given: Any) -> Any:
    return given.to_dict() if hasattr(given, "to_dict") else given


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("every name must occur once, but one occurs twice")
    return data


def _no_number(name: str) -> Any:
    raise ValueError(f"a number must be finite, but {name} came")


def _document(data: Plain) -> Document:
    _fields(data, FIELDS | {"constraints"} if "constraints" in data else FIELDS)
    _statistics(_fields(data["statistics"], STATISTICS))
    rules = _many(_claim, data["rules"])
    if not rules:
        raise ValueError("there must be at least one rule, but there is none")
    return Document(
        _mapping(data["instance"]),
        rules,
        None if data["wider"] is None else _claim(data["wider"]),
        _truth(data["widest"]),
        _many(_point, data["limits"]),
        _many(_counterfactual, data["counterfactuals"]),
        _count(data["history_rows"]),
        text(data["space"]),
        number(data["weight"]),
        number(data["lower_bound"]),
        None if data["unread"] is None else text(data["unread"]),
        text(data["model"]),
        _decision(_fields(data["decision"], frozenset(("desired", "threshold", "margin")))),
        _permission(_fields(data["permitted"], frozenset(("require", "forbid", "weights")))),
        _many(_point, data["witnesses"]),
        _many(_count, data["undecided"]),
        _count(data["models"]),
        text(data["digest"]),
        data,
        _many(text, data["constraints"]) if "constraints" in data else None,
    )


def _claim(data: Any) -> Claim:
    _fields(data, frozenset(("rule", "verdict", "coverage")))
    rule = _fields(data["rule"], frozenset(("components", "outcome")))
    components = _many(_component, rule["components"])
    return Claim(components, text(rule["outcome"]), _verdict(_mapping(data["verdict"])), _count(data["coverage"]))


def _component(data: Any) -> Plain:
    named = frozenset(_mapping(data)) - OPTIONAL
    if named != {"feature", "op", "value"} or data["op"] not in ("<=", ">=", "=="):
        raise ValueError(f"a component must have a feature, an op of <=, >= or == and a value, but {_short(data)} came")
    text(data["feature"])
    return _mapping(data)


def _verdict(data: Plain) -> Certificate | Counterexample | Searched:
    kind = data.get("kind")
    if kind == "proven":
        return _certificate(_fields(data, frozenset(("kind", "certificate")))["certificate"])
    if kind == "refuted":
        return Counterexample(_counterfactual(_fields(data, frozenset(("kind", "counterfactual")))["counterfactual"]))
    if kind == "unrefuted":
        _fields(data, SEARCHED | {"explored"} if "explored" in data else SEARCHED)
        counts, shares = ("tried", "samples"), ("confidence", "bound", *sorted({"explored"} & set(data)))
        return Searched(*(_count(data[name]) for name in counts), *(number(data[name]) for name in shares))
    raise ValueError(f"a verdict must be proven, refuted or unrefuted, but {_short(kind)} came")


def _certificate(data: Any) -> Certificate:
    _fields(data, CERTIFICATE)
    for cover in data["covers"]:
        _fields(cover, frozenset(("splits", "tree")))
    return Certificate.from_dict(data)


def _counterfactual(data: Any) -> Plain:
    _fields(data, frozenset(("values", "changes")))
    _mapping(data["values"])
    for change in _many(_mapping, data["changes"]):
        _fields(change, frozenset(("feature", "before", "after")))
    return _mapping(data)


def _decision(data: Plain) -> Decided:
    desired = None if data["desired"] is None else _many(_label, data["desired"])
    threshold = None if data["threshold"] is None else number(data["threshold"])
    return Decided(desired, threshold, number(data["margin"]))


def _label(value: Any) -> Any:
    if isinstance(value, list):
        raise TypeError(f"a class must be one value, but {_short(value)} came")
    return value


def _permission(data: Plain) -> Permission:
    weights = data["weights"]
    if weights is not None and weights != "paper":
        weights = {name: number(weight) for name, weight in _mapping(weights).items()}
    return Permission(_many(text, data["require"]), _many(text, data["forbid"]), weights)


def _statistics(data: Plain) -> None:
    """How the explanation was found proves nothing, but must be well formed too."""
    text(data["algorithm"])
    for name in COUNTS:
        _count(data[name])
    for seconds in (data["seconds"], *_mapping(data["operators"]).values()):
        number(seconds)
    if data["stopped"] not in (None, "budget", "interrupted"):
        raise ValueError(f"a search must be stopped by budget or interrupted, but {_short(data['stopped'])} came")


def _fields(data: Any, names: frozenset[str]) -> Plain:
    """The mapping, if it has exactly these fields."""
    odd = sorted(names ^ frozenset(_mapping(data)))
    if odd:
        what = "is missing" if odd[0] in names else "is not known"
        raise ValueError(f"the fields must be {', '.join(sorted(names))}, but {odd[0]!r} {what}")
    return _mapping(data)


def _mapping(data: Any) -> Plain:
    if not isinstance(data, dict):
        raise TypeError(f"names with values must stand here, but {_short(data)} came")
    return data


def _many(read: Callable[[Any], T], data: Any) -> tuple[T, ...]:
    if not isinstance(data, list):
        raise TypeError(f"a list must stand here, but {_short(data)} came")
    return tuple(read(part) for part in data)


def _point(data: Any) -> tuple[int, ...]:
    return _many(whole, data)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false must stand here, but {_short(value)} came")
    return value


def _count(value: Any) -> int:
    if whole(value) < 0:
        raise ValueError(f"a count must not be negative, but {value} came")
    return whole(value)


def number(value: Any) -> float:
    """A finite number and nothing that only looks like one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"a finite number must stand here, but {_short(value)} came")
    return float(value)


def _short(value: Any) -> str:
    """A value for a message, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."

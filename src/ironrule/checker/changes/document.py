"""The document of counterfactuals, or of a region: which fields it has, and what each may hold.

As in an explanation's document, unknown fields are refused. The command line and the server may add regions, a menu and
forbidding restrictions to a document of counterfactuals, which are checked, and more that is known, and is not. Menus
and forbidding restrictions have modules of their own, which are loaded for these alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

from ironrule.checker.changes.costs import DEFAULT_COST, CostClaim
from ironrule.checker.document import (
    MALFORMED,
    CertificateClaim,
    DecisionClaim,
    ExceptionClaim,
    JsonObject,
    SearchClaim,
    list_of,
    object_of,
    one_of,
    optional,
    parse_count,
    parse_counterfactual,
    parse_domain,
    parse_integer,
    parse_labels,
    parse_number,
    parse_plain_rule,
    parse_statistics,
    parse_text,
    parse_value,
    parse_verdict,
    record_of,
    require_object,
    shorten_value,
)
from ironrule.errors import InputError, build_format_error

if TYPE_CHECKING:
    from ironrule.checker.changes.infeasibility import InfeasibilityDocument
    from ironrule.checker.changes.menu import MenuDocument

T = TypeVar("T")
COUNTERFACTUALS_FORMAT = 2
LEAST_PRICE, LARGEST_PRICE = 1e-9, 1e12  # others would be lost beside costs of about 1, or their squares be infinite
REGION_FORMAT = 1
BESIDE_FIELDS = ("asked", "measures", "unfinished")  # not checked
EMBEDDED_FIELDS = ("menu", "infeasibility", "why_none")  # checked if they are whole documents


@dataclass(frozen=True, slots=True)
class ScopeClaim:
    """What is said to have been searched, and for what; ``upper`` is the end of a band of scores."""

    space: str
    model: str
    decision: DecisionClaim
    upper: float | None
    k: int
    constraints: tuple[str, ...]
    change_constraints: tuple[str, ...]
    features_to_vary: tuple[str, ...] | None = None
    breakpoints: Mapping[str, tuple[Any, ...]] | None = None
    extended_values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegionDocument:
    """A region around a counterfactual as its document has it."""

    kind: ClassVar[Literal["region"]] = "region"
    counterfactual: JsonObject
    rule: JsonObject
    rounded: JsonObject
    ranges: tuple[JsonObject, ...]
    fixed: JsonObject
    verdict: CertificateClaim | ExceptionClaim | SearchClaim
    maximal: bool
    digest: str
    data: JsonObject
    scope: ScopeClaim | None = None
    target: JsonObject | None = None
    margin: float = 0.0
    further_models: int = 0


@dataclass(frozen=True, slots=True)
class CounterfactualsDocument:
    """Counterfactuals as their document has them."""

    kind: ClassVar[Literal["counterfactuals"]] = "counterfactuals"
    instance: JsonObject
    counterfactuals: tuple[JsonObject, ...]
    proven: bool
    resolution: float
    domains: JsonObject
    digest: str
    data: JsonObject
    proven_count: int = 0  # how many of the first are said to be proven where not all is
    scope: ScopeClaim | None = None
    cost: CostClaim = DEFAULT_COST
    target: JsonObject | None = None
    margin: float = 0.0
    further_models: int = 0
    spread: float | None = None
    region: RegionDocument | None = None
    regions: tuple[RegionDocument, ...] = ()
    embedded: Mapping[str, MenuDocument | InfeasibilityDocument] = field(default_factory=dict)


ChangeDocument: TypeAlias = "CounterfactualsDocument | RegionDocument | MenuDocument | InfeasibilityDocument"


def parse_change_document(data: Mapping[str, Any]) -> ChangeDocument:
    """The counterfactuals, the region, the menu or the forbidding restrictions in JSON data; raises InputError if it is
    malformed.
    """
    if "menu_format" in data:
        from ironrule.checker.changes.menu import parse_menu

        return parse_menu(data)
    if "infeasibility_format" in data:
        from ironrule.checker.changes.infeasibility import parse_infeasibility

        return parse_infeasibility(data)
    if "region_format" in data:
        return parse_format(data, "region_format", REGION_FORMAT, "a region", _parse_region_inside)
    return parse_format(data, "counterfactuals_format", COUNTERFACTUALS_FORMAT, "counterfactuals", _parse_whole)


def parse_format(data: Mapping[str, Any], name: str, number: int, what: str, parse: Callable[[Any], T]) -> T:
    """What a document says; raises InputError if it is of another format, or malformed."""
    if repr(data[name]) != str(number):
        raise build_format_error(what, number, shorten_value(data[name]), "search for them again")
    try:
        return parse(data)
    except MALFORMED as error:
        raise InputError(f"malformed {what.split()[-1]}: {error}") from None


def parse_not_negative(value: Any) -> float:
    """A number that is not negative."""
    number = float(parse_number(value))
    if number < 0:
        raise ValueError(f"expected a number that is not negative, got {number!r}")
    return number


def _parse_positive_count(value: Any) -> int:
    if parse_integer(value) < 1:
        raise ValueError(f"expected a positive integer, got {value}")
    return int(value)


def _parse_price(value: Any) -> float:
    price = math.inf if value == "inf" else parse_not_negative(value)
    if price not in (0.0, math.inf) and not LEAST_PRICE <= price <= LARGEST_PRICE:
        raise ValueError(f"a price must be from {LEAST_PRICE:g} to {LARGEST_PRICE:g}, 0 or inf, got {price!r}")
    return price


def _parse_prices(value: Any) -> tuple[float, float]:
    if not isinstance(value, dict):
        return (_parse_price(value),) * 2
    if not value or not value.keys() <= {"up", "down"}:
        raise ValueError("a price must be a number, or have one for up, for down, or both")
    return _parse_price(value.get("up", 1.0)), _parse_price(value.get("down", 1.0))


def _parse_step(value: Any) -> float:
    step = parse_not_negative(value)
    if not step:
        raise ValueError("a step must be positive, got 0")
    return step


def _build_cost(**fields: Any) -> CostClaim:
    claim = CostClaim(**fields)
    if claim.per_change > LARGEST_PRICE:
        raise ValueError(f"per_change must be at most {LARGEST_PRICE:g}, got {claim.per_change!r}")
    if claim.per_change and claim.norm != "l1":
        raise ValueError(f"per_change must come with the norm l1, got {claim.norm}")
    return claim


def _parse_decision(data: Any) -> tuple[DecisionClaim, float | None]:
    """A decision, and the end of its band of scores."""
    fields = dict(require_object(data))
    upper = optional(parse_number)(fields.pop("upper", None))
    return _parse_plain_decision(fields), upper


def _build_scope(decision: tuple[DecisionClaim, float | None], **fields: Any) -> ScopeClaim:
    plain, upper = decision
    if plain.margin or (upper is not None and plain.direction == "below"):
        raise ValueError("the decision of counterfactuals must have no margin, and no band below a threshold")
    return ScopeClaim(decision=plain, upper=upper, **fields)


_parse_names = list_of(parse_text)
_parse_plain_decision = record_of(DecisionClaim, {
    "desired": optional(list_of(parse_value)), "threshold": optional(parse_number), "margin": parse_number,
}, {"direction": one_of("direction", "above", "below")})  # fmt: skip
parse_cost = record_of(_build_cost, {
    "norm": one_of("the norm of a cost", "fewest", "l1", "l2", "linf"),
    "scale": one_of("the scale of a cost", "range", "mad", "percentile"),
}, {
    "prices": object_of(_parse_prices), "steps": object_of(_parse_step), "per_change": parse_not_negative,
})  # fmt: skip
parse_scope = record_of(_build_scope, {
    "space": parse_text, "model": parse_text, "decision": _parse_decision, "k": _parse_positive_count,
    "constraints": _parse_names, "change_constraints": _parse_names,
}, {
    "features_to_vary": _parse_names, "breakpoints": object_of(list_of(parse_number)),
    "extended_values": object_of(list_of(parse_value)),
})  # fmt: skip
_GOAL_FIELDS = {  # what must be reached, where that is more than the desired outcome
    "target": record_of(dict, {}, {
        "desired": list_of(parse_value), "above": parse_number, "at_most": parse_number,
    }),
    "margin": parse_not_negative,
    "further_models": parse_count,
}  # fmt: skip
_parse_region = record_of(dict, {
    "region_format": parse_count,
    "counterfactual": parse_counterfactual,
    "rule": parse_plain_rule,
    "rounded": parse_plain_rule,
    "ranges": list_of(record_of(dict, {
        "feature": parse_text, "low": parse_value, "high": parse_value, "first": parse_value, "last": parse_value,
        "before": parse_value, "after": parse_value, "any_value": one_of("any_value", True, False),
    })),
    "fixed": object_of(parse_value),
    "verdict": parse_verdict,
    "maximal": one_of("maximal", True, False),
    "statistics": parse_statistics,
    "digest": parse_text,
}, {"scope": parse_scope, **_GOAL_FIELDS}, checked_only=("region_format", "statistics"))  # fmt: skip


def _parse_region_inside(data: Any) -> RegionDocument:
    """A region, by itself or in another document."""
    return RegionDocument(data=data, **_parse_region(data))


def _parse_whole(data: Any) -> CounterfactualsDocument:
    return CounterfactualsDocument(data=data, **_parse_document(data))


def _parse_embedded(data: Any) -> MenuDocument | InfeasibilityDocument | None:
    """A menu or forbidding restrictions that another document has; None if they are no document of their own."""
    if not isinstance(data, dict) or not data.keys() & {"menu_format", "infeasibility_format"}:
        return None
    document = parse_change_document(data)
    assert document.kind in ("menu", "infeasibility")
    return document


def _build_document(**fields: Any) -> dict[str, Any]:
    count = len(fields["counterfactuals"])
    if fields.get("proven_count", 0) > count:
        raise ValueError(f"proven_count must be at most {count}, got {fields['proven_count']}")
    given = {name: fields.pop(name) for name in EMBEDDED_FIELDS if name in fields}
    return {**fields, "embedded": {name: document for name, document in given.items() if document is not None}}


ASKED_FIELDS = {  # what was asked for, in every document of changes
    "scope": parse_scope,
    "cost": parse_cost,
    **_GOAL_FIELDS,
    "labels": parse_labels,
}

_parse_document = record_of(_build_document, {
    "counterfactuals_format": parse_count,
    "instance": object_of(parse_value),
    "counterfactuals": list_of(parse_counterfactual),
    "proven": one_of("proven", True, False),
    "resolution": parse_not_negative,
    "seed": parse_count, "evaluations": parse_count, "seconds": parse_number,
    "stopped": one_of("stopped", None, "budget", "interrupted"),
    "statistics": parse_statistics,
    "domains": object_of(parse_domain),
    "digest": parse_text,
}, {
    **ASKED_FIELDS,
    "proven_count": parse_count,
    "spread": parse_not_negative,
    "confirmed_by_model": one_of("confirmed_by_model", True, False),
    "region": _parse_region_inside,
    "regions": list_of(_parse_region_inside),
    **dict.fromkeys(EMBEDDED_FIELDS, _parse_embedded),
    **dict.fromkeys(BESIDE_FIELDS, lambda value: value),
}, checked_only=(
    "counterfactuals_format", "seed", "evaluations", "seconds", "stopped", "statistics", "labels",
    "confirmed_by_model", *BESIDE_FIELDS,
))  # fmt: skip

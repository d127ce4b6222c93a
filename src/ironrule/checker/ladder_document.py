"""The document of a ladder: which fields it has, and what each may hold.

As in an explanation's document, every field is known and none may be missing. The explanation inside is parsed as one
that stands alone. A short rung's verdict can only be "bounded": a document with another one is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ironrule.checker.document import (
    MALFORMED,
    ExplanationDocument,
    JsonObject,
    list_of,
    one_of,
    optional,
    parse_component,
    parse_count,
    parse_explanation,
    parse_integer,
    parse_number,
    parse_text,
    parse_value,
    record_of,
    require_object,
    shorten_value,
    variant_of,
)
from ironrule.errors import InputError, build_format_error

LADDER_FORMAT = 1


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """A claimed bound on the share of exceptions: ``seen`` among ``rows`` covered rows that were measured."""

    exceptions: float
    confidence: float
    rows: int
    seen: int
    shared_by: int


@dataclass(frozen=True, slots=True)
class CountClaim:
    """So many rows are said to be covered, and so many of them to be exceptions."""

    rows: int
    exceptions: int


@dataclass(frozen=True, slots=True)
class PartClaim:
    """What is said of one component of a rung, as reasons use it."""

    counts_against: bool
    bound_without: float
    approved_share: float
    other_value: Any


@dataclass(frozen=True, slots=True)
class RungClaim:
    """A rung of a ladder. The last one has the rule and the verdict of the explanation, and none here."""

    coverage: int
    searched: CountClaim
    measured: CountClaim
    is_best: bool
    parts: tuple[PartClaim, ...]
    components: tuple[JsonObject, ...] = ()
    outcome: str = ""
    verdict: BoundClaim | None = None


@dataclass(frozen=True, slots=True)
class LadderDocument:
    """A ladder as its document has it."""

    kind: ClassVar[Literal["ladder"]] = "ladder"
    rungs: tuple[RungClaim, ...]
    last: RungClaim
    explanation: ExplanationDocument
    confidence: float
    most: int
    nested: bool
    searched_rows: int
    measured_rows: int
    measured_from: Literal["split", "mask", "table"]
    split_seed: int | None
    at_least: float | None
    digest: str
    data: JsonObject


def _build_counts(rows: int, exceptions: int) -> CountClaim:
    if exceptions > rows:
        raise ValueError(f"exceptions must be some of the {rows:,} rows, got {exceptions:,}")
    return CountClaim(rows, exceptions)


_parse_counts = record_of(_build_counts, {"rows": parse_count, "exceptions": parse_count})
_RUNG_FIELDS = {
    "coverage": parse_count, "searched": _parse_counts, "measured": _parse_counts,
    "is_best": one_of("is_best", True, False),
    "parts": list_of(record_of(PartClaim, {
        "counts_against": one_of("counts_against", True, False), "bound_without": parse_number,
        "approved_share": parse_number, "other_value": parse_value,
    })),
}  # fmt: skip
_parse_ladder_fields = record_of(dict, {
    "ladder_format": parse_integer,
    "rungs": list_of(record_of(lambda rule, **fields: RungClaim(**rule, **fields), _RUNG_FIELDS | {
        "rule": record_of(dict, {"components": list_of(parse_component), "outcome": parse_text}),
        "verdict": variant_of("the verdict of a short rung", "kind", {"bounded": record_of(BoundClaim, {
            "kind": parse_text, "exceptions": parse_number, "confidence": parse_number, "rows": parse_count,
            "seen": parse_count, "shared_by": parse_count,
        }, checked_only=("kind",))}),
    })),
    "last": record_of(RungClaim, _RUNG_FIELDS),
    "explanation": require_object,
    "confidence": parse_number,
    "most": parse_count,
    "nested": one_of("nested", True, False),
    "searched_rows": parse_count,
    "measured_rows": parse_count,
    "measured_from": one_of("measured_from", "split", "mask", "table"),
    "split_seed": optional(parse_count),
    "at_least": optional(parse_number),
    "digest": parse_text,
}, checked_only=("ladder_format",))  # fmt: skip


def parse_ladder(data: dict[str, Any]) -> LadderDocument:
    """The ladder in loaded data; raises InputError if it is malformed."""
    got = data["ladder_format"]
    if repr(got) != str(LADDER_FORMAT):
        got = got if isinstance(got, int) else shorten_value(got)
        raise build_format_error("a ladder", LADDER_FORMAT, got, "build the ladder again")
    try:
        fields = _parse_ladder_fields(data)
        if (fields["measured_from"] == "split") != (fields["split_seed"] is not None):
            raise ValueError("a ladder must have a split_seed where a split gave its measured rows, and none elsewhere")
    except MALFORMED as error:
        raise InputError(f"malformed ladder: {error}") from None
    explanation = parse_explanation(fields.pop("explanation"))
    return LadderDocument(data=data, explanation=explanation, **fields)

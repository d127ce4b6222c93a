"""Restrictions that forbid every counterfactual: their document and its claims.

Under the restrictions that are named there is no counterfactual at all; and without any one of them there is one, which
is named and obeys all others. Restrictions are checked by their constraints on a changed row, and by the features that
may not vary; the words beside them are for people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from ironrule.checker.changes.claims import CallersMeaning
from ironrule.checker.changes.costs import DEFAULT_COST
from ironrule.checker.changes.document import ASKED_FIELDS, parse_format, parse_not_negative
from ironrule.checker.changes.parts import AskedClaim, PartChecker, check_parts, require_fine, take_asked
from ironrule.checker.document import (
    JsonObject,
    list_of,
    object_of,
    one_of,
    optional,
    parse_count,
    parse_counterfactual,
    parse_statistics,
    parse_text,
    parse_value,
    record_of,
)
from ironrule.checker.result import Check, ClaimFailed, ClaimUndecided, Finding, run_claim_check
from ironrule.checker.scope import UserInputs
from ironrule.checker.space.space import parse_constraints, value_from_json
from ironrule.errors import ConstraintError

INFEASIBILITY_FORMAT = 1
RESTRICTION_KINDS = ("role", "constraint", "range", "price", "fixed")
WORDS = {"fixed": "may not vary", "price": "a price of infinity"}
FIXED_ROLES = ("immutable", "protected")


@dataclass(frozen=True, slots=True)
class RestrictionClaim:
    """A restriction, and the counterfactual that there is said to be without it."""

    kind: str
    text: str
    feature: str | None
    constraints: tuple[str, ...]
    without_it: JsonObject | None
    nearest: bool
    resolution: float

    def __str__(self) -> str:
        if self.kind == "fixed":
            return f"{self.feature} may not vary"
        return " and ".join(self.constraints)


@dataclass(frozen=True, slots=True)
class InfeasibilityDocument:
    """Forbidding restrictions as their document has them."""

    kind: ClassVar[Literal["infeasibility"]] = "infeasibility"
    asked: AskedClaim
    needed: tuple[RestrictionClaim, ...]
    proven: bool
    minimal: bool
    counterfactual: JsonObject | None
    digest: str
    data: JsonObject


def parse_infeasibility(data: Mapping[str, Any]) -> InfeasibilityDocument:
    """The document in JSON data; raises InputError if it is malformed."""
    return parse_format(data, "infeasibility_format", INFEASIBILITY_FORMAT, "an infeasibility", _parse_whole)


def _parse_whole(data: Any) -> InfeasibilityDocument:
    fields = _parse_document(data)
    return InfeasibilityDocument(asked=take_asked(fields), data=dict(data), **fields)


_parse_needed = record_of(RestrictionClaim, {
    "kind": one_of("the kind of a restriction", *RESTRICTION_KINDS),
    "text": parse_text,
    "feature": optional(parse_text),
    "constraints": list_of(parse_text),
    "without_it": optional(parse_counterfactual),
    "nearest": one_of("nearest", True, False),
    "resolution": parse_not_negative,
})  # fmt: skip
_parse_document = record_of(dict, {
    "infeasibility_format": parse_count,
    "instance": object_of(parse_value),
    "needed": list_of(_parse_needed),
    "proven": one_of("proven", True, False),
    "minimal": one_of("minimal", True, False),
    "counterfactual": optional(parse_counterfactual),
    "statistics": parse_statistics,
    "digest": parse_text,
}, ASKED_FIELDS, checked_only=("infeasibility_format", "statistics", "labels"))  # fmt: skip


def check_infeasibility(document: InfeasibilityDocument, inputs: UserInputs, meaning: CallersMeaning) -> Check:
    """What becomes of the claims of forbidding restrictions."""
    found = check_parts(document, inputs, meaning, lambda parts: _InfeasibilityChecker(document, parts).check_claims())
    claims_proof = document.proven and document.minimal
    return Check(_describe(document), "proven" if claims_proof else "unrefuted", *found, document="infeasibility")


def _describe(document: InfeasibilityDocument) -> str:
    if document.counterfactual is not None:
        return "There is a counterfactual"
    if not document.proven:
        return "Not known whether there is a counterfactual"
    if not document.needed:
        return "There is no counterfactual, whatever may change"
    some = "" if document.minimal else "; some of them may not be needed for that"
    return f"There is no counterfactual: these restrictions forbid every one: {_list(document.needed)}{some}"


def _list(restrictions: tuple[RestrictionClaim, ...]) -> str:
    return "; ".join(map(str, restrictions))


def _has_own_words(one: RestrictionClaim) -> bool:
    """Whether the words of a restriction say what its constraints do; those of a range may say anything."""
    if one.kind == "constraint":
        return one.feature is None and one.constraints == (one.text,)
    if one.kind == "role":
        said = "; ".join(one.constraints)
        if one.text not in FIXED_ROLES:
            return one.text == f"role: {said}"
        name = said[len("cf") : len("cf") + (len(said) - len("cf == x")) // 2]  # as constraints write it: .age, ["a b"]
        return said == f"cf{name} == x{name}"
    return one.kind == "range" or one.text == WORDS[one.kind]


@dataclass(frozen=True, slots=True, eq=False)
class _InfeasibilityChecker:
    """A document, and what checks its parts."""

    document: InfeasibilityDocument
    parts: PartChecker

    def check_claims(self) -> list[Finding]:
        """Every claim with what becomes of it."""
        document, findings = self.document, list[Finding]()
        if document.counterfactual is not None:
            findings.append(run_claim_check("counterfactual", self._check_counterfactual))
        findings.append(run_claim_check("needed", self._check_restrictions))
        if findings[-1].status != "holds":
            return findings
        if not document.proven:
            return [*findings, Finding("none", "undecided", "it is not claimed that there is none")]
        findings.append(run_claim_check("none", self._check_none))
        if not document.minimal:
            return [*findings, Finding("minimal", "undecided", "it is not claimed that each restriction is needed")]
        for place in range(len(document.needed)):
            findings.append(run_claim_check(f"needed {place + 1}", partial(self._check_needed, place)))
        return findings

    def _check_counterfactual(self) -> str:
        """That there is one after all, under all restrictions that there are."""
        assert self.document.counterfactual is not None
        part = self.parts.build_part([self.document.counterfactual], cost=DEFAULT_COST, resolution=1.0)
        part.check_points()
        if self.document.proven:
            raise ClaimFailed("there is said to be none, but the document has one")
        return "the model gives it what is to be reached"

    def _check_restrictions(self) -> str:
        """That all are restrictions which the document says that the search had, and what they say of themselves."""
        claim = self.parts.whole.claim
        for one in self.document.needed:
            absent = [text for text in one.constraints if text not in claim.change_constraints]
            if absent:
                raise ClaimFailed(f"no such constraint limited the changes that were searched: {absent[0]}")
            if one.kind == "fixed":
                self._require_fixed(one)
            elif one.kind != "constraint":
                self._require_own_feature(one)
            if not _has_own_words(one):
                raise ClaimFailed(f"a restriction must be named as it is, but one is said to be {one.text!r}")
        if len({(one.kind, one.feature, one.constraints) for one in self.document.needed}) < len(self.document.needed):
            raise ClaimFailed("a restriction must be named once, but one is named twice")
        told = f"all {len(self.document.needed)} are among those that limited the search"
        ranges = any(one.kind == "range" for one in self.document.needed)
        return f"{told}; of ranges the constraints count, not the words" if ranges else told

    def _require_fixed(self, one: RestrictionClaim) -> None:
        """Raise ClaimFailed unless a feature that may not vary is one of the space, and is not among those that do."""
        if one.constraints or one.feature not in self.parts.names or one.feature in self.parts.varying:
            raise ClaimFailed(f"{one.feature!r} is said not to vary, but that was not so")

    def _require_own_feature(self, one: RestrictionClaim) -> None:
        """Raise ClaimFailed unless the constraints of a restriction on one feature speak of that alone."""
        try:
            parsed = parse_constraints(one.constraints)
        except ConstraintError as error:
            raise ClaimFailed(f"a restriction cannot be read: {error.statement}") from None
        if not parsed or any(set(constraint.features) != {one.feature} for constraint in parsed):
            raise ClaimFailed(f"the {one.kind} of {one.feature!r} must speak of that feature alone")
        if one.kind == "price" and math.inf not in (self.document.asked.cost.prices or {}).get(str(one.feature), ()):
            raise ClaimFailed(f"no change of {one.feature!r} has a price of infinity")

    def _limit(self, restrictions: tuple[RestrictionClaim, ...]) -> dict[str, Any]:
        """What may change under some restrictions alone."""
        fixed = {one.feature for one in restrictions if one.kind == "fixed"}
        return {
            "features": [name for name in self.parts.names if name not in fixed],
            "constraints": [text for one in restrictions for text in one.constraints],
        }

    def _check_none(self) -> str:
        needed = self.document.needed
        part = self.parts.build_part((), cost=DEFAULT_COST, **self._limit(needed))
        told = part.check_no_other()
        return f"under {_list(needed)}: {told}" if needed else f"whatever may change: {told}"

    def _check_needed(self, place: int) -> str:
        """That without one restriction there is a counterfactual that obeys the others."""
        one, needed = self.document.needed[place], self.document.needed
        if one.without_it is None:
            raise ClaimUndecided(f'no counterfactual is named that there is without "{one}"')
        limits = self._limit((*needed[:place], *needed[place + 1 :]))
        if not one.nearest:
            self.parts.build_part([one.without_it], cost=DEFAULT_COST, resolution=1.0, **limits).check_points()
            return f'without "{one}" there is a counterfactual that obeys the others'
        part = self.parts.build_part([one.without_it], resolution=one.resolution, **limits)
        part.check_points()
        values = {name: value_from_json(value) for name, value in one.without_it["values"].items()}
        require_fine(one.resolution, part.build_prices(part.conditions).measure_change(values)[1])
        return f'without "{one}" there is a counterfactual that obeys the others; {part.check_nearest(0)}'

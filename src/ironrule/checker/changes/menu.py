"""A menu of changes: its document, and its claims.

Each entry is checked by itself: the model gives its change what is to be reached, it changes what it says, it costs
what it says, and nothing cheaper changes these features alone. A minimal set has no proper subset that will do; a
complete menu of minimal sets leaves out none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from ironrule.checker.changes.claims import CallersMeaning
from ironrule.checker.changes.costs import DEFAULT_COST, TOLERANCE
from ironrule.checker.changes.counterfactuals import CounterfactualsChecker, format_plain_value
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
    parse_number,
    parse_text,
    parse_value,
    record_of,
)
from ironrule.checker.result import Check, ClaimFailed, ClaimUndecided, Finding, run_claim_check
from ironrule.checker.scope import UserInputs
from ironrule.checker.space.space import value_from_json

MENU_FORMAT = 1
MAX_ENTRIES = 1_000  # each is searched for by itself


@dataclass(frozen=True, slots=True)
class EntryClaim:
    """A set of features, and what is said to be the cheapest change of no others; None where there is none."""

    name: str
    features: tuple[str, ...]
    counterfactual: JsonObject | None
    distance: float | None
    proven: bool
    minimal: bool | None
    resolution: float
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class MenuDocument:
    """A menu as its document has it; ``of_groups``: its entries are groups that somebody named."""

    kind: ClassVar[Literal["menu"]] = "menu"
    asked: AskedClaim
    of_groups: bool
    entries: tuple[EntryClaim, ...]
    complete: bool
    digest: str
    data: JsonObject


def parse_menu(data: Mapping[str, Any]) -> MenuDocument:
    """The menu in JSON data; raises InputError if it is malformed."""
    return parse_format(data, "menu_format", MENU_FORMAT, "a menu", _parse_whole)


def _parse_whole(data: Any) -> MenuDocument:
    fields = _parse_document(data)
    of_groups = fields.pop("kind") == "groups"
    return MenuDocument(asked=take_asked(fields), of_groups=of_groups, data=dict(data), **fields)


_parse_entry = record_of(EntryClaim, {
    "name": parse_text,
    "features": list_of(parse_text),
    "counterfactual": optional(parse_counterfactual),
    "distance": optional(parse_number),
    "proven": one_of("proven", True, False),
    "minimal": one_of("minimal", True, False, None),
    "resolution": parse_not_negative,
}, {"cost": parse_number})  # fmt: skip
_parse_document = record_of(dict, {
    "menu_format": parse_count,
    "kind": one_of("the kind of a menu", "minimal sets", "groups"),
    "instance": object_of(parse_value),
    "entries": list_of(_parse_entry),
    "complete": one_of("complete", True, False),
    "stopped": optional(parse_text),
    "digest": parse_text,
}, ASKED_FIELDS, checked_only=("menu_format", "stopped", "labels"))  # fmt: skip


def check_menu(document: MenuDocument, inputs: UserInputs, meaning: CallersMeaning) -> Check:
    """What becomes of the claims of a menu."""
    found = check_parts(document, inputs, meaning, lambda parts: _MenuChecker(document, parts).check_claims())
    proven = all(one.proven and (document.of_groups or one.minimal) for one in document.entries)
    claims_proof = proven and (document.entries or document.complete)
    return Check(_describe(document), "proven" if claims_proof else "unrefuted", *found, document="menu")


def _describe(document: MenuDocument) -> str:
    """The claim in a sentence."""
    if not document.entries:
        return "No features can be changed to reach it" if document.complete else "No change was found"
    count, first = len(document.entries), document.entries[0].counterfactual
    what = "groups" if document.of_groups else "minimal sets"
    others = "" if document.complete or document.of_groups else "; there may be others"
    if first is None:
        return f"{count} {what} of features, none of which can be changed to reach it{others}"
    changes = ", ".join(
        f"{one['feature']}: {format_plain_value(one['before'])} -> {format_plain_value(one['after'])}"
        for one in first["changes"]
    )
    return f"{count} {what} of features to change; the cheapest change is {changes}{others}"


@dataclass(frozen=True, slots=True, eq=False)
class _MenuChecker:
    """A menu, and what checks its parts."""

    document: MenuDocument
    parts: PartChecker

    def check_claims(self) -> list[Finding]:
        """Every claim with what becomes of it."""
        entries = self.document.entries
        findings = [run_claim_check("entries", self._check_entries)]
        if findings[-1].status != "holds":
            return findings
        for place in range(len(entries)):
            findings.append(run_claim_check(f"entry {place + 1}", partial(self._check_change, place)))
        if any(one.status != "holds" for one in findings):
            return findings
        findings.append(run_claim_check("order", self._check_order))
        for place, one in enumerate(entries, 1):
            findings.append(run_claim_check(f"cheapest {place}", partial(self._check_cheapest, one)))
            if not self.document.of_groups:
                findings.append(run_claim_check(f"minimal {place}", partial(self._check_minimal, one)))
        if self.document.complete:
            findings.append(run_claim_check("complete", self._check_complete))
        return findings

    def _check_entries(self) -> str:
        """That the sets of features are such, and what is said of them fits together."""
        entries, varying = self.document.entries, {*self.parts.varying}
        if len(entries) > MAX_ENTRIES:
            raise ClaimUndecided(f"a menu of more than {MAX_ENTRIES:,} entries is not checked")
        if len({one.name for one in entries}) < len(entries):
            raise ClaimFailed("entries must have different names, but two have the same")
        for one in entries:
            if len({*one.features}) < len(one.features) or not {*one.features} <= varying:
                raise ClaimFailed(f"an entry must be of features that may vary, each named once, got {one.name!r}")
            if (one.counterfactual is None) != (one.distance is None):
                raise ClaimFailed("an entry must have a distance if it has a change, but one is missing")
            if not self.document.of_groups:
                self._require_minimal_set(one)
            elif one.minimal is not None:
                raise ClaimFailed("of groups it is not said whether they are minimal, but one is")
        if not self.document.of_groups and len({frozenset(one.features) for one in entries}) < len(entries):
            raise ClaimFailed("sets of features must be listed once, but one is listed twice")
        if self.document.of_groups and self.document.complete and not all(one.proven for one in entries):
            raise ClaimFailed("a menu of groups is complete if every group has its proven answer, but one has not")
        return f"{len(entries)} {'groups' if self.document.of_groups else 'sets'} of features"

    def _require_minimal_set(self, one: EntryClaim) -> None:
        """Raise ClaimFailed unless an entry says all that one of a menu of minimal sets must say."""
        if one.counterfactual is None or one.minimal is None:
            raise ClaimFailed("a minimal set must have its change, and it must be said whether it is minimal")
        if one.name != " + ".join(one.features):
            raise ClaimFailed(f"a set must be named after its features, got {one.name!r}")
        changed = {change["feature"] for change in one.counterfactual["changes"]}
        if one.minimal and changed != {*one.features}:
            raise ClaimFailed("the change of a minimal set must change all its features and no others")

    def _build_part(self, one: EntryClaim) -> CounterfactualsChecker:
        """The checker of the claim that a change is the cheapest where only the features of an entry may vary."""
        given = [] if one.counterfactual is None else [one.counterfactual]
        return self.parts.build_part(given, features=one.features, resolution=one.resolution)

    def _check_change(self, place: int) -> str:
        """That the model gives a change what is to be reached, and what it costs."""
        one = self.document.entries[place]
        if one.counterfactual is None:
            return "no change is named"
        self._build_part(one).check_points()
        distance, cost = self._measure(one, usual=True)[1], self._measure(one)[1]
        if not _are_close(distance, one.distance):
            raise ClaimFailed(f"the distance is {distance:.6g}, but {one.distance:.6g} is claimed")
        if one.cost is not None and not _are_close(cost, one.cost):
            raise ClaimFailed(f"the cost is {cost:.6g}, but {one.cost:.6g} is claimed")
        return f"the model gives it what is to be reached; distance {distance:.6g}, cost {cost:.6g}"

    def _measure(self, one: EntryClaim, usual: bool = False) -> tuple[int, float]:
        """How many features the change of an entry changes, and what it costs."""
        assert one.counterfactual is not None
        part = self.parts.build_part([], cost=DEFAULT_COST) if usual else self.parts.whole
        prices = part.build_prices(part.conditions)
        return prices.measure_change({name: value_from_json(v) for name, v in one.counterfactual["values"].items()})

    def _check_order(self) -> str:
        """That the cheapest come first, those without a change last."""
        entries, prices = self.document.entries, self.parts.whole.build_prices(self.parts.whole.conditions)
        known = [one for one in entries if one.counterfactual is not None]
        if known != [*entries[: len(known)]]:
            raise ClaimFailed("groups for which there is no change must be listed last, but they are not")
        costs = list(map(self._measure, known))
        if not all(prices.is_before(costs[place - 1], costs[place], 0.0) for place in range(1, len(costs))):
            raise ClaimFailed("entries must be listed cheapest first, but they are not")
        return "the cheapest come first"

    def _check_cheapest(self, one: EntryClaim) -> str:
        if not one.proven:
            raise ClaimUndecided("it is not claimed to be the cheapest")
        require_fine(one.resolution, 0.0 if one.counterfactual is None else self._measure(one)[1])
        part = self._build_part(one)
        told = part.check_no_other() if one.counterfactual is None else part.check_nearest(0)
        return f"of changes of {', '.join(one.features)}: {told}"

    def _check_minimal(self, one: EntryClaim) -> str:
        if not one.minimal:
            raise ClaimUndecided("it is not claimed that all of its features are needed")
        pieces = self._build_part(one).prove_no_other()
        return f"changing only some of {', '.join(one.features)} will not do; pieces closed: {pieces:,}"

    def _check_complete(self) -> str:
        if self.document.of_groups:
            return "every group has its answer"
        given = [one.counterfactual for one in self.document.entries if one.counterfactual is not None]
        return f"there is no other minimal set; pieces closed: {self.parts.build_part(given).prove_no_other():,}"


def _are_close(actual: float, claimed: float | None) -> bool:
    return claimed is not None and abs(actual - claimed) <= TOLERANCE * max(1.0, abs(actual))

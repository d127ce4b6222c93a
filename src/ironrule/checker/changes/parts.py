"""Claims about a menu, or about restrictions, put as claims about counterfactuals of the same row.

That a change is the cheapest of some features is that a counterfactual is the nearest one where only these may vary.
That no proper subset of them will do is that there is no other one there that does not change all of them. That
restrictions forbid every counterfactual is that there is none under them. So each claim becomes a small document of
counterfactuals, with limits of its own, and is checked as such (:mod:`~ironrule.checker.changes.counterfactuals`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from ironrule.checker.changes.claims import CallersMeaning, DigestedDocument, build_or_say
from ironrule.checker.changes.costs import DEFAULT_COST, CostClaim
from ironrule.checker.changes.counterfactuals import CounterfactualsChecker
from ironrule.checker.changes.document import CounterfactualsDocument, ScopeClaim
from ironrule.checker.checker import check_digest
from ironrule.checker.document import JsonObject
from ironrule.checker.result import ClaimUndecided, Finding, ReadingSource, run_claim_check
from ironrule.checker.scope import UserInputs

LARGEST_RESOLUTION = 0.05  # of a range, or of the cost: known less exactly, a change is hardly the cheapest
ASKED_NAMES = ("instance", "scope", "cost", "target", "margin", "further_models")


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """The row that a document is about, what was asked for, and what was searched."""

    instance: JsonObject
    scope: ScopeClaim | None = None
    cost: CostClaim = DEFAULT_COST
    target: JsonObject | None = None
    margin: float = 0.0
    further_models: int = 0


class AskedDocument(DigestedDocument, Protocol):
    """A document that says what was asked for."""

    @property
    def asked(self) -> AskedClaim:
        """What was asked for."""


def take_asked(fields: dict[str, Any]) -> AskedClaim:
    """What was asked for, taken out of the fields of a document."""
    return AskedClaim(**{name: fields.pop(name) for name in ASKED_NAMES if name in fields})


@dataclass(slots=True, eq=False)
class PartChecker:
    """What was asked for, and a checker of it, from which those of single claims are made."""

    asked: AskedClaim
    whole: CounterfactualsChecker
    made: list[CounterfactualsChecker]

    @classmethod
    def build(
        cls, asked: AskedClaim, inputs: UserInputs, meaning: CallersMeaning, findings: list[Finding]
    ) -> PartChecker | None:
        """Check what is spoken of, into ``findings``; None where nothing else can be said."""
        document = _write_document(asked, ())
        whole = build_or_say(partial(CounterfactualsChecker.build, document, inputs, meaning), findings)
        if whole is None:
            return None
        findings += whole.check_setting()
        return cls(asked, whole, [whole]) if findings[-1].status == "holds" else None

    @property
    def names(self) -> tuple[str, ...]:
        """The features of the space."""
        return self.whole.conditions.space.names

    @property
    def varying(self) -> tuple[str, ...]:
        """The features that may vary, as the document says."""
        named = self.whole.claim.features_to_vary
        return self.names if named is None else named

    def build_part(
        self,
        counterfactuals: Sequence[JsonObject],
        *,
        features: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
        cost: CostClaim | None = None,
        resolution: float = 0.0,
    ) -> CounterfactualsChecker:
        """The checker of the claim that these are the nearest where only some features may vary, and only some
        constraints limit changes; without either, those that the document names.
        """
        claim = replace(self.whole.claim, k=len(counterfactuals) + 1)
        if features is not None:
            claim = replace(claim, features_to_vary=tuple(features))
        if constraints is not None:
            claim = replace(claim, change_constraints=tuple(constraints))
        asked = replace(self.asked, scope=claim, cost=self.asked.cost if cost is None else cost)
        document = _write_document(asked, counterfactuals, resolution)
        self.made.append(replace(self.whole, document=document, claim=claim, finer=None, more={}, pieces=0))
        return self.made[-1]

    def find_reading_source(self) -> ReadingSource:
        """Who read the models, if that was needed."""
        sources = {one.find_reading_source() for one in self.made}
        return "shared" if "shared" in sources else "own" if "own" in sources else "none"

    def list_notes(self) -> list[str]:
        """What was taken from the document without comparing it with what the caller means."""
        notes, scope, meaning = [*self.whole.meaning.list_notes()], self.whole.claim, self.whole.meaning
        if self.asked.margin and meaning.margin is None:
            notes.append(
                "the margin by which scores may move was taken from the document; pass margin= (--margin) to compare"
            )
        if self.asked.cost != DEFAULT_COST or scope.change_constraints or scope.features_to_vary is not None:
            notes.append("what may change, and what it costs, was taken from the document")
        return notes


class PartsFound(NamedTuple):
    """What becomes of a document whose claims are checked part by part, who read the model, and the notes."""

    findings: tuple[Finding, ...]
    reading: ReadingSource
    notes: tuple[str, ...]


def check_parts(
    document: AskedDocument,
    inputs: UserInputs,
    meaning: CallersMeaning,
    check_claims: Callable[[PartChecker], list[Finding]],
) -> PartsFound:
    """Check the digest of a document, what it speaks of, and, if it is what is at hand, its claims."""
    findings = [run_claim_check("digest", partial(check_digest, document))]
    parts = PartChecker.build(document.asked, inputs, meaning, findings)
    if parts is None:
        return PartsFound(tuple(findings), "none", tuple(meaning.list_notes()))
    findings += check_claims(parts)
    return PartsFound(tuple(findings), parts.find_reading_source(), tuple(parts.list_notes()))


def _write_document(
    asked: AskedClaim, counterfactuals: Sequence[JsonObject], resolution: float = 0.0
) -> CounterfactualsDocument:
    return CounterfactualsDocument(
        instance=asked.instance,
        counterfactuals=tuple(counterfactuals),
        proven=True,
        resolution=resolution,
        domains={},
        digest="",
        data={},
        scope=asked.scope,
        cost=asked.cost,
        target=asked.target,
        margin=asked.margin,
        further_models=asked.further_models,
    )


def require_fine(resolution: float, cost: float) -> None:
    """Raise ClaimUndecided where a change is said to be the cheapest up to so much that this says little."""
    if resolution > LARGEST_RESOLUTION * max(1.0, cost):
        raise ClaimUndecided(f"it is said to be the cheapest up to {resolution:g} alone")

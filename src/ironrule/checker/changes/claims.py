"""What counterfactuals and regions claim alike: what had to be reached, and for which space and model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from ironrule.checker.changes.document import ScopeClaim
from ironrule.checker.changes.space import ChangeConditions, list_conditions
from ironrule.checker.document import JsonObject, to_canonical_json
from ironrule.checker.intervals import is_interval_feature, summarize_domains
from ironrule.checker.result import ClaimFailed, ClaimUndecided, Finding
from ironrule.checker.scope import MAX_PAST_ROWS, NOT_COMPARED, UserInputs
from ironrule.checker.space.space import value_from_json
from ironrule.checker.user_models import OutcomeTarget, parse_target, require_same_target
from ironrule.errors import InputError, OutcomeError

T = TypeVar("T")
MAX_CACHED = 8
_TRUE, _FALSE = "Every claim was checked against the model", "A claim is false or was altered"
_OPEN = "Not everything could be checked, or the document claims no proof"
_ENDS = {  # of what is said of a document that is proven, and of one that is refuted
    "counterfactuals": (
        ": nothing is nearer, and there is no other than claimed",
        ", or there is a nearer counterfactual",
    ),
    "region": (", and every point of the region is desired", ", or a point of the region is denied"),
    "menu": (
        ": each change is the cheapest of its features",
        ", or there is a cheaper change, or another one than claimed",
    ),
    "infeasibility": (": there is none, and each restriction is needed", ", or there is a counterfactual"),
}
MEANINGS = {
    name: {"proven": _TRUE + proven, "refuted": _FALSE + refuted, "undecided": _OPEN}
    for name, (proven, refuted) in _ENDS.items()
}


class DigestedDocument(Protocol):
    """A document with its digest."""

    @property
    def digest(self) -> str:
        """What the document says that its digest is."""

    @property
    def data(self) -> JsonObject:
        """Everything that it says."""


@dataclass(frozen=True, slots=True)
class CallersMeaning:
    """What the caller says of the decision, if anything, to compare a document with; and what is kept of documents
    before.
    """

    target: OutcomeTarget | None
    margin: float | None
    intervals: bool
    cache: dict[str, Any]

    def get_built(self, key: Any, build: Callable[[], T]) -> T:
        """What was built for a document before, or is built now: reading a model takes time."""
        text = repr(key)
        if text not in self.cache:
            built = build()
            if len(self.cache) >= MAX_CACHED:
                self.cache.pop(next(iter(self.cache)))
            self.cache[text] = built
        found: T = self.cache[text]
        return found

    def list_notes(self) -> Iterator[str]:
        """What the caller left out."""
        if self.target is None:
            yield NOT_COMPARED


def build_or_say(build: Callable[[], T], findings: list[Finding]) -> T | None:
    """What is built; None where that cannot be, which the findings then say."""
    try:
        return build()
    except ClaimUndecided as reason:
        findings.append(Finding("decision", "undecided", str(reason)))
    except ClaimFailed as reason:
        findings.append(Finding("decision", "fails", str(reason)))
    return None


def build_conditions(
    claim: ScopeClaim, inputs: UserInputs, meaning: CallersMeaning, margin: float = 0.0
) -> tuple[list[tuple[Any, OutcomeTarget, bool]], ChangeConditions]:
    """What each model must reach, and these conditions over the space; raises ClaimUndecided if there are none."""
    try:
        targets = list_conditions(inputs.models, read_target(claim), claim.upper, margin)
        key = ("conditions", len(inputs.models), claim.decision, claim.upper, margin, claim.breakpoints)
        build = partial(ChangeConditions.build, inputs, targets, claim, {})
        return targets, meaning.get_built((*key, claim.extended_values), build)
    except OutcomeError as error:
        differs = "the document's outcomes are not those of the model at hand"
        raise ClaimUndecided(f"{differs}: {error.statement}") from None


def read_target(claim: ScopeClaim) -> OutcomeTarget:
    """What is said to be desired; raises ClaimUndecided if it makes no sense."""
    decision = claim.decision
    try:
        desired = None if decision.desired is None else tuple(map(value_from_json, decision.desired))
        return parse_target(desired, decision.threshold, 0.0, decision.direction)
    except (TypeError, ValueError) as error:
        raise ClaimUndecided(f"what is to be reached cannot be understood: {error}") from None


def require_same_target_claim(target: Mapping[str, Any], claim: ScopeClaim) -> None:
    """Raise ClaimFailed unless a target is what the searched decision says."""
    by_class = "above" not in target and "at_most" not in target
    named = target.get("desired")
    same = (claim.decision.threshold, claim.upper) == (target.get("above"), target.get("at_most"))
    if not same or ((by_class or named is not None) and list(claim.decision.desired or ()) != list(named or ())):
        raise ClaimFailed("the target must be what was searched for, but the document names two")


def check_decision(
    claim: ScopeClaim,
    conditions: ChangeConditions,
    meaning: CallersMeaning,
    inputs: UserInputs,
    has_own_target: bool = False,
) -> str:
    """What had to be reached, compared with what the caller means."""
    names = " and ".join(scope.user_models.decision.desired_name for scope in conditions.scopes)
    if meaning.target is None:
        return f"to be reached is {names}, as the document says; this was not compared with what the caller means"
    if has_own_target:
        return f"to be reached is {names}, a target of its own beside what is desired"
    try:
        decision = conditions.scopes[0].user_models.decision
        require_same_target(read_target(claim), meaning.target, decision, inputs.models[0])
    except InputError as reason:
        raise ClaimFailed(f"the document speaks of another decision than the caller: {reason.statement}") from None
    return f"to be reached is {names}, as the caller says"


def check_space(claim: ScopeClaim, conditions: ChangeConditions, meaning: CallersMeaning) -> str:
    """That a document speaks of the space at hand."""
    space = conditions.space
    if claim.space != space.fingerprint:
        raise ClaimUndecided("the document is about another space: other domains, features or constraints")
    if claim.constraints != space.constraints:
        raise ClaimFailed("the document names other constraints than those of the space that it speaks of")
    if meaning.intervals and claim.breakpoints is None:
        raise ClaimUndecided("the document is about values seen, not about whole intervals")
    every = "every number between the values of the domains" if claim.breakpoints is not None else "the values seen"
    has_intervals = any(map(is_interval_feature, space.features))
    return f"the document is about the space at hand, {every if has_intervals else 'the values seen'}"


def require_known_domains(domains: Mapping[str, Any], conditions: ChangeConditions) -> None:
    """Raise ClaimFailed for domains that are not those of the space."""
    known = summarize_domains(conditions.space)
    if any(to_canonical_json(one) != to_canonical_json(known.get(name)) for name, one in domains.items()):
        raise ClaimFailed("the domains that the document names are not those of the space that it speaks of")


def check_model(claim: ScopeClaim, conditions: ChangeConditions) -> str:
    """That the model is the one that was searched: it is known by its decisions on past rows."""
    rows = np.ascontiguousarray(conditions.past_rows[:MAX_PAST_ROWS], dtype=np.int32)
    decided = hashlib.sha256(rows.tobytes() + conditions.desired(rows).tobytes()).hexdigest()[:32]
    if claim.model.split("-")[0] != decided:
        raise ClaimUndecided("the document is about another model, or other past rows")
    return "the model decides past rows as the one that was searched"

"""The checker: from an explanation and the user's own model and data to what is true of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

from ironrule.errors import OutcomeError
from ironrule.model.versions import Wanted
from ironrule.rule.component import Component
from ironrule.rule.rule import Rule
from ironrule.space import Constraint, Space
from ironrule.space.plain import from_plain
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.checker.claims import Claims
from ironrule.verdict.checker.document import Claim, Counterexample, Decided, Document, document_of
from ironrule.verdict.checker.result import Check, Fails, Finding, Undecided, finding
from ironrule.verdict.checker.scope import Scope, ground_of, scope_of
from ironrule.verdict.digest import digest_of


class Checker:
    """Checks explanations of one model, made once for many of them.

    Takes the model, the data, the space and the constraints as an :class:`~ironrule.Explainer` does; what counts as
    desired stands in each explanation. It shares no code with the searches that explain.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        space: Space | None = None,
        constraints: Sequence[str | Constraint] = (),
        columns: Sequence[str] | None = None,
        models: Sequence[Any] = (),
        intervals: bool = False,
        progress: bool | None = None,
    ) -> None:
        self._ground = ground_of((model, *models), data, space, constraints, columns, intervals, progress)
        self._scopes: dict[str, Scope] = {}

    def check(self, explanation: Any) -> Check:
        """Check every claim of an explanation, given as such, as plain data or as JSON.

        Raises InputError if it is no explanation, or its document is malformed.
        """
        document = document_of(explanation)
        findings = [finding("digest", lambda: _digest(document))]
        findings += self._judged(document)
        best = document.rules[0]
        return Check(_sentence(best), _claimed(best), tuple(findings))

    def _judged(self, document: Document) -> list[Finding]:
        """The scope first: of another space or model nothing can be said."""
        try:
            scope = self._scope(document.decision)
        except Undecided as reason:
            return [Finding("decision", "undecided", str(reason))]
        findings = []
        for claim, judge in (("space", _space), ("model", _model), ("models", _models)):
            findings.append(finding(claim, partial(judge, document, scope)))
            if findings[-1].status != "holds":
                return findings
        try:
            claims = Claims.of(document, scope)
        except Fails as reason:
            return [*findings, Finding("instance", "fails", str(reason))]
        return [*findings, *claims.judged()]

    def _scope(self, decision: Decided) -> Scope:
        """The models with what counts as desired; kept, since explanations of one model mostly agree on it."""
        key = repr(decision)
        if key not in self._scopes:
            wanted = _wanted(decision)
            try:
                self._scopes[key] = scope_of(self._ground, wanted)
            except OutcomeError as error:
                raise Undecided(f"the explanation's outcomes are not those of the model at hand: {error}") from None
        return self._scopes[key]


def check(
    explanation: Any,
    model: Any,
    data: Any,
    *,
    space: Space | None = None,
    constraints: Sequence[str | Constraint] = (),
    columns: Sequence[str] | None = None,
    models: Sequence[Any] = (),
    intervals: bool = False,
    progress: bool | None = None,
) -> Check:
    """Check every claim of an explanation against a model and the past rows.

    ``explanation`` is an Explanation, its plain data or its JSON; the other arguments are those that the explainer
    was made with. What counts as desired stands in the explanation. Raises InputError if the document is malformed.
    """
    made = Checker(
        model,
        data,
        space=space,
        constraints=constraints,
        columns=columns,
        models=models,
        intervals=intervals,
        progress=progress,
    )
    return made.check(explanation)


def _digest(document: Document) -> str:
    if document.digest != digest_of(document.whole):
        raise Fails("the document was altered after it was written")
    return "the document is as it was written"


def _wanted(decision: Decided) -> Wanted:
    try:
        desired = None if decision.desired is None else tuple(map(from_plain, decision.desired))
        return Wanted.of(desired, decision.threshold, decision.margin)
    except (TypeError, ValueError) as error:
        raise Undecided(f"the explanation's outcomes cannot be understood: {error}") from None


def _space(document: Document, scope: Scope) -> str:
    named, known = document.constraints, tuple(map(str, scope.space.constraints))
    if document.space != scope.space.fingerprint:
        given = "" if named in (None, known) else f"; it was made with --constraint {shlex.join(named or ())}"
        raise Undecided(f"the explanation is about another space: other domains, features or constraints{given}")
    if named not in (None, known):
        raise Fails("the explanation names other constraints than those of the space that it speaks of")
    return f"the explanation is about the space at hand{', where ' + ' and '.join(known) if known else ''}"


def _model(document: Document, scope: Scope) -> str:
    """Whether the model is the one explained; a model that was only asked is known by its answers alone."""
    if document.unread is not None:
        if document.model != scope.behaviour:
            raise Undecided("the explanation is about another model, or other past rows")
        return "the model decides past rows as the one that was explained"
    if isinstance(scope.parts, str):
        raise Undecided(f"the model cannot be read here: {scope.parts}")
    if document.model != scope.fingerprint:
        raise Undecided("the explanation is about another model")
    return "the model decides by the same trees and sums as the one that was explained"


def _models(document: Document, scope: Scope) -> str:
    there = len(scope.models)
    if document.models != there:
        raise Fails(f"the rule is said to hold for {document.models} models together, but {there} are at hand")
    return "it is about that model alone" if document.models == 1 else f"it is about all {document.models} together"


def _claimed(claim: Claim) -> Any:
    if isinstance(claim.verdict, Certificate):
        return "proven"
    return "refuted" if isinstance(claim.verdict, Counterexample) else "unrefuted"


def _sentence(claim: Claim) -> str:
    """The rule in words, as the document has it."""
    components = tuple(Component(str(c["feature"]), c["op"], _value(c["value"])) for c in claim.components)
    return str(Rule(components, claim.outcome))


def _value(plain: Any) -> Any:
    try:
        return from_plain(plain)
    except (TypeError, ValueError):
        return plain

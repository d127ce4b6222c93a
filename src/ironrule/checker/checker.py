"""The checker: from a document, and the user's own model and data, to what is true of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from ironrule.checker.claims import ClaimChecker
from ironrule.checker.components import describe_rule
from ironrule.checker.document import (
    CertificateClaim,
    ExplanationDocument,
    compute_digest,
    parse_document,
    to_canonical_json,
)
from ironrule.checker.intervals import can_be_interval, is_interval_feature, summarize_domains
from ironrule.checker.result import Check, ClaimFailed, ClaimUndecided, Finding, ReadingSource, run_claim_check
from ironrule.checker.scope import NOT_COMPARED, CheckScope, build_scope, read_user_inputs
from ironrule.checker.space.space import value_from_json
from ironrule.checker.user_models import OutcomeTarget, parse_callers_target, parse_target, require_same_target
from ironrule.errors import InputError, OutcomeError, describe_value

NOT_GIVEN: Final = object()
MAX_CACHED_SCOPES = 8


class Checker:
    """Checks explanations, ladders and documents of changes of one model, made once for many of them.

    Takes the model, the data, the space and the constraints as an :class:`~ironrule.Explainer` does. What counts as
    desired stands in each document; ``desired``, ``threshold`` and ``margin`` say what the caller means, and an
    explanation that means something else is refuted. ``intervals=True`` demands that the claims are about every number
    between the values of the domains. A model that the checker cannot read itself is read as the explainer does, and
    the result says "reading shared"; with ``allow_shared_reading=False`` its proofs stay undecided. ``measure`` is the
    mask or the table that ladders were measured on, if they were not measured on half of the data.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        space: Any = None,
        constraints: Sequence[Any] = (),
        columns: Sequence[str] | None = None,
        models: Sequence[Any] = (),
        intervals: bool = False,
        desired: Any = NOT_GIVEN,
        threshold: Any = NOT_GIVEN,
        margin: float | None = None,
        allow_shared_reading: bool = True,
        measure: Any = None,
    ) -> None:
        if not isinstance(models, (list, tuple)):
            raise InputError(expected="models must be a list of models", got=describe_value(models))
        self._materials = read_user_inputs(
            (model, *models), data, space, constraints, columns=columns, allow_shared_reading=allow_shared_reading
        )
        self._intervals = intervals
        self._expected: OutcomeTarget | None = None
        if desired is not NOT_GIVEN or threshold is not NOT_GIVEN:
            label, level = (None if one is NOT_GIVEN else one for one in (desired, threshold))
            self._expected = parse_callers_target(label, level, model)
        self._margin = None if margin is None else parse_target(None, None, margin).margin
        self._scopes: dict[str, CheckScope] = {}
        self._measure, self._known_rows = measure, dict[Any, Any]()  # of ladders
        self._known_changes, self._known_suggestions = dict[str, Any](), dict[str, Any]()  # of changes

    def check(self, explanation: Any) -> Check:
        """Check every claim of a result, its plain data or its JSON; raises InputError for what is none of these."""
        document = parse_document(explanation)
        if document.kind == "explanation":
            return self._check_explanation(document)[0]
        if document.kind == "ladder":
            from ironrule.checker.ladder import check_ladder

            return check_ladder(document, self._check_explanation, self._materials, self._measure, self._known_rows)
        from ironrule.checker.changes.counterfactuals import check_changes

        caller = self._expected, self._margin, self._intervals
        return check_changes(document, self._materials, caller, self._known_changes)

    def _check_explanation(self, document: ExplanationDocument) -> tuple[Check, CheckScope | None]:
        """What becomes of an explanation; the scope too, if it is about the model and the space at hand."""
        scope = None
        findings = [run_claim_check("digest", partial(check_digest, document))]
        try:
            scope = self._find_scope(document)
        except ClaimUndecided as reason:
            findings.append(Finding("decision", "undecided", str(reason)))
        else:
            findings += self._check_claims(document, scope)
        best = document.rules[0]
        sentence, reading = describe_rule(best.components, best.outcome), _find_reading_source(document, scope)
        notes = tuple(self._list_notes(document))
        fits = any(finding.claim == "instance" and finding.status == "holds" for finding in findings)
        return Check(sentence, best.verdict.kind, tuple(findings), reading, notes), scope if fits else None

    def _list_notes(self, document: ExplanationDocument) -> Iterator[str]:
        """What was taken from the document without comparing it with what the caller means."""
        if self._expected is None:
            yield NOT_COMPARED
        if document.decision.margin and self._margin is None:
            yield "the margin by which scores may move was taken from the document; pass margin= (--margin) to compare"
        permission = document.restrictions
        if permission.require or permission.forbid or permission.weights:
            yield "which rules were permitted, and what their components weigh, was taken from the document"
        if texts := " and ".join(self._materials.change_constraints):
            yield f"constraints on what may change say nothing about rules: {texts}"

    def _find_scope(self, document: ExplanationDocument) -> CheckScope:
        """The models with what counts as desired; kept, since explanations of one model mostly agree on it."""
        key = repr((document.decision, document.breakpoints, document.extended_values))
        if key not in self._scopes:
            target = _read_target(document)
            try:
                scope = build_scope(self._materials, target, document.breakpoints, document.extended_values)
            except OutcomeError as error:
                differs = "the explanation's outcomes are not those of the model at hand"
                raise ClaimUndecided(f"{differs}: {error.statement}") from None
            if len(self._scopes) >= MAX_CACHED_SCOPES:
                self._scopes.pop(next(iter(self._scopes)))
            self._scopes[key] = scope
        return self._scopes[key]

    def _check_claims(self, document: ExplanationDocument, scope: CheckScope) -> list[Finding]:
        """What is spoken of first: of another space or model nothing can be said."""
        findings = []
        own = {"decision": self._check_decision, "space": self._check_space}
        for claim, check in (own | {"model": _check_model, "models": _check_models}).items():
            findings.append(run_claim_check(claim, partial(check, document, scope)))
            if findings[-1].status != "holds":
                return findings
        try:
            claims = ClaimChecker.build(document, scope, partial(self._check_nearest_changes, document))
        except ClaimFailed as reason:
            return [*findings, Finding("instance", "fails", str(reason))]
        return [*findings, *claims.check_claims()]

    def _check_nearest_changes(self, document: ExplanationDocument) -> str:
        from ironrule.checker.changes.suggested import check_nearest_changes

        return check_nearest_changes(document, self._materials, self._known_suggestions)

    def _check_decision(self, _: ExplanationDocument, scope: CheckScope) -> str:
        margin = scope.target.margin
        moved = f", where every score may move by {margin!r}" if margin else ""
        sentence = f"desired is {scope.user_models.decision.desired_name}{moved}"
        if self._expected is None:
            return f"{sentence}, as the document says; this was not compared with what the caller means"
        try:
            require_same_target(scope.target, self._expected, scope.user_models.decision, scope.models[0])
        except InputError as reason:
            raise ClaimFailed(f"the document speaks of another decision than the caller: {reason.statement}") from None
        if self._margin is not None and margin != self._margin:
            raise ClaimFailed(f"the margin is {margin!r} in the document, got {self._margin!r}")
        return f"{sentence}, as the caller says"

    def _check_space(self, document: ExplanationDocument, scope: CheckScope) -> str:
        named, known = document.constraints, scope.space.constraints
        if document.space != scope.space.fingerprint:
            given = "" if named in (None, known) else f"; it was made with --constraint {shlex.join(named or ())}"
            differs = "the explanation is about another space: other domains, features or constraints"
            raise ClaimUndecided(f"{differs}{given}")
        if named not in (None, known):
            raise ClaimFailed("the explanation names other constraints than those of the space that it speaks of")
        if self._intervals and not all(map(is_interval_feature, filter(can_be_interval, scope.space.features))):
            raise ClaimUndecided("the explanation is about values seen, not about whole intervals")
        if document.domains is not None and (
            to_canonical_json(document.domains) != to_canonical_json(summarize_domains(scope.space))
        ):
            raise ClaimFailed("the domains that the explanation names are not those of the space that it speaks of")
        where = f", where {' and '.join(known)}" if known else ""
        extended = ", ".join(document.extended_values)
        more = f", with values that the document adds to {extended}" if extended else ""
        return f"the explanation is about the space at hand, {_describe_numbers(scope)}{more}{where}"


def _describe_numbers(scope: CheckScope) -> str:
    """Which numbers the claims are about."""
    numbers = [feature for feature in scope.space.features if can_be_interval(feature)]
    seen = ", ".join(feature.name for feature in numbers if not is_interval_feature(feature))
    if not scope.intervals:
        return "the values seen"
    return "every number between the values of the domains" + (f", but of {seen} the values seen" if seen else "")


def check(
    explanation: Any,
    model: Any,
    data: Any,
    *,
    space: Any = None,
    constraints: Sequence[Any] = (),
    columns: Sequence[str] | None = None,
    models: Sequence[Any] = (),
    intervals: bool = False,
    desired: Any = NOT_GIVEN,
    threshold: Any = NOT_GIVEN,
    margin: float | None = None,
    allow_shared_reading: bool = True,
    measure: Any = None,
) -> Check:
    """Check every claim of an explanation, a ladder or a document of changes against a model and the past rows.

    ``explanation`` is an Explanation, a Ladder, Counterfactuals, a CounterfactualRegion, a ChangeMenu or an
    Infeasibility, its plain data or its JSON; the other arguments are those of :class:`Checker`. Raises InputError if
    the document is malformed.
    """
    if hasattr(explanation, "predict"):
        got = f"a {type(explanation).__name__}"
        raise InputError(expected="the explanation must come first", got=got, hint="pass explanation, model, data")
    checker = Checker(
        model,
        data,
        space=space,
        constraints=constraints,
        columns=columns,
        models=models,
        intervals=intervals,
        desired=desired,
        threshold=threshold,
        margin=margin,
        allow_shared_reading=allow_shared_reading,
        measure=measure,
    )
    return checker.check(explanation)


def check_digest(document: Any) -> str:
    """That the digest of an explanation or a ladder is that of its data."""
    if document.digest != compute_digest(document.data):
        raise ClaimFailed("digest mismatch: the document was modified after it was written")
    return "the document is as it was written"


def _read_target(document: ExplanationDocument) -> OutcomeTarget:
    decision = document.decision
    try:
        desired = None if decision.desired is None else tuple(map(value_from_json, decision.desired))
        return parse_target(desired, decision.threshold, decision.margin, decision.direction)
    except (TypeError, ValueError) as error:
        raise ClaimUndecided(f"the explanation's outcomes cannot be understood: {error}") from None


def _check_model(document: ExplanationDocument, scope: CheckScope) -> str:
    """Whether the model is the one explained: it is known by its decisions on past rows. What stands behind these in
    the document identifies the model for the explainer, and is not checked.
    """
    if document.history_rows == 0:
        return "it was explained without past rows: every claim is put to the model at hand"
    if document.model.split("-")[0] != scope.decision_fingerprint:
        raise ClaimUndecided("the explanation is about another model, or other past rows")
    return "the model decides past rows as the one that was explained"


def _check_models(document: ExplanationDocument, scope: CheckScope) -> str:
    there, claimed = len(scope.models), document.model_count
    if claimed != there:
        raise ClaimUndecided(f"the rule is said to hold for {claimed} models together, but {there} are at hand")
    return "it is about that model alone" if claimed == 1 else f"it is about all {claimed} together"


def _find_reading_source(document: ExplanationDocument, scope: CheckScope | None) -> ReadingSource:
    """Who read the model, where a claim rests on a reading."""
    claims = [*document.rules, *([document.wider] if document.wider is not None else [])]
    covered = any(isinstance(one.verdict, CertificateClaim) and one.verdict.method == "cover" for one in claims)
    # looked up in the dictionary, so that a model that was not needed is not read now
    models = scope.__dict__.get("models_with_bounds", "") if scope is not None and covered else ""
    if isinstance(models, str):
        return "none"
    return "shared" if any(model.source == "shared" for model in models) else "own"

"""An explanation's claims, one after the other, against the space and the models that are at hand."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ironrule.checker import components
from ironrule.checker.arrays import Int32Array
from ironrule.checker.certificates import check_certificate
from ironrule.checker.components import CodeRange, PermittedComponents
from ironrule.checker.document import (
    CertificateClaim,
    ExceptionClaim,
    ExplanationDocument,
    JsonObject,
    RuleClaim,
    SearchClaim,
    to_canonical_json,
)
from ironrule.checker.intervals import find_gaps, is_interval_feature
from ironrule.checker.lower_bound import find_lighter_hitting_set
from ironrule.checker.result import ClaimFailed, ClaimUndecided, Finding, run_claim_check
from ironrule.checker.scope import CheckScope
from ironrule.checker.suggestions import check_suggested_changes
from ironrule.checker.user_models import AnswerCache

BoxCorners = tuple[Int32Array, Int32Array]


@dataclass(frozen=True, slots=True, eq=False)
class ClaimChecker:
    """A document, what it is checked against, and what the models said of points so far."""

    document: ExplanationDocument
    scope: CheckScope
    answers: AnswerCache
    check_nearest: Callable[[], str]
    ranges: dict[int, CodeRange] = field(default_factory=dict)

    @classmethod
    def build(cls, document: ExplanationDocument, scope: CheckScope, check_nearest: Callable[[], str]) -> ClaimChecker:
        """Put every point that the document names to the models at once; raises ClaimFailed if its instance is none."""
        instance = components.encode_point(scope.space, document.instance)
        answers = AnswerCache(scope.user_models, scope.space, instance)
        answers.desired(np.stack([instance, *_find_named_points(document, scope, instance)]))
        return cls(document, scope, answers, check_nearest)

    def check_claims(self) -> Iterator[Finding]:
        """Every claim with what becomes of it."""
        yield run_claim_check("instance", self._check_instance)
        yield run_claim_check("past rows", self._check_history)
        yield run_claim_check("counterfactuals", self._check_counterfactuals)
        if self.document.changes is not None:
            asked = self.document.changes, self.scope, self.document.instance, self.check_nearest
            yield run_claim_check("suggested changes", partial(check_suggested_changes, *asked))
        if self.document.marks:
            yield run_claim_check("marks", self._check_marks)
        try:
            restrictions = self.document.restrictions
            permitted = components.find_permitted_components(self.scope.space, self.answers.instance, restrictions)
        except ClaimFailed as reason:
            yield Finding("permitted rules", "fails", str(reason))
            return
        best = self.document.rules[0]
        for place, claim in enumerate(self.document.rules, 1):
            name = f"rule {place}" if len(self.document.rules) > 1 else "rule"
            yield from self._check_rule(name, claim, partial(self._check_components, claim, permitted))
        if self.document.wider is not None:
            wider = self.document.wider
            yield from self._check_rule("wider rule", wider, partial(self._check_wider, wider, best))
        if self.document.rounded is not None:
            yield run_claim_check("rounded rule", partial(self._check_rounded, self.document.rounded))
        if self.document.wider_is_maximal or self.document.wider_witnesses:
            yield run_claim_check("widest", self._check_maximal)
        yield run_claim_check("needed components", self._check_undecided)
        yield run_claim_check("weight", partial(self._check_weight, permitted))
        yield run_claim_check("lower bound", partial(self._check_lower_bound, permitted))

    def _check_instance(self) -> str:
        instance = self.answers.instance
        if not self.scope.space.admits(instance[None, :])[0]:
            raise ClaimFailed("the instance must satisfy the constraints on the space, but it does not")
        if self.answers.desired(instance[None, :])[0]:
            raise ClaimFailed("the instance must have the undesired outcome, but the model gives it the desired one")
        return f"the model gives it the undesired outcome: {self.scope.user_models.decision.undesired_name}"

    def _check_history(self) -> str:
        rows = len(self.scope.past_rows)
        if self.document.history_rows == 0:
            return "none is claimed: the explainer had no past rows"
        if self.document.history_rows != rows:
            raise ClaimFailed(f"{self.document.history_rows:,} past rows are claimed, but {rows:,} are at hand")
        return f"{rows:,}, as claimed"

    def _check_counterfactuals(self) -> str:
        encode = partial(components.encode_counterfactual, self.scope.space, self.answers.instance)
        points = list(map(encode, self.document.counterfactuals))
        alone = self.scope.user_models.members == (self.scope.user_models.primary,)
        self._require_desired(points, self.answers if alone else self.answers.for_model(self.scope.user_models.primary))
        return f"the model gives all {len(points)} the desired outcome" if points else "none is claimed"

    def _check_marks(self) -> str:
        if any(mark["component"] >= len(self.document.rules[0].components) for mark in self.document.marks):
            raise ClaimFailed("marks must be of components of the rule, but one is not")
        return "all are of components of the rule; what was declared of their features is not checked"

    def _require_desired(self, points: list[Int32Array], answers: AnswerCache) -> None:
        """Raise ClaimFailed unless all points can occur and are desired."""
        if points and not self.scope.space.admits(np.stack(points)).all():
            raise ClaimFailed("a counterfactual must satisfy the constraints on the space, but one does not")
        if points and not answers.desired(np.stack(points)).all():
            raise ClaimFailed("the model must give every counterfactual the desired outcome, but it denies one")

    def _check_undecided(self) -> str:
        """That it is not known whether a component is needed cannot be false of one of the rule's own."""
        places, best = self.document.undecided_components, self.document.rules[0]
        if len(set(places)) < len(places) or any(place >= len(best.components) for place in places):
            raise ClaimFailed("components that may not be needed must be different ones of the rule")
        return f"{len(places)} are left open" if places else "none is said to be left open"

    def _check_weight(self, permitted: PermittedComponents) -> str:
        weight = permitted.weigh(self._rule_to_bits(self.document.rules[0], permitted))
        if weight != self.document.weight:
            raise ClaimFailed(f"the best rule is said to weigh {self.document.weight}, but it weighs {weight}")
        return f"the best rule weighs {weight}"

    def _check_lower_bound(self, permitted: PermittedComponents) -> str:
        points = [_build_witness_point(point, self.scope) for point in self.document.witnesses]
        bound = self.document.lower_bound
        self._require_desired(points, self.answers)
        if bound < 0:
            raise ClaimFailed(f"a lower bound must not be negative, got {bound}")
        duals = [*map(permitted.find_dual, points), *permitted.required]
        try:
            found = find_lighter_hitting_set(duals, permitted.weights, math.ceil(bound / permitted.unit))
        except TimeoutError:
            raise ClaimUndecided("it would take too long to show that nothing lighter excludes the witnesses") from None
        if found is not None:
            raise ClaimFailed(f"the witnesses need no more than {permitted.weigh(found)}, but {bound} is claimed")
        if bound == 0:
            return "none is claimed"
        needed = f"need a permitted rule that weighs at least {bound}"
        return f"the {len(points):,} counterfactuals that it rests on {needed}"

    def _check_maximal(self) -> str:
        points = [_build_witness_point(point, self.scope) for point in self.document.wider_witnesses]
        wider = self.document.wider
        self._require_desired(points, self.answers)
        if not self.document.wider_is_maximal:
            return "nothing is claimed of how far bounds can go"
        if wider is None:
            raise ClaimFailed("a widest rule is claimed, but no wider rule is shown")
        for plain in wider.components:  # one step further, every bound must let a counterfactual in
            (low, high), place = (end.copy() for end in self._find_box(wider)), self._find_range(plain).feature
            feature = self.scope.space.features[place]
            if plain["op"] == "<=" and high[place] < feature.last_code:
                high[place] += 1
                step = high[place] - 1
            elif plain["op"] == ">=" and low[place] > 0:
                low[place] -= 1
                step = low[place]
            else:
                continue
            gap = self.scope.intervals and is_interval_feature(feature) and find_gaps(feature)[step]
            if gap or not any(((low <= point) & (point <= high)).all() for point in points):
                raise ClaimFailed(f"nothing shows that {plain['feature']} {plain['op']} could not go further")
        return "moving any bound of the wider rule by one value lets a counterfactual in"

    def _check_rule(self, name: str, claim: RuleClaim, check: partial[str]) -> Iterator[Finding]:
        """What becomes of a rule, its coverage and its verdict."""
        first = run_claim_check(name, check)
        yield first
        if first.status == "holds":
            box = self._find_box(claim)
            yield run_claim_check(f"{name}: coverage", partial(self._check_coverage, claim, box))
            yield run_claim_check(f"{name}: verdict", partial(self._check_verdict, claim, box))

    def _check_components(self, claim: RuleClaim, permitted: PermittedComponents) -> str:
        self._require_instance_covered(claim)
        number = self._rule_to_bits(claim, permitted)
        if not all(number & some for some in permitted.required):
            raise ClaimFailed("the rule must use what was required, but it does not")
        return "it covers the instance, and uses only its values"

    def _check_wider(self, claim: RuleClaim, best: RuleClaim) -> str:
        self._require_instance_covered(claim)
        (low, high), (inner_low, inner_high) = self._find_box(claim), self._find_box(best)
        if (low > inner_low).any() or (high < inner_high).any():
            raise ClaimFailed("the wider rule must cover all that the best rule covers, but it does not")
        return "it covers the instance, and all that the best rule covers"

    def _check_rounded(self, rounded: JsonObject) -> str:
        """That each bound lies between the wider rule's and the instance's own value, and that no past row is lost."""
        wider, parts = self.document.wider, rounded["components"]
        if wider is None or rounded["outcome"] != wider.outcome or len(parts) != len(wider.components):
            raise ClaimFailed("the rounded rule must have the outcome and the components of the wider rule")
        low, high = (end.copy() for end in self._find_box(wider))
        for part, exact in zip(parts, wider.components, strict=True):
            place = self._find_range(exact).feature
            feature, bound, short = self.scope.space.features[place], exact["value"], part["value"]
            own = self.document.instance[feature.name]
            if part == exact:
                continue
            numbers = all(type(value) in (int, float) for value in (bound, short, own))
            if {**part, "value": bound} != exact or not numbers or not is_interval_feature(feature):
                raise ClaimFailed("the rounded rule may differ from the wider rule in bounds on intervals alone")
            first, last = (own, bound) if exact["op"] == "<=" else (bound, own)
            if not first <= short <= last:
                raise ClaimFailed(f"{part['feature']} {part['op']} {short!r} must lie within the wider rule")
            if exact["op"] == "<=":
                high[place] = bisect_right(feature.values, short) - 1
            else:
                low[place] = bisect_left(feature.values, short)
        covered = self._count_covered(low, high)
        if covered != wider.coverage:
            raise ClaimFailed(f"the rounded rule covers {covered:,} past rows, not {wider.coverage:,}")
        return "each bound lies within the wider rule, and it covers as many past rows"

    def _require_instance_covered(self, claim: RuleClaim) -> None:
        if len(set(map(to_canonical_json, claim.components))) < len(claim.components):
            raise ClaimFailed("a rule must name every component once, but one occurs twice")
        low, high = self._find_box(claim)
        if not ((low <= self.answers.instance) & (self.answers.instance <= high)).all():
            raise ClaimFailed("the rule must cover the instance, but it does not")
        outcome = self.scope.user_models.decision.undesired_name
        if claim.outcome != outcome:
            raise ClaimFailed(f"the rule's outcome must be {outcome}, got {claim.outcome}")

    def _find_box(self, claim: RuleClaim) -> BoxCorners:
        return components.intersect_ranges(self.scope.space, [self._find_range(plain) for plain in claim.components])

    def _find_range(self, plain: JsonObject) -> CodeRange:
        if id(plain) not in self.ranges:  # the document keeps it alive
            self.ranges[id(plain)] = components.encode_component(self.scope.space, plain)
        return self.ranges[id(plain)]

    def _rule_to_bits(self, claim: RuleClaim, permitted: PermittedComponents) -> int:
        """The rule as a set of the instance's components."""
        return sum({1 << permitted.find_number(self._find_range(plain)) for plain in claim.components})

    def _check_coverage(self, claim: RuleClaim, box: BoxCorners) -> str:
        rows = self._count_covered(*box)
        if rows != claim.coverage:
            raise ClaimFailed(f"{claim.coverage:,} past rows are said to be covered, but {rows:,} are")
        return f"it covers {rows:,} of {self.document.history_rows:,}"

    def _count_covered(self, low: Int32Array, high: Int32Array) -> int:
        """How many of the past rows that the document speaks of lie in a box; it may speak of none."""
        return len(self.scope.find_rows_inside(low, high)) if self.document.history_rows else 0

    def _check_verdict(self, claim: RuleClaim, box: BoxCorners) -> str:
        if isinstance(claim.verdict, CertificateClaim):
            return self._check_proof(claim.verdict, box)
        if isinstance(claim.verdict, ExceptionClaim):
            return self._check_exception(claim.verdict, box)
        return self._check_search(claim.verdict, box)

    def _check_proof(self, certificate: CertificateClaim, box: BoxCorners) -> str:
        if (certificate.space, certificate.model) != (self.document.space, self.document.model):
            raise ClaimFailed("a certificate must name the explanation's own space and model, but it names others")
        sentence = check_certificate(certificate, self.scope, self.answers)
        if (box[0] < np.array(certificate.low)).any() or (box[1] > np.array(certificate.high)).any():
            raise ClaimFailed("the certificate's box must hold all that the rule covers, but it does not")
        return f"proven: {sentence}"

    def _check_exception(self, claimed: ExceptionClaim, box: BoxCorners) -> str:
        point = components.encode_counterfactual(self.scope.space, self.answers.instance, claimed.counterfactual)
        if not ((box[0] <= point) & (point <= box[1])).all():
            raise ClaimFailed("the exception must be covered by the rule, but it is not")
        self._require_desired([point], self.answers)
        changes = components.describe_changes(self.scope.space, self.answers.instance, point)
        return f"refuted, as is claimed: {changes}"

    def _check_search(self, claimed: SearchClaim, box: BoxCorners) -> str:
        if not math.isclose(claimed.bound, _compute_exception_bound(claimed), rel_tol=1e-9):
            raise ClaimFailed(f"the bound must follow from samples and confidence, but {claimed.bound!r} does not")
        if not 0.0 <= claimed.explored < 1.0:
            raise ClaimFailed(f"the share explored must be below 1 where nothing is proven, got {claimed.explored!r}")
        rows = self.scope.find_rows_inside(*box)
        for point in (*self.answers.list_desired_inside(*box), *rows[self.scope.user_models.desired(rows)][:1]):
            if self.scope.space.admits(point[None, :])[0]:
                self.answers.refute_with(point)
        return "no proof is claimed, and no exception is known"


def _compute_exception_bound(claimed: SearchClaim) -> float:
    """The largest share of exceptions under which n draws without one are not too unlikely: 1 - doubt^(1/n)."""
    if claimed.samples > claimed.tried or not 0.0 <= claimed.confidence < 1.0:
        raise ClaimFailed("samples must be among the points tried, and confidence from 0 to below 1")
    return 1.0 if claimed.samples == 0 else -math.expm1(math.log1p(-claimed.confidence) / claimed.samples)


def _build_witness_point(codes: tuple[int, ...], scope: CheckScope) -> Int32Array:
    """A witness as a point; raises ClaimFailed if it is none."""
    sizes = scope.space.sizes.tolist()
    if len(codes) != len(sizes) or not all(0 <= code < size for code, size in zip(codes, sizes, strict=True)):
        raise ClaimFailed("a witness must have one code of every feature's domain, but one has not")
    return np.array(codes, dtype=np.int32)


def _find_named_points(document: ExplanationDocument, scope: CheckScope, instance: Int32Array) -> Iterator[Int32Array]:
    """Every point that the document names and that is one; the others are told later, where they are claimed."""
    verdicts = [claim.verdict for claim in document.rules]
    shown = [verdict.counterfactual for verdict in verdicts if isinstance(verdict, ExceptionClaim)]
    for plain in (*document.counterfactuals, *shown):
        with suppress(ClaimFailed):
            yield components.encode_counterfactual(scope.space, instance, plain)
    for codes in (*document.witnesses, *document.wider_witnesses):
        with suppress(ClaimFailed):
            yield _build_witness_point(codes, scope)

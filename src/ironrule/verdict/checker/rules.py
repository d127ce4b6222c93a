"""The claims about rules: that a rule covers the instance, how many past rows it covers, and what is known of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ironrule.space import Points
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.checker.certificates import check_certificate
from ironrule.verdict.checker.document import Claim, Counterexample, Document, Plain, Searched
from ironrule.verdict.checker.permission import Permitted
from ironrule.verdict.checker.replies import Replies
from ironrule.verdict.checker.result import Fails, Finding, finding
from ironrule.verdict.checker.scope import Scope
from ironrule.verdict.checker.terms import Condition, box_of, condition_of, counterfactual_of
from ironrule.verdict.digest import canonical

CLOSE = 1e-9
Ends = tuple[Points, Points]


def close(one: float, other: float) -> bool:
    """Whether two numbers are the same but for how they were computed."""
    return math.isclose(one, other, rel_tol=CLOSE)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Judges rules, with the model's word at hand."""

    document: Document
    scope: Scope
    replies: Replies
    allowed: Permitted
    conditions: dict[int, Condition] = field(default_factory=dict)

    def judged(self, name: str, claim: Claim) -> Iterator[Finding]:
        """What becomes of a rule, its coverage and its verdict."""
        first = finding(name, lambda: self._rule(claim))
        yield first
        if first.status == "holds":
            yield from self._about(name, claim)

    def judged_wider(self, name: str, claim: Claim, best: Claim) -> Iterator[Finding]:
        """The same for a rule whose bounds need not be the instance's."""
        first = finding(name, lambda: self._wider(claim, best))
        yield first
        if first.status == "holds":
            yield from self._about(name, claim)

    def weight(self, claim: Claim) -> float:
        """What a rule weighs; raises Fails if that makes no sense."""
        return self.allowed.weigh(self._number(claim))

    def check_limits(self, wider: Claim, points: list[Points]) -> None:
        """Raise Fails if some bound could go further: if no point lies in the rule's box with that bound one on."""
        box = self._box(wider)
        for plain in wider.components:
            (low, high), place = (end.copy() for end in box), self._condition(plain).feature
            if plain["op"] == "<=" and high[place] < self.scope.space.features[place].last:
                high[place] += 1
            elif plain["op"] == ">=" and low[place] > 0:
                low[place] -= 1
            else:
                continue
            if not any(((low <= point) & (point <= high)).all() for point in points):
                raise Fails(f"nothing shows that {plain['feature']} {plain['op']} could not go further")

    def _about(self, name: str, claim: Claim) -> Iterator[Finding]:
        box = self._box(claim)
        yield finding(f"{name}: coverage", lambda: self._coverage(claim, box))
        yield finding(f"{name}: verdict", lambda: self._verdict(claim, box))

    def _rule(self, claim: Claim) -> str:
        self._covers_instance(claim)
        number = self._number(claim)
        if not all(number & some for some in self.allowed.required):
            raise Fails("the rule must use what was required, but it does not")
        return "it covers the instance, and speaks of its values alone"

    def _wider(self, claim: Claim, best: Claim) -> str:
        self._covers_instance(claim)
        (low, high), (inner_low, inner_high) = self._box(claim), self._box(best)
        if (low > inner_low).any() or (high < inner_high).any():
            raise Fails("the wider rule must cover all that the best rule covers, but it does not")
        return "it covers the instance, and all that the best rule covers"

    def _covers_instance(self, claim: Claim) -> None:
        if len(set(map(canonical, claim.components))) < len(claim.components):
            raise Fails("a rule must name every component once, but one occurs twice")
        low, high = self._box(claim)
        if not ((low <= self.replies.instance) & (self.replies.instance <= high)).all():
            raise Fails("the rule must cover the instance, but it does not")
        outcome = self.scope.asked.own.decision.undesired
        if claim.outcome != outcome:
            raise Fails(f"the rule's outcome must be {outcome}, but it says {claim.outcome}")

    def _box(self, claim: Claim) -> Ends:
        return box_of(self.scope.space, [self._condition(plain) for plain in claim.components])

    def _condition(self, plain: Plain) -> Condition:
        if id(plain) not in self.conditions:  # the document keeps it alive
            self.conditions[id(plain)] = condition_of(self.scope.space, plain)
        return self.conditions[id(plain)]

    def _number(self, claim: Claim) -> int:
        """The rule as a set of the instance's components."""
        conditions = [(self._condition(plain), plain["op"]) for plain in claim.components]
        return sum({1 << self.allowed.number(condition, op) for condition, op in conditions})

    def _coverage(self, claim: Claim, box: Ends) -> str:
        rows = self.scope.coverage(*box)
        if rows != claim.coverage:
            raise Fails(f"{claim.coverage:,} past rows are said to be covered, but {rows:,} are")
        return f"it covers {rows:,} of {len(self.scope.past):,}"

    def _verdict(self, claim: Claim, box: Ends) -> str:
        if isinstance(claim.verdict, Certificate):
            return self._proof(claim.verdict, box)
        if isinstance(claim.verdict, Counterexample):
            return self._exception(claim.verdict, box)
        return self._search(claim.verdict, box)

    def _proof(self, certificate: Certificate, box: Ends) -> str:
        if (certificate.space, certificate.model) != (self.document.space, self.document.model):
            raise Fails("a certificate must name the explanation's own space and model, but it names others")
        sentence = check_certificate(certificate, self.scope, self.replies)
        low, high = np.array(certificate.low), np.array(certificate.high)
        if (box[0] < low).any() or (box[1] > high).any():
            raise Fails("the certificate's box must hold all that the rule covers, but it does not")
        return f"proven: {sentence}"

    def _exception(self, claimed: Counterexample, box: Ends) -> str:
        point = counterfactual_of(self.scope.space, self.replies.instance, claimed.counterfactual)
        if not ((box[0] <= point) & (point <= box[1])).all():
            raise Fails("the exception must be covered by the rule, but it is not")
        if not self.scope.space.feasible.admits(point[None, :])[0]:
            raise Fails("the exception must satisfy the constraints on the space, but it does not")
        if not self.replies.desired(point[None, :])[0]:
            raise Fails("the model must give the exception the desired outcome, but it denies it")
        return f"refuted, as is claimed: {self.replies.described(point)}"

    def _search(self, claimed: Searched, box: Ends) -> str:
        if not close(claimed.bound, _share(claimed)):
            raise Fails(f"the bound must follow from samples and confidence, but {claimed.bound:g} does not")
        if not 0.0 <= claimed.explored < 1.0:
            raise Fails(f"the share explored must be below 1 where nothing is proven, but {claimed.explored:g} is not")
        known = self.replies.exceptions_in(*box)
        found = known if known is not None else self.scope.past_exception(*box)
        if found is not None:
            raise Fails(f"there is an exception: {self.replies.described(found)}")
        return "no proof is claimed, and no exception is known"


def _share(claimed: Searched) -> float:
    """The largest share of exceptions under which n draws without one are not too unlikely: 1 - doubt^(1/n)."""
    if claimed.samples > claimed.tried or not 0.0 <= claimed.confidence < 1.0:
        raise Fails("samples must be among the points tried, and confidence below 1, but they are not")
    return 1.0 if claimed.samples == 0 else -math.expm1(math.log1p(-claimed.confidence) / claimed.samples)

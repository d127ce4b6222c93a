"""An explanation's claims, one after the other, against the space and the model that are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ironrule.model.protocol import Model
from ironrule.space import Points
from ironrule.verdict.checker.document import Counterexample, Document, Plain
from ironrule.verdict.checker.needed import lighter
from ironrule.verdict.checker.permission import Permitted, permitted
from ironrule.verdict.checker.replies import Replies
from ironrule.verdict.checker.result import Fails, Finding, Undecided, finding
from ironrule.verdict.checker.rules import Judge, close
from ironrule.verdict.checker.scope import Scope
from ironrule.verdict.checker.terms import counterfactual_of, point_of


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """A document, what it speaks of, and the model's word."""

    document: Document
    scope: Scope
    replies: Replies

    @classmethod
    def of(cls, document: Document, scope: Scope) -> Claims:
        """The claims about an instance, with every point that they name put to the model at once; raises Fails if the
        instance is none.
        """
        instance = point_of(scope.space, document.instance)
        replies = Replies(scope.asked, scope.space, instance)
        named = [instance, *_points_named(document, scope, instance)]
        replies.desired(np.stack(named))
        return cls(document, scope, replies)

    def judged(self) -> Iterator[Finding]:
        """Every claim with what becomes of it."""
        yield finding("instance", self._instance)
        yield finding("past rows", self._history)
        yield finding("counterfactuals", self._counterfactuals)
        try:
            allowed = permitted(self.scope.space, self.replies.instance, self.document.permission)
        except Fails as reason:
            yield Finding("permitted rules", "fails", str(reason))
            return
        judge = Judge(self.document, self.scope, self.replies, allowed)
        for place, claim in enumerate(self.document.rules, 1):
            yield from judge.judged(f"rule {place}" if len(self.document.rules) > 1 else "rule", claim)
        if self.document.wider is not None:
            yield from judge.judged_wider("wider rule", self.document.wider, self.document.rules[0])
        if self.document.widest or self.document.limits:
            yield finding("widest", lambda: self._widest(judge))
        yield finding("undecided", self._undecided)
        yield finding("weight", lambda: self._weight(judge))
        yield finding("lower bound", lambda: self._lower_bound(allowed))

    def _undecided(self) -> str:
        """That it is not known whether a component is needed cannot be false of one of the rule's own."""
        places, best = self.document.undecided, self.document.rules[0]
        if len(set(places)) < len(places) or any(place >= len(best.components) for place in places):
            raise Fails("components that may not be needed must be different ones of the rule, but they are not")
        return f"{len(places)} components are not said to be needed" if places else "none is left open"

    def _instance(self) -> str:
        instance = self.replies.instance
        if not self.scope.space.feasible.admits(instance[None, :])[0]:
            raise Fails("the instance must satisfy the constraints on the space, but it does not")
        if self.replies.desired(instance[None, :])[0]:
            raise Fails("the instance must have the undesired outcome, but the model gives it the desired one")
        return "the model gives it the undesired outcome"

    def _history(self) -> str:
        rows = len(self.scope.past)
        if self.document.history_rows != rows:
            raise Fails(f"{self.document.history_rows:,} past rows are claimed, but {rows:,} are at hand")
        return f"{rows:,} are at hand"

    def _counterfactuals(self) -> str:
        points = [self._point(plain) for plain in self.document.counterfactuals]
        self._require_desired(points, self.scope.asked.own)
        return f"the model gives all {len(points)} the desired outcome" if points else "none is claimed"

    def _point(self, plain: Plain) -> Points:
        return counterfactual_of(self.scope.space, self.replies.instance, plain)

    def _require_desired(self, points: list[Points], own: Model | None = None) -> None:
        """Raise Fails unless all points can occur and are desired, where ``own`` is given by that model itself."""
        if not points:
            return
        if not self.scope.space.feasible.admits(np.stack(points)).all():
            raise Fails("a counterfactual must satisfy the constraints on the space, but one does not")
        withstands = own is not None and self.scope.asked.boxes != (own,)
        replies = self.replies.of(own) if own is not None and withstands else self.replies
        if not replies.desired(np.stack(points)).all():
            raise Fails("the model must give every counterfactual the desired outcome, but it denies one")

    def _weight(self, judge: Judge) -> str:
        weight = judge.weight(self.document.rules[0])
        if not close(weight, self.document.weight):
            raise Fails(f"the best rule is said to weigh {self.document.weight:g}, but it weighs {weight:g}")
        return f"the best rule weighs {weight:g}"

    def _widest(self, judge: Judge) -> str:
        points = [_coded(self.scope, point) for point in self.document.limits]
        self._require_desired(points)
        if not self.document.widest:
            return "nothing is claimed of how far bounds can go"
        if self.document.wider is None:
            raise Fails("a widest rule must be shown, but there is none")
        judge.check_limits(self.document.wider, points)
        return "behind every bound of the wider rule comes a counterfactual"

    def _lower_bound(self, allowed: Permitted) -> str:
        points = [_coded(self.scope, point) for point in self.document.witnesses]
        self._require_desired(points)
        bound = self.document.lower_bound
        if bound < 0:
            raise Fails(f"a lower bound must not be negative, but {bound:g} came")
        demands = [*map(allowed.dual, points), *allowed.required]
        try:
            chosen = lighter(demands, allowed.weights, bound)
        except TimeoutError:
            raise Undecided("it would take too long to show that nothing lighter excludes the witnesses") from None
        if chosen is not None:
            raise Fails(f"the witnesses need no more than {allowed.weigh(chosen):g}, but {bound:g} is claimed")
        if bound == 0:
            return "none is claimed"
        return f"the {len(points):,} counterfactuals that it rests on need a permitted rule that weighs {bound:g}"


def _coded(scope: Scope, codes: tuple[int, ...]) -> Points:
    """A witness as a point; raises Fails if it is none."""
    sizes = scope.space.sizes.tolist()
    if len(codes) != len(sizes) or not all(0 <= code < size for code, size in zip(codes, sizes, strict=True)):
        raise Fails("a witness must have one code of every feature's domain, but one has not")
    return np.array(codes, dtype=np.int32)


def _points_named(document: Document, scope: Scope, instance: Points) -> Iterator[Points]:
    """Every point that the document names and that is one; the others are told later, where they are claimed."""
    verdicts = [claim.verdict for claim in document.rules]
    shown = [verdict.counterfactual for verdict in verdicts if isinstance(verdict, Counterexample)]
    for one in (*document.counterfactuals, *shown):
        try:
            yield counterfactual_of(scope.space, instance, one)
        except Fails:
            continue
    for codes in (*document.witnesses, *document.limits):
        try:
            yield _coded(scope, codes)
        except Fails:
            continue

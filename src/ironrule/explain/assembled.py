"""From what a search has found to an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ironrule.explain.background import Background, Unseen
from ironrule.explain.explanation import Explanation, Permitted, RankedRule, Statistics
from ironrule.explain.history import Past, background_of
from ironrule.explain.libraries import libraries_at_work
from ironrule.explain.prepared import Prepared
from ironrule.rule import Box, Counterfactual, Deferred, Relevant
from ironrule.rule.relevant import members
from ironrule.space import Points, bind
from ironrule.verdict import Meter, Proven, Unrefuted, Verdict

if TYPE_CHECKING:
    from ironrule.search import Findings, Problem
    from ironrule.search.widening import Widened


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """What one search ended with."""

    prepared: Prepared
    problem: Problem
    findings: Findings
    wider: Widened | None

    def explanation(self, statistics: Statistics, permitted: Permitted, unread: str | None) -> Explanation:
        """All of it in the user's terms."""
        ready, problem, findings = self.prepared, self.problem, self.findings
        needed = self._witnesses()
        return Explanation(
            ready.space.decode_row(problem.case.instance),
            tuple(map(self._ranked, findings.rules, findings.verdicts)),
            Deferred(self._counterfactuals),
            statistics,
            len(ready.history),
            ready.space.fingerprint,
            problem.in_user_terms(problem.weight(findings.rules[0])),
            0 if needed is None else problem.in_user_terms(findings.lower_bound),
            unread,
            ready.fingerprint,
            ready.wanted,
            permitted,
            () if needed is None else needed,
            None if self.wider is None else self._ranked(findings.rules[0], self.wider.verdict, self.wider.box),
            self.wider is not None and self.wider.maximal,
            () if self.wider is None or self.wider.limits is None else tuple(map(tuple, self.wider.limits.tolist())),
            self._undecided(),
            ready.model.models,
            tuple(map(str, ready.space.constraints)),
            ready.breakpoints,
            Unseen(self._background),
        )

    def _background(self) -> Background:
        """What pictures and reports show besides, worked out when somebody looks."""
        ready, problem, rule = self.prepared, self.problem, self.findings.rules[0]
        found = [np.array(list(self._witnesses() or ()), dtype=np.int32).reshape(-1, problem.n)]
        known = np.concatenate([*found, *([] if problem.oracle.points is None else [problem.oracle.points])])
        named = problem.case.relevant.rule(rule, "")
        instance = ready.space.decode_row(problem.case.instance)
        past = Past(ready.space, ready.history.codes, ready.outcomes)
        return background_of(past, named, instance, known, ready.withstands, libraries_at_work())

    def _undecided(self) -> tuple[str, ...]:
        """Components of the best rule whose removal an exact oracle could not decide upon, or had no time left for."""
        oracle, rule = self.problem.oracle, self.findings.rules[0]
        if not oracle.reads or not isinstance(self.findings.verdicts[0], Proven) or oracle.all_known:
            return ()
        if self.findings.stopped is None and not oracle.doubtful:
            return ()
        component = self.problem.case.relevant.component
        return tuple(str(component(bit)) for bit in members(rule) if self._may_go(rule & ~(1 << bit)))

    def _may_go(self, shorter: int) -> bool:
        """Whether it is open if a shorter rule would do; one that no search was stopped before is not asked about."""
        known = self.problem.oracle.recall(self.problem.case.relevant.box(shorter))
        if known is not None or self.findings.stopped is None:
            return isinstance(known, Unrefuted)
        return self.problem.exceptions(shorter) is None

    def _witnesses(self) -> Sequence[tuple[int, ...]] | None:
        """Counterfactuals that need a rule of the lower bound's weight; None if there is no such bound."""
        from ironrule.search.witnesses import witnesses

        problem, weight, needing = self.problem, self.findings.lower_bound, self.findings.needing
        if not weight:
            return None
        if problem.oracle.all_known:  # a minimum hitting set of all that a rule must hit has just been found
            return Deferred(lambda: _as_tuples(witnesses(problem, weight)))
        found = witnesses(problem, weight, needing)
        return None if found is None else _as_tuples(found)

    def _ranked(self, rule: int, verdict: Verdict, wider: Box | None = None) -> RankedRule:
        relevant, ready = self.problem.case.relevant, self.prepared
        box = relevant.box(rule) if wider is None else wider
        named = relevant.rule(rule, ready.model.own.decision.undesired, wider)
        return RankedRule(named, verdict, ready.history.coverage(box, ready.space.sizes))

    def _counterfactuals(self) -> tuple[Counterfactual, ...]:
        """The nearest counterfactuals of the model itself that also satisfy the constraints on what may change."""
        ready, case, points = self.prepared, self.problem.case, self.problem.oracle.points
        if points is None:
            return ()
        permitted = ready.model.own.desired(points) if ready.withstands else np.ones(len(points), dtype=np.bool_)
        for constraint in ready.recourse:
            permitted &= bind(constraint, ready.space.features)(points, case.instance)
        nearest = _nearest(points[permitted], case.relevant, self.problem.k)
        return tuple(Counterfactual.between(ready.space, case.instance, point) for point in nearest)


def _as_tuples(points: Points | None) -> tuple[tuple[int, ...], ...]:
    return () if points is None else tuple(map(tuple, points.tolist()))


def _nearest(points: Points, relevant: Relevant, k: int) -> Points:
    """The counterfactuals that change fewest features: one of each dual, and none whose dual contains another's."""
    from ironrule.rule.bits import popcount, unpack
    from ironrule.rule.duals import duals_of

    duals = duals_of(points, relevant.low, relevant.high)
    order = np.lexsort((popcount(duals), (points != relevant.instance).sum(axis=1)))
    chosen: dict[int, int] = {}
    for place, dual in zip(order.tolist(), unpack(duals[order]), strict=True):  # a dual comes after those it contains
        if len(chosen) < k and not any(other & dual == other for other in chosen):
            chosen[dual] = place
    return points[list(chosen.values())]


def statistics_of(meter: Meter, algorithm: str, seed: int, stopped: str | None) -> Statistics:
    """What a search did, by its meter."""
    return Statistics(
        algorithm=algorithm,
        seed=seed,
        seconds=meter.elapsed,
        generations=meter.events["generations"],
        candidates=meter.events["candidates"],
        oracle_calls=meter.events["oracle calls"],
        model_calls=meter.calls,
        evaluations=meter.evaluations,
        operators=dict(meter.seconds),
        stopped=stopped,
    )

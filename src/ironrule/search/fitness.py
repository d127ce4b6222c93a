"""The paper's fitness score: consistency first, then cardinality.

    failed data consistency    0.25 (1 - |R| / 2n) + 0.25 (1 - VD / m)
    failed global consistency  0.25 (1 - |R| / 2n) + 0.25 (1 - VS / s) + 0.25
    globally consistent        0.25 (1 - |R| / 2n) + 0.75

VD counts the desired rows of the history that satisfy the rule, VS the desired ones among s points drawn from its box.
A rule whose first s/10 points already show exceptions is drawn no further: its VS is scaled up from these. A rule that
a counterfactual found by then refutes has at least one exception, drawn or not, so its VS is at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import pack
from ironrule.rule.duals import duals_of, hits_all, uncovered_counts
from ironrule.search.drawing import Drawing, FromSpace
from ironrule.search.problem import Problem

Floats = npt.NDArray[np.float64]
POINTS_PER_CALL = 1 << 17


@dataclass(frozen=True, slots=True)
class Fitness:
    """A rule's score and how it came about."""

    score: float
    data_consistent: bool
    consistent: bool  # on the history and on the points drawn


@dataclass(slots=True)
class Scores:
    """Scores of the rules of one search; a rule is scored once."""

    problem: Problem
    samples: int
    draws: Drawing = field(default_factory=FromSpace)
    known: dict[int, Fitness] = field(default_factory=dict)

    def rate(self, rules: Sequence[int]) -> None:
        """Score the rules that were not scored yet."""
        new = [rule for rule in dict.fromkeys(rules) if rule not in self.known]
        if not new:
            return
        history = self.problem.history
        violations = uncovered_counts(pack(new, self.problem.n), history.bits, history.counts)
        unmet = np.array([not self.problem.meets(rule) for rule in new])
        clean = [rule for rule, bad in zip(new, (violations > 0) | unmet, strict=True) if not bad]
        shares = dict(zip(clean, self._exceptions(clean), strict=True))
        for rule, violated in zip(new, violations.tolist(), strict=True):
            self.known[rule] = self._fitness(rule, violated, shares.get(rule))

    def _fitness(self, rule: int, violated: int, share: float | None) -> Fitness:
        weight = float(self.problem.in_user_terms(self.problem.weight(rule)))
        base = 0.25 * (1.0 - weight / (2 * self.problem.n))
        if share is None:
            return Fitness(base + 0.25 * (1.0 - violated / len(self.problem.case.history)), False, False)
        return Fitness(base + (0.25 * (1.0 - share) + 0.25 if share else 0.75), True, share == 0.0)

    def fitness(self, rule: int) -> Fitness:
        """A scored rule's fitness, in the light of the counterfactuals known by now."""
        return self._in_the_light(rule, bool(self._refuted([rule])[0]))

    def ranked(self, rules: Sequence[int]) -> list[int]:
        """The rules, fittest first."""
        self.rate(rules)
        distinct = list(dict.fromkeys(rules))
        refuted = dict(zip(distinct, self._refuted(distinct).tolist(), strict=True))
        return sorted(distinct, key=lambda rule: (-self._in_the_light(rule, refuted[rule]).score, rule))

    def _in_the_light(self, rule: int, refuted: bool) -> Fitness:
        fitness = self.known[rule]
        if fitness.consistent and refuted:
            return Fitness(fitness.score - 0.25 - 0.25 / self.samples, True, False)
        return fitness

    def _refuted(self, rules: list[int]) -> npt.NDArray[np.bool_]:
        """Which rules a counterfactual that is known refutes; nobody is asked."""
        relevant, points = self.problem.case.relevant, self.problem.oracle.points
        if points is None or not rules:
            return np.zeros(len(rules), dtype=np.bool_)
        return ~hits_all(pack(rules, self.problem.n), duals_of(points, relevant.low, relevant.high))

    def _exceptions(self, rules: list[int]) -> list[float]:
        """Per rule the share of exceptions among points drawn from its box."""
        few = max(1, self.samples // 10)
        first = self._shares(rules, few)
        passed = [rule for rule, share in zip(rules, first, strict=True) if share == 0.0]
        rest = dict(zip(passed, self._shares(passed, self.samples - few), strict=True))
        part = 1.0 - few / self.samples  # the first few, without an exception, count as well
        return [rest[rule] * part if rule in rest else share for rule, share in zip(rules, first, strict=True)]

    def _shares(self, rules: list[int], each: int) -> list[float]:
        shares: list[float] = []
        per_call = max(1, POINTS_PER_CALL // max(1, each))
        for start in range(0, len(rules), per_call):
            shares += self._shares_at_once(rules[start : start + per_call], each)
        return shares

    def _shares_at_once(self, rules: list[int], each: int) -> list[float]:
        problem = self.problem
        drawn = [self.draws.draw(problem, rule, each) for rule in rules]
        points = np.concatenate(drawn)
        desired = problem.meter.desired(problem.case.model, points) if len(points) else np.zeros(0, np.bool_)
        ends = np.cumsum([len(points) for points in drawn])[:-1]
        return [float(part.mean()) if len(part) else 0.0 for part in np.split(desired, ends)]

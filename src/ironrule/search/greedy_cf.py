"""GreedyRuleCF (Geng, Schleich, Suciu, VLDB 2022, Algorithm 3).

Only the smallest candidate is ever extended: by each minimal hitting set of the duals of its counterfactuals.
Cardinality never falls, so the first candidate that the oracle cannot refute is returned. Among candidates of one
cardinality the one that fewest desired rows of the history satisfy comes first, since it is least likely to be refuted.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from ironrule.rule.bits import pack
from ironrule.rule.duals import uncovered_counts
from ironrule.search.extend import extensions
from ironrule.search.problem import Problem, Trail
from ironrule.verdict import Refuted


@dataclass(frozen=True, slots=True)
class GreedyRuleCF:
    """The greedy search; ``q`` candidates are kept.

    ``duals`` says how many duals, the smallest first, an extension hits: all where it is None, as in the paper; 5 as in
    its authors' public program.
    """

    q: int = 50
    attempts: int = 20
    duals: int | None = None

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """The first rule that the oracle cannot refute; none if no rule is consistent."""
        queue = _Queue(problem, self.q)
        queue.add(extensions(problem, 0, self.q, self.duals) or [0])
        while queue.ranked:
            rule = queue.pop()
            trail.best = [rule]
            with problem.meter.timed("cf rules"):
                if not isinstance(problem.ask(rule), Refuted) and problem.meets(rule):
                    return [rule]
                queue.add(extensions(problem, rule, self.q, self.duals))
        return []


@dataclass(slots=True)
class _Queue:
    """Candidates in order of cardinality; at most ``limit`` are kept, and none comes twice."""

    problem: Problem
    limit: int
    ranked: list[tuple[float, int, int]] = field(default_factory=list)  # in order; a rule is the last of its rank
    seen: set[int] = field(default_factory=set)

    def add(self, rules: list[int]) -> None:
        new = [rule for rule in dict.fromkeys(rules) if rule not in self.seen]
        if not new:
            return
        self.problem.meter.events["candidates"] += len(new)
        history = self.problem.history
        counts = uncovered_counts(pack(new, self.problem.n), history.bits, history.counts)
        for rule, count in zip(new, np.asarray(counts).tolist(), strict=True):
            insort(self.ranked, (self.problem.weight(rule), count, rule))
        self.seen.update(new)
        del self.ranked[self.limit :]

    def pop(self) -> int:
        return self.ranked.pop(0)[-1]

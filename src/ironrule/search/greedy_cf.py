"""GreedyRuleCF (Geng, Schleich, Suciu, VLDB 2022, Algorithm 3).

Only the smallest candidate is ever extended: by each minimal hitting set of the duals of its counterfactuals.
Cardinality never falls, so the first candidate that the oracle cannot refute is returned. Among candidates of one
cardinality the one that fewest desired rows of the history satisfy comes first, since it is least likely to be refuted.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import numpy as np

from ironrule.hitting.bits import pack_sets
from ironrule.oracles.protocol import UserOracle
from ironrule.rule.duals import count_covered_rows
from ironrule.search.problem import Problem, SearchState, ask_instead, extend_rule
from ironrule.verdict.verdict import Refuted


@dataclass(frozen=True, slots=True)
class GreedyRuleCF:
    """The greedy search; ``q`` candidates are kept.

    ``duals`` says how many duals, the smallest first, an extension hits: all where it is None, as in the paper; 5 as in
    its authors' public program. ``oracle`` looks for counterfactuals in place of the explainer's own, which checks the
    rule that comes out.
    """

    q: int = 50
    attempts: int = 20
    duals: int | None = None
    oracle: UserOracle | None = None

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The first rule that the oracle cannot refute; none if no rule is consistent."""
        with ask_instead(problem, self.oracle) as searched:
            return self._search(searched, state)

    def _search(self, problem: Problem, state: SearchState) -> list[int]:
        queue = _CandidateQueue(problem, self.q)
        queue.add(extend_rule(problem, 0, self.q, self.duals) or [0])
        # Best-first search: take the lightest candidate, return it if the oracle cannot refute it, else put its
        # extensions, which are all longer, back into the queue.
        while queue.queue:
            rule = queue.pop()
            state.best = [rule]
            with problem.meter.time_block("cf rules"):
                if not isinstance(problem.ask(rule), Refuted) and problem.meets_requirements(rule):
                    return [rule]
                queue.add(extend_rule(problem, rule, self.q, self.duals))
        return []


@dataclass(slots=True)
class _CandidateQueue:
    """Candidates in order of cardinality; at most ``limit`` are kept, and none comes twice."""

    problem: Problem
    limit: int
    queue: list[tuple[float, int, int]] = field(default_factory=list)  # in order; a rule is the last of its rank
    seen: set[int] = field(default_factory=set)

    def add(self, rules: list[int]) -> None:
        new = [rule for rule in dict.fromkeys(rules) if rule not in self.seen]
        if not new:
            return
        self.problem.meter.events["candidates"] += len(new)
        history = self.problem.history
        counts = count_covered_rows(pack_sets(new, self.problem.n), history.bits, history.counts)
        # By weight, then the desired past rows that the rule covers, then the rule itself: always the same order.
        for rule, count in zip(new, np.asarray(counts).tolist(), strict=True):
            insort(self.queue, (self.problem.weigh(rule), count, rule))
        self.seen.update(new)
        # Beam: only the best `limit` candidates stay. Dropped ones remain in `seen` and do not come back.
        del self.queue[self.limit :]

    def pop(self) -> int:
        return self.queue.pop(0)[-1]

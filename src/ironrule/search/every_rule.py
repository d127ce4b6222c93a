"""All irredundant rules, lightest first: :class:`ironrule.search.levels.Levels` over components.

A rule has the property sought if it is consistent; what it lacks are the duals of its counterfactuals. The minimum
search goes first: it finds the lightest level, and most of the demands, faster than any listing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import members
from ironrule.search.levels import Levels
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, Trail
from ironrule.search.solve import check
from ironrule.verdict import Proven, Refuted, Spent, Unrefuted, Verdict

Words = npt.NDArray[np.uint64]


@dataclass(slots=True)
class EveryRule:
    """The irredundant rules of a problem, level by level, each with its verdict.

    With an exact oracle every rule handed out is proven, and each of its components is needed for a counterfactual that
    was found. Whatever stops the search, which ``stopped`` says, all rules lighter than the last level have been
    handed out. ``complete`` says that there are no others; it is never said where some rule could not be decided.
    """

    problem: Problem
    stopped: str | None = None
    complete: bool = False
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    trail: Trail = field(default_factory=Trail)

    def levels(self) -> Iterator[dict[int, Verdict]]:
        """The rules of one level after the other; the last one may be unfinished."""
        handed_out: set[int] = set()
        try:
            for _ in self._searched():
                yield self._news(handed_out)
            self.complete = all(isinstance(verdict, Proven) for verdict in self.verdicts.values())
            return
        except Spent:
            self.stopped = "budget"
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        yield self._news(handed_out) or self._best()

    def _searched(self) -> Iterator[tuple[int, ...]]:
        if Minimum(ties=0).run(self.problem, self.trail):
            search = Levels(self._lacks, self.problem.demands(), self.problem.weights, self.problem.meter)
            yield from search(self.trail.lower_bound)

    def _news(self, handed_out: set[int]) -> dict[int, Verdict]:
        """The rules that were not handed out yet and that nothing found since refutes."""
        new = {rule: verdict for rule, verdict in self.verdicts.items() if rule not in handed_out}
        handed_out |= set(new)
        return {rule: verdict for rule, verdict in new.items() if self._stands(rule)}

    def _stands(self, rule: int) -> bool:
        return isinstance(self.verdicts[rule], Proven) or self.problem.exceptions(rule) is None

    def _best(self) -> dict[int, Verdict]:
        """What the minimum search had when it was stopped, if nothing in it is redundant."""
        problem, demands = self.problem, self.problem.demands()
        best = {rule: problem.oracle.recall(problem.case.relevant.box(rule)) for rule in self.trail.best}
        return {
            rule: verdict
            for rule, verdict in best.items()
            if isinstance(verdict, Proven)
            and rule not in self.verdicts
            and not any((demands & problem.words(rule & ~(1 << bit))).any(axis=1).all() for bit in members(rule))
        }

    def _lacks(self, rule: int) -> Words:
        """The duals of a rule's counterfactuals; if it has none, its verdict is kept."""
        problem = self.problem
        with problem.meter.timed("oracle"):
            verdict = problem.ask(rule, 1)
        if isinstance(verdict, Unrefuted):
            verdict = check(problem, rule, len(self.verdicts) + 1)
            if isinstance(verdict, Refuted):
                problem.oracle.learn(verdict.points)
        if isinstance(verdict, Refuted):
            return problem.duals(verdict.points)
        self.verdicts[rule] = verdict
        return np.zeros((0, problem.words(0).shape[0]), np.uint64)

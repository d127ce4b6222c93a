"""Choose, among the proven rules that are little longer than the shortest, one that covers most past rows.

Every rule that holds meets all known demands, so it contains a minimal hitting set of them, which weighs no more and
covers no fewer past rows. So the hitting sets up to the permitted weight are listed, and those that cover more than the
rule at hand are put to the oracle, most coverage first. One that is refuted adds demands, and one that is proven
becomes the rule at hand; then the list is made anew. When a complete list has none that covers more, no permitted rule
does. This is the search for a minimum rule (:mod:`ironrule.search.minimum`) with coverage in the place of weight.

A rule is worth more than its own bounds say, since these can be widened, and with the row's own values many rules
cover the row alone. So further proven rules are collected, those that cover most first: the caller widens each of them,
and takes the one that covers most then.

It can be stopped at any time: the rules at hand are proven, and nothing in them is redundant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ironrule.arrays import UInt64Array
from ironrule.hitting.bits import unpack_sets
from ironrule.hitting.solver import list_light_hitting_sets
from ironrule.search.driver import SearchResult
from ironrule.search.problem import Problem, count_covered, merge_minimal
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Proven, Refuted, Verdict

EXTRA_COMPONENTS = 2  # by which a rule may be longer than the shortest, weights counted
MAX_QUESTIONS = 1_000
QUESTIONS_PER_LIST = 16  # before the list is made anew with what was learned
FIRST_LIMIT, FIRST_NODES, MAX_LIMIT, MAX_NODES = 64, 4_000, 4_096, 256_000  # of a list of hitting sets
TIME_SHARE = 0.5  # of the seconds that are left: the rest is for widening


@dataclass(frozen=True, slots=True)
class PreferredRules:
    """Rules with their proofs, the one that covers most past rows first.

    ``covers_most``: it is known that no permitted rule covers more than the first. ``are_all``: it is known
    that there are no others than these, but for rules with something redundant.
    """

    rules: dict[int, Proven]
    covers_most: bool
    are_all: bool


def prefer_coverage(problem: Problem, result: SearchResult, most: int = 1) -> PreferredRules | None:
    """Up to so many rules to choose from after a search; None where that search has no proven rule, or was stopped."""
    shortest = result.verdicts[0]
    if not isinstance(shortest, Proven) or result.stopped is not None:
        return None
    demands = problem.list_all_demands()
    search = _CoverageSearch(
        problem,
        rule=result.rules[0],
        verdict=shortest,
        max_weight=problem.weigh(result.rules[0]) + float(EXTRA_COMPONENTS / problem.unit),
        demands=problem.list_demands() if demands is None else demands,
    )
    problem.meter.phase = "looking for more coverage"
    with problem.meter.time_block("coverage"):
        covers_most, others, are_all = False, dict[int, Proven](), False
        try:
            covers_most = search.run()
            are_all = search.collect(others, most - 1)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            name_stop(stop, problem.meter)
    return PreferredRules({search.rule: search.verdict} | others, covers_most, are_all)


@dataclass(slots=True)
class _CoverageSearch:
    """One run: the rule at hand, what it covers, and what every rule must hit as far as is known."""

    problem: Problem
    rule: int
    verdict: Proven
    max_weight: float
    demands: UInt64Array
    covered: int = field(init=False)
    questions: int = 0
    undecided: set[int] = field(default_factory=set)
    until: float | None = field(init=False)  # when it ends, by the meter

    def __post_init__(self) -> None:
        meter, (self.covered,) = self.problem.meter, count_covered(self.problem.case, [self.rule])
        seconds = meter.budget.seconds
        self.until = None if seconds is None else meter.elapsed + TIME_SHARE * (seconds - meter.elapsed)

    def run(self) -> bool:
        """Take rules that cover more as long as there are any; whether it is known that none is left."""
        limit, nodes = FIRST_LIMIT, FIRST_NODES
        while True:
            listed = list_light_hitting_sets(
                self.demands, self.problem.weights, max_weight=self.max_weight, limit=limit, node_limit=nodes
            )
            better = self._select_better(unpack_sets(listed.members) if len(listed.members) else [])
            # Nothing covers more among all hitting sets: the best one is known, if no question was left open.
            if not better and listed.complete:
                return not self.undecided
            if not better or not self._ask(better):  # nothing was learned: more must be listed
                if listed.complete or limit >= MAX_LIMIT:
                    return False
                limit, nodes = 2 * limit, 2 * nodes
            if self._is_over():
                return False

    def collect(self, others: dict[int, Proven], most: int) -> bool:
        """Add up to so many other proven rules, those that cover most first; whether it is known that none is left."""
        # A refuted rule adds a demand, so other sets of components hit all of them: list these again, until a list is
        # gone through without a refutation.
        is_settled = False
        while not is_settled:
            listed = list_light_hitting_sets(
                self.demands, self.problem.weights, max_weight=self.max_weight, limit=MAX_LIMIT, node_limit=MAX_NODES
            )
            rules = unpack_sets(listed.members) if len(listed.members) else []
            counts = dict(zip(rules, count_covered(self.problem.case, rules), strict=True))
            rules.sort(key=lambda rule: (-counts[rule], self.problem.weigh(rule), rule))
            is_settled = True
            for rule in rules:
                if rule == self.rule or rule in others or rule in self.undecided:
                    continue
                if len(others) >= most or self._is_over():
                    return False
                if self.problem.hits_demands(rule, self.demands):
                    verdict = self._ask_about(rule)
                    if isinstance(verdict, Proven):
                        others[rule] = verdict
                    is_settled &= not isinstance(verdict, Refuted)
        return listed.complete and not self.undecided

    def _select_better(self, rules: list[int]) -> list[int]:
        """Those that cover more than the rule at hand, most first, and of these the light ones."""
        counts = dict(zip(rules, count_covered(self.problem.case, rules), strict=True))
        better = [rule for rule in rules if counts[rule] > self.covered and rule not in self.undecided]
        return sorted(better, key=lambda rule: (-counts[rule], self.problem.weigh(rule), rule))

    def _ask(self, rules: list[int]) -> bool:
        """Ask about some rules until one is proven; whether anything was learned."""
        learned = False
        for rule in rules[:QUESTIONS_PER_LIST]:
            if not self.problem.hits_demands(rule, self.demands):
                continue
            verdict, learned = self._ask_about(rule), True
            if isinstance(verdict, Proven):
                (self.covered,) = count_covered(self.problem.case, [rule])
                self.rule, self.verdict = rule, verdict
                return True
            if self._is_over():
                break
        return learned

    def _ask_about(self, rule: int) -> Verdict:
        """The oracle's verdict on a rule; what it demands is kept, or that it was not decided."""
        self.questions += 1
        self.problem.meter.events["candidates"] += 1
        verdict = self.problem.ask(rule, 1)
        if isinstance(verdict, Refuted):
            self.demands = merge_minimal(self.demands, self.problem.compute_duals(verdict.points))
        elif not isinstance(verdict, Proven):
            self.undecided.add(rule)
        return verdict

    def _is_over(self) -> bool:
        """Whether its share of the seconds, or the number of its questions, is used up."""
        late = self.until is not None and self.problem.meter.elapsed > self.until
        return late or self.questions >= MAX_QUESTIONS

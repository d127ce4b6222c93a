"""The one loop that drives every algorithm: search, check the result, and search on if the check refutes it.

Where the oracle reads the model, a rule that the search never asked about is put to it: it proves or refutes. Else,
and where that oracle gives up, the check is independent of the search: a proof by enumeration where the box is small,
or points drawn after the rule was chosen. Several rules may be checked until one passes, so the error probability of 5
% is spread over the checks: the i-th may err with probability 0.05 / (i (i + 1)), which sums to 0.05 at the most.

A rule that contains a better one is left out, but only where the better one passes its check: a short rule that is
refuted hides no longer one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ironrule.arrays import UInt64Array
from ironrule.hitting.bits import unpack_sets
from ironrule.hitting.solver import find_minimum_hitting_set
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import BoxQuery
from ironrule.oracles.sampling import Sampling
from ironrule.rule.box import Box
from ironrule.search.problem import Algorithm, Problem, SearchState
from ironrule.verdict.budget import BudgetExhausted, SearchProgress, name_stop
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Unrefuted, Verdict

ERROR_PROBABILITY = 0.05
CHECK_SAMPLES = 10_000
FALLBACK_NODES = 200_000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The rules found, best first, with their verdicts, and why the search ended early if it did."""

    rules: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    stopped: str | None = None
    lower_bound: float = 0.0  # no consistent rule weighs less, in units; 0 where nothing is known of that
    bound_demands: UInt64Array | None = None  # the demands by which that was shown, where they are known


def solve(problem: Problem, algorithm: Algorithm) -> SearchResult:
    """Run an algorithm within its budget; whatever stops it, the answer is the best it has and an honest verdict."""
    state, meter = SearchState(), problem.meter
    meter.report_progress = lambda: _report_progress(problem, state)
    # A tenth of the evaluations, at most, is kept back so that the final check can still ask the model.
    limit = meter.budget.evaluations
    meter.reserve = 0 if limit is None else min(CHECK_SAMPLES, limit // 10)
    result = _run_within_budget(problem, algorithm, state)
    return replace(result, lower_bound=state.lower_bound, bound_demands=state.bound_demands)


def _report_progress(problem: Problem, state: SearchState) -> SearchProgress:
    """How far a search has come, in the user's terms; for showing only, so a float will do."""
    rules = state.best  # read once: the search may put another list there meanwhile
    best = float(problem.to_user_weight(problem.weigh(rules[0]))) if rules else None
    return SearchProgress(best, float(problem.to_user_weight(state.lower_bound)))


def _run_within_budget(problem: Problem, algorithm: Algorithm, state: SearchState) -> SearchResult:
    try:
        return _search_and_check(problem, algorithm, state)
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        stopped = name_stop(stop, problem.meter)
    # If the best rule has passed its check, the checked rules are the answer, else the best that nothing known refutes.
    _review_checked(problem, state)
    if state.checked and not isinstance(next(iter(state.checked.values())), Refuted):
        return _order_rules(state, stopped)
    rule, verdict = _choose_fallback(problem, state)
    return SearchResult((rule,), (verdict,), stopped)


def _search_and_check(problem: Problem, algorithm: Algorithm, state: SearchState) -> SearchResult:
    checks = 0
    # Each turn searches, then checks the rules, best first. Exceptions that a check finds are given to the oracle's
    # cache, so the next search avoids these rules. It ends when the best rule passes, or after `attempts` checks.
    while True:
        state.checked.clear()
        rules = algorithm.run(problem, state)
        if not rules:  # no rule is consistent with what is allowed: even the longest has an exception
            longest = problem.allowed
            return SearchResult((longest,), (problem.find_known_exceptions(longest) or problem.ask(longest),))
        for rule in rules:
            # The rule contains one that has passed: it says nothing more.
            if any(rule & better == better for better in _list_passed(state)):
                continue
            checks += 1
            verdict = state.checked[rule] = check_rule(problem, rule, checks)
            if isinstance(verdict, Refuted):
                problem.oracle.add_counterfactuals(verdict.points)  # at once: the next check may be interrupted
        _review_checked(problem, state)
        if not isinstance(state.checked[rules[0]], Refuted) or checks >= algorithm.attempts:
            return _order_rules(state)


def _list_passed(state: SearchState) -> list[int]:
    """The rules that passed their check."""
    return [rule for rule, verdict in state.checked.items() if not isinstance(verdict, Refuted)]


def _review_checked(problem: Problem, state: SearchState) -> None:
    """What one check left unrefuted, another may have found an exception to."""
    for rule in _list_passed(state):
        if isinstance(state.checked[rule], Unrefuted):
            state.checked[rule] = problem.find_known_exceptions(rule) or state.checked[rule]


def _order_rules(state: SearchState, stopped: str | None = None) -> SearchResult:
    """Refuted rules go last; otherwise the algorithm's order stands. None adds something to one before it."""
    order = sorted(state.checked, key=lambda rule: isinstance(state.checked[rule], Refuted))
    kept = [rule for place, rule in enumerate(order) if not any(rule & other == other for other in order[:place])]
    return SearchResult(tuple(kept), tuple(state.checked[rule] for rule in kept), stopped)


def check_rule(problem: Problem, rule: int, check_number: int) -> Verdict:
    """What can be said of a rule now that it is chosen; ``check_number`` counts the checks of one search."""
    box = problem.case.components.box(rule)
    known = problem.oracle.lookup(box)
    if isinstance(known, Proven):
        return known
    return problem.find_known_exceptions(rule) or check_box(problem, box, known, check_number)


def check_box(problem: Problem, box: Box, known: Verdict | None, check_number: int) -> Verdict:
    """The same for any box: the exact oracle if there is one, then enumeration, then points drawn at random."""
    meter, query, run = problem.meter, BoxQuery(problem.case, box, problem.k), problem.run
    # The evaluations that were kept back are for this check.
    reserve, meter.reserve = meter.reserve, 0
    with meter.time_block("check"):
        exact_answer = problem.oracle.find(query, run) if problem.oracle.exact else NOT_SEARCHED
        answer = exact_answer
        # From the strongest method to the weakest, as long as nothing is decided: exact oracle, enumeration of a small
        # box, random points with a confidence that accounts for the number of checks (see the module's docstring).
        if isinstance(answer, Unrefuted):
            answer = Exhaustive(limit=CHECK_SAMPLES).find(query, run)
        if isinstance(answer, Unrefuted):
            confidence = 1.0 - ERROR_PROBABILITY / (check_number * (check_number + 1))
            answer = Sampling(CHECK_SAMPLES, confidence).find(query, run)
    meter.reserve = reserve
    if not isinstance(answer, Unrefuted):
        return answer
    before = known if isinstance(known, Unrefuted) else NOT_SEARCHED
    explored = exact_answer.explored if isinstance(exact_answer, Unrefuted) else 0.0
    return replace(answer, tried=before.tried + answer.tried, explored=max(before.explored, explored))


def _choose_fallback(problem: Problem, state: SearchState) -> tuple[int, Verdict]:
    """The best rule that nothing known refutes: the search's own, or else the shortest that meets all known demands."""
    # A rule that hits all known demands has no known exception.
    demands = problem.list_demands()
    rule = next((rule for rule in state.best if problem.hits_demands(rule, demands)), None)
    if rule is None:
        shortest = find_minimum_hitting_set(demands, problem.weights, node_limit=FALLBACK_NODES)
        rule = unpack_sets(shortest.members[None, :])[0] if shortest.feasible else problem.allowed
    # The verdict that the search itself has reached on the rule: the model is not asked again.
    known = problem.oracle.lookup(problem.case.components.box(rule))
    return rule, problem.find_known_exceptions(rule) or known or NOT_SEARCHED

"""The one loop that drives every algorithm: search, check the result afresh, and search on if the check refutes it.

Where the oracle reads the model, a rule that the search never asked about is put to it: it proves or refutes. Else, and
where that oracle gives up, the check is independent of the search: a proof by enumeration where the box is small, or
points drawn after the rule was chosen. Several rules may be checked until one passes, so the doubt of 5 % is spread
over the checks: the i-th may err with probability 0.05 / (i (i + 1)), which sums to 0.05 at the most.

A rule that adds something to a better one is left out, but only where the better one passes its check: a short rule
that is refuted hides no longer one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ironrule.oracles import Exhaustive, Sampling
from ironrule.rule import Box
from ironrule.rule.bits import unpack
from ironrule.rule.hitting import minimum_hitting_set
from ironrule.search.problem import Algorithm, Problem, Trail
from ironrule.verdict import Proven, Refuted, Spent, Unrefuted, Verdict
from ironrule.verdict.budget import Glance

DOUBT = 0.05
CHECK_SAMPLES = 10_000
FALLBACK_NODES = 200_000
UNKNOWN = Unrefuted(tried=0, samples=0, confidence=0.0)


@dataclass(frozen=True, slots=True)
class Findings:
    """The rules found, best first, with their verdicts, and why the search ended early if it did."""

    rules: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    stopped: str | None = None
    lower_bound: float = 0.0  # no consistent rule weighs less, in units; 0 where nothing is known of that
    needing: npt.NDArray[np.uint64] | None = None  # the demands by which that was shown, where they are known


def solve(problem: Problem, algorithm: Algorithm) -> Findings:
    """Run an algorithm within its budget; whatever stops it, the answer is the best it has and an honest verdict."""
    trail, meter = Trail(), problem.meter
    meter.glance = lambda: _glance(problem, trail)
    limit = meter.budget.evaluations
    meter.reserve = 0 if limit is None else min(CHECK_SAMPLES, limit // 10)
    found = _found(problem, algorithm, trail)
    return replace(found, lower_bound=trail.lower_bound, needing=trail.needing)


def _glance(problem: Problem, trail: Trail) -> Glance:
    """How far a search has come, in the user's terms; for showing only, so a float will do."""
    best = float(problem.in_user_terms(problem.weight(trail.best[0]))) if trail.best else None
    return Glance(best, float(problem.in_user_terms(trail.lower_bound)))


def _found(problem: Problem, algorithm: Algorithm, trail: Trail) -> Findings:
    try:
        return _search(problem, algorithm, trail)
    except Spent:
        stopped = "budget"
    except KeyboardInterrupt:
        stopped = "interrupted"
    _review(problem, trail)
    if trail.checked and not isinstance(next(iter(trail.checked.values())), Refuted):
        return _in_order(trail, stopped)
    rule, verdict = _fallback(problem, trail)
    return Findings((rule,), (verdict,), stopped)


def _search(problem: Problem, algorithm: Algorithm, trail: Trail) -> Findings:
    checks = 0
    while True:
        trail.checked.clear()
        rules = algorithm.run(problem, trail)
        if not rules:
            return _impossible(problem)
        for rule in rules:
            if any(rule & better == better for better in _standing(trail)):
                continue
            checks += 1
            verdict = trail.checked[rule] = check(problem, rule, checks)
            if isinstance(verdict, Refuted):
                problem.oracle.learn(verdict.points)  # at once: the next check may be interrupted
        _review(problem, trail)
        if not isinstance(trail.checked[rules[0]], Refuted) or checks >= algorithm.attempts:
            return _in_order(trail)


def _standing(trail: Trail) -> list[int]:
    """The rules that passed their check."""
    return [rule for rule, verdict in trail.checked.items() if not isinstance(verdict, Refuted)]


def _review(problem: Problem, trail: Trail) -> None:
    """What one check left unrefuted, another may have found an exception to."""
    for rule in _standing(trail):
        if isinstance(trail.checked[rule], Unrefuted):
            trail.checked[rule] = problem.exceptions(rule) or trail.checked[rule]


def _in_order(trail: Trail, stopped: str | None = None) -> Findings:
    """Refuted rules go last; otherwise the algorithm's order stands. None adds something to one before it."""
    order = sorted(trail.checked, key=lambda rule: isinstance(trail.checked[rule], Refuted))
    kept = [rule for place, rule in enumerate(order) if not any(rule & other == other for other in order[:place])]
    return Findings(tuple(kept), tuple(trail.checked[rule] for rule in kept), stopped)


def check(problem: Problem, rule: int, place: int) -> Verdict:
    """What can be said of a rule now that it is chosen; ``place`` counts the checks of one search."""
    box = problem.case.relevant.box(rule)
    known = problem.oracle.recall(box)
    if isinstance(known, Proven):
        return known
    return problem.exceptions(rule) or check_afresh(problem, box, known, place)


def check_afresh(problem: Problem, box: Box, known: Verdict | None, place: int) -> Verdict:
    """The same for any box: a proof by enumeration, points that nobody has chosen, and what was known besides."""
    case, meter = problem.case, problem.meter
    reserve, meter.reserve = meter.reserve, 0
    with meter.timed("check"):
        oracle = problem.oracle
        said = oracle.find(case, box, problem.k, meter, problem.rng) if oracle.reads else UNKNOWN
        answer = said
        if isinstance(answer, Unrefuted):
            answer = Exhaustive(limit=CHECK_SAMPLES).find(case, box, problem.k, meter, problem.rng)
        if isinstance(answer, Unrefuted):
            confidence = 1.0 - DOUBT / (place * (place + 1))
            answer = Sampling(CHECK_SAMPLES, confidence).find(case, box, problem.k, meter, problem.rng)
    meter.reserve = reserve
    if not isinstance(answer, Unrefuted):
        return answer
    before = known if isinstance(known, Unrefuted) else UNKNOWN
    explored = said.explored if isinstance(said, Unrefuted) else 0.0
    return replace(answer, tried=before.tried + answer.tried, explored=max(before.explored, explored))


def _impossible(problem: Problem) -> Findings:
    """No rule is consistent with what is allowed: even the longest has an exception."""
    return Findings((problem.allowed,), (problem.exceptions(problem.allowed) or problem.ask(problem.allowed),))


def _fallback(problem: Problem, trail: Trail) -> tuple[int, Verdict]:
    """The best rule that nothing known refutes: the search's own, or else the shortest that meets all known demands."""
    demands = problem.demands()
    for rule in trail.best:
        if (demands & problem.words(rule)).any(axis=1).all():
            return rule, _earned(problem, rule)
    shortest = minimum_hitting_set(demands, problem.weights, node_limit=FALLBACK_NODES)
    rule = unpack(shortest.members[None, :])[0] if shortest.feasible else problem.allowed
    return rule, _earned(problem, rule)


def _earned(problem: Problem, rule: int) -> Verdict:
    """The verdict that the search itself has reached on a rule, without asking the model again."""
    known = problem.oracle.recall(problem.case.relevant.box(rule))
    return problem.exceptions(rule) or known or UNKNOWN

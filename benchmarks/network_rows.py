"""Rows of a network explained: is the rule proven, is it proven that nothing of it can go, and how long is it?

The search works on a pack, so that it is the same on every machine; what an Explainer adds is writing the answer down.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.network_packs import Pack, load
from benchmarks.proof_tables import good_ones, quantile, share, times
from benchmarks.proof_worker import Answer
from benchmarks.stopwatch import timed
from ironrule import Budget, Proven, Refuted, Unrefuted
from ironrule.backends.network.engine import BoundEngine, choose_engine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.hitting.bits import list_members
from ironrule.hitting.weights import get_unit_weights
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import Run
from ironrule.rule.duals import count_distinct_duals
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Verdict

WARM_SECONDS = 5.0
COUNTERFACTUALS = 5


@dataclass(frozen=True, slots=True)
class State:
    """A pack, and where its network is bounded."""

    pack: Pack
    engine: BoundEngine
    clock: type[Meter] = Meter


def prepare(folder: Path, name: str, warm: int, device: str | None, clock: type[Meter] = Meter) -> tuple[State, Answer]:
    """A task that was prepared before, compiled and warm."""
    state = State(load(folder, name), choose_engine(device), clock)
    explain(state, warm, WARM_SECONDS)
    return state, {"task": name}


def problem_of(state: State, row: int, budget: float) -> Problem:
    """The problem of explaining a row."""
    case = state.pack.case(row)
    relevant, oracle = case.components, NetworkOracle(state.pack.nets, engine=state.engine)
    meter, rng = state.clock(Budget(seconds=budget)), np.random.default_rng(0)
    duals = count_distinct_duals(case.history.desired.columns, relevant.low, relevant.high)
    weights = get_unit_weights(2 * len(case.space))
    remembering = CachingOracle(oracle, exact=True)
    return Problem(
        case=case,
        oracle=remembering,
        history=duals,
        allowed=relevant.usable,
        required=(),
        weights=weights,
        k=COUNTERFACTUALS,
        run=Run(meter, rng),
    )


def explain(state: State, row: int, budget: float) -> Answer:
    """One row: what was found, and what is known of it when time is up."""
    problem = problem_of(state, row, budget)
    findings, taken = timed(lambda: solve(problem, Minimum()))
    rule, verdict = findings.rules[0], findings.verdicts[0]
    proven = isinstance(verdict, Proven)
    known = [known_of(problem, rule & ~(1 << bit)) for bit in list_members(rule)]
    return {
        "wall": taken.wall,
        "cpu": taken.cpu,
        "proven": proven,
        "minimum": proven and findings.lower_bound >= problem.weigh(rule),
        "irredundant": proven and all(isinstance(one, Refuted) for one in known),
        "cardinality": rule.bit_count(),
        "lower bound": findings.lower_bound,
        "undecided": sum(isinstance(one, Unrefuted) for one in known),
        "not asked": sum(one is None for one in known),
        "stopped": findings.stopped,
        "parts": problem.meter.events["boxes"],
        "calls": problem.meter.events["oracle calls"],
    }


def known_of(problem: Problem, rule: int) -> Verdict | None:
    """What is known of a rule when the search is over; nobody is asked anew."""
    return problem.find_known_exceptions(rule) or problem.oracle.lookup(problem.case.components.box(rule))


def line(name: str, answers: list[Answer]) -> Answer:
    """One line of the table; rows that failed count as not proven, and have no time."""
    good = good_ones(answers)
    proven: list[Any] = [one for one in good if one["proven"]]
    return {
        "task": name,
        "rows": len(answers),
        "failed": len(answers) - len(good),
        "proven": share(answers, "proven"),
        "irredundant": share(answers, "irredundant"),
        "minimum": share(answers, "minimum"),
        "components": _mean([one["cardinality"] for one in proven]),
        "at least": _mean([one["lower bound"] for one in proven]),
        "undecided": _mean([one["undecided"] for one in proven]),
        "not asked": _mean([one["not asked"] for one in proven]),
        "median s": _seconds(times(good, "wall")),
        "CPU s": _seconds(times(good, "cpu")),
    }


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _seconds(values: list[float]) -> float | None:
    middle = quantile(values, 0.5)
    return None if middle is None else middle / 1000

"""One row explained by the exact search, watched: when the first rule came, what the work consisted of.

The search is watched through what every algorithm is given, its problem and its state, so nothing of the engine is
replaced. Whether rules have redundant components is judged after the clock has stopped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.proof_models import Task
from benchmarks.proof_worker import Answer
from benchmarks.stopwatch import timed
from ironrule import Budget, Explainer, Explanation, Proven, Refuted
from ironrule.backends.compiled_model import compile_models
from ironrule.hitting.bits import list_members
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, SearchState, reduce_rule
from ironrule.verdict.budget import BudgetExhausted, Meter

WARM_SECONDS = 5.0
JUDGED_SECONDS = 10.0
PAST = 4096


@dataclass(slots=True)
class Watched:
    """The minimum search with a note of every rule that it reached, and when."""

    inner: Minimum = field(default_factory=Minimum)
    reached: list[tuple[int, float, float]] = field(default_factory=list)  # rule, wall and CPU seconds since the start
    problem: Problem | None = None
    began: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))

    @property
    def attempts(self) -> int:
        """As often as the search itself."""
        return self.inner.attempts

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """What the search finds."""
        self.problem = problem
        return self.inner.run(problem, WatchedState(state, self))  # type: ignore[arg-type]

    def notice(self, rules: list[int]) -> None:
        """The search has a rule: note it, the first time."""
        if rules and all(rule != rules[0] for rule, _, _ in self.reached):
            wall, cpu = self.began
            self.reached.append((rules[0], time.perf_counter() - wall, time.process_time() - cpu))


class WatchedState:
    """A search state that tells when the best rule changes; all else is the state's own."""

    def __init__(self, state: SearchState, watched: Watched) -> None:
        object.__setattr__(self, "_state", state)
        object.__setattr__(self, "_watched", watched)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_state"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_state"), name, value)
        if name == "best":
            object.__getattribute__(self, "_watched").notice(value)


@dataclass(frozen=True, slots=True)
class Deletion:
    """An irredundant rule in the simplest way: from the whole instance, drop one component after the other.

    What the first rule of the minimum search is held against: one query per component, and nothing else.
    """

    attempts: int = 1

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The rule that is left."""
        state.best = [reduce_rule(problem, problem.allowed)]
        return state.best


def prepare(task: Task, warm: int) -> tuple[Explainer, Answer]:
    """The explainer of a task, compiled and warm, and what making it and reading the model took."""
    explainer, construction = timed(task.explainer)
    if explainer.unreadable_reason is not None:
        raise RuntimeError(f"the model must be readable, but: {explainer.unreadable_reason}")
    past = explainer.space.encode(task.table, progress=False).points(slice(0, PAST))
    asked, target = explainer._context.model, explainer._context.target
    _, reading = timed(lambda: compile_models([task.model], asked, explainer.space, past, target))
    explain(explainer, warm, WARM_SECONDS)
    (read, again) = timed(lambda: compile_models([task.model], asked, explainer.space, past, target))
    forests = read.alternatives
    return explainer, {
        "construction s": construction.wall,
        "construction CPU s": construction.cpu,
        "reading s": min(reading.wall, again.wall),
        "reading CPU s": min(reading.cpu, again.cpu),
        "features": len(explainer.space),
        "trees": sum(len(forest.root) for forest in forests),
        "leaves": sum(len(forest.leaf_values) for forest in forests),
        "cells": int(forests[0].cells.cell_starts[-1]),
    }


def explain(explainer: Explainer, row: int, budget: float) -> Answer:
    """One row: what was found, what is proven of it, and what it took."""

    def watch() -> tuple[Watched, Explanation]:
        watched = Watched()  # its clock starts after the one of the whole search
        return watched, explainer.explain(row, algorithm=watched, budget=budget, widen=False)

    (watched, explanation), taken = timed(watch)
    problem, did = watched.problem, explanation.statistics
    assert problem is not None
    plain, deletion = timed(lambda: explainer.explain(row, algorithm=Deletion(), k=1, budget=budget, widen=False))
    last = watched.reached[-1][0] if watched.reached else None
    return {
        "row": row,
        "budget": budget,
        "wall": taken.wall,
        "cpu": taken.cpu,
        "proven": isinstance(explanation.verdict, Proven),
        "minimum": explanation.minimum,
        "cardinality": explanation.cardinality,
        "lower bound": explanation.lower_bound,
        "stopped": did.stopped,
        "irredundant": explanation.minimum or (last is not None and irredundant(problem, last)),
        **first_rule(problem, watched),
        "deletion wall": deletion.wall,
        "deletion cpu": deletion.cpu,
        "deletion cardinality": plain.cardinality,
        "deletion proven": isinstance(plain.verdict, Proven) and plain.statistics.stopped is None,
        "operators": {name: round(seconds, 5) for name, seconds in did.operator_seconds.items()},
        "boxes": problem.meter.events["boxes"],
        "events": dict(problem.meter.events),
        "oracle calls": did.oracle_calls,
        "candidates": did.candidates,
        "counterfactuals": 0 if problem.oracle.points is None else len(problem.oracle.points),
        "demands": len(problem.list_demands()),
    }


def first_rule(problem: Problem, watched: Watched) -> Answer:
    """When the first rule without redundant components was at hand; it is judged afterwards."""
    for rule, wall, cpu in watched.reached:
        if irredundant(problem, rule):
            many = rule.bit_count()
            return {"first wall": wall, "first cpu": cpu, "first cardinality": many, "first irredundant": True}
    return {"first wall": None, "first cpu": None, "first cardinality": None, "first irredundant": False}


def irredundant(problem: Problem, rule: int) -> bool:
    """Whether a rule is proven and no component can go; what the search has found out already is believed."""
    if not isinstance(_asked(problem, rule), Proven):
        return False
    return all(isinstance(_asked(problem, rule & ~(1 << bit)), Refuted) for bit in list_members(rule))


def _asked(problem: Problem, rule: int) -> Any:
    box, meter = problem.case.components.box(rule), Meter(Budget(seconds=JUDGED_SECONDS))
    known = problem.oracle.lookup(box) or problem.find_known_exceptions(rule)
    try:
        return known or problem.oracle.find(BoxQuery(problem.case, box), Run(meter, np.random.default_rng(0)))
    except BudgetExhausted:  # not known in time
        return None

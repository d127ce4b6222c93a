"""The half of benchmarks/other_oracles.py that runs in the solvers' environment: HiGHS, CP-SAT and RC2 on one problem.

    python benchmarks/leaf_solvers_part.py FOLDER SOLVER

FOLDER holds problems.json (see leaf_problems.py) and settings.json. Written is SOLVER.json: for every problem whether
leaves with a sum above the bound exist, with a cell per feature, and the CPU time of building and of solving.

Cells of a feature are in order coding: x_j says "cell j or a later one". Where a condition is no interval of cells, the
feature has a variable per cell as well. HiGHS and CP-SAT get, per tree, leaves that sum to one, and for every cut of a
feature the leaves beyond it together under its variable (the strong form: Parmentier and Vidal, 2021, after Kantchelian
et al., 2016). RC2 gets, per tree, "at least this leaf's value" as soft literals weighted by the steps between values,
which was much faster than one soft literal per leaf (Ignatiev et al., "Using MaxSAT for efficient explanations of tree
ensembles", 2022), with the same early ends: above the bound, or surely not.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pysat.examples.rc2 import RC2Stratified
from pysat.formula import WCNF

SCALE = 10**6  # what weights are multiplied by where they must be integers
WALL = 2.0  # HiGHS and CP-SAT keep limits by the wall clock only, of which a busy machine gives them a half
CONFLICTS = 2_000  # between two looks at the clock
Answer = dict[str, Any]


@dataclass(slots=True)
class Linear:
    """Variables between 0 and 1, and rows ``sum of coefficient x variable <= limit``."""

    whole: list[bool]
    rows: list[tuple[dict[int, float], float]]
    order: list[list[int]]  # per feature the variables "cell j or a later one", j from 1
    one_hot: dict[int, list[int]]
    leaves: list[list[int]]  # per tree

    def add(self, whole: bool) -> int:
        """A new variable."""
        self.whole.append(whole)
        return len(self.whole) - 1


def linear(problem: Answer) -> Linear:
    """The strong leaf-choice form of a problem."""
    made = Linear([], [], [], {}, [])
    for cells in problem["cells"]:
        made.order.append([made.add(True) for _ in range(cells - 1)])
        made.rows += [({b: 1.0, a: -1.0}, 0.0) for a, b in pairwise(made.order[-1])]
    for feature in {int(f) for leaves in problem["trees"] for _, told in leaves for f, c in told.items() if gaps(c)}:
        _link(made, feature)
    for leaves in problem["trees"]:
        made.leaves.append([made.add(False) for _ in leaves])
        made.rows += [(dict.fromkeys(made.leaves[-1], sign), sign) for sign in (1.0, -1.0)]
        _conditions(made, leaves, made.leaves[-1])
    return made


def gaps(cells: list[int]) -> bool:
    """Whether cells are no interval."""
    return cells[-1] - cells[0] + 1 != len(cells)


def _link(made: Linear, feature: int) -> None:
    """A variable per cell, z_j = x_j - x_(j+1)."""
    order = made.order[feature]
    made.one_hot[feature] = [made.add(False) for _ in range(len(order) + 1)]
    for cell, variable in enumerate(made.one_hot[feature]):
        row, limit = {variable: 1.0}, 0.0
        if cell > 0:
            row[order[cell - 1]] = -1.0
        else:
            limit = 1.0
        if cell < len(order):
            row[order[cell]] = 1.0
        made.rows += [(row, limit), ({key: -value for key, value in row.items()}, -limit)]


def _conditions(made: Linear, leaves: list[Any], variables: list[int]) -> None:
    lower: dict[int, dict[int, int]] = {}
    upper: dict[int, dict[int, int]] = {}
    for (_, told), leaf in zip(leaves, variables, strict=True):
        for name, cells in told.items():
            feature = int(name)
            if gaps(cells):
                row = {made.one_hot[feature][cell]: -1.0 for cell in cells}
                made.rows.append((row | {leaf: 1.0}, 0.0))
                continue
            if cells[0] > 0:
                lower.setdefault(feature, {})[leaf] = cells[0]
            if cells[-1] < len(made.order[feature]):
                upper.setdefault(feature, {})[leaf] = cells[-1] + 1
    for feature, first in lower.items():
        for cut in set(first.values()):
            row = {leaf: 1.0 for leaf, cell in first.items() if cell >= cut}
            made.rows.append((row | {made.order[feature][cut - 1]: -1.0}, 0.0))
    for feature, last in upper.items():
        for cut in set(last.values()):
            row = {leaf: 1.0 for leaf, cell in last.items() if cell <= cut}
            made.rows.append((row | {made.order[feature][cut - 1]: 1.0}, 1.0))


def _gains(problem: Answer, made: Linear) -> dict[int, float]:
    """The value of every leaf's variable."""
    pairs = zip(problem["trees"], made.leaves, strict=True)
    return {v: leaf[0] for leaves, some in pairs for leaf, v in zip(leaves, some, strict=True)}


def highs(problem: Answer, limit: float) -> Answer:
    """HiGHS: the sum above the bound is a row; the first solution ends the search."""
    import highspy  # here: in one process with ortools, which has a HiGHS of its own, one of them fails

    began, made = time.process_time(), linear(problem)
    solver, model = highspy.Highs(), highspy.HighsLp()
    gains = _gains(problem, made)
    rows = [*made.rows, ({v: -value for v, value in gains.items()}, -problem["more than"])]
    model.num_col_, model.num_row_ = len(made.whole), len(rows)
    model.col_cost_ = np.array([-gains.get(v, 0.0) for v in range(len(made.whole))])
    model.col_lower_, model.col_upper_ = np.zeros(len(made.whole)), np.ones(len(made.whole))
    model.row_lower_, model.row_upper_ = np.full(len(rows), -highspy.kHighsInf), np.array([cap for _, cap in rows])
    model.integrality_ = [highspy.HighsVarType.kInteger if w else highspy.HighsVarType.kContinuous for w in made.whole]
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row) for row, _ in rows)])
    model.a_matrix_.index_ = np.array([v for row, _ in rows for v in row])
    model.a_matrix_.value_ = np.array([c for row, _ in rows for c in row.values()])
    options = {"output_flag": False, "threads": 1, "time_limit": WALL * limit, "mip_max_improving_sols": 1}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(model)
    built = time.process_time()
    solver.run()
    taken = {"build": built - began, "cpu": time.process_time() - built}
    status, info = solver.getModelStatus(), solver.getInfo()
    if info.primal_solution_status == 2:
        values = solver.getSolution().col_value
        return taken | {"answer": "found", "cells": [sum(values[v] > 0.5 for v in some) for some in made.order]}
    ended = status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
    return taken | {"answer": "none" if ended else "undecided"}


def cp_sat(problem: Answer, limit: float) -> Answer:
    """CP-SAT: the same rows over literals; the sum, in whole units, above the bound."""
    from ortools.sat.python import cp_model

    began, made, model = time.process_time(), linear(problem), cp_model.CpModel()
    variables = [model.new_bool_var("") for _ in made.whole]
    for some in made.leaves:
        model.add_exactly_one([variables[v] for v in some])
    for row, cap in made.rows:
        model.add(sum(int(c) * variables[v] for v, c in row.items()) <= int(cap))
    gained = sum(round(value * SCALE) * variables[v] for v, value in _gains(problem, made).items())
    model.add(gained > round(problem["more than"] * SCALE))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, WALL * limit
    built = time.process_time()
    status = solver.solve(model)
    taken = {"build": built - began, "cpu": time.process_time() - built}
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        cells = [sum(solver.value(variables[v]) for v in some) for some in made.order]
        return taken | {"answer": "found", "cells": cells}
    return taken | {"answer": "none" if status == cp_model.INFEASIBLE else "undecided"}


class Decided(Exception):  # noqa: N818  # an answer, not a failure
    """The search of RC2 may end."""


class EarlyRC2(RC2Stratified):  # type: ignore[misc]
    """RC2 that ends as soon as the question is decided, or the time is over."""

    question: Callable[[list[int]], bool]
    most: int  # a cost above it decides the question
    deadline: float

    def _call_oracle(self, assumptions: Any = (), expect_interrupt: bool = False) -> bool:  # noqa: ARG002
        while True:
            if self.cost > self.most:
                raise Decided("none")
            if time.process_time() > self.deadline:
                raise Decided("undecided")
            self.oracle.conf_budget(CONFLICTS)
            answer = self.oracle.solve_limited(assumptions=list(assumptions))
            if answer is not None:
                break
        if answer and self.question(self.oracle.get_model()):
            raise Decided("found")
        return bool(answer)


def rc2(problem: Answer, limit: float) -> Answer:
    """MaxSAT with RC2: the largest sum of leaves, until it is known on which side of the bound it lies."""
    began, formula, top = time.process_time(), WCNF(), 0
    order: list[list[int]] = []
    for cells in problem["cells"]:
        order.append(list(range(top + 1, top + cells)))
        top += cells - 1
        formula.extend([[a, -b] for a, b in pairwise(order[-1])])
    weights: list[dict[int, int]] = []
    for leaves in problem["trees"]:
        literals = range(top + 1, top + len(leaves) + 1)
        top += len(leaves)
        formula.append(list(literals))
        weights.append({x: round(leaf[0] * SCALE) for x, leaf in zip(literals, leaves, strict=True)})
        for leaf, literal in zip(leaves, literals, strict=True):
            formula.extend([[-literal, *clause] for clause in _clauses(leaf[1], order)])
    least = sum(min(tree.values()) for tree in weights)
    soft = {}
    for tree in weights:
        levels = sorted(set(tree.values()))
        for below, level in pairwise(levels):
            top += 1
            formula.append([-top, *(x for x, w in tree.items() if w >= level)])
            soft[top] = level - below
    for literal, weight in soft.items():
        formula.append([literal], weight=weight)
    needed = round(problem["more than"] * SCALE) - least  # the sum of weights must exceed it
    seen: list[list[int]] = []

    def question(model: list[int]) -> bool:
        true = set(model)
        value = sum(max(w for x, w in tree.items() if x in true) for tree in weights) - least
        if value > needed:
            seen.append([sum(x in true for x in some) for some in order])
        return value > needed

    built = time.process_time()
    solver = EarlyRC2(formula, solver="g4", minz=True)
    solver.question, solver.most, solver.deadline = question, sum(soft.values()) - needed - 1, built + limit
    try:
        answer = "none" if solver.compute() is not None else "undecided"
    except Decided as decided:
        answer = str(decided)
    finally:
        solver.delete()
    taken = {"build": built - began, "cpu": time.process_time() - built, "answer": answer}
    return taken | ({"cells": seen[0]} if answer == "found" else {})


def _clauses(told: Answer, order: list[list[int]]) -> list[list[int]]:
    """What a leaf demands, each clause one demand: cells from the first to the last, none of the gaps."""
    clauses = []
    for name, cells in told.items():
        cuts = order[int(name)]
        runs = [cell for cell in cells if cell - 1 not in cells], [cell for cell in cells if cell + 1 not in cells]
        if runs[0][0] > 0:
            clauses.append([cuts[runs[0][0] - 1]])
        if runs[1][-1] < len(cuts):
            clauses.append([-cuts[runs[1][-1]]])
        for last, first in zip(runs[1], runs[0][1:], strict=False):  # at the gap's near side, or past it
            clauses.append([-cuts[last], cuts[first - 1]])
    return clauses


SOLVERS: dict[str, Callable[[Answer, float], Answer]] = {"HiGHS": highs, "CP-SAT": cp_sat, "RC2": rc2}


def main() -> None:
    """Read, decide, write after every problem."""
    place, name = Path(sys.argv[1]), sys.argv[2]
    limit = json.loads((place / "settings.json").read_text())["limit"]
    problems = json.loads((place / "problems.json").read_text())
    answers = []
    for problem in problems:
        answers.append(SOLVERS[name](problem, limit))
        (place / f"{name}.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()

"""Actionable recourse (Ustun, Spangher, Liu: "Actionable Recourse in Linear Classification", FAT* 2019).

Of every feature there is a grid of actions: the values that it may take, each with what it adds to the score and what
it costs. A mixed-integer program chooses one action per feature, so that the score passes the threshold at the least
cost; HiGHS solves it, by way of ``scipy.optimize.milp``. Where the grid has every permitted value, as it does if these
are few, no counterfactual costs less. Further counterfactuals change other sets of features, as in the paper's flipset.

The paper is about linear models. Nothing changes if what a feature adds is any function of it, so additive models are
served too, and with a constraint per margin those of several classes.

Costs are percentiles of past rows, so that a change counts by how many people it overtakes. ``max`` is the largest
shift of a percentile, and a thousandth of their sum, so that nothing is changed for nothing; ``total`` is the sum of
|log((1 - new percentile) / (1 - old percentile))|, by which the last steps to the top are the most expensive. The paper
has no categories of more than two values. Here, to become one costs the share of past rows that are something else,
and likewise to become missing, or no longer to be.

Constraints on two features are part of the program. Where a solution breaks another one, or where the model denies it,
it is excluded, in a program with one margin together with all that add up to no more, and the program is solved again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np

from ironrule.arrays import Float64Array, IntpArray, Points
from ironrule.errors import InputError, describe_value
from ironrule.model.protocol import Unreadable
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.feature_sums import TabulatedSum, raise_unsuitable, require_tree_sum, tabulate_sums
from ironrule.oracles.heuristics.parameters import require_count
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Case, Run
from ironrule.verdict.budget import BudgetExhausted, Meter, name_stop
from ironrule.verdict.verdict import Unrefuted, Verdict

RecourseCost = Literal["max", "total"]
SUM_SHARE = 1e-3  # of the sum of costs that counts beside the largest one
TIE_COST = 1e-5  # of any change, and of its length: of equal percentiles the nearest value
SOLVER_SLACK = 1e-6  # of the largest number in a row, by which the solver may miss its limit


@dataclass(frozen=True, slots=True)
class ActionableRecourse:
    """``cost`` says how percentiles are added up; of a feature with more values than ``grid``, so many are tried.

    Up to ``programs`` programs are solved for one question.
    """

    cost: RecourseCost = "max"
    grid: int = 100
    programs: int = 200
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        if self.cost not in get_args(RecourseCost):
            expected = f"cost must be one of {', '.join(get_args(RecourseCost))}"
            raise InputError(expected=expected, got=describe_value(self.cost))
        require_count(grid=self.grid, programs=self.programs)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, the cheapest first, of different changed features; ``Unrefuted`` if the grid has
        none.
        """
        before = run.meter.evaluations
        found, stopped = self._search(query, run)
        if not found:
            return Unrefuted(tried=run.meter.evaluations - before, samples=0, confidence=0.0)
        return replace(query.case.build_refuted(np.stack(found)), stopped=stopped)

    def _search(self, query: BoxQuery, run: Run) -> tuple[list[Points], str | None]:
        """The counterfactuals, and what stopped the search before its end, if anything did."""
        sums = _tabulate_model(query.case)
        search = CandidateSearch.build(query, run)
        found: list[Points] = []
        if search is None:
            return found, None
        program = RecourseProgram.build(search, sums, self.cost, self.grid)
        try:
            for _ in range(self.programs):
                run.meter.check()
                point = program.solve(run.meter)
                if point is None:
                    break
                broken = program.exclude_broken(point)
                if not broken and len(search.ask(point[None, :])):
                    found.append(point)
                    program.exclude_changed_features(point)
                elif not broken:
                    program.exclude_denied(point)
                if len(found) == query.k or program.is_settled:
                    break
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            if not found:
                raise
            return found, name_stop(stop, run.meter)
        return found, None


def _tabulate_model(case: Case) -> tuple[tuple[TabulatedSum, ...], ...]:
    """The model's margins as sums over codes; raises InputError if they are none."""
    form, read = require_tree_sum(case, "ActionableRecourse")
    try:
        sums = tabulate_sums(form, read, case.space.sizes.tolist())
    except Unreadable as reason:
        raise_unsuitable("ActionableRecourse", str(reason), "a linear or additive model")
    if sums is None:
        raise_unsuitable("ActionableRecourse", "trees that look at several features", "a linear or additive model")
    return sums


def tabulate_costs(case: Case, search: CandidateSearch, cost: RecourseCost) -> tuple[Float64Array, ...]:
    """What it costs to get every code of every feature; the instance's own are free."""
    tables = []
    for j, table in enumerate(search.encoding.tables):
        counts, own = case.history.frequencies[j].astype(np.float64), int(case.instance[j])
        share = counts / (counts.sum() or 1.0)
        costs = 1.0 - share
        if search.encoding.ordered[j]:
            numbers = np.ones(len(table), dtype=np.bool_) if table.shape[1] == 1 else table[:, 1] == 0.0
            if numbers[own]:
                shifts = _measure_shifts(table[numbers, 0], counts[numbers], table[own, 0], cost)
                costs[numbers] = shifts + TIE_COST * np.abs(table[numbers, 0] - table[own, 0])
        costs += TIE_COST
        costs[own] = 0.0
        tables.append(costs)
    return tuple(tables)


def _measure_shifts(places: Float64Array, counts: Float64Array, own: float, cost: RecourseCost) -> Float64Array:
    """How far the percentiles of numbers are from that of the own one."""
    order = np.argsort(places, kind="stable")
    percentiles = np.empty(len(places))
    # of one more row than there are, so that nobody is at 100%
    percentiles[order] = np.cumsum(counts[order]) / (counts.sum() + 1.0)
    here = float(percentiles[np.flatnonzero(places == own)[0]])
    if cost == "max":
        return np.abs(percentiles - here)
    return np.asarray(np.abs(np.log1p(-percentiles) - math.log1p(-here)))


@dataclass(slots=True, eq=False)
class MarginRow:
    """A margin in the program: what every action adds, and what all of them together must reach."""

    added: Float64Array
    limit: float

    @property
    def size(self) -> float:
        """The largest number in the row, by which it is scaled."""
        return float(np.abs(self.added).max(initial=0.0)) or 1.0


class Cut(NamedTuple):
    """A row of the program: these variables, so many times each, add up to ``most`` at the most."""

    variables: Sequence[int]
    coefficients: Sequence[float]
    most: float


@dataclass(slots=True, eq=False)
class RecourseProgram:
    """The mixed-integer program of one question: a variable, 0 or 1, for every action of every feature."""

    search: CandidateSearch
    actions: tuple[IntpArray, ...]  # the codes that each feature may get
    starts: IntpArray  # the variable of its first action
    costs: Float64Array  # of all actions
    cost: RecourseCost
    margins: tuple[tuple[MarginRow, ...], ...]  # of every alternative
    cuts: list[Cut] = field(default_factory=list)
    is_settled: bool = False  # whether it is known that nothing else is feasible

    @classmethod
    def build(
        cls, search: CandidateSearch, alternatives: Sequence[Sequence[TabulatedSum]], cost: RecourseCost, grid: int
    ) -> RecourseProgram:
        """The program with all margins, and with the constraints on two features."""
        chosen = [_choose_actions(codes, int(own), grid) for codes, own in zip(search.codes, search.start, strict=True)]
        starts = np.cumsum([0, *map(len, chosen)])
        costs = _join_tables(tabulate_costs(search.query.case, search, cost), chosen)
        margins = tuple(
            tuple(MarginRow(_join_tables(one.tables, chosen), one.limit) for one in sums) for sums in alternatives
        )
        program = cls(search, tuple(chosen), starts, costs, cost=cost, margins=margins)
        for predicate in search.query.case.feasible.predicates:
            if len(predicate.columns) == 2:
                program._add_pairs(*predicate.columns)
        return program

    def solve(self, meter: Meter) -> Points | None:
        """The cheapest actions that make all margins of some alternative positive, as a point; None if there are none,
        or none was found in the time left.
        """
        best, least = None, math.inf
        for margins in self.margins:
            solution = self._solve_one(margins, meter)
            if solution is not None and solution[1] < least:
                best, least = solution
        return best

    def _solve_one(self, margins: Sequence[MarginRow], meter: Meter) -> tuple[Points, float] | None:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        count, features = len(self.costs), len(self.actions)
        costs = np.append(self.costs, 0.0)  # the last variable is the largest cost
        if self.cost == "max":
            costs = np.append(SUM_SHARE * self.costs, 1.0)
        rows, columns, values, low, high = list[int](), list[int](), list[float](), list[float](), list[float]()

        def add_row(variables: Sequence[int], coefficients: Sequence[float], least: float, most: float) -> None:
            rows.extend([len(low)] * len(variables))
            columns.extend(variables)
            values.extend(coefficients)
            low.append(least)
            high.append(most)

        for j in range(features):
            own = range(int(self.starts[j]), int(self.starts[j + 1]))
            add_row(own, [1.0] * len(own), 1.0, 1.0)
            if self.cost == "max" and len(own) > 1:
                add_row([*own, count], [*self.costs[own.start : own.stop].tolist(), -1.0], -np.inf, 0.0)
        for margin in margins:
            if margin.limit == math.inf or not np.isfinite(margin.added).all():
                return None
            add_row(range(count), (margin.added / margin.size).tolist(), margin.limit / margin.size, np.inf)
        for cut in self.cuts:
            add_row(cut.variables, cut.coefficients, -np.inf, cut.most)
        matrix = csr_array((values, (rows, columns)), shape=(len(low), count + 1))
        seconds = meter.budget.seconds
        limits = {} if seconds is None or math.isinf(seconds) else {"time_limit": max(seconds - meter.elapsed, 0.01)}
        solution = milp(
            costs,
            integrality=np.append(np.ones(count), 0.0),
            bounds=Bounds(0.0, np.append(np.ones(count), np.inf)),
            constraints=LinearConstraint(matrix, low, high),
            options={"mip_rel_gap": 0.0, **limits},
        )
        if solution.x is None:
            return None
        chosen = [codes[solution.x[start : start + len(codes)].argmax()] for codes, start in self._list_actions()]
        return np.array(chosen, dtype=np.int32), float(solution.fun)

    def _list_actions(self) -> list[tuple[IntpArray, int]]:
        return list(zip(self.actions, self.starts[:-1].tolist(), strict=True))

    def _find_variable(self, feature: int, code: int) -> int | None:
        """The variable of an action; None if there is no such action."""
        places = np.flatnonzero(self.actions[feature] == code)
        return int(self.starts[feature] + places[0]) if len(places) else None

    def _add_pairs(self, first: int, second: int) -> None:
        """The constraints on these two features alone: with each action of the first, those of the second that break
        one are excluded.
        """
        case = self.search.query.case
        own = [one for one in case.feasible.predicates if set(one.columns) == {first, second}]
        points = np.repeat(self.search.start[None, :], len(self.actions[second]), axis=0)
        points[:, second] = self.actions[second]
        for place, code in enumerate(self.actions[first].tolist()):
            points[:, first] = code
            allowed = np.all([predicate(points, case.feasible.instance) for predicate in own], axis=0)
            broken = (self.starts[second] + np.flatnonzero(~allowed)).tolist()
            if broken:
                self.cuts.append(Cut([int(self.starts[first]) + place, *broken], [1.0] * (1 + len(broken)), 1.0))

    def exclude_broken(self, point: Points) -> bool:
        """Whether a point breaks a constraint; if so, what it has in the features of that is excluded."""
        feasible, broken = self.search.query.case.feasible, False
        for predicate in feasible.predicates:
            if not predicate(point[None, :], feasible.instance)[0]:
                self.exclude(point, predicate.columns)
                broken = True
        return broken

    def exclude(self, point: Points, features: Sequence[int]) -> None:
        """Exclude what a point has in some features together."""
        free = [j for j in features if len(self.actions[j]) > 1]
        variables = [self._find_variable(j, int(point[j])) for j in free]
        self.is_settled = self.is_settled or not free
        own = [one for one in variables if one is not None]
        self.cuts.append(Cut(own, [1.0] * len(own), len(own) - 1.0))

    def exclude_denied(self, point: Points) -> None:
        """Exclude a point that the model denies, and all whose sums are no larger where one sum decides."""
        chosen = [self._find_variable(j, int(code)) for j, code in enumerate(point)]
        variables = [one for one in chosen if one is not None]
        for margins in self.margins:
            sums = [float(margin.added[variables].sum()) for margin in margins]
            if any(total < one.limit - 2.0 * SOLVER_SLACK * one.size for one, total in zip(margins, sums, strict=True)):
                continue  # this alternative did not admit it
            # Those that were met by no more than the solver's tolerance; or the only one.
            raised = [
                (margin, total + 3.0 * SOLVER_SLACK * margin.size)
                for margin, total in zip(margins, sums, strict=True)
                if len(margins) == 1 or total < margin.limit + 2.0 * SOLVER_SLACK * margin.size
            ]
            for margin, limit in raised:
                margin.limit = limit
            if not raised:
                self.exclude(point, range(len(point)))

    def exclude_changed_features(self, point: Points) -> None:
        """Exclude all points that change the same features as this one."""
        start, variables, coefficients, most = self.search.query.case.instance, list[int](), list[float](), -1.0
        for j in range(len(point)):
            stays = self._find_variable(j, int(start[j]))
            if len(self.actions[j]) == 1 or stays is None:
                continue
            # At least one changed feature stays, or one that stays changes.
            variables.append(stays)
            coefficients.append(-1.0 if point[j] != start[j] else 1.0)
            most += 0.0 if point[j] != start[j] else 1.0
        self.is_settled = self.is_settled or not variables
        self.cuts.append(Cut(variables, coefficients, most))


def _join_tables(tables: Sequence[Float64Array], actions: Sequence[IntpArray]) -> Float64Array:
    """What the tables of all features have for all actions."""
    return np.concatenate([table[codes] for table, codes in zip(tables, actions, strict=True)])


def _choose_actions(codes: IntpArray, own: int, grid: int) -> IntpArray:
    """Of permitted codes up to so many, evenly spread, and the own one."""
    if len(codes) <= grid:
        return codes
    chosen = codes[np.unique(np.linspace(0, len(codes) - 1, grid).round().astype(np.intp))]
    return np.unique(np.append(chosen, own))

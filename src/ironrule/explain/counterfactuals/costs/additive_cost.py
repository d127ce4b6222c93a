"""The cheapest counterfactuals of models that are sums of one function per feature, over whole intervals, at any cost.

As in :mod:`ironrule.explain.counterfactuals.additive`, every readable number of a feature is an option. Between two
neighbouring options what the model adds only rises or only falls, and what a number costs does not fall away from the
row's own. So a number between the two gains no more than the better one of them, and costs no less than the nearer one.
With choices that say just that, one for every pair of neighbours, the same search bounds from below what any
counterfactual costs, whatever its numbers are; the difference from what was found is the resolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ironrule.arrays import IntpArray
from ironrule.backends.additive.nearest import Assignment, CheapestChanges, FeatureOptions, Need, SearchLimitReached
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.additive import POSSIBILITIES, NearestChanges, ValueOptions, list_options
from ironrule.explain.counterfactuals.changed_rows import ask_about_rows, build_changed_row
from ironrule.explain.counterfactuals.costs.cheapest_sum import CheapestSum, FeatureChoices, SumAnswer
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.counterfactual import Counterfactual
from ironrule.verdict.budget import BudgetExhausted, name_stop

PARTIAL_SOLUTIONS = 20_000  # looked at for one counterfactual, and for its bound


def find_cheapest_additive_changes(
    context: ExplainerContext, query: BoxQuery, row_cost: RowCost, run: Run
) -> NearestChanges | None:
    """Up to k cheapest counterfactuals of such a model; None where it is none, as :func:`find_additive_changes`."""
    known = list_options(context, query, row_cost)
    if known is None:
        return None
    margin, options, _ = known
    base = math.fsum(one.own for one in options)
    least, sure = margin.find_limits([one.contribution for one in options])
    if base > least or not math.isfinite(least):
        return None

    def build(assignment: Assignment) -> Counterfactual:
        changed = {j: options[j].values[place] for j, place in sorted(assignment.items())}
        return build_changed_row(context, query, changed)

    def ask(assignments: list[Assignment]) -> list[bool]:
        answers = ask_about_rows(context, [build(one).values for one in assignments], run.meter)
        return [bool(good) for good in answers]

    relaxed = [_relax(row_cost, j, one) for j, one in enumerate(options)]
    finder = _build_finder(row_cost, options, Need(least - base, sure - base, ask), run)
    bounder = _build_finder(row_cost, relaxed, Need(least - base, least - base, _agree), run)
    items, found, resolution, count, stopped = list[Counterfactual](), list[frozenset[int]](), 0.0, 0, None
    is_closed = True
    try:
        while len(items) < query.k:
            answer, bound = finder.find_next(found), bounder.find_next(found).bound
            if relaxed == options:
                bound = max(bound, answer.bound)
            if answer.assignment is None:
                is_closed = is_closed and bound == math.inf
                break
            item = build(answer.assignment)
            apart = row_cost.measure_difference(row_cost.measure_row(item.values), bound)
            is_closed = is_closed and row_cost.is_close(item.values, apart)
            count += is_closed
            resolution = max(resolution, apart) if is_closed else resolution
            items.append(item)
            found.append(frozenset(answer.assignment))
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        is_closed, stopped = False, name_stop(stop, run.meter)
    return NearestChanges(tuple(items), is_closed, stopped, count, resolution)


def _agree(assignments: list[Assignment]) -> list[bool]:
    """What may be a counterfactual counts as one, for a bound."""
    return [True for _ in assignments]


def _relax(row_cost: RowCost, j: int, options: ValueOptions) -> ValueOptions:
    """The options with one more for all the numbers between each two that are neighbours, where there are any."""
    limits, feature = options.limits, row_cost.features[j].feature
    if limits is None or row_cost.features[j].step is not None:
        return options
    present = np.array([place for place, value in enumerate(options.values) if value is not None])
    numbers = np.array([options.values[place] for place in present], dtype=np.float64)
    order = np.argsort(numbers)
    numbers, places = numbers[order], present[order]
    lows, highs = numbers[:-1], numbers[1:]
    middles = np.floor(lows / 2 + highs / 2) if feature.has_only_integers else lows / 2 + highs / 2
    inside = (middles > lows) & (middles < highs)
    inside[inside] &= limits.permit(middles[inside])
    costs = np.minimum(options.costs[places[:-1]], options.costs[places[1:]])
    own = row_cost.features[j].own
    if own is not None:
        # Next to the row's own value even the least change costs what a change costs by itself.
        least = np.where((lows < own) & (own < highs), 0.0, costs)
        costs = np.maximum(least, row_cost.least_part)
        farther = np.where(lows >= own, options.costs[places[1:]], options.costs[places[:-1]])
        inside &= np.isfinite(np.where(lows < own, np.where(own < highs, 0.0, farther), farther))
    gains = np.maximum(options.contribution.values[places[:-1]], options.contribution.values[places[1:]])
    middle_values = [None] * int(inside.sum())
    return replace(
        options,
        values=[*options.values, *middle_values],
        costs=np.concatenate([options.costs, costs[inside]]),
        contribution=replace(options.contribution, values=np.concatenate([options.contribution.values, gains[inside]])),
        allowed=np.concatenate([options.allowed, np.ones(len(middle_values), dtype=np.bool_)]),
    )


class Finder(Protocol):
    """Finds one answer after the other."""

    def find_next(self, earlier: Sequence[frozenset[int]]) -> SumAnswer:
        """The cheapest that changes all the features of no earlier one."""
        ...


@dataclass(slots=True, eq=False)
class FewestChanges:
    """Finds the fewest changes, and of these the nearest; a change costs 1 and its small share of distance."""

    search: CheapestChanges
    places: Sequence[IntpArray]  # per feature, the options that its choices are

    def find_next(self, earlier: Sequence[frozenset[int]]) -> SumAnswer:
        """As :class:`Finder`."""
        search = self.search
        search.found = [dict.fromkeys(one, 0) for one in earlier]
        try:
            found = search.find_next()
            bound = math.inf if found is None else search.size + search.best_cost
        except SearchLimitReached:  # all sets of fewer features were looked at
            found, bound = search.best, float(search.size)
        bound = 0.0 if search.has_denied else bound
        if found is None:
            return SumAnswer(None, math.inf, bound)
        assignment = {j: int(self.places[j][place]) for j, place in found.items()}
        return SumAnswer(assignment, search.size + search.best_cost, bound)


def _build_finder(row_cost: RowCost, options: Sequence[ValueOptions], need: Need, run: Run) -> Finder:
    """The search that knows the norm; choices are of the places of the options."""
    gains = [one.contribution.values - one.own for one in options]
    if row_cost.cost.norm != "fewest":
        pairs = zip(options, gains, strict=True)
        choices = [FeatureChoices.select(one.costs, gain, one.allowed, one.stays) for one, gain in pairs]
        return CheapestSum(choices, need, row_cost.table.combine, PARTIAL_SOLUTIONS, run.meter.check)
    few = [
        FeatureOptions.select(one.costs - 1.0, gain, one.allowed, not one.stays)
        for one, gain in zip(options, gains, strict=True)
    ]
    places = [one.places for one in few]

    def ask(assignments: list[Assignment]) -> Sequence[bool]:
        return need.ask([{j: int(places[j][place]) for j, place in one.items()} for one in assignments])

    search = CheapestChanges(few, Need(need.least, need.sure, ask), POSSIBILITIES, run.meter.check)
    return FewestChanges(search, places)

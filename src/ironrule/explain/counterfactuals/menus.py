"""Menus of changes: all minimal sets of features to change, or groups of features, each with its cheapest change.

The minimal sets come from their enumeration (:mod:`ironrule.search.enumerate`), which names one change of each; the
nearest change of just these features is then searched as any counterfactual is. What is cheapest is that search's
order: fewest features, then least distance, or the cost that was asked for.

Where several sums must allow a change, and one of them may do so between two values of a domain alone (a band of a
linear model's scores), the sets are those of the counterfactuals with the fewest changes, one after the other
(:mod:`.joint`). Each is the smallest that has not all features of an earlier one. So it is minimal: a smaller set of
its features would have come before it. And where nothing else is found, there is no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ironrule.errors import InputError, describe_value
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.changed_rows import require_rows_desired
from ironrule.explain.counterfactuals.costs.row_cost import RowCost
from ironrule.explain.counterfactuals.find import find_counterfactuals
from ironrule.explain.counterfactuals.joint import JointChanges, iterate_joint_changes
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.question import (
    ChangeQuestion,
    build_apart_question,
    build_question,
    find_searched_context,
    list_limits,
    reach,
)
from ironrule.explain.counterfactuals.targets import build_search_scope
from ironrule.explain.enumerate import list_changes, parse_limit
from ironrule.explain.options import SearchOptions, parse_budget, parse_names
from ironrule.oracles.geco.candidates import tabulate_distances
from ironrule.oracles.protocol import Run
from ironrule.results.changes.menu import ChangeMenu, MenuEntry
from ironrule.results.counterfactuals import ChangeSet, Counterfactuals
from ironrule.results.explanation import Listing
from ironrule.results.scope import SearchScope
from ironrule.rule.cost import Cost
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import BudgetExhausted, Meter, name_stop


def build_menu(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    limit: int | None,
    progress: bool | None = False,
) -> ChangeMenu:
    """The minimal sets of features whose change gives the desired outcome, each with its cheapest change."""
    asked, question = changes, build_question(context, row, options, changes, progress)
    meter, sets = options.start_meter(), _list_sets(question, options, limit, progress)
    builder, changes, entries = _build_entry_builder(question), changes.without_goal(), []
    for one in sets.listing:
        best = _find_cheapest(sets.question, options, changes, one, meter)
        name = " + ".join(one.features)
        entry = builder.build(name, one.features, best.counterfactual, best.proven, minimal=one.minimal)
        entries.append(replace(entry, resolution=best.resolution))
    return ChangeMenu(
        question.context.space.decode_row(question.query.case.user_instance),
        builder.sort(entries),
        bool(sets.listing.complete),
        sets.listing.stopped,
        scope=_describe_scope(sets.context, changes, len(entries) + 1),
        **_describe_reached(asked),
    )


def build_group_menu(
    context: ExplainerContext,
    row: Any,
    groups: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    progress: bool | None = False,
) -> ChangeMenu:
    """The cheapest change within each of some groups of features."""
    asked, named = changes, parse_groups(groups)
    context, row = reach(context, row, changes, progress)
    changes = changes.without_goal()
    question = build_question(context, row, options, changes, progress)
    builder, searched = _build_entry_builder(question), find_searched_context(question, options, progress)
    meter, entries, stopped = options.start_meter(), list[MenuEntry](), None
    for name, features in named.items():
        found = _find_one(
            context, row, options, replace(changes, features_to_vary=features), meter=meter, progress=progress
        )
        best = found.items[0] if found is not None and found.items else None
        entry = builder.build(name, features, best, found is not None and found.proven)
        entries.append(replace(entry, resolution=0.0 if found is None else found.resolution))
        stopped = stopped or ("budget" if found is None else found.statistics.stopped)
    return ChangeMenu(
        question.context.space.decode_row(question.query.case.user_instance),
        builder.sort(entries),
        all(entry.proven for entry in entries),
        stopped,
        kind="groups",
        scope=_describe_scope(searched, changes, len(entries)),
        **_describe_reached(asked),
    )


def list_change_sets(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    limit: int | None,
    progress: bool | None = False,
) -> Listing[ChangeSet]:
    """All minimal sets of features to change, smallest first; with a cost each with its cheapest change."""
    question = build_question(context, row, options, changes, progress)
    goal = changes.goal
    if changes.cost.is_usual:
        return _list_sets(question, options, limit, progress, lambda one: one.with_goal(goal)).listing
    meter, changes = options.start_meter(), changes.without_goal()
    builder = _build_entry_builder(question)

    def add_cheapest(one: ChangeSet) -> ChangeSet:
        best = _find_cheapest(sets.question, options, changes, one, meter)
        entry = builder.build("", one.features, best.counterfactual, best.proven)
        return replace(one, counterfactual=best.counterfactual, proven=best.proven, cost=entry.cost).with_goal(goal)

    sets = _list_sets(question, options, limit, progress, add_cheapest)
    return sets.listing


class _ListedSets(NamedTuple):
    """The minimal sets of features, the question as it is to be asked about each, and the context that was searched."""

    question: ChangeQuestion
    context: ExplainerContext
    listing: Listing[ChangeSet]


def _list_sets(
    question: ChangeQuestion,
    options: SearchOptions,
    limit: int | None,
    progress: bool | None,
    complete: Callable[[ChangeSet], ChangeSet] | None = None,
) -> _ListedSets:
    """All minimal sets of features, smallest first; ``complete`` adds to each what else is to be known."""
    if question.context.narrowed:
        meter = options.start_meter()
        run = Run(meter, np.random.default_rng(options.seed))
        joint = question.start_joint_search(run, Cost(steps=question.changes.cost.steps))
        if joint is not None:
            sums = JointSetSearch(joint[0].context, joint[1])
            found = sums.iterate() if complete is None else map(complete, sums.iterate())
            listing = Listing(found, sums, meter, parse_limit(limit), progress)
            return _ListedSets(question, joint[0].context, listing)
        question = build_apart_question(question, options, progress) or question
    listing = list_changes(
        question.context,
        question.row,
        options,
        question.changes.features_to_vary,
        limit=limit,
        progress=progress,
        constraints=(*question.limits, *question.list_step_constraints().values()),
        complete=complete,
    )
    return _ListedSets(question, question.context, listing)


@dataclass(slots=True, eq=False)
class JointSetSearch:
    """The minimal sets of features in which sums over whole intervals allow a change; what ended the search, and
    whether there are no others.
    """

    context: ExplainerContext
    search: JointChanges
    complete: bool = False
    stopped: str | None = None

    def iterate(self) -> Iterator[ChangeSet]:
        """One set after the other, each with the change that was found for it; the model confirms it."""
        are_minimal = True
        try:
            for answer in iterate_joint_changes(self.search):
                if answer.item is None:
                    self.complete = are_minimal and answer.apart == 0.0
                    return
                is_minimal = math.isfinite(answer.apart)  # nothing has fewer changes
                are_minimal = are_minimal and is_minimal
                require_rows_desired(self.context, [answer.item.values])
                features = tuple(change.feature for change in answer.item.changes)
                yield ChangeSet(features, answer.item, is_minimal)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            self.stopped = name_stop(stop, self.search.run.meter)


def _describe_reached(changes: ChangeOptions) -> dict[str, Any]:
    """What a menu says of the cost and of what is reached."""
    models = len(changes.models)
    return {"cost": changes.cost, "target": changes.target, "margin": changes.margin, "further_models": models}


def _describe_scope(context: ExplainerContext, changes: ChangeOptions, k: int) -> SearchScope:
    """What was searched, for the document of a menu."""
    return build_search_scope(context, changes.names, list_limits(context, changes), k)


class _CheapestChange(NamedTuple):
    """The cheapest change of a set of features, whether that is proven, and how near it is known to be."""

    counterfactual: Counterfactual
    proven: bool
    resolution: float = 0.0


def _find_cheapest(
    question: ChangeQuestion, options: SearchOptions, changes: ChangeOptions, one: ChangeSet, meter: Meter
) -> _CheapestChange:
    """The cheapest change of a set of features; the one that is known where none is found in what is left of the
    budget.
    """
    within = replace(changes, features_to_vary=one.features)
    found = _find_one(question.context, question.row, options, within, meter)
    if found is None or not found.items:
        return _CheapestChange(one.counterfactual, False)
    return _CheapestChange(found.items[0], found.proven, found.resolution)


def parse_groups(groups: Any) -> dict[str, tuple[str, ...]]:
    """Groups of features by name: a mapping, or a list of lists, which are named after their features."""
    if isinstance(groups, Mapping):
        named = dict(groups)
    elif isinstance(groups, Sequence) and not isinstance(groups, str):
        named = {" + ".join(parse_names("groups", group)): group for group in groups}
    else:
        expected = "groups must be a mapping from names to lists of features, or a list of such lists"
        raise InputError(expected=expected, got=describe_value(groups))
    if not named or not all(isinstance(name, str) for name in named):
        raise InputError(expected="groups must have at least one group, with a text as its name", got=list(named))
    return {name: tuple(parse_names("groups", features)) for name, features in named.items()}


def _find_one(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    meter: Meter,
    progress: bool | None = False,
) -> Counterfactuals | None:
    """The cheapest counterfactual, within what is left of the whole budget; None if nothing is."""
    budget, seconds = parse_budget(options.budget), None
    if budget.seconds is not None:
        seconds = budget.seconds - meter.elapsed
        if seconds <= 0:
            return None
    left = replace(options, k=1, budget=replace(budget, seconds=seconds))
    return find_counterfactuals(context, row, left, changes, progress)


@dataclass(frozen=True, slots=True, eq=False)
class _EntryBuilder:
    """Entries with what they cost; ``row_cost`` is None for the usual order."""

    space: Space
    row_cost: RowCost | None

    def build(
        self,
        name: str,
        features: Sequence[str],
        best: Counterfactual | None,
        proven: bool,
        minimal: bool | None = None,
    ) -> MenuEntry:
        """The entry of some features with their best change."""
        distance = cost = None
        if best is not None:
            distance = measure_distance(self.space, best.changes)
            cost = None if self.row_cost is None else self.row_cost.measure_distance(best.values)
        return MenuEntry(name, tuple(features), best, distance=distance, proven=proven, minimal=minimal, cost=cost)

    def sort(self, entries: Sequence[MenuEntry]) -> tuple[MenuEntry, ...]:
        """Cheapest first: by the cost, if there is one that does not count changes first; those without any last."""
        counts_first = self.row_cost is None or self.row_cost.cost.norm == "fewest"

        def rank(entry: MenuEntry) -> tuple[bool, int, float]:
            count = 0 if entry.counterfactual is None or not counts_first else len(entry.counterfactual.changes)
            return entry.counterfactual is None, count, (entry.distance if entry.cost is None else entry.cost) or 0.0

        return tuple(sorted(entries, key=rank))


def _build_entry_builder(question: ChangeQuestion) -> _EntryBuilder:
    """What measures the changes of a row by the cost that was asked for."""
    return _EntryBuilder(question.context.space, question.row_cost)


def measure_distance(space: Space, changes: Sequence[Change]) -> float:
    """The distance of some changes, by which searches choose among those of as many features."""
    return sum(_measure_change(space[change.feature], change) for change in changes)


def _measure_change(feature: Feature, change: Change) -> float:
    """How far one value is from another; a number need not be one of the domain."""
    before, after = change.before, change.after
    if before is None or after is None:
        return 1.0
    if feature.ordered and feature.numeric:
        low, high = feature.values[0], feature.values[-1]
        return float(abs(after - before) / (abs(float(high - low)) or 1.0))
    return float(tabulate_distances(feature, feature.code(before))[feature.code(after)])

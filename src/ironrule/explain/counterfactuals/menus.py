"""Menus of changes: all minimal sets of features to change, or groups of features, each with its cheapest change.

The minimal sets come from their enumeration (:mod:`ironrule.search.enumerate`), which names one change of each; the
nearest change of just these features is then searched as any counterfactual is. What is cheapest is that search's
order: fewest features, then least distance, or the cost that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ironrule.errors import InputError, describe_value
from ironrule.explain.context import ExplainerContext, decide_row
from ironrule.explain.counterfactuals.costs.row_cost import (
    RowCost,
    build_row_cost,
    check_cost_names,
    list_price_constraints,
)
from ironrule.explain.counterfactuals.find import find_counterfactuals
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.permitted import list_changing_constraints
from ironrule.explain.counterfactuals.targets import build_reached_context, build_search_scope
from ironrule.explain.enumerate import list_changes
from ironrule.explain.extend import extend_to_row
from ironrule.explain.options import SearchOptions, parse_budget, parse_names
from ironrule.explain.query import build_case, extend_to_named
from ironrule.oracles.geco.candidates import tabulate_distances
from ironrule.results.changes.menu import ChangeMenu, MenuEntry
from ironrule.results.counterfactuals import ChangeSet, Counterfactuals
from ironrule.results.explanation import Listing
from ironrule.results.scope import SearchScope
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Meter


def build_menu(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    limit: int | None,
    progress: bool | None = False,
) -> ChangeMenu:
    """The minimal sets of features whose change gives the desired outcome, each with its cheapest change."""
    _require_no_steps(changes, "a menu of all minimal sets")
    asked = changes
    context, row, changes = _reach(context, row, changes, progress)
    limits = (*list_changing_constraints(context, changes), *list_price_constraints(changes.cost))
    meter, builder = options.start_meter(), _build_entry_builder(context, row, options, changes)
    listing = list_changes(
        context, row, options, changes.features_to_vary, limit=limit, progress=progress, constraints=limits
    )
    entries = []
    for one in listing:
        best = _find_cheapest(context, row, options, changes, one=one, meter=meter)
        name = " + ".join(one.features)
        entry = builder.build(name, one.features, best.counterfactual, best.proven, minimal=one.minimal)
        entries.append(replace(entry, resolution=best.resolution))
    instance = context.space.decode_row(decide_row(context, row)[0])
    return ChangeMenu(
        instance,
        builder.sort(entries),
        bool(listing.complete),
        listing.stopped,
        scope=_describe_scope(context, changes, len(entries) + 1),
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
    asked = changes
    context, row, changes = _reach(context, row, changes, progress)
    builder = _build_entry_builder(context, row, options, changes)
    meter, entries, stopped = options.start_meter(), list[MenuEntry](), None
    for name, features in parse_groups(groups).items():
        found = _find_one(
            context, row, options, replace(changes, features_to_vary=features), meter=meter, progress=progress
        )
        best = found.items[0] if found is not None and found.items else None
        entry = builder.build(name, features, best, found is not None and found.proven)
        entries.append(replace(entry, resolution=0.0 if found is None else found.resolution))
        stopped = stopped or ("budget" if found is None else found.statistics.stopped)
    instance = context.space.decode_row(decide_row(context, row)[0])
    complete = all(entry.proven for entry in entries)
    return ChangeMenu(
        instance,
        builder.sort(entries),
        complete,
        stopped,
        kind="groups",
        scope=_describe_scope(context, changes, len(entries)),
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
    _require_no_steps(changes, "a listing of all minimal sets")
    context, row, changes = _reach(context, row, changes, progress)
    limits = (*list_changing_constraints(context, changes), *list_price_constraints(changes.cost))
    if changes.cost.is_usual:
        return list_changes(
            context, row, options, changes.features_to_vary, limit=limit, progress=progress, constraints=limits
        )
    meter, builder = options.start_meter(), _build_entry_builder(context, row, options, changes)

    def add_cheapest(one: ChangeSet) -> ChangeSet:
        best = _find_cheapest(context, row, options, changes, one=one, meter=meter)
        entry = builder.build("", one.features, best.counterfactual, best.proven)
        return replace(one, counterfactual=best.counterfactual, proven=best.proven, cost=entry.cost)

    return list_changes(
        context,
        row,
        options,
        changes.features_to_vary,
        limit=limit,
        progress=progress,
        constraints=limits,
        complete=add_cheapest,
    )


def _require_no_steps(changes: ChangeOptions, what: str) -> None:
    if changes.cost.steps:
        raise InputError(
            expected=f"{what} must have a cost without steps",
            got=f"a step of {', '.join(map(repr, changes.cost.steps))}",
            hint="use group_changes or counterfactuals, which take steps",
            code="steps-in-menu",
        )


def _reach(
    context: ExplainerContext, row: Any, changes: ChangeOptions, progress: bool | None
) -> tuple[ExplainerContext, Any, ChangeOptions]:
    """The context whose desired outcome is what is to be reached, robustly if that is asked for; nothing of that is
    left in the options.
    """
    context, row = extend_to_row(build_reached_context(context, changes, progress), row)
    check_cost_names(context.space, changes.cost)
    return context, row, replace(changes, target=None, margin=0.0, models=())


def _describe_reached(changes: ChangeOptions) -> dict[str, Any]:
    """What a menu says of the cost and of what is reached."""
    models = len(changes.models)
    return {"cost": changes.cost, "target": changes.target, "margin": changes.margin, "further_models": models}


def _describe_scope(context: ExplainerContext, changes: ChangeOptions, k: int) -> SearchScope:
    """What was searched, for the document of a menu."""
    limits = (*list_changing_constraints(context, changes), *list_price_constraints(changes.cost))
    return build_search_scope(context, changes.names, (*context.change_constraints, *limits), k)


class _CheapestChange(NamedTuple):
    """The cheapest change of a set of features, whether that is proven, and how near it is known to be."""

    counterfactual: Counterfactual
    proven: bool
    resolution: float = 0.0


def _find_cheapest(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    one: ChangeSet,
    meter: Meter,
) -> _CheapestChange:
    """The cheapest change of a set of features; the one that is known where none is found in what is left of the
    budget.
    """
    found = _find_one(context, row, options, replace(changes, features_to_vary=one.features), meter)
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
    # Sets of features are looked for among the values that the space of the target has, and so are their changes.
    return find_counterfactuals(context, row, left, changes, progress=progress, between_values=False)


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


def _build_entry_builder(
    context: ExplainerContext, row: Any, options: SearchOptions, changes: ChangeOptions
) -> _EntryBuilder:
    """What measures the changes of a row by the cost that was asked for."""
    if changes.cost.is_usual:
        return _EntryBuilder(context.space, None)
    limits = list_changing_constraints(context, changes)
    named = extend_to_named(context, options, limits, {*(changes.names or ()), *changes.cost.names})
    return _EntryBuilder(
        context.space, build_row_cost(named, build_case(named, row, own_model_only=True), changes.cost)
    )


def measure_distance(space: Space, changes: Sequence[Change]) -> float:
    """The distance of some changes, by which searches choose among those of as many features."""
    return sum(_measure_change(space[change.feature], change) for change in changes)


def _measure_change(feature: Feature, change: Change) -> float:
    """How far one value is from another; a number need not be one of the domain."""
    before, after = change.before, change.after
    if before is not None and after is not None and feature.ordered and feature.numeric:
        low, high = feature.values[0], feature.values[-1]
        return float(abs(after - before) / (abs(float(high - low)) or 1.0))
    return float(tabulate_distances(feature, feature.code(before))[feature.code(after)])

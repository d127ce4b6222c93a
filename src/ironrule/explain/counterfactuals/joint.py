"""The nearest counterfactuals where several sums must pass their limits at once, over whole intervals, at any cost.

Several linear or additive models together, a band of scores, and one class among several are such sums: each feature
adds something by itself to each of them. With a number one sum may rise and another fall, so that only numbers between
two values of a domain may be desired. Therefore the search (:mod:`ironrule.backends.additive.joint_sums`) has two kinds
of choices:

- *numbers*: the readable ones, bounds that constraints name, and those that were added below. What is found among them
  is put to the models themselves;
- *pieces* between two such neighbours. In each sum a piece gains as much as the better of its two ends, and it costs as
  much as the nearer one. No number in it gains more or costs less, since each sum only rises or only falls there.

The least cost with pieces bounds what any counterfactual costs. Where it is far below what was found, further numbers
are put into the pieces of that solution, and both are searched again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.backends.additive.joint_sums import JointChoices, JointNeed, JointSumSearch
from ironrule.backends.additive.nearest import Assignment
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.additive import (
    NearestChanges,
    NumberLimits,
    find_number_limits,
    list_grid,
    select_columns,
)
from ironrule.explain.counterfactuals.changed_rows import ask_about_rows, build_changed_row
from ironrule.explain.counterfactuals.costs.cheapest_sum import NO_ANSWER, SumAnswer, find_apart
from ironrule.explain.counterfactuals.costs.row_cost import RowCost, list_stepped_numbers
from ironrule.explain.counterfactuals.readable_numbers import RESOLUTION
from ironrule.model.intervals import TURNS_TWICE, find_directions, is_straight
from ironrule.model.joint_model import JointModel
from ironrule.model.model_input import compute_model_input
from ironrule.model.normal_form.separable import FeatureContribution, SeparableMargin, split_alternatives
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.pipeline import split_pipeline
from ironrule.model.readers.registry import get_input_conversion
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.instance_components import ComponentCache
from ironrule.space.feature import Value, find_open_gaps
from ironrule.space.layout import replace_features
from ironrule.space.reduced import ReducedSpace
from ironrule.space.space import Space
from ironrule.verdict.budget import BudgetExhausted, name_stop

PIECES = 3_000  # ranges of choices that are looked at in one search
ROUNDS = 8  # in which numbers are put between others
NUMBERS_PER_PIECE = 9
MARGIN_OF_CLOSENESS = 4.0  # bounds are made better until they are closer by this than they have to be
TOLERANCE = 0.002  # of a cost: what is cheaper by less is not looked for between the values of domains
SUM_COUNT = 12  # of more sums, bounds are too weak


def widen_to_intervals(context: ExplainerContext) -> ExplainerContext | None:
    """The context in which features that only this target holds to the values seen are intervals again, for
    :func:`start_joint_search` alone; None where that cannot search it.
    """
    margins = _split_sums(context)
    if margins is None:
        return None
    if not all(_is_narrowed_by_directions(context, name, margins) for name in context.narrowed):
        return None
    whole = _open_features(context.space, context.narrowed)
    if not any(feature.interval for feature in whole.features):
        return None  # values are all that there is
    reduced = context.reduced
    space = whole if reduced.is_whole else _open_features(reduced.space, context.narrowed)
    return replace(
        context,
        space=whole,
        reduced=ReducedSpace(whole, space, reduced.kept),
        narrowed=frozenset(),
        breakpoints={**(context.breakpoints or {}), **dict.fromkeys(sorted(context.narrowed), ())},
        component_cache=ComponentCache(),
    )


def _is_narrowed_by_directions(
    context: ExplainerContext, name: str, margins: Sequence[Sequence[SeparableMargin]]
) -> bool:
    """Whether a feature is no interval for this target only because it raises one sum and lowers another: every sum
    alone rises or falls with it all the way.
    """
    if context.obstacles[name] != TURNS_TWICE:
        return False
    if name not in context.reduced.space.names:
        return True
    assert context.compiled_model is not None
    j, tabulated = context.reduced.space.index(name), context.compiled_model.tabulated
    count = len(context.reduced.space.features[j].values)
    for margin in chain.from_iterable(tabulated.tree_sum.alternatives):
        terms = [
            term for group in margin.groups for term in group.terms if tabulated.columns.features[term.column] == j
        ]
        if not all(map(is_straight, terms)) or len(find_directions(tabulated, [margin], j, count)) > 1:
            return False
    return not any(margin.has_trees(j) for margin in chain.from_iterable(margins))


def _split_sums(context: ExplainerContext) -> list[list[SeparableMargin]] | None:
    """The margins of every alternative, where there are several that are all sums of one function per feature."""
    compiled = context.compiled_model
    if compiled is None or not isinstance(compiled.tabulated.normal_form, TreeSum):
        return None
    margins = split_alternatives(compiled.tabulated.tree_sum, compiled.tabulated.columns.features)
    if margins is None or not 1 < sum(map(len, margins)) <= SUM_COUNT:
        return None
    return margins


def _open_features(space: Space, names: frozenset[str]) -> Space:
    features = tuple(replace(one, interval=True) if one.name in names else one for one in space.features)
    return replace(space, features=features)


@dataclass(frozen=True, slots=True, eq=False)
class JointOptions:
    """What one feature may become, in an order in which neighbours are alike: values, and pieces between two of them.

    ``adds`` has what each adds to every sum. ``own`` is the place of the row's own value, which costs nothing.
    """

    values: Sequence[Value]  # None for a piece
    costs: Float64Array
    adds: Sequence[FeatureContribution]
    allowed: BoolArray
    is_piece: BoolArray
    own: int

    def build_choices(self, sums: Sequence[int], pieces: bool) -> JointChoices:
        """The choices for some of the sums, with pieces or without."""
        places = np.flatnonzero(self.allowed if pieces else self.allowed & ~self.is_piece)
        gains = np.array([self.adds[one].values[places] - self.adds[one].values[self.own] for one in sums])
        own = np.flatnonzero(places == self.own)
        return JointChoices(self.costs[places], gains, places, int(own[0]) if len(own) else -1)


@dataclass(slots=True, eq=False)
class JointChanges:
    """The search for one counterfactual after the other; ``more`` are the numbers that joined the domains."""

    context: ExplainerContext
    query: BoxQuery
    row_cost: RowCost
    run: Run
    margins: list[list[SeparableMargin]]
    limits: Mapping[int, NumberLimits]  # by number that may lie between the values of its domain
    options: dict[int, JointOptions] = field(default_factory=dict)
    more: dict[int, set[Any]] = field(default_factory=dict)

    def list_options(self, features: Sequence[int]) -> None:
        """Make the options of some features anew."""
        sums = [*chain.from_iterable(self.margins)]
        numbers = {j: self._list_numbers(j, self.limits[j]) for j in features if j in self.limits}
        seen = _see_numbers(self.context, self.query, numbers)
        for j in features:
            if j in numbers:
                self.options[j] = self._list_number_options(j, numbers[j], seen[j], sums)
            else:
                self.options[j] = self._list_code_options(j, sums)

    def _list_numbers(self, j: int, limits: NumberLimits) -> list[Any]:
        """The numbers of a feature that are options, rising, its own among them."""
        feature, one = self.query.case.space.features[j], self.row_cost.features[j]
        numbers = {*list_grid(feature), *limits.added, *feature.values, *self.more.get(j, ())}
        if one.step is not None and one.own is not None:
            stepped = list_stepped_numbers(feature, one.own, one.step)
            numbers |= {one.hold(number) for number in stepped}
        return sorted(numbers | ({one.own} if one.own is not None else set()))

    def _list_code_options(self, j: int, sums: Sequence[SeparableMargin]) -> JointOptions:
        """A feature whose values are all that can be told apart of it."""
        case, box = self.query.case, self.query.box
        feature, own = case.space.features[j], int(case.instance[j])
        assert self.context.compiled_model is not None
        columns = select_columns(self.context.compiled_model.tabulated, j, slice(None))
        allowed = np.zeros(feature.size, dtype=np.bool_)
        allowed[box.low[j] : box.high[j] + 1] = True
        for predicate in case.feasible.predicates:
            if predicate.columns == (j,):
                allowed &= predicate.holds_per_code(j, case.instance)
        values = (*feature.values, None)[: feature.size]
        costs = self.row_cost.measure_parts(j, values)
        costs[own] = 0.0
        return JointOptions(
            values=values,
            costs=costs,
            adds=[margin.evaluate(j, columns, feature.size) for margin in sums],
            allowed=allowed & np.isfinite(costs),
            is_piece=np.zeros(feature.size, dtype=np.bool_),
            own=own,
        )

    def _list_number_options(
        self, j: int, numbers: Sequence[Any], seen: Mapping[int, AnyArray], sums: Sequence[SeparableMargin]
    ) -> JointOptions:
        """A feature between whose values a sum may pass its limit: numbers, the pieces between them, and missing."""
        feature, limits, one = self.query.case.space.features[j], self.limits[j], self.row_cost.features[j]
        floats, count = np.array(numbers, dtype=np.float64), len(numbers)
        costs, values = self.row_cost.measure_parts(j, numbers), [*numbers]
        allowed = limits.permit(floats) & np.isfinite(costs)
        middles = floats[:-1] / 2 + floats[1:] / 2
        middles = np.floor(middles) if feature.has_only_integers else middles
        inside = (floats[:-1] < middles) & (middles < floats[1:])
        inside[inside] &= limits.permit(middles[inside])
        inside &= np.isfinite(costs[:-1]) & np.isfinite(costs[1:])
        if one.step is not None:
            inside[:] = False
        # next to the row's own value even the least change costs what a change costs by itself
        between = np.maximum(np.minimum(costs[:-1], costs[1:]), self.row_cost.least_part)
        order = np.argsort(np.concatenate([2 * np.arange(count), 2 * np.arange(count - 1) + 1]), kind="stable")
        adds = [margin.evaluate(j, seen, count) for margin in sums]
        better = [np.maximum(some.values[:-1], some.values[1:]) for some in adds]
        parts = [np.concatenate([some.values, more])[order] for some, more in zip(adds, better, strict=True)]
        arrays = [np.concatenate(pair)[order] for pair in ((costs, between), (allowed, inside))]
        is_piece, values = order >= count, [*values, *[None] * (count - 1)]
        listed = [values[place] for place in order.tolist()]
        sizes, short = [some.size for some in adds], [some.is_short for some in adds]
        if feature.missing:
            assert self.context.compiled_model is not None
            codes = slice(feature.missing_code, feature.missing_code + 1)
            columns = select_columns(self.context.compiled_model.tabulated, j, codes)
            absent = [margin.evaluate(j, columns, 1) for margin in sums]
            cost = float(self.row_cost.measure_parts(j, [None])[0]) if one.own is not None else 0.0
            permitted = limits.missing and math.isfinite(cost)
            arrays = [np.append(arrays[0], cost), np.append(arrays[1], permitted)]
            parts = [np.append(part, some.values) for part, some in zip(parts, absent, strict=True)]
            listed, is_piece = [*listed, None], np.append(is_piece, False)
            sizes = [max(size, some.size) for size, some in zip(sizes, absent, strict=True)]
            short = [all(pair) for pair in zip(short, (some.is_short for some in absent), strict=True)]
        own = len(listed) - 1 if one.own is None else 2 * numbers.index(one.own)
        arrays[0][own], arrays[1][own] = 0.0, limits.stays
        added = [FeatureContribution(*some) for some in zip(parts, sizes, short, strict=True)]
        return JointOptions(
            values=listed, costs=arrays[0], adds=added, allowed=arrays[1].astype(np.bool_), is_piece=is_piece, own=own
        )

    @property
    def has_pieces(self) -> bool:
        """Whether numbers lie between the options."""
        return any(bool((one.allowed & one.is_piece).any()) for one in self.options.values())

    def find_limits(self) -> list[tuple[list[int], Float64Array, Float64Array]] | None:
        """Per alternative its sums, and the gains up to which they surely do not pass, and above which they do; None
        where rounding may turn the decision on the row itself, or one sum is constant.
        """
        found, number = [], 0
        for margins in self.margins:
            sums = [*range(number, number + len(margins))]
            number += len(margins)
            least, sure = np.empty(len(margins)), np.empty(len(margins))
            for place, (margin, one) in enumerate(zip(margins, sums, strict=True)):
                adds = [option.adds[one] for option in self.options.values()]
                base = math.fsum(float(option.adds[one].values[option.own]) for option in self.options.values())
                low, high = margin.find_limits(adds)
                least[place], sure[place] = low - base, high - base
            if not np.isfinite([least, sure]).all() or (least < 0.0).all():
                return None
            found.append((sums, least, sure))
        return found

    def find_next(self, earlier: Sequence[frozenset[int]], pieces: bool) -> SumAnswer:
        """The cheapest that changes all the features of no earlier one, among numbers alone or with pieces."""
        limits = self.find_limits()
        assert limits is not None
        searches = [self._build_search(least, sure, pieces) for _, least, sure in limits]
        choices = [[one.build_choices(sums, pieces) for one in self.options.values()] for sums, _, _ in limits]
        largest = self.row_cost.table.combine == "max"

        def solve(staying: frozenset[int]) -> SumAnswer:
            if any(choices[0][j].own < 0 for j in staying):
                return NO_ANSWER
            answers = []
            for search, own in zip(searches, choices, strict=True):
                left = [one.stay() if j in staying else one for j, one in enumerate(own)]
                answers.append(search.find_least_largest(left) if largest else search.find_least_sum(left))
            best = min(answers, key=lambda one: one.cost)
            assignment = None if best.places is None else self._name(best.places)
            return SumAnswer(assignment, best.cost, min(one.bound for one in answers))

        return find_apart(solve, earlier, lambda: any(search.looked_at > PIECES for search in searches))

    def _build_search(self, least: Float64Array, sure: Float64Array, pieces: bool) -> JointSumSearch:
        """The search of one alternative."""

        def ask(places: Sequence[int]) -> bool:
            row = self.build(self._name(places)).values
            return bool(ask_about_rows(self.context, [row], self.run.meter)[0])

        need = JointNeed(least, least if pieces else sure, ask)
        search = JointSumSearch(need, self.row_cost.least_part, PIECES, self.run.meter.check)
        if self.has_pieces:
            search.find_tolerance = _TOLERANCES.get(self.row_cost.cost.norm, _find_share)
        return search

    def _name(self, places: Sequence[int]) -> Assignment:
        """A solution by the options that it changes features to."""
        return {j: place for j, place in enumerate(places) if place != self.options[j].own}

    def build(self, assignment: Assignment) -> Counterfactual:
        """A solution in the user's terms."""
        changed = {j: self.options[j].values[place] for j, place in sorted(assignment.items())}
        return build_changed_row(self.context, self.query, changed)

    def refine(self, assignment: Assignment) -> bool:
        """Put numbers into the pieces of a solution; whether there was room for any."""
        changed = []
        for j, place in assignment.items():
            one = self.options[j]
            if not one.is_piece[place]:
                continue
            low, high = one.values[place - 1], one.values[place + 1]
            shares = (np.arange(1, NUMBERS_PER_PIECE + 1) / (NUMBERS_PER_PIECE + 1)).tolist()
            numbers = [low + share * (high - low) for share in shares]
            if self.query.case.space.features[j].has_only_integers:
                numbers = [round(number) for number in numbers]
            inside = {number for number in numbers if low < number < high}
            if inside:
                self.more.setdefault(j, set()).update(inside)
                changed.append(j)
        self.list_options(changed)
        return bool(changed)


def _find_share(cost: float) -> float:
    return TOLERANCE * cost


_TOLERANCES = {
    "fewest": lambda cost: TOLERANCE * (cost - math.floor(cost)),
    "l2": lambda cost: 2 * TOLERANCE * cost,
}


@dataclass(frozen=True, slots=True)
class JointChange:
    """The next counterfactual, None where none was found; by how much another one may cost less, in the user's own
    terms: 0 where there surely is none, infinite where there may be one with fewer changes, or any at all.
    """

    item: Counterfactual | None
    apart: float


def start_joint_search(context: ExplainerContext, query: BoxQuery, row_cost: RowCost, run: Run) -> JointChanges | None:
    """The search for the cheapest counterfactuals of such sums, in a context of :func:`widen_to_intervals`; None where
    constraints tie features together or compute with one, or where only the model itself can say what it decides on the
    row.
    """
    margins, case = _split_sums(context), query.case
    if margins is None or any(len(predicate.columns) != 1 for predicate in case.feasible.predicates):
        return None
    limits: dict[int, NumberLimits] = {}
    summed = [set(margin.parts) for margin in chain.from_iterable(margins)]
    for j, feature in enumerate(case.space.features):
        may_turn = feature.interval and j in set().union(*summed) and find_open_gaps(feature).any()
        if may_turn and query.box.low[j] < query.box.high[j]:
            known = find_number_limits(query, j)
            if known is None:
                return None
            limits[j] = known
    search = JointChanges(context, query, row_cost, run, margins=margins, limits=limits)
    search.list_options(range(len(case.space)))
    return None if search.find_limits() is None else search


def iterate_joint_changes(search: JointChanges) -> Iterator[JointChange]:
    """One counterfactual after the other, each the cheapest that changes all the features of no earlier one; last of
    all that none was found. Raises BudgetExhausted.
    """
    found = list[frozenset[int]]()
    while True:
        answer, apart = _find_closely(search, found)
        if answer.assignment is None:
            yield JointChange(None, apart)
            return
        yield JointChange(search.build(answer.assignment), apart)
        found.append(frozenset(answer.assignment))


def find_joint_changes(search: JointChanges, k: int) -> NearestChanges:
    """Up to k counterfactuals, with what is known of them."""
    items, resolution, count, stopped, is_closed = list[Counterfactual](), 0.0, 0, None, True
    try:
        for answer in iterate_joint_changes(search):
            if answer.item is None:
                is_closed = is_closed and answer.apart == 0.0
                break
            items.append(answer.item)
            is_closed = is_closed and search.row_cost.is_close(answer.item.values, answer.apart)
            count += is_closed
            resolution = max(resolution, answer.apart) if is_closed else resolution
            if len(items) == k:
                break
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        is_closed, stopped = False, name_stop(stop, search.run.meter)
    return NearestChanges(tuple(items), is_closed, stopped, count, resolution)


def _find_closely(search: JointChanges, earlier: Sequence[frozenset[int]]) -> tuple[SumAnswer, float]:
    """The cheapest that was found, and by how much another one may cost less, as :class:`JointChange`."""
    for left in reversed(range(ROUNDS)):
        answer = search.find_next(earlier, pieces=False)
        bounding = search.find_next(earlier, pieces=True) if search.has_pieces else answer
        if answer.assignment is None:
            apart = 0.0 if bounding.bound == math.inf else math.inf
        else:
            values = search.build(answer.assignment).values
            apart = search.row_cost.measure_difference(search.row_cost.measure_row(values), bounding.bound)
        is_close = answer.assignment is not None and search.row_cost.is_close(values, apart * MARGIN_OF_CLOSENESS)
        if (
            apart <= RESOLUTION
            or is_close
            or not left
            or bounding.assignment is None
            or not search.refine(bounding.assignment)
        ):
            break
    return answer, apart


def _see_numbers(
    context: ExplainerContext, query: BoxQuery, numbers: Mapping[int, Sequence[Value]]
) -> dict[int, dict[int, AnyArray]]:
    """What the models see of some numbers of features, by the user's own preprocessing: by feature and column."""
    if not numbers:
        return {}
    assert context.compiled_model is not None
    places = {j: int(context.reduced.kept[j]) for j in numbers}
    features = context.space.features
    other = {
        places[j]: replace(features[places[j]], values=tuple(some), missing=False, interval=None, role=None)
        for j, some in numbers.items()
    }
    layout = replace_features(context.model.primary.layout, context.table, other)
    points = np.zeros((max(map(len, numbers.values())), len(features)), dtype=np.int32)
    points[:] = query.case.user_instance
    for j, some in numbers.items():
        points[:, places[j]] = np.minimum(np.arange(len(points)), len(some) - 1)
    table, model, parts = layout.decode(points), context.arguments.models[0], list[AnyArray]()
    joined = model.members if isinstance(model, JointModel) and model.shared is None else ()
    asked = [(one.model, one.lay_out(table)) for one in joined] or [(model, table)]
    for own, laid in asked:
        transform, final = split_pipeline(own)
        parts.append(compute_model_input(transform, laid, get_input_conversion(final), layout.names))
    seen = [part[:, column] for part in parts for column in range(part.shape[1])]
    columns = context.compiled_model.tabulated.columns.features
    return {
        j: {column: seen[column][: len(some)] for column in np.flatnonzero(columns == j).tolist()}
        for j, some in numbers.items()
    }

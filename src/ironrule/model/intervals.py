"""Whole intervals instead of single values: refine a space until nothing between two neighbouring values is left out.

A proof speaks of the values of a domain. Between two of them a model may tell more values apart. A feature becomes an
*interval* (``Feature.interval``) where all of these places can be found; a feature where they cannot keeps the values
that were seen, and the reason is kept beside it (:class:`RefinedSpace`).

- **Splits of trees.** Each asks whether its column lies above or below a threshold, and what prepares the column
  rises or falls with the feature: so every split changes its answer at one place at the most. That place is found
  exactly, by halving the stretch between two values of the domain until no number lies between, and the numbers on
  both sides of it join the domain.
- **Terms of sums** (linear and additive models). Where a sum passes zero depends on the other features, so no list
  has all such places. Of a whole number with at most ``MAX_LISTED_INTEGERS`` values between its extremes every value
  joins the domain. Of other numbers the terms must all rise or all fall in each way to the desired outcome: then no
  number is desired where both of its neighbours in the domain are not, and proofs hold for all numbers. Claims that
  need the exact place at which the decision turns are not made there.
- **Networks.** They have no thresholds, and their decision may turn anywhere. What a network sees of a number between
  two values lies between what it sees of these, so bounds over a range of values hold for all numbers of the range, and
  a search cuts such ranges at values of the domain (:mod:`ironrule.backends.network`). Whole numbers are listed as for
  sums; the domains of others get a grid (``GRID_STEPS``), so that what lies between two values is small.
- **Constraints.** The constants that numbers are compared with join the domain, with the numbers next to them. Where
  two numbers are compared, or computed with, all their values must be in the domain.

Whole numbers stay whole. A column of float32 rounds every number to one that it holds. That keeps their order, so the
places are found all the same, and what is proven holds for every number as the column holds it.

Two neighbours of the refined domain that still have numbers between them enclose a *gap* (:class:`Gaps`). What holds
there:

- No split of a tree changes its answer inside a gap, so trees decide there as they do at both ends.
- What a sum adds for the number (a term) lies between what it adds at the two ends. So if some number in a gap has
  the desired outcome, an end of the gap has it too: proofs hold for all numbers. But where exactly the decision turns
  is not known. A rule's bound may move into the gap, and a counterfactual in it may be nearer than one at its end.
- The same holds for networks, except that a number in a gap may be desired where both of its ends are not. The network
  backend bounds gaps as well as values; nothing else may conclude from values to the numbers between them.
- A constraint may hold inside a gap and at neither end. Then nothing follows from the values of the domain.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array, Int64Array, Points
from ironrule.model.blackbox import make_layout_builder
from ironrule.model.model_input import MAX_EXACT_INTEGER, compute_model_input
from ironrule.model.normal_form.network import Network, require_straight_columns
from ironrule.model.normal_form.tree_sum import Margin, Term, TreeSplit, turns_once
from ironrule.model.pipeline import find_unordered_columns, split_pipeline
from ironrule.model.protocol import Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.model.readers.registry import get_input_conversion
from ironrule.model.readers.sklearn_additive import STRAIGHT_SHAPES, ScaledShape
from ironrule.space.constraints.binding import (
    ArithmeticEvaluator,
    ComparisonEvaluator,
    ConjunctionEvaluator,
    DisjunctionEvaluator,
    NegationEvaluator,
    NumberEvaluator,
    PointValue,
    Predicate,
    PredicateInput,
    TruthEvaluator,
)
from ironrule.space.constraints.syntax import Relation
from ironrule.space.feature import Feature, find_open_gaps
from ironrule.space.space import Space
from ironrule.space.table import Table

SIGNS = ("==", "!=", "<", "<=", ">", ">=")
MIRRORED = dict(zip(map(Relation, SIGNS), map(Relation, ("==", "!=", ">", ">=", "<", "<=")), strict=True))
NEGATED = dict(zip(map(Relation, SIGNS), map(Relation, ("!=", "==", ">=", ">", "<=", "<")), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The gaps of every feature: for every value but the last, whether numbers lie between it and the next one."""

    open: tuple[BoolArray, ...]
    in_sums: tuple[bool, ...]  # per feature, whether a term of the model, or a network, speaks of it

    @property
    def turning_gaps(self) -> tuple[BoolArray, ...]:
        """The gaps in which the decision may turn."""
        return tuple(gaps & summed for gaps, summed in zip(self.open, self.in_sums, strict=True))

    def may_turn_within(self, low: Points, high: Points) -> bool:
        """Whether the decision may turn in a gap of a box."""
        ends = zip(self.turning_gaps, low.tolist(), high.tolist(), strict=True)
        return any(bool(gaps[first:last].any()) for gaps, first, last in ends)

    def may_turn_after(self, feature: int, code: int) -> bool:
        """Whether the decision may turn in the gap between a value and the next one."""
        return bool(self.turning_gaps[feature][code])

    def are_respected_by(self, predicates: Sequence[Predicate], instance: Points | None = None) -> bool:
        """Whether each constraint that holds for a number in a gap also holds at both ends of the gap."""
        return not any(True for predicate in predicates for _ in self.list_unsafe_comparisons(predicate, instance))

    def list_unsafe_comparisons(
        self, predicate: Predicate, instance: Points | None = None
    ) -> Iterator[ComparisonEvaluator]:
        """The comparisons of a constraint that may hold for a number in a gap, and not at both of its ends."""
        yield from self._list_unsafe(predicate.evaluator, instance, negated=False)

    def _list_unsafe(
        self, evaluator: TruthEvaluator, instance: Points | None, negated: bool
    ) -> Iterator[ComparisonEvaluator]:
        match evaluator:
            case ComparisonEvaluator():
                if not self._is_comparison_respected(evaluator, instance, negated):
                    yield evaluator
            case NegationEvaluator(inner):
                yield from self._list_unsafe(inner, instance, not negated)
            case ConjunctionEvaluator(evaluators) | DisjunctionEvaluator(evaluators):
                for part in evaluators:
                    yield from self._list_unsafe(part, instance, negated)
            case _:  # whether a value is missing: no number is
                return

    def _is_comparison_respected(self, comparison: ComparisonEvaluator, instance: Points | None, negated: bool) -> bool:
        if not any(self.open[index].any() for index in find_point_features(comparison)):
            return True
        bound = find_constant_bound(comparison, instance)
        if bound is None:
            return False
        relation = NEGATED[bound.relation] if negated else bound.relation
        return _is_safe_at_ends(bound.read.table, relation, bound.constant, self.open[bound.read.index])


def find_gaps(space: Space, reads: Sequence[TabulatedModel]) -> Gaps:
    """The gaps of a space of whole intervals; ``reads`` are the models, read over the same features."""
    opened = tuple(find_open_gaps(feature) for feature in space.features)
    summed = set().union(*map(find_summed_features, reads))
    return Gaps(opened, tuple(j in summed for j in range(len(space))))


def find_summed_features(tabulated_model: TabulatedModel) -> set[int]:
    """The features that a term of a model, or a network, speaks of; a column that is the same everywhere is of none."""
    found = set[int]()
    for part in tabulated_model.parts:
        values = part.columns.values
        columns = {*range(len(values))}
        if not _is_network(part):
            columns = {term.column for group in part.tree_sum.groups for term in group.terms}
        varying = (column for column in columns if (values[column] != values[column][0]).any())
        found |= {int(part.columns.features[column]) for column in varying}
    return found


def _is_network(tabulated_model: TabulatedModel) -> bool:
    return isinstance(tabulated_model.normal_form, Network)


@dataclass(frozen=True, slots=True, eq=False)
class ConstantBound:
    """A comparison of one feature with a constant."""

    read: PointValue
    relation: Relation
    constant: float


def find_constant_bound(comparison: ComparisonEvaluator, instance: Points | None = None) -> ConstantBound | None:
    """A comparison as one of a single feature with a constant, which the instance may have; None if it is another."""
    left, relation, right = comparison.left, comparison.relation, comparison.right
    if isinstance(right, PointValue):
        left, relation, right = right, MIRRORED[relation], left
    if not isinstance(left, PointValue) or any(_iterate_point_reads(right)):
        return None
    with np.errstate(all="ignore"):
        constant = right.evaluate(PredicateInput({}, np.empty(0, dtype=np.int64) if instance is None else instance))
    return ConstantBound(left, relation, float(constant))


def _is_safe_at_ends(values: Float64Array, relation: Relation, constant: float, gaps: BoolArray) -> bool:
    """Whether a comparison that holds for a number in a gap also holds at both ends of the gap."""
    if np.isnan(constant):  # a comparison with missing is the same for all numbers
        return True
    low, high = values[: len(gaps)][gaps], values[1 : len(gaps) + 1][gaps]
    inside = bool(((low < constant) & (constant < high)).any())
    below = bool((high == constant).any()) and relation in (Relation.LESS, Relation.DIFFERENT)
    above = bool((low == constant).any()) and relation in (Relation.GREATER, Relation.DIFFERENT)
    return not (inside or below or above)


def iterate_comparisons(evaluator: TruthEvaluator) -> Iterator[ComparisonEvaluator]:
    """Every comparison in a constraint."""
    match evaluator:
        case ComparisonEvaluator():
            yield evaluator
        case NegationEvaluator(inner):
            yield from iterate_comparisons(inner)
        case ConjunctionEvaluator(evaluators) | DisjunctionEvaluator(evaluators):
            for part in evaluators:
                yield from iterate_comparisons(part)


def find_point_features(comparison: ComparisonEvaluator) -> set[int]:
    """The features of the point that a comparison reads."""
    return {place.index for side in (comparison.left, comparison.right) for place in _iterate_point_reads(side)}


def _iterate_point_reads(quantity: NumberEvaluator) -> Iterator[PointValue]:
    """Where a quantity reads the point."""
    if isinstance(quantity, PointValue):
        yield quantity
    elif isinstance(quantity, ArithmeticEvaluator):
        for part in (quantity.first, *(part for _, part in quantity.steps)):
            yield from _iterate_point_reads(part)


MAGNITUDE_BITS = np.int64(0x7FFFFFFFFFFFFFFF)
MAX_LISTED_INTEGERS = 4096
"""Whole numbers that a sum or a network speaks of are all listed, if there are at most so many between the extremes."""
TURNS_TWICE = (
    "what the model adds for it rises in one sum and falls in another, so that its decision may turn twice between two "
    "values"
)
GRID_STEPS = 256
"""No gap of other numbers that a network speaks of is longer than the range divided by this."""


GroupedSplits = Mapping[int, Sequence[TreeSplit]]
"""The splits of a model's trees by feature."""


@dataclass(frozen=True, slots=True)
class RefinedSpace:
    """A space whose intervals have every place in them at which a model tells numbers apart.

    ``obstacles`` says, by the name of a numeric feature, why only its values seen can be spoken of.
    """

    space: Space
    obstacles: Mapping[str, str]


def refine_space(
    space: Space,
    models: Sequence[Any],
    reads: Sequence[TabulatedModel],
    table: Table,
    joint: Sequence[TabulatedModel] = (),
) -> RefinedSpace:
    """The space with every place added at which a model or a constraint tells numbers apart.

    ``joint``: what some of the models desire together. Their sums must all rise or all fall with a number, too.
    """
    unordered = _find_unordered_features(space, models, table)
    numbers = [j for j, feature in enumerate(space.features) if feature.can_be_interval]
    splits = [_group_splits(read) for read in reads]
    reasons = {j: unordered.get(j) or _find_obstacle(space, reads, splits, joint, j) for j in numbers}
    obstacles = {j: reason for j, reason in reasons.items() if reason is not None}
    gridded = _find_gridded_features(reads, joint)
    # A constraint may tie features together such that none of them can be an interval: they are left out, and the
    # rest is tried again.
    while True:
        chosen = [j for j in numbers if j not in obstacles]
        refined = _refine_chosen(space, models, reads, splits, table, chosen=chosen, gridded=gridded)
        broken = _find_unsafe_features(refined, find_gaps(refined, reads))
        if not broken:
            return RefinedSpace(refined, {space.names[j]: reason for j, reason in obstacles.items()})
        obstacles |= broken


def _find_unordered_features(space: Space, models: Sequence[Any], table: Table) -> dict[int, str]:
    """The features that a model's preprocessing may not let rise or fall all the way, with the reason."""
    found: dict[int, str] = {}
    for model in models:
        layout = make_layout_builder(model, table)(space.features)
        unordered = find_unordered_columns(split_pipeline(model)[0], len(layout.names))
        found |= {layout.feature_indices[column]: reason for column, reason in unordered.items()}
    return found


def _find_gridded_features(reads: Sequence[TabulatedModel], joint: Sequence[TabulatedModel]) -> set[int]:
    """The features of which numbers are put into long gaps: those of networks, and all that sums speak of which pull a
    number both ways and so stay apart. Their decision may turn anywhere, and only numbers of a domain can be named.
    """
    apart = [read for read in joint if len(read.parts) > 1]
    return set().union(*(find_summed_features(read) for read in (*filter(_is_network, reads), *apart)))


def _refine_chosen(
    space: Space,
    models: Sequence[Any],
    reads: Sequence[TabulatedModel],
    splits: Sequence[GroupedSplits],
    table: Table,
    *,
    chosen: Sequence[int],
    gridded: set[int],
) -> Space:
    """The space with the chosen features as intervals."""
    values: list[set[Any]] = [set(feature.values) for feature in space.features]
    # per feature the values join where a model's splits turn, the constants of constraints, and listed whole numbers
    for model, read, own in zip(models, reads, splits, strict=True):
        turning = {j: own.get(j, ()) for j in chosen}
        for place, feature in enumerate(_refine_features(space, model, read, turning, table)):
            values[place] |= set(feature.values)
    for place, constants in _find_constants(space, chosen):
        values[place] |= constants
    listed = _find_listed_features(space, reads)
    for place in listed & {*chosen}:
        first, last = space.features[place].values[0], space.features[place].values[-1]
        values[place] = set(range(first, last + 1))
    for place in gridded & {*chosen} - listed:
        values[place] |= _build_grid(replace(space.features[place], values=tuple(sorted(values[place]))))
    features = list(space.features)
    for place in chosen:
        features[place] = replace(features[place], values=tuple(sorted(values[place])), interval=True)
    return replace(space, features=tuple(features))


def _build_grid(feature: Feature) -> set[Any]:
    """Numbers that cut every gap of a feature into steps that are short by its range."""
    longest, cuts = (feature.values[-1] / 2 - feature.values[0] / 2) / GRID_STEPS, set[Any]()  # half of it: no overflow
    if longest < sys.float_info.min:
        return cuts
    for low, high in pairwise(feature.values):
        steps = max(1, math.ceil((high / 2 - low / 2) / longest))  # half of the smallest number is 0
        length = high / steps - low / steps
        inner = (_round_near(low + length * step, length, feature) for step in range(1, steps))
        cuts |= {number for number in inner if low < number < high}
    return cuts


def _round_near(number: float, length: float, feature: Feature) -> Any:
    """A number as people would write one that is near it, by a step's length; a whole one where all values are."""
    if feature.has_only_integers:
        return round(number)
    digits = 1 - math.floor(math.log10(length))
    return round(number, digits) + 0.0  # no negative zero


def _find_obstacle(
    space: Space,
    reads: Sequence[TabulatedModel],
    splits: Sequence[GroupedSplits],
    joint: Sequence[TabulatedModel],
    j: int,
) -> str | None:
    """Why the places where models tell numbers of a feature apart cannot all be found; None if they can."""
    feature = space.features[j]
    if feature.interval is False:
        return "it is declared to have only its values"
    try:
        _require_exact_integers(feature)
        for read, grouped in zip(reads, splits, strict=True):
            if _is_network(read):
                own = np.flatnonzero(read.columns.features == j).tolist()
                require_straight_columns(feature, [read.columns.values[column] for column in own])
            else:
                _require_monotone_terms(space, read, j)
                _start_split_search(feature, grouped.get(j, ()), read)
        for part in (part for read in joint for part in read.parts):
            if not _is_network(part):  # whose bounds hold for every number between
                _require_monotone_terms(space, part, j)
    except Unreadable as reason:
        return str(reason)
    return None


def _find_listed_features(space: Space, reads: Sequence[TabulatedModel]) -> set[int]:
    """The features of which every whole number joins the domain."""
    wanted = {place for read in reads for place in find_summed_features(read)}
    for comparison in _iterate_space_comparisons(space):
        if find_constant_bound(comparison) is None:
            wanted |= find_point_features(comparison)
    return {place for place in wanted if _can_be_listed(space.features[place])}


def _can_be_listed(feature: Feature) -> bool:
    whole = feature.can_be_interval and feature.has_only_integers and len(feature.values) > 1
    return whole and feature.values[-1] - feature.values[0] < MAX_LISTED_INTEGERS


def _iterate_space_comparisons(space: Space) -> chain[ComparisonEvaluator]:
    return chain.from_iterable(iterate_comparisons(predicate.evaluator) for predicate in space.feasible.predicates)


def _find_constants(space: Space, chosen: Sequence[int]) -> list[tuple[int, set[Any]]]:
    """For features that constraints compare with a constant, the numbers on both sides of it, and the constant."""
    constants = []
    for bound in map(find_constant_bound, _iterate_space_comparisons(space)):
        if bound is None or bound.read.index not in chosen:
            continue
        feature = space.features[bound.read.index]
        if math.isfinite(constant := bound.constant + 0.0):  # no negative zero
            near = list_neighbours(constant, feature.has_only_integers)
            constants.append((bound.read.index, {v for v in near if feature.values[0] <= v <= feature.values[-1]}))
    return constants


def list_neighbours(constant: float, whole: bool) -> set[Any]:
    """A number and those next to it on both sides; where only whole numbers count, the whole ones around it."""
    if whole:
        floor, ceiling = math.floor(constant), math.ceil(constant)
        return {ceiling - 1, floor, ceiling, floor + 1}
    return {math.nextafter(constant, -math.inf), constant, math.nextafter(constant, math.inf)}


def _find_unsafe_features(space: Space, gaps: Gaps) -> dict[int, str]:
    """The features of constraints that may hold between two values and at neither of them, with the reason."""
    unsafe: dict[int, str] = {}
    for predicate in space.feasible.predicates:
        tied = set().union(*map(find_point_features, gaps.list_unsafe_comparisons(predicate)))
        reason = (
            f"the constraint '{predicate.constraint}' does not compare it with a constant, and it is not one of "
            f"integers with at most {MAX_LISTED_INTEGERS:,} values between their extremes; round it to integers, or "
            f"compare it with a constant"
        )
        unsafe |= dict.fromkeys((j for j in tied if gaps.open[j].any()), reason)
    return unsafe


def _refine_features(
    space: Space, model: Any, tabulated_model: TabulatedModel, splits: GroupedSplits, table: Table
) -> list[Feature]:
    transform, final = split_pipeline(model)
    layout = make_layout_builder(model, table)
    searches = [_start_split_search(f, splits.get(j, ()), tabulated_model) for j, f in enumerate(space.features)]
    # All features are halved at once: each round asks the preprocessing about one table with every middle value.
    while any(search.is_open.any() for search in searches):
        middles = [search.middle_values for search in searches]
        features = [_replace_values(feature, middle) for feature, middle in zip(space.features, middles, strict=True)]
        ends = np.array([max(len(middle), 1) - 1 for middle in middles], dtype=np.int32)
        points = np.minimum(np.arange(ends.max() + 1, dtype=np.int32)[:, None], ends)
        laid = layout(features)
        seen = compute_model_input(transform, laid.decode(points), get_input_conversion(final), laid.names)
        for search in searches:
            search.halve(seen)
    return [search.refined_feature for search in searches]


def _replace_values(feature: Feature, values: AnyArray) -> Feature:
    return replace(feature, values=tuple(values.tolist()), missing=False) if len(values) else feature


def _require_exact_integers(feature: Feature) -> None:
    """Between whole numbers beyond 2**53 there are some that float64 cannot hold, even where it holds both."""
    ends = (feature.values[0], feature.values[-1])
    if feature.has_only_integers and not all(-MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER for value in ends):
        raise Unreadable(
            "it has whole numbers beyond 2**53, and float64 cannot hold all those in between; make it a string if it "
            "is an identifier, or rescale it (seconds instead of nanoseconds)"
        )


def _require_monotone_terms(space: Space, tabulated_model: TabulatedModel, place: int) -> None:
    """Terms of numbers that are not all listed must rise or fall all the way, and in one direction for each way to the
    desired outcome; else a number could be desired although its neighbours in the domain are not.
    """
    feature, summed = space.features[place], find_summed_features(tabulated_model)
    if place not in summed or place in _find_listed_features(space, [tabulated_model]):
        return
    if not find_open_gaps(replace(feature, interval=True)).any():
        return
    for term in (term for group in tabulated_model.tree_sum.groups for term in group.terms):
        if tabulated_model.columns.features[term.column] == place and not is_straight(term):
            raise Unreadable("what the model adds for it may be more between two values than at both")
    for margins in tabulated_model.tree_sum.alternatives:
        if len(find_directions(tabulated_model, margins, place, len(feature.values))) > 1:
            raise Unreadable(TURNS_TWICE)


def is_straight(term: Term) -> bool:
    """Whether what a term adds is a multiple of its column."""
    return isinstance(term.contribution, ScaledShape) and isinstance(term.contribution.shape, STRAIGHT_SHAPES)


def find_directions(tabulated_model: TabulatedModel, margins: Sequence[Margin], place: int, values: int) -> set[int]:
    """Whether a feature's terms rise (1) or fall (-1) with it, over all sums of one way to the desired outcome."""
    directions = set()
    for group in (group for margin in margins for group in margin.groups):
        # A group may have several terms of one column; what counts is their sum.
        factors: dict[int, list[float]] = {}
        for term in group.terms:
            if tabulated_model.columns.features[term.column] == place and isinstance(term.contribution, ScaledShape):
                factors.setdefault(term.column, []).append(term.contribution.factor)
        for column, slopes in factors.items():
            numbers = tabulated_model.columns.values[column][:values]  # missing comes after them
            seen = np.asarray(numbers, dtype=np.float64)
            directions |= {int(np.sign(math.fsum(slopes)) * np.sign(seen[-1] - seen[0]))} - {0}
    return directions


@dataclass(slots=True, eq=False)
class _SplitSearch:
    """For the splits of one feature, the numbers between which each changes its answer."""

    feature: Feature
    splits: list[TreeSplit]
    low: Int64Array  # as whole numbers in the same order
    high: Int64Array
    first_answers: BoolArray  # the answer at the lower end

    @property
    def is_open(self) -> BoolArray:
        """Which splits have numbers left between."""
        return np.asarray(self.high > self.low + 1)  # a difference of numbers on both sides of zero could overflow

    @property
    def _middle_ordinals(self) -> Int64Array:
        return (self.low & self.high) + ((self.low ^ self.high) >> 1)

    @property
    def middle_values(self) -> AnyArray:
        """The numbers to look at next, each once."""
        return self._to_values(np.unique(self._middle_ordinals))

    def _to_values(self, places: Int64Array) -> AnyArray:
        if self.feature.has_only_integers:
            return places
        return np.asarray((places ^ ((places >> 63) & MAGNITUDE_BITS)).view(np.float64))

    def halve(self, seen: AnyArray) -> None:
        """Take the half in which each split changes its answer."""
        middle, opened = self._middle_ordinals, self.is_open
        row = np.searchsorted(np.unique(middle), middle)
        for place in np.flatnonzero(opened).tolist():  # the splits that are not yet between two neighbours
            split = self.splits[place]
            answer = split.goes_left(seen[row[place] : row[place] + 1, split.column])[0]
            (self.low if answer == self.first_answers[place] else self.high)[place] = middle[place]

    @property
    def refined_feature(self) -> Feature:
        """The feature with the numbers on both sides of every change."""
        if not self.splits:
            return self.feature
        turning_values = self._to_values(np.concatenate([self.low, self.high])).tolist()
        return replace(self.feature, values=tuple(sorted({*self.feature.values, *turning_values})))


def _start_split_search(
    feature: Feature, feature_splits: Sequence[TreeSplit], tabulated_model: TabulatedModel
) -> _SplitSearch:
    """Where in the domain each of these splits of a feature changes its answer."""
    places = _to_ordinals(feature) if feature_splits else np.zeros(0, dtype=np.int64)
    splits, first = [], []
    ends: list[tuple[int, int]] = []
    # Each split that changes its answer between two neighbours of the domain is searched for between these two.
    for split in feature_splits:
        answers = split.goes_left(tabulated_model.columns.values[split.column])[: len(places)]
        changes = np.flatnonzero(answers[1:] != answers[:-1]).tolist()
        if len(changes) > 1 or not turns_once(split):
            raise Unreadable("the model tells single values of it apart, not only lower from higher ones")
        if changes:
            splits.append(split)
            first.append(bool(answers[0]))
            ends.append((int(places[changes[0]]), int(places[changes[0] + 1])))
    low, high = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    return _SplitSearch(feature, splits, low.copy(), high.copy(), np.array(first, dtype=np.bool_))


def _group_splits(tabulated_model: TabulatedModel) -> GroupedSplits:
    """The splits of every feature that has any, each once."""
    if _is_network(tabulated_model):
        return {}
    groups = tabulated_model.tree_sum.groups
    trees = (tree for group in groups for tree in group.trees)
    features, grouped = tabulated_model.columns.features.tolist(), defaultdict[int, list[TreeSplit]](list)
    for split in dict.fromkeys(split for tree in trees for split in tree.splits if split is not None):
        grouped[features[split.column]].append(split)
    return grouped


def _to_ordinals(feature: Feature) -> Int64Array:
    """The values as whole numbers in the same order, neighbours for neighbouring numbers."""
    if feature.has_only_integers:
        return np.array(feature.values, dtype=np.int64)
    bits = (np.array(feature.values, dtype=np.float64) + 0.0).view(np.int64)  # no negative zero
    return np.asarray(bits ^ ((bits >> 63) & MAGNITUDE_BITS))

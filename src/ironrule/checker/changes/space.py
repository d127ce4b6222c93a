"""What a row may be changed to: permitted values, the numbers between them, and the conditions that must be met.

A counterfactual must meet every *condition*: that a model decides so, with its threshold moved by the margin to where
it is harder to pass. The end of a band of scores is one more condition: that the score is not above it. A condition is
a :class:`~ironrule.checker.scope.CheckScope` of one model, turned round where that is needed.

**Numbers between two values** of an interval may count for two reasons: a model may turn there, or a constraint may
permit them and not the value beside them that is nearer to the row. These gaps become atoms. In all others a number can
be replaced by that value: no model tells the two apart, it is permitted, and it costs no more. For this no constraint
may turn inside of a gap, so the numbers that constraints name join the domains first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array
from ironrule.checker.bounds.change_bounds import ChangeBounds, SumChangeBounds
from ironrule.checker.bounds.feasible import build_feasible_set
from ironrule.checker.bounds.pieces import Pieces, PieceTest
from ironrule.checker.bounds.sum_bounds import SumBounds
from ironrule.checker.changes.atoms import FeatureAtoms, combine_cells
from ironrule.checker.changes.costs import ChangePrices
from ironrule.checker.changes.document import ScopeClaim
from ironrule.checker.changes.search import CheaperChangeProblem
from ironrule.checker.intervals import find_gaps, is_interval_feature
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.checker.scope import CheckScope, ModelWithBounds, UserInputs, build_scope
from ironrule.checker.space.space import CheckerFeature, CheckerSpace, parse_constraints
from ironrule.checker.user_models import OutcomeTarget, UserModel
from ironrule.errors import ConstraintError

if TYPE_CHECKING:
    from ironrule.checker.space.constraints import FormulaNode, ParsedConstraint, PointPredicate

Numbers = Mapping[str, Sequence[Any]]


def list_conditions(
    models: Sequence[Any], target: OutcomeTarget, upper: float | None, margin: float
) -> list[tuple[Any, OutcomeTarget, bool]]:
    """The models with what each must reach, and whether it is the opposite that must be reached."""
    labels = [(model, target, False) for model in models]
    if upper is None:
        if not margin:
            return labels
        moved = [(model, replace(target, threshold=_move_threshold(model, target, margin)), False) for model in models]
        return [*(labels if target.threshold is None else ()), *moved]
    found = []
    for model in models:
        if target.threshold is not None:
            found.append((model, replace(target, threshold=target.threshold + margin), False))
        found.append((model, replace(target, threshold=upper - margin), True))
    return found


def _move_threshold(model: Any, target: OutcomeTarget, margin: float) -> float | None:
    """The threshold, moved to where it is harder to pass."""
    harder = replace(target, margin=-margin)
    return harder.move_threshold(model)


@dataclass(frozen=True, eq=False)
class ChangeConditions:
    """All conditions that a counterfactual must meet, over one space."""

    scopes: tuple[CheckScope, ...]

    @classmethod
    def build(
        cls, inputs: UserInputs, conditions: Sequence[tuple[Any, OutcomeTarget, bool]], claim: ScopeClaim, more: Numbers
    ) -> ChangeConditions:
        """The conditions over the space that a document speaks of, with more numbers in its intervals."""
        breakpoints = claim.breakpoints
        if breakpoints is not None:
            breakpoints = {name: (*numbers, *more.get(name, ())) for name, numbers in breakpoints.items()}
        scopes = [
            build_scope(replace(inputs, models=(model,)), target, breakpoints, claim.extended_values, opposite)
            for model, target, opposite in conditions
        ]
        return cls(tuple(scopes))

    @property
    def space(self) -> CheckerSpace:
        """The space."""
        return self.scopes[0].space

    @property
    def past_rows(self) -> Int32Array:
        """The past rows that can occur."""
        return self.scopes[0].past_rows

    def desired(self, points: Int32Array) -> BoolArray:
        """Which points meet all conditions, by the models themselves."""
        return np.asarray(np.all([one.user_models.desired(points) for one in self.scopes], axis=0), dtype=np.bool_)

    def desired_in(self, space: CheckerSpace, points: Int32Array) -> BoolArray:
        """The same for points of a space with other numbers."""
        answers = []
        for scope in self.scopes:
            model = scope.user_models.primary
            if not isinstance(model, UserModel):
                raise ClaimUndecided("the model cannot be asked about numbers between the values of the domains")
            answers.append(model.decision(model.layout_for(space)(points), len(points)))
        return np.asarray(np.all(answers, axis=0), dtype=np.bool_)

    @cached_property
    def models(self) -> tuple[ModelWithBounds, ...]:
        """The models, read; raises ClaimUndecided where one cannot be."""
        found = list[ModelWithBounds]()
        for scope in self.scopes:
            read = scope.models_with_bounds
            if isinstance(read, str):
                raise ClaimUndecided(f"the model cannot be read here: {read}")
            found += read
        return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Restrictions:
    """What limits the changes of a row, over a space: parsed constraints, and which features may vary."""

    constraints: tuple[ParsedConstraint, ...]
    varying: BoolArray

    @classmethod
    def build(cls, claim: ScopeClaim, space: CheckerSpace) -> Restrictions:
        """What a document says; raises ClaimFailed for features that the space does not have."""
        try:
            constraints = (*parse_constraints(space.constraints), *parse_constraints(claim.change_constraints))
        except ConstraintError as error:
            raise ClaimFailed(f"the constraints on changes cannot be read: {error.statement}") from None
        names = space.names if claim.features_to_vary is None else claim.features_to_vary
        if not set(names) <= set(space.names):
            raise ClaimFailed("features that may vary must be features of the space, but one is not")
        return cls(constraints, np.array([name in names for name in space.names], dtype=np.bool_))

    def add(self, constraints: tuple[ParsedConstraint, ...]) -> Restrictions:
        """The same with further constraints."""
        return replace(self, constraints=(*self.constraints, *constraints))

    def bind(self, space: CheckerSpace, row: Int32Array) -> list[PointPredicate]:
        """The constraints on points of a space that a row of it is changed to."""
        try:
            return [one.bind(space, row) for one in self.constraints]
        except ConstraintError as error:
            raise ClaimFailed(f"the constraints on changes make no sense here: {error.statement}") from None

    def list_numbers(self, space: CheckerSpace, row: Int32Array) -> dict[str, tuple[Any, ...]]:
        """The numbers of intervals that constraints compare them with and that the domains do not have; where a
        constraint speaks of several features, with the numbers next to them.
        """
        found: dict[str, set[Any]] = {}
        for constraint in self.constraints:
            for feature, constant in _list_constants(constraint, space, row):
                if not is_interval_feature(feature):
                    continue
                near = _list_neighbours(constant, feature.whole, len(constraint.features) > 1)
                inside = {number for number in near if feature.values[0] < number < feature.values[-1]}
                found.setdefault(feature.name, set()).update(inside - set(feature.values))
        return {name: tuple(sorted(numbers)) for name, numbers in found.items() if numbers}


def _list_neighbours(constant: float, whole: bool, both_sides: bool) -> list[Any]:
    """A number, as an interval has it, and the next ones below and above."""
    if whole:
        sides = [math.floor(constant), math.ceil(constant)]
        return [*sides, sides[0] - 1, sides[1] + 1] if both_sides else sides
    number = float(constant)
    return [number, *(float(np.nextafter(number, side)) for side in (-math.inf, math.inf) if both_sides)]


def _list_constants(
    constraint: ParsedConstraint, space: CheckerSpace, row: Int32Array
) -> Iterator[tuple[CheckerFeature, float]]:
    """The features that are compared with a finite number, a literal or one of the row, each with the number."""
    for left, right in _list_comparisons(constraint.formula):
        for side, other in ((left, right), (right, left)):
            value = _find_constant(other, space, row)
            if side.kind == "feature" and value is not None:
                yield space.features[space.index(side.value)], value


def _list_comparisons(formula: FormulaNode) -> Iterator[tuple[FormulaNode, FormulaNode]]:
    for node in _walk(formula):
        if node.kind == "compare":
            yield from pairwise(node.parts)


def _find_constant(node: FormulaNode, space: CheckerSpace, row: Int32Array) -> float | None:
    """The finite number that one side of a comparison stands for, whatever the point is; None if it is none."""
    value = node.value if node.kind == "literal" else None
    if node.kind == "row":
        j = space.index(node.value)
        value = space.features[j].value(int(row[j]))
    if node.kind == "calculation" and not _reads_point(node):
        value = _calculate(node, space, row)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _calculate(node: FormulaNode, space: CheckerSpace, row: Int32Array) -> float:
    """What is calculated from the row, in the arithmetic of constraints, to the last bit; missing is no number."""
    from ironrule.checker.space.constraints import apply_arithmetic

    if node.kind != "calculation":
        value = _find_constant(node, space, row)
        return math.nan if value is None else float(value)
    first, *others = (np.float64(_calculate(part, space, row)) for part in node.parts)
    with np.errstate(all="ignore"):
        return float(reduce(apply_arithmetic, zip(node.value, others, strict=True), first))


def _walk(node: FormulaNode) -> Iterator[FormulaNode]:
    yield node
    for part in node.parts:
        yield from _walk(part)


def _reads_point(node: FormulaNode) -> bool:
    return any(part.kind == "feature" for part in _walk(node))


def list_stepped_numbers(prices: ChangePrices, most: int) -> dict[str, tuple[Any, ...]]:
    """The numbers of intervals that are steps away from the row's own and that the domains do not have; raises
    ClaimUndecided for too many.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for one in prices.features:
        feature, own, step = one.feature, one.own, one.step
        if step is None or own is None or not is_interval_feature(feature):
            continue
        if (feature.values[-1] - feature.values[0]) / most > step:
            raise ClaimUndecided(f"the steps of {feature.name!r} leave more than {most:,} values")
        first, last = math.ceil((feature.values[0] - own) / step), math.floor((feature.values[-1] - own) / step)
        numbers = [own + count * step for count in range(first, last + 1)]
        if feature.whole:
            numbers = [int(number) for number in numbers if float(number).is_integer()]
        # as the column stores them: other numbers can never be in it
        stored = [number if feature.whole else float(one.stored_as(number)) for number in numbers]
        inside = {number for number in stored if feature.values[0] < number < feature.values[-1]}
        if new := tuple(sorted(inside - set(feature.values))):
            found[feature.name] = new
    return found


def build_problem(
    conditions: ChangeConditions, restrictions: Restrictions, prices: ChangePrices, row: Int32Array
) -> CheaperChangeProblem:
    """All that a row may be changed to, with bounds of the models; raises ClaimUndecided where that cannot be had."""
    space, models = conditions.space, conditions.models
    predicates = restrictions.bind(space, row)
    alone, tied = sort_predicates(predicates, len(space.features))
    gaps = {j: find_gaps(feature) for j, feature in enumerate(space.features) if is_interval_feature(feature)}
    _require_plain_constraints(restrictions, space, row, gaps)
    atoms, code_costs, own_costs = list[FeatureAtoms](), list[Float64Array](), list[Float64Array]()
    moved = list[Float64Array]()
    must_change = np.zeros(len(space.features), dtype=np.bool_)
    in_groups = {j for predicate in tied for j in predicate.columns}
    for j, feature in enumerate(space.features):
        permitted = flag_permitted_codes(space, j, row, alone[j])
        must_change[j] = not permitted[row[j]]
        distances = prices.features[j].measure([feature.value(code) for code in range(feature.size)])
        costs = prices.build_parts(distances, np.arange(feature.size) != row[j])
        gap_costs = np.full(feature.size, np.inf)
        if j in gaps and restrictions.varying[j] and prices.features[j].step is None:
            turning = np.any([model.gaps.get(j, np.zeros_like(gaps[j])) for model in models], axis=0)
            inside = _flag_permitted_gaps(restrictions, space, j, row, alone[j])
            chosen = gaps[j] & inside & (turning | ~_flag_permitted_beside(permitted, int(row[j]), feature))
            ends = np.stack([distances[: len(feature.values) - 1], distances[1 : len(feature.values)]])
            least = np.where(np.isfinite(ends).all(axis=0), ends.min(axis=0), np.inf)
            gap_costs[: len(least)] = np.where(chosen, prices.build_parts(least, True), np.inf)
        costs = np.where(permitted & restrictions.varying[j], costs, np.inf)
        costs[row[j]] = 0.0
        atoms.append(
            FeatureAtoms.build(
                int(row[j]),
                costs,
                combine_cells([model.bounds.cells[j] for model in models]),
                gap_costs,
                ordered_codes=len(feature.values),
                keeps_codes_apart=j in in_groups,
            )
        )
        own_costs.append(costs)
        beside = np.minimum(gap_costs, np.concatenate([[np.inf], gap_costs[:-1]]))
        code_costs.append(np.minimum(costs, beside))
        moved.append(distances[: len(feature.values)])
    even = {
        j
        for j, one in enumerate(prices.features)
        if one.places is None and one.feature.numeric and one.feature.naturally_ordered
    }
    return CheaperChangeProblem(
        atoms=tuple(atoms),
        bounds=tuple(
            build_bounds(
                model,
                row,
                code_costs,
                own_costs,
                moves=(
                    tuple(atoms),
                    tuple(moved),
                    *prices.describe_parts(),
                    {j: model.straight[j] for j in even & set(model.straight)},
                ),
            )
            for model in models
        ),
        decide=conditions.desired,
        admits=lambda points: admits(predicates, points),
        flag_feasible=_build_feasibility_test(space, tied),
        must_change=must_change,
        adds_up=prices.adds_up,
        cuts_ranges=prices.claim.norm != "fewest" and not all(isinstance(one.bounds, SumBounds) for one in models),
    )


def build_bounds(
    model: ModelWithBounds,
    row: Int32Array,
    code_costs: Sequence[Float64Array],
    costs: Sequence[Float64Array],
    moves: Any = None,
) -> ChangeBounds:
    """The bounds of a model, as changes of a row see it; ``moves`` has what networks need to know of costs besides
    (:class:`~ironrule.checker.bounds.column_moves.MoveCosts`).
    """
    if isinstance(model.bounds, SumBounds):
        return SumChangeBounds.build(model.bounds, row, code_costs, costs)
    from ironrule.checker.bounds.column_moves import MoveCosts
    from ironrule.checker.bounds.network_bounds import NetworkBounds
    from ironrule.checker.bounds.network_change_bounds import NetworkChangeBounds

    assert isinstance(model.bounds, NetworkBounds)
    costs_of_moves = None if moves is None else MoveCosts(*moves)
    return NetworkChangeBounds.build(model.bounds, row, code_costs, costs, costs_of_moves)


def admits(predicates: Sequence[PointPredicate], points: Int32Array) -> BoolArray:
    """Which points satisfy all constraints."""
    mask = np.ones(len(points), dtype=np.bool_)
    for predicate in predicates:
        mask &= predicate(points)
    return mask


def sort_predicates(
    predicates: Sequence[PointPredicate], count: int
) -> tuple[list[list[PointPredicate]], list[PointPredicate]]:
    """The constraints on each feature alone (those on none are with the first feature), and those on several."""
    alone: list[list[PointPredicate]] = [[] for _ in range(count)]
    tied = []
    for predicate in predicates:
        if len(predicate.columns) > 1:
            tied.append(predicate)
        else:
            alone[predicate.columns[0] if predicate.columns else 0].append(predicate)
    return alone, tied


def flag_permitted_codes(
    space: CheckerSpace, j: int, row: Int32Array, predicates: Sequence[PointPredicate]
) -> BoolArray:
    """Which codes of a feature some constraints permit, with all others as in a row."""
    points = np.repeat(row[None, :], space.features[j].size, axis=0)
    points[:, j] = np.arange(len(points))
    return admits(predicates, points)


def _flag_permitted_beside(permitted: BoolArray, own: int, feature: CheckerFeature) -> BoolArray:
    """For every two neighbouring values whether the one nearer to the row's own is permitted; of a row in which it is
    missing both are as near.
    """
    before, after = permitted[: len(feature.values) - 1], permitted[1 : len(feature.values)]
    if own == feature.missing_code:
        return np.asarray(before | after)
    return np.where(np.arange(len(before)) >= own, before, after)


def _flag_permitted_gaps(
    restrictions: Restrictions, space: CheckerSpace, j: int, row: Int32Array, predicates: Sequence[PointPredicate]
) -> BoolArray:
    """Behind which values numbers are permitted: of every gap one number is tried, since no constraint turns in it."""
    feature = space.features[j]
    if not predicates:
        return np.ones(max(len(feature.values) - 1, 0), dtype=np.bool_)
    inside = [before + 1 if feature.whole else float(np.nextafter(before, math.inf)) for before in feature.values[:-1]]
    probe = replace(feature, values=tuple(sorted({*feature.values, *inside})), interval=True)
    features = [probe if place == j else other for place, other in enumerate(space.features)]
    larger, moved = replace(space, features=tuple(features), constraints=()), row.copy()
    places = {value: code for code, value in enumerate(probe.values)}
    moved[j] = probe.missing_code if row[j] == feature.missing_code else places[feature.value(int(row[j]))]
    concerned = [one for one in restrictions.constraints if one.features <= {feature.name}]
    allowed = flag_permitted_codes(larger, j, moved, [one.bind(larger, moved) for one in concerned])
    return np.asarray(allowed[[places[number] for number in inside]])


def _require_plain_constraints(
    restrictions: Restrictions, space: CheckerSpace, row: Int32Array, gaps: Mapping[int, BoolArray]
) -> None:
    """Raise ClaimUndecided unless features with gaps are compared with constants alone, none of which lies in a gap,
    nor at its ends where the constraint speaks of several features.
    """
    for constraint in restrictions.constraints:
        for left, right in _list_comparisons(constraint.formula):
            named = {space.index(one.value) for side in (left, right) for one in _walk(side) if one.kind == "feature"}
            opened = [j for j in named if j in gaps and gaps[j].any()]
            if not opened:
                continue
            other = left if right.kind == "feature" else right
            if "feature" not in (left.kind, right.kind) or _reads_point(other):
                raise ClaimUndecided("a constraint ties a number to others, and may turn between two values of it")
            constant = _find_constant(other, space, row)
            values, several = np.array(space.features[opened[0]].values, dtype=np.float64), len(constraint.features) > 1
            if constant is None:
                continue
            inside = gaps[opened[0]] & (values[:-1] < constant) & (constant < values[1:])
            beside = gaps[opened[0]] & ((values[:-1] == constant) | (constant == values[1:]))
            if inside.any() or (several and beside.any()):
                raise ClaimUndecided("a constraint turns between two values of a domain")


def _build_feasibility_test(space: CheckerSpace, tied: Sequence[PointPredicate]) -> PieceTest | None:
    """Which pieces may hold a point that satisfies the constraints on several features."""
    if not tied:
        return None
    try:
        feasible = build_feasible_set(space, tied)
    except ConstraintError:  # no point at all does

        def deny_all(pieces: Pieces) -> BoolArray:
            return np.zeros(len(pieces), dtype=np.bool_)

        return deny_all
    return feasible.flag_feasible

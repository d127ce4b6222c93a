"""From a row to the problem that a search solves, and from found points back to the model.

``decide_row`` turns a row into codes and asks for its outcome; ``build_case`` adds what may occur and what may change;
``build_problem`` adds the components that rules may use, their weights, the budget and the oracle. An exact oracle
works on a model that was read, and must have been read right: ``ConfirmationQueue`` asks the model itself about every
counterfactual that was found. Asking a pipeline about one point costs nearly as much as asking about many, so the rows
that a worker explains one after the other are confirmed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import ConstraintError, InputError, ModelError, OutcomeError
from ironrule.explain.context import ExplainerContext
from ironrule.explain.options import SearchOptions, make_generator, parse_row, parse_weights
from ironrule.explain.row_store import InMemoryRows
from ironrule.rule.instance_components import InstanceComponents, build_instance_components
from ironrule.space.constraints.binding import Predicate, bind_constraint
from ironrule.space.constraints.feasible import FeasibleRegion, build_feasible_region
from ironrule.space.constraints.syntax import Constraint
from ironrule.verdict.budget import Meter

if TYPE_CHECKING:
    from ironrule.oracles.protocol import Case, Oracle
    from ironrule.search.problem import Problem


@dataclass(slots=True, eq=False)
class ConfirmationQueue:
    """Counterfactuals that the model has not been asked about yet."""

    pending: list[tuple[ExplainerContext, Points]] = field(default_factory=list)

    def add(self, context: ExplainerContext, points: Points | None) -> None:
        """What was found for a row, if by reading; of a single tree every leaf was confirmed beforehand."""
        if context.oracle is not None and context.oracle.capabilities.point_model is None and points is not None:
            self.pending.append((context, points))

    def confirm(self) -> None:
        """Ask the model; raises ModelError if it denies one, also by itself: sums of several rows at once may be
        rounded otherwise, which matters where a score lies on the threshold.
        """
        found, self.pending = self.pending, []
        for context in {id(context.point_model): context for context, _ in found}.values():
            points = np.concatenate([points for other, points in found if other.point_model is context.point_model])
            denied = points[~context.point_model.desired(points)]
            if not all(context.model.desired(point[None, :])[0] for point in denied):
                raise ModelError(
                    "the model's decisions differ from its reading",
                    hint="please report this model",
                    code="reading-mismatch",
                )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRow:
    """A row as codes that is known to have the undesired outcome and to satisfy the constraints.

    With ``confirmations``, what is found is added there, so that several such rows can be confirmed at once.
    """

    codes: Points
    confirmations: ConfirmationQueue | None = None


def build_case(
    context: ExplainerContext, row: Any, change_constraints: Sequence[Constraint] = (), own_model_only: bool = False
) -> Case:
    """The row with all that an oracle needs; raises OutcomeError if it has the desired outcome.

    ``own_model_only``: the model as it is counts, without the margin and the other models that rules must withstand.
    """
    from ironrule.oracles.protocol import Case

    instance, desired = decide_row(context, row)
    if desired:
        raise OutcomeError(
            expected="the row must have the undesired outcome",
            got="the desired outcome",
            hint="choose a row that the model denies, or name another desired class",
            code="row-not-denied",
        )
    if context.is_robust and not own_model_only and context.model.desired(instance[None, :])[0]:
        raise OutcomeError(
            "no robust rule exists for this row: its score lies within the margin, or another of the models gives it "
            "the desired outcome",
            hint="lower the margin, or leave that model out",
            code="row-not-robustly-denied",
        )
    allowed, features = context.space.feasible, context.space.features
    if change_constraints:
        predicates = [
            *allowed.predicates,
            *(bind_constraint(constraint, features) for constraint in change_constraints),
        ]
        allowed = _build_feasible(context, predicates, instance)
    components = build_instance_components(context.space, instance, context.component_cache)
    model = context.model.primary if own_model_only else context.model
    return Case(
        context.space, model, context.history, components=components, feasible=allowed, fingerprint=context.fingerprint
    )


def _build_feasible(context: ExplainerContext, predicates: Sequence[Predicate], instance: Points) -> FeasibleRegion:
    """What may occur and be changed to; raises ConstraintError if nothing may."""
    try:
        return build_feasible_region(context.space.features, predicates, instance)
    except ConstraintError:
        if context.gaps is None or context.gaps.are_respected_by(predicates, instance):
            raise
        raise ConstraintError(
            "no values of the domains satisfy the constraints, and numbers between them are not tried",
            hint="use bounds that are values of the domains, or declare a space that has them",
            code="unsatisfiable-constraints",
        ) from None


def decide_row(context: ExplainerContext, row: Any) -> tuple[Points, bool]:
    """A row as codes, and whether its outcome is the desired one; of a past row both are known."""
    if isinstance(row, EncodedRow):
        return row.codes, False
    by_number = isinstance(row, (int, np.integer)) and not isinstance(row, bool)
    if by_number and (context.row_numbers is None or not isinstance(context.row_store, InMemoryRows)):
        place = int(context.find_positions(np.array([row], dtype=np.int64))[0])
        return context.history.codes.row(place), bool(context.outcomes[place])
    given = parse_row(row, context.table, context.model.primary.layout.names)
    instance = context.space.encode_row(given, ignore=context.table.names)
    for predicate in context.space.feasible.predicates:
        if not predicate(instance[None, :], None)[0]:
            raise ConstraintError(
                f"the row does not satisfy {str(predicate.constraint)!r}", code="row-violates-constraint"
            )
    decides = context.model.primary if context.is_robust else context.point_model
    return instance, bool(decides.desired(instance[None, :])[0])


MAX_POINT_ROWS = 5_000  # desired past rows, which are at hand as points then


def build_problem(context: ExplainerContext, case: Case, options: SearchOptions, meter: Meter) -> Problem:
    """The problem that searches solve; raises InputError if what is required cannot be had."""
    from ironrule.oracles.caching import CachingOracle
    from ironrule.oracles.protocol import Run
    from ironrule.rule.duals import DistinctDuals, HistoryDuals, count_distinct_duals, count_distinct_point_duals
    from ironrule.search.problem import Problem

    components = case.components
    allowed, required = select_components(components, options.require, options.forbid)

    def count() -> DistinctDuals:
        with meter.time_block("history"):
            if len(case.history.desired) <= MAX_POINT_ROWS:
                return count_distinct_point_duals(case.history.seeds, components.low, components.high)
            return count_distinct_duals(case.history.desired.columns, components.low, components.high)

    each, unit = parse_weights(options.weights, components)
    if context.oracle is None:
        oracle = CachingOracle(choose_black_box_oracle(context))
    else:
        oracle = CachingOracle(context.oracle, exact=True)
    return Problem(
        case=case,
        oracle=oracle,
        history=HistoryDuals(count),
        allowed=allowed,
        required=required,
        weights=each,
        k=options.k,
        run=Run(meter, make_generator(options.seed)),
        unit=unit,
    )


def choose_black_box_oracle(context: ExplainerContext) -> Oracle:
    """The oracle for a model that can only be asked: the user's choice, or the default."""
    from ironrule.oracles.combine import SearchThenProve

    return SearchThenProve() if context.black_box_oracle is None else context.black_box_oracle


def select_components(
    components: InstanceComponents, require: Sequence[str], forbid: Sequence[str]
) -> tuple[int, tuple[int, ...]]:
    """The components that a rule may use, and sets of which it must use one each; raises InputError if one is empty."""
    allowed = components.usable & ~components.select(forbid)
    required = tuple(components.select([name]) & allowed for name in require)
    for name, some in zip(require, required, strict=True):
        if not some:
            raise InputError(
                f"{name!r} cannot be required for this row: it excludes nothing or is forbidden",
                code="unusable-requirement",
            )
    return allowed, required

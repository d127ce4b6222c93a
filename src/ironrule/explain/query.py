"""From a row to the problem that a search solves, and from found points back to the model.

``build_case`` adds to a row what may occur and what may change; ``build_problem`` adds the components that rules may
use, their weights, the budget and the oracle. An exact oracle works on a model that was read, and must have been read
right: ``ConfirmationQueue`` asks the model itself about every counterfactual that was found. Asking a pipeline about
one point costs nearly as much as asking about many, so the rows that a worker explains one after the other are
confirmed together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import ConstraintError, InputError, OutcomeError
from ironrule.explain.context import ExplainerContext, decide_row
from ironrule.explain.options import SearchOptions, make_generator, parse_weights
from ironrule.explain.prepare.derive import extend_context
from ironrule.model.protocol import require_desired
from ironrule.model.reduced_model import EmbeddedScores, embed_model
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.heuristics.prepared import PreparedValues
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.results.explanation import Statistics
from ironrule.rule.duals import DistinctDuals, HistoryDuals, count_distinct_duals, count_distinct_point_duals
from ironrule.rule.instance_components import InstanceComponents, build_instance_components, split_component_text
from ironrule.search.problem import Problem
from ironrule.space.constraints.binding import Predicate, bind_constraint
from ironrule.space.constraints.feasible import FeasibleRegion, build_feasible_region
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.space import Space
from ironrule.verdict.budget import BudgetExhausted, Meter, StopReason, name_stop
from ironrule.verdict.verdict import Refuted, Verdict


def build_statistics(
    meter: Meter, algorithm: str, seed: int, stopped: str | None, left_open: bool = False
) -> Statistics:
    """What a search did, by its meter; ``left_open``: some question was too hard for the usual limit of work."""
    seconds = meter.budget.seconds
    return Statistics(
        algorithm=algorithm,
        seed=seed,
        seconds=meter.elapsed,
        generations=meter.events["generations"],
        candidates=meter.events["candidates"],
        oracle_calls=meter.events["oracle calls"],
        model_calls=meter.calls,
        evaluations=meter.evaluations,
        operator_seconds=dict(meter.seconds),
        stopped=stopped,
        stopped_by=_find_stop_reason(meter, stopped, left_open),
        budget_seconds=None if seconds is None or math.isinf(seconds) else float(seconds),
        budget_evaluations=meter.budget.evaluations,
        compile_seconds=meter.compile_seconds,
    )


def _find_stop_reason(meter: Meter, stopped: str | None, left_open: bool) -> StopReason:
    """What ended the work, with all that came after the search for the rule."""
    if stopped == "interrupted" or meter.ended_by != "finished":
        return "interrupted" if stopped == "interrupted" else meter.ended_by
    if stopped is not None:  # by an oracle of the user's own, which says no more than that
        return "evaluations" if meter.budget.seconds is None else "seconds"
    return "work" if left_open else "finished"


@dataclass(slots=True, eq=False)
class ConfirmationQueue:
    """Counterfactuals that the model has not been asked about yet."""

    pending: list[tuple[ExplainerContext, Points]] = field(default_factory=list)

    def add(self, context: ExplainerContext, case: Case, points: Points | None) -> None:
        """What was found for a row, if by reading; of a single tree every leaf was confirmed beforehand."""
        if context.oracle is not None and context.oracle.capabilities.point_model is None and points is not None:
            self.pending.append((context, case.embed(points)))

    def confirm(self) -> None:
        """Ask the model about all of them; raises ModelError if it denies one."""
        pending, self.pending = self.pending, []
        # Each model is asked once, about the points of all rows that it was read for.
        for context in {id(context.point_model): context for context, _ in pending}.values():
            points = np.concatenate([points for other, points in pending if other.point_model is context.point_model])
            require_desired(points, context.point_model, context.model, context.model)


def confirm_points(context: ExplainerContext, problem: Problem) -> None:
    """Ask the model itself about every counterfactual that a search has found."""
    confirmations = ConfirmationQueue()
    confirmations.add(context, problem.case, problem.oracle.points)
    confirmations.confirm()


def _advise_denied_row(context: ExplainerContext) -> str:
    """What to do about a row that the model approves."""
    denied, example = np.flatnonzero(~context.outcomes)[:1], ""
    if len(context.outcomes) and not len(denied):
        return "the model denies no past row; check which outcome is desired, and the threshold"
    if len(denied):
        example = f", such as row {context.get_row_numbers(denied)[0]}"
    return f"choose a row that the model denies{example}, or name another desired class"


def build_case(
    context: ExplainerContext, row: Any, change_constraints: Sequence[Constraint] = (), own_model_only: bool = False
) -> Case:
    """The row with all that an oracle needs; raises OutcomeError if it has the desired outcome.

    ``own_model_only``: the model as it is counts, without the margin and the other models that rules must withstand.
    """
    instance, desired = decide_row(context, row)
    if desired:
        expected, hint = "the row must have the undesired outcome", _advise_denied_row(context)
        raise OutcomeError(expected=expected, got="the desired outcome", hint=hint, code="row-not-denied")
    if context.is_robust and not own_model_only and context.model.desired(instance[None, :])[0]:
        raise OutcomeError(
            "no robust rule exists for this row: its score lies within the margin, or another of the models gives it "
            "the desired outcome",
            hint="lower the margin, or leave that model out",
            code="row-not-robustly-denied",
        )
    reduced, space, row_codes = context.reduced, context.reduced.space, context.reduced.reduce(instance)
    allowed = space.feasible
    if change_constraints:
        bound = bind_constraints(space, change_constraints)
        allowed = _build_feasible(context, [*allowed.predicates, *bound], row_codes)
    components = build_instance_components(space, row_codes, context.component_cache)
    model = context.model.primary if own_model_only else context.model
    read = context.compiled_model if own_model_only or not context.is_robust else None
    return Case(
        space,
        embed_model(model, reduced, instance),
        context.search_history,
        components=components,
        feasible=allowed,
        fingerprint=context.fingerprint,
        reduced=reduced,
        user_row=instance,
        scoring_model=model if reduced.is_whole else EmbeddedScores(model, reduced, instance),
        tabulated_model=None if read is None else read.tabulated,
    )


def _build_feasible(context: ExplainerContext, predicates: Sequence[Predicate], instance: Points) -> FeasibleRegion:
    """What may occur and be changed to; raises ConstraintError if nothing may."""
    try:
        return build_feasible_region(context.reduced.space.features, predicates, instance)
    except ConstraintError:
        if context.gaps is None or context.gaps.are_respected_by(predicates, instance):
            raise
        statement = "no values of the domains satisfy the constraints, and numbers between them are not tried"
        hint = "use bounds that are values of the domains, or declare a space that has them"
        raise ConstraintError(statement, hint=hint, code="unsatisfiable-constraints") from None


def extend_to_named(
    context: ExplainerContext,
    options: SearchOptions,
    constraints: Sequence[Constraint] = (),
    names: Collection[str] = (),
) -> ExplainerContext:
    """The context with all features that options, constraints on changes or ``names`` speak of, used or not."""
    weighed = options.weights if isinstance(options.weights, Mapping) else ()
    if not (options.require or options.forbid or weighed or constraints or names):
        return context
    named = {split_component_text(context.space, text)[0] for text in (*options.require, *options.forbid, *weighed)}
    bound = bind_constraints(context.space, constraints)
    return extend_context(context, named.union(names, (context.space.names[j] for one in bound for j in one.columns)))


_BOUND: PreparedValues[tuple[Predicate, ...]] = PreparedValues()


def bind_constraints(space: Space, constraints: Sequence[Constraint]) -> tuple[Predicate, ...]:
    """Constraints tied to the features of a space. Those on changes are the same from row to row."""
    listed = tuple(constraints)
    return _BOUND.get((space,), lambda: tuple(bind_constraint(one, space.features) for one in listed), options=listed)


MAX_POINT_ROWS = 5_000  # desired past rows, which are at hand as points then


def build_problem(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    change_constraints: Sequence[Constraint] = (),
    own_model_only: bool = False,
) -> Problem:
    """The problem that searches solve for a row; its time starts now. Raises InputError for an unusable requirement."""
    meter = options.start_meter()
    case = build_case(context, row, change_constraints, own_model_only)
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
    return SearchThenProve() if context.black_box_oracle is None else context.black_box_oracle


def ask_oracle(oracle: Oracle, query: BoxQuery, run: Run) -> tuple[Verdict | None, str | None]:
    """An oracle's answer, or None, and what stopped it."""
    try:
        verdict = oracle.find(query, run)
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        return None, name_stop(stop, run.meter)
    return verdict, verdict.stopped if isinstance(verdict, Refuted) else None


def select_components(
    components: InstanceComponents, require: Sequence[str], forbid: Sequence[str]
) -> tuple[int, tuple[int, ...]]:
    """The components that a rule may use, and sets of which it must use one each; raises InputError if one is empty."""
    allowed = components.usable & ~components.select(forbid)
    required = tuple(components.select([name]) & allowed for name in require)
    for name, permitted in zip(require, required, strict=True):
        if not permitted:
            statement = f"{name!r} cannot be required for this row: it excludes nothing or is forbidden"
            raise InputError(statement, code="unusable-requirement")
    return allowed, required

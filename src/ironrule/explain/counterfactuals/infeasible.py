"""Why there is no counterfactual: a minimal set of restrictions that forbids every one.

Restrictions are the declared roles of features, the constraints on changes, the permitted ranges, prices of infinity,
the steps of a cost, and the features that are not among those that may vary. Whether some of them leave a
counterfactual is one question to the exact oracle, which is told of constraints when it is compiled and of features
that stay as a box. The set is found by deletion: each restriction in turn is left out; where there is no counterfactual
without it, it stays out, else it is needed, and the counterfactual shows it. So at most one question is asked for each,
and a short search for the nearest counterfactual without each that is needed. (Minimal unsatisfiable subsets by
deletion: Bakker, Dikker, Tempelman and Wognum, "Diagnosing and solving over-determined constraint satisfaction
problems", IJCAI 1993.)

Where several sums must allow a change over whole intervals, their own search answers in place of the oracle
(:mod:`.joint`). Where an oracle leaves open what lies between two values, the search for the nearest is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import ConstraintError
from ironrule.explain.context import ExplainerContext, decide_row
from ironrule.explain.counterfactuals.changed_rows import require_rows_desired
from ironrule.explain.counterfactuals.costs.row_cost import (
    build_row_cost,
    list_price_constraints,
    list_step_constraints,
)
from ironrule.explain.counterfactuals.find import find_counterfactuals
from ironrule.explain.counterfactuals.joint import (
    JointChange,
    iterate_joint_changes,
    start_joint_search,
    widen_to_intervals,
)
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.permitted import build_change_box, format_range
from ironrule.explain.counterfactuals.question import extend_to_options, reach
from ironrule.explain.counterfactuals.targets import build_apart_context, build_search_scope
from ironrule.explain.enumerate import build_change_oracle
from ironrule.explain.extend import extend_to_row
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import build_case, build_statistics, extend_to_named
from ironrule.explain.roles import list_role_constraints
from ironrule.model.protocol import require_desired
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.results.changes.infeasibility import Infeasibility, NeededRestriction, Restriction
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.rule.cost import Cost
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject
from ironrule.space.space import as_constraint
from ironrule.verdict.budget import Budget, BudgetExhausted, name_stop
from ironrule.verdict.verdict import Proven, Refuted

NEAREST_SECONDS = 2.0  # for the nearest counterfactual without one restriction


@dataclass(frozen=True, slots=True, eq=False)
class StatedRestriction:
    """A restriction, and what it says: constraints on changes, or a feature that keeps its value; of a step also which
    feature has it.
    """

    restriction: Restriction
    constraints: tuple[Constraint, ...] = ()
    fixed: str | None = None
    stepped: str | None = None

    def describe(self) -> Restriction:
        """The restriction with its constraints as text."""
        return replace(self.restriction, constraints=tuple(map(str, self.constraints)))


def find_forbidding_restrictions(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    progress: bool | None = False,
) -> Infeasibility:
    """A minimal set of the restrictions on a row's changes that leaves no counterfactual, if there is none."""
    context, row = _reach_between_values(context, row, changes, progress)
    context = extend_to_options(context, row, options, changes)
    joint = widen_to_intervals(context) if context.narrowed else None
    case = build_case(joint or context, row, own_model_only=True)
    stated = list(_list_restrictions(context, changes, list_step_constraints(joint or context, case, changes.cost)))
    every = [constraint for one in stated for constraint in one.constraints]
    context = extend_to_named(context, options, every, changes.names or ())
    kept = {*context.reduced.space.names}  # a feature that neither the model nor a constraint speaks of forbids nothing
    stated = [one for one in stated if one.fixed is None or one.fixed in kept]
    meter = options.start_meter()
    search = _ForbiddingSearch(context, row, Run(meter, np.random.default_rng(options.seed)), changes.cost)
    with meter.watch(progress):
        found = search.run_within_budget(stated)
        named = search.name_nearest(found.needed)
    return Infeasibility(
        instance=context.space.decode_row(case.user_instance),
        needed=named,
        proven=found.proven,
        minimal=found.minimal,
        counterfactual=found.counterfactual,
        statistics=build_statistics(meter, "Deletion", options.seed, found.stopped),
        cost=changes.cost,
        target=changes.target,
        margin=changes.margin,
        further_models=len(changes.models),
        scope=build_search_scope(search.wide or context, changes.names, every),
    )


def _reach_between_values(
    context: ExplainerContext, row: Any, changes: ChangeOptions, progress: bool | None
) -> tuple[ExplainerContext, Any]:
    """The context of what is to be reached, in which no feature is held to the values seen, if there is one."""
    context, row = reach(context, row, changes, progress)
    if not context.narrowed or widen_to_intervals(context) is not None:
        return context, row
    apart = build_apart_context(context, progress)
    return (context, row) if apart is None else extend_to_row(apart, row)


def _list_restrictions(
    context: ExplainerContext, changes: ChangeOptions, steps: Mapping[str, Constraint]
) -> Iterator[StatedRestriction]:
    """What limits changes, the user's own constraints and choices first, roles last."""
    by_role = {feature.name: tuple(list_role_constraints(feature)) for feature in context.space.features}
    own = {id(one) for one in context.change_constraints}
    of_roles = {str(one) for constraints in by_role.values() for one in constraints}
    if changes.names is not None:
        for name in context.space.names:
            if name not in changes.names:
                yield StatedRestriction(Restriction("fixed", "may not vary", name), fixed=name)
    for name, values in (changes.permitted_range or {}).items():
        constraint = parse_constraint(format_range(context.space[name], values))
        text = f"from {values[0]} to {values[-1]}" if context.space[name].ordered else f"one of {list(values)}"
        yield StatedRestriction(Restriction("range", text, name), (constraint,))
    for name, price in changes.cost.prices.items():
        if constraints := tuple(list_price_constraints(Cost(prices={name: price}))):
            yield StatedRestriction(Restriction("price", "a price of infinity", name), constraints)
    for name, constraint in steps.items():
        text = f"whole steps of {changes.cost.steps[name]:g}"
        yield StatedRestriction(Restriction("range", text, name), (constraint,), stepped=name)
    stated = [*map(as_constraint, changes.constraints), *context.change_constraints]
    for constraint in stated:
        if id(constraint) in own and str(constraint) in of_roles:
            continue
        yield StatedRestriction(Restriction("constraint", str(constraint)), (constraint,))
    for name, constraints in by_role.items():
        role = context.space[name].role
        if constraints and role is not None:
            limits = "; ".join(map(str, constraints))
            word = role.kind if role.kind != "actionable" else f"role: {limits}"
            yield StatedRestriction(Restriction("role", word, name), constraints)


def _keep_value(name: str) -> Constraint:
    """That a feature keeps its value."""
    own, other = (Reference(subject, name) for subject in (Subject.POINT, Subject.INSTANCE))
    return parse_constraint(f"{own} == {other}")


@dataclass(frozen=True, slots=True, eq=False)
class ForbiddingSet:
    """What deletion ended with."""

    needed: tuple[StatedRestriction, ...]
    proven: bool
    minimal: bool
    counterfactual: Counterfactual | None = None
    stopped: str | None = None


class _ForbiddingSearch:
    """The search; ``witnesses`` has, by restriction, a counterfactual that there is without it."""

    def __init__(self, context: ExplainerContext, row: Any, run: Run, cost: Cost) -> None:
        self.context, self.row, self.run, self.cost = context, row, run, cost
        self.wide = widen_to_intervals(context) if context.narrowed else None
        self.witnesses: dict[int, Counterfactual] = {}
        self._kept: list[StatedRestriction] = []
        self._proven = False

    def run_within_budget(self, stated: Sequence[StatedRestriction]) -> ForbiddingSet:
        """The set; as far as it has come where the budget ends first."""
        try:
            return self._delete(stated)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            stopped = name_stop(stop, self.run.meter)
        return ForbiddingSet(tuple(self._kept) if self._proven else (), self._proven, False, stopped=stopped)

    def _delete(self, stated: Sequence[StatedRestriction]) -> ForbiddingSet:
        found = self._ask(stated)
        if not isinstance(found, bool):
            return ForbiddingSet((), False, False, found)
        self._kept, self._proven, minimal = list(stated), True, True
        for one in stated:
            others = [other for other in self._kept if other is not one]
            found = self._ask(others)
            if found is True:
                self._kept = others
            elif isinstance(found, Counterfactual):
                self.witnesses[id(one)] = found
            else:
                minimal = False
        return ForbiddingSet(tuple(self._kept), True, minimal)

    def name_nearest(self, needed: Sequence[StatedRestriction]) -> tuple[NeededRestriction, ...]:
        """The restrictions, each with the nearest counterfactual without it, where a short search finds one."""
        named = []
        for one in needed:
            witness = self.witnesses.get(id(one))
            others = [other for other in needed if other is not one]
            found = None if witness is None else self._find_nearest(others, self.cost)
            if found is None or not found.items:
                named.append(NeededRestriction(one.describe(), witness))
            else:
                named.append(NeededRestriction(one.describe(), found.items[0], found.proven, found.resolution))
        return tuple(named)

    def _keep_steps(self, stated: Sequence[StatedRestriction]) -> Cost:
        """A cost that forbids what the steps among some restrictions forbid, and nothing else."""
        return Cost(steps={one.stepped: self.cost.steps[one.stepped] for one in stated if one.stepped is not None})

    def _find_nearest(self, stated: Sequence[StatedRestriction], cost: Cost) -> Counterfactuals | None:
        """The nearest counterfactual by a cost under these restrictions; None where nothing is left of the budget. The
        steps of the cost count, whether they are among these or not, and so do its prices of infinity.
        """
        budget, meter = self.run.meter.budget, self.run.meter
        seconds = NEAREST_SECONDS if budget.seconds is None else min(NEAREST_SECONDS, budget.seconds - meter.elapsed)
        if seconds <= 0.0 or meter.ended_by != "finished" or meter.evaluations_left == 0:
            return None
        evaluations = None if budget.evaluations is None else meter.evaluations_left
        fixed = [_keep_value(one.fixed) for one in stated if one.fixed is not None]
        limits = [constraint for one in stated if one.stepped is None for constraint in one.constraints]
        found = find_counterfactuals(
            replace(self.context, change_constraints=()),
            self.row,
            SearchOptions(k=1, budget=Budget(evaluations=evaluations, seconds=seconds)),
            ChangeOptions(constraints=[*limits, *fixed], cost=cost),
        )
        meter.calls += found.statistics.model_calls
        meter.evaluations += found.statistics.evaluations
        return found

    def _ask(self, stated: Sequence[StatedRestriction]) -> Counterfactual | Literal[True] | None:
        """A counterfactual under these restrictions, True if it is proven that there is none, None if that is open."""
        self.run.meter.check()
        joint = None if self.wide is None else self._ask_sums(self.wide, stated)
        if joint is not None:
            return joint.item or (joint.apart == 0.0 or None)
        constraints = [constraint for one in stated for constraint in one.constraints]
        fixed = {one.fixed for one in stated if one.fixed is not None}
        context, gaps = self.context, self.context.gaps
        try:
            case = build_case(context, self.row, constraints, own_model_only=True)
        except ConstraintError as error:  # nothing at all may occur, at least among the values of the domains
            if error.code != "unsatisfiable-constraints":
                raise
            return True if self._can_trust(constraints) else None
        free = [name for name in case.space.names if name not in fixed]
        query = BoxQuery(case, build_change_box(case.components, free))
        verdict = build_change_oracle(context, case).find(query, self.run)
        if isinstance(verdict, Proven):
            respected = gaps is None or gaps.are_respected_by(case.feasible.predicates, case.instance)
            return True if respected and not context.narrowed else None
        if isinstance(verdict, Refuted):
            point = verdict.points[0]
            self._confirm(case.embed(point[None, :]))
            return case.build_counterfactual(point)
        if not context.narrowed and gaps is not None:  # one may lie between two values, where the nearest are searched
            found = self._find_nearest(stated, self._keep_steps(stated))
            if found is not None:
                return found.items[0] if found.items else found.proven or None
        return None

    def _ask_sums(self, wide: ExplainerContext, stated: Sequence[StatedRestriction]) -> JointChange | None:
        """What sums over whole intervals allow under these restrictions; None where they cannot be searched."""
        constraints = [constraint for one in stated if one.stepped is None for constraint in one.constraints]
        fixed = {one.fixed for one in stated if one.fixed is not None}
        try:
            case = build_case(wide, self.row, constraints, own_model_only=True)
        except ConstraintError as error:  # the values seen do not show whether numbers between them may occur
            if error.code != "unsatisfiable-constraints":
                raise
            return None
        box = build_change_box(case.components, [name for name in case.space.names if name not in fixed])
        row_cost = build_row_cost(wide, case, self._keep_steps(stated))
        search = start_joint_search(wide, BoxQuery(case, box), row_cost, self.run)
        if search is None:
            return None
        found = next(iterate_joint_changes(search))
        require_rows_desired(wide, [] if found.item is None else [found.item.values])
        return found

    def _can_trust(self, constraints: Sequence[Constraint]) -> bool:
        """Whether constraints that no value of the domains satisfies exclude the numbers between these too."""
        if self.context.narrowed:  # values seen alone are searched
            return False
        space, gaps = self.context.reduced.space, self.context.gaps
        instance = self.context.reduced.reduce(decide_row(self.context, self.row)[0])
        bound = [bind_constraint(constraint, space.features) for constraint in constraints]
        return gaps is None or gaps.are_respected_by([*space.feasible.predicates, *bound], instance)

    def _confirm(self, points: Points) -> None:
        model = self.context.model.primary
        require_desired(points, model, model, model)

"""What is asked about the changes of a row, and the context in which it is asked: :class:`ChangeQuestion`.

The same question may be asked in several contexts. A target may hold features to the values seen that are intervals
otherwise: a band of a linear model's scores may lie between two values. Then the question is asked anew where they are
intervals, of sums (:mod:`.joint`) or of every model, and each end of a band, by itself (:mod:`.targets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.errors import TableError
from ironrule.explain.context import EncodedRow, ExplainerContext, decide_row
from ironrule.explain.counterfactuals.bounds import extend_to_constants
from ironrule.explain.counterfactuals.costs.row_cost import (
    RowCost,
    build_row_cost,
    check_cost_names,
    list_price_constraints,
    list_step_constraints,
    list_stepped_numbers,
)
from ironrule.explain.counterfactuals.joint import JointChanges, start_joint_search, widen_to_intervals
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.permitted import build_change_box, list_changing_constraints, require_changeable
from ironrule.explain.counterfactuals.targets import build_apart_context, build_reached_context
from ironrule.explain.extend import extend_to_numbers, extend_to_row
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import build_case, extend_to_named
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.rule.cost import Cost
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value

NUMBERS_PER_GAP = 9


@dataclass(frozen=True, slots=True, eq=False)
class ChangeQuestion:
    """Which changes of a row reach what is wanted; ``limits`` are all constraints on them, ``row_cost`` is None for the
    usual cost.
    """

    context: ExplainerContext
    row: Any
    changes: ChangeOptions
    limits: tuple[Constraint, ...]
    query: BoxQuery
    row_cost: RowCost | None

    def move(self, context: ExplainerContext) -> ChangeQuestion:
        """The same question in another context."""
        query, row_cost = _build_query(context, self.row, self.changes, self.limits, self.query.k)
        return replace(self, context=context, query=query, row_cost=row_cost)

    def start_joint_search(self, run: Run, cost: Cost | None = None) -> tuple[ChangeQuestion, JointChanges] | None:
        """The search over whole intervals for what several sums must allow, at this cost or at the question's own; None
        where the model is no such sum, or constraints tie features together.
        """
        wide = widen_to_intervals(self.context)
        if wide is None:
            return None
        moved = self.move(wide)
        search = start_joint_search(wide, moved.query, moved.count_cost(cost), run)
        return None if search is None else (moved, search)

    @property
    def may_turn_between_values(self) -> bool:
        """Whether numbers between the values of the domains may count that no search names."""
        context, query = self.context, self.query
        gaps, case = context.gaps, query.case
        if gaps is None or context.oracle is None or context.is_robust:
            return False
        respected = gaps.are_respected_by(case.feasible.predicates, case.instance)
        return respected and gaps.may_turn_within(query.box.low, query.box.high)

    def divide_gaps(self, gaps: Mapping[int, set[int]], options: SearchOptions) -> ChangeQuestion | None:
        """The question where further numbers lie between some values and the next ones; None where there are none."""
        numbers: dict[str, list[Value]] = {}
        for j, codes in gaps.items():
            feature = self.query.case.space.features[j]
            pairs = [(feature.values[code], feature.values[code + 1]) for code in sorted(codes)]
            shares = np.arange(1, NUMBERS_PER_GAP + 1) / (NUMBERS_PER_GAP + 1)
            inner = {low + share * (high - low) for low, high in pairs for share in shares.tolist()}
            numbers[feature.name] = sorted({round(one) for one in inner} if feature.has_only_integers else inner)
        try:
            context = extend_to_numbers(self.context, numbers)
        except TableError as error:
            if error.code != "value-refused":
                raise
            return None  # a saved model may not know what it sees of them
        if context is self.context:
            return None
        row = self.context.space.decode_row(self.row.codes) if isinstance(self.row, EncodedRow) else self.row
        names = self.changes.names or ()
        return replace(self, row=row).move(extend_to_named(context, options, self.limits, names))

    def list_step_constraints(self) -> dict[str, Constraint]:
        """What the steps of the cost forbid, by feature."""
        return list_step_constraints(self.context, self.query.case, self.changes.cost)

    def count_cost(self, cost: Cost | None = None) -> RowCost:
        """What changes cost, as a sum over features also where the usual cost counts, or by another cost."""
        if cost is None and self.row_cost is not None:
            return self.row_cost
        return build_row_cost(self.context, self.query.case, self.changes.cost if cost is None else cost)


def build_question(
    context: ExplainerContext, row: Any, options: SearchOptions, changes: ChangeOptions, progress: bool | None = False
) -> ChangeQuestion:
    """The question in the context of what is to be reached; raises an error for what cannot be asked."""
    context, row = reach(context, row, changes, progress)
    limits = list_limits(context, changes)
    context = extend_to_options(context, row, options, changes)
    query, row_cost = _build_query(context, row, changes, limits, options.k)
    return ChangeQuestion(context, row, changes=changes, limits=limits, query=query, row_cost=row_cost)


def build_apart_question(
    question: ChangeQuestion, options: SearchOptions, progress: bool | None = False
) -> ChangeQuestion | None:
    """The question asked of every model, and each end of a band, by itself; None where that opens no interval."""
    apart = build_apart_context(question.context, progress)
    if apart is None:
        return None
    row = question.row
    if isinstance(row, EncodedRow):
        row = question.context.space.decode_row(row.codes)
    return build_question(apart, row, options, question.changes.without_goal(), progress)


def find_searched_context(
    question: ChangeQuestion, options: SearchOptions, progress: bool | None = False
) -> ExplainerContext:
    """The context in which the most can be proven of a question: of sums over whole intervals, of every model by
    itself, or its own.
    """
    if not question.context.narrowed:
        return question.context
    joint = question.start_joint_search(Run(options.start_meter(), np.random.default_rng(options.seed)))
    if joint is not None:
        return joint[0].context
    apart = build_apart_question(question, options, progress)
    return question.context if apart is None else apart.context


def reach(
    context: ExplainerContext, row: Any, changes: ChangeOptions, progress: bool | None = False
) -> tuple[ExplainerContext, Any]:
    """The context whose desired outcome is what is to be reached, robustly if that is asked for, and the row in it;
    raises an error for names that it does not have.
    """
    if isinstance(row, EncodedRow) and changes.may_extend_domains:
        row = context.space.decode_row(row.codes)
    context, row = extend_to_row(build_reached_context(context, changes, progress), row)
    require_changeable(context, changes.names or ())
    check_cost_names(context.space, changes.cost)
    return context, row


def list_limits(context: ExplainerContext, changes: ChangeOptions) -> tuple[Constraint, ...]:
    """All constraints on changes: the explainer's own, those that were given, and what prices forbid."""
    given, forbidden = list_changing_constraints(context, changes), list_price_constraints(changes.cost)
    return (*context.change_constraints, *given, *forbidden)


def extend_to_options(
    context: ExplainerContext, row: Any, options: SearchOptions, changes: ChangeOptions
) -> ExplainerContext:
    """The context that searches all features that are named, and whose intervals have the numbers that steps lead to,
    and those that constraints name, the least steps of roles among them.
    """
    names, limits = changes.names or (), list_limits(context, changes)
    context = extend_to_named(extend_to_steps(context, row, changes.cost), options, limits, names)
    return extend_to_named(extend_to_constants(context, row, limits), options, limits, names)


def extend_to_steps(context: ExplainerContext, row: Any, cost: Cost) -> ExplainerContext:
    """The context whose intervals have the numbers that steps lead to."""
    if not cost.steps:
        return context  # without asking the model about the row once more
    instance, numbers = decide_row(context, row)[0], dict[str, list[Value]]()
    for name, step in cost.steps.items():
        feature = context.space[name]
        own = feature.value(int(instance[context.space.index(name)]))
        if feature.interval and own is not None:
            numbers[name] = list_stepped_numbers(feature, own, step)
    return extend_to_numbers(context, numbers)


def _build_query(
    context: ExplainerContext, row: Any, changes: ChangeOptions, limits: Sequence[Constraint], k: int
) -> tuple[BoxQuery, RowCost | None]:
    """The question for a search, and what changes cost; None for the usual cost."""
    case = build_case(context, row, limits, own_model_only=True)
    row_cost = None if changes.cost.is_usual else build_row_cost(context, case, changes.cost)
    table = None if row_cost is None else row_cost.table
    return BoxQuery(case, build_change_box(case.components, changes.names), k, cost=table), row_cost

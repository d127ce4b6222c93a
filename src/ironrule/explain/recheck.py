"""Saved explanations, checked against a new model.

Each rule is asked about as it stands, against the explainer's model and space. Where the model can be read, the answer
is a proof or a counterfactual: a point that satisfies the rule and has the desired outcome now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ironrule.errors import InputError, describe_value
from ironrule.explain.context import EncodedRow, ExplainerContext, decide_row
from ironrule.explain.extend import extend_to_bounds, extend_to_row
from ironrule.explain.judge import list_conditions, list_rule_features, parse_rule
from ironrule.explain.options import SearchOptions, require_explanation
from ironrule.explain.prepare.derive import extend_context
from ironrule.explain.query import build_problem, confirm_points
from ironrule.progress import track
from ironrule.results.batch import Batch
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import Recheck, RecheckedExplanation, RecheckStatus
from ironrule.rule.box import Box
from ironrule.rule.condition import build_box
from ironrule.search.driver import check_box
from ironrule.search.problem import Problem
from ironrule.space.table import is_listing
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Verdict


def recheck_explanations(
    context: ExplainerContext, saved: Any, options: SearchOptions, progress: bool | None
) -> Recheck:
    """Which stored explanations hold for the explainer's model, and what breaks the others."""
    if not isinstance(saved, (Explanation, Mapping)) and not is_listing(saved):
        expected = "explanations must be a batch, a list or a mapping of explanations"
        raise InputError(expected=expected, got=f"{type(saved).__name__}: {describe_value(saved)}")
    total = len(saved) if hasattr(saved, "__len__") else 1
    named = track(_name_explanations(saved), "Rechecking", total, progress)
    return Recheck(tuple(_recheck_explanation(context, name, explanation, options) for name, explanation in named))


def _recheck_explanation(
    context: ExplainerContext, name: Any, explanation: Explanation, options: SearchOptions
) -> RecheckedExplanation:
    """What the oracle says of a stored rule, confirmed by the model."""
    require_explanation(explanation)
    try:
        context = extend_to_bounds(context, list_conditions(context.space, explanation.rule))
        context, row = extend_to_row(context, dict(explanation.instance))
        instance, desired = decide_row(context, row)
    except InputError as error:
        raise InputError(
            f"the stored explanation {name!r} does not fit the data: {error.statement}",
            hint="use the data, the space and the constraints that it was made with, or a space that has its values",
        ) from None
    status: RecheckStatus = "overturned"
    verdict: Verdict | None = None
    # A row that gets the desired outcome by now needs no rule.
    if not desired:
        names = list_rule_features(context.space, explanation.rule)
        problem = build_problem(extend_context(context, names), EncodedRow(instance), options)
        verdict = problem.case.embed_verdict(_check_rule(problem, explanation))
        status = "holds" if isinstance(verdict, Proven) else "breaks" if isinstance(verdict, Refuted) else "undecided"
        confirm_points(context, problem)
    return RecheckedExplanation(name, explanation.instance, explanation.rule, status, verdict)


def _check_rule(problem: Problem, explanation: Explanation) -> Verdict:
    try:
        box = build_box(problem.case.components, parse_rule(problem.case.components, explanation.rule))
        return _find_past_exception(problem, box) or check_box(problem, box, None, 1)
    except BudgetExhausted:
        return NOT_SEARCHED


def _name_explanations(explanations: Any) -> Iterator[tuple[Any, Explanation]]:
    """Explanations with their names: of a batch by row, of a mapping by key, of anything else by place."""
    if isinstance(explanations, Explanation):
        yield 0, explanations
    elif isinstance(explanations, Batch):
        yield from zip(explanations.rows, explanations, strict=True)
    elif isinstance(explanations, Mapping):
        yield from explanations.items()
    elif isinstance(explanations, Iterable):
        yield from enumerate(explanations)
    else:
        expected = "explanations must be a batch, an explanation, or a list or mapping of explanations"
        raise InputError(expected=expected, got=type(explanations).__name__)


def _find_past_exception(problem: Problem, box: Box) -> Refuted | None:
    """A past row that breaks the rule: the model need not be asked about it."""
    past = problem.case.history.desired
    rows = np.flatnonzero(past.flag_inside(box.low, box.high, problem.case.space.sizes))[:1]
    return problem.case.build_refuted(past.points(rows)) if len(rows) else None

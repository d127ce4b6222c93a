"""Saved explanations, checked against a new model.

``recheck_explanation`` asks about the rule as it stands, against the explainer's model and space. Where the model can
be read, the answer is a proof or a counterfactual: a point that satisfies the rule and has the desired outcome now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import InputError
from ironrule.explain.judge import parse_rule
from ironrule.explain.query import decide_row
from ironrule.results.batch import Batch
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import RecheckedExplanation
from ironrule.rule.box import Box
from ironrule.rule.condition import build_box
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted

if TYPE_CHECKING:
    from ironrule.explain.context import ExplainerContext
    from ironrule.search.problem import Problem


def name_explanations(given: Any) -> Iterator[tuple[Any, Explanation]]:
    """Explanations with their names: of a batch by row, of a mapping by key, of anything else by place."""
    if isinstance(given, Explanation):
        yield 0, given
    elif isinstance(given, Batch):
        yield from zip(given.rows, given, strict=True)
    elif isinstance(given, Mapping):
        yield from given.items()
    elif isinstance(given, Iterable):
        yield from enumerate(given)
    else:
        raise InputError(
            expected="explanations must be a batch, an explanation, or a list or mapping of explanations",
            got=type(given).__name__,
        )


def encode_explained_row(context: ExplainerContext, name: Any, explanation: Explanation) -> tuple[Points, bool]:
    """The explained row as codes, and whether it has the desired outcome now; raises InputError if it does not fit."""
    try:
        return decide_row(context, dict(explanation.instance))
    except InputError as error:
        raise InputError(
            f"the stored explanation {name!r} does not fit the data: {error.statement}",
            hint="use the data, the space and the constraints that it was made with, or a space that has its values",
        ) from None


def recheck_explanation(name: Any, explanation: Explanation, problem: Problem) -> RecheckedExplanation:
    """What the oracle says of a stored rule."""
    from ironrule.search.driver import check_box

    known = name, explanation.instance, explanation.rule
    try:
        box = build_box(problem.case.components, parse_rule(problem.case.components, explanation.rule))
        verdict = _find_past_exception(problem, box) or check_box(problem, box, None, 1)
    except BudgetExhausted:
        return RecheckedExplanation(*known, "undecided", NOT_SEARCHED)
    if isinstance(verdict, Proven):
        return RecheckedExplanation(*known, "holds", verdict)
    return RecheckedExplanation(*known, "breaks" if isinstance(verdict, Refuted) else "undecided", verdict)


def _find_past_exception(problem: Problem, box: Box) -> Refuted | None:
    """A past row that breaks the rule: the model need not be asked about it."""
    past = problem.case.history.desired
    rows = np.flatnonzero(past.flag_inside(box.low, box.high, problem.case.space.sizes))[:1]
    return problem.case.build_refuted(past.points(rows)) if len(rows) else None

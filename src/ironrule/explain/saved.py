"""Saved explanations: attach past rows to them again, or check them against a new model.

A document leaves the past rows out; ``attach_history`` takes them from the data again and refuses data of another space
or history. ``recheck_explanation`` asks about the rule as it stands, against the explainer's model and space. Where the
model can be read, the answer is a proof or a counterfactual: a point that satisfies the rule and has the desired
outcome now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import InputError
from ironrule.explain.explainer import Explainer
from ironrule.explain.judge import parse_rule
from ironrule.explain.query import encode_row
from ironrule.results.background import Background, HistoryRows, LazyBackground, build_background
from ironrule.results.batch import Batch
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import RecheckedExplanation
from ironrule.rule.box import Box
from ironrule.rule.condition import build_box
from ironrule.space.codes import EncodedTable
from ironrule.space.space import Space
from ironrule.space.table import read_table
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.explain.context import ExplainerContext
    from ironrule.search.problem import Problem


CHUNK_ROWS = 1 << 16


def attach_history(explanation: Explanation, data: Any, space: Space | None) -> Explanation:
    """The explanation with a background from the data; raises InputError if it speaks of another space or history."""
    if isinstance(data, Explainer):
        return _attach_explainer(explanation, data)
    table = read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None)
    if space is None:
        named = [name for name in explanation.instance if name in table.names]
        space = Space.infer(table, columns=named if len(named) == len(explanation.instance) else None, progress=False)
    _require_same_space(explanation, space)
    codes = _filter_rows(space, space.encode(table, progress=False))
    return _attach_rows(
        explanation, HistoryRows(space, codes, None), explanation.decision.margin > 0 or explanation.models > 1
    )


def _attach_explainer(explanation: Explanation, explainer: Explainer) -> Explanation:
    context = explainer._context
    if explanation.model != context.fingerprint:
        raise InputError("the explanation is about another model than this explainer's", code="model-mismatch")
    past = HistoryRows(context.space, context.history.codes, context.outcomes)
    return _attach_rows(explanation, past, context.is_robust)


def _attach_rows(explanation: Explanation, past: HistoryRows, is_robust: bool) -> Explanation:
    """The explanation with these past rows attached; raises InputError if it speaks of another space or history."""
    _require_same_space(explanation, past.space)
    if len(past.codes) != explanation.history_rows:
        made_with = format_count(explanation.history_rows, "past row")
        raise InputError(
            expected=f"the data must have {made_with}, like the data that the explanation was made with",
            got=len(past.codes),
            code="history-mismatch",
        )

    def make() -> Background:
        known = _encode_counterfactuals(explanation, past.space)
        return build_background(past, explanation.rule, explanation.instance, known, is_robust)

    return replace(explanation, lazy_background=LazyBackground(make))


def _require_same_space(explanation: Explanation, space: Space) -> None:
    if space.fingerprint != explanation.space:
        raise InputError(
            "the explanation was made with another space than this data, space and constraints give",
            hint="pass those that it was made with (one made with intervals needs the model too)",
            code="space-mismatch",
        )


def _filter_rows(space: Space, codes: EncodedTable) -> EncodedTable:
    """The past rows that satisfy the constraints on the space."""
    if not space.feasible.predicates:
        return codes
    starts = range(0, len(codes), CHUNK_ROWS)
    kept = [space.feasible.admits(codes.points(slice(start, start + CHUNK_ROWS))) for start in starts]
    return codes.take(np.concatenate(kept))


def _encode_counterfactuals(explanation: Explanation, space: Space) -> Points:
    """The counterfactuals that an explanation itself names, as codes."""
    named = [space.encode_row(one.values).tolist() for one in explanation.counterfactuals]
    return np.array([*explanation.witnesses, *named], dtype=np.int32).reshape(-1, len(space))


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
        return encode_row(context, dict(explanation.instance))
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
        return RecheckedExplanation(*known, "undecided", Unrefuted(tried=0, samples=0, confidence=0.0))
    if isinstance(verdict, Proven):
        return RecheckedExplanation(*known, "holds", verdict)
    return RecheckedExplanation(*known, "breaks" if isinstance(verdict, Refuted) else "undecided", verdict)


def _find_past_exception(problem: Problem, box: Box) -> Refuted | None:
    """A past row that breaks the rule: the model need not be asked about it."""
    past = problem.case.history.desired
    rows = np.flatnonzero(past.flag_inside(box.low, box.high, problem.case.space.sizes))[:1]
    return problem.case.build_refuted(past.points(rows)) if len(rows) else None

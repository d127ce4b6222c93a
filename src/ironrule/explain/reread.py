"""Past rows behind an explanation that was read back: what a document leaves out, taken from the data again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.counting import counted
from ironrule.errors import InputError
from ironrule.explain.background import Background, Unseen
from ironrule.explain.explainer import Explainer
from ironrule.explain.explanation import Explanation
from ironrule.explain.history import Past, background_of
from ironrule.space import Codes, Points, Space, read_table

CHUNK = 1 << 16


def with_history(explanation: Explanation, data: Any, space: Space | None) -> Explanation:
    """The explanation with a background from the data; raises InputError if it speaks of another space or history."""
    if isinstance(data, Explainer):
        return _with_explainer(explanation, data)
    table = read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None)
    if space is None:
        named = [name for name in explanation.instance if name in table.names]
        space = Space.infer(table, columns=named if len(named) == len(explanation.instance) else None, progress=False)
    _refuse_another_space(explanation, space)
    codes = _occurring(space, space.encode(table, progress=False))
    return _with_past(explanation, Past(space, codes, None), explanation.decision.margin > 0 or explanation.models > 1)


def _with_explainer(explanation: Explanation, explainer: Explainer) -> Explanation:
    ready = explainer._prepared
    if explanation.model != ready.fingerprint:
        raise InputError("the explanation is about another model than this explainer's", code="model-mismatch")
    return _with_past(explanation, Past(ready.space, ready.history.codes, ready.outcomes), ready.withstands)


def _with_past(explanation: Explanation, past: Past, withstands: bool) -> Explanation:
    """The explanation with these past rows behind it; raises InputError if it speaks of another space or history."""
    _refuse_another_space(explanation, past.space)
    if len(past.codes) != explanation.history_rows:
        made_with = counted(explanation.history_rows, "past row")
        raise InputError(
            expected=f"the data must have {made_with}, like the data that the explanation was made with",
            got=len(past.codes),
            code="history-mismatch",
        )

    def make() -> Background:
        known = _known(explanation, past.space)
        return background_of(past, explanation.rule, explanation.instance, known, withstands)

    return replace(explanation, behind=Unseen(make))


def _refuse_another_space(explanation: Explanation, space: Space) -> None:
    if space.fingerprint != explanation.space:
        raise InputError(
            "the explanation was made with another space than this data, space and constraints give",
            hint="pass those that it was made with (one made with intervals needs the model too)",
            code="space-mismatch",
        )


def _occurring(space: Space, codes: Codes) -> Codes:
    """The past rows that satisfy the constraints on the space."""
    if not space.feasible.predicates:
        return codes
    starts = range(0, len(codes), CHUNK)
    kept = [space.feasible.admits(codes.points(slice(start, start + CHUNK))) for start in starts]
    return codes.take(np.concatenate(kept))


def _known(explanation: Explanation, space: Space) -> Points:
    """The counterfactuals that an explanation itself names, as codes."""
    named = [space.encode_row(one.values).tolist() for one in explanation.counterfactuals]
    return np.array([*explanation.witnesses, *named], dtype=np.int32).reshape(-1, len(space))

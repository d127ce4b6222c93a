"""A part of the space: what an explainer knows, under further constraints on what can occur.

Data, domains, and what the model says of past rows are known already and stay; past rows that break a constraint are
left out. The model is read again, since the constraints are part of what the exact oracle works on, and its reading is
compared with it again. So the result is what a new explainer with all constraints would know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.errors import ConstraintError
from ironrule.explain.past import InMemory, Mask, OnDisk
from ironrule.explain.prepared import PAST_CHECKED, Prepared, fingerprint_model, read_exactly
from ironrule.model import history_of
from ironrule.rule.named import Named
from ironrule.space import Codes, Constraint, Space

CHUNK = 1 << 16


def narrowed(ready: Prepared, models: Sequence[Any], constraints: Sequence[Constraint]) -> Prepared:
    """The same under further constraints; raises ConstraintError if no past row satisfies them."""
    space = replace(ready.space, constraints=(*ready.space.constraints, *constraints))
    kept = _satisfying(space, ready.history.codes)
    codes, withstood = _taken(ready, ready.history.codes, kept, space.fingerprint[:32]), ready.history.outcomes[kept]
    past = codes.points(slice(0, PAST_CHECKED))
    exact, oracle, word = read_exactly(models, ready.model, space, past, ready.wanted, ready.engine)
    history = history_of(space, codes, withstood, _taken(ready, codes, withstood, None))
    return replace(
        ready,
        space=space,
        history=history,
        outcomes=ready.outcomes[kept],
        exact=exact,
        oracle=oracle,
        word=word,
        fingerprint=fingerprint_model(history, exact),
        rows=ready.numbers_of(np.flatnonzero(kept)),
        named=Named(),
    )


def _satisfying(space: Space, codes: Codes) -> Mask:
    starts = range(0, len(codes), CHUNK)
    kept = np.concatenate([space.feasible.admits(codes.points(slice(start, start + CHUNK))) for start in starts])
    if not kept.any():
        raise ConstraintError("no past row satisfies the constraints on the space", code="no-past-rows")
    return np.asarray(kept, dtype=np.bool_)


def _taken(ready: Prepared, codes: Codes, rows: Mask, name: str | None) -> Codes:
    """The chosen rows; those of a source stay on disk."""
    past = ready.past
    return past.take(codes, rows, name) if isinstance(past, (InMemory, OnDisk)) else codes.take(rows)

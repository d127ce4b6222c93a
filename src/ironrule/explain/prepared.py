"""What an explainer knows before it is asked anything: the space, the model in normal form, and the history."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.errors import ConstraintError, InputError, TableError
from ironrule.explain.arguments import as_list
from ironrule.explain.explanation import Decision
from ironrule.model import BlackBox, History, Readable, Unreadable, behaviour, black_box, history_of, readable
from ironrule.model.decision import as_labels
from ironrule.space import Codes, Constraint, Points, Space, Table, as_constraint, bind, read_table

PAST_CHECKED = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Everything about a model and its data that stays the same from row to row."""

    space: Space
    model: BlackBox
    history: History
    table: Table
    recourse: tuple[Constraint, ...]
    exact: Readable | str  # what the exact oracle works on, or why there is none
    fingerprint: str
    decision: Decision


def prepare(
    model: Any,
    data: Any,
    desired: Any,
    threshold: float | None,
    space: Space | None,
    constraints: Sequence[str | Constraint],
    columns: Sequence[str] | None,
    progress: bool | None,
) -> Prepared:
    """Read the data and the model; what cannot be used is refused here, before any search."""
    if space is not None and not isinstance(space, Space):
        raise InputError(f"space must be a Space, such as Space.from_file gives, but {type(space).__name__} came")
    table = read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None)
    texts = tuple(as_constraint(constraint) for constraint in as_list(constraints))
    recourse = tuple(constraint for constraint in texts if constraint.mentions_instance)
    inferred = space
    if inferred is None:
        chosen = columns if columns is not None else _columns_of(model, table)
        inferred = Space.infer(table, columns=chosen, progress=progress)
    on_space = tuple(constraint for constraint in texts if not constraint.mentions_instance)
    whole = replace(inferred, constraints=(*inferred.constraints, *on_space))
    for constraint in recourse:
        bind(constraint, whole.features)
    asked = black_box(model, table, whole, desired, threshold)
    kept = _occurring(whole, whole.encode(table, progress=progress))
    history = history_of(whole, kept, asked.outcomes(kept, progress))
    past = kept.points(slice(0, PAST_CHECKED))
    exact = _exact(model, asked, whole, past, desired, threshold)
    fingerprint = behaviour(history) if isinstance(exact, str) else exact.fingerprint
    wanted = None if desired is None else as_labels(desired)
    decision = Decision(wanted, threshold)
    return Prepared(whole, asked, history, table, recourse, exact, fingerprint, decision)


def _exact(
    model: Any, asked: BlackBox, space: Space, past: Points, desired: Any, threshold: float | None
) -> Readable | str:
    try:
        return readable(model, asked, space, past, desired, threshold)
    except Unreadable as reason:
        return str(reason)


def _columns_of(model: Any, table: Table) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so; other columns, such as the target, are left alone."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    absent = [str(name) for name in names if name not in table.names]
    if absent:
        raise TableError(f"the data must have the model's column {absent[0]!r}, but it has {', '.join(table.names)}")
    return tuple(str(name) for name in names)


def _occurring(space: Space, codes: Codes) -> Codes:
    """The past rows that satisfy the constraints on the space."""
    if not space.feasible.predicates:
        return codes
    starts = range(0, len(codes), 1 << 16)
    kept = np.concatenate([space.feasible.admits(codes.points(slice(start, start + (1 << 16)))) for start in starts])
    if not kept.any():
        raise ConstraintError("some past row must satisfy the constraints on the space, but none does")
    if not kept.all():
        broken = int((~kept).sum())
        warnings.warn(
            f"{broken} of {len(kept)} past rows break the constraints on the space and are left out", stacklevel=4
        )
    return codes.take(kept)

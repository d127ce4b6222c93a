"""Which rows rules are searched on, and which they are measured on: half of the past rows each, or the user's rows.

The split is described in :mod:`ironrule.model.population`. It is made when a ladder first needs it, and kept.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray
from ironrule.errors import InputError, TableError
from ironrule.explain.context import ExplainerContext, raise_without_rows
from ironrule.explain.options import is_mask
from ironrule.explain.prepare.build import open_rows
from ironrule.model.blackbox import build_model_set
from ironrule.model.population import MeasuredRows, Population, hash_rows, split_rows

SPLIT_SEED = 0


def find_population(context: ExplainerContext, progress: bool | None = False, seed: int = SPLIT_SEED) -> Population:
    """The rows to search on and to measure on; made once per context."""
    return context.population_cache.get(lambda: build_population(context, progress, seed))


def build_population(context: ExplainerContext, progress: bool | None, seed: int) -> Population:
    """The same, made anew."""
    measure, history = context.arguments.measure, context.history
    if context.row_count == 0:
        raise_without_rows("a ladder, whose rungs are measured on past rows")
    if measure is None:
        is_measured = split_rows(context.space, history.codes, seed)
        return Population(~is_measured, _take_measured(context, is_measured), "split", seed)
    if is_mask(measure):
        is_measured = _select_marked(context, measure)
        return Population(~is_measured, _take_measured(context, is_measured), "mask")
    measured = _read_measured(context, measure, progress)
    _require_other_rows(context, measured)
    return Population(np.ones(len(history), dtype=np.bool_), measured, "table")


def _require_other_rows(context: ExplainerContext, measured: MeasuredRows) -> None:
    """Raise InputError if rows to measure on are clearly rows of the data, which the search looks at.

    Different people may have equal values, and then so do past rows among each other: that share is what chance gives.
    Bounds measured on rows that the search has seen would be too good.
    """
    past = hash_rows(context.space, context.history.codes, SPLIT_SEED)
    found = hash_rows(measured.space, measured.codes, SPLIT_SEED)
    _, places, counts = np.unique(past, return_inverse=True, return_counts=True)
    usual_share = float(np.mean(counts[places] > 1))
    shared, expected = int(np.isin(found, past).sum()), len(found) * usual_share
    if shared > expected + 5.0 * math.sqrt(expected * (1.0 - usual_share)) + max(5.0, 0.02 * len(found)):
        raise InputError(
            expected="the rows to measure on must be other rows than those of the data, which the search looks at",
            got=f"{shared:,} of {len(found):,} that are in the data, too; by chance about {expected:,.0f} would be",
            hint="leave them out of one of the two, or mark them by one flag per row of the data",
            code="measured-rows-in-data",
        )


def _take_measured(context: ExplainerContext, is_measured: BoolArray) -> MeasuredRows:
    history = context.history
    return MeasuredRows(context.space, history.codes.take(is_measured), history.outcomes[is_measured])


def _select_marked(context: ExplainerContext, mask: BoolArray) -> BoolArray:
    """Which rows of the history are marked; rows that were added to the data later are not."""
    known = np.zeros(context.row_count, dtype=np.bool_)
    known[: len(mask)] = mask
    numbers = np.arange(len(context.history)) if context.row_numbers is None else context.row_numbers
    return known[numbers]


def _read_measured(context: ExplainerContext, measure: Any, progress: bool | None) -> MeasuredRows:
    """Rows of a table or a source, whose values join a copy of the domains, decided by the models."""
    arguments = replace(context.arguments, space=context.space)
    rows = open_rows(arguments, measure, None, progress)
    missing = [name for name in context.space.columns if name not in rows.table.names]
    if missing:
        expected = f"the rows to measure on must have the column {missing[0]!r}, like the data"
        raise TableError(expected=expected, got=f"columns {', '.join(rows.table.names)}", code="missing-columns")
    space = context.space.add_values(context.space.find_new_column_values(rows.table))
    model_set = build_model_set(arguments.models, rows.table, space, arguments.target)
    codes = rows.encode(space, progress)
    outcomes = model_set.decide_rows(codes, progress)  # it may be that none of them is desired
    if space.feasible.predicates:  # the rule speaks of what can occur alone
        can_occur = space.feasible.admits_rows(codes)
        codes, outcomes = codes.take(can_occur), outcomes[can_occur]
    return MeasuredRows(space, codes, outcomes)

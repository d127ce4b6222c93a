"""Find the counterfactuals of all undesired rows of a table: on several processors, and into a folder.

Rows are chosen, shared out and stored by the code that explains many rows (:mod:`ironrule.explain.batch`): equal rows
are searched for once, what is finished is stored every few seconds, and the same call goes on where it was ended.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ironrule.backends.parallel import use_one_core
from ironrule.explain.batch.rows import select_undesired_rows
from ironrule.explain.batch.run import (
    BatchWriter,
    MissingRows,
    WorkerPool,
    explain_missing,
    fill_batch,
    list_fingerprints,
)
from ironrule.explain.batch.worker import Task
from ironrule.explain.context import EncodedRow, ExplainerContext
from ironrule.explain.counterfactuals.find import find_counterfactuals
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.options import SearchOptions
from ironrule.interrupts import InterruptFlag, get_interrupt_flag, use_interrupt_flag
from ironrule.results.batch_folder import COUNTERFACTUALS, KIND_FIELD
from ironrule.results.batch_storage import require_parquet
from ironrule.results.counterfactuals_batch import CounterfactualsBatch, CounterfactualsRow


@dataclass(frozen=True, slots=True, eq=False)
class CounterfactualFinder:
    """What is known of the model and its data, and the options with which every row of a batch is searched for."""

    context: ExplainerContext
    options: SearchOptions
    changes: ChangeOptions

    def explain_task(self, task: Task) -> list[CounterfactualsRow]:
        """The counterfactuals of several rows, in one thread: the cores share out rows. Raises KeyboardInterrupt if
        one of the searches was interrupted.
        """
        finished = []
        with use_one_core(), use_interrupt_flag(get_interrupt_flag() or InterruptFlag()) as flag:
            for row, point in zip(*task, strict=True):
                found = find_counterfactuals(self.context, EncodedRow(point), self.options, self.changes)
                flag.check()
                finished.append(CounterfactualsRow.from_counterfactuals(row, found))
        return finished


def find_many_counterfactuals(
    context: ExplainerContext,
    rows: Any,
    options: SearchOptions,
    changes: ChangeOptions,
    *,
    folder: str | Path | None,
    pool: WorkerPool,
    progress: bool | None,
) -> CounterfactualsBatch:
    """The counterfactuals of every undesired row, or of those that a folder lacks."""
    if folder is not None:
        require_parquet()
    chosen = select_undesired_rows(context, rows, own_model_only=True)
    counts = {"to_explain": len(chosen), "desired": chosen.desired}
    finder = CounterfactualFinder(context, options, changes)

    def fill(writer: BatchWriter) -> None:
        missing = MissingRows(chosen, writer.finished_row_numbers())
        explain_missing(writer, missing, finder, pool=pool, progress=progress)

    hashed = hashlib.sha256(f"{options.fingerprint()}, {changes.fingerprint()}".encode()).hexdigest()
    facts = counts | {KIND_FIELD: COUNTERFACTUALS, "space": context.space.to_dict()}
    stored = fill_batch(
        folder, fill, lambda: list_fingerprints(context, chosen, hashed) | facts, row_type=CounterfactualsRow
    )
    return CounterfactualsBatch(stored, counts, context.space)

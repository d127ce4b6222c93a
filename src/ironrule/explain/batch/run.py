"""Run a batch: explain the rows that are not explained yet, and store finished rows every few seconds."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ironrule.errors import InputError
from ironrule.explain.batch.process_pool import explain_in_processes
from ironrule.explain.batch.reuse import RuleReuse
from ironrule.explain.batch.rows import SelectedRows, UndesiredRows, select_undesired_rows
from ironrule.explain.batch.worker import IsCovered, PendingRows, RowExplainer, TaskRunner
from ironrule.explain.context import ExplainerContext
from ironrule.explain.measured_rows import find_population
from ironrule.explain.options import SearchOptions, parse_integer
from ironrule.interrupts import InterruptFlag, defer_signals
from ironrule.progress import ProgressBar
from ironrule.results.batch import Batch
from ironrule.results.batch_folder import FolderBatchReader, lock_folder, open_batch_folder
from ironrule.results.batch_storage import BatchRow, InMemoryBatch, StoredRow, require_parquet

if TYPE_CHECKING:
    from ironrule.explain.ladder import LadderOptions

FLUSH_SECONDS = 5.0
FLUSH_ROWS = 2_000
ENGINES = ("local", "ray")
WorkerPool = Callable[
    [TaskRunner[StoredRow], PendingRows, IsCovered | None, InterruptFlag], Generator[Sequence[Any], None, None]
]
"""Explains rows, but for those that are covered by then, and hands them out as they are finished; once the flag is set,
those that are finished already, and then it raises KeyboardInterrupt."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Where a batch is kept, whether with documents and suggested changes, and whether proven rules are reused.

    With ``ladder``, every row gets a ladder; its last rung is the explanation of the row.
    """

    folder: str | Path | None
    documents: bool
    reuse: bool
    changes: bool = False
    ladder: LadderOptions | None = None

    def __post_init__(self) -> None:
        if self.ladder is not None and (self.reuse or not self.documents):
            expected = "a batch with ladders needs documents, and a search for every row"
            got = "reuse of rules" if self.reuse else "no documents"
            raise InputError(expected=expected, got=got, hint="leave that out", code="batch-ladders")


class BatchWriter(Protocol):
    """Takes finished rows."""

    def finished_row_numbers(self) -> set[int]:
        """The numbers of the rows that it has already."""

    def read_rows(self) -> Iterable[Any]:
        """The rows that it has already, in the order in which they were added."""

    def add(self, rows: list[StoredRow]) -> None:
        """Keep them, all or none."""


def run_batch(
    explainer: Any,
    context: ExplainerContext,
    rows: Any,
    options: SearchOptions,
    *,
    output: BatchOptions,
    pool: WorkerPool,
    progress: bool | None,
) -> Batch:
    """Explain every undesired row, or those that a folder lacks."""
    options_hash = options.fingerprint()
    if context.oracle is None and context.black_box_oracle is not None:
        options_hash = f"{options_hash}, oracle {context.black_box_oracle!r}"
    if output.folder is not None:
        require_parquet()
    chosen = select_undesired_rows(context, rows)
    if output.changes:
        options_hash = f"{options_hash}, changes"
    if output.ladder is not None:
        measured = find_population(context, progress).fingerprint()
        options_hash = f"{options_hash}, {output.ladder!r} measured on {measured}"
    row_explainer = RowExplainer(explainer, options, output.documents, output.changes, output.ladder)
    counts = {"to_explain": len(chosen), "desired": chosen.desired, "not_robust": chosen.out_of_reach}

    def fill(writer: BatchWriter) -> None:
        missing = MissingRows(chosen, writer.finished_row_numbers())
        reuse = None
        if output.reuse:
            finished = missing.place_searched(writer.read_rows())
            reuse = RuleReuse(context, options, missing.pending, places=missing.places, finished=finished)
        explain_missing(writer, missing, row_explainer, reuse, pool=pool, progress=progress)

    options_hash = f"{options_hash}, reuse" if output.reuse else options_hash
    facts = counts | {"has_documents": output.documents, "space": context.space.to_dict()}
    stored = fill_batch(output.folder, fill, lambda: list_fingerprints(context, chosen, options_hash) | facts)
    return Batch(stored, counts, context.space)


def list_fingerprints(context: ExplainerContext, chosen: UndesiredRows, options_hash: str) -> dict[str, Any]:
    """Hashes of all that the answers of a batch depend on, by which a folder knows its batch."""
    return {
        "rows_fingerprint": chosen.fingerprint,
        "history_fingerprint": context.history.fingerprint(),
        "space_fingerprint": context.space.fingerprint,
        "model_fingerprint": context.fingerprint,
        "options_fingerprint": options_hash,
    }


def fill_batch(
    path: str | Path | None,
    fill: Callable[[BatchWriter], None],
    build_manifest: Callable[[], Mapping[str, Any]],
    row_type: type[StoredRow] = BatchRow,
) -> InMemoryBatch | FolderBatchReader:
    """The rows that ``fill`` adds, in memory, or in the folder of a batch, begun or continued."""
    if path is None:
        memory = InMemoryBatch()
        fill(memory)
        return memory
    manifest = build_manifest()
    with contextlib.closing(lock_folder(Path(path))):
        folder = open_batch_folder(Path(path), manifest, row_type)
        fill(folder)
    return FolderBatchReader(folder)


def choose_pool(engine: str, workers: int | None, address: str | None) -> WorkerPool:
    """Who explains rows; raises InputError, or MissingExtraError, before any work."""
    if engine not in ENGINES:
        raise InputError(expected=f"engine must be one of {', '.join(ENGINES)}", got=repr(engine))
    if address is not None and engine != "ray":
        expected = "a Ray address needs the engine 'ray'"
        hint = "pass engine='ray'"
        raise InputError(expected=expected, got=f"the engine {engine!r}", hint=hint, code="ray-address-without-engine")
    count = None if workers is None else parse_integer("workers", workers)
    if engine == "local":
        return partial(explain_in_processes, workers=count or os.cpu_count() or 1)
    from ironrule.explain.batch.ray_pool import explain_on_ray, require_ray

    require_ray()
    return partial(explain_on_ray, workers=count, address=address)


def explain_missing(
    writer: BatchWriter,
    missing: MissingRows,
    runner: TaskRunner[StoredRow],
    reuse: RuleReuse | None = None,
    *,
    pool: WorkerPool,
    progress: bool | None,
) -> None:
    """Explain the rows that are not finished; whatever ends that early, what was finished is kept."""
    buffer, done = _WriteBuffer(writer), missing.finished
    is_covered = None if reuse is None else reuse.is_covered
    with contextlib.ExitStack() as stack:
        flag = stack.enter_context(defer_signals())
        flag.check()
        bar = stack.enter_context(ProgressBar("Explaining", missing.total, progress, already_done=done))
        stack.enter_context(buffer)
        portions = stack.enter_context(contextlib.closing(pool(runner, missing.pending, is_covered, flag)))
        # Rows come as workers finish them. The last, empty portion settles rows that earlier rules cover.
        for rows in chain(portions, [[]]):
            finished = [
                row if number == row.row else row.copy_to(number)
                for row in (rows if reuse is None else reuse.settle(list(rows)))
                for number in missing.equal_rows(row.row)
            ]
            buffer.add(finished)
            done += len(finished)
            bar.update(done)
    flag.check()


class MissingRows:
    """The rows that a batch still lacks: those that are to be explained, and for each the ones that it stands for."""

    def __init__(self, chosen: UndesiredRows, finished: set[int]) -> None:
        lacking = np.flatnonzero(~np.isin(chosen.numbers, np.fromiter(finished, np.int64, len(finished))))
        lacking = lacking[np.argsort(chosen.first_equal[lacking], kind="stable")]
        waiting, self._starts = np.unique(chosen.first_equal[lacking], return_index=True)
        self.total, self.finished = len(chosen), len(chosen) - len(lacking)
        self.numbers, self.points = chosen.numbers[waiting], SelectedRows(chosen.points.__getitem__, waiting)
        self.places, self._all_numbers = waiting, chosen.numbers
        self._equal_rows = chosen.numbers[lacking]
        self._order = np.argsort(self.numbers)

    @property
    def pending(self) -> PendingRows:
        """The rows that are to be explained, in order."""
        return self.numbers, self.points

    def place_searched(self, finished: Iterable[BatchRow]) -> list[tuple[int, BatchRow]]:
        """The finished rows with a proven rule of their own, and the place of each among all rows, in this order."""
        searched = {row.row: row for row in finished if row.has_own_proof}
        places = {int(number): place for place, number in reversed(list(enumerate(self._all_numbers)))}
        return sorted(((places[number], row) for number, row in searched.items()), key=lambda one: one[0])

    def equal_rows(self, row: int) -> list[int]:
        """The numbers of all rows equal to one that is to be explained."""
        place = int(self._order[np.searchsorted(self.numbers, row, sorter=self._order)])
        ends = self._starts[place + 1] if place + 1 < len(self._starts) else len(self._equal_rows)
        return [int(number) for number in self._equal_rows[self._starts[place] : ends]]


class _WriteBuffer:
    """Rows that are finished but not written yet."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer, self._rows, self._since = writer, list[StoredRow](), time.monotonic()

    def __enter__(self) -> _WriteBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def add(self, rows: list[StoredRow]) -> None:
        """Write rows, at the latest some seconds later."""
        self._rows += rows
        if len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._since >= FLUSH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        self._since = time.monotonic()
        if rows:
            self._writer.add(rows)

"""Making a batch: explain what is not explained yet, and keep finished rows every few seconds."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ironrule.errors import InputError
from ironrule.explain.batches.batch import Batch
from ironrule.explain.batches.crew import explained
from ironrule.explain.batches.folder import begun, locked
from ironrule.explain.batches.keeping import InFolder, InMemory
from ironrule.explain.batches.line import Line
from ironrule.explain.batches.parquet import require_pyarrow
from ironrule.explain.batches.reuse import EachAlone, Reuse
from ironrule.explain.batches.rows import Rows, Some, chosen_rows
from ironrule.explain.batches.worker import Needless, Waiting, Work
from ironrule.explain.prepared import Prepared
from ironrule.explain.question import Question
from ironrule.progress import Bar

FLUSH_SECONDS = 5.0
FLUSH_ROWS = 2_000
ENGINES = ("local", "ray")

Crew = Callable[[Work, Waiting, Needless | None], Iterator[list[Line]]]
"""Explains rows, but for those that have become needless, and hands out lines as they are finished."""


@dataclass(frozen=True, slots=True)
class Output:
    """What is wanted of a batch: where it is kept, whether with documents, whether rules serve again."""

    folder: str | Path | None
    documents: bool
    reuse: bool


class Keeper(Protocol):
    """Takes finished lines."""

    def finished(self) -> set[int]:
        """The numbers of the rows that it has already."""
        ...

    def written(self) -> Iterable[Line]:
        """The lines that it has already, in the order in which they were added."""
        ...

    def add(self, lines: list[Line]) -> None:
        """Keep them, all or none."""
        ...


def make_batch(
    explainer: Any,
    ready: Prepared,
    rows: Any,
    question: Question,
    output: Output,
    crew: Crew,
    progress: bool | None,
) -> Batch:
    """Explain every undesired row, or those that a folder lacks."""
    asked = question.fingerprint()
    if output.folder is not None:
        require_pyarrow()
    chosen = chosen_rows(ready, rows)
    work = Work(explainer, question, output.documents)
    about = _about(chosen)

    def fill(keeper: Keeper) -> None:
        missing = _Missing(chosen, keeper.finished())
        settling = Reuse.after(keeper.written(), ready, question, missing.waiting) if output.reuse else EachAlone()
        _fill(keeper, missing, work, settling, crew, progress)

    if output.folder is None:
        memory = InMemory()
        fill(memory)
        return Batch(memory, about, ready.space)
    path = Path(output.folder)
    keys = {"rows": chosen.fingerprint, "history": ready.history.fingerprint(), "space": ready.space.fingerprint}
    keys |= {"model": ready.fingerprint, "question": f"{asked}, reuse" if output.reuse else asked}
    with contextlib.closing(locked(path)):
        folder = begun(path, {**keys, **about, "documents": output.documents, "features": ready.space.to_dict()})
        fill(folder)
    return Batch(InFolder(folder), about, ready.space)


def chosen_crew(engine: str, workers: int | None, address: str | None) -> Crew:
    """Who explains rows; raises InputError, or MissingExtraError, before any work."""
    if engine not in ENGINES:
        raise InputError(expected=f"engine must be one of {', '.join(ENGINES)}", got=repr(engine))
    if address is not None and engine != "ray":
        raise InputError(
            expected="a Ray address needs the engine 'ray'",
            got=f"the engine {engine!r}",
            hint="pass engine='ray'",
            code="ray-address-without-engine",
        )
    count = None if workers is None else _checked_workers(workers)
    if engine == "local":
        return partial(explained, workers=count or os.cpu_count() or 1)
    from ironrule.explain.batches.ray_crew import explained_by_ray, require_ray

    require_ray()
    return partial(explained_by_ray, workers=count, address=address)


def _checked_workers(workers: int) -> int:
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or workers < 1:
        raise InputError(expected="workers must be a positive integer", got=repr(workers))
    return int(workers)


def _about(chosen: Rows) -> Mapping[str, int]:
    return {"total": len(chosen), "desired": chosen.desired, "beyond": chosen.beyond}


def _fill(
    keeper: Keeper, missing: _Missing, work: Work, settling: Reuse | EachAlone, crew: Crew, progress: bool | None
) -> None:
    """Explain the rows that are not finished; whatever ends that early, what was finished is kept."""
    pending, done = _Pending(keeper), missing.finished
    with Bar("Explaining", missing.total, progress, begun=done) as bar, pending:
        for lines in chain(crew(work, missing.waiting, settling.needless), [[]]):
            settled = settling.settled(lines)
            told = [one.of_twin(row) if row != one.row else one for one in settled for row in missing.twins(one.row)]
            pending.add(told)
            done += len(told)
            bar.reach(done)


class _Missing:
    """The rows that a batch still lacks: those that are to be explained, and for each the ones that it stands for."""

    def __init__(self, chosen: Rows, finished: set[int]) -> None:
        lacking = np.flatnonzero(~np.isin(chosen.numbers, np.fromiter(finished, np.int64, len(finished))))
        lacking = lacking[np.argsort(chosen.first[lacking], kind="stable")]
        waiting, self._begins = np.unique(chosen.first[lacking], return_index=True)
        self.total, self.finished = len(chosen), len(chosen) - len(lacking)
        self.numbers, self.points = chosen.numbers[waiting], Some(chosen.points, waiting)
        self._twins = chosen.numbers[lacking]
        self._order = np.argsort(self.numbers)

    @property
    def waiting(self) -> Waiting:
        """The rows that are to be explained, in order."""
        return self.numbers, self.points

    def twins(self, row: int) -> list[int]:
        """The numbers of all rows equal to one that is to be explained."""
        place = int(self._order[np.searchsorted(self.numbers, row, sorter=self._order)])
        ends = self._begins[place + 1] if place + 1 < len(self._begins) else len(self._twins)
        return [int(number) for number in self._twins[self._begins[place] : ends]]


class _Pending:
    """Lines that are finished but not kept yet."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper, self._lines, self._since = keeper, list[Line](), time.monotonic()

    def __enter__(self) -> _Pending:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def add(self, lines: list[Line]) -> None:
        """Keep lines, at the latest some seconds later."""
        self._lines += lines
        if len(self._lines) >= FLUSH_ROWS or time.monotonic() - self._since >= FLUSH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        self._since = time.monotonic()
        if lines:
            self._keeper.add(lines)

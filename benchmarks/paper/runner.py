"""Runs an experiment: tasks one after the other, each by several processes, every answer kept as soon as it comes.

A process that hangs or dies costs the rows it was asked about, which are kept as failures, and is started anew
(:mod:`benchmarks.proof_worker`). A run that was broken off goes on from the log.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.paper.experiment import Experiment, Record, Task, load
from benchmarks.paper.journal import Journal
from benchmarks.paper.plan import Plan, Question
from benchmarks.paper.shown import Shown
from benchmarks.proof_worker import Answer, Worker

GRACE = 120.0  # what a question may take beyond its budget: a first call compiles
SLOWEST = 3.0  # times its budget: some look at the clock rarely, and a row may be explained once before it is timed


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for."""

    out: Path
    quick: bool = False
    workers: int = 2
    rows: int | None = None
    only: str = ""
    algorithms: tuple[str, ...] = ()
    retry: bool = False
    any_engine: bool = False

    def narrowed(self, task: Task) -> Task | None:
        """The part of a task that was asked for; None if nothing of it was."""
        if self.only.lower() not in task.name.lower():
            return None
        most = self.rows if self.rows is not None else max(task.counts.values(), default=0)
        wanted = [name for name in task.counts if not self.algorithms or name in self.algorithms]
        return replace(task, counts={name: min(task.counts[name], most) for name in wanted}) if wanted else None


@dataclass(slots=True)
class Run:
    """One experiment under way."""

    experiment: Experiment
    asked: Asked
    journal: Journal
    shown: Shown
    ending: threading.Event = field(default_factory=threading.Event)  # whatever comes now is not to be kept
    broken: list[BaseException] = field(default_factory=list)

    def everything(self) -> list[Record]:
        """Ask what is not known; all records that the log then has for this experiment, whatever was asked for."""
        tasks = self.experiment.tasks(self.asked.quick)
        for task in tasks:
            narrowed = self.asked.narrowed(task)
            if narrowed is not None:
                self._task(task, narrowed)
        known = [(task, self._known_rows(task)) for task in tasks]
        return [r for task, rows in known if rows is not None for r in self._plan(task, rows).records()]

    def _plan(self, task: Task, rows: Sequence[int]) -> Plan:
        return Plan(self.experiment, task, rows, self.journal)

    def _known_rows(self, task: Task) -> list[int] | None:
        known = self.journal.known(self._rows_key(task))
        return None if known is None else list(known["rows"])

    def _rows_key(self, task: Task) -> Record:
        return {
            "experiment": self.experiment.name,
            "task": task.name,
            "rows of": max(task.counts.values(), default=0),
            "facts": dict(task.facts),
        }

    def _task(self, whole: Task, task: Task) -> None:
        first = Worker(prepare, (self.experiment.name, whole))
        try:
            rows = self._known_rows(whole)
            if rows is None:
                prepared = first.start()
                if "failed" in prepared:
                    self.shown.failed(whole.name, prepared["failed"])
                    return
                rows = self.journal.add({"rows": prepared["rows"]}, self._rows_key(whole))["rows"]
            self._ask_all(self._plan(task, rows), first)
        finally:
            first.stop()

    def _ask_all(self, plan: Plan, first: Worker) -> None:
        portions = plan.questions(self.asked.retry)
        waiting: queue.SimpleQueue[list[Question]] = queue.SimpleQueue()
        for portion in portions:
            waiting.put(portion)
        most = min(self.asked.workers, plan.task.processes or self.asked.workers, len(portions))
        workers = [first, *(Worker(first.prepare, first.given) for _ in range(most - 1))][:most]
        total = sum(len(question.rows) for portion in portions for question in portion)
        done = len(plan.records())
        with self.shown.bar(plan.task.name, done + total, done) as advance:
            threads = [
                threading.Thread(target=self._serve, args=(plan, worker, waiting, advance), daemon=True)
                for worker in workers
            ]
            self._until_done(threads, workers)

    def _until_done(self, threads: list[threading.Thread], workers: list[Worker]) -> None:
        """Until all have ended; an interruption ends the processes, and what they then say is not kept."""
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.05)
        except BaseException:
            self.ending.set()
            raise
        finally:
            for worker in workers:
                worker.stop()
        if self.broken:
            raise self.broken[0]

    def _serve(self, plan: Plan, worker: Worker, waiting: Any, advance: Callable[[int, str], None]) -> None:
        try:
            while not self.ending.is_set():
                for question in waiting.get_nowait():
                    answer = _asked(worker, question, plan.task.seconds(question.method))
                    if self.ending.is_set():
                        return
                    self._keep(plan, question, answer)
                    advance(len(question.rows), question.method)
        except queue.Empty:
            return
        except BaseException as error:  # handed to the main thread, which raises it
            self.broken.append(error)
            self.ending.set()

    def _keep(self, plan: Plan, question: Question, answer: Answer) -> None:
        failed = {"failed": answer.get("failed", "it must give one record per row, but it did not")}
        records = answer.get("records", [])
        if len(records) != len(question.rows):
            records = [failed] * len(question.rows)
        for row, record in zip(question.rows, records, strict=True):
            self.journal.add(record | {"load": answer.get("load")}, plan.key(question.method, row))


def _asked(worker: Worker, question: Question, budget: float) -> Answer:
    limit = GRACE + SLOWEST * budget * (1 + len(question.rows))
    return worker.ask(measure, question.method, list(question.rows), limit=limit)


@dataclass(frozen=True, slots=True)
class Ready:
    """What a worker process works on."""

    experiment: Experiment
    task: Task
    state: Any


def prepare(name: str, task: Task) -> tuple[Ready, Answer]:
    """In the worker: the experiment's state for a task, and the rows in order."""
    experiment = load(name)
    try:
        state, rows = experiment.prepare(task)
    except SystemExit as reason:  # data that is not there; a worker says so instead of ending
        raise RuntimeError(str(reason)) from None
    return Ready(experiment, task, state), {"rows": rows}


def measure(ready: Ready, method: str, rows: list[int]) -> Answer:
    """In the worker: one record per row."""
    return {"records": ready.experiment.measure(ready.state, ready.task, method, rows)}

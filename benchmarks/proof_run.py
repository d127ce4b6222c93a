"""One run of benchmarks/proofs.py: what was asked for, tasks row by row, and their tables."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.proof_log import Answer, Log
from benchmarks.proof_models import Task, make_task
from benchmarks.proof_peers import pyxai, pyxai_lines
from benchmarks.proof_rows import explain, prepare
from benchmarks.proof_tables import Goal, good_ones, reached, summary, work
from benchmarks.proof_worker import Worker
from benchmarks.report import show
from ironrule.progress import track

GRACE = 60.0  # what a row may take beyond its budget before its process is ended
WORST = 5
PROOFS = (
    "task",
    "rows",
    "failed",
    "proven",
    "minimum",
    "irredundant",
    "mean",
    "median ms",
    "CPU ms",
    "p90 ms",
    "p99 ms",
    "max ms",
)
FIRST = ("task", "first ms", "first CPU ms", "first p99", "first max", "first irredundant")
PLAIN = ("deletion ms", "deletion CPU ms", "deletion max", "deletion proven", "longer by")
OPEN = ("task", "overrun", "open", "gap", "gap max", "load")
SLOW = ("row", "wall", "cpu", "cardinality", "lower bound", "boxes", "demands")


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked for on the command line."""

    given: argparse.Namespace
    log: Log

    def rows(self, usual: int) -> int:
        """How many rows per task."""
        return int(self.given.rows or (4 if self.given.quick else usual))

    def budget(self, usual: float) -> float:
        """Seconds per row."""
        return float(self.given.budget or (min(usual, 5.0) if self.given.quick else usual))

    @property
    def boxes(self) -> int:
        """How many boxes of each kind per task."""
        return int(self.given.boxes or (20 if self.given.quick else 400))

    @property
    def peer_rows(self) -> int:
        """How many rows for PyXAI per task."""
        return int(self.given.peers_rows or (2 if self.given.quick else 20))

    @property
    def peer_seconds(self) -> float:
        """How long PyXAI may take for a reason."""
        return 5.0 if self.given.quick else 60.0

    def tasks(self, pairs: list[tuple[str, str]], **how: Any) -> Iterator[Task]:
        """The tasks that --only leaves; one that cannot be made is left out, and said."""
        for data, classifier in pairs:
            if (self.given.only or "").lower() in f"{data}, {classifier}".lower():
                try:
                    yield make_task(data, classifier, **how)
                except Exception:
                    print(f"\n{data}, {classifier} failed:\n{traceback.format_exc(limit=-3)}")


@dataclass(frozen=True, slots=True)
class Done:
    """A task with the answers for its rows, and what preparing took."""

    task: Task
    answers: list[Answer]
    made: Answer

    @property
    def failures(self) -> list[Answer]:
        """The rows that failed."""
        return [{"task": self.task.name} | one for one in self.answers if "failed" in one]

    @property
    def slowest(self) -> list[Answer]:
        """The rows that took longest."""
        order = sorted(good_ones(self.answers), key=lambda one: -one["wall"])
        return [{"task": self.task.name} | {name: one[name] for name in SLOW} for one in order[:WORST]]


def explained(run: Run, section: str, pairs: list[tuple[str, str]], budget: float, **how: Any) -> list[Done]:
    """All tasks of a section, one after the other."""
    done = []
    for task in run.tasks(pairs, **how):
        done.append(rows_of(run, section, task, run.budget(budget)))
        show(f"{section}: {task.name}", _picked([summary(task.name, done[-1].answers)], PROOFS))
    return done


def rows_of(run: Run, section: str, task: Task, budget: float) -> Done:
    """Every row of a task explained; a row that fails is an answer that says so."""
    rows = task.rows(run.rows(200), run.given.seed)
    worker = Worker(prepare, (task, rows[0]))
    answers = []
    for row in track(rows, f"{section}: {task.name}", len(rows)):
        what = {"section": section, "task": task.name, "row": row, "budget": budget}
        answer = run.log.known(**what)
        if answer is None:
            answer = run.log.add(worker.ask(explain, row, budget, limit=3 * budget + GRACE) | {"row": row}, **what)
        answers.append(answer)
    if worker.prepared:
        run.log.add(worker.prepared, section=section, task=task.name)
    worker.stop()
    return Done(task, answers, {"task": task.name} | (run.log.known(section=section, task=task.name) or {}))


def tell(section: str, done: list[Done], goals: tuple[Goal, ...]) -> Answer:
    """Print a section's tables; its figures for the record."""
    lines = [summary(one.task.name, one.answers) for one in done]
    works = [work(one.task.name, one.answers) for one in done]
    met = reached(goals, lines)
    show(f"{section}: proofs and times", _picked(lines, PROOFS))
    show(f"{section}: the search's first irredundant rule, and plain deletion beside it", _picked(lines, FIRST + PLAIN))
    show(f"{section}: rows past their budget, and proven rules not proven minimum", _picked(lines, OPEN))
    show(f"{section}: where the time goes", works)
    show(f"{section}: making the explainer and reading the model", [one.made for one in done])
    failures = [failure for one in done for failure in one.failures]
    for failure in failures:
        print(f"failed: {failure['task']}, row {failure['row']}: {failure['failed'].strip().splitlines()[-1]}")
    show(f"{section}: goals", met)
    slowest = [slow for one in done for slow in one.slowest]
    made = [one.made for one in done]
    return {"rows": lines, "work": works, "made": made, "failures": failures, "slowest": slowest, "goals": met}


def _picked(lines: list[Answer], names: tuple[str, ...]) -> list[Answer]:
    return [{name: one[name] for name in names} for one in lines]


def beside(run: Run, done: list[Done], kind: str, methods: list[str]) -> list[Answer]:
    """PyXAI on a sample of the rows, where its environment is given."""
    lines: list[Answer] = []
    for one in done if run.given.peers_python else []:
        if kind in one.task.classifier:
            rows = one.task.rows(min(run.peer_rows, len(one.answers)), run.given.seed)
            what = {"peer": "PyXAI", "task": one.task.name, "rows": rows, "limit": run.peer_seconds}
            answer = run.log.known(**what)
            if answer is None:
                found = pyxai(run.given.peers_python, one.task, rows, methods, run.peer_seconds)
                answer = run.log.add(found, **what)
            lines += pyxai_lines(one.task, answer, one.answers)
            show(f"PyXAI beside it: {one.task.name}", lines[-len(methods) :])
    return lines

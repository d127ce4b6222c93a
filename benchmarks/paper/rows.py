"""One row explained by one method, timed, and its rule judged after the clock has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.paper.experiment import Record
from benchmarks.paper.methods import Found, methods
from benchmarks.paper.subject import Subject
from benchmarks.stopwatch import timed
from ironrule import Judgement, Proven, Quality, Rule

WARM_SECONDS = 3.0
JUDGING_SECONDS = 60.0


@dataclass(slots=True)
class Warmth:
    """Which methods have run in this process: the first row of each is explained once before it is timed."""

    done: set[str] = field(default_factory=set)

    def ensure(self, subject: Subject, method: str, row: int, budget: float) -> None:
        """Have a method compile, or load, all it needs."""
        if method not in self.done:
            self.done.add(method)
            if methods()[method].batch == 1:  # a batch has a process of its own
                methods()[method].run(subject, [row], min(budget, WARM_SECONDS))


def explained(
    warmth: Warmth,
    subject: Subject,
    method: str,
    rows: Sequence[int],
    budget: float,
    judging: float | None = None,
) -> list[Record]:
    """One record per row."""
    warmth.ensure(subject, method, rows[0], budget)
    found = methods()[method].run(subject, rows, budget)
    seconds = min(JUDGING_SECONDS, budget) if judging is None else judging
    return [_record(subject, row, one, seconds) for row, one in zip(rows, found, strict=True)]


def _record(subject: Subject, row: int, found: Found, seconds: float) -> Record:
    record: Record = {"wall": found.taken.wall, "cpu": found.taken.cpu} | found.facts
    if found.rule is None:
        return record
    judgement, judging = timed(lambda: subject.exact.judge(row, found.rule, budget=seconds))
    return record | {
        "cardinality": found.rule.cardinality,
        "rule": text(found.rule),
        "quality": _class(judgement),
        "least": judgement.minimum_weight,
        "reason": judgement.reason,
        "judging": judging.wall,
    }


def _class(judgement: Judgement) -> str:
    """The judge's class; of a rule that is not judged further it is said whether it is known to hold."""
    holds = judgement.quality is Quality.NOT_JUDGED and isinstance(judgement.verdict, Proven)
    return "holds, no more known" if holds else judgement.quality.value


def text(rule: Rule) -> str:
    """The components, one by one."""
    return " and ".join(f"{c.feature} {c.op} {c.value}" for c in rule.components)

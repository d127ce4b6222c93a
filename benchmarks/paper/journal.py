"""The log of an experiment, as the runner uses it: from several threads, and where wanted whatever the engine was."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.paper.experiment import Record
from benchmarks.proof_log import Log


@dataclass(slots=True)
class Journal:
    """One line per answer, kept at once (:mod:`benchmarks.proof_log`).

    With ``any_engine``, what another engine answered to the same question is known too.
    """

    log: Log
    any_engine: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    others: dict[str, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, answer in self.log.lines.items() if self.any_engine else ():
            self.others[_without_engine(json.loads(key))] = answer

    @classmethod
    def at(cls, file: Path, any_engine: bool = False) -> Journal:
        """The journal in a file, which may not be there yet."""
        file.parent.mkdir(parents=True, exist_ok=True)
        return cls(Log(file), any_engine)

    def known(self, what: Record) -> Record | None:
        """The answer to a question, if there is one."""
        answer = self.log.known(**what)
        return answer if answer is not None or not self.any_engine else self.others.get(_without_engine(what))

    def add(self, answer: Record, what: Record) -> Record:
        """Keep an answer."""
        with self.lock:
            return self.log.add(answer, **what)


def _without_engine(what: Record) -> str:
    return json.dumps({name: value for name, value in what.items() if name != "engine"}, sort_keys=True)

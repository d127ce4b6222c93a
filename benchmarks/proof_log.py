"""One line of JSON per row as soon as it is measured, so that a run which was broken off goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


@dataclass(slots=True)
class Log:
    """What was measured so far; without a file, of this run alone. A new engine wants a new file."""

    file: Path | None = None
    lines: dict[str, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            whole = self.file.read_text(encoding="utf-8")
            for text in whole.splitlines():
                self._keep(text)
            if whole and not whole.endswith("\n"):  # else the next line would be joined to half of one
                with self.file.open("a", encoding="utf-8") as stream:
                    stream.write("\n")

    def _keep(self, text: str) -> None:
        try:
            one = json.loads(text)
        except json.JSONDecodeError:  # the line that was being written when the run was broken off
            return
        self.lines[_key(one["what"])] = one["answer"]

    def known(self, **what: Any) -> Answer | None:
        """The answer to this question, if it was measured before."""
        return self.lines.get(_key(what))

    def add(self, answer: Answer, **what: Any) -> Answer:
        """Keep an answer."""
        self.lines[_key(what)] = answer
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"what": what, "answer": answer}, default=float) + "\n")
        return answer


def _key(what: Answer) -> str:
    return json.dumps(what, sort_keys=True)

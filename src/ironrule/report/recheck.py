"""How somebody else checks an explanation: the exact command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

EXPLANATION, MODEL, DATA = "explanation.json", "MODEL", "DATA"


@dataclass(frozen=True, slots=True)
class Recheck:
    """The files that a check needs, and the further options that the explanation was made with."""

    explanation: str = EXPLANATION
    model: str = MODEL
    data: str = DATA
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command as a shell reads it.

        >>> Recheck("why.json", "model.skops", "past loans.csv").command
        "ironrule check why.json --model model.skops --data 'past loans.csv'"
        """
        return shlex.join(
            ["ironrule", "check", self.explanation, "--model", self.model, "--data", self.data, *self.options]
        )

    @property
    def complete(self) -> bool:
        """Whether the command names the model and the data, and not only where they belong."""
        return self.model != MODEL and self.data != DATA

"""How much of the comparison is run, and what of it was measured before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.carla.optima import NORMS
from benchmarks.paper.engine import engine
from benchmarks.paper.experiment import Record
from benchmarks.paper.journal import Journal
from benchmarks.proof_log import Log


@dataclass(frozen=True, slots=True)
class Settings:
    """So many rows, seeds of systems that draw, and seconds per row; and the systems whose names have a text.

    ``limit`` is how many seconds of CPU a system may take on a model, all rows and seeds together: it is asked about no
    further row then. ``peers`` are the pythons of other packages' environments, by package. What is in the journal is
    not measured again.
    """

    rows: int
    seeds: int
    budget: float
    only: str = ""
    all_norms: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    journal: Journal = field(default_factory=lambda: Journal(Log()))

    def list_norms(self, kind: str) -> tuple[str, ...]:
        """The distances in which optima are proven: of networks the fewest changes alone, unless all are wanted."""
        return NORMS if self.all_norms or kind != "ann" else NORMS[:1]

    def wants(self, *names: str | None) -> bool:
        """Whether one of these names was asked for; several texts are separated by commas."""
        texts = self.only.lower().split(",")
        return any(text in name.lower() for text in texts for name in names if name is not None)

    def describe(self, section: str, model: str, **what: Any) -> Record:
        """A question as the journal knows it."""
        return {"section": section, "model": model, "budget": self.budget, "engine": engine(), **what}

    def is_spent(self, taken: Sequence[float]) -> bool:
        """Whether a system that has taken so many seconds gets no further row."""
        return self.limit is not None and sum(taken) > self.limit

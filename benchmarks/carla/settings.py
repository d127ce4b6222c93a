"""How much of the comparison is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.carla.optima import NORMS


@dataclass(frozen=True, slots=True)
class Settings:
    """So many rows, seeds of systems that draw, and seconds per row; and the systems whose names have a text.

    ``peers`` are the pythons of other packages' environments, by package.
    """

    rows: int
    seeds: int
    budget: float
    only: str = ""
    all_norms: bool = False
    peers: Mapping[str, str] = field(default_factory=dict)

    def list_norms(self, kind: str) -> tuple[str, ...]:
        """The distances in which optima are proven: of networks the fewest changes alone, unless all are wanted."""
        return NORMS if self.all_norms or kind != "ann" else NORMS[:1]

    def wants(self, *names: str | None) -> bool:
        """Whether one of these names was asked for; several texts are separated by commas."""
        texts = self.only.lower().split(",")
        return any(text in name.lower() for text in texts for name in names if name is not None)

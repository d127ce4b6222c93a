"""How much of the comparison is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Settings:
    """So many rows, seeds of systems that draw, and seconds per row; and the systems whose names have a text.

    ``peers`` are the pythons of other packages' environments, by package.
    """

    rows: int
    seeds: int
    budget: float
    only: str = ""
    peers: Mapping[str, str] = field(default_factory=dict)

    def wants(self, *names: str | None) -> bool:
        """Whether one of these names was asked for."""
        return any(self.only.lower() in name.lower() for name in names if name is not None)

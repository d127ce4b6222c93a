"""How much of the comparison is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """So many rows, seeds of systems that draw, and seconds per row; and the systems whose names have a text."""

    rows: int
    seeds: int
    budget: float
    only: str = ""

    def wants(self, *names: str | None) -> bool:
        """Whether one of these names was asked for."""
        return any(self.only.lower() in name.lower() for name in names if name is not None)

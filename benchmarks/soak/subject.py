"""What a subject of the soak must do, and what is reported of it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance: its kind, how long the process took to end afterwards (None: it was killed, or ended by itself
    before), and what was wrong about it.
    """

    kind: str
    seconds_to_end: float | None = None
    faults: tuple[str, ...] = ()


class Subject(Protocol):
    """Something that runs, can be disturbed at any moment, and must lose nothing."""

    name: str

    def prepare(self, folder: Path) -> None:
        """Make what is needed in an empty folder, and learn from an undisturbed run what is right."""

    def disturb(self, rng: random.Random) -> Disturbance:
        """Let it run, disturb it once at a random moment, and look whether it ended as it should."""

    def conclude(self) -> list[str]:
        """Let it come to its end undisturbed; what was lost or differs, a line each."""


@dataclass(slots=True)
class SoakReport:
    """What happened to one subject."""

    name: str
    disturbances: list[Disturbance] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    comparisons: int = 0

    @property
    def faults(self) -> list[str]:
        """All that was wrong, apart from losses."""
        return [fault for one in self.disturbances for fault in one.faults]

    def __str__(self) -> str:
        kinds = Counter(one.kind for one in self.disturbances)
        lines = [f"{self.name}: {len(self.disturbances)} disturbances, {self.comparisons} comparisons"]
        for kind, count in sorted(kinds.items()):
            waits = [one.seconds_to_end for one in self.disturbances if one.kind == kind]
            known = np.array([wait for wait in waits if wait is not None])
            ends = f"; ended after {np.median(known):.2f} s (median), {known.max():.2f} s (most)" if len(known) else ""
            lines.append(f"  {kind}: {count}{ends}")
        lines.append(f"  lost or different: {len(self.losses)}; other faults: {len(self.faults)}")
        return "\n".join([*lines, *(f"    {text}" for text in [*self.losses, *self.faults])])

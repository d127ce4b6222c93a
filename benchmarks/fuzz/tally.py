"""Counts of claims, by claim: how many were looked at, how many were false."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """What a case has found. ``notes`` counts what is neither true nor false: refusals, undecided checks."""

    checked: Counter[str] = field(default_factory=Counter)
    false: list[tuple[str, str]] = field(default_factory=list)  # the claim, and what shows that it is false
    notes: Counter[str] = field(default_factory=Counter)

    def record(self, claim: str, counterexample: str | None) -> None:
        """Count a claim; ``counterexample`` says why it is false, None that it is true."""
        self.checked[claim] += 1
        if counterexample is not None:
            self.false.append((claim, counterexample))

    def expect(self, claim: str, true: bool, otherwise: str) -> None:
        """Count a claim that is true or not; ``otherwise`` says what is shown if it is not."""
        self.record(claim, None if true else otherwise)

    def note(self, what: str, count: int = 1) -> None:
        """Count something that is no claim."""
        self.notes[what] += count

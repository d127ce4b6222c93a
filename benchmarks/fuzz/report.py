"""What many cases have found: counts per family and claim, as text and as plain data."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from benchmarks.fuzz.cases import Case

SHOWN = 6
"""How many false claims of a case are printed; all are counted, and are in the JSON."""


@dataclass(slots=True)
class Report:
    """The sum of all cases."""

    skipped: dict[str, str] = field(default_factory=dict)  # families that cannot be drawn here, and why
    cases: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    checked: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    false: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    notes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[Case] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    def add(self, case: Case) -> None:
        """Count a case."""
        name = case.family
        self.cases[name] += 1
        self.seconds[name] += case.seconds  # type: ignore[assignment]
        self.checked[name].update(case.tally.checked)
        self.false[name].update(claim for claim, _ in case.tally.false)
        self.notes[name].update(case.tally.notes)
        if case.crashes:
            self.notes[name]["crashed"] += len(case.crashes)
        if case.failed:
            self.failures.append(case)

    def count(self, note: str) -> int:
        """A note's count over all families."""
        return sum(notes[note] for notes in self.notes.values())

    @property
    def altered(self) -> int:
        """How many altered documents the checker was given."""
        names = ("altered document", "altered document: error")
        return sum(checked[name] for checked in self.checked.values() for name in names)

    @property
    def failed(self) -> bool:
        """Whether a claim was false or something crashed."""
        return bool(self.failures)

    def progress(self) -> str:
        """One line on how far it is."""
        false = sum(sum(counts.values()) for counts in self.false.values())
        crashed = self.count("crashed")
        return (
            f"{time.monotonic() - self.begun:.0f} s: {sum(self.cases.values()):,} cases, "
            f"{self.count('explanations'):,} explanations, {self.altered:,} altered documents, "
            f"{false} false claims, {crashed} crashes"
        )

    def to_dict(self) -> dict[str, Any]:
        """All counts as plain data."""
        families = {
            name: {
                "cases": self.cases[name],
                "seconds": round(float(self.seconds[name]), 3),
                "claims": {
                    claim: {"checked": count, "false": self.false[name][claim]}
                    for claim, count in sorted(self.checked[name].items())
                },
                "notes": dict(sorted(self.notes[name].items())),
            }
            for name in self.cases
        }
        failures = [
            {"family": case.family, "case": case.number, "false": case.tally.false, "crashes": case.crashes}
            for case in self.failures
        ]
        totals = {
            "cases": sum(self.cases.values()),
            "explanations": self.count("explanations"),
            "altered documents": self.altered,
            "false claims": sum(sum(counts.values()) for counts in self.false.values()),
            "crashes": self.count("crashed"),
        }
        return {"totals": totals, "families": families, "skipped": self.skipped, "failures": failures}

    def __str__(self) -> str:
        lines = []
        for name in self.cases:
            notes, checked = self.notes[name], self.checked[name]
            read, asked = notes["models read"], notes["models asked"]
            lines.append(f"{name}: {self.cases[name]} cases, {read} read, {asked} asked, {self.seconds[name]:.1f} s")
            lines += [
                f"    {claim:<28}{checked[claim]:>9,}{self.false[name][claim] or '':>7}" for claim in sorted(checked)
            ]
            lines += [f"    ({what}: {count})" for what, count in sorted(notes.items())]
        lines += ["", f"{'all families':<32}{'checked':>9}{'false':>7}"]
        total: Counter[str] = sum(self.checked.values(), Counter())
        wrong: Counter[str] = sum(self.false.values(), Counter())
        lines += [f"    {claim:<28}{total[claim]:>9,}{wrong[claim] or '':>7}" for claim in sorted(total)]
        lines += [f"skipped: {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join([*lines, self.progress()])


def failure_text(case: Case) -> str:
    """A case that failed: what it was about, what was false, and how to run it alone."""
    lines = [f"FALSE in {case.family}, case {case.number}"]
    lines += [f"  {claim}: {text}" for claim, text in case.tally.false[:SHOWN]]
    if len(case.tally.false) > SHOWN:
        lines.append(f"  and {len(case.tally.false) - SHOWN} more")
    lines += [f"  crash: {text}" for text in case.crashes]
    lines += [f"  {case.subject}"]
    return "\n".join([*lines, f'  again: python -m benchmarks.fuzz --family "{case.family}" --case {case.number}'])

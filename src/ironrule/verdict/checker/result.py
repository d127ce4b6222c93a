"""What a check finds: every claim of an explanation with what became of it, and the status that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

Outcome = Literal["holds", "fails", "undecided"]
Status = Literal["proven", "refuted", "undecided"]

COLOURS = {"proven": "#1b6e3c", "undecided": "#8a5a00", "refuted": "#a1260d"}
MEANINGS = {
    "proven": "Every claim was checked against the model, and the rule has no exception",
    "refuted": "A claim is false or was altered, or the rule has an exception",
    "undecided": "Not everything could be checked, or the explanation claims no proof",
}


class Fails(Exception):  # noqa: N818  # an answer about a claim, not a failure of the checker
    """Why a claim is false."""


class Undecided(Exception):  # noqa: N818  # the same
    """Why a claim could not be decided here."""


class Finding(NamedTuple):
    """One claim, what became of it, and why."""

    claim: str
    status: Outcome
    sentence: str


def finding(claim: str, judge: Callable[[], str]) -> Finding:
    """What becomes of a claim: the judge's sentence if it holds, else why it does not."""
    try:
        return Finding(claim, "holds", judge())
    except Fails as reason:
        return Finding(claim, "fails", str(reason))
    except Undecided as reason:
        return Finding(claim, "undecided", str(reason))


@dataclass(frozen=True, slots=True)
class Check:
    """What became of an explanation's claims.

    ``status`` is ``"proven"`` only if the best rule is claimed to be proven and every claim holds; ``"refuted"`` if
    some claim fails, or the explanation itself shows an exception to its best rule; ``"undecided"`` otherwise.
    """

    rule: str
    claimed: Literal["proven", "refuted", "unrefuted"]
    findings: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        """One word for the whole: proven, refuted or undecided."""
        outcomes = {finding.status for finding in self.findings}
        if "fails" in outcomes:
            return "refuted"
        if "undecided" in outcomes or self.claimed == "unrefuted":
            return "undecided"
        return self.claimed

    @property
    def meaning(self) -> str:
        """What the status means, in a sentence."""
        return MEANINGS[self.status]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The claims that are false."""
        return tuple(finding for finding in self.findings if finding.status == "fails")

    def to_dict(self) -> dict[str, Any]:
        """The check as plain data."""
        findings = [finding._asdict() for finding in self.findings]
        return {"status": self.status, "rule": self.rule, "claimed": self.claimed, "findings": findings}

    def __str__(self) -> str:
        width = max((len(finding.claim) for finding in self.findings), default=0)
        lines = [f"  {f.status:<9}  {f.claim:<{width}}  {f.sentence}" for f in self.findings]
        return "\n".join([self.rule, f"Check: {self.status}. {self.meaning}.", *lines])

    def _repr_html_(self) -> str:
        cell = 'style="padding:2px 10px;text-align:left;border-bottom:1px solid #ccc"'
        rows = "".join(
            f"<tr>{''.join(f'<td {cell}>{escape(text)}</td>' for text in (f.status, f.claim, f.sentence))}</tr>"
            for f in self.findings
        )
        return (
            '<div style="font-family:system-ui,sans-serif;max-width:60em;line-height:1.45">'
            f'<p><span style="background:{COLOURS[self.status]};color:#fff;border-radius:4px;padding:2px 8px">'
            f"{self.status}</span> {escape(self.rule)}</p>"
            f'<table style="border-collapse:collapse">{rows}</table></div>'
        )

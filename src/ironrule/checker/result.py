"""What a check finds: every claim of an explanation or a ladder with what became of it, and the status that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape as escape_markup
from typing import Any, Literal, NamedTuple

from ironrule.errors import escape_controls

FindingStatus = Literal["holds", "fails", "undecided"]
CheckStatus = Literal["proven", "holds", "refuted", "undecided"]
ReadingSource = Literal["own", "shared", "none"]
DocumentKind = Literal["explanation", "ladder", "counterfactuals", "region", "menu", "infeasibility"]
STATUS_COLOURS = {"proven": "#1b6e3c", "holds": "#1f5a8a", "undecided": "#8a5a00", "refuted": "#a1260d"}
STATUS_MEANINGS = {
    "proven": "Every claim was checked against the model, and the rule has no exception",
    "holds": "Every claim of the ladder was checked: the last rule is proven, short ones are bounded",
    "refuted": "A claim is false or was altered, or the rule has an exception",
    "undecided": "Not everything could be checked, or the explanation claims no proof",
}
READING_NOTES = {
    "own": "the checker read the model itself",
    "shared": "reading shared: the checker has no reading of its own for this model and used the explainer's",
    "none": "the model was only asked, not read",
}


class ClaimFailed(Exception):  # noqa: N818  # an answer about a claim, not a failure of the checker
    """Why a claim is false."""


class ClaimUndecided(Exception):  # noqa: N818  # the same
    """Why a claim could not be decided here."""


class Finding(NamedTuple):
    """One claim, what became of it, and why."""

    claim: str
    status: FindingStatus
    sentence: str


def run_claim_check(claim: str, check: Callable[[], str]) -> Finding:
    """Run the check of a claim: it returns a sentence if the claim holds, and raises if it fails or is undecided."""
    try:
        return Finding(claim, "holds", check())
    except ClaimFailed as reason:
        return Finding(claim, "fails", str(reason))
    except ClaimUndecided as reason:
        return Finding(claim, "undecided", str(reason))


@dataclass(frozen=True, slots=True)
class Check:
    """What became of the claims of an explanation, or of a ladder (``document``).

    ``status`` is ``"proven"`` only if the best rule is claimed to be proven and every claim holds; ``"refuted"`` if
    some claim fails, or the explanation itself shows an exception to its best rule; ``"undecided"`` otherwise. A ladder
    is never proven as a whole, since bounds are no proofs: in the place of ``"proven"`` it has ``"holds"``.
    ``reading`` says who read the model: ``"own"`` the checker itself, ``"shared"`` the explainer; ``"none"`` it was
    only asked. ``notes`` say what the caller did not ask to be checked.
    """

    rule: str
    claimed_verdict: Literal["proven", "refuted", "unrefuted"]
    findings: tuple[Finding, ...]
    reading: ReadingSource = "none"
    notes: tuple[str, ...] = ()
    document: DocumentKind = "explanation"

    @property
    def status(self) -> CheckStatus:
        """One word for the whole: proven (of a ladder: holds), refuted or undecided."""
        outcomes = {finding.status for finding in self.findings}
        if "fails" in outcomes:
            return "refuted"
        if "undecided" in outcomes or self.claimed_verdict == "unrefuted":
            return "undecided"
        return "holds" if self.document == "ladder" and self.claimed_verdict == "proven" else self.claimed_verdict

    @property
    def strict(self) -> bool:
        """Whether the check rests on nothing but the checker, the model, the data and what the caller said."""
        return self.reading != "shared" and not self.notes

    @property
    def meaning(self) -> str:
        """What the status means, in a sentence."""
        if self.document not in ("explanation", "ladder"):
            from ironrule.checker.changes.claims import MEANINGS

            return MEANINGS[self.document][self.status]
        return STATUS_MEANINGS[self.status]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The claims that are false."""
        return tuple(finding for finding in self.findings if finding.status == "fails")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the check rests on: who read the model, and the notes."""
        return (READING_NOTES[self.reading], *self.notes)

    def to_dict(self) -> dict[str, Any]:
        """The check as plain data."""
        return {
            "status": self.status,
            "document": self.document,
            "rule": self.rule,
            "claimed_verdict": self.claimed_verdict,
            "reading": self.reading,
            "strict": self.strict,
            "notes": list(self.notes),
            "remarks": list(self.remarks),
            "findings": [finding._asdict() for finding in self.findings],
        }

    def __str__(self) -> str:
        width = max((len(finding.claim) for finding in self.findings), default=0)
        lines = [f"  {f.status:<9}  {f.claim:<{width}}  {f.sentence}" for f in self.findings]
        remarks = [f"  note: {remark}" for remark in self.remarks]
        return "\n".join(map(escape_controls, [self.rule, f"Check: {self.status}. {self.meaning}.", *lines, *remarks]))

    def __repr__(self) -> str:
        return f"<Check: {self.status}: {escape_controls(self.rule)}>"

    def _repr_html_(self) -> str:
        cell = 'style="padding:2px 10px;text-align:left;border-bottom:1px solid #ccc"'
        texts = [(f.status, f.claim, f.sentence) for f in self.findings]
        lines = ["".join(f"<td {cell}>{_escape(text)}</td>" for text in line) for line in texts]
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        remarks = "".join(f"<p>{_escape(remark)}</p>" for remark in self.remarks)
        return (
            '<div style="font-family:system-ui,sans-serif;max-width:60em;line-height:1.45">'
            f'<p><span style="background:{STATUS_COLOURS[self.status]};color:#fff;border-radius:4px;padding:2px 8px">'
            f"{self.status}</span> {_escape(self.rule)}</p>"
            f'<table style="border-collapse:collapse">{rows}</table>{remarks}</div>'
        )


def _escape(text: str) -> str:
    return escape_markup(escape_controls(text))

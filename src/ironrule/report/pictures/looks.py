"""How a verdict looks: a colour, and a pattern and words that tell it without colour."""

from __future__ import annotations

from dataclasses import dataclass

from ironrule.report.pictures.marks import BOLD_LETTER, PAPER, Mark, Rect, Text, hatched
from ironrule.verdict import Proven, Refuted, Unrefuted, Verdict


@dataclass(frozen=True, slots=True)
class Look:
    """A verdict's word, its meaning in a few words, its colours, and whether areas are filled, hatched or crossed."""

    word: str
    meaning: str
    colour: str
    tint: str | None  # None: areas are hatched, never filled
    crossed: bool = False
    claim: str = ""  # what must stand before the rule

    def area(self, x: float, y: float, width: float, height: float, kind: str) -> list[Mark]:
        """An area in this look."""
        rect = Rect(x, y, width, height, self.tint, self.colour, dashed=self.tint is None, kind=kind)
        return [rect, *([] if self.tint else hatched(rect, self.colour, crossed=self.crossed))]

    def bar(self, x: float, y: float, width: float, height: float) -> list[Mark]:
        """An area as :meth:`area` has it, but that what is proven is full."""
        if self.tint is None:
            return self.area(x, y, width, height, self.word)
        return [Rect(x, y, width, height, self.colour, self.colour, kind=self.word)]

    def badge(self, x: float, y: float) -> list[Mark]:
        """The word in a box: only what is proven has a full one."""
        width, full = len(self.meaning) * 12 * BOLD_LETTER * 0.93 + 18, self.tint is not None
        box = Rect(x, y, width, 20, self.colour if full else PAPER, self.colour, dashed=not full, kind="badge")
        return [box, Text(x + width / 2, y + 14.5, self.meaning, 12, "middle", True, PAPER if full else self.colour)]


PROVEN = Look("proven", "proven: there is no exception", "#0b5394", "#cfe2f3")
UNREFUTED = Look("unrefuted", "not proven: no exception was found", "#8a5a00", None, claim="as far as was searched, ")
REFUTED = Look("refuted", "does not hold: there is an exception", "#a1260d", None, True, "the rule says: ")
LOOKS = (PROVEN, UNREFUTED, REFUTED)


def look_of(verdict: Verdict) -> Look:
    """How this verdict looks."""
    match verdict:
        case Proven():
            return PROVEN
        case Unrefuted():
            return UNREFUTED
        case Refuted():
            return REFUTED

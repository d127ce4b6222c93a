"""A judgement: how good a rule is that somebody has found, by proof.

Every class comes with what shows it: the past row or the counterfactual that breaks the rule, the component that can go
with the proof of the rest, the shorter rule with its proof, or the counterfactuals that need a rule of this weight.
What could not be proven is not judged, and the reason says what was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ironrule.explain.explanation import RankedRule
from ironrule.rule import Component, Counterfactual, Rule
from ironrule.rule.weights import Number, to_document
from ironrule.verdict import Quality, Refuted, Verdict, verdict_to_dict


@dataclass(frozen=True, slots=True)
class Judgement:
    """How good a rule is for a row, with what shows it.

    ``rule`` is the rule as it was judged, its bounds at values of the domains; ``verdict`` says whether it holds;
    ``weight`` is its cardinality, weights counted. ``least`` is what the lightest rule for the row weighs, where that
    is proven, and ``lower_bound`` what each weighs at least (0 where it was not looked for); all three are exact, an
    int where whole, else a Fraction.

    - Failed data consistency: ``past_row`` is the number of the past row that breaks it, ``exception`` what that is.
    - Failed global consistency: ``exception`` breaks it.
    - Redundant: ``redundant`` can go; ``shorter`` is the rest, proven.
    - Irredundant: ``needed`` has for each component a counterfactual that it alone excludes; ``shorter`` is a lighter
      rule, proven.
    - Minimum: ``needed`` as well; ``witnesses`` are counterfactuals that together need a rule of this weight.
    - Not judged: ``reason`` says why, and what is known all the same.
    """

    rule: Rule
    quality: Quality
    verdict: Verdict
    weight: Number
    past_row: int | None = None
    redundant: Component | None = None
    shorter: RankedRule | None = None
    needed: tuple[Counterfactual, ...] = ()
    witnesses: Sequence[Counterfactual] = ()
    lower_bound: Number = 0
    least: Number | None = None
    reason: str | None = None

    @property
    def cardinality(self) -> int:
        """How many components the rule has; an equality on an ordered feature counts as two."""
        return self.rule.cardinality

    @property
    def exception(self) -> Counterfactual | None:
        """A point that breaks the rule, where one is known."""
        return self.verdict.counterfactual if isinstance(self.verdict, Refuted) else None

    def to_dict(self) -> dict[str, Any]:
        """The judgement as plain data."""
        return {
            "rule": self.rule.to_dict(),
            "quality": self.quality.value,
            "verdict": verdict_to_dict(self.verdict),
            "cardinality": self.cardinality,
            "weight": to_document(self.weight),
            "past_row": self.past_row,
            "redundant": None if self.redundant is None else self.redundant.to_dict(),
            "shorter": None if self.shorter is None else self.shorter.to_dict(),
            "needed": [item.to_dict() for item in self.needed],
            "witnesses": [item.to_dict() for item in self.witnesses],
            "lower_bound": to_document(self.lower_bound),
            "least": None if self.least is None else to_document(self.least),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        from ironrule.report.judged import judgement_text

        return judgement_text(self)

    def __repr__(self) -> str:
        return f"<Judgement: {self.quality}: {self.rule}>"

    def _repr_html_(self) -> str:
        from ironrule.report.judged import judgement_html

        return judgement_html(self)

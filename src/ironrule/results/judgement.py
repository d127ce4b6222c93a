"""Judgements of rules that exist already: how good a rule is, and which saved explanations still hold.

``Judgement`` puts a rule into the paper's classes: it fails on the data, fails globally, is redundant, irredundant, or
minimum. Every class comes with its evidence: the past row or the counterfactual that breaks the rule, the component
that can go with the proof of the rest, the shorter rule with its proof, or the counterfactuals that need a rule of this
weight. What could not be proven is not judged, and the reason says what is known.

``Recheck`` says of saved explanations, put to a new model, which rules hold, which break, and by which counterfactual.
Only that a rule holds is checked again; that no shorter one does was a claim about the old model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ironrule.hitting.weights import ExactNumber, number_to_json
from ironrule.results.display import format_judgement, render_judgement
from ironrule.results.explanation import RankedRule
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Value, value_to_json
from ironrule.verdict.verdict import Proven, Quality, Refuted, Verdict, verdict_to_dict
from ironrule.wording import escape_controls, format_count, format_repr, join_lines, render_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How good a rule is for a row, with what shows it.

    ``rule`` is the rule as it was judged, its bounds at values of the domains; ``verdict`` says whether it holds;
    ``weight`` is its cardinality, weights counted. ``minimum_weight`` is what the lightest rule for the row weighs,
    where that is proven, and ``lower_bound`` what each weighs at least (0 where it was not looked for); all three are
    exact, an int where whole, else a Fraction.

    - Failed data consistency: ``exception_row`` is the number of the past row that breaks it, ``exception`` that row.
    - Failed global consistency: ``exception`` breaks it.
    - Redundant: ``redundant_component`` can go; ``shorter_rule`` is the rest, proven.
    - Irredundant: ``needs`` has for each component a counterfactual that it alone excludes; ``shorter_rule`` is a
      lighter rule, proven.
    - Minimum: ``needs`` as well; ``witnesses`` are counterfactuals that together need a rule of this weight.
    - Not judged: ``reason`` says why, and what is known all the same.
    """

    rule: Rule
    quality: Quality
    verdict: Verdict
    weight: ExactNumber
    exception_row: int | None = None
    redundant_component: Component | None = None
    shorter_rule: RankedRule | None = None
    needs: tuple[Counterfactual, ...] = ()
    witnesses: Sequence[Counterfactual] = ()
    lower_bound: ExactNumber = 0
    minimum_weight: ExactNumber | None = None
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
            "weight": number_to_json(self.weight),
            "exception_row": self.exception_row,
            "redundant_component": None if self.redundant_component is None else self.redundant_component.to_dict(),
            "shorter_rule": None if self.shorter_rule is None else self.shorter_rule.to_dict(),
            "needs": [item.to_dict() for item in self.needs],
            "witnesses": [item.to_dict() for item in self.witnesses],
            "lower_bound": number_to_json(self.lower_bound),
            "minimum_weight": None if self.minimum_weight is None else number_to_json(self.minimum_weight),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        return format_judgement(self)

    def __repr__(self) -> str:
        return f"<Judgement: {self.quality}: {self.rule}>"

    def _repr_html_(self) -> str:
        return render_judgement(self)


RecheckStatus = Literal["holds", "breaks", "overturned", "undecided"]

STATUS_MEANINGS = {
    "holds": "the rule holds for the new model, and that is proven",
    "breaks": "the rule has an exception now, a point with the desired outcome",
    "overturned": "the row itself gets the desired outcome now, so there is nothing to explain",
    "undecided": "no exception was found, and none is excluded",
}


@dataclass(frozen=True, slots=True)
class RecheckedExplanation:
    """What became of one stored explanation; ``name`` is its row, its key or its place."""

    name: Any
    instance: Mapping[str, Value]
    rule: Rule
    status: RecheckStatus
    verdict: Verdict | None = None

    @property
    def counterfactual(self) -> Counterfactual | None:
        """Who breaks the rule."""
        return self.verdict.counterfactual if isinstance(self.verdict, Refuted) else None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data; a proof is not repeated here."""
        shown = None if self.verdict is None or isinstance(self.verdict, Proven) else verdict_to_dict(self.verdict)
        return {
            "name": value_to_json(self.name),
            "status": self.status,
            "rule": str(self.rule),
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "verdict": shown,
        }

    def __str__(self) -> str:
        broken = f": {self.counterfactual}" if self.counterfactual is not None else ""
        return escape_controls(f"{self.name}: {self.status}{broken}")

    def __repr__(self) -> str:
        return escape_controls(f"<RecheckedExplanation: {self}: {STATUS_MEANINGS[self.status]}>")

    def _repr_html_(self) -> str:
        return render_text(f"{self}\n{STATUS_MEANINGS[self.status]}.", self.verdict)


@dataclass(frozen=True, slots=True)
class Recheck(Sequence[RecheckedExplanation]):
    """What became of stored explanations, in their order."""

    items: tuple[RecheckedExplanation, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    @property
    def counts(self) -> Counter[str]:
        """How many there are of every status."""
        return Counter(item.status for item in self.items)

    def select(self, status: RecheckStatus) -> tuple[RecheckedExplanation, ...]:
        """Those with a status."""
        return tuple(item for item in self.items if item.status == status)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"counts": dict(self.counts), "explanations": [item.to_dict() for item in self.items]}

    def __str__(self) -> str:
        counts = self.counts
        lines = [f"{format_count(len(self), 'explanation')} rechecked."]
        lines += [f"{counts[one]:,} {one}: {meaning}." for one, meaning in STATUS_MEANINGS.items() if counts[one]]
        return join_lines([*lines, *map(str, self.select("breaks"))])

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)

"""Why a rule is long: which outliers, which rare categories, and which turns of the model cost components.

``Diagnosis`` is what ``Explainer.diagnose`` returns. Each of its findings speaks of one feature. Where a finding says
that fewer components "would do", a rule of that length is proven over the part of the space that the finding names, and
``constraint`` gives that part: ``explainer.where(finding.constraint)`` explains over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ironrule.hitting.weights import ExactNumber, number_to_json
from ironrule.results.display import format_diagnosis, render_diagnosis
from ironrule.rule.rule import Rule
from ironrule.wording import escape_controls, format_repr, render_text

FindingKind = Literal["outlier", "rare category", "not monotone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisFinding:
    """One cause of a long rule.

    ``saved`` is by how much rules would be shorter, at least, if only points that satisfy ``constraint`` could occur,
    weights counted; ``rule`` is then a rule that is proven. A place where the model is not monotone is named even if
    nothing is saved by leaving it out; it has no constraint and no rule then.
    """

    feature: str
    kind: FindingKind
    sentence: str
    saved: ExactNumber = 0
    constraint: str | None = None
    rule: Rule | None = None

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "feature": self.feature,
            "kind": self.kind,
            "sentence": self.sentence,
            "saved": number_to_json(self.saved),
            "constraint": self.constraint,
            "rule": None if self.rule is None else self.rule.to_dict(),
        }

    def __str__(self) -> str:
        return escape_controls(self.sentence)

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What makes a rule long, most effective first.

    ``lower_bound`` is what every consistent rule weighs at least, as the explanation says. So many restrictions of the
    space were ``tried``; ``undecided`` are those of which the budget, or a question that was too hard, left open
    whether they shorten the rule. ``reason`` says why none was tried, where that is so.
    """

    rule: Rule
    lower_bound: ExactNumber
    findings: tuple[DiagnosisFinding, ...]
    tried: int = 0
    undecided: int = 0
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain data."""
        return {
            "rule": self.rule.to_dict(),
            "lower_bound": number_to_json(self.lower_bound),
            "findings": [finding.to_dict() for finding in self.findings],
            "tried": self.tried,
            "undecided": self.undecided,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        return format_diagnosis(self)

    def __repr__(self) -> str:
        return f"<Diagnosis: {len(self.findings)} findings about {self.rule}>"

    def _repr_html_(self) -> str:
        return render_diagnosis(self)

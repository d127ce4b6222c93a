"""Verdicts, certificates and budgets."""

from ironrule.verdict.budget import Budget, Meter, Spent
from ironrule.verdict.certificate import Certificate, Cover, Cutting
from ironrule.verdict.quality import Quality
from ironrule.verdict.verdict import (
    Proven,
    Refuted,
    Unrefuted,
    Verdict,
    upper_bound,
    verdict_from_dict,
    verdict_to_dict,
)

__all__ = [
    "Budget",
    "Certificate",
    "Cover",
    "Cutting",
    "Meter",
    "Proven",
    "Quality",
    "Refuted",
    "Spent",
    "Unrefuted",
    "Verdict",
    "upper_bound",
    "verdict_from_dict",
    "verdict_to_dict",
]

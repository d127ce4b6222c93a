"""Verdicts: what is known about a rule. Three values, never a bool; and the quality classes of the paper.

``Proven``     no exception exists anywhere in the space, and here is the certificate.
``Refuted``    here is a point that satisfies the rule and has the desired outcome.
``Unrefuted``  searched, not proven: how many points were tried, the bound on the share of exceptions that follows, and
               the share of the box that is proven to hold none.

The bound is the exact binomial one of Clopper and Pearson (1934): of n points drawn uniformly from the box, none was
an exception; had a share p or more been exceptions, that would happen with probability (1 - p)^n at the most.

``Quality`` sorts rules as the paper's experiments do, each class to be proven: a rule fails on the past rows, or only
elsewhere in the space; or it holds, and then it may say too much, or be longer than it had to be (Geng, Schleich and
Suciu, "Computing Rule-Based Explanations by Leveraging Counterfactuals", VLDB 2022, sections 5.4 and 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import total_ordering
from typing import Any

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import InputError, describe_value
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.labels import Labels
from ironrule.verdict.certificate import Certificate
from ironrule.wording import format_count, format_percent_down, render_text, round_share_up


@dataclass(frozen=True, slots=True)
class Proven:
    """No exception exists in the space; the certificate lets others check that."""

    certificate: Certificate

    @property
    def details(self) -> str:
        """What stands behind the verdict."""
        return str(self.certificate)

    def __str__(self) -> str:
        return f"proven: {self.details}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.details}>"

    def _repr_html_(self) -> str:
        return render_text(self.details, self)


@dataclass(frozen=True, slots=True)
class Refuted:
    """The rule has an exception: ``counterfactual`` satisfies it and has the desired outcome."""

    counterfactual: Counterfactual
    points: Points = field(repr=False, compare=False)  # every exception found, as codes
    stopped: str | None = field(default=None, repr=False, compare=False)  # why looking for better ones ended early

    @property
    def details(self) -> str:
        """What stands behind the verdict."""
        return str(self.counterfactual)

    def __str__(self) -> str:
        return f"refuted: {self.details}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.details}>"

    def _repr_html_(self) -> str:
        return render_text(self.details, self)


@dataclass(frozen=True, slots=True)
class Unrefuted:
    """No exception was found, and none is excluded: ``exception_bound`` limits their share of the rule's box.

    ``tried`` counts every point of the box that the model was asked about; ``samples`` those among them that were
    drawn uniformly after the rule was chosen, which alone carry the bound. ``explored`` is the share of the box, by
    points, that an exact search had proven to hold no exception when it ended.
    """

    tried: int
    samples: int
    confidence: float
    explored: float = 0.0

    @property
    def exception_bound(self) -> float:
        """The Clopper-Pearson upper bound on the share of exceptions in the box."""
        return compute_exception_bound(self.samples, self.confidence)

    @property
    def details(self) -> str:
        """What stands behind the verdict."""
        text = f"no exception among {format_count(self.tried, 'point')} tried"
        if self.samples:
            most = f"at most {round_share_up(self.exception_bound):.2g} of the box are exceptions"
            text = f"{text}; with {format_percent_down(self.confidence)} confidence {most}"
        if self.explored:
            text = f"{text}; {format_percent_down(self.explored)} of the box is proven to hold none"
        return text

    def __str__(self) -> str:
        return f"unrefuted, not proven: {self.details}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: not proven; {self.details}>"

    def _repr_html_(self) -> str:
        return render_text(self.details, self)


NOT_SEARCHED = Unrefuted(tried=0, samples=0, confidence=0.0)
"""The verdict on a rule of which nothing was tried."""


Verdict = Proven | Refuted | Unrefuted


def compute_exception_bound(samples: int, confidence: float) -> float:
    """The largest share of exceptions under which seeing none in ``samples`` draws is not too unlikely.

    >>> round(compute_exception_bound(1000, 0.95), 5)
    0.00299
    """
    if samples == 0:
        return 1.0
    return -math.expm1(math.log1p(-confidence) / samples)  # 1 - doubt ** (1 / samples), without cancellation


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data; ``kind`` names it."""
    match verdict:
        case Proven(certificate):
            return {"kind": "proven", "certificate": certificate.to_dict()}
        case Refuted(counterfactual):
            return {"kind": "refuted", "counterfactual": counterfactual.to_dict()}
        case Unrefuted(tried, samples, confidence, explored):
            data = {"kind": "unrefuted", "tried": tried, "samples": samples, "confidence": confidence}
            return data | {"exception_bound": verdict.exception_bound} | ({"explored": explored} if explored else {})


def verdict_from_dict(data: Mapping[str, Any]) -> Verdict:
    """The verdict that :func:`verdict_to_dict` wrote."""
    match data["kind"]:
        case "proven":
            return Proven(Certificate.from_dict(data["certificate"]))
        case "refuted":
            return Refuted(Counterfactual.from_dict(data["counterfactual"]), np.empty((0, 0), dtype=np.int32))
        case "unrefuted":
            return Unrefuted(data["tried"], data["samples"], data["confidence"], data.get("explored", 0.0))
        case other:
            raise InputError(expected="a verdict must be proven, refuted or unrefuted", got=describe_value(other))


def label_verdict(verdict: Verdict, labels: Labels) -> Verdict:
    """The same verdict, its counterfactual shown with these labels."""
    if not isinstance(verdict, Refuted):
        return verdict
    return replace(verdict, counterfactual=verdict.counterfactual.with_labels(labels))


@total_ordering
class Quality(Enum):
    """What is proven of a rule, from worst to best.

    What is not judged comes first of all, so that ``quality >= Quality.REDUNDANT`` always says that it is proven.

    >>> Quality.FAILED_GLOBAL < Quality.REDUNDANT < Quality.MINIMUM
    True
    >>> print(Quality.IRREDUNDANT)
    irredundant but not minimum
    """

    NOT_JUDGED = "not judged"
    FAILED_DATA = "failed data consistency"
    FAILED_GLOBAL = "failed global consistency"
    REDUNDANT = "consistent but redundant"
    IRREDUNDANT = "irredundant but not minimum"
    MINIMUM = "minimum"

    @property
    def rank(self) -> int:
        """The place in the order, from 0."""
        return list(type(self)).index(self)

    def __lt__(self, other: Quality) -> bool:
        return self.rank < other.rank

    def __str__(self) -> str:
        return str(self.value)

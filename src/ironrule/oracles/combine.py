"""Oracles made of other oracles.

``SearchThenProve`` is the oracle for black boxes: search first; where nothing is found and the box is small, enumerate
it for a proof. ``VerifiedOracle`` stands around an oracle that a user has written: its word alone proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.errors import InputError
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.protocol import Case, Oracle
from ironrule.oracles.sampling import Sampling
from ironrule.rule.box import Box
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Refuted, Unrefuted, Verdict


@dataclass(frozen=True, slots=True)
class SearchThenProve:
    """Asks ``searcher``; what it leaves unrefuted goes to ``prover``, which may leave it so."""

    searcher: Oracle = field(default_factory=GeCo)
    prover: Oracle = field(default_factory=lambda: Exhaustive(limit=20_000))

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """The searcher's counterfactuals, or whatever the prover makes of a box without any."""
        verdict = self.searcher.find(case, box, k, meter, rng)
        if not isinstance(verdict, Unrefuted):
            return verdict
        # Where the prover is undecided too, the searcher's verdict stays: it says how much was tried.
        answer = self.prover.find(case, box, k, meter, rng)
        return verdict if isinstance(answer, Unrefuted) else answer


@dataclass(frozen=True, slots=True)
class VerifiedOracle:
    """Take from an oracle only what the model confirms.

    Points that it calls counterfactuals must lie in the box, be feasible, and get the desired outcome from the model.
    Neither its proofs nor its bounds are taken over: the driver checks the rule that a search ends with by itself.
    """

    oracle: Oracle

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """``Refuted`` where the oracle's points are counterfactuals, ``Unrefuted`` where it found none."""
        verdict = self.oracle.find(case, box, k, meter, rng)
        if not isinstance(verdict, Refuted):
            return Unrefuted(tried=0, samples=0, confidence=0.0)
        points = verdict.points
        feasible = box.contains(points) & case.feasible.admits(points)
        if not feasible.all() or not meter.desired(case.model, points).all():
            raise InputError(
                expected="an oracle must answer with points of the box that the model gives the desired outcome",
                got=f"another point from {type(self.oracle).__name__}",
                hint="look at the points that its find method returns",
                code="wrong-oracle-answer",
            )
        return verdict


def verify_oracle(oracle: Oracle) -> Oracle:
    """An oracle of this package as it is, any other one verified."""
    if type(oracle) is SearchThenProve:
        return SearchThenProve(verify_oracle(oracle.searcher), verify_oracle(oracle.prover))
    return oracle if type(oracle) in (Exhaustive, GeCo, Sampling, VerifiedOracle) else VerifiedOracle(oracle)

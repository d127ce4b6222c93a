"""Oracles made of other oracles.

``SearchThenProve`` is the oracle for black boxes: search first; where nothing is found and the box is small, enumerate
it for a proof. ``VerifiedOracle`` stands around an oracle that a user has written: its word alone proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, cast

from ironrule.errors import InputError
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Oracle, Run, UserOracle
from ironrule.oracles.sampling import Sampling
from ironrule.verdict.verdict import NOT_SEARCHED, Refuted, Unrefuted, Verdict


@dataclass(frozen=True, slots=True)
class SearchThenProve:
    """Asks ``searcher``; what it leaves unrefuted goes to ``prover``, which may leave it so."""

    searcher: UserOracle = field(default_factory=GeCo)
    prover: UserOracle = field(default_factory=lambda: Exhaustive(limit=20_000))
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """The searcher's counterfactuals, or what the prover makes of a box without any."""
        verdict = self.searcher.find(query, run)
        if not isinstance(verdict, Unrefuted):
            return verdict
        # Where the prover is undecided too, the searcher's verdict stays: it says how much was tried.
        answer = self.prover.find(query, run)
        return verdict if isinstance(answer, Unrefuted) else answer


@dataclass(frozen=True, slots=True)
class VerifiedOracle:
    """Take from an oracle only what the model confirms.

    Points that it calls counterfactuals must lie in the box, be feasible, and get the desired outcome from the model.
    Neither its proofs nor its bounds are taken over: the driver checks the rule that a search ends with by itself.
    """

    oracle: UserOracle
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """``Refuted`` where the oracle's points are counterfactuals, ``Unrefuted`` where it found none."""
        verdict = self.oracle.find(query, run)
        if not isinstance(verdict, Refuted):
            return NOT_SEARCHED
        points = verdict.points
        feasible = query.box.contains(points) & query.case.feasible.admits(points)
        if not feasible.all() or not run.meter.desired(query.case.model, points).all():
            raise InputError(
                expected="an oracle must answer with points of the box that the model gives the desired outcome",
                got=f"another point from {type(self.oracle).__name__}",
                hint="look at the points that its find method returns",
                code="wrong-oracle-answer",
            )
        return verdict


def verify_oracle(oracle: UserOracle) -> Oracle:
    """An oracle of this package as it is, any other one verified."""
    if type(oracle) is SearchThenProve:
        return SearchThenProve(verify_oracle(oracle.searcher), verify_oracle(oracle.prover))
    # By its exact type: a subclass of one of ours may answer otherwise.
    is_ours = type(oracle) in (Exhaustive, GeCo, Sampling, VerifiedOracle)
    return cast("Oracle", oracle) if is_ours else VerifiedOracle(oracle)

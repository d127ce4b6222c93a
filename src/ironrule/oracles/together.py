"""Exact searches of different kinds as one oracle: a rule that must hold for a forest and for a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.networks import Networks
from ironrule.oracles.protocol import Case
from ironrule.oracles.several import several
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Cutting, Meter, Unrefuted, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Asks one after the other; covers come in their order."""

    parts: tuple[Ensemble | Networks, ...]

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if no part has any; ``Unrefuted`` where one is unsure
        and none has any.
        """
        answer = self.one(case, box, meter, rng)
        if answer is None:
            return Unrefuted(tried=0, samples=0, confidence=0.0)
        if isinstance(answer, tuple):
            return case.proven(box, len(answer), answer)
        brief = Together(tuple(part.brief for part in self.parts))
        return case.refuted(several(answer, brief.one, case, box, k, meter, rng))

    def one(self, case: Case, box: Box, meter: Meter, rng: np.random.Generator) -> Points | tuple[Cutting, ...] | None:
        """A counterfactual, what proves that there is none, or None where a limit was reached."""
        proofs, unsure = list[Cutting](), False
        for part in self.parts:
            answer = part.one(case, box, meter, rng)
            if isinstance(answer, np.ndarray):
                return answer
            unsure |= answer is None
            proofs += answer or ()
        return None if unsure else tuple(proofs)

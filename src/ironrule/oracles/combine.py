"""The oracle for black boxes: search first; where nothing is found and the box is small, enumerate it for a proof."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.protocol import Case, Oracle
from ironrule.rule.box import Box
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Unrefuted, Verdict


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
        answer = self.prover.find(case, box, k, meter, rng)
        return verdict if isinstance(answer, Unrefuted) else answer

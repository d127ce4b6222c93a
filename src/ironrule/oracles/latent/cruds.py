"""CRUDS (Downs, Chu, Yacoby, Doshi-Velez, Pan: "CRUDS: Counterfactual Recourse Using Disentangled Subspaces", ICML
Workshop on Human Interpretability in Machine Learning 2020).

A conditional subspace autoencoder learns past rows with their outcomes: what has to do with the outcome is apart from
all else. The instance keeps all else; for what has to do with the outcome, places are drawn where desired rows lie. The
rows that this gives are decoded; those that break a constraint are dropped, the model is asked about the others, and
the nearest desired ones are the answer. Protected and immutable features are conditions and do not change. The model
is only asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.parameters import require_count
from ironrule.oracles.latent.dense_network import AutoencoderTraining
from ironrule.oracles.latent.subspace_autoencoder import DESIRED_PLACE, fit_to_past_outcomes
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Unrefuted, Verdict


@dataclass(frozen=True, slots=True)
class CRUDS:
    """Draws ``samples`` places of desired rows in a subspace of so many dimensions."""

    samples: int = 2_000
    subspace: int = 2
    training: AutoencoderTraining = field(default_factory=AutoencoderTraining)
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_count(samples=self.samples, subspace=self.subspace)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, nearest first; ``Unrefuted`` if none of what was drawn is one."""
        before = run.meter.evaluations
        search = CandidateSearch.build(query, run)
        if search is not None:
            fitted = fit_to_past_outcomes(search, self.training, self.subspace, "CRUDS")
            places = DESIRED_PLACE + run.rng.standard_normal((self.samples, self.subspace))
            found = search.sort_by_distance(search.ask(search.decode(fitted.decode_desired(search.center, places))))
            if len(found):
                return query.case.build_refuted(found[: query.k])
        return Unrefuted(tried=run.meter.evaluations - before, samples=0, confidence=0.0)

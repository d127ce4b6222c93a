"""C-CHVAE (Pawelczyk, Broelemann, Kasneci: "Learning Model-Agnostic Counterfactual Explanations for Tabular Data",
WWW 2020).

Growing Spheres in the latent space of a conditional variational autoencoder: latent vectors are drawn from layers
around that of the instance, and decoded. What lies near in the latent space is connected with the instance by rows that
resemble past ones, so that counterfactuals are plausible rather than few changes away. Protected and immutable
features are conditions of the autoencoder and do not change. The model is only asked.

With an autoencoder that changes nothing this is Growing Spheres without its last step, which undoes changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ironrule.arrays import Points
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.growing_spheres import FoundInLayer, answer_from_layers, draw_in_layer, search_layers
from ironrule.oracles.heuristics.parameters import require_count, require_positive
from ironrule.oracles.latent.autoencoder import Autoencoder, prepare_autoencoder
from ironrule.oracles.latent.dense_network import AutoencoderTraining
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict


@dataclass(frozen=True, slots=True)
class CCHVAE:
    """Draws ``samples`` latent vectors per layer; layers are ``step`` thick, the first ball has the radius ``radius``,
    and the last layer ends at ``limit``. An ``autoencoder`` takes the place of one that learns the past rows.
    """

    samples: int = 1_000
    radius: float = 0.2
    step: float = 0.2
    limit: float = 8.0
    training: AutoencoderTraining = field(default_factory=AutoencoderTraining)
    autoencoder: Autoencoder | None = None
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_count(samples=self.samples)
        require_positive(radius=self.radius, step=self.step, limit=self.limit)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals of the innermost layer that has some, nearest first; ``Unrefuted`` if none has."""
        return answer_from_layers(query, run, self._look, undo_changes=False)

    def _look(self, search: CandidateSearch) -> FoundInLayer:
        autoencoder = prepare_autoencoder(self.autoencoder, self.training, search, "C-CHVAE")
        if len(search.columns) == 0:  # nothing may change
            return search.ask(search.start[None, :]), None
        center = autoencoder.encode(search.center[None, :])

        def draw_layer(inner: float, outer: float) -> Points:
            latents = center + draw_in_layer(search.run.rng, self.samples, center.shape[1], inner, outer)
            return search.sort_by_distance(search.ask(search.decode(autoencoder.decode(latents))))

        return search_layers(draw_layer, radius=self.radius, step=self.step, limit=self.limit)

"""GeCo's population: candidates as deltas, who is a counterfactual, and who survives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.oracles.geco.deltas import Deltas, Hashing, join
from ironrule.oracles.geco.distance import Distance
from ironrule.oracles.geco.operators import cascade, crossover, mutate, mutate_selectively
from ironrule.oracles.geco.options import Options
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.verdict import Meter

SELECTIVE = 24


def _nobody() -> Deltas:
    return Deltas(np.empty((0, 1), dtype=np.int32), np.empty((0, 1), dtype=np.int32))


@dataclass(slots=True, eq=False)
class Population:
    """The candidates of one query. The model is asked about each candidate once, whatever generation makes it again."""

    case: Case
    box: Box
    options: Options
    distance: Distance
    hashing: Hashing
    meter: Meter
    rng: np.random.Generator
    limit: int
    members: Deltas = field(default_factory=_nobody)
    desired: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    seen: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1, dtype=np.uint64))
    tried: int = 0

    @property
    def found(self) -> bool:
        """Whether some member is a counterfactual."""
        return bool(self.desired.any())

    def admit(self, newcomers: Deltas) -> None:
        """Ask the model about the newcomers not seen before, and keep the fittest of all."""
        fresh = self._unseen(cascade(self.rng, self.case, self.box, newcomers))
        if len(fresh) == 0:
            return
        self.tried += len(fresh)
        desired = self.meter.desired(self.case.model, fresh.expand(self.case.instance))
        members = join([self.members, fresh])
        flags = np.concatenate([self.desired, desired])
        order = np.lexsort((self.distance(members), ~flags))[: self._room(int(flags.sum()))]
        self.members, self.desired = members[order], flags[order]

    def _room(self, counterfactuals: int) -> int:
        """The limit holds for candidates; counterfactuals may be twice as many, for diversity."""
        return max(self.limit, min(counterfactuals, 2 * self.limit))

    def _unseen(self, candidates: Deltas) -> Deltas:
        """The candidates that no earlier one equals; ``seen`` stays sorted, with the instance's own hash 0 at its head."""
        hashes = self.hashing(candidates)
        order = np.argsort(hashes, kind="stable")
        ranked = hashes[order]
        places = np.searchsorted(self.seen, ranked, side="right") - 1
        new = self.seen[places] != ranked
        new[1:] &= ranked[1:] != ranked[:-1]
        self.seen = np.sort(np.concatenate([self.seen, ranked[new]]), kind="stable")
        return candidates[np.sort(order[new])]

    def forget(self) -> None:
        """Begin anew; what the model was asked stays remembered."""
        self.members, self.desired = _nobody(), np.zeros(0, dtype=np.bool_)

    def children(self, mutations: int, crossovers: int) -> Deltas:
        """Mutations of every member, and crossings of pairs."""
        if len(self.members) == 0:
            return self.options.singles(self.rng, self.limit)
        instance = self.case.instance
        mutated = mutate(self.rng, self.members, self.options, mutations, instance)
        return join([mutated, crossover(self.rng, self.members, crossovers, instance)])

    def nearer(self) -> Deltas:
        """Selective mutations of the best counterfactuals."""
        ordered = np.array([feature.ordered for feature in self.case.space.features])
        return mutate_selectively(self.counterfactuals()[:SELECTIVE], ordered, self.case.instance)

    def counterfactuals(self) -> Deltas:
        """The counterfactuals, nearest first."""
        return self.members[self.desired]

    def best(self, k: int) -> npt.NDArray[np.uint64]:
        """The best k counterfactuals, as hashes."""
        return self.hashing(self.counterfactuals()[slice(0, k)])

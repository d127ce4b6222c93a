"""GeCo's population: candidates as deltas, who is a counterfactual, and who survives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.oracles.geco.deltas import Deltas, Hashing, join
from ironrule.oracles.geco.distance import Distance
from ironrule.oracles.geco.operators import cascade, crossover, mutate, mutate_selectively
from ironrule.oracles.geco.options import Options
from ironrule.oracles.geco.refine import nearest_of_each_dual
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.verdict import Meter

SELECTIVE = 24
ARCHIVED = 500
Flags = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]


def _nobody() -> Deltas:
    return Deltas(np.empty((0, 1), dtype=np.int32), np.empty((0, 1), dtype=np.int32))


@dataclass(slots=True, eq=False)
class Population:
    """The candidates of one query. The model is asked about each candidate once, whatever generation makes it again.

    ``seen`` holds the hashes of those it was asked about, sorted, and ``answers`` what it said of each; the instance
    itself, whose hash is 0, counts as asked. ``archive`` keeps the nearest counterfactual of every dual met, whoever
    survives: near variants of one change must not crowd out a different one.
    """

    case: Case
    box: Box
    options: Options
    distance: Distance
    hashing: Hashing
    meter: Meter
    rng: np.random.Generator
    limit: int
    members: Deltas = field(default_factory=_nobody)
    desired: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    seen: Hashes = field(default_factory=lambda: np.zeros(1, dtype=np.uint64))
    answers: Flags = field(default_factory=lambda: np.zeros(1, dtype=np.bool_))
    archive: Deltas = field(default_factory=_nobody)
    tried: int = 0

    @property
    def found(self) -> bool:
        """Whether some member is a counterfactual."""
        return bool(self.desired.any())

    def admit(self, newcomers: Deltas) -> None:
        """Ask the model about the newcomers not seen before, as many as the budget allows; keep the fittest of all."""
        candidates = cascade(self.rng, self.case, self.box, newcomers)
        hashes = self.hashing(candidates)
        fresh = self._unseen(hashes)[: max(1, self.meter.affordable)]
        if len(fresh) == 0:
            return
        desired = self._ask(candidates[fresh], hashes[fresh])
        if desired.any():
            found = join([self.archive, candidates[fresh][desired]])
            self.archive = nearest_of_each_dual(self.case, found, self.distance)[slice(0, ARCHIVED)]
        members = join([self.members, candidates[fresh]])
        flags = np.concatenate([self.desired, desired])
        order = np.lexsort((self.distance(members), ~flags))[: self._room(int(flags.sum()))]
        self.members, self.desired = members[order], flags[order]

    def _room(self, counterfactuals: int) -> int:
        """The limit holds for candidates; counterfactuals may be twice as many, for diversity."""
        return max(self.limit, min(counterfactuals, 2 * self.limit))

    def desired_among(self, candidates: Deltas) -> Flags:
        """Which candidates are desired; the model is asked about those not seen before, and none becomes a member."""
        hashes = self.hashing(candidates)
        fresh = self._unseen(hashes)
        if len(fresh):
            self._ask(candidates[fresh], hashes[fresh])
        return np.asarray(self.answers[np.searchsorted(self.seen, hashes)])

    def _unseen(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """The places of the hashes that are new, and that no earlier one equals."""
        distinct, first = np.unique(hashes, return_index=True)
        places = np.searchsorted(self.seen, distinct, side="right") - 1
        return np.sort(first[self.seen[places] != distinct])

    def _ask(self, fresh: Deltas, hashes: Hashes) -> Flags:
        desired = self.meter.desired(self.case.model, fresh.expand(self.case.instance))
        self.tried += len(fresh)
        order = np.argsort(hashes)
        places = np.searchsorted(self.seen, hashes[order])
        self.seen = np.insert(self.seen, places, hashes[order])
        self.answers = np.insert(self.answers, places, desired[order])
        return desired

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

    def best(self, k: int) -> Hashes:
        """The best k counterfactuals, as hashes."""
        return self.hashing(self.counterfactuals()[slice(0, k)])

"""An oracle that remembers: every box is asked about once, and a counterfactual found for one box refutes others.

A counterfactual without useless changes has none in any box that holds it, so what was found once needs no more work.
And a box inside one where nothing was found is not searched again, unless the oracle reads the model: what it could
not decide on the whole it may well prove of a part. That nothing was found is only believed until a counterfactual
turns up there. Where an oracle's proofs are dear, one grows out of another (:mod:`ironrule.oracles.grafting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ironrule.errors import IronruleError
from ironrule.oracles.gathering import Gathered, Sought
from ironrule.oracles.grafting import Beyond, Proofs
from ironrule.oracles.protocol import Case, Oracle, Witnesses
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Refuted, Spent, Unrefuted, Verdict

FEW = 40  # points that are compared with all that are known


@dataclass(slots=True, eq=False)
class Remembering:
    """One search's memory round an oracle."""

    oracle: Oracle
    known: dict[bytes, tuple[Box, Verdict]] = field(default_factory=dict)
    points: Points | None = None
    doubtful: set[bytes] = field(default_factory=set)  # which of these were searched in vain
    clean: list[Box] = field(default_factory=list)  # boxes that the oracle itself has searched in vain
    all_known: bool = False  # whether the points speak for all counterfactuals
    reads: bool = False  # whether the oracle reads the model: then its word is worth more than any sample
    proofs: Proofs = field(default_factory=Proofs)

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """The answer known for this box, a known counterfactual that lies in it, or else the oracle's."""
        verdict = self.recall(box)
        if verdict is None:
            verdict = self._inferred(case, box, k) or self._ask(self.oracle, case, box, k, meter, rng)
            self._note(box, verdict)
        return verdict

    def try_for(self, share: float, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """The same with a share of the oracle's usual patience, where it has any to share; what it left undecided is
        tried anew.
        """
        verdict = self.recall(box)
        if not hasattr(self.oracle, "patient"):
            return self.find(case, box, k, meter, rng)
        if verdict is None or isinstance(verdict, Unrefuted):
            some = self.oracle.patient(share)
            verdict = self._inferred(case, box, k) or self._ask(some, case, box, k, meter, rng)
            self._note(box, verdict)
        return verdict

    @property
    def has_patience(self) -> bool:
        """Whether the oracle can try for a shorter or a longer while."""
        return hasattr(self.oracle, "patient")

    def recall(self, box: Box) -> Verdict | None:
        """The answer known for a box, if it was asked about."""
        _, verdict = self.known.get(_key(box), (box, None))
        return verdict

    def witnesses(self, case: Case, meter: Meter) -> Witnesses | None:
        """Counterfactuals that speak for all, where the oracle can name them; they are remembered."""
        named: Witnesses | None = self.oracle.witnesses(case) if hasattr(self.oracle, "witnesses") else None
        if named is not None:
            meter.events["oracle calls"] += 1
            self._add(named.points)
            self.all_known = True
        return named

    @property
    def gathers(self) -> bool:
        """Whether the oracle has a way to look for counterfactuals that are easily found."""
        return hasattr(self.oracle, "gather")

    def gather(
        self, case: Case, sought: Sought, rounds: int, meter: Meter, rng: np.random.Generator
    ) -> Iterator[Gathered]:
        """Such counterfactuals; all is remembered."""
        if not hasattr(self.oracle, "gather"):
            return
        for some in self.oracle.gather(case, sought, rounds, rng):
            meter.events["oracle calls"] += len(some.points)
            meter.events["boxes"] += some.boxes
            if len(some.points):
                self._add(some.points)
            if some.proof is not None and some.rule is not None:
                meter.events["oracle calls"] += 1
                box = case.relevant.box(some.rule)
                verdict = case.proven(box, some.proof.pieces, (some.proof,))
                self._note(box, verdict)
                self.proofs.add(box, verdict)
            yield some
            meter.check()

    def learn(self, points: Points) -> None:
        """Remember counterfactuals that were found elsewhere; what was thought unrefuted must be asked again."""
        self._add(points)
        self._forget(lambda _: True)

    def _inferred(self, case: Case, box: Box, k: int) -> Verdict | None:
        """What follows from earlier answers; an oracle that could name all counterfactuals is as quick itself."""
        if self.all_known:
            return None
        return self._from_points(case, box, k) or (None if self.reads else self._from_larger(box))

    def _from_points(self, case: Case, box: Box, k: int) -> Refuted | None:
        if self.points is None:
            return None
        inside = self.points[box.contains(self.points)]
        if len(inside) == 0:
            return None
        nearest = np.argsort(np.count_nonzero(inside != case.instance, axis=1), kind="stable")
        return case.refuted(inside[nearest[:k]])

    def _from_larger(self, box: Box) -> Verdict | None:
        """A box inside one that was searched in vain is left; a proven one has a certificate of its own, made anew."""
        for larger in self.clean:
            if (larger.low <= box.low).all() and (larger.high >= box.high).all():
                return Unrefuted(tried=0, samples=0, confidence=0.0)
        return None

    def _ask(self, oracle: Oracle, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        meter.events["oracle calls"] += 1
        if getattr(oracle, "grows", False) and (inner := self.proofs.inside(box)) is not None:
            oracle = Beyond(oracle, *inner)
        try:
            verdict = oracle.find(case, box, k, meter, rng)
        except Spent as spent:
            if spent.known is not None:
                self._note(box, spent.known)
            if isinstance(spent.known, Refuted):
                self._add(spent.known.points)
            raise
        if isinstance(verdict, Refuted):
            if not box.contains(verdict.points).all():
                raise IronruleError(
                    "an oracle answered with points outside the box that it was asked about",
                    hint="please report this model",
                )
            self._add(verdict.points)
            if verdict.stopped:
                raise Spent if verdict.stopped == "budget" else KeyboardInterrupt
        elif isinstance(verdict, Unrefuted):
            self.clean.append(box)
        else:
            self.proofs.add(box, verdict)
        return verdict

    def _add(self, points: Points) -> None:
        known = self.points
        if known is None:
            self.points = points
        elif len(points) > FEW:
            self.points = np.unique(np.concatenate([known, points]), axis=0)
        else:
            new = ~(known == points[:, None, :]).all(axis=2).any(axis=1)
            self.points = np.concatenate([known, points[new]])
        self._forget(lambda box: bool(box.contains(points).any()))

    def _note(self, box: Box, verdict: Verdict) -> None:
        key = _key(box)
        self.known[key] = (box, verdict)
        if isinstance(verdict, Unrefuted):
            self.doubtful.add(key)
        else:
            self.doubtful.discard(key)

    def _forget(self, refuted: Callable[[Box], bool]) -> None:
        """Boxes that were searched in vain, where that is no longer to be believed."""
        gone = {key for key in self.doubtful if refuted(self.known[key][0])}
        self.doubtful -= gone
        for key in gone:
            del self.known[key]
        self.clean = [box for box in self.clean if not refuted(box)]


def _key(box: Box) -> bytes:
    return box.low.tobytes() + box.high.tobytes()

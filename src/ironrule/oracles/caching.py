"""Cache an oracle's answers during one search.

A search asks about many overlapping boxes. This wrapper asks the wrapped oracle only when it must:

1. the same box was answered before: return that answer, unless it was undecided and the search asks with other effort;
2. a counterfactual found earlier lies in the box: the box is refuted by it (a counterfactual without useless changes
   has none in any box that contains it, so it needs no more work);
3. the wrapped oracle only searches (it cannot prove), and an enclosing box was searched without success: do not search
   again. An exact oracle is asked all the same: what it could not decide on the whole it may well prove of a part.

A new counterfactual invalidates every cached "nothing found" whose box contains it. Where proofs are expensive, a new
one starts from the largest proven box inside (:mod:`ironrule.oracles.proof_covers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ironrule.arrays import Points
from ironrule.errors import IronruleError
from ironrule.oracles.capabilities import CompleteDuals, MiningRequest, MiningResult
from ironrule.oracles.proof_covers import ProofExtender, ProvenBoxes
from ironrule.oracles.protocol import Case, Oracle
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.verdict import Refuted, Unrefuted, Verdict

MAX_COMPARED_POINTS = 40  # points that are compared with all that are known


@dataclass(slots=True, eq=False)
class CachingOracle:
    """The answers of an oracle during one search."""

    oracle: Oracle
    answers: dict[bytes, tuple[Box, Verdict]] = field(default_factory=dict)
    points: Points | None = None
    undecided: set[bytes] = field(default_factory=set)  # which of these were searched in vain
    searched: list[Box] = field(default_factory=list)  # boxes that the oracle itself has searched in vain
    has_all_duals: bool = False  # whether the points speak for all counterfactuals
    exact: bool = False  # whether the oracle reads the model: then its answer is worth more than any sample
    proven_boxes: ProvenBoxes = field(default_factory=ProvenBoxes)

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """The answer known for this box, a known counterfactual that lies in it, or else the oracle's."""
        verdict = self.lookup(box)
        if verdict is None:
            verdict = self._infer(case, box, k) or self._ask(self.oracle, case, box, k, meter, rng)
            self._store(box, verdict)
        return verdict

    def find_with_effort(
        self, effort: float, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator
    ) -> Verdict:
        """The same with a share of the oracle's usual effort, where that can be adjusted; what it left undecided is
        tried anew.
        """
        verdict = self.lookup(box)
        if not hasattr(self.oracle, "with_effort"):
            return self.find(case, box, k, meter, rng)
        # A proof or a counterfactual is final; "undecided" is not, since more effort may decide the box.
        if verdict is None or isinstance(verdict, Unrefuted):
            some = self.oracle.with_effort(effort)
            verdict = self._infer(case, box, k) or self._ask(some, case, box, k, meter, rng)
            self._store(box, verdict)
        return verdict

    @property
    def has_adjustable_effort(self) -> bool:
        """Whether the oracle can try for a shorter or a longer while."""
        return hasattr(self.oracle, "with_effort")

    def lookup(self, box: Box) -> Verdict | None:
        """The answer known for a box, if it was asked about."""
        _, verdict = self.answers.get(_build_box_key(box), (box, None))
        return verdict

    def enumerate_duals(self, case: Case, meter: Meter) -> CompleteDuals | None:
        """Counterfactuals that speak for all, where the oracle can name them; they are remembered."""
        complete: CompleteDuals | None = (
            self.oracle.enumerate_duals(case) if hasattr(self.oracle, "enumerate_duals") else None
        )
        if complete is not None:
            meter.events["oracle calls"] += 1
            self._add_points(complete.points)
            self.has_all_duals = True
        return complete

    @property
    def has_miner(self) -> bool:
        """Whether the oracle has a way to look for counterfactuals that are easily found."""
        return hasattr(self.oracle, "mine")

    def mine(
        self, case: Case, request: MiningRequest, rounds: int, meter: Meter, rng: np.random.Generator
    ) -> Iterator[MiningResult]:
        """Counterfactuals that are easily found, in portions; they and any proofs are kept in the cache."""
        if not hasattr(self.oracle, "mine"):
            return
        # Each portion is stored before it is handed on: if the search stops here, its counterfactuals and proofs are
        # kept.
        for some in self.oracle.mine(case, request, rounds, rng):
            meter.events["oracle calls"] += len(some.points)
            meter.events["boxes"] += some.boxes
            if len(some.points):
                self._add_points(some.points)
            if some.proof is not None and some.rule is not None:
                meter.events["oracle calls"] += 1
                box = case.components.box(some.rule)
                verdict = case.build_proven(box, some.proof.pieces, (some.proof,))
                self._store(box, verdict)
                self.proven_boxes.add(box, verdict)
            yield some
            meter.check()

    def add_counterfactuals(self, points: Points) -> None:
        """Remember counterfactuals that were found elsewhere; what was thought unrefuted must be asked again."""
        self._add_points(points)
        self._invalidate(lambda _: True)

    def _infer(self, case: Case, box: Box, k: int) -> Verdict | None:
        """What follows from earlier answers. An oracle that can list all duals is as quick itself, so it is asked."""
        if self.has_all_duals:
            return None
        return self._infer_from_points(case, box, k) or (None if self.exact else self._infer_from_larger(box))

    def _infer_from_points(self, case: Case, box: Box, k: int) -> Refuted | None:
        if self.points is None:
            return None
        inside = self.points[box.contains(self.points)]
        if len(inside) == 0:
            return None
        # Those that change the fewest features come first: they usually have small duals, which demand most of a
        # rule.
        nearest = np.argsort(np.count_nonzero(inside != case.instance, axis=1), kind="stable")
        return case.build_refuted(inside[nearest[:k]])

    def _infer_from_larger(self, box: Box) -> Verdict | None:
        """``Unrefuted`` if a larger box was searched without success. Proofs are not inherited."""
        # A search of a larger box that found nothing has looked at this box too.
        for larger in self.searched:
            if (larger.low <= box.low).all() and (larger.high >= box.high).all():
                return Unrefuted(tried=0, samples=0, confidence=0.0)
        return None

    def _ask(self, oracle: Oracle, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        meter.events["oracle calls"] += 1
        # If a large part of the box is proven already, only the slabs around it are asked about.
        if getattr(oracle, "extends_proofs", False) and (inner := self.proven_boxes.find_inside(box)) is not None:
            oracle = ProofExtender(oracle, *inner)
        try:
            verdict = oracle.find(case, box, k, meter, rng)
        # What the oracle had when the budget ended is stored, so that the final answer can use it; then the search
        # stops.
        except BudgetExhausted as spent:
            if spent.partial_verdict is not None:
                self._store(box, spent.partial_verdict)
            if isinstance(spent.partial_verdict, Refuted):
                self._add_points(spent.partial_verdict.points)
            raise
        if isinstance(verdict, Refuted):
            if not box.contains(verdict.points).all():
                raise IronruleError(
                    "an oracle answered with points outside the box that it was asked about",
                    hint="please report this model",
                )
            self._add_points(verdict.points)
            # The oracle stopped early but has counterfactuals: they are kept, and the search is stopped now.
            if verdict.stopped:
                raise BudgetExhausted if verdict.stopped == "budget" else KeyboardInterrupt
        elif isinstance(verdict, Unrefuted):
            self.searched.append(box)
        else:
            self.proven_boxes.add(box, verdict)
        return verdict

    def _add_points(self, points: Points) -> None:
        known = self.points
        if known is None:
            self.points = points
        # Many new points: sort and remove duplicates. Few: compare each with all known ones, which keeps their order.
        elif len(points) > MAX_COMPARED_POINTS:
            self.points = np.unique(np.concatenate([known, points]), axis=0)
        else:
            new = ~(known == points[:, None, :]).all(axis=2).any(axis=1)
            self.points = np.concatenate([known, points[new]])
        # "Nothing found" is now wrong for every box that holds one of these points.
        self._invalidate(lambda box: bool(box.contains(points).any()))

    def _store(self, box: Box, verdict: Verdict) -> None:
        key = _build_box_key(box)
        self.answers[key] = (box, verdict)
        if isinstance(verdict, Unrefuted):
            self.undecided.add(key)
        else:
            self.undecided.discard(key)

    def _invalidate(self, refuted: Callable[[Box], bool]) -> None:
        """Forget all "nothing found" answers about boxes for which ``refuted`` is true."""
        gone = {key for key in self.undecided if refuted(self.answers[key][0])}
        self.undecided -= gone
        for key in gone:
            del self.answers[key]
        self.searched = [box for box in self.searched if not refuted(box)]


def _build_box_key(box: Box) -> bytes:
    return box.low.tobytes() + box.high.tobytes()

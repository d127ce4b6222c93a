"""The exact oracle for models read as forests: ascent, then branch and bound over cells, with a proof at its end.

Its counterfactuals lie where rounding in the model's own arithmetic cannot turn the decision; a point where it could
is put to the model itself. Each counterfactual is pulled back towards the instance, which makes its dual small. A
proof is a cover of the box for every alternative of the model. Workspaces go back to a pool, so that the next query
need not allocate any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ironrule.arrays import Int64Array, Points
from ironrule.backends.forest.branch_and_bound import FOUND, PROVEN, UNSURE, ParallelSearch, record_denied
from ironrule.backends.forest.compile import CompiledForest, compute_least_margins
from ironrule.backends.forest.mining import (
    ASK_MODEL,
    RULE_HOLDS,
    SearchLog,
    find_by_ascent,
    mine_counterfactuals,
)
from ironrule.backends.forest.workspace import (
    DEPTH,
    LOG_END,
    LOG_LENGTH,
    MAX_DEPTH,
    ForestWorkspace,
    allocate_forest_workspace,
)
from ironrule.backends.nearest import fill_nearest_codes
from ironrule.model.intervals import Gaps
from ironrule.oracles.protocol import (
    BoxQuery,
    Capabilities,
    Case,
    MiningRequest,
    MiningResult,
    Run,
    find_disjoint_counterfactuals,
)
from ironrule.rule.box import Box
from ironrule.verdict.verdict import NOT_SEARCHED, Verdict

LOW_EFFORT_BOXES = 20  # boxes looked at for a further counterfactual, which nothing depends on
MEDIUM_EFFORT_BOXES = 200_000
HISTORY_STARTS = 32  # past rows pulled into a box, the best of which is a start to climb from


class WorkspacePool:
    """Free workspaces, by the place of their forest; any thread may take one. A pickled pool comes back empty."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: dict[int, list[ForestWorkspace]] = {}

    def acquire(self, place: int, forest: CompiledForest) -> ForestWorkspace:
        """A workspace for a forest; it may still hold the values of an earlier search."""
        try:
            return self._free[place].pop()
        except (KeyError, IndexError):  # none is free
            return allocate_forest_workspace(forest)

    def release(self, place: int, workspace: ForestWorkspace) -> None:
        """Put a workspace back, with a log of the usual length."""
        if len(workspace.log) != LOG_LENGTH:
            workspace = workspace._replace(log=np.empty(LOG_LENGTH, dtype=np.int64))
        self._free.setdefault(place, []).append(workspace)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkspacePool, ()


@dataclass(frozen=True, slots=True, eq=False)
class ForestOracle:
    """Decides boxes for a model read as forests, one per alternative; ``limit`` boxes are looked at per query.

    Past rows are tried after ``first_boxes`` boxes. What is not decided after ``boxes_before_sharing`` is shared out:
    up to ``max_shares`` parts go on in rounds of ``boxes_per_round``. With ``extends_proofs``, the proof of a box may
    begin with that of a smaller one. Where ``gaps`` says that a point also stands for numbers between the values of a
    domain, the model's answer for the point settles nothing that rounding could turn.
    """

    forests: Sequence[CompiledForest]
    limit: int = 5_000_000
    first_boxes: int = 64
    boxes_before_sharing: int = 1_000
    max_shares: int = 4
    boxes_per_round: int = 1_000
    extends_proofs: bool = False
    gaps: Gaps | None = None
    workspaces: WorkspacePool = field(default_factory=WorkspacePool, repr=False)

    @property
    def capabilities(self) -> Capabilities:
        """Its effort can be adjusted, and it mines."""
        return Capabilities(adjustable_effort=self, miner=self, extender=self if self.extends_proofs else None)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if there is none; ``Unrefuted`` at the limit."""
        answer = self.find_or_prove(query, run)
        if answer is None:
            return NOT_SEARCHED
        if isinstance(answer, tuple):
            return query.case.build_proven(query.box, sum(log.pieces for log in answer), answer)
        return query.case.build_refuted(find_disjoint_counterfactuals(answer, self, query, run))

    @property
    def low_effort(self) -> ForestOracle:
        """The same for further counterfactuals, which nothing depends on."""
        return replace(self, limit=LOW_EFFORT_BOXES)

    @property
    def medium_effort(self) -> ForestOracle:
        """The same for wider rules, where what stays undecided costs no more than a bound that could have moved.

        Where the decision may turn in a gap, proofs are not extended: two proven boxes side by side say nothing of the
        numbers between them if the model's word on single points is part of a proof.
        """
        may_turn = self.gaps is not None and any(gaps.any() for gaps in self.gaps.turning_gaps)
        return replace(self, limit=MEDIUM_EFFORT_BOXES, extends_proofs=not may_turn)

    def mine(self, case: Case, request: MiningRequest, rounds: int, run: Run) -> Iterator[MiningResult]:
        """Counterfactuals in the boxes of rules that hit all that is known, as long as they are easily found; a proof
        that the last rule has none, where that is easily found.
        """
        # With several alternatives, a proof for one forest alone proves nothing about the model, so it is dropped; what
        # one forest yields is known when the next is mined.
        for place, forest in enumerate(self.forests):
            workspace = self.workspaces.acquire(place, forest)
            for portion in mine_counterfactuals(forest, workspace, case, request, rounds=rounds, rng=run.rng):
                yield portion if len(self.forests) == 1 else portion._replace(proof=None, pieces=0)
                request = request.add_points(case, portion.points) if len(self.forests) > 1 else request
            self.workspaces.release(place, workspace)

    def has_gap_after(self, feature: int, code: int) -> bool:  # noqa: ARG002
        """Never: what holds at all values of a domain holds between them."""
        return False

    def find_or_prove(self, query: BoxQuery, run: Run) -> Points | tuple[SearchLog, ...] | None:
        """A counterfactual, the logs that prove that there is none, or None where the limit was reached."""
        run.meter.check()
        limit, logs = self.limit, list[SearchLog]()
        if query.effort is not None:  # squared: what queries need spans several orders of magnitude
            limit = max(self.first_boxes, int(self.limit * query.effort * query.effort))
        # A point is desired if one alternative's margins are all positive: a counterfactual of any forest is enough,
        # and a proof needs the log of every forest.
        for place, forest in enumerate(self.forests):
            work = _ForestQuery(place, forest, query, run, self.workspaces.acquire(place, forest))
            answer = self._decide_forest(work, limit)
            self.workspaces.release(place, work.workspace)
            if isinstance(answer, np.ndarray):
                return answer
            logs += [] if answer is None else [answer]
        return tuple(logs) if len(logs) == len(self.forests) else None

    def _decide_forest(self, work: _ForestQuery, limit: int) -> Points | SearchLog | None:
        """A counterfactual, the log of a proof, or None; by climbing and a short search, or else branch and bound."""
        # From cheap to expensive: climb, a short search, the model's word, past rows, then the full search.
        point, status = work.climb(work.workspace, work.origin, min(self.first_boxes, limit))
        seen = int(work.workspace.counters[LOG_END])
        work.run.meter.events["boxes"] += seen
        if point is not None:
            return point
        if status == RULE_HOLDS:
            return SearchLog(work.forest.cells, work.workspace.log[:seen].copy())
        if status == ASK_MODEL:
            if work.ask_model():
                return work.point
            if self._may_turn_in_gaps(work.query.box):
                return None
            record_denied(work.workspace)
        point = self._climb_from_history(work) if limit > LOW_EFFORT_BOXES else None
        return self._branch_and_bound(work, seen, limit) if point is None else point

    def _branch_and_bound(self, work: _ForestQuery, seen: int, limit: int) -> Points | SearchLog | None:
        """Branch and bound, after so many boxes seen, alone at first, then shared out."""
        search, meter = ParallelSearch(work.forest, [work.workspace]), work.run.meter
        # In rounds of a fixed number of boxes, never of a time, so that the answer is the same on every machine.
        while search.active and seen < limit:
            shares, boxes = self.max_shares, self.boxes_per_round
            if seen < self.boxes_before_sharing:
                shares, boxes = 1, self.boxes_before_sharing
            for place, status, looked_at in search.run_round(shares, min(boxes, limit - seen)):
                seen += looked_at
                meter.events["boxes"] += looked_at
                work.workspace = search.workspaces[place]
                if status == FOUND:
                    return work.pull_back()
                # Rounding could turn the decision here: only the model itself can say.
                if status == UNSURE:
                    if work.ask_model():
                        return work.point
                    if self._may_turn_in_gaps(work.query.box):
                        return None
                    record_denied(work.workspace)
                # The stack of this workspace is full: further rounds could not go on.
                elif status != PROVEN and work.workspace.counters[DEPTH] + 1 >= MAX_DEPTH:
                    return None
            meter.check()
        return None if search.active else SearchLog(work.forest.cells, search.log)

    def _may_turn_in_gaps(self, box: Box) -> bool:
        """Whether points of a box stand for numbers between the values of a domain as well."""
        return self.gaps is not None and self.gaps.may_turn_within(box.low, box.high)

    def _climb_from_history(self, work: _ForestQuery) -> Points | None:
        """A counterfactual uphill from a past row with the desired outcome; the search may go on where it was."""
        forest, seeds = work.forest, work.query.case.history.seeds
        if len(seeds) == 0:
            return None
        # Some rows at random, pulled into the box; the one with the largest margin there is the start.
        chosen = seeds[work.run.rng.integers(0, len(seeds), size=HISTORY_STARTS)]
        starts = forest.cells.locate(work.query.box.clip(chosen))
        spare = self.workspaces.acquire(work.place, forest)
        point, _ = work.climb(spare, starts[np.argmax(compute_least_margins(forest, starts))])
        self.workspaces.release(work.place, spare)
        return point


@dataclass(slots=True, eq=False)
class _ForestQuery:
    """One search in one forest: from the box of codes to cells, and from cells back to codes."""

    place: int
    forest: CompiledForest
    query: BoxQuery
    run: Run
    workspace: ForestWorkspace
    origin: Int64Array = field(init=False)  # the instance's cells, or those of the nearest point in the box

    def __post_init__(self) -> None:
        self.origin = self.forest.cells.locate(self.query.box.clip(self.query.case.instance))

    def climb(self, workspace: ForestWorkspace, start: Int64Array, boxes: int = 0) -> tuple[Points | None, int]:
        """A counterfactual uphill from a point of the box, or from the next one in it, pulled back towards the
        instance, or else by a short search; and how that ended.
        """
        home, rng = self.origin, self.run.rng
        return find_by_ascent(self.forest, workspace, self.query, home=home, start=start, rng=rng, boxes=boxes)

    def pull_back(self) -> Points:
        """The workspace's counterfactual, pulled back towards the instance."""
        point = self.point  # a counterfactual as it is
        pulled, _ = self.climb(self.workspace, self.workspace.point.copy())
        return point if pulled is None else pulled

    def ask_model(self) -> bool:
        """Whether the model itself gives the workspace's point the desired outcome."""
        return bool(self.run.meter.desired(self.query.case.model, self.point[None, :])[0])

    @property
    def point(self) -> Points:
        """The workspace's point, as codes."""
        instance, box = self.query.case.instance, self.query.box
        codes = np.empty_like(instance)
        fill_nearest_codes(self.forest.cells, self.workspace.point, instance, box.low, box.high, codes)
        return codes

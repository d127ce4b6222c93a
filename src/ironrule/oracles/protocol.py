"""The one question that algorithms ask: is there a counterfactual in this box?

An oracle gets the question (:class:`BoxQuery`) and the state of the search that asks (:class:`Run`). It answers with a
verdict on the rule whose box it is: ``Refuted`` with counterfactuals (up to k, diverse), ``Proven``, or ``Unrefuted``.
An algorithm sees this protocol, never a concrete oracle.

What an oracle can do beyond that are its :class:`Capabilities`:

* with *adjustable effort* it tries for a shorter or a longer while, as a query says;
* a *miner* runs many cheap rounds of the implicit hitting set search in compiled code: a rule that hits the duals known
  so far, a counterfactual in its box, its dual. It stops where counterfactuals are no longer found easily;
* an *enumerator* lists all duals at once: counterfactuals such that every rule that excludes them is consistent. The
  minimum rule is then a single hitting set;
* a *point model* decides single points, as the model itself has confirmed;
* an *extender* has proofs that are expensive enough to begin one where another ends
  (:class:`ironrule.oracles.caching.ProofExtender`).

Many searches find one counterfactual at a time. :func:`find_disjoint_counterfactuals` turns such a search into one for
k of them: the next one is sought in the part of the box where every component of the duals found so far holds. So all
duals are disjoint, and a hitting set needs one component for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from ironrule.arrays import Float64Array, Points, UInt64Array
from ironrule.hitting.bits import pack_sets
from ironrule.model.history import History
from ironrule.model.protocol import Model, ScoringModel
from ironrule.rule.box import Box
from ironrule.rule.cost import CostTable
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.instance_components import InstanceComponents
from ironrule.rule.kernels import compute_duals
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.reduced import ReducedSpace
from ironrule.space.space import Space
from ironrule.verdict.budget import Meter
from ironrule.verdict.certificate import Certificate, CoverSource
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted, Verdict

if TYPE_CHECKING:
    from ironrule.model.read_model import TabulatedModel


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The case at hand: one instance of a space, the model that denied it, the history, and what can occur.

    The space may be a part of the user's own; then ``reduced`` says which, and ``user_row`` is the instance there.
    Some oracles need more of the model than its outcomes: ``scoring_model`` gives points scores, and
    ``tabulated_model`` is the model's normal form over this space. Both only guide: what counts is ``model``.
    """

    space: Space
    model: Model
    history: History
    components: InstanceComponents
    feasible: FeasibleRegion
    fingerprint: str = ""  # of the model, for certificates
    reduced: ReducedSpace | None = None
    user_row: Points | None = None
    scoring_model: ScoringModel | None = None  # None where it has no scores
    tabulated_model: TabulatedModel | None = None  # None where it was not read, or several models count

    @property
    def instance(self) -> Points:
        """The row being explained."""
        return self.components.instance

    @property
    def user_space(self) -> Space:
        """The space that users speak of."""
        return self.space if self.reduced is None else self.reduced.whole

    @property
    def user_instance(self) -> Points:
        """The row being explained, in the users' space."""
        return self.instance if self.user_row is None else self.user_row

    def embed(self, points: Points) -> Points:
        """Points in the users' space: as the instance in all features that the case leaves out."""
        return points if self.reduced is None else self.reduced.embed(points, self.user_instance)

    def build_counterfactual(self, point: Points) -> Counterfactual:
        """A point in the users' terms."""
        return Counterfactual.from_point(self.user_space, self.user_instance, self.embed(point))

    def embed_verdict(self, verdict: Verdict) -> Verdict:
        """What a verdict says in the users' space."""
        if self.reduced is None or self.reduced.is_whole or isinstance(verdict, Unrefuted):
            return verdict
        if isinstance(verdict, Proven):
            return Proven(verdict.certificate.embed(self.reduced))
        return Refuted(self.build_counterfactual(verdict.points[0]), self.embed(verdict.points), verdict.stopped)

    def build_refuted(self, points: Points) -> Refuted:
        """The verdict that follows from exceptions, the best one first."""
        return Refuted(Counterfactual.from_point(self.space, self.instance, points[0]), points)

    def build_proven(self, box: Box, points: int, covers: tuple[CoverSource, ...] = ()) -> Proven:
        """The verdict on a box without exceptions: covered by pieces, or every one of its points asked about."""
        low, high = (tuple(codes.tolist()) for codes in (box.low, box.high))
        method: Literal["cover", "enumeration"] = "cover" if covers else "enumeration"
        scope = self.space.fingerprint, self.fingerprint
        return Proven(Certificate(method, points, *scope, low=low, high=high, covers=covers))


@dataclass(frozen=True, slots=True, eq=False)
class BoxQuery:
    """Is there a counterfactual in this box? Up to ``k`` are wanted.

    ``effort`` is a share of what the oracle usually spends on a query, which may be more than 1; None leaves it to the
    oracle. Only an oracle whose effort can be adjusted is told. ``cost`` says what "nearest" means to a search for the
    nearest counterfactuals; None: as few changes as possible, then the least distance.
    """

    case: Case
    box: Box
    k: int = 1
    effort: float | None = None
    cost: CostTable | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The state of one search: what it has used of its budget, and its random numbers."""

    meter: Meter
    rng: np.random.Generator


class UserOracle(Protocol):
    """What a user may pass as an oracle. It is asked about boxes, whatever else it can do."""

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """``Refuted`` with up to ``k`` counterfactuals in it, ``Proven`` if there is none, ``Unrefuted`` if unsure."""


class Oracle(UserOracle, Protocol):
    """Answers whether a box contains a counterfactual, and says what else it can do."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do beyond answering about one box."""


class Capabilities(NamedTuple):
    """What an oracle can do beyond answering about one box; None stands for what it cannot."""

    adjustable_effort: AdjustableOracle | None = None
    miner: Miner | None = None
    enumerator: DualEnumerator | None = None
    extender: ExtendingOracle | None = None
    point_model: Model | None = None


NO_CAPABILITIES = Capabilities()


class PointFinder(Protocol):
    """Looks for a single counterfactual at a time."""

    @property
    def low_effort(self) -> PointFinder:
        """The same for counterfactuals that nothing depends on."""

    def find_or_prove(self, query: BoxQuery, run: Run) -> Points | tuple[CoverSource, ...] | None:
        """A single counterfactual, what proves that there is none, or None where a limit was reached."""


class AdjustableOracle(Oracle, PointFinder, Protocol):
    """An oracle that heeds the effort of a query, and that can be had for queries that are worth little."""

    @property
    def low_effort(self) -> AdjustableOracle:
        """The same for counterfactuals that nothing depends on."""

    @property
    def medium_effort(self) -> AdjustableOracle:
        """The same for wider rules, where what stays undecided costs no more than a bound that could have moved."""


class ExtendingOracle(Oracle, Protocol):
    """An oracle whose proofs are expensive enough to begin one where another ends."""

    def has_gap_after(self, feature: int, code: int) -> bool:
        """Whether a proof about a value and one about the next leave out numbers between the two."""


class CompleteDuals(NamedTuple):
    """Counterfactuals that speak for all: every rule that excludes them is consistent. With their duals."""

    points: Points
    duals: UInt64Array


class DualEnumerator(Protocol):
    """Names, at once, counterfactuals that speak for all."""

    def enumerate_duals(self, case: Case, run: Run) -> CompleteDuals | None:
        """Such counterfactuals; None if it knows none for this case."""


class MiningRequest(NamedTuple):
    """What rules must hit as far as is known, the components that they may have, and what each counts.

    Where rules must weigh no more than ``max_weight``, local search finds them, from ``start_rule``, in ``max_steps``.
    """

    duals: UInt64Array
    allowed: int
    weights: Float64Array
    max_weight: float = np.inf
    start_rule: int = 0
    max_steps: int = 0

    def add_points(self, case: Case, points: Points) -> MiningRequest:
        """The same with what more counterfactuals demand."""
        more = compute_duals(points, case.components.low, case.components.high)
        more &= pack_sets(self.allowed, len(case.space))
        return self._replace(duals=np.concatenate([self.duals, more]))


class MiningResult(NamedTuple):
    """Further counterfactuals, and the last rule looked at, if there was one to look at; the last counterfactual may
    refute it, or else there may be a proof, of so many pieces, that none does.
    """

    points: Points
    rule: int | None
    proof: CoverSource | None = None
    pieces: int = 0
    boxes: int = 0  # looked at on the way


class Miner(Protocol):
    """Finds counterfactuals that are easily found."""

    def mine(self, case: Case, request: MiningRequest, rounds: int, run: Run) -> Iterator[MiningResult]:
        """Counterfactuals in the boxes of rules that hit all that is known, in portions."""


def find_disjoint_counterfactuals(first: Points, oracle: PointFinder, query: BoxQuery, run: Run) -> Points:
    """A counterfactual and up to k - 1 more, each found with low effort, whose duals are disjoint."""
    if query.k == 1:
        return first[None, :]
    points, box, quick = [first], query.box, oracle.low_effort
    # The box shrinks: each turn keeps only the points that satisfy all components of the last dual. A point found
    # there has none of these components in its own dual, so all duals are disjoint.
    while len(points) < query.k:
        box = _restrict_to_dual(query.case, box, points[-1])
        if (box.low > box.high).any():  # a box without the instance need not hold what satisfies a dual
            break
        another = quick.find_or_prove(BoxQuery(query.case, box), run)
        if not isinstance(another, np.ndarray):
            break
        points.append(another)
    return np.stack(points)


def _restrict_to_dual(case: Case, box: Box, point: Points) -> Box:
    """The part of a box that satisfies every component of the point's dual."""
    components = case.components
    # Components 2j and 2j + 1 belong to feature j, so each code is compared twice. A component that is false on the
    # point restricts the box to the codes it admits; the others restrict nothing.
    doubled = np.repeat(point, 2)
    false = (doubled < components.low) | (doubled > components.high)
    low = np.where(false, components.low, 0).reshape(-1, 2).max(axis=1)
    high = np.where(false, components.high, np.iinfo(np.int32).max).reshape(-1, 2).min(axis=1)
    return Box(np.maximum(box.low, low).astype(np.int32), np.minimum(box.high, high).astype(np.int32))

"""The nearest counterfactuals of a model that can be read, proven so: fewest changes first, then least distance.

What a point costs is one more sum of trees: every changed feature adds one and a share of how far it moved. So "is
there a cheaper counterfactual?" is the question that the exact oracle answers anyway, with one more margin: budget
less costs must be positive. Each answer lowers the budget, until the oracle proves that nothing is cheaper. For the
next one, every set of features changed so far is forbidden by a margin of its own: some feature of it must stay.
Networks and single trees have searches of their own (:mod:`ironrule.oracles.net_nearest`,
:mod:`ironrule.oracles.leaf_nearest`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ironrule.model.coded import table_tree
from ironrule.model.forest import Forest, cells_at, compile_reading
from ironrule.model.net import compile_network
from ironrule.model.network import Network
from ironrule.model.readable import Read
from ironrule.model.reading import Group, Margin, Reading
from ironrule.oracles.costs import GRAIN, Costs
from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.leaf_nearest import InLeaves
from ironrule.oracles.leaves import Leaves
from ironrule.oracles.net_engine import Engine
from ironrule.oracles.net_nearest import InNetworks
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Points
from ironrule.verdict import Meter, Spent


@dataclass(frozen=True, slots=True)
class Nearest:
    """Counterfactuals, nearest first. ``proven``: each is the nearest that changes all of no earlier one's features,
    and there is no further one where fewer came than were wanted. ``stopped`` says what ended the search early.
    """

    points: Points
    proven: bool
    stopped: str | None = None


class Search(Protocol):
    """A search for one counterfactual after the other; ``best`` is the nearest so far of the next one."""

    best: Points | None

    def next(self, found: list[Points], meter: Meter, rng: np.random.Generator) -> bool:
        """Make the nearest that changes all of no earlier one's features the best one, None if there is none; whether
        that is proven.
        """
        ...


def nearest(
    read: Read,
    case: Case,
    box: Box,
    k: int,
    meter: Meter,
    rng: np.random.Generator,
    limit: int = 2_000_000,
    engine: Engine | None = None,
    leaves: Leaves | None = None,
) -> Nearest:
    """Up to k nearest counterfactuals in a box that holds the instance.

    ``limit`` boxes are looked at per question, fewer in a network, which ``engine`` bounds. ``leaves`` are those of the
    model, where it is a single tree.
    """
    if leaves is not None and not case.feasible.predicates:
        search: Search | None = InLeaves.of(leaves, case, box)
    else:
        search = _search_in(read, case, box, limit, engine)
    if search is None:
        return Nearest(np.empty((0, len(case.space)), dtype=np.int32), True)
    found, proven, stopped = list[Points](), False, None
    try:
        proven = _run(search, found, k, meter, rng)
    except Spent:
        stopped = "budget"
    except KeyboardInterrupt:
        stopped = "interrupted"
    every = [*found, *([] if search.best is None else [search.best])]
    return Nearest(np.array(every, dtype=np.int32).reshape(-1, len(case.space)), proven, stopped)


def _search_in(read: Read, case: Case, box: Box, limit: int, engine: Engine | None) -> Search | None:
    """The search for a model; None if there is no way to be desired."""
    if isinstance(read.reading, Network):
        nets = compile_network(read.reading, read.columns, case.space, case.feasible)
        return InNetworks.of(nets, case, box, engine) if nets else None
    forests = compile_reading(read.reading, read.columns, case.space, case.feasible)
    if not forests:
        return None
    return _InForests(read, read.reading, case, box, Costs.of(case, box, forests[0].cells), limit)


def _run(search: Search, found: list[Points], k: int, meter: Meter, rng: np.random.Generator) -> bool:
    """Find up to k; whether all that was said of them is proven."""
    while len(found) < k:
        if not search.next(found, meter, rng):
            return False
        if search.best is None:
            break
        found.append(search.best)
        search.best = None
    return True


@dataclass(slots=True, eq=False)
class _InForests:
    read: Read
    reading: Reading
    case: Case
    box: Box
    costs: Costs
    limit: int
    best: Points | None = field(default=None)

    def next(self, found: list[Points], meter: Meter, rng: np.random.Generator) -> bool:
        """Each answer of the exact oracle lowers the budget."""
        extra = [self._budget(), *(self._unlike(point) for point in found)]
        forests = compile_reading(self.reading, self.read.columns, self.case.space, self.case.feasible, extra)
        budget = float(len(self.case.space) + 2)
        while True:
            oracle = Ensemble(tuple(_afforded(forest, len(extra), budget) for forest in forests), self.limit)
            answer = oracle.one(self.case, self.box, meter, rng)
            if not isinstance(answer, np.ndarray):
                return answer is not None
            self.best = self.costs.cheapened(cells_at(forests[0], answer))
            budget = self.costs.of_point(self.best)

    def _budget(self) -> Margin:
        """What is left of a budget that is set later."""
        return Margin(0.0, (Group(tuple(table_tree(j, -cost) for j, cost in enumerate(self.costs.least))),))

    def _unlike(self, point: Points) -> Margin:
        """Positive where some feature that the point changes stays as it is."""
        changed = np.flatnonzero(point != self.case.instance).tolist()
        trees = tuple(table_tree(j, -(self.costs.least[j] > 0).astype(np.float64)) for j in changed)
        return Margin(len(changed) - 0.5, (Group(trees),))


def _afforded(forest: Forest, extra: int, budget: float) -> Forest:
    """A forest whose last margins, the budget first among them, are exact; a budget is to be undercut."""
    offset, slack = forest.offset.copy(), forest.slack.copy()
    offset[-extra] = budget - GRAIN / 8
    slack[-extra:] = 0.0
    return forest._replace(offset=offset, slack=slack)

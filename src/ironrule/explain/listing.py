"""Answers that come one by one, found while you ask: all rules for a row, and all changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ironrule.errors import InputError
from ironrule.explain.arguments import as_list, positive
from ironrule.explain.explanation import RankedRule
from ironrule.model import Unreadable
from ironrule.model.network import Network
from ironrule.rule import Counterfactual
from ironrule.verdict import Meter, Proven, Verdict

if TYPE_CHECKING:
    from ironrule.model.readable import Read
    from ironrule.oracles import Case, Oracle
    from ironrule.oracles.net_engine import Engine
    from ironrule.search import EveryChange, EveryRule, Problem

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Features whose change can give the desired outcome, and one counterfactual that changes just these.

    ``minimal`` says it is proven that changing only some of them cannot.
    """

    features: tuple[str, ...]
    counterfactual: Counterfactual
    minimal: bool

    def __str__(self) -> str:
        return str(self.counterfactual)


class _Search(Protocol):
    """A search that says how it ended."""

    stopped: str | None
    complete: bool


@dataclass(slots=True, eq=False, repr=False)
class Listing(Iterator[Item], Generic[Item]):
    """An iterator that knows how it ended.

    ``complete``: everything that was asked for has come, and that is proven. ``stopped``: None, "budget", "interrupted"
    (Ctrl-C), or "limit" if as many have come as were asked for. A budget in seconds counts the search alone, not what
    is done between two answers.
    """

    _items: Iterator[Item]
    _search: _Search
    _meter: Meter
    _limit: int | None
    complete: bool = False
    stopped: str | None = None
    count: int = 0
    _left: float = field(default_factory=time.perf_counter)

    def __next__(self) -> Item:
        if self._limit is not None and self.count >= self._limit:
            self.stopped = self.stopped or "limit"
            raise StopIteration
        self._meter.started += time.perf_counter() - self._left
        try:
            item = next(self._items)
        except StopIteration:
            self.complete, self.stopped = self._search.complete, self._search.stopped
            raise
        finally:
            self._left = time.perf_counter()
        self.count += 1
        return item

    def __repr__(self) -> str:
        how = "complete" if self.complete else f"stopped: {self.stopped}" if self.stopped else "not ended"
        return f"<Listing: {self.count} so far, {how}>"


def list_rules(
    problem: Problem, outcome: str, minimum_only: bool, limit: int | None, confirm: Callable[[Problem], None]
) -> Listing[RankedRule]:
    """All irredundant rules of a problem, lightest first; ``confirm`` is called before any of a level is shown."""
    from ironrule.search import EveryRule

    search = EveryRule(problem)
    items = _ranked(search, outcome, minimum_only, confirm)
    return Listing(items, search, problem.meter, _chosen_limit(limit))


def _ranked(
    search: EveryRule, outcome: str, minimum_only: bool, confirm: Callable[[Problem], None]
) -> Iterator[RankedRule]:
    from ironrule.search.coverage import coverages

    problem, relevant = search.problem, search.problem.case.relevant
    for level in search.levels():
        confirm(search.problem)
        rules = list(level)
        covered = dict(zip(rules, coverages(problem.case, rules), strict=True))
        weights = {rule: problem.weight(rule) for rule in rules}
        if minimum_only and rules:
            least = search.trail.lower_bound if search.stopped else min(weights.values())
            rules = [rule for rule in rules if weights[rule] <= least]
            search.complete = search.stopped is None and all(isinstance(level[rule], Proven) for rule in rules)
        for rule in sorted(rules, key=lambda rule: (weights[rule], -covered[rule], rule)):
            yield RankedRule(relevant.rule(rule, outcome), _shown(level[rule]), covered[rule])
        if minimum_only and rules:
            return


def _shown(verdict: Verdict) -> Verdict:
    """A verdict with its proof drawn, where it has one."""
    return Proven(verdict.certificate.drawn()) if isinstance(verdict, Proven) else verdict


def list_changes(
    problem: Problem,
    read: Read | None,
    vary: Sequence[str] | str,
    limit: int | None,
    confirm: Callable[[Problem], None],
    engine: Engine | None = None,
    trusted: bool = True,
) -> Listing[ChangeSet]:
    """All minimal sets of features to change, smallest first, for a model that was read or can only be asked.

    ``trusted`` says whether a proof for the values of the domains is one for all that can occur.
    """
    from ironrule.oracles import Remembering
    from ironrule.search import EveryChange

    space = problem.case.space
    names = space.names if vary == "all" else as_list(vary)
    varying = sum(1 << place for place in {space.index(name) for name in names})
    search = EveryChange(replace(problem, oracle=Remembering(_oracle(read, problem.case, engine))), varying, trusted)
    return Listing(_changes(search, confirm), search, problem.meter, _chosen_limit(limit))


def _oracle(read: Read | None, case: Case, engine: Engine | None) -> Oracle:
    """An oracle that knows the constraints on what may change."""
    from ironrule.model.forest import compile_reading
    from ironrule.model.net import compile_network
    from ironrule.oracles import Ensemble, Layered, Networks
    from ironrule.oracles.net_engine import Cores

    if read is None:
        return Layered()
    if isinstance(read.reading, Network):
        nets = compile_network(read.reading, read.columns, case.space, case.feasible)
        return Networks(nets, engine=engine or Cores())
    try:
        return Ensemble(compile_reading(read.reading, read.columns, case.space, case.feasible))
    except Unreadable:  # constraints that are too intricate
        return Layered()


def _changes(search: EveryChange, confirm: Callable[[Problem], None]) -> Iterator[ChangeSet]:
    case = search.problem.case
    for level in search.levels():
        confirm(search.problem)
        for found in level:
            counterfactual = Counterfactual.between(case.space, case.instance, found.point)
            yield ChangeSet(tuple(change.feature for change in counterfactual.changes), counterfactual, found.minimal)


def _chosen_limit(limit: int | None) -> int | None:
    if limit is None:
        return None
    try:
        return positive(limit)
    except InputError:
        raise InputError(expected="limit must be a positive integer or None", got=repr(limit)) from None

"""The registry of backends, and the choice of a backend for a model that can be read.

A single decision tree without constraints is served by its leaves, sums of trees by branch and bound over cells,
networks by bound propagation over boxes, models that are read side by side by all of these together. A new backend is a
folder beside these, with a value that says what it can do (:class:`~ironrule.backends.backend.Backend`), and one line
in :data:`BACKENDS`. A rule that must hold for models of different kinds is put to one exact oracle after the other
(:class:`JointOracle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.backend import Backend, CheapestRequest, NearestRequest, OracleRequest
from ironrule.backends.conjunction.backend import build_conjunction_backend
from ironrule.backends.forest.backend import FOREST
from ironrule.backends.nearest import CostSearch, NearestCounterfactuals, NearestSearch
from ironrule.backends.network.backend import NETWORK
from ironrule.backends.tree.backend import TREE
from ironrule.model.intervals import Gaps
from ironrule.model.protocol import Model, NormalForm, Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import (
    NO_CAPABILITIES,
    AdjustableOracle,
    BoxQuery,
    Capabilities,
    Case,
    Oracle,
    Run,
    find_disjoint_counterfactuals,
)
from ironrule.rule.box import Box
from ironrule.space.space import Space
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.certificate import CoverSource
from ironrule.verdict.verdict import NOT_SEARCHED, Verdict

if TYPE_CHECKING:
    from ironrule.backends.compiled_model import CompiledPart
    from ironrule.backends.network.engine import BoundEngine


SINGLE_BACKENDS: tuple[Backend, ...] = (TREE, FOREST, NETWORK)
CONJUNCTION = build_conjunction_backend(SINGLE_BACKENDS)
BACKENDS: tuple[Backend, ...] = (*SINGLE_BACKENDS, CONJUNCTION)
"""Of several backends for one normal form, the first that can serves a request."""

BOXES_PER_QUERY = 2_000_000


def list_backends(normal_form: NormalForm) -> tuple[Backend, ...]:
    """The backends for a normal form; raises Unreadable if there is none."""
    backends = tuple(backend for backend in BACKENDS if backend.accepts(normal_form))
    if not backends:
        raise Unreadable(f"no backend serves models that are read as a {normal_form.kind}")
    return backends


@dataclass(frozen=True, slots=True, eq=False)
class JointOracle:
    """Asks one after the other; covers come in their order."""

    oracles: tuple[AdjustableOracle, ...]
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if no part has any, ``Unrefuted`` if unsure."""
        answer = self.find_or_prove(query, run)
        if answer is None:
            return NOT_SEARCHED
        if isinstance(answer, tuple):
            return query.case.build_proven(query.box, len(answer), answer)
        return query.case.build_refuted(find_disjoint_counterfactuals(answer, self, query, run))

    @property
    def low_effort(self) -> JointOracle:
        """The same for counterfactuals that nothing depends on."""
        return JointOracle(tuple(part.low_effort for part in self.oracles))

    def find_or_prove(self, query: BoxQuery, run: Run) -> Points | tuple[CoverSource, ...] | None:
        """A counterfactual, what proves that there is none, or None where a limit was reached."""
        proofs, unsure = list[CoverSource](), False
        for part in self.oracles:
            answer = part.find_or_prove(query, run)
            if isinstance(answer, np.ndarray):
                return answer
            unsure |= answer is None
            proofs += answer or ()
        return None if unsure else tuple(proofs)


def build_exact_oracle(
    parts: Sequence[CompiledPart],
    model: Model,
    space: Space,
    engine: BoundEngine | None = None,
    gaps: Gaps | None = None,
) -> Oracle:
    """The oracle for a compiled model; raises Unreadable if the model is found to decide otherwise than its parts.

    ``engine`` says where networks are bounded, ``gaps`` which numbers lie between the values of the domains.
    """
    # One backend for all parts is the best: it bounds all alternatives together. Of conjunctions each is one by itself.
    common = tuple(backend for backend in parts[0].backends if all(backend in part.backends for part in parts))
    if common and (len(parts) == 1 or CONJUNCTION not in common):
        alternatives = parts[0].alternatives  # of a single part as they are: they may not be compiled yet
        if len(parts) > 1:
            alternatives = tuple(alternative for part in parts for alternative in part.alternatives)
        return _build_oracle(common, OracleRequest(alternatives, space, model, engine, gaps))
    requests = [OracleRequest(part.alternatives, space, None, engine, gaps) for part in parts]
    oracles = [_build_oracle(part.backends, request) for part, request in zip(parts, requests, strict=True)]
    joint = tuple(part for oracle in oracles if (part := oracle.capabilities.adjustable_effort) is not None)
    if len(joint) < len(oracles):  # a part that is left out would not be proven
        raise Unreadable("models of these kinds cannot be proven together; they are only asked")
    return JointOracle(joint)


def build_case_oracle(tabulated_model: TabulatedModel, case: Case, engine: BoundEngine | None) -> Oracle:
    """An exact oracle that knows the constraints on what may change; raises Unreadable if they are too intricate."""
    backends = list_backends(tabulated_model.normal_form)
    alternatives = backends[0].compile(tabulated_model, case.space, case.feasible)
    return _build_oracle(backends, OracleRequest(alternatives, case.space, engine=engine))


def _build_oracle(backends: Sequence[Backend], request: OracleRequest) -> Oracle:
    for backend in backends:
        oracle = backend.build_oracle(request)
        if oracle is not None:
            return oracle
    raise Unreadable("no backend serves such a model in this space; the model is only asked")


def find_nearest(
    tabulated_model: TabulatedModel,
    query: BoxQuery,
    run: Run,
    engine: BoundEngine | None = None,
    oracle: Oracle | None = None,
    boxes_per_query: int = BOXES_PER_QUERY,
) -> NearestCounterfactuals:
    """Up to k nearest counterfactuals in a box that holds the instance; ``oracle`` is the model's own exact one."""
    request = NearestRequest(tabulated_model, narrow_to_constraints(query), boxes_per_query, engine, oracle)
    searches = (backend.build_nearest_search(request) for backend in list_backends(tabulated_model.normal_form))
    search = next((search for search in searches if search is not None), None)
    if search is None:
        raise Unreadable("no backend finds the nearest counterfactuals of such a model")
    found, proven, stopped = list[Points](), False, None
    try:
        proven = _collect_nearest(search, found, query.k, run)
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        stopped = name_stop(stop, run.meter)
    every = np.array([*found, *([] if search.best is None else [search.best])], dtype=np.int32)
    return NearestCounterfactuals(every.reshape(-1, len(query.case.space)), proven, stopped, len(found))


def build_cheapest_search(request: CheapestRequest) -> CostSearch | None:
    """The backend's own search for cheapest counterfactuals under any cost, where it has one."""
    for backend in list_backends(request.tabulated_model.normal_form):
        if backend.build_cheapest_search is not None:
            return backend.build_cheapest_search(replace(request, query=narrow_to_constraints(request.query)))
    return None


def narrow_to_constraints(query: BoxQuery) -> BoxQuery:
    """The same question with bounds of the box in the place of constraints on changes, where each is about a single
    feature and permits one range of its codes, as roles do: then nothing need be compiled for this row alone.
    """
    case, own = query.case, query.case.space.feasible
    known = {id(predicate) for predicate in own.predicates}
    added = [predicate for predicate in case.feasible.predicates if id(predicate) not in known]
    low, high = query.box.low.copy(), query.box.high.copy()
    for predicate in added:
        if len(predicate.columns) != 1:
            return query
        (j,) = predicate.columns
        codes = np.flatnonzero(predicate.holds_per_code(j, case.feasible.instance))
        if len(codes) == 0 or codes[-1] - codes[0] + 1 != len(codes):
            return query
        low[j], high[j] = max(low[j], codes[0]), min(high[j], codes[-1])
    if not ((low <= case.instance) & (case.instance <= high)).all():
        return query  # a search begins with the instance, which need not satisfy what is asked of changes
    return replace(query, case=replace(case, feasible=own), box=Box(low, high))


def _collect_nearest(search: NearestSearch, found: list[Points], k: int, run: Run) -> bool:
    """Find up to k; whether all that was said of them is proven."""
    while len(found) < k:
        if not search.next(found, run):
            return False
        if search.best is None:
            break
        found.append(search.best)
        search.best = None
    return True

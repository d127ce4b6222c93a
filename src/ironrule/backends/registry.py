"""Which backend serves a model that can be read: its exact oracle, and its search for nearest counterfactuals.

A single decision tree without constraints is served by its leaves, sums of trees by branch and bound over cells,
networks by bound propagation over boxes. A rule that must hold for models of different kinds is put to one exact
oracle after the other (:class:`JointOracle`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum
from ironrule.backends.forest.nearest import ForestNearestSearch
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.nearest import ChangeCosts, NearestCounterfactuals, NearestSearch
from ironrule.backends.network.compile import CompiledNetwork, compile_network
from ironrule.backends.network.engine import BoundEngine, CpuEngine
from ironrule.backends.network.nearest import NetworkNearestSearch
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.backends.tree.compile import compile_leaf_tree
from ironrule.backends.tree.nearest import TreeNearestSearch
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.model.normal_form.network import Network
from ironrule.model.protocol import Model
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case, find_disjoint_counterfactuals
from ironrule.rule.box import Box
from ironrule.space.space import Space
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.certificate import CoverSource
from ironrule.verdict.verdict import Unrefuted, Verdict


@dataclass(frozen=True, slots=True, eq=False)
class JointOracle:
    """Asks one after the other; covers come in their order."""

    oracles: tuple[ForestOracle | NetworkOracle, ...]

    def find(self, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Verdict:
        """Up to k counterfactuals with disjoint duals; ``Proven`` if no part has any; ``Unrefuted`` where one is unsure
        and none has any.
        """
        answer = self.find_or_prove(case, box, meter, rng)
        if answer is None:
            return Unrefuted(tried=0, samples=0, confidence=0.0)
        if isinstance(answer, tuple):
            return case.build_proven(box, len(answer), answer)
        brief = JointOracle(tuple(part.low_effort for part in self.oracles))
        return case.build_refuted(find_disjoint_counterfactuals(answer, brief.find_or_prove, case, box, k, meter, rng))

    def find_or_prove(
        self, case: Case, box: Box, meter: Meter, rng: np.random.Generator
    ) -> Points | tuple[CoverSource, ...] | None:
        """A counterfactual, what proves that there is none, or None where a limit was reached."""
        proofs, unsure = list[CoverSource](), False
        for part in self.oracles:
            answer = part.find_or_prove(case, box, meter, rng)
            if isinstance(answer, np.ndarray):
                return answer
            unsure |= answer is None
            proofs += answer or ()
        return None if unsure else tuple(proofs)


def build_exact_oracle(
    alternatives: tuple[CompiledForest | CompiledNetwork, ...],
    model: Model,
    space: Space,
    engine: BoundEngine | None = None,
) -> TreeOracle | ForestOracle | NetworkOracle | JointOracle:
    """The leaves where the model is a single tree and everything can occur, branch and bound otherwise; raises
    Unreadable if the model decides otherwise than its normal form at a leaf. ``engine`` says where networks are
    bounded.
    """
    engine = engine or CpuEngine()
    nets = tuple(part for part in alternatives if isinstance(part, CompiledNetwork))
    forests = tuple(part for part in alternatives if isinstance(part, CompiledForest))
    if nets and forests:
        return JointOracle(tuple(_build_single_oracle(part, engine) for part in alternatives))
    if nets:
        return NetworkOracle(nets, engine=engine)
    tree = None if space.constraints else compile_leaf_tree(forests, model, space)
    return ForestOracle(forests) if tree is None else TreeOracle(tree, forests)


def _build_single_oracle(part: CompiledForest | CompiledNetwork, engine: BoundEngine) -> ForestOracle | NetworkOracle:
    return NetworkOracle((part,), engine=engine) if isinstance(part, CompiledNetwork) else ForestOracle((part,))


def find_nearest(
    tabulated_model: TabulatedModel,
    case: Case,
    box: Box,
    k: int,
    meter: Meter,
    rng: np.random.Generator,
    limit: int = 2_000_000,
    engine: BoundEngine | None = None,
    tree_oracle: TreeOracle | None = None,
) -> NearestCounterfactuals:
    """Up to k nearest counterfactuals in a box that holds the instance.

    ``limit`` boxes are looked at per query, fewer in a network, which ``engine`` bounds. ``tree_oracle`` is the model's
    own, where it is a single tree.
    """
    if tree_oracle is not None and not case.feasible.predicates:
        search: NearestSearch | None = TreeNearestSearch.build(tree_oracle, case, box)
    else:
        search = _build_nearest_search(tabulated_model, case, box, limit, engine)
    if search is None:
        return NearestCounterfactuals(np.empty((0, len(case.space)), dtype=np.int32), True)
    found, proven, stopped = list[Points](), False, None
    try:
        proven = _collect_nearest(search, found, k, meter, rng)
    except BudgetExhausted:
        stopped = "budget"
    except KeyboardInterrupt:
        stopped = "interrupted"
    every = [*found, *([] if search.best is None else [search.best])]
    return NearestCounterfactuals(np.array(every, dtype=np.int32).reshape(-1, len(case.space)), proven, stopped)


def _build_nearest_search(
    tabulated_model: TabulatedModel, case: Case, box: Box, limit: int, engine: BoundEngine | None
) -> NearestSearch | None:
    """The search for a model; None if there is no way to be desired."""
    if isinstance(tabulated_model.normal_form, Network):
        nets = compile_network(tabulated_model.normal_form, tabulated_model.columns, case.space, case.feasible)
        return NetworkNearestSearch.build(nets, case, box, engine) if nets else None
    forests = compile_tree_sum(tabulated_model.normal_form, tabulated_model.columns, case.space, case.feasible)
    if not forests:
        return None
    return ForestNearestSearch(
        tabulated_model, tabulated_model.normal_form, case, box, ChangeCosts.build(case, box, forests[0].cells), limit
    )


def _collect_nearest(
    search: NearestSearch, found: list[Points], k: int, meter: Meter, rng: np.random.Generator
) -> bool:
    """Find up to k; whether all that was said of them is proven."""
    while len(found) < k:
        if not search.next(found, meter, rng):
            return False
        if search.best is None:
            break
        found.append(search.best)
        search.best = None
    return True

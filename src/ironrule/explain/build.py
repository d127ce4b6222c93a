"""From what a search found to an explanation.

``widen_rule`` moves the bounds of the best rule as far out as is proven. ``ExplanationBuilder`` then puts all of it
into the user's terms: ranked rules, witnesses of the lower bound, undecided components, the nearest counterfactuals,
and the background, which is computed when it is first read. Reports also name the libraries in use, with their
versions.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from ironrule.arrays import Points
from ironrule.explain.context import ExplainerContext
from ironrule.explain.options import SearchOptions, normalize_weights
from ironrule.hitting.bits import list_members
from ironrule.results.background import Background, HistoryRows, build_background
from ironrule.results.explanation import Explanation, RankedRule, RuleRestrictions, Statistics
from ironrule.rule.box import Box
from ironrule.rule.counterfactual import Counterfactual, LazySequence, LazyValue
from ironrule.rule.instance_components import InstanceComponents
from ironrule.space.constraints.binding import bind_constraint
from ironrule.verdict.verdict import Proven, Unrefuted, Verdict

if TYPE_CHECKING:
    from ironrule.search.driver import SearchResult
    from ironrule.search.problem import Problem
    from ironrule.search.widen import WidenedBox


CORE_LIBRARIES = ("numpy", "numba", "scikit-learn")

OPTIONAL_LIBRARIES = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "interpret": "interpret-core",
    "pygam": "pygam",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
}


@lru_cache(maxsize=1)
def _list_core_versions() -> tuple[tuple[str, str], ...]:
    import ironrule

    own = (("ironrule", ironrule.__version__), ("Python", platform.python_version()))
    return (*own, *((name, version(name)) for name in CORE_LIBRARIES))


def list_library_versions() -> tuple[tuple[str, str], ...]:
    """The libraries that explanations are made with here, and their versions."""
    loaded = (name for module, name in OPTIONAL_LIBRARIES.items() if module in sys.modules)
    return (*_list_core_versions(), *((name, found) for name in loaded if (found := _find_version(name)) is not None))


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # a module of that name that is no such distribution
        return None


@dataclass(frozen=True, slots=True, eq=False)
class ExplanationBuilder:
    """What one search ended with."""

    context: ExplainerContext
    problem: Problem
    search_result: SearchResult
    wider: WidenedBox | None

    def build(self, algorithm: str, options: SearchOptions) -> Explanation:
        """All of it in the user's terms."""
        context, problem, result = self.context, self.problem, self.search_result
        require, forbid = tuple(options.require), tuple(options.forbid)
        needed = self._witnesses()
        return Explanation(
            instance=context.space.decode_row(problem.case.instance),
            ranked=tuple(map(self._rank_rule, result.rules, result.verdicts)),
            counterfactuals=LazySequence(self._counterfactuals),
            statistics=Statistics.from_meter(problem.meter, algorithm, options.seed, result.stopped),
            history_rows=len(context.history),
            space=context.space.fingerprint,
            weight=problem.to_user_weight(problem.weigh(result.rules[0])),
            lower_bound=0 if needed is None else problem.to_user_weight(result.lower_bound),
            unreadable_reason=context.unreadable_reason,
            model=context.fingerprint,
            decision=context.target,
            restrictions=RuleRestrictions(require, forbid, normalize_weights(options.weights)),
            witnesses=() if needed is None else needed,
            wider=None if self.wider is None else self._rank_rule(result.rules[0], self.wider.verdict, self.wider.box),
            wider_is_maximal=self.wider is not None and self.wider.maximal,
            wider_witnesses=()
            if self.wider is None or self.wider.limits is None
            else tuple(map(tuple, self.wider.limits.tolist())),
            undecided_components=self._undecided(),
            model_count=context.model.model_count,
            constraints=tuple(map(str, context.space.constraints)),
            breakpoints=context.breakpoints,
            lazy_background=LazyValue(self._background),
        )

    def _background(self) -> Background:
        """What plots and reports show besides."""
        context, problem, rule = self.context, self.problem, self.search_result.rules[0]
        found = [np.array(list(self._witnesses() or ()), dtype=np.int32).reshape(-1, problem.n)]
        known = np.concatenate([*found, *([] if problem.oracle.points is None else [problem.oracle.points])])
        named = problem.case.components.rule(rule, "")
        instance = context.space.decode_row(problem.case.instance)
        past = HistoryRows(context.space, context.history.codes, context.outcomes)
        return build_background(
            past, named, instance, known, is_robust=context.is_robust, libraries=list_library_versions()
        )

    def _undecided(self) -> tuple[str, ...]:
        """Components of the best rule whose removal an exact oracle could not decide upon, or had no time left for."""
        oracle, rule = self.problem.oracle, self.search_result.rules[0]
        if not oracle.exact or not isinstance(self.search_result.verdicts[0], Proven) or oracle.has_all_duals:
            return ()
        if self.search_result.stopped is None and not oracle.undecided:
            return ()
        component = self.problem.case.components.component
        return tuple(str(component(bit)) for bit in list_members(rule) if self._may_be_redundant(rule & ~(1 << bit)))

    def _may_be_redundant(self, shorter: int) -> bool:
        """Whether it is open if a shorter rule would do; one that no search was stopped before is not asked about."""
        known = self.problem.oracle.lookup(self.problem.case.components.box(shorter))
        if known is not None or self.search_result.stopped is None:
            return isinstance(known, Unrefuted)
        return self.problem.find_known_exceptions(shorter) is None

    def _witnesses(self) -> Sequence[tuple[int, ...]] | None:
        """Counterfactuals that need a rule of the lower bound's weight; None if there is no such bound."""
        from ironrule.search.minimum import find_bound_witnesses

        problem, weight, needing = self.problem, self.search_result.lower_bound, self.search_result.bound_demands
        if not weight:
            return None
        if problem.oracle.has_all_duals:  # a minimum hitting set of all that a rule must hit has just been found
            return LazySequence(lambda: _to_tuples(find_bound_witnesses(problem, weight)))
        found = find_bound_witnesses(problem, weight, needing)
        return None if found is None else _to_tuples(found)

    def _rank_rule(self, rule: int, verdict: Verdict, wider: Box | None = None) -> RankedRule:
        components, context = self.problem.case.components, self.context
        box = components.box(rule) if wider is None else wider
        named = components.rule(rule, context.model.primary.decision.undesired_name, wider)
        return RankedRule(named, verdict, context.history.count_covered(box, context.space.sizes))

    def _counterfactuals(self) -> tuple[Counterfactual, ...]:
        """The nearest counterfactuals of the model itself that also satisfy the constraints on what may change."""
        context, case, points = self.context, self.problem.case, self.problem.oracle.points
        if points is None:
            return ()
        permitted = context.model.primary.desired(points) if context.is_robust else np.ones(len(points), dtype=np.bool_)
        for constraint in context.change_constraints:
            permitted &= bind_constraint(constraint, context.space.features)(points, case.instance)
        nearest = _select_nearest(points[permitted], case.components, self.problem.k)
        return tuple(Counterfactual.from_point(context.space, case.instance, point) for point in nearest)


def _to_tuples(points: Points | None) -> tuple[tuple[int, ...], ...]:
    return () if points is None else tuple(map(tuple, points.tolist()))


def _select_nearest(points: Points, components: InstanceComponents, k: int) -> Points:
    """The counterfactuals that change fewest features: one of each dual, and none whose dual contains another's."""
    from ironrule.hitting.bits import unpack_sets
    from ironrule.hitting.reduce import count_bits
    from ironrule.rule.kernels import compute_duals

    duals = compute_duals(points, components.low, components.high)
    order = np.lexsort((count_bits(duals), (points != components.instance).sum(axis=1)))
    chosen: dict[int, int] = {}
    for place, dual in zip(order.tolist(), unpack_sets(duals[order]), strict=True):  # after those it contains
        if len(chosen) < k and not any(other & dual == other for other in chosen):
            chosen[dual] = place
    return points[list(chosen.values())]


def widen_rule(context: ExplainerContext, problem: Problem, search_result: SearchResult) -> WidenedBox | None:
    """The best rule with its bounds as far out as they go, where it was proven by reading the model."""
    from ironrule.model.history import RowCounter
    from ironrule.oracles.caching import CachingOracle
    from ironrule.search.widen import RuleWidener

    best = search_result.verdicts[0]
    if context.oracle is None or not isinstance(best, Proven) or search_result.stopped is not None:
        return None
    oracle, quick_oracle, adjustable = context.oracle, None, context.oracle.capabilities.adjustable_effort
    if adjustable is not None:
        oracle = adjustable.medium_effort
        quick_oracle = CachingOracle(adjustable.low_effort, points=problem.oracle.points)
    widener = RuleWidener(
        problem.case,
        CachingOracle(oracle, points=problem.oracle.points),
        problem.run,
        rows=RowCounter.from_history(context.history, context.space.sizes),
        quick_oracle=quick_oracle,
        gaps=context.gaps,
    )
    with problem.meter.time_block("widening"):
        return widener.widen(search_result.rules[0], best)

"""Explain one row: search, widen, confirm, and put what was found into the user's terms.

``explain_row`` runs the search. ``widen_rule`` moves the bounds of the best rule as far out as is proven. When the
model has confirmed the counterfactuals that were found, ``ExplanationBuilder`` puts all of it into the user's terms:
ranked rules, witnesses of the lower bound, undecided components, the nearest counterfactuals, and the background, which
is computed when it is first read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ironrule.arrays import BoolArray, Points, UInt64Array
from ironrule.explain.context import EncodedRow, ExplainerContext
from ironrule.explain.extend import extend_to_row
from ironrule.explain.model_facts import describe_model, list_library_versions
from ironrule.explain.options import SearchOptions, normalize_weights
from ironrule.explain.query import ask_oracle, build_problem, build_statistics, confirm_points, extend_to_named
from ironrule.explain.roles import mark_rule
from ironrule.hitting.bits import list_members, unpack_sets
from ironrule.hitting.reduce import count_bits
from ironrule.model.history import RowCounter, build_history
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import BoxQuery
from ironrule.results.background import Background, HistoryRows, build_background
from ironrule.results.explanation import CoveragePreference, Explanation, RankedRule, RuleRestrictions
from ironrule.rule.box import Box
from ironrule.rule.counterfactual import Counterfactual, EvidenceCounterfactuals, LazySequence, LazyValue
from ironrule.rule.instance_components import InstanceComponents
from ironrule.rule.kernels import compute_duals
from ironrule.rule.rule import Component, Rule
from ironrule.search.driver import SearchResult, solve
from ironrule.search.minimum import Minimum, find_bound_witnesses
from ironrule.search.prefer_coverage import prefer_coverage
from ironrule.search.problem import Algorithm, Problem
from ironrule.search.widen import RuleWidener, WidenedBox
from ironrule.space.constraints.binding import bind_constraint
from ironrule.verdict.verdict import Proven, Unrefuted, Verdict
from ironrule.wording import round_towards

Witness = TypeVar("Witness")
MAX_WIDENED = 20  # rules that are widened to see which covers most
MAX_CHANGED_VALUES = 200  # of a feature, that are tried one by one


def explain_row(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    progress: bool | None = False,
    is_searched: BoolArray | None = None,
) -> Explanation:
    """The shortest rule found for a row with the undesired outcome, with what is known of it.

    With ``is_searched``, the search looks at these past rows alone; what was found is counted among all of them.
    """
    context, row = extend_to_row(context, row)
    algorithm = options.choose_algorithm(context.oracle is not None)
    context = extend_to_named(context, options)
    searched = context if is_searched is None else _keep_searched_rows(context, is_searched)
    problem = build_problem(searched, row, options)
    with problem.meter.watch(progress):
        result = solve(problem, algorithm)
        if problem.oracle.points is None and result.stopped is None:  # an algorithm that never asks for any
            ask_oracle(problem.oracle, BoxQuery(problem.case, problem.case.components.box(0), problem.k), problem.run)
        shortest, preference = result, None
        if options.prefer == "coverage":
            result, wider, preference = _prefer_coverage(context, problem, shortest, options.widen)
        else:
            wider = widen_rule(context, problem, result) if options.widen else None
        # Whichever past rows the search looked at, what it found is counted among all of them.
        problem = replace(problem, case=replace(problem.case, history=context.search_history))
        problem.meter.phase = "confirming"
        if isinstance(row, EncodedRow) and row.confirmations is not None:
            row.confirmations.add(context, problem.case, problem.oracle.points)
        else:
            confirm_points(context, problem)
        left_open = _is_left_open(problem, shortest, algorithm)
        builder = ExplanationBuilder(context, problem, result, wider, preference)
        return builder.build(type(algorithm).__name__, options, left_open)


def _keep_searched_rows(context: ExplainerContext, is_searched: BoolArray) -> ExplainerContext:
    """The context whose searches look at some past rows alone."""
    history = context.search_history
    kept = build_history(context.reduced.space, history.codes.take(is_searched), history.outcomes[is_searched])
    return replace(context, search_history=kept)


def _prefer_coverage(
    context: ExplainerContext, problem: Problem, shortest: SearchResult, widen: bool
) -> tuple[SearchResult, WidenedBox | None, CoveragePreference | None]:
    """What a search found, with the rule first that covers most, its bounds widened where that is asked for."""
    can_widen = widen and context.oracle is not None
    preferred = prefer_coverage(problem, shortest, MAX_WIDENED if can_widen else 1)
    if preferred is None:
        return shortest, None, None
    results = [_put_first(shortest, rule, verdict) for rule, verdict in preferred.rules.items()]
    weight, compared = problem.to_user_weight(problem.weigh(shortest.rules[0])), len(results)
    if not can_widen:
        return results[0], None, CoveragePreference(weight, preferred.covers_most, compared)
    best: tuple[tuple[int, float], SearchResult, WidenedBox | None] | None = None
    for number, result in enumerate(results):
        wider = widen_rule(context, problem, result)
        covered = 0 if wider is None else problem.case.history.count_covered(wider.box, problem.case.space.sizes)
        score = covered, -problem.weigh(result.rules[0])  # of those that cover the same, a short one
        if best is None or score > best[0]:
            best = score, result, wider
        if problem.meter.ended_by != "finished":  # the others would be left as they are
            compared = number + 1
            break
    assert best is not None
    is_complete = preferred.are_all and compared == len(results)
    return best[1], best[2], CoveragePreference(weight, is_complete, compared)


def _put_first(result: SearchResult, rule: int, verdict: Proven) -> SearchResult:
    """The same rules with a preferred one before the others."""
    others = dict(zip(result.rules, result.verdicts, strict=True))
    others.pop(rule, None)
    return replace(result, rules=(rule, *others), verdicts=(verdict, *others.values()))


def _is_left_open(problem: Problem, result: SearchResult, algorithm: Algorithm) -> bool:
    """Whether a search for a minimum rule came to its end without one, although the model was read."""
    is_minimum = isinstance(result.verdicts[0], Proven) and problem.weigh(result.rules[0]) <= result.lower_bound
    return problem.oracle.exact and isinstance(algorithm, Minimum) and not is_minimum


@dataclass(frozen=True, slots=True, eq=False)
class ExplanationBuilder:
    """What one search ended with."""

    context: ExplainerContext
    problem: Problem
    search_result: SearchResult
    wider: WidenedBox | None
    preference: CoveragePreference | None

    def build(self, algorithm: str, options: SearchOptions, left_open: bool) -> Explanation:
        """All of it in the user's terms."""
        context, problem, result = self.context, self.problem, self.search_result
        require, forbid = tuple(options.require), tuple(options.forbid)
        statistics = build_statistics(problem.meter, algorithm, options.seed, result.stopped, left_open)
        needed, limits = self._witnesses(), None if self.wider is None else self.wider.limits
        ranked = tuple(map(self._rank_rule, result.rules, result.verdicts))
        wider = None if self.wider is None else self._rank_rule(result.rules[0], self.wider.verdict, self.wider.box)
        return Explanation(
            instance=context.space.decode_row(problem.case.user_instance),
            ranked=ranked,
            counterfactuals=EvidenceCounterfactuals(self._counterfactuals),
            statistics=statistics,
            history_rows=len(context.history),
            space=context.space.fingerprint,
            weight=problem.to_user_weight(problem.weigh(result.rules[0])),
            lower_bound=0 if needed is None else problem.to_user_weight(result.lower_bound),
            unreadable_reason=context.unreadable_reason,
            model=context.fingerprint,
            decision=context.target,
            restrictions=RuleRestrictions(require, forbid, normalize_weights(options.weights)),
            witnesses=() if needed is None else needed,
            wider=wider,
            rounded=None if wider is None or self.wider is None else self._round_bounds(wider.rule, self.wider.box),
            wider_is_maximal=self.wider is not None and self.wider.maximal,
            wider_witnesses=() if limits is None else tuple(map(tuple, problem.case.embed(limits).tolist())),
            undecided_components=self._undecided(),
            model_count=context.model.model_count,
            constraints=tuple(map(str, context.space.constraints)),
            breakpoints=context.breakpoints,
            extended_values=context.extended_values,
            domains=context.domains,
            prefer=options.prefer,
            preference=self.preference,
            covers_only_instance=self._covers_only_instance(wider or ranked[0]),
            confirmed=context.is_confirmed,
            marks=mark_rule(context, ranked[0].rule),
            lazy_background=LazyValue(self._background),
        )

    def _background(self) -> Background:
        """What plots and reports show besides."""
        context, problem, rule = self.context, self.problem, self.search_result.rules[0]
        points = np.array(list(self._witnesses() or ()), dtype=np.int32).reshape(-1, len(context.space))
        if problem.oracle.points is not None:
            points = np.concatenate([points, problem.case.embed(problem.oracle.points)])
        named = problem.case.components.rule(rule, "")
        points = np.concatenate([points, find_single_changes(context, named, problem.case.user_instance)])
        row = context.space.decode_row(problem.case.user_instance)
        past = HistoryRows(context.space, context.history.codes, context.outcomes, context.unused_features)
        instance = problem.case.user_instance
        return replace(
            build_background(past, named, row, points, is_robust=context.is_robust),
            libraries=list_library_versions(),
            lazy_model=LazyValue(lambda: describe_model(context, instance)),
        )

    def _covers_only_instance(self, shown: RankedRule) -> bool:
        """Whether the instance is the only past row that a rule covers."""
        instance, context = self.problem.case.user_instance, self.context
        alone = Box(instance, instance)
        return shown.coverage == 1 and context.history.count_covered(alone, context.space.sizes) == 1

    def _round_bounds(self, rule: Rule, box: Box) -> Rule | None:
        """A wider rule with bounds as people write numbers: each is rounded inwards, but not past a value that a past
        row or the row itself has, so that as many rows are covered. None where nothing becomes shorter.
        """
        space, instance = self.problem.case.space, self.problem.case.instance
        parts: list[Component] = []
        for part in rule.components:
            j = space.index(part.feature)
            feature = space.features[j]
            if not feature.interval or feature.has_only_integers or part.op == "==" or part.reading != "bound":
                parts.append(part)
                continue
            upper, own = part.op == "<=", int(instance[j])
            codes = range(int(box.high[j]), own, -1) if upper else range(int(box.low[j]), own)
            counts = self.context.history.frequencies[self.context.space.index(part.feature)]
            limit = feature.value(next((code for code in codes if counts[code]), own))
            short = round_towards(float(part.value), float(limit))
            parts.append(replace(part, value=short if len(repr(short)) < len(repr(part.value)) else part.value))
        rounded = replace(rule, components=tuple(parts))
        return None if rounded == rule else rounded

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
        verdict = self.problem.oracle.lookup(self.problem.case.components.box(shorter))
        if verdict is not None or self.search_result.stopped is None:
            return isinstance(verdict, Unrefuted)
        return self.problem.find_known_exceptions(shorter) is None

    def _witnesses(self) -> Sequence[tuple[int, ...]] | None:
        """Counterfactuals that need a rule of the lower bound's weight; None if there is no such bound."""
        result = self.search_result
        if not result.lower_bound:
            return None
        embed = self.problem.case.embed
        return find_witnesses(
            self.problem, result.lower_bound, result.bound_demands, lambda point: tuple(embed(point).tolist())
        )

    def _rank_rule(self, rule: int, verdict: Verdict, wider: Box | None = None) -> RankedRule:
        case, components = self.problem.case, self.problem.case.components
        box = components.box(rule) if wider is None else wider
        named = components.rule(rule, self.context.model.primary.decision.undesired_name, wider)
        return RankedRule(named, case.embed_verdict(verdict), case.history.count_covered(box, case.space.sizes))

    def _counterfactuals(self) -> tuple[Counterfactual, ...]:
        """The nearest counterfactuals of the model itself that also satisfy the constraints on what may change."""
        context, case, points = self.context, self.problem.case, self.problem.oracle.points
        if points is None:
            return ()
        permitted = np.ones(len(points), dtype=np.bool_)
        if context.is_robust:
            permitted = context.model.primary.desired(case.embed(points))
        for constraint in context.change_constraints:
            permitted &= bind_constraint(constraint, case.space.features)(points, case.instance)
        nearest = _select_nearest(points[permitted], case.components, self.problem.k)
        return tuple(map(case.build_counterfactual, nearest))


def find_single_changes(context: ExplainerContext, rule: Rule, instance: Points) -> Points:
    """Points with the desired outcome that differ from the instance in one feature of a rule: of each feature, where
    there is one, the nearest value that a past row has; of categories the most frequent. Many values are not all tried.
    """
    space, points, places = context.space, list[Points](), list[int]()
    if context.is_robust:
        return np.zeros((0, len(space)), dtype=np.int32)
    for place in map(space.index, rule.features):
        feature, own = space.features[place], int(instance[place])
        counts = np.asarray(context.history.frequencies[place])
        codes = np.flatnonzero(counts)
        codes = codes[codes != own]
        order = np.argsort(np.abs(codes - own) if feature.ordered else -counts[codes], kind="stable")
        changed = np.repeat(instance[None, :], min(len(codes), MAX_CHANGED_VALUES), axis=0)
        changed[:, place] = codes[order][:MAX_CHANGED_VALUES]
        points.append(changed)
        places += [place] * len(changed)
    candidates = np.concatenate([*points, np.zeros((0, len(space)), dtype=np.int32)]).astype(np.int32)
    is_desired = space.feasible.admits(candidates)
    is_desired[is_desired] = context.model.primary.desired(candidates[is_desired])
    first = np.unique(np.array(places, dtype=np.int64)[is_desired], return_index=True)[1]
    return candidates[is_desired][first]


def find_witnesses(
    problem: Problem, weight: float, demands: UInt64Array | None, convert: Callable[[Points], Witness]
) -> Sequence[Witness] | None:
    """Counterfactuals that together need a rule of a weight, each converted; None if they cannot be gathered."""

    def gather(demands: UInt64Array | None) -> tuple[Witness, ...] | None:
        points = find_bound_witnesses(problem, weight, demands)
        return None if points is None else tuple(map(convert, points))

    if problem.oracle.has_all_duals:  # a minimum hitting set of all that a rule must hit has just been found
        return LazySequence(lambda: gather(None) or ())
    return gather(demands)


def _select_nearest(points: Points, components: InstanceComponents, k: int) -> Points:
    """The counterfactuals that change fewest features: one of each dual, and none whose dual contains another's."""
    duals = compute_duals(points, components.low, components.high)
    order = np.lexsort((count_bits(duals), (points != components.instance).sum(axis=1)))
    chosen: dict[int, int] = {}
    for place, dual in zip(order.tolist(), unpack_sets(duals[order]), strict=True):  # after those it contains
        if len(chosen) < k and not any(other & dual == other for other in chosen):
            chosen[dual] = place
    return points[list(chosen.values())]


def widen_rule(context: ExplainerContext, problem: Problem, search_result: SearchResult) -> WidenedBox | None:
    """The best rule with its bounds as far out as they go, where it was proven by reading the model."""
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
        rows=RowCounter.from_history(problem.case.history, problem.case.space.sizes),
        quick_oracle=quick_oracle,
        gaps=context.gaps,
    )
    problem.meter.phase = "widening the bounds"
    with problem.meter.time_block("widening"):
        return widener.widen(search_result.rules[0], best)

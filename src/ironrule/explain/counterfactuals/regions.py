"""The largest box around a counterfactual in which every point has the desired outcome, or what else is to be reached.

The oracles decide whether a box has a point with the desired outcome. Here the opposite is asked: is there one with the
undesired outcome? So the model is turned round (:mod:`ironrule.backends.opposite`), and the box is grown as the bounds
of a rule are (:mod:`ironrule.search.widen`), outward from the counterfactual: first every category, and every missing
value, that can be freed is; then each bound is moved as far as the exact oracle proves that no undesired point comes
in. What stopped a bound would stop it in a larger box too, so no box that contains the result is free of undesired
points: it is maximal, though another one may be larger.

Where a target, a margin or further models are asked for, all of this is done in the context whose desired outcome that
is (:mod:`.targets`). A feature that is an interval for the explainer's own outcome may not be one there: a band of a
linear model's scores may lie between two values. For the opposite that is no obstacle, since one end of the band is
enough to leave it. So the region is sought where these features are intervals again, with each end and each model read
by itself. Where that cannot be, nothing is called proven that lets such a feature vary.

Of a model that can only be asked, boxes are grown as long as a search finds no undesired point in them, and what is
known of the result is a bound from points drawn at random after it was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.opposite import OppositeModel, build_opposite_oracle
from ironrule.errors import InputError, describe_value
from ironrule.explain.context import EncodedRow, ExplainerContext, decide_row
from ironrule.explain.counterfactuals.joint import widen_to_intervals
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.readable_numbers import RESOLUTION
from ironrule.explain.counterfactuals.targets import build_apart_context, build_reached_context, build_search_scope
from ironrule.explain.extend import extend_to_row
from ironrule.explain.options import SearchOptions, parse_names
from ironrule.explain.query import (
    ask_oracle,
    build_statistics,
    choose_black_box_oracle,
    extend_to_named,
)
from ironrule.model.history import RowCounter, build_history
from ironrule.model.intervals import find_gaps
from ironrule.model.protocol import Model, Unreadable, require_desired
from ironrule.model.reduced_model import embed_model
from ironrule.model.target import parse_target
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.oracles.sampling import Sampling
from ironrule.results.changes.region import CounterfactualRegion, FeatureRange
from ironrule.rule.box import Box
from ironrule.rule.counterfactual import Counterfactual, Goal
from ironrule.rule.instance_components import build_instance_components
from ironrule.rule.rule import Component, Rule
from ironrule.search.driver import CHECK_SAMPLES, ERROR_PROBABILITY
from ironrule.search.widen import BoxSide, RuleWidener, WidenedBox
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.feature import Value
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Refuted, Unrefuted, Verdict
from ironrule.wording import round_towards

MAX_CHECKS = 8  # of a region that is not proven: each undesired point that is drawn makes it smaller


@dataclass(frozen=True, slots=True, eq=False)
class OppositeProblem:
    """A counterfactual as the instance of the model turned round, and who is asked about it."""

    case: Case
    oracle: Oracle
    exact: bool
    gaps: Any
    run: Run


@dataclass(frozen=True, slots=True, eq=False)
class GrownBox:
    """A box without known undesired points, what is known of it, and why it did not grow further."""

    box: Box
    verdict: Verdict
    maximal: bool
    stopped: str | None = None


def find_region(
    context: ExplainerContext,
    counterfactual: Any,
    features: Sequence[str] | str,
    options: SearchOptions,
    changes: ChangeOptions,
    progress: bool | None = False,
) -> CounterfactualRegion:
    """The region of a counterfactual in which these features vary: those that it changes, all, or some by name. Every
    point of it reaches what the changes must.
    """
    values, before = _read_counterfactual(counterfactual)
    intervals = {feature.name for feature in context.space.features if feature.interval}
    context, row = _reach(context, changes, values, before, progress)
    varying = _choose_features(context, features, values, before)
    context = extend_to_named(context, options, names=varying)
    point, desired = decide_row(context, row)
    if not desired:
        _raise_not_reached(changes.goal)
    values = context.space.decode_row(point)
    meter = options.start_meter()
    with meter.watch(progress):
        problem = _build_problem(context, EncodedRow(point), Run(meter, np.random.default_rng(options.seed)))
        outermost = _build_outermost(context, problem.case, before, varying)
        grown = _drop_unproven(problem, _grow(problem, outermost), intervals)
        found = None if not problem.exact or grown.stopped else getattr(problem.oracle, "points", None)
        if found is not None:
            opposite = OppositeModel((context.model.primary,))
            require_desired(problem.case.embed(found), opposite, opposite, context.model.primary)
    name = "Region" if problem.exact else "RegionSearch"
    builder = _RegionBuilder(
        context, problem.case, grown, values=values, before=before, varying=varying, goal=changes.goal
    )
    return builder.build(build_statistics(meter, name, options.seed, grown.stopped))


def choose_goal(counterfactual: Any, target: Any, margin: float | None, models: Sequence[Any] | None) -> ChangeOptions:
    """What every point of a region must reach: what is given, and for the rest what the counterfactual was asked to
    reach; raises InputError where it was asked to do so for further models, which it does not have.
    """
    goal = (counterfactual.goal if isinstance(counterfactual, Counterfactual) else None) or Goal()
    if models is None and goal.further_models:
        raise InputError(
            expected="the further models must be given again for a region",
            got=f"a counterfactual that was found {replace(goal, margin=0.0).robustness}, and no models",
            hint="pass models=[...], or models=[] for a region of the explainer's own model alone",
            code="models-required",
        )
    return ChangeOptions(
        target=parse_target(goal.target if target is None else target),
        margin=goal.margin if margin is None else margin,
        models=() if models is None else models,
    )


def _reach(
    context: ExplainerContext, changes: ChangeOptions, values: Any, before: dict[str, Value], progress: bool | None
) -> tuple[ExplainerContext, Any]:
    """The context whose desired outcome is what every point must reach, with all values of the counterfactual and of
    its row, and the counterfactual in it.
    """
    context = build_reached_context(context, changes, progress)
    context = build_apart_context(context, progress, margins_apart=True) or context
    if before:
        context, _ = extend_to_row(context, before)
    context, row = extend_to_row(context, values)
    wide = widen_to_intervals(context) if context.narrowed else None
    if wide is None:
        return context, row
    assert wide.compiled_model is not None
    space, gaps = wide.reduced.space, find_gaps(wide.reduced.space, [wide.compiled_model.tabulated])
    if not gaps.are_respected_by(space.feasible.predicates):  # a constraint may turn between two values
        return context, row
    return replace(wide, gaps=gaps), row


def _raise_not_reached(goal: Goal) -> NoReturn:
    """Raise InputError about a row that does not have what every point of its region is to have."""
    if goal == Goal():
        rule = "a region must be that of a counterfactual, which has the desired outcome"
        raise InputError(expected=rule, got="a row with the undesired outcome", code="row-denied")
    raise InputError(
        expected=f"a region must be that of a counterfactual, which must itself have {goal.describe()}",
        got="a row that does not",
        hint="pass the target, margin and models that it was found with, or look for one that has that",
        code="goal-not-reached",
    )


def _drop_unproven(problem: OppositeProblem, grown: GrownBox, intervals: set[str]) -> GrownBox:
    """The same box; not called proven where a feature varies in it that is an interval to the explainer, and of which
    only the values seen could be looked at here. Points drawn at random then say what is known.
    """
    box, features = grown.box, problem.case.space.features
    varying = (feature for j, feature in enumerate(features) if box.low[j] < box.high[j])
    if not isinstance(grown.verdict, Proven) or all(one.interval or one.name not in intervals for one in varying):
        return grown
    unproven = replace(grown, verdict=NOT_SEARCHED, maximal=False)
    try:
        return replace(unproven, verdict=_draw_points(problem, box, 1.0 - ERROR_PROBABILITY))
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        return replace(unproven, stopped=name_stop(stop, problem.run.meter))


def _draw_points(problem: OppositeProblem, box: Box, confidence: float) -> Verdict:
    """What points drawn at random from a box say of it."""
    return Sampling(CHECK_SAMPLES, confidence).find(BoxQuery(problem.case, box), problem.run)


def _read_counterfactual(given: Any) -> tuple[dict[str, Value] | Any, dict[str, Value]]:
    """The values of a counterfactual, and of the row that it was found for; of a plain row both are the same."""
    if isinstance(given, Counterfactual):
        values = dict(given.values)
        return values, {**values, **{change.feature: change.before for change in given.changes}}
    return given, {}


def _choose_features(
    context: ExplainerContext, features: Sequence[str] | str, values: Any, before: dict[str, Value]
) -> tuple[str, ...]:
    """The names of the features that vary; raises InputError if that cannot be."""
    if features == "all":
        return tuple(context.space.names)
    if features == "changed":
        changed = tuple(name for name in before if before[name] != values[name])
        if not changed:
            hint = 'pass a counterfactual, or features="all" or the names of some'
            raise InputError(expected="a counterfactual must change a feature", got=describe_value(values), hint=hint)
        return changed
    names = parse_names("features", features)
    return tuple(context.space.names[j] for j in sorted({context.space.index(name) for name in names}))


def _build_problem(context: ExplainerContext, row: EncodedRow, run: Run) -> OppositeProblem:
    """The model turned round, over the features that searches work on, with the counterfactual as its instance."""
    reduced, space = context.reduced, context.reduced.space
    primary: Model = context.model.primary
    model = embed_model(OppositeModel((primary,)), reduced, row.codes)
    history = context.search_history
    own = context.outcomes
    case = Case(
        space,
        model,
        build_history(space, history.codes, ~own),
        components=build_instance_components(space, reduced.reduce(row.codes), context.component_cache),
        feasible=space.feasible,
        fingerprint=f"opposite of {context.fingerprint}",
        reduced=reduced,
        user_row=row.codes,
    )
    if context.compiled_model is not None:
        read = context.compiled_model.reads[-1]  # the model itself, whatever margin rules must withstand
        try:
            oracle = build_opposite_oracle(read, model, reduced, engine=context.engine, gaps=context.gaps)
            return OppositeProblem(case, CachingOracle(oracle, exact=True), True, context.gaps, run)
        except Unreadable:  # its opposite has too many alternatives, or may turn between values
            pass
    return OppositeProblem(case, CachingOracle(choose_black_box_oracle(context)), False, None, run)


def _build_outermost(context: ExplainerContext, case: Case, before: dict[str, Value], varying: Sequence[str]) -> Box:
    """How far the region may go: other features keep their values, and those that vary the values that constraints on
    single features permit, as a run without gaps that holds the counterfactual's own.
    """
    point, space = case.instance, case.space
    low, high = point.copy(), point.copy()
    own = space.encode_row(before, ignore=tuple(before)) if before else point
    bound = [bind_constraint(one, context.space.features) for one in context.change_constraints]
    single = [one for one in bound if len(one.columns) == 1 and context.space.names[one.columns[0]] in space.names]
    predicates = [bind_constraint(one.constraint, space.features) for one in single]
    for name in varying:
        if name not in space.names:  # the model does not use it
            continue
        j = space.index(name)
        permitted = np.ones(int(space.sizes[j]), dtype=np.bool_)
        for predicate in predicates:
            if predicate.columns == (j,):
                permitted &= predicate.holds_per_code(j, own)
        low[j], high[j] = _find_run(permitted, int(point[j]), int(space.code_limits.last[j]))
    return Box(low, high)


def _find_run(permitted: Any, code: int, last: int) -> tuple[int, int]:
    """The first and the last of the neighbouring permitted codes around one; missing, beyond the last, is among them if
    all are permitted.
    """
    if permitted.all():
        return 0, len(permitted) - 1
    if code > last:  # missing has no neighbours
        return code, code
    forbidden = np.flatnonzero(~permitted)
    before, after = forbidden[forbidden < code], forbidden[forbidden > code]
    first = int(before[-1]) + 1 if len(before) else 0
    return first, min(last, int(after[0]) - 1 if len(after) else last)


def _grow(problem: OppositeProblem, outermost: Box) -> GrownBox:
    """The box grown as far as it goes, exactly or by search."""
    point = problem.case.instance
    start = Box(point.copy(), point.copy())
    verdict, stopped = ask_oracle(problem.oracle, BoxQuery(problem.case, start), problem.run)
    if verdict is None:
        return GrownBox(start, NOT_SEARCHED, False, stopped)
    if problem.exact and isinstance(verdict, Proven):
        return _grow_proven(problem, WidenedBox(start, verdict, True), outermost)
    if isinstance(verdict, Refuted):  # the model contradicts itself, or its reading
        return GrownBox(start, NOT_SEARCHED, False)
    return _grow_by_search(problem, start, outermost)


def _list_sides(problem: OppositeProblem, outermost: Box) -> tuple[list[int], list[BoxSide]]:
    """The features that can only be freed as a whole, and the bounds that can move."""
    space, point = problem.case.space, problem.case.instance
    whole, sides = list[int](), list[BoxSide]()
    for j, feature in enumerate(space.features):
        if outermost.low[j] == outermost.high[j]:
            continue
        if not feature.ordered or point[j] > space.code_limits.last[j]:
            if outermost.low[j] == 0 and outermost.high[j] == space.code_limits.top[j]:
                whole.append(j)
            continue
        sides += [BoxSide(j, upper) for upper in (False, True)]
    return whole, sides


def _free_features(problem: OppositeProblem, here: WidenedBox, features: Sequence[int]) -> WidenedBox:
    """The box with every value of these features, as far as that is proven, one after the other."""
    top = problem.case.space.code_limits.top
    for j in features:
        low, high = here.box.low.copy(), here.box.high.copy()
        low[j], high[j] = 0, top[j]
        verdict = problem.oracle.find(BoxQuery(problem.case, Box(low, high)), problem.run)
        if isinstance(verdict, Proven):
            here = WidenedBox(Box(low, high), verdict, here.maximal)
        elif not isinstance(verdict, Refuted):
            here = replace(here, maximal=False)
    return here


def _grow_proven(problem: OppositeProblem, start: WidenedBox, outermost: Box) -> GrownBox:
    """By proofs alone."""
    here, whole, sides = start, *_list_sides(problem, outermost)
    last, top = problem.case.space.code_limits.last, problem.case.space.code_limits.top
    try:
        here = _free_features(problem, start, whole)
        oracle = problem.oracle
        assert isinstance(oracle, CachingOracle)
        limit = Box(outermost.low, np.minimum(outermost.high, np.maximum(last, here.box.high)).astype(np.int32))
        widener = RuleWidener(
            problem.case,
            oracle,
            problem.run,
            rows=RowCounter.from_history(problem.case.history, problem.case.space.sizes),
            gaps=problem.gaps,
            outermost=limit,
        )
        maximal = here.maximal
        here = widener.widen_box(replace(here, maximal=True), sides)
        here = replace(here, maximal=here.maximal and maximal)
        if problem.run.meter.ended_by == "finished":  # missing is added to what has every other value
            full = [j for j in sorted({side.feature for side in sides}) if here.box.low[j] == 0]
            full = [j for j in full if last[j] == here.box.high[j] < top[j] == outermost.high[j]]
            here = _free_features(problem, here, full)
    except (BudgetExhausted, KeyboardInterrupt) as stop:
        return GrownBox(here.box, here.verdict, False, name_stop(stop, problem.run.meter))
    stops = {"finished": None, "interrupted": "interrupted"}
    return GrownBox(here.box, here.verdict, here.maximal, stops.get(problem.run.meter.ended_by, "budget"))


def _grow_by_search(problem: OppositeProblem, start: Box, outermost: Box) -> GrownBox:
    """As long as no undesired point is found; then points are drawn, and where one is undesired, all begins anew with
    what is known by then.
    """
    oracle = problem.oracle
    assert isinstance(oracle, CachingOracle)
    box, stopped = start, None
    for number in range(1, MAX_CHECKS + 1):
        try:
            box = _extend_by_search(problem, start, outermost)
            verdict = oracle.find(BoxQuery(problem.case, box), problem.run)
            if isinstance(verdict, Proven):
                return GrownBox(box, verdict, False)
            confidence = 1.0 - ERROR_PROBABILITY / (number * (number + 1))  # all checks together
            checked = _draw_points(problem, box, confidence)
        except (BudgetExhausted, KeyboardInterrupt) as stop:
            stopped = name_stop(stop, problem.run.meter)
            break
        if isinstance(checked, Unrefuted):
            return GrownBox(box, checked, False)
        assert isinstance(checked, Refuted)
        oracle.add_counterfactuals(checked.points)
    return GrownBox(start, NOT_SEARCHED, False, stopped)


def _extend_by_search(problem: OppositeProblem, box: Box, outermost: Box) -> Box:
    """Every side in turn as far out as no undesired point is found."""
    whole, sides = _list_sides(problem, outermost)
    space = problem.case.space
    for j in whole:
        low, high = box.low.copy(), box.high.copy()
        low[j], high[j] = 0, space.code_limits.top[j]
        if _seems_desired(problem, Box(low, high)) is None:
            box = Box(low, high)
    for side in sides:
        target = min(side.get_bound(outermost), int(space.code_limits.last[side.feature]))
        while target != side.get_bound(box):
            problem.run.meter.check()
            exceptions = _seems_desired(problem, side.move(box, target))
            if exceptions is None:
                box = side.move(box, target)
                break
            target = side.stop_before(exceptions[:, side.feature])
    return box


def _seems_desired(problem: OppositeProblem, box: Box) -> Points | None:
    """Undesired points of a box; None where none is found."""
    verdict = problem.oracle.find(BoxQuery(problem.case, box), problem.run)
    return verdict.points if isinstance(verdict, Refuted) else None


@dataclass(frozen=True, slots=True, eq=False)
class _RegionBuilder:
    """From a box of codes to a region in the user's terms."""

    context: ExplainerContext
    case: Case
    grown: GrownBox
    values: dict[str, Value]
    before: dict[str, Value]
    varying: tuple[str, ...]
    goal: Goal

    def build(self, statistics: Any) -> CounterfactualRegion:
        """All of it in the user's terms."""
        before = {**self.values, **{name: value for name, value in self.before.items() if name in self.values}}
        # What stays as it is belongs to the rule: without it, the rule would speak of people who get another outcome.
        components = [part for name in self.values for part in self._list_components(name)]
        labels, goal = self.context.space.labels, self.goal
        rule = Rule(tuple(components), goal.describe(), labels)
        return CounterfactualRegion(
            counterfactual=Counterfactual.from_values(before, self.values, labels).with_goal(goal),
            rule=rule,
            rounded=replace(rule, components=tuple(map(self._round, components))),
            ranges=tuple(self._describe_range(name, before[name]) for name in self.varying),
            fixed={name: value for name, value in self.values.items() if name not in self.varying},
            verdict=self.case.embed_verdict(self.grown.verdict),
            maximal=self.grown.maximal,
            statistics=statistics,
            target=parse_target(goal.target),
            margin=goal.margin,
            further_models=goal.further_models,
            scope=build_search_scope(self.context, changing=self.context.change_constraints),
        )

    def _get_codes(self, name: str) -> tuple[int, int, int, int] | None:
        """The first and the last code of a feature in the region, its last value and its last code, which may be
        missing; None if the model does not use it.
        """
        if name not in self.case.space.names:
            return None
        j, limits = self.case.space.index(name), self.case.space.code_limits
        return int(self.grown.box.low[j]), int(self.grown.box.high[j]), int(limits.last[j]), int(limits.top[j])

    def _list_components(self, name: str) -> list[Component]:
        """What the region demands of a feature; nothing where it may take any value."""
        codes, feature = self._get_codes(name), self.context.space[name]
        if codes is None or (codes[0] == 0 and codes[1] == codes[3]):
            return []
        low, high, last, top = codes
        if not feature.ordered or low > last:
            return [Component.from_feature(feature, "==", self._get_value(name, low))]
        parts = [Component.from_feature(feature, ">=", self._get_value(name, low))] if low > 0 else []
        if high < last or (not parts and high < top):  # a bound excludes missing
            parts.append(Component.from_feature(feature, "<=", self._get_value(name, high)))
        return parts

    def _get_value(self, name: str, code: int) -> Value:
        return self.case.space[name].value(code)

    def _round(self, part: Component) -> Component:
        """A bound as people write numbers, never further out, and never past the counterfactual's own value."""
        feature = self.context.space[part.feature]
        if not feature.interval or feature.has_only_integers or part.op == "==" or part.reading != "bound":
            return part
        exact, own = float(part.value), float(self.values[part.feature])
        step = RESOLUTION * (feature.values[-1] - feature.values[0])
        short = round_towards(exact, min(own, exact + step) if part.op == ">=" else max(own, exact - step))
        return replace(part, value=short) if len(repr(short)) < len(repr(part.value)) else part

    def _describe_range(self, name: str, before: Value) -> FeatureRange:
        feature, codes = self.context.space[name], self._get_codes(name)
        first, last = (feature.values[0], feature.values[-1]) if feature.values else (None, None)  # missing alone
        if codes is None or (codes[0] == 0 and codes[1] == codes[3]):
            ends: tuple[Value, Value] = (first, last) if feature.ordered else (None, None)
            return FeatureRange(
                name, *ends, first=first, last=last, before=before, after=self.values[name], any_value=True
            )
        low, high = self._get_value(name, codes[0]), self._get_value(name, codes[1])
        return FeatureRange(name, low, high, first=first, last=last, before=before, after=self.values[name])

"""Build a ladder: short rules with bounds from real rows, and the explanation as the last rung.

1. Past rows are split into those to search on and those to measure on (:mod:`ironrule.explain.measured_rows`).
2. The last rung is the explanation, searched for on the first part alone.
3. The components of each shorter rung are chosen on the first part, exactly (:mod:`ironrule.search.best_of_length`).
   Nested: from the components of the last rung, with its bounds, the best rule of four is taken; shorter ones drop the
   component that is missed least, longer ones add the one that helps most. Otherwise every length has its own best rule
   of the row's own components.
4. Bounds are moved outwards where that improves the rule on the first part: one bound at a time, until none moves. In a
   nested ladder, no bound is wider than on the rung before.
5. Only now is the second part looked at: for every rung, its covered rows and the exceptions among them are counted.
   One row equal to the explained one is left out, since it is no independent draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, BoolArray
from ironrule.errors import InputError
from ironrule.explain.build import explain_row
from ironrule.explain.context import ExplainerContext
from ironrule.explain.extend import extend_to_row
from ironrule.explain.measured_rows import find_population
from ironrule.explain.options import SearchOptions, parse_integer
from ironrule.explain.query import build_case, extend_to_named, select_components
from ironrule.hitting.bits import list_members
from ironrule.model.population import MeasuredRows, Population
from ironrule.oracles.protocol import Case
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import CoveredRows, Ladder, Rung
from ironrule.results.reasons import RungPart
from ironrule.rule.condition import find_code_range
from ironrule.rule.rule import Component, Rule
from ironrule.search.best_of_length import (
    MAX_LENGTH,
    BestRules,
    ComponentRows,
    ScoredRule,
    find_best_extension,
    find_best_reduction,
    find_best_rules,
)
from ironrule.space.feature import Value
from ironrule.verdict.bounded import DEFAULT_CONFIDENCE, Bounded, RungVerdict
from ironrule.verdict.budget import Meter
from ironrule.verdict.verdict import Proven
from ironrule.wording import format_settings, round_towards

ANCHOR_LENGTH = 4  # the length whose best rule a nested ladder is built around; up to it searches are always exact
RULES_WIDENED = 4  # the best rules of a length whose bounds are moved, to see which becomes best
SCORE_TOLERANCE = 1e-12  # two ways to compute one score may differ by so much
MAX_ROUNDS = 8  # in which every bound is moved once


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderOptions:
    """What a ladder can be told; raises InputError if something cannot be used."""

    most: int = 6
    nested: bool = True
    at_least: float | None = None
    confidence: float = DEFAULT_CONFIDENCE
    short_enough: int = 0

    def __repr__(self) -> str:
        return format_settings(self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", parse_integer("most", self.most))
        object.__setattr__(self, "short_enough", parse_integer("short_enough", self.short_enough, 0))
        if self.most > MAX_LENGTH:
            raise InputError(expected=f"most must be at most {MAX_LENGTH}", got=self.most)
        if not isinstance(self.nested, bool):
            raise InputError(expected="nested must be True or False", got=repr(self.nested))
        for name, share in (("at_least", self.at_least), ("confidence", self.confidence)):
            is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
            if share is not None and not (is_number and 0.0 < share < 1.0 and 1.0 - share < 1.0):
                expected = f"{name} must be a share between 0 and 1, such as {0.99 if name == 'at_least' else 0.95}"
                raise InputError(expected=expected, got=repr(share))

    def to_kwargs(self) -> dict[str, Any]:
        """The same by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def parse_ladders(ladders: bool | LadderOptions) -> LadderOptions | None:
    """What the ladders of a batch are told; None where it has none."""
    if isinstance(ladders, LadderOptions):
        return ladders
    if not isinstance(ladders, bool):
        raise InputError(expected="ladders must be True, False or a LadderOptions", got=repr(ladders))
    return LadderOptions() if ladders else None


def build_ladder(
    context: ExplainerContext, row: Any, options: SearchOptions, chosen: LadderOptions, progress: bool | None = False
) -> Ladder:
    """The ladder of a row with the undesired outcome."""
    population = find_population(context, progress)
    explanation = explain_row(context, row, options, progress, population.is_searched)
    context, row = extend_to_row(context, row)
    context = extend_to_named(context, options)
    case, meter = build_case(context, row), options.start_meter()
    # The row was chosen, not drawn: among the rows that bounds are measured on it would count for itself.
    measured = _leave_out_instance(population.measured, tuple(explanation.instance.values()))
    past = MeasuredRows(context.space, context.history.codes, context.history.outcomes)
    own, shown = case.components, explanation.shown.rule.components
    first = shown if chosen.nested else tuple(own.component(number) for number in own.usable_numbers)
    builder = RungBuilder(
        case=case,
        components={_find_number(case, component): component for component in first},
        outcome=context.model.primary.decision.undesired_name,
        columns=tuple(column[population.is_searched] for column in context.search_history.codes.columns),
        outcomes=context.search_history.outcomes[population.is_searched],
        critical_value=_find_critical_value(chosen),
        scale=len(measured) / max(1, int(population.is_searched.sum())),
    )
    rules = _choose_rules(builder, explanation, options, chosen, meter=meter)
    counter = _RowCounts(past, measured, population)
    rungs = [
        counter.build_bounded_rung(builder.build_rule(bounds), builder.build_parts(bounds), is_best, chosen)
        for bounds, is_best in rules
    ]
    rungs.append(counter.build_last_rung(explanation, builder.build_parts(builder.find_bounds(shown))))
    return Ladder(
        rungs=tuple(rungs),
        explanation=explanation,
        confidence=chosen.confidence,
        most=chosen.most,
        nested=chosen.nested,
        searched_rows=int(population.is_searched.sum()),
        measured_rows=len(measured),
        measured_from=population.measured_from,
        split_seed=population.seed,
        at_least=chosen.at_least,
    )


def _find_critical_value(chosen: LadderOptions) -> float:
    """The normal quantile of the confidence that each of the bounds needs."""
    from scipy.special import ndtri

    return -float(ndtri((1.0 - chosen.confidence) / chosen.most))


def _leave_out_instance(measured: MeasuredRows, values: Sequence[Any]) -> MeasuredRows:
    """The rows without one that is equal to the explained row: it was chosen, and not drawn."""
    equal = measured.find_equal(values)
    if not len(equal):
        return measured
    kept = np.ones(len(measured), dtype=np.bool_)
    kept[equal[0]] = False
    return MeasuredRows(measured.space, measured.codes.take(kept), measured.outcomes[kept])


Bounds = Mapping[int, int]
"""The components of a rule, by number, with the code of the outermost value that each admits."""


def _choose_rules(
    builder: RungBuilder, explanation: Explanation, options: SearchOptions, chosen: LadderOptions, *, meter: Meter
) -> list[tuple[Bounds, bool]]:
    """The rules of all rungs but the last, shortest first, and whether each is known to be the best of its length."""
    most = min(chosen.most, explanation.cardinality - 1)
    is_short = isinstance(explanation.verdict, Proven) and explanation.cardinality <= chosen.short_enough
    if most < 1 or is_short:
        return []
    if not chosen.nested:
        allowed, _ = select_components(builder.case.components, options.require, options.forbid)
        rows = builder.build_component_rows(list_members(allowed))
        return [_choose_best(builder, rows, length, meter) for length in range(1, most + 1)]
    rows = builder.build_component_rows(sorted(builder.components))
    anchor = min(ANCHOR_LENGTH, most)
    found = find_best_rules(rows, anchor)
    chain: dict[int, ScoredRule | None] = {anchor: found.rules[0]}
    # Nested rungs: the best rule of a middle length, reduced and extended by one component at a time.
    for length in range(anchor - 1, 0, -1):
        chain[length] = find_best_reduction(rows, _require_rule(chain[length + 1]).numbers)
    for length in range(anchor + 1, most + 1):
        chain[length] = find_best_extension(rows, _require_rule(chain[length - 1]).numbers)
    rules: list[tuple[Bounds, bool]] = []
    limits: Bounds = {}
    # Shortest first: the bounds of a rung limit those of the next.
    for length in range(1, most + 1):
        bounds, score = builder.widen_bounds(_require_rule(chain[length]).numbers, limits)
        limits = {**limits, **bounds}
        rules.append((bounds, length == anchor and _is_best(found, score)))
    return rules


def _require_rule(rule: ScoredRule | None) -> ScoredRule:
    """A rule of a length that is there: shorter than the last rung."""
    assert rule is not None
    return rule


def _choose_best(builder: RungBuilder, rows: ComponentRows, length: int, meter: Meter) -> tuple[Bounds, bool]:
    """The best rule of a length after its bounds were moved; longer ones as far as the budget allows."""

    def may_continue() -> bool:
        return meter.budget.seconds is None or meter.elapsed < meter.budget.seconds

    found = find_best_rules(rows, length, RULES_WIDENED, None if length <= ANCHOR_LENGTH else may_continue)
    widened = [builder.widen_bounds(rule.numbers, {}) for rule in found.rules]
    bounds, score = min(widened, key=lambda one: one[1])
    return bounds, _is_best(found, score)


def _is_best(found: BestRules, score: float) -> bool:
    """Whether a rule whose bounds were moved does as well as every rule of its length whose bounds were not."""
    return found.complete and score <= found.rules[0].score + SCORE_TOLERANCE


def _find_number(case: Case, component: Component) -> int:
    """The number of a component of the explained row, whatever its bound."""
    return 2 * case.space.index(component.feature) + (component.op == ">=")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RungBuilder:
    """The rows to search on, and how components of the explained row become rules with wider bounds."""

    case: Case
    components: Mapping[int, Component]  # by number, with the narrowest bound that each may have
    outcome: str
    columns: tuple[AnyArray, ...]  # per feature that searches work on, the codes of the rows to search on
    outcomes: BoolArray
    critical_value: float
    scale: float

    def build_component_rows(self, numbers: Sequence[int]) -> ComponentRows:
        """On which rows every component is true."""
        flags = np.empty((len(numbers), len(self.outcomes)), dtype=np.bool_)
        for place, number in enumerate(numbers):
            flags[place] = self._flag_covered({number: self._find_first_bound(number)})
        return ComponentRows.from_flags(numbers, flags, self.outcomes, self.critical_value, self.scale)

    def widen_bounds(self, numbers: Sequence[int], limits: Bounds) -> tuple[Bounds, float]:
        """The bounds of a rule, moved outwards as long as that improves its score, but not beyond the limits."""
        movable = [number for number in numbers if self.components[number].op != "=="]
        bounds = {number: limits.get(number, self._find_first_bound(number)) for number in numbers}
        score = math.inf
        # One bound at a time to where the score is best, until a round over all of them changes nothing.
        for _ in range(MAX_ROUNDS):
            before = score
            for number in movable:
                covered = self._flag_covered({n: code for n, code in bounds.items() if n != number})
                bounds[number], score = self._find_best_bound(number, covered, limits.get(number))
            if not score < before:
                break
        if not movable:
            covered = self._flag_covered(bounds)
            score = self._score(self.outcomes[covered].sum(), covered.sum())
        return bounds, float(score)

    def _flag_covered(self, bounds: Bounds) -> BoolArray:
        covered = np.ones(len(self.outcomes), dtype=np.bool_)
        for number, code in bounds.items():
            column = self.columns[number // 2]
            low, high = self._find_admitted(number, code)
            covered &= (column >= low) & (column <= high)
        return covered

    def _find_first_bound(self, number: int) -> int:
        """The code of the outermost value that a component with its narrowest bound admits."""
        component = self.components[number]
        low, high = find_code_range(self.case.space.features[number // 2], component.op, component.value)
        return low if component.op == ">=" else high

    def _find_admitted(self, number: int, code: int) -> tuple[int, int]:
        """The codes that a component admits whose bound is at a code."""
        op = self.components[number].op
        if op == "==":
            return code, code
        return (code, int(self.case.space.code_limits.last[number // 2])) if op == ">=" else (0, code)

    def _find_best_bound(self, number: int, covered: BoolArray, limit: int | None) -> tuple[int, float]:
        """The bound of one component with the best score, the others being as they are; the widest of equal ones."""
        j, first = number // 2, self._find_first_bound(number)
        last = int(self.case.space.code_limits.last[j])
        column, outcomes = self.columns[j][covered], self.outcomes[covered]
        counts = [np.bincount(column[flags], minlength=last + 2)[: last + 1] for flags in (outcomes, ~outcomes)]
        if number % 2:  # a lower bound: go down
            codes = np.arange(first, (0 if limit is None else limit) - 1, -1)
            sums = [np.cumsum(count[::-1])[::-1] for count in counts]
        else:
            codes = np.arange(first, (last if limit is None else limit) + 1)
            sums = [np.cumsum(count) for count in counts]
        exceptions, rows = sums[0][codes], sums[0][codes] + sums[1][codes]
        # A bound that excludes nothing more is none; where all are, the narrowest stays.
        restricts = rows < len(column)
        restricts[0] = True
        scores = np.where(restricts, self._score(exceptions, rows), np.inf)
        # Of equal scores the last one: the widest bound.
        best = len(codes) - 1 - int(np.argmin(scores[::-1]))
        return int(codes[best]), float(scores[best])

    def _score(self, exceptions: Any, rows: Any) -> Any:
        """Wilson's upper bound, of many at once; 1 where no row is covered."""
        z_squared, n = self.critical_value**2, np.maximum(np.asarray(rows) * self.scale, 1e-12)
        share = np.minimum(1.0, np.asarray(exceptions) * self.scale / n)
        spread = np.sqrt(z_squared * (share * (1.0 - share) / n + z_squared / (4.0 * n * n)))
        bounds = np.minimum(1.0, (share + z_squared / (2.0 * n) + spread) / (1.0 + z_squared / n))
        return np.where(np.asarray(rows) * self.scale > 0.0, bounds, 1.0)

    def find_bounds(self, components: Sequence[Component]) -> Bounds:
        """The bounds that the components of a rule have."""
        features = self.case.space.features
        bounds = {}
        for component in components:
            number = _find_number(self.case, component)
            low, high = find_code_range(features[number // 2], component.op, component.value)
            bounds[number] = low if component.op == ">=" else high
        return bounds

    def build_parts(self, bounds: Bounds) -> tuple[RungPart, ...]:
        """What is known of every component of a rule, in the order of their numbers."""
        flags = {number: self._flag_covered({number: code}) for number, code in bounds.items()}
        parts = []
        for number in sorted(bounds):
            covered = np.ones(len(self.outcomes), dtype=np.bool_)
            for other in flags:
                covered &= True if other == number else flags[other]
            own = flags[number]
            parts.append(
                RungPart(
                    counts_against=self._counts_against(number, own),
                    bound_without=float(self._score(self.outcomes[covered].sum(), covered.sum())),
                    approved_share=float(own[self.outcomes].mean()) if self.outcomes.any() else 0.0,
                    other_value=self._find_other_value(number, bounds[number]),
                )
            )
        return tuple(parts)

    def _counts_against(self, number: int, own: BoolArray) -> bool:
        """Whether a property counts against people: as its role says, or if people with it are approved less often."""
        feature, second = self.case.space.features[number // 2], number % 2
        if feature.role is not None and feature.role.higher_is is not None and feature.ordered:
            return (feature.role.higher_is == "worse") == bool(second)
        if not own.any() or own.all():
            return bool(own.all())
        return bool(self.outcomes[own].mean() < self.outcomes[~own].mean())

    def _find_other_value(self, number: int, code: int) -> Value:
        """The nearest value that a component excludes; of categories, the one that most approved people have."""
        feature, column = self.case.space.features[number // 2], self.columns[number // 2]
        low, high = self._find_admitted(number, code)
        others = column[(column < low) | (column > high)]
        if not feature.ordered:
            others = column[self.outcomes & ((column < low) | (column > high))]
            return feature.value(int(np.argmax(np.bincount(others)))) if len(others) else None
        others = others[others <= feature.last_code]
        if not len(others):
            return None
        return feature.value(int(others.max() if number % 2 else others.min()))

    def build_rule(self, bounds: Bounds) -> Rule:
        """The rule in the user's terms, moved bounds as people write numbers."""
        components = tuple(self._build_component(number, bounds[number]) for number in sorted(bounds))
        return Rule(components, self.outcome, self.case.space.labels)

    def _build_component(self, number: int, code: int) -> Component:
        component, feature = self.components[number], self.case.space.features[number // 2]
        if component.op == "==" or code == self._find_first_bound(number):
            return component
        value = feature.value(code)
        if feature.numeric and feature.naturally_ordered and not feature.has_only_integers:
            value = round_towards(float(value), self._find_rounding_limit(number, code))
        return Component.from_feature(feature, component.op, value)

    def _find_rounding_limit(self, number: int, code: int) -> float:
        """Half-way from a bound to the next value of a row to search on: up to there the same rows are covered. Between
        neighbouring floats there is no half-way.
        """
        j = number // 2
        values, column = self.case.space.features[j].values, self.columns[j]
        last = int(self.case.space.code_limits.last[j])
        beyond = column[column < code] if number % 2 else column[(column > code) & (column <= last)]
        if not len(beyond):
            return float(values[code])
        following = int(beyond.max() if number % 2 else beyond.min())
        limit = (float(values[code]) + float(values[following])) / 2.0
        return float(values[code]) if limit == values[following] else limit


@dataclass(frozen=True, slots=True, eq=False)
class _RowCounts:
    """Counts the rows that rules cover, in all parts."""

    past: MeasuredRows
    measured: MeasuredRows
    population: Population

    def build_bounded_rung(self, rule: Rule, parts: tuple[RungPart, ...], is_best: bool, chosen: LadderOptions) -> Rung:
        """A rung with the bound that its measured rows give; as many bounds hold together as the ladder may have."""
        measured = self._count(self.measured, self.measured.flag_covered(rule.components))
        verdict = Bounded.from_counts(measured.exceptions, measured.rows, chosen.confidence, chosen.most)
        return self._build_rung(rule, verdict, measured, parts=parts, is_best=is_best)

    def build_last_rung(self, explanation: Explanation, parts: tuple[RungPart, ...]) -> Rung:
        """The rung of the explanation itself, its bounds as wide as proven."""
        shown = explanation.shown
        measured = self._count(self.measured, self.measured.flag_covered(shown.rule.components))
        return self._build_rung(shown.rule, shown.verdict, measured, parts=parts, is_best=explanation.minimum)

    def _build_rung(
        self, rule: Rule, verdict: RungVerdict, measured: CoveredRows, *, parts: tuple[RungPart, ...], is_best: bool
    ) -> Rung:
        covered = self.past.flag_covered(rule.components)
        return Rung(
            rule,
            verdict,
            int(covered.sum()),
            searched=self._count(self.past, covered & self.population.is_searched),
            measured=measured,
            is_best=is_best,
            parts=parts,
        )

    @staticmethod
    def _count(rows: MeasuredRows, covered: BoolArray) -> CoveredRows:
        return CoveredRows(int(covered.sum()), int(rows.outcomes[covered].sum()))

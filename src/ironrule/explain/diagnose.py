"""Why is a rule long? Restrict the space, one feature at a time, and see whether a shorter rule is proven there.

A proven rule has a component for every way to the desired outcome, however far-fetched. Some of these ways need a value
that hardly anybody has; some exist because the model turns back where it should not. The *restrictions* tried are:

- without the values of the few past rows at one end of an ordered feature (``OUTLIER_SHARE``); if that shortens the
  rule, the mildest bound that saves as much is looked for by halving, which is exact: the less can occur, the shorter
  minimum rules are;
- without a rare category (``RARE_SHARE``), each alone and all of a feature together; "missing" counts as one;
- without a place where the model is not monotone. Such places are found by asking the model along every value of a
  feature of the rule, all else as in the row or as in a counterfactual of the proof. Either the decision turns back on
  one such line, or it turns up on one line and down on another.

A restriction is a constraint on the space (:func:`ironrule.explain.prepare.derive.restrict_context`), and what it saves
is the difference between the proven lower bound and a rule that is proven under the constraint. Most need no search:
the witnesses of the lower bound that satisfy the constraint are counterfactuals there too, so if these alone need as
long a rule, nothing can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.errors import ConstraintError
from ironrule.explain.build import explain_row
from ironrule.explain.context import ExplainerContext
from ironrule.explain.extend import extend_to_explanation
from ironrule.explain.options import SearchOptions, parse_budget
from ironrule.explain.prepare.derive import restrict_context
from ironrule.explain.query import build_problem, extend_to_named
from ironrule.hitting.bits import pack_sets
from ironrule.hitting.reduce import find_minimal_sets
from ironrule.hitting.solver import find_minimum_hitting_set
from ironrule.hitting.weights import ExactNumber
from ironrule.results.diagnosis import Diagnosis, DiagnosisFinding, FindingKind
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import join_conditions, name_feature, name_value, phrase_comparison
from ironrule.rule.rule import Component, Rule
from ironrule.search.problem import Problem
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject, format_literal
from ironrule.space.feature import Feature, Value
from ironrule.space.labels import DESIRED, UNDESIRED
from ironrule.space.space import as_constraint
from ironrule.verdict.budget import BudgetExhausted, name_stop
from ironrule.verdict.verdict import Proven
from ironrule.wording import format_count, format_number

OUTLIER_SHARE = 0.01  # of past rows, at one end of a feature
RARE_SHARE = 0.02  # of past rows, that have a category
MAX_LINES = 16  # points from which the model is asked along a feature
MAX_PLACES = 4  # places per feature that are left out to see what they cost
MAX_NAMED_CHANGES = 4


def diagnose_explanation(
    context: ExplainerContext, explanation: Explanation, options: SearchOptions, progress: bool | None
) -> Diagnosis:
    """What makes the rule of an explanation long; raises InputError if it is none of this context."""
    permitted = explanation.restrictions
    options = replace(
        options, require=permitted.require, forbid=permitted.forbid, weights=permitted.weights, widen=False
    )
    context = extend_to_named(extend_to_explanation(context, explanation), options)
    is_bounded = explanation.lower_bound > 0 and isinstance(explanation.verdict, Proven)
    problem = build_problem(context, dict(explanation.instance), options)
    problem.meter.phase = "diagnosing"
    search = _DiagnosisSearch(context, explanation, problem, options)
    with problem.meter.watch(progress):
        findings = search.run() if is_bounded else [place.describe_only() for place in search.list_places()]
    reason = None
    if not is_bounded and explanation.rule.components:
        reason = "what would shorten the rule is not known, since it is not proven how short a rule can be"
    return Diagnosis(
        rule=explanation.rule,
        lower_bound=explanation.lower_bound,
        findings=tuple(findings),
        tried=len(search.answers),
        undecided=sum(answer is None for answer in search.answers.values()),
        reason=reason,
    )


@dataclass(frozen=True, slots=True)
class _Restriction:
    """A part of a feature's domain that is left out: what is left as a constraint, and what goes in words."""

    feature: int
    constraint: Constraint
    left_out: str


@dataclass(frozen=True, slots=True)
class _ShorterRule:
    """A rule that is proven under a restriction, and what it weighs."""

    rule: Rule
    weight: ExactNumber


@dataclass(frozen=True, slots=True)
class _NonMonotonePlace:
    """Where the model is not monotone in a feature, in words, and what can be left out instead."""

    feature: str
    sentence: str
    restrictions: tuple[_Restriction, ...]

    def describe_only(self) -> DiagnosisFinding:
        """The finding where nothing is known to be saved."""
        return DiagnosisFinding(feature=self.feature, kind="not monotone", sentence=self.sentence)


@dataclass(frozen=True, slots=True, eq=False)
class _DecisionRuns:
    """What the model decides along a feature: stretches of codes with one outcome each, all else as in ``base``."""

    base: Points
    runs: tuple[tuple[bool, Int64Array], ...]

    def list_turns(self) -> list[tuple[bool, Int64Array, Int64Array]]:
        """Where the outcome changes: whether to the desired one, and the stretches on both sides."""
        return [(self.runs[k + 1][0], self.runs[k][1], self.runs[k + 1][1]) for k in range(len(self.runs) - 1)]


@dataclass(eq=False)
class _DiagnosisSearch:
    """The search for restrictions that shorten a rule."""

    context: ExplainerContext
    explanation: Explanation
    problem: Problem
    options: SearchOptions
    is_stopped: bool = False
    answers: dict[str, _ShorterRule | Literal["none"] | None] = field(default_factory=dict)  # by constraint

    @cached_property
    def instance(self) -> Points:
        """The row in the whole space, as all points here; only the problem is about the features that are used."""
        return self.context.space.encode_row(self.explanation.instance)

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.context.space.features

    @property
    def witnesses(self) -> Points:
        return np.array(self.explanation.witnesses, dtype=np.int32).reshape(-1, len(self.features))

    def run(self) -> list[DiagnosisFinding]:
        """All findings, those that save most first."""
        findings = []
        for j in self.context.reduced.kept.tolist():  # where the model pays no attention, nothing can be saved
            feature = self.features[j]
            if feature.ordered:
                findings += [*self._try_tail(j, is_top=True), *self._try_tail(j, is_top=False)]
            findings += self._try_rare_categories(j)
        findings += self._try_places({finding.constraint for finding in findings})
        return sorted(findings, key=lambda finding: -finding.saved)

    # Restrictions.

    def _try_tail(self, j: int, is_top: bool) -> Iterator[DiagnosisFinding]:
        """The values at one end of an ordered feature that few past rows have."""
        bounds = self._list_tail_bounds(j, is_top)
        tails = [self._restrict_tail(j, bound, is_top) for bound in bounds]
        if not tails or (best := self._shorten(tails[0])) is None:
            return
        # Invariant: bound `first` saves as much as the strictest; `last` and all milder ones save less, or are unknown.
        first, last = 0, len(tails)
        while last - first > 1:
            middle = (first + last) // 2
            found = self._shorten(tails[middle])
            if found is not None and found.weight == best.weight:
                first, best = middle, found
            else:
                last = middle
        yield self._build_finding(tails[first], best, "outlier")

    def _list_tail_bounds(self, j: int, is_top: bool) -> list[int]:
        """Codes that may be the last ones, from the strictest to the mildest; each leaves few past rows out."""
        feature, counts, own = self.features[j], self.context.history.frequencies[j], self.instance.item(j)
        if own > feature.last_code:  # missing has no place in the order
            return []
        known = np.cumsum(counts[: feature.last_code + 1])
        beyond = known[-1] - known if is_top else known - counts[: feature.last_code + 1]
        most = max(1, int(OUTLIER_SHARE * counts.sum()))
        codes = range(own, feature.last_code) if is_top else range(own, 0, -1)
        added = {*(self.context.breakpoints or {}).get(feature.name, ())}
        return [code for code in codes if beyond[code] <= most and (code == own or feature.values[code] not in added)]

    def _restrict_tail(self, j: int, bound: int, is_top: bool) -> _Restriction:
        feature, value = self.features[j], self.features[j].values[bound]
        codes = np.arange(bound + 1, feature.last_code + 1) if is_top else np.arange(bound)
        seen = [feature.values[code] for code in codes if self.context.history.frequencies[j][code]]
        name, shown = self._name(feature), self._show(feature, value)
        left_out = f"{name} {'above' if is_top else 'below'} {shown}"
        if len(codes) == 1 and not feature.interval:
            left_out = f"{name} = {self._show(feature, feature.values[codes[0]])}"
            seen = []
        examples = f"{name} = {self._show(feature, seen[0])}" if len(seen) == 1 else ""
        return self._restrict(j, _format_bound(feature, "<=" if is_top else ">=", bound), left_out, examples)

    def _try_rare_categories(self, j: int) -> Iterator[DiagnosisFinding]:
        """The categories that few past rows have, and missing."""
        feature, counts = self.features[j], self.context.history.frequencies[j]
        most = max(1, int(RARE_SHARE * counts.sum()))
        codes = [feature.missing_code] if feature.missing else []
        codes += [] if feature.ordered else range(len(feature.values))
        rare = [code for code in codes if counts[code] <= most and code != self.instance.item(j)]
        most_saved: ExactNumber = 0
        # Each rare category by itself, then all of them together, which must save more than any one.
        for some in [*([code] for code in sorted(rare)), *([rare] if len(rare) > 1 else [])]:
            restriction = self._leave_out(j, some)
            found = self._shorten(restriction)
            if found is None or (len(some) > 1 and self.explanation.lower_bound - found.weight <= most_saved):
                continue
            finding = self._build_finding(restriction, found, "rare category")
            most_saved = max(most_saved, finding.saved)
            yield finding

    def _leave_out(self, j: int, codes: Sequence[int]) -> _Restriction:
        feature = self.features[j]
        reference, values = Reference(Subject.POINT, feature.name), [feature.value(code) for code in codes]
        text = " and ".join(f"{reference} != {format_literal(value)}" for value in values)
        left_out = f"{self._name(feature)} = {' or '.join(self._show(feature, value) for value in values)}"
        return self._restrict(j, text, left_out)

    def _restrict(self, j: int, text: str, left_out: str, examples: str = "") -> _Restriction:
        constraint = as_constraint(text)
        counts = self.context.history.frequencies[j]
        gone = int(counts[~self._find_kept(j, constraint)].sum())
        rows = f"{gone:,} of {format_count(int(counts.sum()), 'past row')}" + (f": {examples}" if examples else "")
        return _Restriction(j, constraint, f"{left_out} ({rows})")

    def _find_kept(self, j: int, constraint: Constraint) -> BoolArray:
        """Which codes of a feature satisfy a constraint on it."""
        return bind_constraint(constraint, self.features).holds_per_code(j)

    # Searches.

    def _shorten(self, restriction: _Restriction) -> _ShorterRule | None:
        """A rule below the lower bound that is proven under a restriction; None if there is none, or none is known."""
        if not self._may_shorten(restriction):
            return None
        text = str(restriction.constraint)
        if text not in self.answers:
            self.answers[text] = self._search(restriction)
        answer = self.answers[text]
        return answer if isinstance(answer, _ShorterRule) else None

    def _may_shorten(self, restriction: _Restriction) -> bool:
        """Whether the row satisfies a restriction, and the witnesses that do need no rule of the lower bound."""
        # The witnesses that satisfy a restriction are counterfactuals under it too. If these alone need as long a rule,
        # nothing is saved, and no search is needed to know that.
        kept = self._find_kept(restriction.feature, restriction.constraint)
        if not kept[self.instance[restriction.feature]]:
            return False
        points = self.witnesses
        left = points[kept[points[:, restriction.feature]]]
        if len(left) == len(points):
            return False
        duals = self.problem.compute_duals(self.context.reduced.reduce(left))
        demands = np.concatenate([duals, self._required_demands])
        if len(demands) == 0:
            return True
        needed = find_minimum_hitting_set(find_minimal_sets(demands), self.problem.weights).lower_bound
        return needed < np.inf and self.problem.to_user_weight(needed) < self.explanation.lower_bound

    @property
    def _required_demands(self) -> Any:
        allowed = pack_sets(self.problem.allowed, self.problem.n)
        return pack_sets(self.problem.required, self.problem.n) & allowed

    def _search(self, restriction: _Restriction) -> _ShorterRule | Literal["none"] | None:
        """The minimum rule under a restriction if it is shorter; None if that is not known."""
        options = self._get_remaining_options()
        if options is None:
            return None
        try:
            # Numbers that were put into intervals are left out; the search puts the row's own there again.
            restricted = restrict_context(replace(self.context, inserted_numbers={}), (restriction.constraint,))
        except ConstraintError:  # no past row is left
            return None
        if restricted.obstacles != self.context.obstacles:  # it would not speak of the same numbers
            return None
        found = explain_row(restricted, dict(self.explanation.instance), options)
        self.is_stopped = found.statistics.stopped_by == "interrupted"
        if isinstance(found.verdict, Proven) and found.weight < self.explanation.lower_bound:
            return _ShorterRule(found.rule, found.weight)
        return "none" if found.lower_bound >= self.explanation.lower_bound else None

    def _get_remaining_options(self) -> SearchOptions | None:
        """The options of the next search, with the seconds that are left; None if none are."""
        budget = parse_budget(self.options.budget)
        if self.is_stopped:
            return None
        if budget.seconds is None:
            return self.options
        left = budget.seconds - self.problem.meter.elapsed
        return replace(self.options, budget=replace(budget, seconds=left)) if left > 0 else None

    def _build_finding(
        self, restriction: _Restriction, found: _ShorterRule, kind: FindingKind, before: str = ""
    ) -> DiagnosisFinding:
        return DiagnosisFinding(
            feature=self.features[restriction.feature].name,
            kind=kind,
            sentence=f"{before}Without {restriction.left_out}, {self._compare_lengths(found)}.",
            saved=self.explanation.lower_bound - found.weight,
            constraint=str(restriction.constraint),
            rule=found.rule,
        )

    def _compare_lengths(self, found: _ShorterRule) -> str:
        """How long the rule would be, instead of what, and what it would say."""
        explanation, (rule, weight) = self.explanation, (found.rule, found.weight)
        length = f"a weight of {format_number(weight)}"
        if explanation.restrictions.weights is None:
            length = format_count(int(weight), "bound") if weight else "no bound"
        least = format_number(explanation.lower_bound)
        instead = least if explanation.minimum_among_permitted else f"at least {least}"
        own, kept = explanation.rule.components, {*rule.components}
        if kept <= {*own}:
            gone = " and ".join(self._phrase(one) for one in own if one not in kept)
            return f"{length} would do instead of {instead}: the rule would not need {gone}"
        return f"{length} would do instead of {instead}: {join_conditions(rule)}"

    def _name(self, feature: Feature) -> str:
        return name_feature(feature.name, self.context.space.labels)

    def _show(self, feature: Feature, value: Value) -> str:
        return name_value(feature.name, value, self.context.space.labels)

    def _name_outcomes(self) -> tuple[str, str]:
        """What the desired and the undesired outcome are called."""
        labels, undesired = self.context.space.labels, self.context.model.primary.decision.undesired_name
        return labels.get_desired(self.context.target.desired) or DESIRED, labels.get_undesired(undesired) or UNDESIRED

    def _phrase(self, component: Component) -> str:
        return phrase_comparison(component.feature, component.op, component.value, self.context.space.labels)

    # Places where the model is not monotone.

    def _try_places(self, reported: set[str | None]) -> Iterator[DiagnosisFinding]:
        """One finding per feature: the place that costs most, or else the first one.

        What is ``reported`` to save something already, as an outlier, is not said again.
        """
        for _, places in groupby(self.list_places(), lambda place: place.feature):
            several = list(places)
            best = several[0].describe_only()
            for place in several:
                for restriction in place.restrictions:
                    found = None if str(restriction.constraint) in reported else self._shorten(restriction)
                    if found is not None and self.explanation.lower_bound - found.weight > best.saved:
                        best = self._build_finding(restriction, found, "not monotone", f"{place.sentence} ")
            yield best

    def list_places(self) -> Iterator[_NonMonotonePlace]:
        """Where the model is not monotone in the features of the rule, a few places for each, as the budget allows."""
        for name in self.explanation.rule.features:
            j = self.context.space.index(name)
            if not self.features[j].ordered:
                continue
            try:
                lines = [self._ask_along(j, base) for base in self._list_bases(j)]
            except (BudgetExhausted, KeyboardInterrupt) as stop:
                self.is_stopped = name_stop(stop, self.problem.meter) == "interrupted"
                return
            places = [place for line in lines for place in self._find_turns_back(j, line)][:MAX_PLACES]
            yield from places or self._find_opposite_turns(j, lines)

    def _list_bases(self, j: int) -> Iterable[Points]:
        """The row and witnesses, which differ in more than the feature."""
        points = np.concatenate([self.instance[None, :], self.witnesses])
        others = np.delete(points, j, axis=1)
        _, places = np.unique(others, axis=0, return_index=True)
        return [points[place] for place in sorted(places.tolist())[:MAX_LINES]]

    def _ask_along(self, j: int, base: Points) -> _DecisionRuns:
        """The model's decisions for every value of a feature that can occur there."""
        points = np.repeat(base[None, :], self.features[j].last_code + 1, axis=0)
        points[:, j] = np.arange(len(points))
        points = points[self.context.space.feasible.admits(points)]
        model = self.context.model.primary if self.context.is_robust else self.context.point_model
        desired = self.problem.meter.desired(model, points)
        cuts = np.flatnonzero(desired[1:] != desired[:-1]) + 1
        runs = zip(np.split(desired, cuts), np.split(points[:, j].astype(np.int64), cuts), strict=True)
        return _DecisionRuns(base, tuple((bool(same[0]), codes) for same, codes in runs if len(codes)))

    def _find_turns_back(self, j: int, line: _DecisionRuns) -> Iterator[_NonMonotonePlace]:
        """Stretches of values with one outcome between two with the other."""
        feature = self.features[j]
        for k in range(1, len(line.runs) - 1):
            is_desired, inside = line.runs[k]
            below, above = (self._choose_codes(j, line.runs[place][1]) for place in (k - 1, k + 1))
            first, *_, last = (*self._choose_codes(j, inside), *self._choose_codes(j, inside))
            left, right = below[-1], above[0]
            shown = [self._show(feature, feature.values[code]) for code in (left, first, last, right)]
            outcomes = self._name_outcomes() if is_desired else self._name_outcomes()[::-1]
            at = shown[1] if first == last else f"{shown[1]} and {shown[2]}"
            sentence = (
                f"The model is not monotone in {self._name(feature)} between {shown[0]} and {shown[3]}: "
                f"{self._describe_base(j, line.base)}, the outcome is {outcomes[0]} at {at}, "
                f"and {outcomes[1]} at {shown[0]} and {shown[3]}."
            )
            restrictions = self._restrict_to_sides(j, first, last)
            if is_desired:
                text = f"{_format_bound(feature, '<=', left)} or {_format_bound(feature, '>=', right)}"
                between = f"{self._name(feature)} above {shown[0]} and below {shown[3]}"
                restrictions = (self._restrict(j, text, between),)
            yield _NonMonotonePlace(feature.name, sentence, restrictions)

    def _find_opposite_turns(self, j: int, lines: Sequence[_DecisionRuns]) -> Iterator[_NonMonotonePlace]:
        """A line on which more of a feature helps, and another on which less does."""
        turns = {to_desired: (line, low, high) for line in lines[::-1] for to_desired, low, high in line.list_turns()}
        if len(turns) < 2:
            return
        feature, parts = self.features[j], []
        for to_desired, (line, low, high) in sorted(turns.items()):
            codes = self._choose_codes(j, low)[-1], self._choose_codes(j, high)[0]
            shown = [self._show(feature, feature.values[code]) for code in codes]
            words = self._name_outcomes()[::-1] if to_desired else self._name_outcomes()
            place = f"the outcome is {words[0]} at {shown[0]} and {words[1]} at {shown[1]}"
            parts.append(f"{self._describe_base(j, line.base)}, {place}")
        sentence = f"The model is not monotone in {self._name(feature)}: {'; '.join(parts)}."
        own = self.instance.item(j)
        sides = self._restrict_to_sides(j, own, own) if own <= feature.last_code else ()
        yield _NonMonotonePlace(feature.name, sentence, sides)

    def _restrict_to_sides(self, j: int, first: int, last: int) -> tuple[_Restriction, ...]:
        """Without all below a value, and without all above another one."""
        feature = self.features[j]
        lowest, highest = (self._show(feature, feature.values[code]) for code in (first, last))
        return (
            self._restrict(j, _format_bound(feature, ">=", first), f"{self._name(feature)} below {lowest}"),
            self._restrict(j, _format_bound(feature, "<=", last), f"{self._name(feature)} above {highest}"),
        )

    def _choose_codes(self, j: int, codes: Int64Array) -> list[int]:
        """The codes of values that people know, among some: those of past rows, where there are any."""
        seen = codes[self.context.history.frequencies[j][codes] > 0]
        chosen: list[int] = (seen if len(seen) else codes).tolist()
        return chosen

    def _describe_base(self, j: int, base: Points) -> str:
        """Which point all other features are as in."""
        changed = [k for k in np.flatnonzero(base != self.instance).tolist() if k != j]
        others = [(self.features[k], self.features[k].value(base.item(k))) for k in changed]
        named = [f"{self._name(feature)} = {self._show(feature, value)}" for feature, value in others]
        if not named:
            return "with all else as in the row"
        more = len(named) - MAX_NAMED_CHANGES
        shown = [*named[:MAX_NAMED_CHANGES], *([format_count(more, "other change")] if more > 0 else [])]
        return f"with all else as in the row but {' and '.join(shown)}"


def _format_bound(feature: Feature, operator: str, code: int) -> str:
    """A bound on an ordered feature as a constraint, which a missing value satisfies."""
    reference = Reference(Subject.POINT, feature.name)
    bound = f"{reference} {operator} {format_literal(feature.values[code])}"
    return f"({bound} or {reference} == missing)" if feature.missing else bound

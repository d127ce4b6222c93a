"""A ladder's claims, beyond those of its explanation: every rung's rule, its counts, its bound, and how rungs relate.

The rows are found again (:mod:`ironrule.checker.measured_rows`), the user's own models decide them, and every count and
every bound is computed anew. A bound is a statement about people drawn like the measured rows, at a confidence. That it
was computed correctly is checked; it stays a bound, and the check of a ladder never calls it proven.

Three things cannot be seen in a document, and are not checked: that the search for a rule did not look at the measured
rows, that no other rungs were measured and left out, and that the rows were drawn like the people whom the bound is
applied to.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from ironrule.checker import components
from ironrule.checker.arrays import BoolArray, Int32Array
from ironrule.checker.checker import check_digest
from ironrule.checker.components import CodeRange
from ironrule.checker.document import CertificateClaim, ExplanationDocument, JsonObject, to_canonical_json
from ironrule.checker.ladder_document import CountClaim, LadderDocument, RungClaim
from ironrule.checker.measured_rows import (
    CountedRows,
    KnownRows,
    LadderRows,
    find_ladder_rows,
    follows_from_counts,
    require_measured,
)
from ironrule.checker.result import Check, ClaimFailed, ClaimUndecided, Finding, run_claim_check
from ironrule.checker.scope import CheckScope, UserInputs
from ironrule.checker.space.space import CheckerFeature, CheckerSpace, value_to_json

STANDARD_SEED = 0
SCORE_TOLERANCE = 1e-9
MAX_COMPARED_BITS = 1 << 34  # rows times rules, in the search for a rule that does better
Score = Callable[[int, int], float]  # of so many exceptions among so many rows


def check_ladder(
    document: LadderDocument,
    check_explanation: Callable[[ExplanationDocument], tuple[Check, CheckScope | None]],
    inputs: UserInputs,
    measure: Any,
    known: KnownRows,
) -> Check:
    """Check the claims of the explanation inside a ladder, and then those of the ladder itself."""
    notes: tuple[str, ...] = ()
    found, scope = check_explanation(document.explanation)
    findings = [run_claim_check("ladder: digest", partial(check_digest, document)), *found.findings]
    if scope is None:
        unknown = "nothing can be said of the rungs, since the explanation is about something else or is false"
        findings.append(Finding("rungs", "undecided", unknown))
    else:
        try:
            ladder = LadderChecker(document, scope, find_ladder_rows(document, scope, inputs, measure, known))
        except ClaimUndecided as reason:
            findings.append(Finding("ladder: rows", "undecided", str(reason)))
        else:
            findings, notes = [*findings, *ladder.check_claims()], tuple(ladder.list_notes())
    return replace(found, findings=tuple(findings), notes=(*found.notes, *notes), document="ladder")


@dataclass(frozen=True, slots=True, eq=False)
class RungRule:
    """The rule of a rung: its components as plain data, with the codes that each admits in the space at hand."""

    components: tuple[JsonObject, ...]
    ranges: tuple[CodeRange, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LadderChecker:
    """A ladder, what it is checked against, and the rows that it counts on."""

    document: LadderDocument
    scope: CheckScope
    rows: LadderRows  # one row like the instance left out of the measured ones
    rules: dict[int, RungRule] = field(default_factory=dict)  # of rungs that could be read, by place; the last too

    def check_claims(self) -> Iterator[Finding]:
        """Every claim with what becomes of it."""
        yield run_claim_check("ladder: confidence", self._check_confidence)
        yield run_claim_check("ladder: rows", self._check_rows)
        every = {f"rung {place}": rung for place, rung in enumerate(self.document.rungs, 1)}
        every["last rung"] = self.document.last
        rules = [run_claim_check(name, partial(self._check_rule, place, one)) for name, place, one in _number(every)]
        for first, (name, place, rung) in zip(rules, _number(every), strict=True):
            yield first
            if first.status != "holds":
                continue
            yield run_claim_check(f"{name}: rows", partial(self._check_counts, place, rung))
            if rung.verdict is not None:
                yield run_claim_check(f"{name}: bound", partial(self._check_bound, rung))
            yield run_claim_check(f"{name}: reasons", partial(self._check_parts, place, rung))
            if rung.is_best:
                check = self._check_minimum if rung.verdict is None else partial(self._check_best, place, rung)
                yield run_claim_check(f"{name}: best", check)
        yield run_claim_check("ladder: order", self._check_order)

    def list_notes(self) -> Iterator[str]:
        """What was taken from the document without comparing it with what the caller means."""
        if self.document.at_least is not None:
            yield "the share of people for whom a short rule is to hold was taken from the document"
        if self.document.split_seed not in (None, STANDARD_SEED):
            yield f"the seed of the split is {self.document.split_seed}, not {STANDARD_SEED}; why is not known here"

    def _check_confidence(self) -> str:
        document, bounds = self.document, [rung.verdict for rung in self.document.rungs if rung.verdict is not None]
        for name, share in (("confidence", document.confidence), ("at_least", document.at_least)):
            if share is not None and not 0.0 < share < 1.0:
                raise ClaimFailed(f"{name} must be between 0 and 1, got {share!r}")
        if any(bound.confidence != document.confidence for bound in bounds):
            raise ClaimFailed("every bound must have the confidence of the ladder, but one has another")
        if any(bound.shared_by != document.most for bound in bounds):
            raise ClaimFailed(f"all bounds must share the doubt with {document.most}, but they do not")
        if document.most < max(1, len(bounds)):
            raise ClaimFailed(f"{len(bounds)} bounds are shown, but they share the doubt with {document.most}")
        percent = f"{document.confidence * 100:.10g}%"
        if not bounds:
            return "there is no bounded rung"
        shared = f"the doubt is shared by {bounds[0].shared_by} bounds, which hold together at {percent}"
        return f"{shared}; that no others were measured and left out is not checked"

    def _check_rows(self) -> str:
        measured, is_searched = require_measured(self.rows, self.document)
        if self.rows.overlap is not None:
            raise ClaimFailed(self.rows.overlap)
        for what, claimed, there in (
            ("measured", self.document.measured_rows, len(measured)),
            ("searched", self.document.searched_rows, int(is_searched.sum())),
        ):
            if claimed != there:
                raise ClaimFailed(f"{claimed:,} {what} rows are claimed, but there are {there:,}")
        origin = {"split": "of the split", "mask": "that the caller marks", "table": "of the caller's table"}
        counted = f"{len(measured):,} measured rows {origin[self.document.measured_from]}"
        others = ", which are others than those of the data" if self.document.measured_from == "table" else ""
        return f"{counted}{others}; that the search did not look at them is not checked"

    def _check_rule(self, place: int, rung: RungClaim) -> str:
        """That it covers the instance and has the right outcome, and how many past rows it covers."""
        parts, outcome = rung.components, rung.outcome
        if rung.verdict is None:
            parts, outcome = find_shown_rule(self.document.explanation)
        ranges = tuple(encode_bound(self.scope.space, plain) for plain in parts)
        if len({(one.feature, one.op) for one in ranges}) < len(ranges):
            raise ClaimFailed("a rule must have one bound of a kind on a feature, but one has two")
        instance = components.encode_point(self.scope.space, self.document.explanation.instance)
        if not flag_covered(instance[None, :], ranges)[0]:
            raise ClaimFailed("the rule must cover the instance, but it does not")
        own = self.scope.user_models.decision.undesired_name
        if outcome != own:
            raise ClaimFailed(f"the rule's outcome must be {own}, got {outcome}")
        covered = int(flag_covered(self.rows.past.codes, ranges).sum())
        if covered != rung.coverage:
            raise ClaimFailed(f"{rung.coverage:,} past rows are said to be covered, but {covered:,} are")
        self.rules[place] = RungRule(parts, ranges)
        conditions = components.describe_conditions(parts) or "no condition"
        return f"{conditions}: it covers the instance, and {covered:,} past rows"

    def _check_counts(self, place: int, rung: RungClaim) -> str:
        measured, is_searched = require_measured(self.rows, self.document)
        past, plain = self.rows.past, self.rules[place].components
        searched = CountedRows(past.space, past.codes[is_searched], past.desired[is_searched])
        for what, claim, rows in (("searched", rung.searched, searched), ("measured", rung.measured, measured)):
            counted = count_covered(rows, plain)
            if counted != claim:
                said = f"{claim.exceptions:,} exceptions among {claim.rows:,} {what} rows are claimed"
                raise ClaimFailed(f"{said}, but there are {counted.exceptions:,} among {counted.rows:,}")
        return f"{rung.measured.rows:,} measured rows with {rung.measured.exceptions:,} exceptions, as claimed"

    def _check_bound(self, rung: RungClaim) -> str:
        """That the bound follows from the counts, and these from the measured rows."""
        bound = rung.verdict
        assert bound is not None
        if (bound.rows, bound.seen) != (rung.measured.rows, rung.measured.exceptions):
            raise ClaimFailed("the bound must rest on the measured rows of its rung, but it names other counts")
        if not (0.0 < bound.confidence < 1.0 and bound.shared_by >= 1):
            raise ClaimFailed("a bound needs a confidence between 0 and 1 that is shared by one or more")
        doubt = (1.0 - bound.confidence) / bound.shared_by
        if not follows_from_counts(bound.exceptions, bound.seen, bound.rows, doubt):
            raise ClaimFailed(f"the bound must follow from counts and confidence, but {bound.exceptions!r} does not")
        require_measured(self.rows, self.document)
        percent = math.ceil(bound.exceptions * 1e6) / 1e4
        return (
            f"bounded, not proven: at most {percent:.10g}% exceptions at {bound.confidence * 100:.10g}% confidence "
            f"(shared by {bound.shared_by}), measured on {bound.rows:,} rows"
        )

    def _check_parts(self, place: int, rung: RungClaim) -> str:
        """What is said of every component, as reasons use it, from the rows that were searched on."""
        _, is_searched = require_measured(self.rows, self.document)
        ranges, codes = self.rules[place].ranges, self.rows.past.codes[is_searched]
        desired = self.rows.past.desired[is_searched]
        if len(rung.parts) != len(ranges):
            raise ClaimFailed(f"{len(rung.parts)} parts are described, but the rule has {len(ranges)}")
        flags = [flag_covered(codes, [one]) for one in ranges]
        score, doubtful = self._build_score(), False
        for number, (one, part) in enumerate(zip(ranges, rung.parts, strict=True)):
            others = np.ones(len(codes), dtype=np.bool_)
            for other, flag in enumerate(flags):
                others &= flag if other != number else True
            own, name = flags[number], self.scope.space.names[one.feature]
            share = float(own[desired].mean()) if desired.any() else 0.0
            if abs(share - part.approved_share) > SCORE_TOLERANCE:
                raise ClaimFailed(
                    f"{part.approved_share!r} of the desired are said to have {name} so, but {share!r} do"
                )
            without = score(int(desired[others].sum()), int(others.sum()))
            if abs(without - part.bound_without) > SCORE_TOLERANCE:
                raise ClaimFailed(f"without {name} the bound is said to be {part.bound_without!r}, got {without!r}")
            other = value_to_json(self._find_other_value(one, codes, desired))
            if type(other) is not type(part.other_value) or other != part.other_value:
                raise ClaimFailed(f"the other value of {name} is said to be {part.other_value!r}, got {other!r}")
            doubtful |= part.counts_against != _counts_against(own, desired)
        if doubtful:
            raise ClaimUndecided("what counts against a person follows from a declared role, which is not known here")
        return "what the rows that were searched on say of every condition, as claimed"

    def _find_other_value(self, one: CodeRange, codes: Int32Array, desired: BoolArray) -> Any:
        """The nearest value of a searched row that a component excludes; of categories the most frequent of desired
        rows, of a row without a value the smallest.
        """
        feature, column = self.scope.space.features[one.feature], codes[:, one.feature]
        excluded = (column < one.low) | (column > one.high)
        if not feature.ordered:
            found = column[excluded & desired]
            code = int(np.argmax(np.bincount(found))) if len(found) else len(feature.values)
            return feature.values[code] if code < len(feature.values) else None
        found = column[excluded & (column < len(feature.values))]
        if not len(found):
            return None
        return feature.values[int(found.max() if one.op == ">=" else found.min())]

    def _check_minimum(self) -> str:
        """Of the last rung: that no shorter rule holds. The weight and the lower bound have findings of their own."""
        explanation = self.document.explanation
        best, allowed = explanation.rules[0], explanation.restrictions
        is_restricted = bool(allowed.require or allowed.forbid or allowed.weights)
        if not isinstance(best.verdict, CertificateClaim) or explanation.weight > explanation.lower_bound:
            raise ClaimFailed("the last rung must be proven and as light as its lower bound to be the best")
        if is_restricted or (explanation.lower_bound == 0 and best.components):
            raise ClaimFailed("the last rung must be one of all rules to be the best, but some were not permitted")
        return "no shorter rule holds, as the lower bound says"

    def _check_best(self, place: int, rung: RungClaim) -> str:
        """That no rule of narrow bounds and the same length does better on the rows that were searched on."""
        _, is_searched = require_measured(self.rows, self.document)
        last = self.rules.get(len(self.document.rungs))
        if self.document.nested and last is None:
            raise ClaimUndecided("it is to be the best of the last rung's components, and these were not understood")
        candidates = [last.ranges] if self.document.nested and last is not None else self._list_own_components()
        score = self._build_score()
        limit = score(rung.searched.exceptions, rung.searched.rows) - SCORE_TOLERANCE
        for stage, ranges in enumerate(candidates):
            search = BetterRuleSearch.build(self.rows.past, is_searched, ranges, score, limit)
            if search.find(len(self.rules[place].ranges)) is None:
                continue
            better = "another rule of this length does better on the rows that were searched on"
            if stage:  # the search leaves out features that the model does not use
                raise ClaimUndecided(f"{better}; whether the model uses its features is not known here")
            raise ClaimFailed(better)
        return "no rule of this length with the narrowest bounds does better on the rows that were searched on"

    def _list_own_components(self) -> list[Sequence[CodeRange]]:
        """The components of the instance that were permitted: first of features that surely matter to the model, since
        the document's rules have them, then of all that matter by the checker's own reading, or of all if it has none.
        """
        explanation, space = self.document.explanation, self.scope.space
        instance = components.encode_point(space, explanation.instance)
        permitted = components.find_permitted_components(space, instance, explanation.restrictions)
        every = [one for bit, one in permitted.components.items() if permitted.allowed >> bit & 1]
        named = {one.feature for rule in self.rules.values() for one in rule.ranges}
        models = self.scope.models_with_bounds
        if not isinstance(models, str) and all(model.source == "own" for model in models):
            used = {place for model in models for place, cells in enumerate(model.bounds.cells) if cells.any()}
            every = [one for one in every if one.feature in used | named]
        return [[one for one in every if one.feature in named], every]

    def _build_score(self) -> Score:
        """Wilson's (1927) upper bound, for as many rows as will be measured."""
        confidence, most = self.document.confidence, self.document.most
        if not (0.0 < confidence < 1.0 and most >= 1):
            raise ClaimFailed("a bound needs a confidence between 0 and 1 that is shared by one or more")
        doubt = (1.0 - confidence) / most
        if doubt == 1.0:
            raise ClaimFailed(f"a confidence must be more than nothing, got {confidence!r}")
        z = -NormalDist().inv_cdf(doubt)
        scale = self.document.measured_rows / max(1, self.document.searched_rows)

        def score(exceptions: int, rows: int) -> float:
            drawn = rows * scale
            if drawn <= 0.0:
                return 1.0
            share = exceptions / rows
            spread = z * math.sqrt(share * (1.0 - share) / drawn + (z / (2.0 * drawn)) ** 2)
            return min(1.0, (share + z * z / (2.0 * drawn) + abs(spread)) / (1.0 + z * z / drawn))

        return score

    def _check_order(self) -> str:
        """That rungs become longer, and in a nested ladder that each implies the one before."""
        places = range(len(self.document.rungs) + 1)
        if any(place not in self.rules for place in places):
            raise ClaimUndecided("a rung's rule was not understood")
        for shorter, longer in pairwise(self.rules[place] for place in places):
            if len(shorter.ranges) >= len(longer.ranges):
                raise ClaimFailed("every rung must have more components than the one before, but one has not")
            if self.document.nested and not _implies(self.scope.space, longer, shorter):
                raise ClaimFailed("every rung of a nested ladder must imply the one before, but one does not")
        return "every rung is longer than the one before" + (", and implies it" if self.document.nested else "")


def _counts_against(own: BoolArray, desired: BoolArray) -> bool:
    """Whether rows with a property are desired less often than the others."""
    if not own.any() or own.all():
        return bool(own.all())
    return bool(desired[own].mean() < desired[~own].mean())


def _number(rungs: Mapping[str, RungClaim]) -> Iterator[tuple[str, int, RungClaim]]:
    """The rungs with their names and places."""
    for place, (name, rung) in enumerate(rungs.items()):
        yield name, place, rung


def find_shown_rule(explanation: ExplanationDocument) -> tuple[tuple[JsonObject, ...], str]:
    """The rule of the last rung: with bounds as wide as proven and rounded, or as it is where that is not known."""
    best, wider, rounded = explanation.rules[0], explanation.wider, explanation.rounded
    if wider is None or not all(isinstance(one.verdict, CertificateClaim) for one in (best, wider)):
        return best.components, best.outcome
    return (wider.components, wider.outcome) if rounded is None else (rounded["components"], rounded["outcome"])


def encode_bound(space: CheckerSpace, plain: JsonObject) -> CodeRange:
    """What a component admits; its bound may be a number between the values of a domain."""
    op, value, name = plain["op"], plain["value"], plain["feature"]
    place = space.index(name) if name in space.names else None
    feature = None if place is None else space.features[place]
    if place is None or feature is None or op == "==" or not _can_lie_between(feature, value):
        return components.encode_component(space, plain)
    column = {} if feature.columns[0] == name else {"column": feature.columns[0]}
    if to_canonical_json(plain) != to_canonical_json({"feature": name, "op": op, "value": value, **column}):
        raise ClaimFailed(f"the component {name} {op} must name its columns as the space has them")
    if op == "<=":
        return CodeRange(place, 0, bisect_right(feature.values, value) - 1, op)
    return CodeRange(place, bisect_left(feature.values, value), feature.last_code, op)


def _can_lie_between(feature: CheckerFeature, value: Any) -> bool:
    """Whether a bound may be any number: the values are numbers in their own order."""
    return type(value) in (int, float) and feature.ordered and feature.numeric and feature.naturally_ordered


def flag_covered(codes: Int32Array, ranges: Sequence[CodeRange]) -> BoolArray:
    """Which rows satisfy all components."""
    covered = np.ones(len(codes), dtype=np.bool_)
    for one in ranges:
        covered &= (codes[:, one.feature] >= one.low) & (codes[:, one.feature] <= one.high)
    return covered


def count_covered(rows: CountedRows, plain: Sequence[JsonObject]) -> CountClaim:
    """How many rows satisfy all components, and how many of these are exceptions."""
    covered = flag_covered(rows.codes, [encode_bound(rows.space, one) for one in plain])
    return CountClaim(int(covered.sum()), int(rows.desired[covered].sum()))


def _implies(space: CheckerSpace, longer: RungRule, shorter: RungRule) -> bool:
    """Whether a rule has all conditions of another one, as tight or tighter."""
    tight = {(one.feature, one.op): (one, plain) for one, plain in zip(longer.ranges, longer.components, strict=True)}
    for one, plain in zip(shorter.ranges, shorter.components, strict=True):
        found = tight.get((one.feature, one.op))
        if found is None or found[0].low < one.low or found[0].high > one.high:
            return False
        low, high = (plain, found[1]) if one.op == ">=" else (found[1], plain)
        if _can_lie_between(space.features[one.feature], plain["value"]) and not low["value"] <= high["value"]:
            return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class BetterRuleSearch:
    """All sets of some components, depth first. Rows are bits: exceptions, and others, on which a component is true."""

    exceptions: tuple[int, ...]
    others: tuple[int, ...]
    every: tuple[int, int]
    score: Score
    limit: float
    max_rules: int
    compared: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def build(
        cls, rows: CountedRows, is_searched: BoolArray, ranges: Sequence[CodeRange], score: Score, limit: float
    ) -> BetterRuleSearch:
        """For the rows that were searched on."""
        parts = [(rows.codes[chosen], int(chosen.sum())) for chosen in
                 (is_searched & rows.desired, is_searched & ~rows.desired)]  # fmt: skip
        bits = [tuple(_pack_bits(flag_covered(codes, [one])) for one in ranges) for codes, _ in parts]
        every = (1 << parts[0][1]) - 1, (1 << parts[1][1]) - 1
        most = MAX_COMPARED_BITS // max(1, int(is_searched.sum()))
        return cls(bits[0], bits[1], every, score, limit=limit, max_rules=most)

    def find(self, length: int) -> tuple[int, ...] | None:
        """A set of so many components that does better than the limit; None if there is none. Raises ClaimUndecided if
        there are too many sets.
        """
        return self._extend((), *self.every, length)

    def _extend(self, chosen: tuple[int, ...], exceptions: int, others: int, missing: int) -> tuple[int, ...] | None:
        self.compared[0] += 1
        if self.compared[0] > self.max_rules:
            raise ClaimUndecided("it would take too long to show that no rule of this length does better")
        kept = others.bit_count()
        if self.score(0, kept) >= self.limit:  # more components never cover more of the others
            return None
        if missing == 0:
            seen = exceptions.bit_count()
            return chosen if self.score(seen, seen + kept) < self.limit else None
        for place in range(chosen[-1] + 1 if chosen else 0, len(self.exceptions) - missing + 1):
            left = exceptions & self.exceptions[place], others & self.others[place]
            found = self._extend((*chosen, place), *left, missing - 1)
            if found is not None:
                return found
        return None


def _pack_bits(flags: BoolArray) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")

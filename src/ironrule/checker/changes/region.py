"""The claims of a region: that every point of a box around a counterfactual is desired.

That is the opposite of what a rule claims, so the model is turned round, and the certificate of the document is checked
as a rule's is (:mod:`~ironrule.checker.certificates`). What the document says in the user's terms must then be that
box.

What must be reached may be several conditions: that each of several models decides so, with its threshold moved by the
margin; that a score is above the lower end of a band and not above the upper one. A point that fails one of them is
denied, so each condition is turned round by itself, and the certificate must hold for every one.

That the region is maximal is that nothing more can be added on any side: where a bound is moved by one value, or a
category or missing is freed, a point that is denied comes in. It is sought as a counterfactual is, by the same search
(:mod:`~ironrule.checker.changes.search`). Other features keep their ranges: a larger box would hold that point too.
Sides at which constraints on one feature forbid the next value cannot be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ironrule.checker.arrays import BoolArray, Float64Array, Int32Array, IntpArray
from ironrule.checker.certificates import check_certificate
from ironrule.checker.changes.atoms import FeatureAtoms, combine_cells
from ironrule.checker.changes.claims import (
    CallersMeaning,
    build_conditions,
    build_or_say,
    check_decision,
    check_model,
    check_space,
    require_same_target_claim,
)
from ironrule.checker.changes.document import RegionDocument, ScopeClaim
from ironrule.checker.changes.search import ChangeSearch, CheaperChangeProblem
from ironrule.checker.changes.space import (
    ChangeConditions,
    Restrictions,
    build_bounds,
    flag_permitted_codes,
    sort_predicates,
)
from ironrule.checker.checker import check_digest
from ironrule.checker.components import (
    describe_conditions,
    encode_component,
    encode_point,
    encode_value,
    format_value,
    intersect_ranges,
)
from ironrule.checker.document import CertificateClaim, to_canonical_json
from ironrule.checker.intervals import find_gaps, is_interval_feature
from ironrule.checker.result import Check, ClaimFailed, ClaimUndecided, Finding, ReadingSource, run_claim_check
from ironrule.checker.scope import CheckScope, UserInputs, build_scope
from ironrule.checker.space.space import value_from_json, value_to_json
from ironrule.checker.suggestions import add_numbers
from ironrule.checker.user_models import AnswerCache, OutcomeTarget

DESIRED_OUTCOME = "the desired outcome"
MAX_PIECES = 20_000  # looked at for one side


def check_region(document: RegionDocument, inputs: UserInputs, meaning: CallersMeaning) -> Check:
    """What becomes of the claims of a region."""
    findings = [run_claim_check("digest", partial(check_digest, document))]
    reading: ReadingSource = "none"
    checker = build_or_say(partial(_RegionChecker.build, document, inputs, meaning), findings)
    if checker is not None:
        findings += checker.check_claims()
        reading = checker.find_reading_source()
    said = describe_conditions(document.rounded["components"])
    return Check(
        f"Everyone{f' with {said}' if said else ''} gets {describe_goal(document)}",
        document.verdict.kind,
        tuple(findings),
        reading,
        (*meaning.list_notes(), *list_margin_notes(document, meaning), *list_limit_notes(document)),
        document="region",
    )


def describe_goal(document: RegionDocument) -> str:
    """What every point must reach, in the words of the document's rule."""
    target, parts = document.target or {}, list[str]()
    classes = " or ".join(format_value(value_from_json(label)) for label in target.get("desired", ()))
    if "above" in target:
        parts.append(f"above {format_value(float(target['above']))}")
    if "at_most" in target:
        parts.append(f"of at most {format_value(float(target['at_most']))}")
    reached = f"the outcome {classes}" if classes else DESIRED_OUTCOME
    if parts:
        reached = f"a score {f'for {classes} ' if classes else ''}{' and '.join(parts)}"
    withstood = [f"even if every score moves by {document.margin:g}"] if document.margin else []
    if count := document.further_models:
        withstood.append(f"with {count:,} further model{'s' if count > 1 else ''}")
    return f"{reached}, {' and '.join(withstood)}" if withstood else reached


def list_margin_notes(document: RegionDocument, meaning: CallersMeaning) -> list[str]:
    """What was taken from the document of how far scores may move."""
    taken = document.margin and meaning.margin is None
    how = "the margin by which scores may move was taken from the document; pass margin= (--margin) to compare"
    return [how] if taken else []


def list_limit_notes(document: RegionDocument) -> list[str]:
    """What was taken from the document of why the region is no larger."""
    limited = document.maximal and document.scope is not None and document.scope.change_constraints
    return ["that a region is no larger for constraints on changes was taken from the document"] if limited else []


@dataclass(frozen=True, eq=False)
class _RegionChecker:
    """A region, and what it is checked against."""

    document: RegionDocument
    claim: ScopeClaim
    inputs: UserInputs
    meaning: CallersMeaning
    targets: list[tuple[Any, OutcomeTarget, bool]]
    conditions: ChangeConditions

    @classmethod
    def build(cls, document: RegionDocument, inputs: UserInputs, meaning: CallersMeaning) -> _RegionChecker:
        """Raises ClaimUndecided where the document does not say enough, or speaks of something else."""
        if document.scope is None:
            raise ClaimUndecided("the document does not say of which space and model it speaks")
        count, there = 1 + document.further_models, len(inputs.models)
        if count > 1 and there != count:
            raise ClaimUndecided(f"{count} models are spoken of, but {there} are at hand")
        own = replace(inputs, models=inputs.models[:count])
        targets, conditions = build_conditions(document.scope, own, meaning, document.margin)
        return cls(document, document.scope, own, meaning, targets=targets, conditions=conditions)

    def check_claims(self) -> list[Finding]:
        """Every claim with what becomes of it; of another space or model nothing can be said."""
        findings = list[Finding]()
        claims: dict[str, Callable[[], str]] = {
            "decision": self._check_decision,
            "space": partial(check_space, self.claim, self.conditions, self.meaning),
            "model": partial(check_model, self.claim, self.conditions),
            "counterfactual": self._check_counterfactual,
            "ranges": self._check_ranges,
            "rounded": self._check_rounded,
        }
        for claim, check in claims.items():
            findings.append(run_claim_check(claim, check))
            if findings[-1].status != "holds":
                return findings
        findings.append(run_claim_check("region", self._check_verdict))
        if self.document.maximal and findings[-1].status == "holds":
            findings.append(run_claim_check("maximal", self._check_maximal))
        return findings

    def find_reading_source(self) -> ReadingSource:
        """Who read the model, if that was needed."""
        read = [one.__dict__.get("models_with_bounds", "") for one in self.__dict__.get("opposites", ())]
        sources = {model.source for models in read if not isinstance(models, str) for model in models}
        return "shared" if "shared" in sources else "own" if sources else "none"

    @cached_property
    def opposites(self) -> tuple[CheckScope, ...]:
        """Every condition turned round: a point that one of them desires does not reach what it must."""
        claim, count = self.claim, len(self.inputs.models)

        def turn_round(model: Any, target: OutcomeTarget, is_opposite: bool) -> CheckScope:
            alone = replace(self.inputs, models=(model,))
            return build_scope(alone, target, claim.breakpoints, claim.extended_values, opposite=not is_opposite)

        def build() -> tuple[CheckScope, ...]:
            return tuple(turn_round(*condition) for condition in self.targets)

        return self.meaning.get_built(("opposites", count, self.document.margin, claim), build)

    def _check_decision(self) -> str:
        document = self.document
        if document.target is not None:
            require_same_target_claim(document.target, self.claim)
        if self.meaning.margin is not None and self.meaning.margin != document.margin:
            raise ClaimFailed(f"the margin is {document.margin!r} in the document, got {self.meaning.margin!r}")
        return check_decision(self.claim, self.conditions, self.meaning, self.inputs, document.target is not None)

    @cached_property
    def box(self) -> tuple[Int32Array, Int32Array]:
        """The region's box."""
        space, rule, goal = self.conditions.space, self.document.rule, describe_goal(self.document)
        if rule["outcome"] != goal or self.document.rounded["outcome"] != goal:
            raise ClaimFailed(f"a region must be of {goal}, but it says something else")
        return intersect_ranges(space, [encode_component(space, plain) for plain in rule["components"]])

    def _check_counterfactual(self) -> str:
        """That the model desires it, and that it lies in the region."""
        rows = [self.document.counterfactual["values"]]
        rows += [{**rows[0], **exact} for exact in [self.document.counterfactual.get("exact")] if exact]
        space = add_numbers(self.conditions.space, rows)
        points = np.stack([encode_point(space, values) for values in rows])
        if not space.admits(points).all():
            raise ClaimFailed("the counterfactual must satisfy the constraints on the space, but it does not")
        own_space = space == self.conditions.space
        desired = self.conditions.desired(points) if own_space else self.conditions.desired_in(space, points)
        if not desired[:1].all():
            raise ClaimFailed(f"the counterfactual must have {describe_goal(self.document)}, but the model denies it")
        known = set(self.conditions.space.features)
        for j, feature in enumerate(space.features):
            low, high = (int(end[j]) for end in self.box)
            if feature not in known:  # with a number that the domain does not have
                old = self.conditions.space.features[j]
                low, high = (encode_value(feature, value_to_json(old.value(code))) for code in (low, high))
            if not low <= points[0, j] <= high:
                raise ClaimFailed(f"the counterfactual must lie in the region, but {feature.name!r} does not")
        return f"the model gives it {describe_goal(self.document)}, and it lies in the region"

    def _check_ranges(self) -> str:
        """That the ranges and the fixed values are those of the rule."""
        space, values = self.conditions.space, self.document.counterfactual["values"]
        before = {change["feature"]: change["before"] for change in self.document.counterfactual["changes"]}
        named = [*(one["feature"] for one in self.document.ranges), *self.document.fixed]
        if sorted(named) != sorted(space.names):
            raise ClaimFailed("every feature must have a range or be fixed, and one only")
        if any(to_canonical_json(values[name]) != to_canonical_json(own) for name, own in self.document.fixed.items()):
            raise ClaimFailed("what is fixed must have the value of the counterfactual, but something has another")
        for one in self.document.ranges:
            j = space.index(one["feature"])
            feature, name = space.features[j], one["feature"]
            low, high = int(self.box[0][j]), int(self.box[1][j])
            anything = low == 0 and high == feature.size - 1
            ends = [feature.value(low), feature.value(high)]
            domain_ends = [feature.values[0], feature.values[-1]] if feature.values else [None, None]  # missing alone
            if anything:
                ends = domain_ends if feature.ordered else [None, None]
            expected = {
                "feature": name,
                "low": value_to_json(ends[0]),
                "high": value_to_json(ends[1]),
                "first": value_to_json(domain_ends[0]),
                "last": value_to_json(domain_ends[1]),
                "before": before.get(name, values[name]),
                "after": values[name],
                "any_value": anything,
            }
            if to_canonical_json(one) != to_canonical_json(expected):
                raise ClaimFailed(f"the range of {name!r} must be that of the rule, but it is not")
        return "they are those of the rule"

    def _check_rounded(self) -> str:
        """That each rounded bound lies between the rule's and the counterfactual's own value."""
        rule, rounded = self.document.rule["components"], self.document.rounded["components"]
        if len(rule) != len(rounded):
            raise ClaimFailed("the rounded rule must have the components of the rule")
        values = self.document.counterfactual["values"]
        for exact, short in zip(rule, rounded, strict=True):
            if to_canonical_json(exact) == to_canonical_json(short):
                continue
            feature = self.conditions.space.features[self.conditions.space.index(exact["feature"])]
            numbers = [part["value"] for part in (exact, short)] + [values[feature.name]]
            plain = is_interval_feature(feature) and all(type(number) in (int, float) for number in numbers)
            if not plain or {**short, "value": exact["value"]} != exact:
                raise ClaimFailed("the rounded rule may differ from the rule in bounds on intervals alone")
            if not min(numbers[0], numbers[2]) <= numbers[1] <= max(numbers[0], numbers[2]):
                raise ClaimFailed(f"{feature.name} {short['op']} {short['value']!r} must lie within the rule")
        return "each bound lies within the rule"

    def _check_verdict(self) -> str:
        certificate = self.document.verdict
        if not isinstance(certificate, CertificateClaim):
            return "no proof is claimed"
        if (certificate.space, certificate.model) != (self.claim.space, f"opposite of {self.claim.model}"):
            raise ClaimFailed("the certificate must name the document's own space and model, but it names others")
        low, high = (np.array(end) for end in (certificate.low, certificate.high))
        is_whole = len(low) == len(high) == len(self.box[0])
        if not is_whole or (self.box[0] < low).any() or (self.box[1] > high).any():
            raise ClaimFailed("the certificate's box must hold the whole region, but it does not")
        point = self._find_known_point()
        for scope in self.opposites:
            check_certificate(certificate, scope, AnswerCache(scope.user_models, scope.space, point))
        how = f"{certificate.points:,} pieces that cover it" if certificate.method == "cover" else "asking about each"
        return f"no point of it is denied, by {how}; the model itself desires all that were drawn"

    def _check_maximal(self) -> str:
        """That whatever more a feature could be lets in a point that is denied."""
        if not isinstance(self.document.verdict, CertificateClaim):
            raise ClaimFailed("a region that is not proven cannot be claimed to be maximal")
        space, point, sides = self.conditions.space, self._find_known_point(), 0
        row = point.copy()
        for change in self.document.counterfactual["changes"]:
            j = space.index(change["feature"])
            row[j] = encode_value(space.features[j], change["before"])
        # constraints on the space forbid no value: where no point can occur, none is denied
        restrictions = Restrictions.build(self.claim, replace(space, constraints=()))
        alone, _ = sort_predicates(restrictions.bind(space, row), len(space.features))
        for j in (space.index(one["feature"]) for one in self.document.ranges):
            permitted = flag_permitted_codes(space, j, row, alone[j])
            for codes in self._list_additions(j, int(point[j]), permitted):
                self._require_denied(j, codes)
                self._require_neighbours(j, codes)
                sides += 1
        return f"moving any of {sides} sides by one value lets in a point that is denied" if sides else "none can move"

    def _list_additions(self, j: int, own: int, permitted: BoolArray) -> Iterator[IntpArray]:
        """The codes of a feature that could be added: the next ones on both sides, or all others where only that is
        possible.
        """
        feature, low, high = self.conditions.space.features[j], int(self.box[0][j]), int(self.box[1][j])
        every, freed, last = np.arange(feature.size), bool(permitted.all()), len(feature.values) - 1
        if feature.ordered and own != feature.missing_code:
            freed &= low == 0 and high == last
            yield from (every[side : side + 1] for side in (low - 1, high + 1) if 0 <= side <= last and permitted[side])
        if freed and high - low + 1 < feature.size:
            yield np.setdiff1d(every, np.arange(low, high + 1))

    def _require_neighbours(self, j: int, added: IntpArray) -> None:
        """Raise ClaimUndecided if further numbers lie between the range of a feature and the value that was added."""
        feature, side = self.conditions.space.features[j], int(added[0])
        opened = self.claim.breakpoints is not None and is_interval_feature(feature) and side < len(feature.values)
        if opened and find_gaps(feature)[side - (side > self.box[1][j])]:
            raise ClaimUndecided(f"{feature.name!r} may go further, by less than to the next value")

    def _require_denied(self, j: int, added: IntpArray) -> None:
        """Raise ClaimFailed if there is no point that is denied where a feature has one of these codes; ClaimUndecided
        if none was found.
        """
        searches = [self._search_denied(scope, j, added) for scope in self.opposites]
        if any(search.cheaper is not None for search in searches):
            return
        space = self.conditions.space
        name, shown = space.names[j], ", ".join(format_value(space.features[j].value(int(code))) for code in added[:3])
        if all(search.is_complete for search in searches):
            raise ClaimFailed(f"{name!r} can be {shown} as well: every point of the larger box is desired")
        raise ClaimUndecided(f"no point that is denied was found where {name!r} is {shown}")

    def _search_denied(self, scope: CheckScope, j: int, added: IntpArray) -> ChangeSearch:
        """What was found of points that fail a condition where a feature has one of these codes."""
        space, read = self.conditions.space, scope.models_with_bounds
        models, row = () if isinstance(read, str) else read, self.box[0].copy()
        atoms, costs = list[FeatureAtoms](), list[Float64Array]()
        row[j] = added[0]
        for place, feature in enumerate(space.features):
            inside = added if place == j else np.arange(self.box[0][place], self.box[1][place] + 1)
            costs.append(np.where(np.isin(np.arange(feature.size), inside), 0.0, np.inf))
            cells = [model.bounds.cells[place] for model in models] or [np.arange(feature.size)]
            atoms.append(
                FeatureAtoms.build(
                    int(row[place]),
                    costs[-1],
                    combine_cells(cells),
                    np.full(feature.size, np.inf),
                    ordered_codes=len(feature.values),
                    keeps_codes_apart=bool(space.constraints),
                )
            )
        problem = CheaperChangeProblem(
            atoms=tuple(atoms),
            bounds=tuple(build_bounds(model, row, costs, costs) for model in models),
            decide=scope.user_models.desired,
            admits=space.admits,
            flag_feasible=scope.feasible.flag_feasible,
            must_change=np.zeros(len(atoms), dtype=np.bool_),
        )
        search = ChangeSearch(problem, np.inf, np.empty((0, len(atoms)), dtype=np.bool_))
        search.run(MAX_PIECES)
        return search

    def _find_known_point(self) -> Int32Array:
        """The counterfactual, with the region's lowest value where the domain does not have its own."""
        values, point = self.document.counterfactual["values"], self.box[0].copy()
        for j, feature in enumerate(self.conditions.space.features):
            with suppress(ClaimFailed):
                point[j] = encode_value(feature, values[feature.name])
        return point

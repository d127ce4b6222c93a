"""The claims of counterfactuals: that they are some, that none is nearer, and that there is no other.

Nothing of the search is used. What is claimed is repeated from the user's own models and data, with costs computed
anew (:mod:`~ironrule.checker.changes.costs`) and a search of the checker's own that must find nothing cheaper
(:mod:`~ironrule.checker.changes.search`). What it cannot settle is undecided.

Each counterfactual is claimed to be the nearest that does not change all features of an earlier one; of those that
differ in value, to be the nearest that lies far enough from every earlier one
(:mod:`~ironrule.checker.changes.spread`). Over whole
intervals the document says how near: nothing is nearer by more than its resolution. Where a model may turn between two
values, and that is too coarse to see, numbers are put between them, a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.checker.arrays import BoolArray, Int32Array
from ironrule.checker.changes.claims import (
    CallersMeaning,
    build_conditions,
    build_or_say,
    check_decision,
    check_model,
    check_space,
    require_known_domains,
    require_same_target_claim,
)
from ironrule.checker.changes.costs import ChangePrices, build_prices
from ironrule.checker.changes.document import (
    EMBEDDED_FIELDS,
    ChangeDocument,
    CounterfactualsDocument,
    RegionDocument,
    ScopeClaim,
)
from ironrule.checker.changes.search import ChangeSearch, CheaperChangeProblem
from ironrule.checker.changes.space import (
    ChangeConditions,
    Numbers,
    Restrictions,
    admits,
    build_problem,
    list_stepped_numbers,
)
from ironrule.checker.checker import check_digest
from ironrule.checker.components import describe_changes, encode_counterfactual, encode_point, format_value
from ironrule.checker.document import JsonObject, to_canonical_json
from ironrule.checker.result import Check, ClaimFailed, ClaimUndecided, Finding, ReadingSource, run_claim_check
from ironrule.checker.scope import UserInputs
from ironrule.checker.space.space import CheckerSpace, value_from_json
from ironrule.checker.suggestions import add_numbers, check_rounding
from ironrule.checker.user_models import OutcomeTarget
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.checker.changes.infeasibility import InfeasibilityDocument
    from ironrule.checker.changes.menu import MenuDocument
    from ironrule.checker.space.constraints import ParsedConstraint

MAX_STEPS = 5_000  # values that a number may take by its step
REFINEMENTS = 4  # how often numbers are put between values
NUMBERS_PER_GAP = 12
MAX_PIECES = 60_000  # looked at for one claim
PIECES_BEFORE_REFINING = 1_000  # looked at before numbers are put between values
MAX_NEW_NUMBERS = 20_000


def check_changes(
    document: ChangeDocument,
    inputs: UserInputs,
    caller: tuple[OutcomeTarget | None, float | None, bool],
    cache: dict[str, Any],
) -> Check:
    """What becomes of the claims of any document of changes; the caller's target, margin and intervals are compared
    with the document's, and ``cache`` keeps what is built.
    """
    meaning = CallersMeaning(*caller, cache)
    if document.kind == "counterfactuals":
        return check_counterfactuals(document, inputs, meaning)
    return _check_other(document, inputs, meaning)


def _check_other(document: ChangeDocument, inputs: UserInputs, meaning: CallersMeaning) -> Check:
    """What becomes of a document whose claims are checked by a module that is loaded for these alone."""
    if document.kind == "menu":
        from ironrule.checker.changes.menu import check_menu

        return check_menu(document, inputs, meaning)
    if document.kind == "infeasibility":
        from ironrule.checker.changes.infeasibility import check_infeasibility

        return check_infeasibility(document, inputs, meaning)
    from ironrule.checker.changes.region import check_region

    assert document.kind == "region"
    return check_region(document, inputs, meaning)


def check_counterfactuals(document: CounterfactualsDocument, inputs: UserInputs, meaning: CallersMeaning) -> Check:
    """What becomes of the claims of counterfactuals."""
    findings = [run_claim_check("digest", partial(check_digest, document))]
    reading: ReadingSource = "none"
    checker = build_or_say(partial(CounterfactualsChecker.build, document, inputs, meaning), findings)
    if checker is not None:
        findings += checker.check_claims()
        for place, region in enumerate(_list_regions(document), 1):
            findings.append(_check_region(place, region, document, inputs, meaning))
        for name, inner in document.embedded.items():
            findings.append(_check_embedded(name, inner, document, inputs, meaning))
        reading = checker.find_reading_source()
    return Check(
        _describe(document),
        "proven" if document.proven else "unrefuted",
        tuple(findings),
        reading,
        tuple(_list_notes(document, meaning)),
        document="counterfactuals",
    )


def _list_regions(document: CounterfactualsDocument) -> tuple[RegionDocument, ...]:
    return (*document.regions, *([] if document.region is None else [document.region]))


def _check_region(
    place: int,
    region: RegionDocument,
    document: CounterfactualsDocument,
    inputs: UserInputs,
    meaning: CallersMeaning,
) -> Finding:
    """What becomes of a region that the document adds: of its claims the first that does not hold, or else the last."""
    if all(region.counterfactual["values"] != one["values"] for one in document.counterfactuals):
        return Finding(f"region {place}", "fails", "it is around a counterfactual that the document does not have")
    own, outer = region.scope, document.scope
    asked = region.margin, region.further_models, own and (own.decision, own.upper)
    if asked != (document.margin, document.further_models, outer and (outer.decision, outer.upper)):
        differs = "it must be about what the counterfactuals reach, but it is about something else"
        return Finding(f"region {place}", "fails", differs)
    return _summarize(f"region {place}", _check_other(region, inputs, meaning))


def _check_embedded(
    name: str,
    inner: MenuDocument | InfeasibilityDocument,
    document: CounterfactualsDocument,
    inputs: UserInputs,
    meaning: CallersMeaning,
) -> Finding:
    """The same of a menu, or of restrictions that forbid every counterfactual: they must be about the same row."""
    kind = "menu" if name == "menu" else "infeasibility"
    if inner.kind != kind:
        return Finding(name, "fails", f"it must be the document of {kind}, but it is one of {inner.kind}")
    if to_canonical_json(inner.asked.instance) != to_canonical_json(document.instance):
        return Finding(name, "fails", "it must be about the row of the counterfactuals, but it is about another one")
    own, outer = inner.asked.scope, document.scope
    asked = inner.asked.margin, inner.asked.further_models, own and (own.decision, own.upper)
    if asked != (document.margin, document.further_models, outer and (outer.decision, outer.upper)):
        return Finding(name, "fails", "it must be about what the counterfactuals reach, but it is about something else")
    if own and outer and not _is_no_stricter(own, outer):
        return Finding(name, "fails", "it speaks of limits of changes that the counterfactuals need not obey")
    check = _check_other(inner, inputs, meaning)
    if inner.kind == "infeasibility" and not inner.proven and all(one.status == "holds" for one in check.findings[:-1]):
        return Finding(name, "holds", "nothing is claimed to be proven")
    return _summarize(name, check)


def _is_no_stricter(own: ScopeClaim, outer: ScopeClaim) -> bool:
    """Whether all that may change under one claim may change under another."""
    varying = own.features_to_vary is None or (
        outer.features_to_vary is not None and {*outer.features_to_vary} <= {*own.features_to_vary}
    )
    return varying and {*own.change_constraints} <= {*outer.change_constraints}


def _summarize(name: str, check: Check) -> Finding:
    """What becomes of a document in another one: of its claims the first that does not hold, or else the last."""
    worst = next((one for one in check.findings if one.status == "fails"), None)
    told = worst or next((one for one in check.findings if one.status != "holds"), check.findings[-1])
    if told.status == "holds" and check.status == "undecided":
        return Finding(name, "undecided", "not all that it says is claimed to be proven")
    return Finding(name, told.status, told.sentence)


def _describe(document: CounterfactualsDocument) -> str:
    """The claim in a sentence."""
    if not document.counterfactuals:
        return "There is no counterfactual" if document.proven else "No counterfactual was found"
    first = document.counterfactuals[0]["changes"]
    changes = [
        f"{one['feature']}: {format_plain_value(one['before'])} -> {format_plain_value(one['after'])}" for one in first
    ]
    others = len(document.counterfactuals) - 1
    more = f" (and {others} more)" if others else ""
    return f"The nearest counterfactual changes {', '.join(changes) or 'nothing'}{more}"


def format_plain_value(plain: Any) -> str:
    """A value of a document as people read it."""
    try:
        return format_value(value_from_json(plain))
    except (TypeError, ValueError, InputError):
        return repr(plain)


def _list_notes(document: CounterfactualsDocument, meaning: CallersMeaning) -> list[str]:
    """What was taken from the document without comparing it with what the caller means."""
    notes = [*meaning.list_notes()]
    if document.margin and meaning.margin is None:
        notes.append(
            "the margin by which scores may move was taken from the document; pass margin= (--margin) to compare"
        )
    scope = document.scope
    if "cost" in document.data or (scope and (scope.change_constraints or scope.features_to_vary is not None)):
        notes.append("what may change, and what it costs, was taken from the document")
    named = [name for name in ("measures", *EMBEDDED_FIELDS) if name in document.data]
    beside = [name for name in named if name not in document.embedded]
    if beside:
        notes.append(f"what the document says besides was not checked: {', '.join(beside)}")
    return notes


@dataclass(slots=True, eq=False)
class CounterfactualsChecker:
    """A document, and what it is checked against; the problem, once it is needed."""

    document: CounterfactualsDocument
    claim: ScopeClaim
    inputs: UserInputs
    meaning: CallersMeaning
    targets: list[tuple[Any, OutcomeTarget, bool]]
    conditions: ChangeConditions
    finer: ChangeConditions | None = None
    more: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # numbers that joined the domains
    pieces: int = 0

    @classmethod
    def build(
        cls, document: CounterfactualsDocument, inputs: UserInputs, meaning: CallersMeaning
    ) -> CounterfactualsChecker:
        """The conditions; raises ClaimUndecided where the document does not say enough, or speaks of something else."""
        claim = document.scope
        if claim is None:
            raise ClaimUndecided("the document does not say what was searched; counterfactuals of exact searches do")
        if len(inputs.models) != 1 + document.further_models:
            there = len(inputs.models)
            raise ClaimUndecided(f"{1 + document.further_models} models are spoken of, but {there} are at hand")
        targets, conditions = build_conditions(claim, inputs, meaning, document.margin)
        return cls(document, claim, inputs, meaning, targets=targets, conditions=conditions)

    def check_setting(self) -> list[Finding]:
        """What is spoken of: the decision, the space, the model, the row. If one does not hold it is the last, since
        of another space or model nothing can be said.
        """
        findings = list[Finding]()
        first: dict[str, Callable[[], str]] = {
            "decision": self._check_decision,
            "space": partial(check_space, self.claim, self.conditions, self.meaning),
            "model": partial(check_model, self.claim, self.conditions),
            "restrictions": self._check_restrictions,
            "instance": self._check_instance,
        }
        for claim, check in first.items():
            findings.append(run_claim_check(claim, check))
            if findings[-1].status != "holds":
                break
        return findings

    def check_claims(self) -> list[Finding]:
        """Every claim with what becomes of it."""
        findings = self.check_setting()
        if findings[-1].status != "holds":
            return findings
        findings.append(run_claim_check("counterfactuals", self.check_points))
        if findings[-1].status != "holds":
            return findings
        if not self.proven_count and not self.document.proven:
            return [*findings, Finding("nearest", "holds", "nothing is claimed to be proven")]
        for place in range(self.proven_count):
            name = f"nearest {place + 1}" if len(self.document.counterfactuals) > 1 else "nearest"
            findings.append(run_claim_check(name, partial(self.check_nearest, place)))
        if self.document.proven and len(self.document.counterfactuals) < self.claim.k:
            findings.append(run_claim_check("no other", self.check_no_other))
        return findings

    @property
    def proven_count(self) -> int:
        """How many of the first are said to be proven to be the nearest."""
        return len(self.document.counterfactuals) if self.document.proven else self.document.proven_count

    def find_reading_source(self) -> ReadingSource:
        """Who read the models, if that was needed."""
        read = [scope.__dict__.get("models_with_bounds", "") for scope in (self.finer or self.conditions).scopes]
        sources = {model.source for models in read if not isinstance(models, str) for model in models}
        return "shared" if "shared" in sources else "own" if sources else "none"

    def _check_decision(self) -> str:
        document = self.document
        if document.target is not None:
            require_same_target_claim(document.target, self.claim)
        if self.meaning.margin is not None and self.meaning.margin != document.margin:
            raise ClaimFailed(f"the margin is {document.margin!r} in the document, got {self.meaning.margin!r}")
        return check_decision(self.claim, self.conditions, self.meaning, self.inputs, document.target is not None)

    def _check_restrictions(self) -> str:
        restrictions = Restrictions.build(self.claim, self.conditions.space)
        absent = [text for text in self.inputs.change_constraints if text not in self.claim.change_constraints]
        if absent:
            raise ClaimUndecided(f"the caller demands a constraint that the document does not name: {absent[0]}")
        restrictions.bind(self.conditions.space, self.encode_row(self.conditions.space))
        self.build_prices(self.conditions)
        count = len(self.claim.change_constraints)
        fixed = int((~restrictions.varying).sum())
        return f"{count} constraints on changes, {fixed} features that must not change" if count or fixed else "none"

    def _check_instance(self) -> str:
        row = self.encode_row(self.conditions.space)
        if not self.conditions.space.admits(row[None, :])[0]:
            raise ClaimFailed("the row must satisfy the constraints on the space, but it does not")
        if self.conditions.desired(row[None, :])[0]:
            raise ClaimFailed("the row must not have what is to be reached, but the model gives it that")
        return "the model does not give it what is to be reached"

    def encode_row(self, space: CheckerSpace) -> Int32Array:
        """The codes of the row."""
        return encode_point(space, self.document.instance)

    def build_prices(self, conditions: ChangeConditions) -> ChangePrices:
        """What changes of the row cost."""
        space, table = conditions.space, self.inputs.table
        stored = [
            column.dtype.type if (column := table.column(one.columns[0]).values).dtype.kind == "f" else np.float64
            for one in space.features
        ]
        return build_prices(self.document.cost, space, self.encode_row(space), conditions.past_rows, stored)

    def check_points(self) -> str:
        """That all are counterfactuals, obey the restrictions, and lie in order; of those that are said to be the
        nearest, none changes all of an earlier one.
        """
        given = self.document.counterfactuals
        if len(given) > self.claim.k:
            raise ClaimFailed(f"{len(given)} counterfactuals are given, but {self.claim.k} were asked for")
        if not given:
            return "none is given"
        for one in given:
            for name in one.get("exact", {}):
                check_rounding(one, name, self.conditions.space, self._bound_rounding())
        before = [{**one["values"], **one["exact"]} for one in given if "exact" in one]
        rows = [*(one["values"] for one in given), *before]
        space = add_numbers(self.conditions.space, rows)
        require_known_domains(self.document.domains, self.conditions)
        own = self.encode_row(space)
        points = np.stack([encode_point(space, values) for values in rows])
        for one, point in zip(given, points, strict=False):
            _require_listed_changes(one, space, own, point)
        restrictions = Restrictions.build(self.claim, self.conditions.space)
        if not admits(restrictions.bind(space, own), points).all():
            raise ClaimFailed("a counterfactual must satisfy the constraints, but one does not")
        self._require_spread(space, own, points[: len(given)])
        if (points != own)[:, ~restrictions.varying].any():
            raise ClaimFailed("a counterfactual must change features that may vary alone, but one changes another")
        met = self.conditions.desired if space == self.conditions.space else partial(self.conditions.desired_in, space)
        if not met(points).all():
            raise ClaimFailed("the model must give every counterfactual what is to be reached, but it denies one")
        return self._check_order(given, points[: len(given)] != own)

    def _require_spread(self, space: CheckerSpace, own: Int32Array, points: Int32Array) -> None:
        """Raise ClaimFailed unless each point lies far enough from every earlier one, where that is claimed."""
        apart = self._list_spread_constraints(self.document.counterfactuals)
        for place, one in enumerate(apart):
            if not admits([one.bind(space, own)], points[place + 1 :]).all():
                raise ClaimFailed("a counterfactual must be far enough from every earlier one, but one is not")

    def _list_spread_constraints(self, earlier: Sequence[JsonObject]) -> tuple[ParsedConstraint, ...]:
        """What is far enough from some counterfactuals; nothing is asked where they differ in features."""
        if self.document.spread is None:
            return ()
        from ironrule.checker.changes.spread import build_spread_constraints

        return build_spread_constraints(self.conditions.space, earlier, self.document.spread)

    def _bound_rounding(self) -> float:
        """By what share of its range a number may have been rounded, as far as a document's resolution says it."""
        if self.document.cost.is_default:
            return self.document.resolution
        return 1.0  # what rounding costs is part of the resolution

    def _check_order(self, given: Sequence[JsonObject], changed: BoolArray) -> str:
        prices = self.build_prices(self.conditions)
        rows = [{name: value_from_json(value) for name, value in one["values"].items()} for one in given]
        costs = [prices.measure_change(row) for row in rows]
        # A heuristic claims nothing of which features change, and diverse counterfactuals differ in their values.
        by_features = 0 if self.document.spread is not None else self.proven_count
        if not all(np.isfinite(distance) for _, distance in costs):
            raise ClaimFailed("a counterfactual must not cost an infinite price, or move by no step, but one does")
        for place in range(1, len(costs)):
            in_order = prices.is_before(costs[place - 1], costs[place], self.document.resolution)
            if self.document.spread is None and not in_order:
                raise ClaimFailed("counterfactuals must be listed nearest first, but they are not")
            if place < by_features and (changed[:place] <= changed[place]).all(axis=1).any():
                raise ClaimFailed("a counterfactual must not change all that an earlier one changes, but one does")
        shown = ", ".join(f"{distance:.6g} ({count} changed)" for count, distance in costs[:5])
        return f"the model gives all {len(given)} what is to be reached; distance (features): {shown}"

    def check_nearest(self, place: int) -> str:
        """That nothing is nearer than one of the counterfactuals and does not change all of an earlier one."""
        one = self.document.counterfactuals[place]
        prices = self.build_prices(self.conditions)
        count, distance = prices.measure_change({name: value_from_json(v) for name, v in one["values"].items()})
        limit_of = partial(_find_limit, count=count, distance=distance, resolution=self.document.resolution)
        pieces = self._prove_empty(limit_of, self.document.counterfactuals[:place])
        near = f" by more than {self.document.resolution:g}" if self.document.resolution else ""
        others = f" {self._describe_others('an earlier one')}" if place else ""
        return f"nothing{others} is nearer{near}; pieces closed: {pieces:,}"

    def check_no_other(self) -> str:
        """That there is no other that does not change all of one of the counterfactuals."""
        what = f"no other {self._describe_others('one of these')}" if self.document.counterfactuals else "none at all"
        return f"there is {what}; pieces closed: {self.prove_no_other():,}"

    def _describe_others(self, these: str) -> str:
        """Which others there may be beside some counterfactuals."""
        if self.document.spread is not None:
            return f"that is far enough from {these} in value"
        return f"that does not change all of {these}"

    def prove_no_other(self) -> int:
        """How many pieces show that; raises ClaimFailed with another one."""
        return self._prove_empty(lambda _: np.inf, self.document.counterfactuals)

    def _prove_empty(self, find_limit: Callable[[ChangePrices], float], earlier: Sequence[JsonObject]) -> int:
        """How many pieces show that nothing costs less than a limit; raises ClaimFailed with what does."""
        names, apart = self.conditions.space.names, self._list_spread_constraints(earlier)
        by_features = earlier if self.document.spread is None else ()
        sets = [[any(c["feature"] == name for c in one["changes"]) for name in names] for one in by_features]
        forbidden, pieces = np.array(sets, dtype=np.bool_).reshape(-1, len(names)), 0
        for rounds_left in range(REFINEMENTS, -1, -1):
            conditions, problem, prices, row = self._prepare(apart)
            search = ChangeSearch(problem, find_limit(prices), forbidden)
            search.run(PIECES_BEFORE_REFINING)
            is_open = rounds_left and search.cheaper is None and not search.is_complete
            numbers = self._list_numbers(search.count_parts(), conditions) if is_open else {}
            if not numbers:
                search.run(MAX_PIECES - pieces)
            pieces += search.pieces
            if search.cheaper is not None:
                found = describe_changes(conditions.space, row, search.cheaper)
                what = "a nearer one" if np.isfinite(find_limit(prices)) else "another one"
                raise ClaimFailed(f"there is {what}: {found}")
            if search.is_complete:
                return pieces
            if rounds_left and not numbers:
                gaps = [(j, int(problem.atoms[j].begins[atom])) for j, atom in search.open_gaps]
                numbers = self._list_numbers(dict.fromkeys(gaps, 0) | search.count_parts(), conditions)
            if not numbers:
                break
            self._join(numbers)
            self.finer = self._refine()
        raise ClaimUndecided(f"{pieces:,} pieces were looked at, and some stay open")

    def _prepare(
        self, apart: tuple[ParsedConstraint, ...]
    ) -> tuple[ChangeConditions, CheaperChangeProblem, ChangePrices, Int32Array]:
        """The problem over the domains with the numbers that joined them so far, and those of further constraints."""
        space, known = self.conditions.space, sum(map(len, self.more.values()))
        restrictions = Restrictions.build(self.claim, space).add(apart)
        self._join(restrictions.list_numbers(space, self.encode_row(space)))
        if self.finer is None:
            self._join(list_stepped_numbers(self.build_prices(self.conditions), MAX_STEPS))
        if self.finer is None or known < sum(map(len, self.more.values())):
            self.finer = self._refine() if self.more else self.conditions
        finer = self.finer
        prices, row = self.build_prices(finer), self.encode_row(finer.space)
        restrictions = Restrictions.build(self.claim, finer.space).add(apart)
        return finer, build_problem(finer, restrictions, prices, row), prices, row

    def _join(self, numbers: Numbers) -> None:
        for name, some in numbers.items():
            self.more[name] = tuple(dict.fromkeys((*self.more.get(name, ()), *some)))

    def _refine(self) -> ChangeConditions:
        claim, margin = self.claim, self.document.margin
        asked = "finer", len(self.inputs.models), claim.decision, claim.upper, margin, claim.breakpoints
        build = partial(ChangeConditions.build, self.inputs, self.targets, claim, self.more)
        return self.meaning.get_built((*asked, claim.extended_values, sorted(self.more.items())), build)

    def _list_numbers(self, wanted: Mapping[tuple[int, int], int], conditions: ChangeConditions) -> Numbers:
        """Numbers to be put into gaps, by feature, where into so many parts they are wanted to be cut at least."""
        features, new = conditions.space.features, dict[str, tuple[Any, ...]]()
        room = MAX_NEW_NUMBERS - sum(map(len, self.more.values()))
        least = min(NUMBERS_PER_GAP, room // max(1, 2 * len(wanted)))
        share = min(1.0, (room - least * len(wanted)) / max(1, sum(wanted.values())))
        for (j, code), count in wanted.items():
            low, high = features[j].values[code : code + 2]
            parts = 1 + max(least, int(count * share))
            numbers = [low + (high - low) * part / parts for part in range(1, parts)]
            numbers = [round(number) for number in numbers] if features[j].whole else numbers
            inside = [number for number in dict.fromkeys(numbers) if low < number < high]
            if inside:
                new[features[j].name] = (*new.get(features[j].name, ()), *inside)
        return new


def _find_limit(prices: ChangePrices, *, count: int, distance: float, resolution: float) -> float:
    return prices.find_limit(count, distance, resolution)


def _require_listed_changes(one: JsonObject, space: CheckerSpace, own: Int32Array, point: Int32Array) -> None:
    """Raise ClaimFailed unless the changes listed are those that lead from the row to the values."""
    plain = {"values": one["values"], "changes": one["changes"]}
    if (encode_counterfactual(space, own, plain) != point).any() or not one["changes"]:
        raise ClaimFailed("a counterfactual must change something")

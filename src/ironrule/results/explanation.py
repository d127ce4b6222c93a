"""An explanation: the rules found for one row, what is known about them, and how they were found.

``Explanation`` is what ``Explainer.explain`` returns: ranked rules, each with its verdict and its certificate, the
counterfactuals that bound them, and the statistics of the search. ``to_json`` writes all of it as one document with a
digest, which ``ironrule check`` verifies without any code of the search; ``from_json`` refuses a document that was
changed. Weights and lower bounds are exact: an int where whole, else a Fraction.

``Listing`` is what ``Explainer.rules`` and ``Explainer.change_sets`` return: an iterator over results that are found
one by one, which knows whether it is complete. A budget in seconds counts the search alone, not what the caller does
between two results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from ironrule.clock import WORK_CLOCK
from ironrule.errors import InputError, build_format_error, describe_value
from ironrule.hitting.weights import ExactNumber, number_from_json, number_to_json, to_storable_weight
from ironrule.model.decision import DecisionTarget
from ironrule.other_packages import EXPLANATION_HINTS, get_other_attribute
from ironrule.results.advice import RuleMark, SuggestedChanges
from ironrule.results.audience import Audience
from ironrule.results.background import Background, attach_history
from ironrule.results.display import (
    format_explanation,
    plot_explanation,
    render_explanation,
    write_pdf,
    write_report,
)
from ironrule.results.document_types import check_document_types
from ironrule.results.report_options import ReportOptions
from ironrule.results.scope import DomainSummary, restore_readings
from ironrule.rule.counterfactual import Counterfactual, EvidenceCounterfactuals, LazyValue
from ironrule.rule.rule import Rule
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.space.labels import Labels
from ironrule.space.space import Space
from ironrule.verdict.budget import Meter, StopReason
from ironrule.verdict.certificate import require_integer
from ironrule.verdict.digest import JsonDocument, add_digest, require_digest
from ironrule.verdict.verdict import Proven, Verdict, label_verdict, verdict_from_dict, verdict_to_dict
from ironrule.wording import escape_controls, format_count, format_repr, format_settings, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


DOCUMENT_FORMAT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What a search did.

    ``stopped`` says whether the search for the rule ended early: None, "budget" or "interrupted". ``stopped_by`` says
    what ended the work, widening included: "finished"; "work" if questions were left open that are too hard for the
    usual limit of work; "seconds" or "evaluations" if that part of the budget was spent; "interrupted"; None in
    documents of earlier versions. ``seconds`` are those of the search; ``compile_seconds`` come on top and were not
    charged to ``budget_seconds``.
    """

    algorithm: str
    seed: int
    seconds: float
    generations: int
    candidates: int
    oracle_calls: int
    model_calls: int
    evaluations: int
    operator_seconds: Mapping[str, float]
    stopped: str | None = None
    stopped_by: StopReason | None = None
    budget_seconds: float | None = None  # None: no limit
    budget_evaluations: int | None = None
    compile_seconds: float = 0.0

    def __str__(self) -> str:
        ended = f"; stopped early ({self.stopped})" if self.stopped else ""
        work = f"{format_count(self.evaluations, 'evaluation')} in {self.seconds:.2f} s"
        return f"{self.algorithm}, seed {self.seed}: {work}{ended}"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class RuleRestrictions:
    """Which rules were permitted, and what their components weigh."""

    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    weights: Mapping[str, int | float | Fraction] | Literal["paper"] | None = None

    def __repr__(self) -> str:
        return format_settings(self)

    @property
    def is_unrestricted(self) -> bool:
        """Whether every rule was permitted and weighs its cardinality."""
        return not (self.require or self.forbid or self.weights)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        weights: Any = self.weights
        if isinstance(weights, Mapping) and weights:
            plain = {name: to_storable_weight(name, weight) for name, weight in weights.items()}
            weights = {name: number_to_json(one) if isinstance(one, Fraction) else one for name, one in plain.items()}
        return {"require": list(self.require), "forbid": list(self.forbid), "weights": weights}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleRestrictions:
        """What :meth:`to_dict` wrote; raises InputError if a weight is none."""
        weights = data["weights"]
        if isinstance(weights, Mapping):
            read = {name: number_from_json(one) if isinstance(one, str) else one for name, one in weights.items()}
            weights = {name: to_storable_weight(name, one) for name, one in read.items()}
        elif weights is not None and weights != "paper":
            expected = "weights must be 'paper' or a mapping from features to weights"
            raise InputError(expected=expected, got=describe_value(weights))
        return cls(tuple(data["require"]), tuple(data["forbid"]), weights)


@dataclass(frozen=True, slots=True)
class RankedRule:
    """A rule with its verdict and the number of past rows that it covers."""

    rule: Rule
    verdict: Verdict
    coverage: int

    def to_dict(self) -> dict[str, Any]:
        """The rule with its verdict as plain data."""
        return {"rule": self.rule.to_dict(), "verdict": verdict_to_dict(self.verdict), "coverage": self.coverage}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RankedRule:
        """The rule that :meth:`to_dict` wrote."""
        return cls(Rule.from_dict(data["rule"]), verdict_from_dict(data["verdict"]), data["coverage"])

    def __str__(self) -> str:
        return f"{self.rule} {_capitalize(self.verdict)}. Past rows covered: {self.coverage:,}."

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self, self.verdict)

    def with_readings(self, domains: Mapping[str, DomainSummary]) -> RankedRule:
        """The same, its bounds read as in these domains."""
        return replace(self, rule=restore_readings(self.rule, domains))

    def with_labels(self, labels: Labels) -> RankedRule:
        """The same, shown with these labels."""
        return replace(self, rule=self.rule.with_labels(labels), verdict=label_verdict(self.verdict, labels))


@dataclass(frozen=True, slots=True)
class CoveragePreference:
    """What is known of a rule that was preferred for its coverage to a shorter one.

    ``shortest`` is what the shortest rule found weighs. So many proven rules that are at most two components longer
    were ``compared``, with their bounds as wide as proven where there is a wider rule; ``is_complete``: no other such
    rule could have been better. A certificate does not contain that.
    """

    shortest: ExactNumber
    is_complete: bool
    compared: int

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        shortest = number_to_json(self.shortest)
        return {"shortest": shortest, "is_complete": self.is_complete, "compared": self.compared}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CoveragePreference:
        """What :meth:`to_dict` wrote."""
        shortest, compared = number_from_json(data["shortest"]), require_integer(data["compared"])
        return cls(shortest, bool(data["is_complete"]), compared)

    def __str__(self) -> str:
        known = "proven to be the best of them" if self.is_complete else "not proven to be the best"
        compared = format_count(self.compared, "proven rule")
        return f"preferred for its coverage among {compared}, {known}; the shortest weighs {self.shortest}"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(JsonDocument):
    """Why a row got the undesired outcome: rules, best first, each with its verdict.

    ``rule``, ``verdict``, ``cardinality`` and ``coverage`` speak of the best one; ``wider`` is that rule with its
    bounds moved as far as they can go, and ``shown`` is what people see first: the wider rule where it is proven.
    ``counterfactuals`` are points that the search found on its way, evidence that the rule needs its components. They
    are no suggestions to a person, and need not be near or possible; the suggestions are ``changes``.

    ``prefer`` says whether the best rule is the shortest or one that covers more. ``witnesses`` are counterfactuals, as
    codes, that together need a rule of weight ``lower_bound``: they show that nothing lighter holds. ``weight`` and
    ``lower_bound`` are exact: an int where whole, else a Fraction.
    """

    DOCUMENT_NAME: ClassVar = "explanation"

    instance: Mapping[str, Value]
    ranked: tuple[RankedRule, ...]
    counterfactuals: Sequence[Counterfactual]
    statistics: Statistics
    history_rows: int
    space: str
    weight: ExactNumber = 0  # the best rule's cardinality, weights counted
    lower_bound: ExactNumber = 0  # no consistent rule that was permitted weighs less; 0 where nothing is known of that
    unreadable_reason: str | None = None  # why the model could only be asked, where it could not be read
    model: str = ""  # the model's fingerprint
    decision: DecisionTarget = field(default_factory=DecisionTarget)
    restrictions: RuleRestrictions = field(default_factory=RuleRestrictions)
    witnesses: Sequence[tuple[int, ...]] = ()
    wider: RankedRule | None = None
    rounded: Rule | None = None  # the wider rule with bounds rounded inwards, where that makes them shorter
    wider_is_maximal: bool = False  # whether it is known that no bound of the wider rule can move further
    wider_witnesses: tuple[tuple[int, ...], ...] = ()  # counterfactuals, as codes, that show that
    undecided_components: tuple[str, ...] = ()  # of the best rule: it could not be decided whether they are needed
    model_count: int = 1  # how many models the rules hold for, all at once
    constraints: tuple[str, ...] = ()  # on the space: the rules speak of what satisfies them, and of nothing else
    breakpoints: Mapping[str, tuple[Value, ...]] | None = None  # by interval, the numbers put between those seen
    extended_values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # in no past row, added to domains
    domains: Mapping[str, DomainSummary] = field(default_factory=dict)  # what every feature can take
    prefer: Literal["length", "coverage"] = "length"
    preference: CoveragePreference | None = None  # where coverage was preferred, and the shortest rule is proven
    covers_only_instance: bool = False  # whether the rule shown covers no other past row than the one explained
    confirmed: bool = True  # whether the user's own model was there to confirm what its reading says
    marks: tuple[RuleMark, ...] = ()  # components of the best rule to note, by the roles of their features
    lazy_changes: LazyValue[SuggestedChanges] | None = field(default=None, compare=False, repr=False)
    lazy_background: LazyValue[Background] | None = field(default=None, compare=False, repr=False)

    @property
    def changes(self) -> SuggestedChanges | None:
        """What to suggest to a person: the nearest changes that respect the roles of features, found when they are
        first read or written. (``counterfactuals`` are not that: they are evidence about the rule.)

        None for an explanation that was made without: one of a batch that was not asked for them, or one that was
        pickled before they were read; see :meth:`Explainer.attach`.
        """
        return None if self.lazy_changes is None else self.lazy_changes.get()

    @property
    def background(self) -> Background | None:
        """What plots and reports show besides, computed when it is first read. It is not written into documents: None
        for an explanation that was read back, or pickled before this was read; see :meth:`with_history`.
        """
        return None if self.lazy_background is None else self.lazy_background.get()

    def with_history(self, data: Any, space: Space | None = None) -> Explanation:
        """The same explanation with past rows attached again, for plots and reports of one that was read back.

        ``data`` is the table, or the explainer that has read it, which knows the outcomes too. It and ``space`` must be
        those that the explanation was made with, but for labels and units; raises InputError if not.
        """
        return attach_history(self, data, space)

    @property
    def labels(self) -> Labels:
        """How features, values and outcomes are shown; they are written into documents, and change no claim."""
        return self.rule.labels

    def with_labels(self, labels: Labels | Mapping[str, Any] | str | Path) -> Explanation:
        """The same explanation, shown with these labels: :class:`Labels`, the same as a dict, or the path of a file.
        Raises SpaceError for the label of a feature that it does not have.
        """
        parsed = Labels.parse(labels)
        parsed.check_names(self.instance)
        ends = {name: (one.low, one.high) for name, one in self.domains.items()}
        parsed = parsed.mark_complete({name: both for name, both in ends.items() if {*map(type, both)} == {int}})
        found, changes, background = self.counterfactuals, self.lazy_changes, self.lazy_background
        return replace(
            self,
            ranked=tuple(ranked.with_labels(parsed) for ranked in self.ranked),
            counterfactuals=EvidenceCounterfactuals(lambda: tuple(one.with_labels(parsed) for one in found)),
            wider=None if self.wider is None else self.wider.with_labels(parsed),
            rounded=None if self.rounded is None else self.rounded.with_labels(parsed),
            lazy_changes=None if changes is None else changes.apply(lambda one: one.with_labels(parsed)),
            lazy_background=None if background is None else background.apply(lambda one: one.with_labels(parsed)),
        )

    @property
    def minimum(self) -> bool:
        """Whether it is proven that the best rule holds and that no shorter rule at all does."""
        return self.minimum_among_permitted and self.restrictions.is_unrestricted

    @property
    def minimum_among_permitted(self) -> bool:
        """Whether it is proven that the best rule holds and that no rule which was permitted weighs less."""
        has_bound = self.lower_bound > 0 or not self.rule.components
        return isinstance(self.verdict, Proven) and has_bound and self.weight <= self.lower_bound

    @property
    def rule(self) -> Rule:
        """The best rule."""
        return self.ranked[0].rule

    @property
    def shown(self) -> RankedRule:
        """What people see first: the rule with its bounds as wide as proven, or as it is where that is not known."""
        wider = self.wider
        if wider is None or not isinstance(wider.verdict, Proven) or not isinstance(self.verdict, Proven):
            return self.ranked[0]
        return wider if self.rounded is None else replace(wider, rule=self.rounded)

    @property
    def verdict(self) -> Verdict:
        """What is known of the best rule: Proven, Refuted or Unrefuted."""
        return self.ranked[0].verdict

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, best first."""
        return tuple(ranked.rule for ranked in self.ranked)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The rules' verdicts, in the same order."""
        return tuple(ranked.verdict for ranked in self.ranked)

    @property
    def cardinality(self) -> int:
        """How many components the best rule has."""
        return self.rule.cardinality

    @property
    def coverage(self) -> int:
        """How many past rows the best rule covers."""
        return self.ranked[0].coverage

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data, with a digest of it."""
        undecided = self.undecided_components
        document = {
            "format": DOCUMENT_FORMAT,
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "rules": [ranked.to_dict() for ranked in self.ranked],
            "wider": None if self.wider is None else self.wider.to_dict(),
            "wider_is_maximal": self.wider_is_maximal,
            "wider_witnesses": [list(point) for point in self.wider_witnesses],
            "counterfactuals": [counterfactual.to_dict() for counterfactual in self.counterfactuals],
            "statistics": asdict(self.statistics),
            "history_rows": self.history_rows,
            "space": self.space,
            "weight": number_to_json(self.weight),
            "lower_bound": number_to_json(self.lower_bound),
            "unreadable_reason": self.unreadable_reason,
            "model": self.model,
            "decision": self.decision.to_dict(),
            "restrictions": self.restrictions.to_dict(),
            "witnesses": [list(point) for point in self.witnesses],
            "undecided_components": [at for at, one in enumerate(self.rule.components) if str(one) in undecided],
            "model_count": self.model_count,
        }
        if self.constraints:
            document["constraints"] = list(self.constraints)
        if self.breakpoints is not None:
            document["breakpoints"] = {name: list(values) for name, values in self.breakpoints.items()}
        if self.rounded is not None:
            document["rounded"] = self.rounded.to_dict()
        if self.extended_values:
            document["extended_values"] = {
                name: [value_to_json(value) for value in values] for name, values in self.extended_values.items()
            }
        if self.domains:
            document["domains"] = {name: domain.to_dict() for name, domain in self.domains.items()}
        if self.prefer != "length":
            document["prefer"] = self.prefer
        if self.preference is not None:
            document["preference"] = self.preference.to_dict()
        if self.covers_only_instance:
            document["covers_only_instance"] = True
        if not self.confirmed:
            document["confirmed_by_model"] = False
        if self.marks:
            document["marks"] = [mark.to_dict() for mark in self.marks]
        if self.changes is not None:
            document["changes"] = self.changes.to_dict()
        if self.labels:
            document["labels"] = self.labels.to_dict()
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """The explanation that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping):
            raise InputError(expected="an explanation must be a JSON object", got=type(data).__name__)
        if data.get("format") != DOCUMENT_FORMAT:
            raise build_format_error("an explanation", DOCUMENT_FORMAT, data.get("format"), "explain the row again")
        if not data.get("rules"):
            raise InputError(expected="an explanation must have at least one rule", got="none")
        try:
            require_digest(data)
            check_document_types(data)
            domains = {name: DomainSummary.from_dict(one) for name, one in data.get("domains", {}).items()}
            ranked = tuple(RankedRule.from_dict(one).with_readings(domains) for one in data["rules"])
            components, breakpoints = ranked[0].rule.components, data.get("breakpoints")
            preference = data.get("preference")
            as_they_are = ("history_rows", "space", "unreadable_reason", "model", "wider_is_maximal")
            explanation = cls(
                instance={name: value_from_json(value) for name, value in data["instance"].items()},
                ranked=ranked,
                counterfactuals=EvidenceCounterfactuals.hold(
                    tuple(map(Counterfactual.from_dict, data["counterfactuals"]))
                ),
                statistics=Statistics(**data["statistics"]),
                **{name: data[name] for name in as_they_are},
                weight=number_from_json(data["weight"]),
                lower_bound=number_from_json(data["lower_bound"]),
                decision=DecisionTarget.from_dict(data["decision"]),
                restrictions=RuleRestrictions.from_dict(data["restrictions"]),
                witnesses=tuple(tuple(map(require_integer, point)) for point in data["witnesses"]),
                wider=None if data["wider"] is None else RankedRule.from_dict(data["wider"]).with_readings(domains),
                wider_witnesses=tuple(tuple(map(require_integer, point)) for point in data["wider_witnesses"]),
                undecided_components=tuple(str(components[require_integer(at)]) for at in data["undecided_components"]),
                model_count=require_integer(data["model_count"]),
                constraints=tuple(data.get("constraints", ())),
                breakpoints=None if breakpoints is None else {name: tuple(new) for name, new in breakpoints.items()},
                rounded=restore_readings(Rule.from_dict(data["rounded"]), domains) if data.get("rounded") else None,
                extended_values={
                    name: tuple(map(value_from_json, values))
                    for name, values in data.get("extended_values", {}).items()
                },
                domains=domains,
                prefer=data.get("prefer", "length"),
                preference=None if preference is None else CoveragePreference.from_dict(preference),
                covers_only_instance=data.get("covers_only_instance", False),
                confirmed=data.get("confirmed_by_model", True),
                marks=tuple(map(RuleMark.from_dict, data.get("marks", ()))),
                lazy_changes=_read_changes(data.get("changes")),
            )
            return explanation.with_labels(Labels.from_dict(data["labels"])) if "labels" in data else explanation
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"malformed explanation: {error!r}") from None

    def plot(self, kind: Literal["conditions", "needs", "growth"] = "conditions", ax: Axes | None = None) -> Axes:
        """A plot on matplotlib's axes (``pip install 'ironrule[plots]'``), which are returned.

        ``conditions``: every condition on its feature's distribution in the history; ``needs``: why no part can go;
        ``growth``: the past rows covered as the rule grows.
        """
        return plot_explanation(self, kind, ax)

    def to_html(
        self,
        audience: Audience = "person",
        path: str | Path | None = None,
        *,
        report: ReportOptions | None = None,
    ) -> str:
        """A report as one HTML page that needs nothing else, also written to ``path`` where one is given.

        ``person``: plain sentences for whom the decision is about; ``validator``: verdict, proof, scope, seed, versions
        and how to check it. ``report`` has the language, the letterhead and the files that are named.
        """
        return write_report(self, audience, path, report)

    def to_pdf(
        self,
        audience: Audience = "person",
        path: str | Path | None = None,
        *,
        report: ReportOptions | None = None,
    ) -> bytes:
        """The same report as PDF (``pip install 'ironrule[pdf]'``)."""
        return write_pdf(self.to_html(audience, report=report), path)

    def __str__(self) -> str:
        return format_explanation(self)

    if not TYPE_CHECKING:  # type checkers are to go on refusing names that do not exist

        def __getattr__(self, name: str) -> Any:
            return get_other_attribute(self, name, EXPLANATION_HINTS)

    def __repr__(self) -> str:
        covers = f"covers {self.shown.coverage} of {self.history_rows} rows"
        return escape_controls(f"<Explanation: {self.shown.rule} {type(self.verdict).__name__}, {covers}>")

    def _repr_html_(self) -> str:
        return render_explanation(self)


def _read_changes(data: Mapping[str, Any] | None) -> LazyValue[SuggestedChanges] | None:
    """Changes that are known already, as they were written."""
    if data is None:
        return None
    changes = SuggestedChanges.from_dict(data)
    known = LazyValue(lambda: changes)
    known.get()  # so that a copy in another process has them too
    return known


Item = TypeVar("Item")


def _capitalize(value: object) -> str:
    text = str(value)
    return text[:1].upper() + text[1:]


class _EnumerationSearch(Protocol):
    """A search that says how it ended."""

    stopped: str | None
    complete: bool


@dataclass(slots=True, eq=False, repr=False)
class Listing(Iterator[Item], Generic[Item]):
    """An iterator that knows how it ended.

    ``complete``: everything that was asked for has come, and that is proven. ``stopped``: None, "budget", "interrupted"
    (Ctrl-C), or "limit" if as many have come as were asked for; ``stopped_by`` names the part of the budget. A budget
    in seconds counts the search alone, not what is done between two answers.
    """

    _items: Iterator[Item]
    _search: _EnumerationSearch
    _meter: Meter
    _limit: int | None
    _progress: bool | None = False
    complete: bool = False
    stopped: str | None = None
    count: int = 0
    _left: float = field(default_factory=WORK_CLOCK.read)

    @property
    def stopped_by(self) -> StopReason | Literal["limit"]:
        """What ended it so far: "finished" unless "seconds", "evaluations", "interrupted" or "limit" did."""
        return "limit" if self.stopped == "limit" else self._meter.ended_by

    def __next__(self) -> Item:
        if self._limit is not None and self.count >= self._limit:
            self.stopped = self.stopped or "limit"
            raise StopIteration
        self._meter.started += WORK_CLOCK.read() - self._left
        try:
            with self._meter.watch(self._progress):
                item = next(self._items)
        except StopIteration:
            self.complete, self.stopped = self._search.complete, self._search.stopped
            raise
        finally:
            self._left = WORK_CLOCK.read()
        self.count += 1
        return item

    def __repr__(self) -> str:
        return f"<Listing: {self}>"

    def __str__(self) -> str:
        how = "not ended: iterate over it, or make a list of it"
        if self.complete:
            how = "complete, and that is proven"
        elif self.stopped:
            how = f"stopped: {self.stopped}; there may be others"
        return f"{self.count} so far, {how}"

    def _repr_html_(self) -> str:
        return render_text(self)

"""An explanation: the rules found for one row, what is known of them, and how they were found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ironrule.errors import InputError
from ironrule.explain.background import Background, Seen, Unseen
from ironrule.model import Wanted
from ironrule.rule import Counterfactual, Rule
from ironrule.rule.weights import Number, as_written, from_document, to_document
from ironrule.space import Space, Value
from ironrule.space.plain import from_plain, to_plain
from ironrule.verdict import Proven, Verdict, verdict_from_dict, verdict_to_dict
from ironrule.verdict.certificate import whole
from ironrule.verdict.digest import FIELD, digest_of, with_digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = 4


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a search did. ``operators`` gives seconds per operator; ``stopped`` is None, "budget" or "interrupted"."""

    algorithm: str
    seed: int
    seconds: float
    generations: int
    candidates: int
    oracle_calls: int
    model_calls: int
    evaluations: int
    operators: Mapping[str, float]
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Permitted:
    """Which rules were permitted, and what their components weigh."""

    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    weights: Mapping[str, int | float | Fraction] | Literal["paper"] | None = None

    @property
    def all(self) -> bool:
        """Whether every rule was permitted and weighs its cardinality."""
        return not (self.require or self.forbid or self.weights)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        given, weights = self.weights, None
        if isinstance(given, Mapping):
            kept = {name: as_written(name, weight) for name, weight in given.items()}
            weights = {name: to_document(one) if isinstance(one, Fraction) else one for name, one in kept.items()}
        return {"require": list(self.require), "forbid": list(self.forbid), "weights": weights or given}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Permitted:
        """What :meth:`to_dict` wrote; raises InputError if a weight is none."""
        weights = data["weights"]
        if isinstance(weights, Mapping):
            read = {name: from_document(one) if isinstance(one, str) else one for name, one in weights.items()}
            weights = {name: as_written(name, one) for name, one in read.items()}
        elif weights is not None and weights != "paper":
            raise InputError(
                expected="weights must be 'paper' or a mapping from features to weights", got=repr(weights)
            )
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a row got the undesired outcome: rules, best first, each with its verdict.

    ``rule``, ``verdict``, ``cardinality`` and ``coverage`` speak of the best one; ``wider`` is that rule with its
    bounds moved as far as they can go. ``witnesses`` are counterfactuals, as codes, that together need a rule of weight
    ``lower_bound``: they show that nothing lighter holds. ``weight`` and ``lower_bound`` are exact: an int where whole,
    else a Fraction.
    """

    instance: Mapping[str, Value]
    ranked: tuple[RankedRule, ...]
    counterfactuals: Sequence[Counterfactual]
    statistics: Statistics
    history_rows: int
    space: str
    weight: Number = 0  # the best rule's cardinality, weights counted
    lower_bound: Number = 0  # no consistent rule that was permitted weighs less; 0 where nothing is known of that
    unread: str | None = None  # why the model could only be asked, where it could not be read
    model: str = ""  # the model's fingerprint
    decision: Wanted = field(default_factory=Wanted)
    permitted: Permitted = field(default_factory=Permitted)
    witnesses: Sequence[tuple[int, ...]] = ()
    wider: RankedRule | None = None
    widest: bool = False  # whether it is known that no bound of the wider rule can move further
    limits: tuple[tuple[int, ...], ...] = ()  # counterfactuals, as codes, that show that
    undecided: tuple[str, ...] = ()  # components of the best rule that may not be needed: that could not be decided
    models: int = 1  # how many models the rules hold for, all at once
    constraints: tuple[str, ...] = ()  # on the space: the rules speak of what satisfies them, and of nothing else
    breakpoints: Mapping[str, tuple[Value, ...]] | None = None  # with intervals, the numbers put between those seen
    behind: Seen | Unseen | None = field(default=None, compare=False, repr=False)  # not in documents

    @property
    def background(self) -> Background | None:
        """What pictures and reports show besides; None for one that was read back, or that was pickled before anybody
        looked at it: see :meth:`with_history`.
        """
        return None if self.behind is None else self.behind.read()

    def with_history(self, data: Any, space: Space | None = None) -> Explanation:
        """The same explanation with past rows behind it again, for pictures and reports of one that was read back.

        ``data`` is the table, or the explainer that has read it, which knows the outcomes too. It and ``space`` must be
        those that the explanation was made with, but for labels and units; raises InputError if not.
        """
        from ironrule.explain.reread import with_history

        return with_history(self, data, space)

    @property
    def minimum(self) -> bool:
        """Whether it is proven that the best rule holds and that no shorter rule at all does."""
        return self.lightest and self.permitted.all

    @property
    def lightest(self) -> bool:
        """Whether it is proven that the best rule holds and that no rule which was permitted weighs less."""
        known = self.lower_bound > 0 or not self.rule.components
        return isinstance(self.verdict, Proven) and known and self.weight <= self.lower_bound

    @property
    def rule(self) -> Rule:
        """The best rule."""
        return self.ranked[0].rule

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
        stats = self.statistics
        document = {
            "format": FORMAT,
            "instance": {name: to_plain(value) for name, value in self.instance.items()},
            "rules": [ranked.to_dict() for ranked in self.ranked],
            "wider": None if self.wider is None else self.wider.to_dict(),
            "widest": self.widest,
            "limits": [list(point) for point in self.limits],
            "counterfactuals": [counterfactual.to_dict() for counterfactual in self.counterfactuals],
            "statistics": {name: getattr(stats, name) for name in Statistics.__slots__}
            | {"operators": dict(stats.operators)},
            "history_rows": self.history_rows,
            "space": self.space,
            "weight": to_document(self.weight),
            "lower_bound": to_document(self.lower_bound),
            "unread": self.unread,
            "model": self.model,
            "decision": self.decision.to_dict(),
            "permitted": self.permitted.to_dict(),
            "witnesses": [list(point) for point in self.witnesses],
            "undecided": [place for place, one in enumerate(self.rule.components) if str(one) in self.undecided],
            "models": self.models,
        }
        if self.constraints:
            document["constraints"] = list(self.constraints)
        if self.breakpoints is not None:
            document["breakpoints"] = {name: list(values) for name, values in self.breakpoints.items()}
        return with_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """The explanation that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping):
            raise InputError(expected="an explanation must be a JSON object", got=type(data).__name__)
        if data.get("format") != FORMAT:
            got = repr(data.get("format"))[:40]
            raise InputError(expected=f"an explanation must have format {FORMAT}", got=got, code="wrong-format")
        if not data.get("rules"):
            raise InputError(expected="an explanation must have at least one rule", got="none")
        try:
            if data[FIELD] != digest_of(data):
                raise InputError(
                    "digest mismatch: the document was modified after it was written", code="digest-mismatch"
                )
            ranked = tuple(RankedRule.from_dict(ranked) for ranked in data["rules"])
            return cls(
                {name: from_plain(value) for name, value in data["instance"].items()},
                ranked,
                tuple(Counterfactual.from_dict(counterfactual) for counterfactual in data["counterfactuals"]),
                Statistics(**data["statistics"]),
                data["history_rows"],
                data["space"],
                from_document(data["weight"]),
                from_document(data["lower_bound"]),
                data["unread"],
                data["model"],
                Wanted.from_dict(data["decision"]),
                Permitted.from_dict(data["permitted"]),
                tuple(tuple(whole(code) for code in point) for point in data["witnesses"]),
                None if data["wider"] is None else RankedRule.from_dict(data["wider"]),
                data["widest"],
                tuple(tuple(whole(code) for code in point) for point in data["limits"]),
                tuple(str(ranked[0].rule.components[whole(place)]) for place in data["undecided"]),
                whole(data["models"]),
                tuple(data.get("constraints", ())),
                _read_breakpoints(data.get("breakpoints")),
            )
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"malformed explanation: {error!r}") from None

    def to_json(self, indent: int | None = None) -> str:
        """The explanation as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Explanation:
        """The explanation that :meth:`to_json` wrote."""
        try:
            return cls.from_dict(json.loads(text))
        except (json.JSONDecodeError, RecursionError, TypeError) as error:
            raise InputError(f"the explanation is not valid JSON: {error}") from None

    def plot(self, kind: Literal["ladder", "needs", "growth"] = "ladder", ax: Axes | None = None) -> Axes:
        """A picture on matplotlib's axes (``pip install 'ironrule[plots]'``), which are returned.

        ``ladder``: every condition on its feature's distribution in the history; ``needs``: why no part can go;
        ``growth``: the past rows covered as the rule grows.
        """
        from ironrule.report.pictures.plots import plot_explanation

        return plot_explanation(self, kind, ax)

    def to_html(self, voice: Literal["person", "validator"] = "person", path: str | Path | None = None) -> str:
        """A report as one HTML page that needs nothing else, also written to ``path`` where one is given.

        ``person``: plain sentences for whom the decision is about; ``validator``: verdict, proof, scope, seed, versions
        and how to check it.
        """
        from ironrule.report.reports import explanation_report, written

        return written(explanation_report(self, voice), path)

    def __str__(self) -> str:
        from ironrule.report.text import explanation_text

        return explanation_text(self)

    def __repr__(self) -> str:
        covers = f"covers {self.coverage} of {self.history_rows} rows"
        return f"<Explanation: {self.rule} {type(self.verdict).__name__}, {covers}>"

    def _repr_html_(self) -> str:
        from ironrule.report.html import explanation_html

        return explanation_html(self)


def _read_breakpoints(data: Mapping[str, Any] | None) -> Mapping[str, tuple[Value, ...]] | None:
    return None if data is None else {name: tuple(values) for name, values in data.items()}


@dataclass(frozen=True, slots=True)
class Counterfactuals(Sequence[Counterfactual]):
    """Counterfactuals of one row, nearest first. Empty: none was found, or, if ``proven``, there is none.

    ``proven``: each is the nearest (fewest changes, then least distance) that does not change all the features of an
    earlier one, and where there are fewer than asked for, no other exists.
    """

    instance: Mapping[str, Value]
    items: tuple[Counterfactual, ...]
    statistics: Statistics
    proven: bool = False

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def __iter__(self) -> Iterator[Counterfactual]:
        return iter(self.items)

    def to_dict(self) -> dict[str, Any]:
        """The counterfactuals as plain data."""
        return {
            "instance": {name: to_plain(value) for name, value in self.instance.items()},
            "counterfactuals": [item.to_dict() for item in self.items],
            "proven": self.proven,
            "seed": self.statistics.seed,
            "evaluations": self.statistics.evaluations,
            "seconds": self.statistics.seconds,
            "stopped": self.statistics.stopped,
        }

    def __str__(self) -> str:
        if self.items:
            return "\n".join(f"{place}. {item}" for place, item in enumerate(self.items, 1))
        if self.proven:
            return "there is no counterfactual"
        stopped = self.statistics.stopped
        return "no counterfactual was found" + (f"; the search was stopped early ({stopped})" if stopped else "")

    def _repr_html_(self) -> str:
        from ironrule.report.html import counterfactuals_html

        return counterfactuals_html(self.items) or f"<p>{self}</p>"

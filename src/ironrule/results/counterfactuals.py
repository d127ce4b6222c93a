"""Counterfactuals of one row: the nearest ones, and the minimal sets of features to change.

``Counterfactuals`` is what ``Explainer.counterfactuals`` returns, nearest first; ``ChangeSet`` is one of what
``Explainer.change_sets`` enumerates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ironrule.errors import InputError, build_format_error
from ironrule.model.target import Target
from ironrule.other_packages import COUNTERFACTUALS_HINTS, get_other_attribute
from ironrule.results.changes.tables import build_frame
from ironrule.results.display import plot_counterfactuals, render_counterfactuals
from ironrule.results.document_types import check_counterfactuals_types
from ironrule.results.explanation import Statistics
from ironrule.results.scope import DomainSummary, SearchScope
from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import Counterfactual, Goal, LazyValue
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.verdict.digest import JsonDocument, add_digest, require_digest
from ironrule.wording import (
    escape_controls,
    format_cost_resolution,
    format_count,
    format_first,
    format_percent,
    format_repr,
    format_resolution,
    join_lines,
    render_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

FORMAT_FIELD, COUNTERFACTUALS_FORMAT = "counterfactuals_format", 2


@dataclass(frozen=True, slots=True)
class ChangeMeasures:
    """How far a counterfactual is from its row, and from past rows.

    ``l0`` counts the features that change. Of their distances, in ranges of the features, ``l1`` is the sum, ``l2`` the
    root of the sum of squares, ``linf`` the largest. ``ynn`` is the share of the five nearest past rows that have the
    desired outcome. ``cost`` is what the search made small, after the number of changes where these come first.
    """

    l0: int
    l1: float
    l2: float
    linf: float
    ynn: float
    cost: float

    def __str__(self) -> str:
        distances = f"l1 {self.l1:.3g}, l2 {self.l2:.3g}, linf {self.linf:.3g}, cost {self.cost:.3g}"
        desired = f"{format_percent(self.ynn)} of the nearest past rows are desired"
        return f"{format_count(self.l0, 'change')}; {distances}; {desired}"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class Counterfactuals(JsonDocument, Sequence[Counterfactual]):
    """Counterfactuals of one row, nearest first. Empty: none was found, or, if ``proven``, there is none.

    ``proven``: each is the nearest (fewest changes, then least distance) that does not change all the features of an
    earlier one, and where there are fewer than asked for, no other exists. Over whole intervals numbers are rounded to
    readable ones, and ``resolution`` says how far: nothing that changes fewer features exists at all, and nothing with
    as many changes is nearer by more than this share of the range for each number that it changes. Where a ``cost`` was
    asked for, nearest means that, and nothing costs less by more than ``resolution``. Where not all of this is
    proven, each of the first ``proven_count`` is still proven to be the nearest. ``target`` is what was to be reached,
    if not the explainer's desired outcome. With a ``margin`` it stays reached when scores move by that, and
    ``further_models`` are so many models beside the explainer's own that agree. With a ``spread``, each is the nearest
    that differs from every earlier one in value by that, whichever features it changes. ``domains`` are those of the
    features that some counterfactual changes; ``scope`` is what was searched, which :func:`ironrule.check` needs to
    know.
    """

    DOCUMENT_NAME: ClassVar = "document of counterfactuals"

    instance: Mapping[str, Value]
    items: tuple[Counterfactual, ...]
    statistics: Statistics
    proven: bool = False
    resolution: float = 0.0
    cost: Cost = DEFAULT_COST
    target: Target | None = None
    margin: float = 0.0
    further_models: int = 0
    spread: float | None = None  # how far each is from every earlier one in value; None: as the features say
    partly_proven: int = 0  # how many of the first are proven where not all is
    confirmed: bool = True  # whether the user's own model was there to confirm what its reading says
    domains: Mapping[str, DomainSummary] = field(default_factory=dict)
    scope: SearchScope | None = field(default=None, compare=False, repr=False)
    lazy_measures: LazyValue[tuple[ChangeMeasures, ...]] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # each knows what it reaches, so that what is asked about one alone can be about the same
        object.__setattr__(self, "items", tuple(item.with_goal(self.goal) for item in self.items))

    def __len__(self) -> int:
        return len(self.items)

    @property
    def proven_count(self) -> int:
        """How many of the first are proven, each to be the nearest: all of them where ``proven``."""
        return len(self.items) if self.proven else self.partly_proven

    def measure(self) -> tuple[ChangeMeasures, ...]:
        """The measures of every counterfactual, computed from the past rows when they are first asked for; raises
        InputError where the counterfactuals were read back, without past rows.
        """
        if self.lazy_measures is None:
            raise InputError(
                expected="counterfactuals must come from an explainer to be measured",
                got="some that were read back",
                hint="search for them again",
            )
        return self.lazy_measures.get()

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    @property
    def labels(self) -> Labels:
        """How features and values are shown."""
        return next((item.labels for item in self.items if item.changes), NO_LABELS)

    def with_labels(self, labels: Labels | Mapping[str, Any] | str | Path) -> Counterfactuals:
        """The same counterfactuals, shown with these labels; raises SpaceError for a feature that the row lacks."""
        parsed = Labels.parse(labels)
        parsed.check_names(self.instance)
        return replace(self, items=tuple(item.with_labels(parsed) for item in self.items))

    @property
    def within(self) -> str:
        """How near the nearest is known to be, behind a statement that each is."""
        if self.cost.is_usual:
            return format_resolution(self.resolution)
        return format_cost_resolution(self.resolution)

    @property
    def robustness(self) -> str:
        """What else must not turn the decision back, behind a statement; empty where the model as it is counts."""
        return self.goal.robustness

    @property
    def goal(self) -> Goal:
        """What was to be reached."""
        return Goal(self.target, self.margin, self.further_models)

    def to_dict(self) -> dict[str, Any]:
        """The counterfactuals as plain data."""
        document = {
            FORMAT_FIELD: COUNTERFACTUALS_FORMAT,
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "counterfactuals": [item.to_dict() for item in self.items],
            "proven": self.proven,
            **({"proven_count": self.partly_proven} if self.partly_proven and not self.proven else {}),
            "resolution": self.resolution,
            **({} if self.cost == DEFAULT_COST else {"cost": self.cost.to_dict()}),
            **({} if self.target is None else {"target": self.target.to_dict()}),
            **({"margin": self.margin} if self.margin else {}),
            **({"further_models": self.further_models} if self.further_models else {}),
            **({} if self.spread is None else {"spread": self.spread}),
            **({} if self.confirmed else {"confirmed_by_model": False}),
            "seed": self.statistics.seed,
            "evaluations": self.statistics.evaluations,
            "seconds": self.statistics.seconds,
            "stopped": self.statistics.stopped,
            "statistics": asdict(self.statistics),
            "domains": {name: domain.to_dict() for name, domain in self.domains.items()},
            **({} if self.scope is None else {"scope": self.scope.to_dict()}),
            **({"labels": self.labels.to_dict()} if self.labels else {}),
        }
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counterfactuals:
        """The counterfactuals that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping):
            raise InputError(expected="counterfactuals must be a JSON object", got=type(data).__name__)
        if data.get(FORMAT_FIELD) != COUNTERFACTUALS_FORMAT:
            got = data.get(FORMAT_FIELD)
            raise build_format_error("counterfactuals", COUNTERFACTUALS_FORMAT, got, "search for them again")
        try:
            require_digest(data)
            check_counterfactuals_types(data)
            found = cls(
                instance={name: value_from_json(value) for name, value in data["instance"].items()},
                items=tuple(map(Counterfactual.from_dict, data["counterfactuals"])),
                statistics=Statistics(**data["statistics"]),
                proven=data["proven"],
                partly_proven=_parse_proven_count(data),
                resolution=float(data["resolution"]),
                cost=Cost.from_dict(data.get("cost", {})),
                target=Target.from_dict(data["target"]) if "target" in data else None,
                margin=float(data.get("margin", 0.0)),
                further_models=int(data.get("further_models", 0)),
                spread=float(data["spread"]) if "spread" in data else None,
                confirmed=data.get("confirmed_by_model", True),
                domains={name: DomainSummary.from_dict(one) for name, one in data.get("domains", {}).items()},
                scope=SearchScope.from_dict(data["scope"]) if "scope" in data else None,
            )
            return found.with_labels(Labels.from_dict(data["labels"])) if "labels" in data else found
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"malformed counterfactuals: {error!r}") from None

    def to_frame(self, only_changes: bool = False) -> DataFrame:
        """A pandas table with one row per counterfactual; with ``only_changes``, "-" where a value stays as it is."""
        return build_frame(self.instance, self.items, only_changes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """What changes, by how much, per counterfactual, on matplotlib's axes (``pip install 'ironrule[plots]'``)."""
        return plot_counterfactuals(self, ax)

    if not TYPE_CHECKING:  # type checkers are to go on refusing names that do not exist

        def __getattr__(self, name: str) -> Any:
            return get_other_attribute(self, name, COUNTERFACTUALS_HINTS)

    def __repr__(self) -> str:
        proven = "proven" if self.proven else "not proven"
        if self.proven_count and not self.proven:
            proven = f"{format_first(self.proven_count)} proven"
        found = f"{format_count(len(self), 'counterfactual')}, {proven} to be the nearest" if self.items else proven
        return f"<Counterfactuals: {found}: {'; '.join(map(str, self.items)) or self}>"

    def __str__(self) -> str:
        if self.items:
            notes = [] if self.confirmed else ["Not confirmed by the model itself, but by a saved reading of it."]
            notes += [] if self.proven else [f"{self._describe_missing_proof()}{self._describe_stop()}."]
            return join_lines([*(f"{place}. {item}" for place, item in enumerate(self.items, 1)), *notes])
        if self.proven:
            return "there is no counterfactual"
        return f"no counterfactual was found{self._describe_stop()}"

    def _describe_missing_proof(self) -> str:
        """How many are proven to be the nearest, where not all are."""
        if not self.proven_count:
            return "Not proven to be the nearest"
        known = "first is" if self.proven_count == 1 else f"first {self.proven_count} are"
        return f"Only the {known} proven to be the nearest"

    def _describe_stop(self) -> str:
        stopped = self.statistics.stopped
        return f"; the search was stopped early ({escape_controls(stopped)})" if stopped else ""

    def _repr_html_(self) -> str:
        return render_counterfactuals(self)


def _parse_proven_count(data: Mapping[str, Any]) -> int:
    """How many counterfactuals of a document are proven to be the nearest."""
    count = data.get("proven_count", 0)
    if not 0 <= count <= len(data["counterfactuals"]):
        raise ValueError(f"proven_count must be from 0 to {len(data['counterfactuals'])}, got {count}")
    return int(count)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Features whose change can give the desired outcome, and one counterfactual that changes just these.

    ``minimal`` says it is proven that changing only some of them cannot. With a cost, the counterfactual is the
    cheapest that was found, ``cost`` what it costs, and ``proven`` says whether no change of these features is cheaper.
    """

    features: tuple[str, ...]
    counterfactual: Counterfactual
    minimal: bool
    proven: bool | None = None
    cost: float | None = None

    def with_goal(self, goal: Goal) -> ChangeSet:
        """The same set, whose counterfactual knows what it reaches."""
        return replace(self, counterfactual=self.counterfactual.with_goal(goal))

    def __str__(self) -> str:
        return str(self.counterfactual)

    def __repr__(self) -> str:
        return f"<ChangeSet: {self.counterfactual}; {self._describe_proof()}>"

    def _describe_proof(self) -> str:
        return f"{'proven' if self.minimal else 'not proven'} that no fewer of these features would do"

    def _repr_html_(self) -> str:
        return render_text(f"{self}\n{self._describe_proof().capitalize()}.")

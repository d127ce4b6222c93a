"""A menu of changes: several sets of features, each with its cheapest change, cheapest first.

``ChangeMenu`` is what ``Explainer.change_menu`` (all minimal sets of features) and ``Explainer.group_changes`` (groups
that the caller names) return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ironrule.errors import MissingExtraError
from ironrule.model.target import Target
from ironrule.results.changes.documents import (
    find_labels,
    read_asked,
    read_counterfactual,
    read_document,
    write_asked,
)
from ironrule.results.display import plot_menu
from ironrule.results.document_types import check_menu_types
from ironrule.results.scope import SearchScope
from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import Counterfactual, Goal
from ironrule.rule.phrasing import name_feature
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.space.labels import Labels
from ironrule.verdict.digest import JsonDocument, add_digest
from ironrule.wording import escape_controls, format_count, join_lines, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

FORMAT_FIELD, MENU_FORMAT = "menu_format", 1
MenuKind = Literal["minimal sets", "groups"]


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A set of features, and the cheapest change of no others; None if there is none, or none was found.

    ``distance`` is the sum over what changes: a number by its share of the range, a value without an order by 1.
    ``proven``: the change is the cheapest, or there is none. ``minimal``: it is proven that changing only some of the
    features cannot give the desired outcome; None where it was not asked. ``cost``: by the cost that was given; None
    with the usual order, fewest changes and then least distance. ``resolution``: how near the cheapest is known to be,
    as that of :class:`Counterfactuals`.
    """

    name: str
    features: tuple[str, ...]
    counterfactual: Counterfactual | None
    distance: float | None
    proven: bool
    minimal: bool | None = None
    cost: float | None = None
    resolution: float = 0.0

    def with_goal(self, goal: Goal) -> MenuEntry:
        """The same entry, whose counterfactual knows what it reaches."""
        found = self.counterfactual
        return self if found is None else replace(self, counterfactual=found.with_goal(goal))

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain data."""
        return {
            "name": self.name,
            "features": list(self.features),
            "counterfactual": None if self.counterfactual is None else self.counterfactual.to_dict(),
            "distance": self.distance,
            "proven": self.proven,
            "minimal": self.minimal,
            "resolution": self.resolution,
            **({} if self.cost is None else {"cost": self.cost}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], document: Mapping[str, Any]) -> MenuEntry:
        """The entry that :meth:`to_dict` wrote, of the document of a menu."""
        return cls(
            name=data["name"],
            features=tuple(data["features"]),
            counterfactual=read_counterfactual(data["counterfactual"], document),
            distance=None if data["distance"] is None else float(data["distance"]),
            proven=data["proven"],
            minimal=data["minimal"],
            cost=float(data["cost"]) if "cost" in data else None,
            resolution=float(data["resolution"]),
        )

    @property
    def shown_name(self) -> str:
        """The name for people: that of a group, or the labels of the features."""
        if self.counterfactual is None or self.name != " + ".join(self.features):
            return escape_controls(self.name)
        return " + ".join(name_feature(name, self.counterfactual.labels) for name in self.features)

    def __str__(self) -> str:
        name = self.shown_name
        if self.counterfactual is None:
            return f"{name}: {'there is none' if self.proven else 'none was found'}"
        what, amount = ("distance", self.distance) if self.cost is None else ("cost", self.cost)
        return f"{name}: {self.counterfactual} ({what} {amount:.3g})"

    def __repr__(self) -> str:
        return f"<MenuEntry: {self}; {'proven' if self.proven else 'not proven'}>"

    def _repr_html_(self) -> str:
        return render_text(f"{self}\n{'Proven to be the cheapest.' if self.proven else 'Not proven.'}")


@dataclass(frozen=True, slots=True)
class ChangeMenu(JsonDocument, Sequence[MenuEntry]):
    """Changes to choose from, cheapest first; sets of features for which there is none come last.

    ``complete``: there is no other minimal set of features, or every group has its answer. ``target``, ``margin`` and
    ``further_models`` say what is reached, as those of :class:`Counterfactuals` do. ``kind``: whether the entries are
    minimal sets of features, or groups that somebody named. ``scope`` is what was searched, which
    :func:`ironrule.check` needs to know.
    """

    DOCUMENT_NAME: ClassVar = "menu"

    instance: Mapping[str, Value]
    entries: tuple[MenuEntry, ...]
    complete: bool
    stopped: str | None = None
    cost: Cost = DEFAULT_COST
    target: Target | None = None
    margin: float = 0.0
    further_models: int = 0
    kind: MenuKind = "minimal sets"
    scope: SearchScope | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        goal = Goal(self.target, self.margin, self.further_models)
        object.__setattr__(self, "entries", tuple(entry.with_goal(goal) for entry in self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, place: Any) -> Any:
        return self.entries[place]

    @property
    def labels(self) -> Labels:
        """How features and values are shown."""
        return find_labels(*(entry.counterfactual for entry in self.entries))

    def to_dict(self) -> dict[str, Any]:
        """The menu as plain data, with a digest of it."""
        document = {
            FORMAT_FIELD: MENU_FORMAT,
            "kind": self.kind,
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "entries": [entry.to_dict() for entry in self.entries],
            "complete": self.complete,
            "stopped": self.stopped,
            **write_asked(self),
        }
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChangeMenu:
        """The menu that :meth:`to_dict` wrote; raises InputError if the data is none."""

        def build(document: Mapping[str, Any]) -> ChangeMenu:
            check_menu_types(document)
            return cls(
                instance={name: value_from_json(value) for name, value in document["instance"].items()},
                entries=tuple(MenuEntry.from_dict(entry, document) for entry in document["entries"]),
                complete=document["complete"],
                stopped=document["stopped"],
                kind=document["kind"],
                **read_asked(document),
            )

        return read_document(data, "a menu", FORMAT_FIELD, MENU_FORMAT, build, remedy="search for it again")

    def to_frame(self) -> DataFrame:
        """A pandas table with one row per entry."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "a menu as a table") from None
        frame: DataFrame = pandas.DataFrame(
            {
                "name": [entry.name for entry in self.entries],
                "changes": [None if e.counterfactual is None else str(e.counterfactual) for e in self.entries],
                "changed_features": [
                    None if e.counterfactual is None else len(e.counterfactual.changes) for e in self.entries
                ],
                "distance": [entry.distance for entry in self.entries],
                **({} if self.cost.is_usual else {"cost": [entry.cost for entry in self.entries]}),
                "proven": [entry.proven for entry in self.entries],
            }
        )
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """The distance of every entry as a bar, on matplotlib's axes (``pip install 'ironrule[plots]'``)."""
        return plot_menu(self, ax)

    def __str__(self) -> str:
        if not self.entries:
            return "there is no change" if self.complete else "no change was found"
        lines = [f"{place}. {entry}" for place, entry in enumerate(self.entries, 1)]
        return join_lines(lines if self.complete else [*lines, "there may be others"])

    def __repr__(self) -> str:
        proven = sum(entry.proven for entry in self.entries)
        return (
            f"<ChangeMenu: {format_count(len(self), 'entry', 'entries')}, {proven} proven: {'; '.join(map(str, self))}>"
        )

    def _repr_html_(self) -> str:
        proven = sum(entry.proven for entry in self.entries)
        return render_text(f"{self}\nProven to be the cheapest: {proven} of {len(self)}.")

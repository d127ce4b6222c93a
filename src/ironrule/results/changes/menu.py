"""A menu of changes: several sets of features, each with its cheapest change, cheapest first.

``ChangeMenu`` is what ``Explainer.change_menu`` (all minimal sets of features) and ``Explainer.group_changes`` (groups
that the caller names) return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironrule.errors import MissingExtraError
from ironrule.model.target import Target
from ironrule.results.display import plot_menu
from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import name_feature
from ironrule.space.feature import Value, value_to_json
from ironrule.wording import escape_controls, format_count, join_lines, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A set of features, and the cheapest change of no others; None if there is none, or none was found.

    ``distance`` is the sum over what changes: a number by its share of the range, a value without an order by 1.
    ``proven``: the change is the cheapest, or there is none. ``minimal``: it is proven that changing only some of the
    features cannot give the desired outcome; None where nobody asked. ``cost``: by the cost that was asked for; None
    with the usual order, fewest changes and then least distance.
    """

    name: str
    features: tuple[str, ...]
    counterfactual: Counterfactual | None
    distance: float | None
    proven: bool
    minimal: bool | None = None
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain data."""
        return {
            "name": self.name,
            "features": list(self.features),
            "counterfactual": None if self.counterfactual is None else self.counterfactual.to_dict(),
            "distance": self.distance,
            "proven": self.proven,
            "minimal": self.minimal,
            **({} if self.cost is None else {"cost": self.cost}),
        }

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
class ChangeMenu(Sequence[MenuEntry]):
    """Changes to choose from, cheapest first; sets of features for which there is none come last.

    ``complete``: there is no other minimal set of features, or every group has its answer. ``target``, ``margin`` and
    ``further_models`` say what is reached, as those of :class:`Counterfactuals` do.
    """

    instance: Mapping[str, Value]
    entries: tuple[MenuEntry, ...]
    complete: bool
    stopped: str | None = None
    cost: Cost = DEFAULT_COST
    target: Target | None = None
    margin: float = 0.0
    further_models: int = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, place: Any) -> Any:
        return self.entries[place]

    def to_dict(self) -> dict[str, Any]:
        """The menu as plain data."""
        return {
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "entries": [entry.to_dict() for entry in self.entries],
            "complete": self.complete,
            "stopped": self.stopped,
            **({} if self.cost == DEFAULT_COST else {"cost": self.cost.to_dict()}),
            **({} if self.target is None else {"target": self.target.to_dict()}),
            **({"margin": self.margin} if self.margin else {}),
            **({"further_models": self.further_models} if self.further_models else {}),
        }

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

"""Counterfactuals of one row: the nearest ones, and the minimal sets of features to change.

``Counterfactuals`` is what ``Explainer.counterfactuals`` returns, nearest first; ``ChangeSet`` is one of what
``Explainer.change_sets`` enumerates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ironrule.results.display import render_counterfactuals
from ironrule.results.explanation import Statistics
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.feature import Value, value_to_json
from ironrule.wording import escape_controls, join_lines


@dataclass(frozen=True, slots=True)
class Counterfactuals(Sequence[Counterfactual]):
    """Counterfactuals of one row, nearest first. Empty: none was found, or, if ``proven``, there is none.

    ``proven``: each is the nearest (fewest changes, then least distance) that does not change all the features of an
    earlier one, and where there are fewer than asked for, no other exists. Over whole intervals numbers are rounded to
    readable ones, and ``resolution`` says how far: nothing that changes fewer features exists at all, and nothing with
    as many changes is nearer by more than this share of the range for each number that it changes.
    """

    instance: Mapping[str, Value]
    items: tuple[Counterfactual, ...]
    statistics: Statistics
    proven: bool = False
    resolution: float = 0.0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def to_dict(self) -> dict[str, Any]:
        """The counterfactuals as plain data."""
        return {
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "counterfactuals": [item.to_dict() for item in self.items],
            "proven": self.proven,
            "resolution": self.resolution,
            "seed": self.statistics.seed,
            "evaluations": self.statistics.evaluations,
            "seconds": self.statistics.seconds,
            "stopped": self.statistics.stopped,
            "statistics": asdict(self.statistics),
        }

    def __str__(self) -> str:
        if self.items:
            return join_lines(f"{place}. {item}" for place, item in enumerate(self.items, 1))
        if self.proven:
            return "there is no counterfactual"
        stopped = self.statistics.stopped
        end = f"; the search was stopped early ({escape_controls(stopped)})" if stopped else ""
        return f"no counterfactual was found{end}"

    def _repr_html_(self) -> str:
        return render_counterfactuals(self)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Features whose change can give the desired outcome, and one counterfactual that changes just these.

    ``minimal`` says it is proven that changing only some of them cannot.
    """

    features: tuple[str, ...]
    counterfactual: Counterfactual
    minimal: bool

    def __str__(self) -> str:
        return str(self.counterfactual)

"""Why a row has no counterfactual: the restrictions that together forbid every one.

``Infeasibility`` is what ``Explainer.find_forbidding_restrictions`` returns. The set is minimal: without any one of its
restrictions there is a counterfactual, and it is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ironrule.results.explanation import Statistics
from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import name_feature
from ironrule.space.feature import Value, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.wording import escape_controls, format_repr, join_lines, render_text

RestrictionKind = Literal["role", "constraint", "range", "price", "fixed"]


@dataclass(frozen=True, slots=True)
class Restriction:
    """One thing that limits changes: the role of a feature, a constraint, a permitted range, a price of infinity, or a
    feature that is not among those that may vary.
    """

    kind: RestrictionKind
    text: str
    feature: str | None = None

    def describe(self, labels: Labels) -> str:
        """The restriction in a few words, its feature by its label."""
        subject = "" if self.feature is None else f"{name_feature(self.feature, labels)}: "
        return f"{subject}{escape_controls(self.text)}"

    def __str__(self) -> str:
        return self.describe(NO_LABELS)

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class NeededRestriction:
    """A restriction of a forbidding set, and a counterfactual that there is without it, if one is known.

    ``nearest``: it is proven to be the nearest that there is without it.
    """

    restriction: Restriction
    counterfactual: Counterfactual | None
    nearest: bool = False

    def __str__(self) -> str:
        if self.counterfactual is None:
            return str(self.restriction)
        which = "nearest without it" if self.nearest else "without it"
        return f"{self.restriction.describe(self.counterfactual.labels)} ({which}: {self.counterfactual})"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class Infeasibility:
    """Which restrictions forbid every counterfactual of a row.

    ``proven``: under the restrictions ``needed`` there is none. ``minimal``: without any one of them there is one. No
    restriction and ``proven``: no point of the space is desired at all. Where there is a counterfactual after all,
    ``counterfactual`` is one, and nothing is needed; where neither is known, nothing is proven. A counterfactual is one
    for the ``target`` and with the ``margin`` that were asked for.
    """

    instance: Mapping[str, Value]
    needed: tuple[NeededRestriction, ...]
    proven: bool
    minimal: bool
    counterfactual: Counterfactual | None
    statistics: Statistics

    @property
    def restrictions(self) -> tuple[Restriction, ...]:
        """The restrictions that together forbid every counterfactual."""
        return tuple(one.restriction for one in self.needed)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "needed": [
                {
                    **asdict(one.restriction),
                    "without_it": None if one.counterfactual is None else one.counterfactual.to_dict(),
                    "nearest": one.nearest,
                }
                for one in self.needed
            ],
            "proven": self.proven,
            "minimal": self.minimal,
            "counterfactual": None if self.counterfactual is None else self.counterfactual.to_dict(),
            "statistics": asdict(self.statistics),
        }

    def __str__(self) -> str:
        if self.counterfactual is not None:
            return f"there is a counterfactual: {self.counterfactual}"
        if not self.proven:
            return "not known whether there is a counterfactual"
        if not self.needed:
            return "there is no counterfactual, whatever may change: no point of the space has the desired outcome"
        lines = ["there is no counterfactual, and that is proven; these restrictions together forbid every one:"]
        for one in self.needed:
            lines.append(f"- {one}")
        if not self.minimal:
            lines.append("some of them may not be needed for that")
        return join_lines(lines)

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)

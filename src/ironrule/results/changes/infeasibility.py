"""Why a row has no counterfactual: the restrictions that together forbid every one.

``Infeasibility`` is what ``Explainer.find_forbidding_restrictions`` returns. The set is minimal: without any one of its
restrictions there is a counterfactual, and it is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

from ironrule.model.target import Target
from ironrule.results.changes.documents import (
    find_labels,
    read_asked,
    read_counterfactual,
    read_document,
    write_asked,
)
from ironrule.results.document_types import check_infeasibility_types
from ironrule.results.explanation import Statistics
from ironrule.results.scope import SearchScope
from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import Counterfactual, Goal
from ironrule.rule.phrasing import name_feature
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.verdict.digest import JsonDocument, add_digest
from ironrule.wording import escape_controls, format_repr, join_lines, render_text

FORMAT_FIELD, INFEASIBILITY_FORMAT = "infeasibility_format", 1
RestrictionKind = Literal["role", "constraint", "range", "price", "fixed"]


@dataclass(frozen=True, slots=True)
class Restriction:
    """One thing that limits changes: the role of a feature, a constraint, a permitted range, a price of infinity, or a
    feature that is not among those that may vary. ``constraints`` say the same of a changed row, as
    :class:`ironrule.Constraint` reads them; a feature that may not vary needs none.
    """

    kind: RestrictionKind
    text: str
    feature: str | None = None
    constraints: tuple[str, ...] = field(default=(), compare=False)

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

    ``nearest``: it is proven to be the nearest that there is without it, up to ``resolution``, as that of
    :class:`Counterfactuals`.
    """

    restriction: Restriction
    counterfactual: Counterfactual | None
    nearest: bool = False
    resolution: float = 0.0

    def with_goal(self, goal: Goal) -> NeededRestriction:
        """The same restriction, whose counterfactual knows what it reaches."""
        found = self.counterfactual
        return self if found is None else replace(self, counterfactual=found.with_goal(goal))

    def to_dict(self) -> dict[str, Any]:
        """The restriction as plain data."""
        return {
            **asdict(self.restriction),
            "constraints": list(self.restriction.constraints),
            "without_it": None if self.counterfactual is None else self.counterfactual.to_dict(),
            "nearest": self.nearest,
            "resolution": self.resolution,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], document: Mapping[str, Any]) -> NeededRestriction:
        """The restriction that :meth:`to_dict` wrote, of the document of all."""
        return cls(
            Restriction(data["kind"], data["text"], data["feature"], tuple(data["constraints"])),
            read_counterfactual(data["without_it"], document),
            nearest=data["nearest"],
            resolution=float(data["resolution"]),
        )

    def __str__(self) -> str:
        if self.counterfactual is None:
            return str(self.restriction)
        which = "nearest without it" if self.nearest else "without it"
        return f"{self.restriction.describe(self.counterfactual.labels)} ({which}: {self.counterfactual})"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class Infeasibility(JsonDocument):
    """Which restrictions forbid every counterfactual of a row.

    ``proven``: under the restrictions ``needed`` there is none. ``minimal``: without any one of them there is one. No
    restriction and ``proven``: no point of the space is desired at all. Where there is a counterfactual after all,
    ``counterfactual`` is one, and nothing is needed; where neither is known, nothing is proven. A counterfactual is one
    for the ``target`` and with the ``margin`` that were asked for, agreed to by ``further_models`` beside the
    explainer's own; the nearest is so by ``cost``. ``scope`` is what was searched, with all restrictions that there
    were, which :func:`ironrule.check` needs to know.
    """

    DOCUMENT_NAME: ClassVar = "infeasibility"

    instance: Mapping[str, Value]
    needed: tuple[NeededRestriction, ...]
    proven: bool
    minimal: bool
    counterfactual: Counterfactual | None
    statistics: Statistics
    cost: Cost = DEFAULT_COST
    target: Target | None = None
    margin: float = 0.0
    further_models: int = 0
    scope: SearchScope | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        goal = Goal(self.target, self.margin, self.further_models)
        object.__setattr__(self, "needed", tuple(one.with_goal(goal) for one in self.needed))
        if self.counterfactual is not None:
            object.__setattr__(self, "counterfactual", self.counterfactual.with_goal(goal))

    @property
    def restrictions(self) -> tuple[Restriction, ...]:
        """The restrictions that together forbid every counterfactual."""
        return tuple(one.restriction for one in self.needed)

    @property
    def labels(self) -> Labels:
        """How features and values are shown."""
        return find_labels(self.counterfactual, *(one.counterfactual for one in self.needed))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, with a digest of it."""
        document = {
            FORMAT_FIELD: INFEASIBILITY_FORMAT,
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "needed": [one.to_dict() for one in self.needed],
            "proven": self.proven,
            "minimal": self.minimal,
            "counterfactual": None if self.counterfactual is None else self.counterfactual.to_dict(),
            "statistics": asdict(self.statistics),
            **write_asked(self),
        }
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Infeasibility:
        """What :meth:`to_dict` wrote; raises InputError if the data is nothing of the kind."""

        def build(document: Mapping[str, Any]) -> Infeasibility:
            check_infeasibility_types(document)
            return cls(
                instance={name: value_from_json(value) for name, value in document["instance"].items()},
                needed=tuple(NeededRestriction.from_dict(one, document) for one in document["needed"]),
                proven=document["proven"],
                minimal=document["minimal"],
                counterfactual=read_counterfactual(document["counterfactual"], document),
                statistics=Statistics(**document["statistics"]),
                **read_asked(document),
            )

        return read_document(
            data, "an infeasibility", FORMAT_FIELD, INFEASIBILITY_FORMAT, build, remedy="search for it again"
        )

    def __str__(self) -> str:
        if self.counterfactual is not None:
            return f"there is a counterfactual: {self.counterfactual}"
        if not self.proven:
            return "not known whether there is a counterfactual"
        if not self.needed:
            reached = escape_controls(Goal(self.target, self.margin, self.further_models).describe(self.labels))
            known = "there is no counterfactual whatever may change, and that is proven"
            return f"{known}: no point of the space has {reached}"
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

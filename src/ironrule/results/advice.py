"""What an explanation says under the roles of features: which changes it suggests, and which parts of its rule to note.

``SuggestedChanges`` are the nearest changes that respect the roles, as far as that is proven; ``RuleMark`` notes a
component that uses a protected feature, or that holds against somebody what was declared better for him.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.rule.phrasing import phrase_component
from ironrule.rule.rule import Rule
from ironrule.space.labels import Labels
from ironrule.space.roles import Direction
from ironrule.wording import format_repr, format_resolution, join_lines, render_text

MarkReason = Literal["protected", "against direction"]


@dataclass(frozen=True, slots=True)
class RuleMark:
    """A component of the best rule, by its position, and why it is marked; ``declared``: not by its name alone."""

    component: int
    reason: MarkReason
    declared: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The mark as plain data."""
        return {"component": self.component, "reason": self.reason, "declared": self.declared}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleMark:
        """The mark that :meth:`to_dict` wrote."""
        return cls(int(data["component"]), data["reason"], bool(data["declared"]))

    def __str__(self) -> str:
        return f"part {self.component + 1} of the rule: {self.reason}, {'declared' if self.declared else 'guessed'}"

    def __repr__(self) -> str:
        return format_repr(self)

    def describe(self, rule: Rule) -> str:
        """The mark as a sentence.

        >>> from ironrule.rule.rule import Component
        >>> RuleMark(0, "protected").describe(Rule((Component("sex", "==", "female"),)))
        "sex = 'female' uses a protected feature"
        """
        part = rule.components[self.component]
        component = phrase_component(part, rule.labels)
        if self.reason == "against direction":
            side = "higher" if part.op == ">=" else "lower"
            return f"{component} goes against the declared direction: {side} was declared better"
        return f"{component} uses a {'protected feature' if self.declared else 'feature that looks protected'}"


@dataclass(frozen=True, slots=True)
class ChangeLimit:
    """In which directions a feature may be suggested to move, () for none, and why in words."""

    moves: tuple[Direction, ...]
    reason: str

    def __str__(self) -> str:
        return f"may {' or '.join(self.moves) or 'not change'}: {self.reason}"

    def __repr__(self) -> str:
        return format_repr(self)

    def permits(self, change: Change) -> bool:
        """Whether the change goes a permitted way; not, where its values cannot be compared."""
        if len(self.moves) != 1 or change.before is None or change.after is None or isinstance(change.after, str):
            return len(self.moves) == 2
        return bool(change.after > change.before) == (self.moves[0] == "rise")


@dataclass(frozen=True, slots=True)
class SuggestedChanges(Sequence[Counterfactual]):
    """The nearest changes that would have given the desired outcome and that respect the roles of all features.

    ``Explanation.changes`` are these: what to show to a person. ``Explanation.counterfactuals`` are evidence about a
    rule, and must not be shown in their place.

    ``proven``: each is the nearest (fewest changes, then least distance) that does not change all the features of an
    earlier one. ``complete``: there is no other, or as many came as were asked for. ``limits`` says of every feature
    that may not change freely why. ``resolution``: by what share of the range of each number that it changes another
    with as many changes may be nearer, since numbers are rounded to readable ones, or a network turns between values.
    With a ``cost``, nearest means that, and the resolution is in its units. ``constraints`` on changes hold too.
    """

    items: tuple[Counterfactual, ...]
    proven: bool
    complete: bool
    limits: Mapping[str, ChangeLimit] = field(default_factory=dict)
    resolution: float = 0.0
    cost: Cost = DEFAULT_COST
    constraints: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def to_dict(self) -> dict[str, Any]:
        """The changes as plain data."""
        return {
            "counterfactuals": [item.to_dict() for item in self.items],
            "proven": self.proven,
            "complete": self.complete,
            **({"resolution": self.resolution} if self.resolution else {}),
            **({} if self.cost == DEFAULT_COST else {"cost": self.cost.to_dict()}),
            "limits": {name: {"moves": list(one.moves), "reason": one.reason} for name, one in self.limits.items()},
            **({"constraints": list(self.constraints)} if self.constraints else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SuggestedChanges:
        """The changes that :meth:`to_dict` wrote."""
        items = tuple(map(Counterfactual.from_dict, data["counterfactuals"]))
        limits = {name: ChangeLimit(tuple(one["moves"]), one["reason"]) for name, one in data["limits"].items()}
        cost = Cost.from_dict(data["cost"]) if "cost" in data else DEFAULT_COST
        return cls(
            items,
            bool(data["proven"]),
            bool(data["complete"]),
            limits=limits,
            resolution=float(data.get("resolution", 0.0)),
            cost=cost,
            constraints=tuple(data.get("constraints", ())),
        )

    def with_labels(self, labels: Labels) -> SuggestedChanges:
        """The same changes, shown with these labels."""
        return replace(self, items=tuple(item.with_labels(labels) for item in self.items))

    def permits(self, change: Change) -> bool:
        """Whether a change of one feature respects the limits, so far as they say in which direction it may move."""
        return change.feature not in self.limits or self.limits[change.feature].permits(change)

    def __str__(self) -> str:
        return join_lines([*(f"{place}. {item}" for place, item in enumerate(self.items, 1)), self.note])

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)

    @property
    def note(self) -> str:
        """What is known of these changes, in a sentence."""
        if not self.items:
            none = "No change that respects the roles of the features gives the desired outcome"
            return f"{none}; that is proven." if self.proven and self.complete else f"{none}, as far as was searched."
        nearest = "Not proven to be the nearest"
        if not self.cost.is_usual:
            nearest = f"{'Each is proven' if self.proven else 'Not proven'} to be the cheapest by the cost asked for"
            exactly = f", to within {self.resolution:.3g} of it" if self.proven and self.resolution else ""
            return f"{nearest}{exactly}{'.' if self.complete else '; there may be others.'}"
        if self.proven:
            nearest = f"Each is proven to be the nearest of its kind{format_resolution(self.resolution)}"
        return f"{nearest}; there may be others." if not self.complete else f"{nearest}."

"""A counterfactual in the user's own terms: a point of the space with the desired outcome, and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ironrule.arrays import Points
from ironrule.rule.phrasing import format_change
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.space import Space
from ironrule.wording import ValueStyle, format_count, format_repr, join_lines, render_text

DESIRED_OUTCOME = "the desired outcome"


@dataclass(frozen=True, slots=True)
class Change:
    """One feature's old and new value, and the labels that they are shown with."""

    feature: str
    before: Value
    after: Value
    labels: Labels = field(default=NO_LABELS, repr=False, compare=False)

    def __str__(self) -> str:
        name, before, after = format_change(self)
        return f"{name}: {before} -> {after}"

    def __repr__(self) -> str:
        return format_repr(self)


class DescribedTarget(Protocol):
    """What is to be reached, such as a :class:`ironrule.Target`."""

    def describe(self, labels: Labels = NO_LABELS, style: ValueStyle = "quoted") -> str:
        """In words, behind "has" or "gets"."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What was asked of a counterfactual: to reach a target, or where that is None the explainer's desired outcome; to
    stay there when every score moves by a margin; and to be there for so many further models.
    """

    target: DescribedTarget | None = None
    margin: float = 0.0
    further_models: int = 0

    @property
    def robustness(self) -> str:
        """What must not turn the decision back, behind a statement; empty where the model as it is counts."""
        parts = [f"even if every score moves by {self.margin:g}"] if self.margin else []
        if self.further_models:
            parts.append(f"with {format_count(self.further_models, 'further model')}")
        return " and ".join(parts)

    def describe(self, labels: Labels = NO_LABELS, style: ValueStyle = "quoted") -> str:
        """All of it, behind "has" or "gets".

        >>> Goal(margin=0.1, further_models=2).describe()
        'the desired outcome, even if every score moves by 0.1 and with 2 further models'
        """
        reached = DESIRED_OUTCOME if self.target is None else self.target.describe(labels, style)
        return f"{reached}, {self.robustness}" if self.robustness else reached


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A point with the desired outcome: its values by feature, and the changes that lead to it from the instance.

    ``exact`` has, by feature, the numbers that were rounded to readable ones, as they were found. ``goal`` is what it
    was asked to reach; None for the explainer's desired outcome.
    """

    values: Mapping[str, Value]
    changes: tuple[Change, ...]
    exact: Mapping[str, Value] = field(default_factory=dict)
    goal: Goal | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_point(cls, space: Space, instance: Points, point: Points) -> Counterfactual:
        """The counterfactual at a point, seen from the instance."""
        return cls.from_values(space.decode_row(instance), space.decode_row(point), space.labels)

    @classmethod
    def from_values(
        cls, before: Mapping[str, Value], after: Mapping[str, Value], labels: Labels = NO_LABELS
    ) -> Counterfactual:
        """The counterfactual with these values, seen from those of the instance."""
        changes = [Change(name, before[name], new, labels) for name, new in after.items() if before[name] != new]
        return cls(after, tuple(changes))

    @property
    def labels(self) -> Labels:
        """The labels that it is shown with."""
        return self.changes[0].labels if self.changes else NO_LABELS

    def with_labels(self, labels: Labels | Mapping[str, Any] | str | Path) -> Counterfactual:
        """The same counterfactual, shown with these labels."""
        parsed = Labels.parse(labels)
        return replace(self, changes=tuple(replace(change, labels=parsed) for change in self.changes))

    def with_goal(self, goal: Goal) -> Counterfactual:
        """The same counterfactual, which knows what it was asked to reach."""
        asked = None if goal == Goal() else goal
        return self if asked == self.goal else replace(self, goal=asked)

    def to_dict(self) -> dict[str, Any]:
        """The counterfactual as plain data."""
        return {
            "values": {name: value_to_json(value) for name, value in self.values.items()},
            "changes": [
                {"feature": c.feature, "before": value_to_json(c.before), "after": value_to_json(c.after)}
                for c in self.changes
            ],
            **({"exact": {name: value_to_json(value) for name, value in self.exact.items()}} if self.exact else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counterfactual:
        """The counterfactual that :meth:`to_dict` wrote."""
        listed = data["changes"]
        changes = (Change(c["feature"], value_from_json(c["before"]), value_from_json(c["after"])) for c in listed)
        values, exact = (
            {name: value_from_json(value) for name, value in data.get(key, {}).items()} for key in ("values", "exact")
        )
        return cls(values, tuple(changes), exact)

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes)) or "no change"

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)


T = TypeVar("T")


class LazyValue(Generic[T]):
    """A value that is computed when it is first read. A copy in another process is None unless it was read before."""

    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._known: tuple[T] | None = None

    def get(self) -> T:
        """The value."""
        if self._known is None:
            self._known = (self._make(),)
        return self._known[0]

    def apply(self, change: Callable[[T], T]) -> LazyValue[T]:
        """What becomes of the value, computed when it is first read; at once where the value is known."""
        changed = LazyValue(lambda: change(self.get()))
        if self._known is not None:
            changed.get()
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_value, (self._known,)


def _restore_value(known: tuple[T] | None) -> LazyValue[T] | None:
    if known is None:
        return None
    restored = LazyValue(lambda: known[0])
    restored.get()  # so that a copy of the copy has it too
    return restored


class LazySequence(Sequence[T]):
    """What is put into the user's terms when it is first read; else equal to a tuple."""

    __slots__ = ("_items", "_make")

    def __init__(self, make: Callable[[], tuple[T, ...]]) -> None:
        self._make = make
        self._items: tuple[T, ...] | None = None

    def _resolve(self) -> tuple[T, ...]:
        if self._items is None:
            self._items = self._make()
        return self._items

    def __len__(self) -> int:
        return len(self._resolve())

    def __getitem__(self, place: Any) -> Any:
        return self._resolve()[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._resolve())

    def __eq__(self, other: object) -> bool:
        return self._resolve() == (other._resolve() if isinstance(other, LazySequence) else other)

    def __hash__(self) -> int:
        return hash(self._resolve())

    def __repr__(self) -> str:
        return repr(self._resolve())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._resolve(),)


class EvidenceCounterfactuals(LazySequence[Counterfactual]):
    """The counterfactuals that a search for a rule found: evidence about the rule, not suggestions to a person.

    Nobody chose them to be near, or to be possible for this person: they may change an age, or ten features at once.
    Their text says so. ``Explanation.changes`` has what to suggest.
    """

    __slots__ = ()

    def __str__(self) -> str:
        count = format_count(len(self), "counterfactual")
        note = f"{count} found for the rule: evidence, not suggestions to a person (explanation.changes has these)"
        return join_lines([note, *(f"{place}. {one}" for place, one in enumerate(self, 1))])

    def __repr__(self) -> str:
        return format_repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return EvidenceCounterfactuals.hold, (self._resolve(),)

    @classmethod
    def hold(cls, items: tuple[Counterfactual, ...]) -> EvidenceCounterfactuals:
        """These counterfactuals."""
        return cls(lambda: items)

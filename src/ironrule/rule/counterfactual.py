"""A counterfactual in the user's own terms: a point of the space with the desired outcome, and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ironrule.rule.component import shown
from ironrule.space import Points, Space, Value
from ironrule.space.plain import from_plain, to_plain


@dataclass(frozen=True, slots=True)
class Change:
    """One feature's old and new value."""

    feature: str
    before: Value
    after: Value

    def __str__(self) -> str:
        return f"{self.feature}: {shown(self.before)} -> {shown(self.after)}"


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A point with the desired outcome: its values by feature, and the changes that lead to it from the instance."""

    values: Mapping[str, Value]
    changes: tuple[Change, ...]

    @classmethod
    def between(cls, space: Space, instance: Points, point: Points) -> Counterfactual:
        """The counterfactual at a point, seen from the instance."""
        before, after = space.decode_row(instance), space.decode_row(point)
        moved = zip(space.names, instance.tolist(), point.tolist(), strict=True)
        return cls(after, tuple([Change(name, before[name], after[name]) for name, old, new in moved if old != new]))

    def to_dict(self) -> dict[str, Any]:
        """The counterfactual as plain data."""
        return {
            "values": {name: to_plain(value) for name, value in self.values.items()},
            "changes": [
                {"feature": c.feature, "before": to_plain(c.before), "after": to_plain(c.after)} for c in self.changes
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counterfactual:
        """The counterfactual that :meth:`to_dict` wrote."""
        changes = (Change(c["feature"], from_plain(c["before"]), from_plain(c["after"])) for c in data["changes"])
        return cls({name: from_plain(value) for name, value in data["values"].items()}, tuple(changes))

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes)) or "no change"


T = TypeVar("T")


class Deferred(Sequence[T]):
    """What is put into the user's terms when somebody first reads it; else equal to a tuple."""

    __slots__ = ("_items", "_make")

    def __init__(self, make: Callable[[], tuple[T, ...]]) -> None:
        self._make = make
        self._items: tuple[T, ...] | None = None

    def _read(self) -> tuple[T, ...]:
        if self._items is None:
            self._items = self._make()
        return self._items

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, place: Any) -> Any:
        return self._read()[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        return self._read() == (other._read() if isinstance(other, Deferred) else other)

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._read(),)

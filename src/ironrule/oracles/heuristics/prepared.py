"""What searches compute once from a space, past rows or a model, and use again for the next row.

Of a feature with tens of thousands of values such tables take longer to build than a whole search takes afterwards.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MAX_PREPARED = 8  # that are kept of a kind, the latest ones

T = TypeVar("T")


class PreparedValues(Generic[T]):
    """The latest values that were made of some objects. These are told apart by identity, and are not kept alive."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: list[tuple[tuple[weakref.ref[object], ...], Hashable, T]] = []

    def get(self, owners: tuple[object, ...], make: Callable[[], T], options: Hashable = None) -> T:
        """What was made of these objects with these options, or else is made now."""
        for references, known, value in self._known:
            if known == options and all(one() is owner for one, owner in zip(references, owners, strict=True)):
                return value
        made = make()
        alive = [one for one in self._known if all(reference() is not None for reference in one[0])]
        # A new list, so that other threads may go on reading the old one.
        self._known = [(tuple(map(weakref.ref, owners)), options, made), *alive[: MAX_PREPARED - 1]]
        return made

"""What takes a while to make, under the texts it was made of: each made once, the last few kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
Texts = tuple[str, ...]


@dataclass(slots=True)
class _Slot(Generic[T]):
    """A place for one thing, and a lock for whoever makes it."""

    made: tuple[T, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)


class Recent(Generic[T]):
    """A bounded memory. Who asks for what another is making waits for it; who asks for something else does not.

    >>> recent = Recent(lambda texts: "+".join(texts), most=1)
    >>> recent.of(("a", "b")), recent.of(("c",)), len(recent)
    ('a+b', 'c', 1)
    """

    def __init__(self, make: Callable[[Texts], T], most: int) -> None:
        self._make, self._most, self._lock = make, most, threading.Lock()
        self._slots: OrderedDict[Texts, _Slot[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._slots)

    def of(self, texts: Texts) -> T:
        """What the texts make; whatever that raises is raised, and tried again next time."""
        with self._lock:
            slot = self._slots.setdefault(texts, _Slot())
            self._slots.move_to_end(texts)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        with slot.lock:
            if not slot.made:
                slot.made = (self._make(texts),)
            return slot.made[0]

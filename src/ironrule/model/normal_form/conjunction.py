"""Several decisions that must all be desired, each in a normal form of its own: :class:`ModelConjunction`.

Sums of trees are joined into one sum with all margins, and so are margins over the outputs of one network. What cannot
be joined so (a network and a forest, two networks, linear models whose sums pull a number both ways) stays apart here,
and a box is free of desired points where one of the parts is proven to desire none
(:mod:`ironrule.backends.conjunction`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.protocol import NormalForm, Unreadable


@dataclass(frozen=True, slots=True, eq=False)
class ModelConjunction:
    """A point is desired where every part desires it. ``spans`` has for every part its columns among all that are seen:
    the first one, and one beyond the last; parts may see the same columns.
    """

    parts: tuple[NormalForm, ...]
    spans: tuple[tuple[int, int], ...]
    kind: ClassVar[str] = "conjunction of models"

    @property
    def node_count(self) -> int:
        """How many nodes the trees of all parts have."""
        return sum(part.node_count for part in self.parts)

    def margins(self, seen: AnyArray) -> tuple[Float64Array, ...]:
        """For rows of what the models see, the smallest margin over all parts."""
        every = [
            np.max(part.margins(seen[:, first:end]), axis=0)
            for part, (first, end) in zip(self.parts, self.spans, strict=True)
        ]
        return (np.asarray(np.min(every, axis=0), dtype=np.float64),)

    def negate(self) -> NormalForm:
        """None is known: a point is undesired where one part denies it, which is no conjunction."""
        raise Unreadable(f"the opposite of a {self.kind} is not known")

    def intersect(self, other: NormalForm) -> NormalForm:
        """None is known either; what stays apart is put together once."""
        raise Unreadable(f"a {self.kind} and a {other.kind} are not read together")

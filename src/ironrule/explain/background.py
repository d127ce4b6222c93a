"""What stands behind an explanation: the past rows it is seen against, for pictures and reports.

It is worked out when somebody first looks, from codes that are at hand anyway. It claims nothing that a certificate
would have to show, so it is neither compared nor written into documents: an explanation that was read back has none
until :meth:`Explanation.with_history` puts the data behind it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ironrule.rule import Component, Counterfactual
from ironrule.space import Feature


@dataclass(frozen=True, slots=True)
class Caption:
    """How a person knows a feature: its label and its unit, where the space has them."""

    name: str
    label: str | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often every value of a feature occurs among the past rows: by code, missing last."""

    feature: Feature
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A rule that has grown by one component: the past rows it covers, and how many of those are desired.

    The first step has no component: it covers everyone. ``desired`` is None where the model was not asked.
    """

    component: Component | None
    covered: int
    desired: int | None


@dataclass(frozen=True, slots=True)
class Need:
    """A component, and a counterfactual that every other component of the rule admits: who would be an exception
    without it. None where none is at hand; ``past`` says whether it is a past row.
    """

    component: Component
    counterfactual: Counterfactual | None
    past: bool = False


@dataclass(frozen=True, slots=True)
class Background:
    """Everything that pictures and reports show besides the explanation itself."""

    captions: tuple[Caption, ...]
    distributions: tuple[Distribution, ...]  # of the rule's features
    growth: tuple[Step, ...]
    needs: tuple[Need, ...]  # one per component, in the rule's order
    space_size: int
    constraints: tuple[str, ...]
    withstands: bool  # whether counterfactuals are those of any of several models, or within a margin
    libraries: tuple[tuple[str, str], ...] = ()  # those that the explanation was made with; () where that is not known


@dataclass(frozen=True, slots=True)
class Seen:
    """A background that is there."""

    background: Background

    def read(self) -> Background:
        """The background."""
        return self.background


class Unseen:
    """A background that is worked out when somebody first looks, which can take longer than to explain. A copy in
    another process has it only if somebody has looked.
    """

    __slots__ = ("_make", "_seen")

    def __init__(self, make: Callable[[], Background]) -> None:
        self._make = make
        self._seen: Seen | None = None

    def read(self) -> Background:
        """The background."""
        if self._seen is None:
            self._seen = Seen(self._make())
        return self._seen.background

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept, (self._seen,)


def _kept(seen: Seen | None) -> Seen | None:
    return seen

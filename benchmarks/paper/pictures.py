"""What a figure shows, as plain values: how it is drawn is the business of :mod:`benchmarks.paper.drawing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a figure. ``values`` has, per bar or line (in order), what the kind of picture wants."""

    title: str
    values: Mapping[str, Sequence[float]]
    counts: Mapping[str, int] = field(default_factory=dict)  # how many rows stand behind them


@dataclass(frozen=True, slots=True)
class Stacked:
    """Horizontal bars made of parts, one per method and panel: values are per bar the sizes of the parts in order.

    ``end`` is where the axis ends, None where the longest bar does; ``graded`` parts go from worst to best.
    """

    name: str
    title: str
    unit: str
    parts: Sequence[str]
    panels: Sequence[Panel]
    end: float | None = 100.0
    graded: bool = True


@dataclass(frozen=True, slots=True)
class Spread:
    """How values are spread, one box per method and panel: values are per box all that was measured."""

    name: str
    title: str
    unit: str
    panels: Sequence[Panel]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """One plain bar per method and panel; values are one number each."""

    name: str
    title: str
    unit: str
    panels: Sequence[Panel]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """One line per method and panel over common places; values are one number per place, NaN where there is none."""

    name: str
    title: str
    unit: str
    across: str
    places: Sequence[float]
    panels: Sequence[Panel]
    log: bool = False


Picture = Stacked | Spread | Bars | Lines

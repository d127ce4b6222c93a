"""The pictures by name, drawn with matplotlib: what ``Explanation.plot`` and a batch's ``plot`` call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ironrule.errors import InputError
from ironrule.explain import Explanation
from ironrule.report.pictures.axes import draw
from ironrule.report.pictures.growth import growth_of
from ironrule.report.pictures.ladder import ladder_of
from ironrule.report.pictures.layouts import growth_drawing, ladder_drawing, needs_drawing, overview_drawing
from ironrule.report.pictures.marks import Drawing
from ironrule.report.pictures.needs import needs_of
from ironrule.report.pictures.overview import overview_of
from ironrule.report.words import Words
from ironrule.space import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS: dict[str, Callable[[Explanation], Drawing]] = {
    "ladder": lambda explanation: ladder_drawing(ladder_of(explanation)),
    "needs": lambda explanation: needs_drawing(needs_of(explanation)),
    "growth": lambda explanation: growth_drawing(growth_of(explanation)),
}


def drawing_of(explanation: Explanation, kind: str = "ladder") -> Drawing:
    """A picture of an explanation, not yet drawn by anything."""
    if kind not in KINDS:
        raise InputError(expected=f"kind must be one of {', '.join(KINDS)}", got=repr(kind))
    return KINDS[kind](explanation)


def plot_explanation(explanation: Explanation, kind: str = "ladder", ax: Axes | None = None) -> Axes:
    """A picture of an explanation on axes: its ladder, why its parts are needed, or its coverage as it grows."""
    return draw(drawing_of(explanation, kind), ax)


def plot_batch(explanations: Sequence[Explanation], ax: Axes | None = None, space: Space | None = None) -> Axes:
    """A picture of many explanations on axes: what share is proven, how long rules are, which features they name.

    Labels come from the space, or from what stands behind the first explanation.
    """
    words = None if space is None else Words.over(space)
    return draw(overview_drawing(overview_of(explanations, words)), ax)

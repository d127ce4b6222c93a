"""Plots by name on matplotlib's axes: a new figure, or axes that the caller has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ironrule.errors import InputError, MissingExtraError
from ironrule.report.plots.changes import build_changes_plot, draw_changes, draw_menu, draw_region
from ironrule.report.plots.conditions import build_conditions_plot, draw_conditions
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine, Triangle
from ironrule.report.plots.growth import build_growth_plot, draw_growth
from ironrule.report.plots.needs import build_needs_plot, draw_needs
from ironrule.report.plots.overview import build_overview, draw_overview
from ironrule.results.changes.menu import ChangeMenu
from ironrule.results.changes.region import CounterfactualRegion
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.results.explanation import Explanation
from ironrule.rule.phrasing import FeatureLabels
from ironrule.space.space import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes


UNITS_PER_INCH = 100.0  # of a canvas to an inch
MARGIN = 12.0
ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}


def draw_on_axes(drawing: Drawing, ax: Axes | None = None) -> Axes:
    """The drawing on axes, which are returned; raises MissingExtraError without matplotlib."""
    axes = _make_axes(drawing) if ax is None else ax
    axes.set_xlim(-MARGIN, drawing.width + MARGIN)
    axes.set_ylim(drawing.height + MARGIN, -MARGIN)
    axes.set_axis_off()
    for order, shape in enumerate(drawing.shapes):
        _add_shape(shape, axes, 2 + order / len(drawing.shapes))
    return axes


def _make_axes(drawing: Drawing) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "plots", "drawing a plot") from None
    size = ((drawing.width + 2 * MARGIN) / UNITS_PER_INCH, (drawing.height + 2 * MARGIN) / UNITS_PER_INCH)
    figure = plt.figure(figsize=size)
    axes: Axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    return axes


def _add_shape(shape: Shape, axes: Axes, order: float) -> None:
    from matplotlib import lines, patches

    match shape:
        case Rectangle():
            style: dict[str, Any] = {"facecolor": shape.fill or "none", "edgecolor": shape.stroke or "none"}
            dash = (0, (4, 3)) if shape.dashed else "solid"
            at = (shape.x, shape.y)
            patch = patches.Rectangle(at, shape.width, shape.height, lw=0.8, ls=dash, zorder=order, **style)
            patch.set_gid(shape.kind)
            axes.add_patch(patch)
        case LineSegment():
            dash = (0, (4, 3)) if shape.dashed else "solid"
            ends = ([shape.x1, shape.x2], [shape.y1, shape.y2])
            axes.add_line(lines.Line2D(*ends, color=shape.stroke, lw=0.72 * shape.width, ls=dash, zorder=order))
        case TextLine():
            weight = "bold" if shape.bold else "normal"
            axes.text(
                shape.x, shape.y, shape.text, ha=ALIGNMENTS[shape.anchor], va="baseline", color=shape.fill,
                weight=weight, size=shape.size * 72 / UNITS_PER_INCH, zorder=order, parse_math=False,
            )  # fmt: skip
        case Triangle():
            axes.add_patch(patches.Polygon(shape.corners, facecolor=shape.fill, edgecolor="none", zorder=order))


PLOT_KINDS: dict[str, Callable[[Explanation], Drawing]] = {
    "conditions": lambda explanation: draw_conditions(build_conditions_plot(explanation)),
    "needs": lambda explanation: draw_needs(build_needs_plot(explanation)),
    "growth": lambda explanation: draw_growth(build_growth_plot(explanation)),
}


def draw_explanation(explanation: Explanation, kind: str = "conditions") -> Drawing:
    """A plot of an explanation as a drawing, before any renderer."""
    if kind not in PLOT_KINDS:
        raise InputError(expected=f"kind must be one of {', '.join(PLOT_KINDS)}", got=repr(kind))
    return PLOT_KINDS[kind](explanation)


def plot_explanation(explanation: Explanation, kind: str = "conditions", ax: Axes | None = None) -> Axes:
    """A plot of an explanation on axes: its conditions, why its parts are needed, or its coverage as it grows."""
    return draw_on_axes(draw_explanation(explanation, kind), ax)


def plot_counterfactuals(counterfactuals: Counterfactuals, ax: Axes | None = None) -> Axes:
    """What every counterfactual changes, and by how much, on axes."""
    return draw_on_axes(draw_changes(build_changes_plot(counterfactuals)), ax)


def plot_menu(menu: ChangeMenu, ax: Axes | None = None) -> Axes:
    """The cost of every set of features of a menu on axes."""
    return draw_on_axes(draw_menu(menu), ax)


def plot_region(region: CounterfactualRegion, ax: Axes | None = None) -> Axes:
    """The interval of every feature of a region on axes."""
    return draw_on_axes(draw_region(region), ax)


def plot_batch(explanations: Sequence[Explanation], ax: Axes | None = None, space: Space | None = None) -> Axes:
    """A plot of many explanations on axes: what share is proven, how long rules are, which features they name.

    Labels come from the space, or from the background of the first explanation.
    """
    labels = None if space is None else FeatureLabels.from_space(space)
    return draw_on_axes(draw_overview(build_overview(explanations, labels)), ax)

"""A drawing on matplotlib's axes: a figure of its own, or whatever axes the caller has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironrule.errors import MissingExtraError
from ironrule.report.pictures.marks import Drawing, Line, Mark, Rect, Text, Triangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS = 100.0  # of a canvas to an inch
MARGIN = 12.0
SIDES = {"start": "left", "middle": "center", "end": "right"}


def draw(drawing: Drawing, ax: Axes | None = None) -> Axes:
    """The drawing on axes, which are returned; raises MissingExtraError without matplotlib."""
    axes = _new_axes(drawing) if ax is None else ax
    axes.set_xlim(-MARGIN, drawing.width + MARGIN)
    axes.set_ylim(drawing.height + MARGIN, -MARGIN)
    axes.set_axis_off()
    for order, mark in enumerate(drawing.marks):
        _add(mark, axes, 2 + order / len(drawing.marks))
    return axes


def _new_axes(drawing: Drawing) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "plots", "drawing a picture") from None
    size = ((drawing.width + 2 * MARGIN) / DOTS, (drawing.height + 2 * MARGIN) / DOTS)
    figure = plt.figure(figsize=size)
    axes: Axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    return axes


def _add(mark: Mark, axes: Axes, order: float) -> None:
    from matplotlib import lines, patches

    match mark:
        case Rect():
            style: dict[str, Any] = {"facecolor": mark.fill or "none", "edgecolor": mark.stroke or "none"}
            dash = (0, (4, 3)) if mark.dashed else "solid"
            at = (mark.x, mark.y)
            patch = patches.Rectangle(at, mark.width, mark.height, lw=0.8, ls=dash, zorder=order, **style)
            patch.set_gid(mark.kind)
            axes.add_patch(patch)
        case Line():
            dash = (0, (4, 3)) if mark.dashed else "solid"
            ends = ([mark.x1, mark.x2], [mark.y1, mark.y2])
            axes.add_line(lines.Line2D(*ends, color=mark.stroke, lw=0.72 * mark.width, ls=dash, zorder=order))
        case Text():
            weight = "bold" if mark.bold else "normal"
            axes.text(
                mark.x, mark.y, mark.text, ha=SIDES[mark.anchor], va="baseline", color=mark.fill, weight=weight,
                size=mark.size * 72 / DOTS, zorder=order, parse_math=False,
            )  # fmt: skip
        case Triangle(x, y, size, fill):
            corners = [(x - size, y - 1.4 * size), (x + size, y - 1.4 * size), (x, y)]
            axes.add_patch(patches.Polygon(corners, closed=True, facecolor=fill, edgecolor="none", zorder=order))

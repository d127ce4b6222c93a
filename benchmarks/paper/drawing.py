"""Draws pictures (:mod:`benchmarks.paper.pictures`) with matplotlib, as PNG and SVG.

Methods are rows with their names written out, so that nothing overlaps however long a name is; panels stand side by
side and share the rows and, where it makes sense, the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.paper.pictures import Bars, Lines, Panel, Picture, Spread, Stacked
from benchmarks.paper.style import EDGE, FAINT, FILL, SETTINGS, different, graded, line, number

matplotlib.use("Agg")

PANEL_WIDTH, ROW_HEIGHT, LETTER_WIDTH = 2.35, 0.27, 0.068  # inches
MOST_ACROSS = 4
ROWS_BEHIND = "grey numbers: rows explained"
BOXES = "box: middle half; line: median; whiskers: 1st to 99th percentile"
Row = Callable[[Axes, float, Any], None]  # draws a method's values at a height


def save(picture: Picture, folder: Path) -> list[Path]:
    """Draw a picture; the files it went to."""
    folder.mkdir(parents=True, exist_ok=True)
    with pyplot.rc_context(SETTINGS):
        figure = _DRAWN[type(picture)](picture)
        files = [folder / f"{picture.name}.{kind}" for kind in ("png", "svg")]
        figure.savefig(files[0], dpi=160, bbox_inches="tight", facecolor="white")
        figure.savefig(files[1], bbox_inches="tight", facecolor="white", metadata={"Date": None})
        pyplot.close(figure)
    return files


def _names(panels: Sequence[Panel]) -> list[str]:
    """What panels share, in the order in which it first comes."""
    return list(dict.fromkeys(name for panel in panels for name in panel.values))


def _grid(panels: Sequence[Panel], width: float, height: float, extra: float, **shared: bool) -> tuple[Figure, Any]:
    """A figure with an axes per panel."""
    across = max(1, min(MOST_ACROSS, len(panels)))
    down = max(1, -(-len(panels) // across))
    size = (extra + width * across, height * down + 0.7)
    figure, grid = pyplot.subplots(down, across, figsize=size, squeeze=False, layout="constrained", **shared)
    figure.get_layout_engine().set(wspace=0.05, h_pad=0.06)
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_title(panel.title)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    return figure, grid


def _rows(picture: Stacked | Spread | Bars, draw: Row, shared: bool = True) -> Figure:
    """Panels whose rows are methods, the first on top; ``shared``: with one scale for all."""
    names = _names(picture.panels)
    heights = {name: height for height, name in enumerate(reversed(names))}
    margin = 0.4 + LETTER_WIDTH * max(map(len, names), default=0)
    height = 0.9 + ROW_HEIGHT * len(names)
    figure, grid = _grid(picture.panels, PANEL_WIDTH, height, margin, sharey=True, sharex=shared)
    for axes, panel in zip(grid.flat, picture.panels, strict=False):
        for name, values in panel.values.items():
            draw(axes, heights[name], values)
        for name, count in panel.counts.items():
            _count(axes, heights[name], count)
        axes.set_xlabel(picture.unit)
        axes.set_yticks(list(heights.values()), list(heights))
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelbottom=True)
        axes.grid(axis="x", color="0.9", linewidth=0.6)
    figure.suptitle(picture.title, fontsize=12, fontweight="bold")
    return figure


def _count(axes: Axes, height: float, count: int) -> None:
    """How many rows stand behind something, at the right of the panel."""
    where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (3, 0), "textcoords": "offset points"}
    axes.annotate(f"{count:,}", (1.0, height), va="center", fontsize=7, color=FAINT, annotation_clip=False, **where)


def _below(figure: Figure, handles: Sequence[Any], note: str) -> None:
    """A legend in as many columns as fit the width, with a note over it."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=1)
    fitting = max(1, int(figure.get_figwidth() / (LETTER_WIDTH * longest + 0.55)))
    columns = max(1, min(fitting, len(handles)))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, title=note or None, title_fontsize=8
    )


def _note(panels: Sequence[Panel], *more: str) -> str:
    return "; ".join([*([ROWS_BEHIND] if any(panel.counts for panel in panels) else []), *more])


def _stacked(picture: Stacked) -> Figure:
    styles = (graded if picture.graded else different)(len(picture.parts))

    def draw(axes: Axes, height: float, sizes: Any) -> None:
        starts = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])
        for size, start, style in zip(sizes, starts, styles, strict=True):
            if size > 0:
                axes.barh(height, size, left=start, height=0.72, **style)

    figure = _rows(picture, draw, shared=picture.end is not None)
    for axes in figure.axes:
        axes.set_xlim(0, picture.end)
    parts = zip(picture.parts, styles, strict=True)
    occurring = [Patch(label=part, **style) for at, (part, style) in enumerate(parts) if _occurs(picture.panels, at)]
    _below(figure, occurring, _note(picture.panels))
    return figure


def _occurs(panels: Sequence[Panel], place: int) -> bool:
    return any(sizes[place] > 0 for panel in panels for sizes in panel.values.values())


def _spread(picture: Spread) -> Figure:
    thin = {"color": EDGE, "linewidth": 0.7}

    def draw(axes: Axes, height: float, values: Any) -> None:
        axes.boxplot(
            [list(values)],
            positions=[height],
            orientation="horizontal",
            widths=0.6,
            whis=(1, 99),
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": FILL, "edgecolor": EDGE, "linewidth": 0.7},
            medianprops={"color": "black", "linewidth": 1.4},
            whiskerprops=thin,
            capprops=thin,
            manage_ticks=False,
        )

    figure = _rows(picture, draw)
    if picture.log:
        figure.axes[0].set_xscale("log")
    else:
        figure.axes[0].set_xlim(left=0)
    _below(figure, [], _note(picture.panels, BOXES))
    return figure


def _bars(picture: Bars) -> Figure:
    """Bars from zero; on a log scale, which has no zero, points."""

    def draw(axes: Axes, height: float, values: Any) -> None:
        if picture.log:
            axes.plot([values[0]], [height], marker="o", color="#0072B2", markersize=6, linestyle="none")
        else:
            axes.barh(height, values[0], height=0.6, color=FILL, edgecolor=EDGE, linewidth=0.5)
        where: dict[str, Any] = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(number(values[0]), (values[0], height), **where)

    figure = _rows(picture, draw)
    if picture.log:
        figure.axes[0].set_xscale("log")
    low, high = figure.axes[0].get_xlim()  # shared by all; the number at the end wants room
    figure.axes[0].set_xlim(low, high * (high / low) ** 0.35 if picture.log else high * 1.25)
    _below(figure, [], _note(picture.panels))
    return figure


def _lines(picture: Lines) -> Figure:
    names = _names(picture.panels)
    figure, grid = _grid(picture.panels, 2.7, 2.7, 0.8, sharey=True, sharex=True)
    for axes, panel in zip(grid.flat, picture.panels, strict=False):
        for name, values in panel.values.items():
            axes.plot(picture.places, values, label=name, **line(names.index(name)))
        axes.set_xlabel(picture.across)
        axes.set_xscale("log")
        axes.set_xticks(list(picture.places), [f"{place:,g}" for place in picture.places])
        axes.set_xlim(min(picture.places) / 1.5, max(picture.places) * 1.5)
        axes.minorticks_off()
        axes.tick_params(axis="both", labelbottom=True)
        axes.grid(color="0.9", linewidth=0.6)
        if picture.log:
            axes.set_yscale("log")
        elif picture.unit.endswith("%"):
            axes.set_ylim(-4, 104)
    grid[0, 0].set_ylabel(picture.unit)
    figure.suptitle(picture.title, fontsize=12, fontweight="bold")
    handles = {str(one.get_label()): one for axes in grid.flat for one in axes.get_lines()}
    _below(figure, list(handles.values()), "")
    return figure


_DRAWN: dict[type, Callable[[Any], Figure]] = {Stacked: _stacked, Spread: _spread, Bars: _bars, Lines: _lines}

"""Draws pictures (:mod:`benchmarks.paper.pictures`) with matplotlib, as PNG and SVG.

One palette for all: Okabe and Ito's colours, which colour-blind readers tell apart, ordered so that they also differ in
grey; parts of stacked bars have hatching too. Methods are rows with their names written out, so that nothing overlaps
however long a name is; panels stand side by side and share the rows.
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

from benchmarks.paper.pictures import Bars, Lines, Panel, Picture, Spread, Stacked

matplotlib.use("Agg")

STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.hashsalt": "ironrule",  # the same figure gives the same file
    "svg.fonttype": "none",
    "hatch.linewidth": 0.6,
}
PARTS = ("#D55E00", "#E69F00", "#F0E442", "#56B4E9", "#009E73", "#DDDDDD")  # worst to best, then unknown
HATCHES = ("xxx", "///", "...", "\\\\\\", "", "")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
PANEL_WIDTH, NAMES_WIDTH, ROW_HEIGHT = 2.35, 1.9, 0.27
MOST_ACROSS = 4


def save(picture: Picture, folder: Path) -> list[Path]:
    """Draw a picture; the files it went to."""
    folder.mkdir(parents=True, exist_ok=True)
    with pyplot.rc_context(STYLE):
        figure = _DRAWN[type(picture)](picture)
        files = [folder / f"{picture.name}.{kind}" for kind in ("png", "svg")]
        figure.savefig(files[0], dpi=160, bbox_inches="tight", facecolor="white")
        figure.savefig(files[1], bbox_inches="tight", facecolor="white", metadata={"Date": None})
        pyplot.close(figure)
    return files


def _names(panels: Sequence[Panel]) -> list[str]:
    """The rows that panels share, in the order in which they first come."""
    return list(dict.fromkeys(name for panel in panels for name in panel.values))


def _rows(picture: Stacked | Spread | Bars, draw: Callable[[Axes, Panel, dict[str, int]], None]) -> Figure:
    """Panels side by side whose rows are methods, the first on top."""
    names = _names(picture.panels)
    places = {name: place for place, name in enumerate(reversed(names))}
    across = min(MOST_ACROSS, len(picture.panels))
    down = -(-len(picture.panels) // across)
    size = (NAMES_WIDTH + PANEL_WIDTH * across, (1.1 + ROW_HEIGHT * len(names)) * down + 0.5)
    figure, grid = pyplot.subplots(down, across, figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axes, panel in zip(grid.flat, picture.panels, strict=False):
        draw(axes, panel, places)
        axes.set_title(panel.title + (f"\n{panel.note}" if panel.note else ""))
        axes.set_xlabel(picture.unit)
        axes.set_yticks(list(places.values()), list(places))
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.9", linewidth=0.6)
    for axes in list(grid.flat)[len(picture.panels) :]:
        axes.set_visible(False)
    figure.suptitle(picture.title, fontsize=12, fontweight="bold")
    return figure


def _stacked(picture: Stacked) -> Figure:
    used = [part for place, part in enumerate(picture.parts) if _occurs(picture.panels, place)]

    def draw(axes: Axes, panel: Panel, places: dict[str, int]) -> None:
        for name, sizes in panel.values.items():
            starts = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])
            for place, (size, start) in enumerate(zip(sizes, starts, strict=True)):
                if size > 0:
                    axes.barh(places[name], size, left=start, height=0.72, **_part_style(picture.parts, place))
        axes.set_xlim(0, 100)

    figure = _rows(picture, draw)
    handles = [
        matplotlib.patches.Patch(label=part, **_part_style(picture.parts, picture.parts.index(part))) for part in used
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), frameon=False)
    return figure


def _occurs(panels: Sequence[Panel], place: int) -> bool:
    return any(sizes[place] > 0 for panel in panels for sizes in panel.values.values())


def _part_style(parts: Sequence[str], place: int) -> dict[str, Any]:
    """Of few parts the best still has the best colour."""
    chosen = place if len(parts) == len(PARTS) else (0, 2, 4)[place]
    return {"facecolor": PARTS[chosen], "hatch": HATCHES[chosen], "edgecolor": "0.25", "linewidth": 0.4}


def _spread(picture: Spread) -> Figure:
    def draw(axes: Axes, panel: Panel, places: dict[str, int]) -> None:
        for name, values in panel.values.items():
            axes.boxplot(
                [list(values)],
                positions=[places[name]],
                orientation="horizontal",
                widths=0.6,
                whis=(1, 99),
                showfliers=False,
                patch_artist=True,
                boxprops={"facecolor": "#56B4E9", "edgecolor": "0.25", "linewidth": 0.7},
                medianprops={"color": "black", "linewidth": 1.4},
                whiskerprops={"color": "0.25", "linewidth": 0.7},
                capprops={"color": "0.25", "linewidth": 0.7},
                manage_ticks=False,
            )
        if picture.log:
            axes.set_xscale("log")

    figure = _rows(picture, draw)
    figure.supxlabel("box: middle half of the rows; line: median; whiskers: 1st to 99th percentile", fontsize=8)
    return figure


def _bars(picture: Bars) -> Figure:
    def draw(axes: Axes, panel: Panel, places: dict[str, int]) -> None:
        for name, (value, *_) in panel.values.items():
            axes.barh(places[name], value, height=0.6, color="#56B4E9", edgecolor="0.25", linewidth=0.5)
            axes.annotate(
                f" {value:.3g}", (value, places[name]), va="center", fontsize=8, annotation_clip=False, color="0.2"
            )
        if picture.log:
            axes.set_xscale("log")
        axes.margins(x=0.25)

    return _rows(picture, draw)


def _lines(picture: Lines) -> Figure:
    names = _names(picture.panels)
    across = min(MOST_ACROSS, len(picture.panels))
    down = -(-len(picture.panels) // across)
    figure, grid = pyplot.subplots(
        down, across, figsize=(0.8 + 2.6 * across, 2.6 * down + 0.9), squeeze=False, layout="constrained", sharey=True
    )
    for axes, panel in zip(grid.flat, picture.panels, strict=False):
        for name, values in panel.values.items():
            place = names.index(name)
            axes.plot(
                picture.places, values, label=name, color=COLOURS[place % 9], marker=MARKERS[place % 9], markersize=5
            )
        axes.set_title(panel.title + (f"\n{panel.note}" if panel.note else ""))
        axes.set_xlabel(picture.across)
        axes.set_xscale("log")
        axes.set_xticks(list(picture.places), [f"{place:g}" for place in picture.places])
        axes.minorticks_off()
        axes.grid(color="0.9", linewidth=0.6)
        if picture.log:
            axes.set_yscale("log")
    for axes in list(grid.flat)[len(picture.panels) :]:
        axes.set_visible(False)
    grid[0, 0].set_ylabel(picture.unit)
    handles = {h.get_label(): h for axes in grid.flat for h in axes.get_lines()}
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=min(3, len(names)), frameon=False)
    figure.suptitle(picture.title, fontsize=12, fontweight="bold")
    return figure


_DRAWN: dict[type, Callable[[Any], Figure]] = {Stacked: _stacked, Spread: _spread, Bars: _bars, Lines: _lines}

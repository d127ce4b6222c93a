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
from matplotlib.patches import Patch

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


def _rows(
    picture: Stacked | Spread | Bars, draw: Callable[[Axes, Panel, dict[str, int]], None], shared: bool = True
) -> Figure:
    """Panels side by side whose rows are methods, the first on top; ``shared``: with one scale for all."""
    names = _names(picture.panels)
    places = {name: place for place, name in enumerate(reversed(names))}
    across = min(MOST_ACROSS, len(picture.panels))
    down = -(-len(picture.panels) // across)
    size = (NAMES_WIDTH + PANEL_WIDTH * across, (1.1 + ROW_HEIGHT * len(names)) * down + 0.5)
    figure, grid = pyplot.subplots(
        down, across, figsize=size, sharey=True, sharex=shared, squeeze=False, layout="constrained"
    )
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
    styles = _graded(len(picture.parts)) if picture.graded else _different(len(picture.parts))

    def draw(axes: Axes, panel: Panel, places: dict[str, int]) -> None:
        for name, sizes in panel.values.items():
            starts = np.concatenate([[0.0], np.cumsum(sizes)[:-1]])
            for size, start, style in zip(sizes, starts, styles, strict=True):
                if size > 0:
                    axes.barh(places[name], size, left=start, height=0.72, **style)
        axes.set_xlim(0, picture.end)

    figure = _rows(picture, draw, shared=picture.end is not None)
    handles = [
        Patch(label=part, **style)
        for place, (part, style) in enumerate(zip(picture.parts, styles, strict=True))
        if _occurs(picture.panels, place)
    ]
    _legend(figure, handles)
    return figure


def _occurs(panels: Sequence[Panel], place: int) -> bool:
    return any(sizes[place] > 0 for panel in panels for sizes in panel.values.values())


def _graded(count: int) -> list[dict[str, Any]]:
    """From worst to best; of three parts the middle one stands for all between."""
    chosen = range(count) if count > 3 else (0, 2, 4)
    return [_style(PARTS[place], HATCHES[place]) for place in chosen]


def _different(count: int) -> list[dict[str, Any]]:
    """Parts of no order."""
    return [_style(COLOURS[place % 9], ("", "///", "...", "\\\\\\", "xxx")[place % 5]) for place in range(count)]


def _style(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "0.25", "linewidth": 0.4}


def _legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Below, in as many columns as fit the figure's width."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=1)
    fitting = max(1, int(figure.get_figwidth() / (0.075 * longest + 0.55)))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(fitting, len(handles)), frameon=False)


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
    """Bars from zero; on a log scale, which has no zero, points."""

    def draw(axes: Axes, panel: Panel, places: dict[str, int]) -> None:
        for name, (value, *_) in panel.values.items():
            if picture.log:
                axes.plot([value], [places[name]], marker="o", color="#0072B2", markersize=6, linestyle="none")
            else:
                axes.barh(places[name], value, height=0.6, color="#56B4E9", edgecolor="0.25", linewidth=0.5)
            axes.annotate(
                _number(value),
                (value, places[name]),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        if picture.log:
            axes.set_xscale("log")

    figure = _rows(picture, draw)
    low, high = figure.axes[0].get_xlim()  # shared by all; the number at the end wants room
    figure.axes[0].set_xlim(low, high * (high / low) ** 0.35 if picture.log else high * 1.25)
    return figure


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


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
    _legend(figure, list(handles.values()))
    figure.suptitle(picture.title, fontsize=12, fontweight="bold")
    return figure


_DRAWN: dict[type, Callable[[Any], Figure]] = {Stacked: _stacked, Spread: _spread, Bars: _bars, Lines: _lines}

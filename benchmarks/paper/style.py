"""One look for all figures: Okabe and Ito's colours, which colour-blind readers tell apart, in an order in which they
also differ in grey; parts of bars have hatching too.
"""

from __future__ import annotations

from typing import Any

SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.hashsalt": "ironrule",  # the same figure gives the same file
    "svg.fonttype": "none",
    "hatch.linewidth": 0.6,
}
GRADES = ("#D55E00", "#E69F00", "#F0E442", "#56B4E9", "#009E73", "#B2DFCF", "#DDDDDD")
"""Worst to best; then what is known to hold and no more, and what is not known at all."""
GRADE_HATCHES = ("xxx", "///", "...", "\\\\\\", "", "--", "")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442", "#999999")
HATCHES = ("", "///", "...", "\\\\\\", "xxx")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
FILL, EDGE, FAINT = "#56B4E9", "0.25", "0.4"


def graded(count: int) -> list[dict[str, Any]]:
    """Parts from worst to best; of three the middle one stands for all between."""
    chosen = range(count) if count > 3 else (0, 2, 4)
    return [_part(GRADES[place], GRADE_HATCHES[place]) for place in chosen]


def different(count: int) -> list[dict[str, Any]]:
    """Parts of no order."""
    return [_part(COLOURS[place % len(COLOURS)], HATCHES[place % len(HATCHES)]) for place in range(count)]


def _part(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": EDGE, "linewidth": 0.4}


def line(place: int) -> dict[str, Any]:
    """The look of one of several lines."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 5}


def number(value: float) -> str:
    """A number as figures show it."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

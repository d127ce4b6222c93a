"""How the time of one explanation grows: with the rows of the history, with the features, with the trees of the model.

    IRONRULE_DATA=<folder> python -m benchmarks.growth [rows] [features] [trees] [--quick] [--figure STEM] [--json FILE]

Processor seconds per explanation, the median of several denied rows, and the exponent: the slope of a line through
the points on logarithmic scales. What is measured stands in :mod:`benchmarks.growth_cases`. ``--figure docs/growth``
draws all panels that were measured into docs/growth.png and docs/growth.svg.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth_cases import CASES, Case
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import timed

SECONDS = 60.0  # the most that one explanation may take


@dataclass(frozen=True, slots=True)
class Point:
    """How long explanations took at one size: the median, and the quarters beside it."""

    size: int
    low: float
    median: float
    high: float
    stopped: int  # explanations that the budget ended, of so many
    rows: int


def point_of(case: Case, algorithm: str) -> Point:
    """Explain the rows of a case, after one that is not counted."""
    case.explainer.explain(case.rows[0], algorithm, budget=SECONDS)  # which compiles
    found = [timed(lambda row=row: case.explainer.explain(row, algorithm, budget=SECONDS)) for row in case.rows]
    low, median, high = np.quantile([taken.cpu for _, taken in found], (0.25, 0.5, 0.75)).tolist()
    stopped = sum(explanation.statistics.stopped is not None for explanation, _ in found)
    return Point(case.size, low, median, high, stopped, len(found))


def exponent(points: Sequence[Point]) -> float:
    """The slope of the line through all points on logarithmic scales."""
    return float(np.polyfit(np.log([p.size for p in points]), np.log([p.median for p in points]), 1)[0])


def measured(axis: str, quick: bool) -> dict[str, list[Point]]:
    """The points of every algorithm along one axis."""
    curves: dict[str, list[Point]] = {}
    for case in CASES[axis](quick):
        for algorithm in case.algorithms:
            curves.setdefault(algorithm, []).append(point_of(case, algorithm))
    return {algorithm: sorted(points, key=lambda p: p.size) for algorithm, points in curves.items()}


def tell(axis: str, curves: dict[str, list[Point]]) -> dict[str, Any]:
    """Print the points and exponents along one axis; return them."""
    lines = [
        {axis: p.size, "algorithm": name, "CPU s": p.median, "quarter": p.low, "three quarters": p.high}
        | {"stopped": f"{p.stopped} of {p.rows}"}
        for name, points in curves.items()
        for p in points
    ]
    show(f"Time per explanation against {axis}", lines)
    slopes = {name: exponent(points) for name, points in curves.items()}
    last = {name: exponent(points[-2:]) for name, points in curves.items()}
    show("Exponents", [{"algorithm": name, "overall": slopes[name], "last step": last[name]} for name in curves])
    return {"points": lines, "exponents": slopes, "last steps": last}


def draw(panels: dict[str, dict[str, list[Point]]], stem: Path) -> None:
    """One panel per axis, all on logarithmic scales, with the exponents in the legend."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.6), squeeze=False, layout="constrained")
    for ax, (axis, curves) in zip(axes[0], panels.items(), strict=True):
        for color, (algorithm, points) in zip(("#1b5e8a", "#c1602b"), curves.items(), strict=False):
            sizes = [p.size for p in points]
            ax.fill_between(sizes, [p.low for p in points], [p.high for p in points], color=color, alpha=0.15, lw=0)
            label = f"{algorithm}: exponent {exponent(points):.2f}"
            ax.plot(sizes, [p.median for p in points], "o-", color=color, label=label)
        ax.set(xscale="log", yscale="log", xlabel=axis, title=f"against {axis}")
        ax.legend(frameon=False, fontsize="small")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("processor seconds per explanation")
    for ending in ("png", "svg"):
        figure.savefig(stem.with_suffix(f".{ending}"), dpi=150)
    plt.close(figure)


def main() -> None:
    """Measure, show, draw."""
    made = parser(__doc__)
    made.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(CASES)} (default: all)")
    made.add_argument("--figure", type=Path, metavar="STEM", help="draw STEM.png and STEM.svg")
    given = made.parse_args()
    for axis in given.axes:
        if axis not in CASES:
            made.error(f"an axis must be one of {', '.join(CASES)}, but {axis!r} came")
    panels, figures = {}, {}
    for axis in given.axes or CASES:
        panels[axis] = measured(axis, given.quick)
        figures[axis] = tell(axis, panels[axis])
    if given.figure is not None:
        draw(panels, given.figure)
    store(given.json, "growth", figures)


if __name__ == "__main__":
    main()

"""Long histories and many rows: time to open, peak memory, time per explanation, batches on one core and on several.

    IRONRULE_DATA=<folder> python -m benchmarks.scale [open] [duals] [batches] [--quick] [--json FILE]

``open``      SBA (897 thousand rows) and the stand-in for Yelp (20.9 million, see benchmarks.paper.yelp_stand_in):
              opened from Parquet for the first time and again, and by pandas in memory where that fits; each in a
              process of its own, whose peak memory counts everything in it
``duals``     one pass over the desired rows, mapped from disk, against NumPy copying the same bytes
``batches``   Adult with the authors' tree and with XGBoost 100 x 6: explanations per second by the number of workers,
              and through Ray (``pip install ray``) with two

Codes are kept in the folder IRONRULE_CACHE while it runs, and removed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.paper.yelp_stand_in import cache
from benchmarks.report import parser, show, store

SECTIONS = ("open", "duals", "batches")


def measured(*arguments: str) -> dict[str, Any]:
    """What a process of its own measures."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale_part", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def opening(quick: bool) -> list[dict[str, Any]]:
    """One line per way of opening."""
    stand_in, lines = "stand-in-quick" if quick else "stand-in", []
    for data, ways in (("sba", ("pandas", "first", "again")), (stand_in, ("first", "again"))):
        folder = Path(tempfile.mkdtemp(prefix="scale-", dir=cache()))
        try:
            lines += [measured("open", data, way, str(folder)) for way in ways]
        finally:
            shutil.rmtree(folder)
    return lines


def duals(quick: bool) -> list[dict[str, Any]]:
    """One line per data set."""
    lines = []
    for data in ("sba", "stand-in-quick" if quick else "stand-in"):
        folder = Path(tempfile.mkdtemp(prefix="scale-", dir=cache()))
        try:
            lines.append(measured("duals", data, "first", str(folder)))
        finally:
            shutil.rmtree(folder)
    return lines


def batches(rows: int) -> list[dict[str, Any]]:
    """One line per model and number of workers."""
    lines: list[dict[str, Any]] = []
    for model in ("tree", "xgboost"):
        rates: list[float] = []
        for engine, workers, *reuse in (("local", 1), ("local", 2), ("ray", 2), ("local", 2, "reuse")):
            line = measured("batch", model, str(workers), str(rows), engine, *reuse)
            rates.append(line["rows/s"])
            lines.append(line | {"times": rates[-1] / rates[0]})
    return lines


def main() -> None:
    """Measure and show."""
    made = parser(__doc__)
    made.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)} (default: all)")
    made.add_argument("--rows", type=int, help="rows of a batch (default 10,000; with --quick 100)")
    options = made.parse_args()
    figures: dict[str, Any] = {}
    for section in options.sections or SECTIONS:
        if section not in SECTIONS:
            made.error(f"a section must be one of {', '.join(SECTIONS)}, but {section!r} came")
        if section == "batches":
            figures[section] = batches(options.rows or (100 if options.quick else 10_000))
        else:
            figures[section] = (opening if section == "open" else duals)(options.quick)
        show(section, figures[section])
    store(options.json, "scale", figures)


if __name__ == "__main__":
    main()

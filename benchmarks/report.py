"""What every benchmark prints and stores: the command line, a small table, and one JSON record per run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("ironrule", "numpy", "numba", "pandas", "scikit-learn")


def parser(description: str | None) -> argparse.ArgumentParser:
    """A command line with the two options that every benchmark has."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--quick", action="store_true", help="few repetitions, to see that everything runs")
    made.add_argument("--json", type=Path, metavar="FILE", help="append one record with all figures to FILE")
    return made


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table; every row has the columns of the first."""
    print(f"\n{title}")
    if not rows:
        print("(nothing)")
        return
    names = list(rows[0])
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    sys.stdout.flush()


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return "-" if value is None else str(value)


def store(file: Path | None, benchmark: str, figures: Any) -> None:
    """Append one line of JSON: what was measured, where and when."""
    if file is None:
        return
    record = {"benchmark": benchmark, "when": time.strftime("%Y-%m-%d %H:%M"), "machine": machine(), "figures": figures}
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record, default=float) + "\n")


def machine() -> dict[str, Any]:
    """What figures depend on: the processor, its load at the moment, and versions."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

"""Start-up: the import, the first explanation with and without compiled kernels, the demo, and what an install weighs.

    python -m benchmarks.startup [--quick] [--json FILE]

Every figure comes from fresh processes. Cold means an empty Numba cache (NUMBA_CACHE_DIR in a temporary folder), as
right after installation; warm means a later process with the same cache. The install is `pip install .` without extras
in a new virtual environment; pip and setuptools do not count. --quick leaves the install out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.report import parser, show, store
from benchmarks.stopwatch import Taken

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 500e6
NOT_COUNTED = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "distutils-precedence.pth")

FIRST = """
import numpy as np, pandas as pd, ironrule
rng = np.random.default_rng(0)
table = pd.DataFrame({name: rng.integers(0, 50, 5_000) for name in "abcdefgh"})
explainer = ironrule.Explainer(lambda t: t["a"] + t["b"] + t["c"] > 75, table)
row = int(np.flatnonzero(~explainer.outcomes)[0])
for algorithm in ALGORITHMS:
    print(explainer.explain(row, algorithm=algorithm))
"""


def process_time(command: list[str], **environment: str) -> Taken | None:
    """What a fresh process takes; None, with the end of its message printed, if it fails."""
    before, start = os.times(), time.perf_counter()
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, os.times()
    if ran.returncode:
        print(f"failed: {' '.join(command)[:60]}: {ran.stderr.strip().splitlines()[-1:]}")
        return None
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(wall, spent)


def best_of(repeats: int, command: list[str], **environment: str) -> Taken | None:
    """The shortest of several fresh processes, by each clock."""
    taken = [t for t in (process_time(command, **environment) for _ in range(repeats)) if t is not None]
    return Taken(min(t.wall for t in taken), min(t.cpu for t in taken)) if taken else None


def import_rows(repeats: int) -> list[dict[str, Any]]:
    """The import, beside an empty Python and NumPy for scale."""
    programs = {"(an empty Python)": "pass"} | {
        f"import {name}": f"import {name}" for name in ("ironrule", "numpy", "ironrule.explain.explainer")
    }
    measured = {what: best_of(repeats, [sys.executable, "-c", program]) for what, program in programs.items()}
    return [{"what": what, "s": taken and taken.wall, "CPU s": taken and taken.cpu} for what, taken in measured.items()]


def cold_and_warm(name: str, command: list[str], repeats: int) -> dict[str, Any]:
    """The first process with an empty cache of compiled kernels, and the best of later ones."""
    with tempfile.TemporaryDirectory() as cache:
        cold = process_time(command, NUMBA_CACHE_DIR=cache)
        warm = best_of(repeats, command, NUMBA_CACHE_DIR=cache) if cold else None
    return {
        "what": name,
        "cold s": cold and cold.wall,
        "cold CPU s": cold and cold.cpu,
        "warm s": warm and warm.wall,
        "warm CPU s": warm and warm.cpu,
    }


def install_sizes() -> Counter[str]:
    """Bytes per top-level entry of a fresh environment after `pip install .`; the scripts beside python count too."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "fresh"
        venv.create(place, with_pip=True)
        python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
        before = set(python.parent.iterdir())
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True, capture_output=True)
        sizes: Counter[str] = Counter()
        for entry in next(place.rglob("site-packages")).iterdir():
            if not entry.name.startswith(NOT_COUNTED):
                sizes[_package(entry.name)] += _bytes(entry)
        sizes["(commands)"] = sum(_bytes(script) for script in set(python.parent.iterdir()) - before)
    return sizes


def _package(entry: str) -> str:
    """The package that a top-level entry belongs to: metadata and bundled libraries go with it."""
    return entry.split("-")[0].removesuffix(".libs").removesuffix(".py").lower()


def _bytes(entry: Path) -> int:
    files = entry.rglob("*") if entry.is_dir() else [entry]
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def show_install(sizes: Counter[str]) -> dict[str, Any]:
    """Print and return what the core weighs, and its largest packages."""
    total = sizes.total()
    largest = [{"package": name, "MB": size / 1e6} for name, size in sizes.most_common(8)]
    show(f"Installed core: {total / 1e6:.0f} MB ({total / 2**20:.0f} MiB), limit {LIMIT / 1e6:.0f} MB", largest)
    if total > LIMIT:
        print("over the limit, because of: " + ", ".join(row["package"] for row in largest[:3]))
    return {"MB": total / 1e6, "MiB": total / 2**20, "largest": largest}


def main() -> None:
    """Run, print, store."""
    given = parser(__doc__).parse_args()
    repeats = 3 if given.quick else 7
    imports = import_rows(repeats)
    show(f"Import, best of {repeats} fresh processes", imports)
    command = str(Path(sys.executable).with_name("ironrule"))
    programs = {
        f"explanation, {' and '.join(names)}": [sys.executable, "-c", FIRST.replace("ALGORITHMS", repr(names))]
        for names in (("greedy_cf",), ("greedy_cf", "genetic_cf", "genetic"))
    }
    if Path(command).exists():
        programs["ironrule demo"] = [command, "demo"]
    starts = [cold_and_warm(name, program, 3) for name, program in programs.items()]
    show("First use, whole process", starts)
    figures: dict[str, Any] = {"imports": imports, "starts": starts}
    if not given.quick:
        figures["install"] = show_install(install_sizes())
    store(given.json, "startup", figures)


if __name__ == "__main__":
    main()

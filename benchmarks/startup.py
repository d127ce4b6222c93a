"""Start-up: the import, the first explanation, counterfactual and ladder of six models, the demo, and what an install
weighs.

    python -m benchmarks.startup [--quick] [--json FILE]

Every figure comes from fresh processes. A clone of this repository is installed by `pip install .` into a new virtual
environment, without PYTHONPATH, with XGBoost and pandas beside it for two of the programs. Then every program runs
three times with a cache of its own: with the machine code of the wheel, as every user has it ("cold"); without it,
where everything is compiled, as after a change of Numba ("compiled"); and again with what that left in the cache
("warm"). Seconds begin when the model is there and end when the explanation is printed, so they include the import;
those of the demo are of the whole process. pip and setuptools do not count in sizes. --quick uses this environment,
and measures compiled and warm alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.report import parser, show, store
from benchmarks.stopwatch import Taken

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 500e6
NOT_COUNTED = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "distutils-precedence.pth")
BESIDE = ("pandas", "xgboost")
NEXT = ("l1", "ladder")  # a counterfactual, and a ladder, of the same row in the same process

MODELS = {
    "decision tree": "from sklearn.tree import DecisionTreeClassifier as M; m = M(max_depth=8, random_state=0)",
    "logistic regression": "from sklearn.linear_model import LogisticRegression as M; m = M(max_iter=1_000)",
    "forest, 100 x 6": "from sklearn.ensemble import RandomForestClassifier as M; m = M(100, max_depth=6)",
    "XGBoost, 100 x 6": "from xgboost import XGBClassifier as M; m = M(n_estimators=100, max_depth=6, n_jobs=1)",
    "network, 16 neurons": "from sklearn.neural_network import MLPClassifier as M; m = M((16,), random_state=0)",
    "black box": "m = None",
}
FIRST = """
import json, time, warnings
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
table = pd.DataFrame({name: rng.integers(0, 50, 3_000) for name in "abcdefgh"})
labels = (table.a + table.b + table.c * 0.5 + (table.d > 25) * table.e > 85).astype(int)
MODEL
if m is not None:
    m.fit(table, labels)
wall, cpu = time.perf_counter(), time.process_time()
import ironrule
explainer = ironrule.Explainer(m or (lambda rows: rows["a"] + rows["b"] + rows["c"] > 75), table, desired=m and 1)
row = int(np.flatnonzero(~explainer.outcomes)[0])
explanation = explainer.explain(row)
text, marks = str(explanation), [(time.perf_counter(), time.process_time())]
for call in (lambda: explainer.counterfactuals(row, k=1, cost="l1"), lambda: explainer.ladder(row)):
    call()
    marks.append((time.perf_counter(), time.process_time()))
print(json.dumps([(then - wall, spent - cpu) for then, spent in marks] + [type(explanation.verdict).__name__]))
"""


def choose_environment(**more: str) -> dict[str, str]:
    """The variables of a fresh process: what is installed beside its Python is what it imports."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more


def process_time(command: list[str], **environment: str) -> Taken | None:
    """What a fresh process takes; None, with the end of its message printed, if it fails."""
    before, start = os.times(), time.perf_counter()
    ran = subprocess.run(command, env=choose_environment(**environment), capture_output=True, text=True)
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


def time_calls(python: str, model: str, cache: str) -> list[Taken]:
    """From the fitted model to the printed explanation, then to the counterfactual, then to the ladder, in a fresh
    process; nothing if it fails or proves nothing.
    """
    program = FIRST.replace("MODEL", MODELS[model])
    environment = choose_environment(IRONRULE_CACHE_DIR=cache)
    ran = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True)
    if ran.returncode:
        print(f"failed: {model}: {ran.stderr.strip().splitlines()[-1:]}")
        return []
    *marks, verdict = json.loads(ran.stdout.splitlines()[-1])
    if verdict != ("Unrefuted" if model == "black box" else "Proven"):
        print(f"failed: {model}: the verdict is {verdict}")
        return []
    ends = [Taken(0.0, 0.0), *(Taken(wall, cpu) for wall, cpu in marks)]
    return [Taken(then.wall - before.wall, then.cpu - before.cpu) for before, then in pairwise(ends)]


def time_program(python: str, name: str, cache: str) -> list[Taken]:
    """The first explanation of a model, with what comes next, or the demo."""
    if name in MODELS:
        return time_calls(python, name, cache)
    command = Path(python).with_name("ironrule")
    taken = process_time([str(command), "demo"], IRONRULE_CACHE_DIR=cache)
    return [] if taken is None else [taken]


def measure_starts(python: str, repeats: int, code: Path | None) -> list[dict[str, Any]]:
    """One row per program; ``code`` is the machine code of the installed wheel, which is put aside meanwhile."""
    rows = {name: {"what": name} | _row("cold", []) for name in (*MODELS, "ironrule demo")}
    if code is not None:
        for name, row in rows.items():
            with tempfile.TemporaryDirectory() as cache:
                row |= _row("cold", time_program(python, name, cache))
        code.rename(code.with_name("put_aside"))
    for name, row in rows.items():
        with tempfile.TemporaryDirectory() as cache:
            row |= _row("compiled", time_program(python, name, cache))
            taken = [one for one in (time_program(python, name, cache) for _ in range(repeats)) if one]
            row |= _row("warm", min(taken, key=lambda one: one[0].cpu, default=[]))
    return list(rows.values())


def _row(kind: str, taken: list[Taken]) -> dict[str, Any]:
    """The first call by both clocks, and the CPU seconds of those that follow."""
    first = taken[0] if taken else None
    then = {f"{kind}, {what}": one.cpu for what, one in zip(NEXT, taken[1:], strict=False)}
    return {f"{kind} s": first and first.wall, f"{kind} CPU s": first and first.cpu} | then


def install(place: Path) -> tuple[Path, Counter[str], Taken | None]:
    """Clone and `pip install .` into a new environment: its Python, its sizes, what installing took."""
    clone = place / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    venv.create(place / "fresh", with_pip=True)
    python = place / "fresh" / ("Scripts" if os.name == "nt" else "bin") / "python"
    before = set(python.parent.iterdir())
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    with tempfile.TemporaryDirectory() as cache:  # so that nothing that was compiled before is found
        taken = process_time([*pip, str(clone)], IRONRULE_CACHE_DIR=cache)
    sizes = count_sizes(place / "fresh", python, before)
    subprocess.run([*pip, *BESIDE], check=True, capture_output=True)
    return python, sizes, taken


def count_sizes(place: Path, python: Path, before: set[Path]) -> Counter[str]:
    """Bytes per package of a fresh environment; the scripts beside Python count too."""
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
    repeats = 1 if given.quick else 3
    imports = import_rows(repeats)
    show(f"Import, best of {repeats} fresh processes", imports)
    figures: dict[str, Any] = {"imports": imports}
    if given.quick:
        figures["starts"] = measure_starts(sys.executable, repeats, None)
    else:
        with tempfile.TemporaryDirectory() as name:
            python, sizes, taken = install(Path(name))
            figures["install"] = show_install(sizes) | _row("install", [taken] if taken else [])
            show("Installing, with building the wheel", [_row("install", [taken] if taken else [])])
            code = next(Path(name, "fresh").rglob("site-packages")) / "ironrule" / "machine_code"
            figures["starts"] = measure_starts(str(python), repeats, code if code.exists() else None)
    show("First use, from the model to the printed explanation", figures["starts"])
    store(given.json, "startup", figures)


if __name__ == "__main__":
    main()

"""Veritas' half of benchmarks/proofs.py queries, in an environment of its own.

    python benchmarks/veritas_part.py FOLDER

FOLDER holds model.pkl (the classifier alone), matrix.npy (what it sees), low.npy and high.npy (one box per line,
half-open intervals, in the matrix's columns) and settings.json. Written is veritas.json: for every box whether a point
with a positive output exists, what that took, and the solution. It imports nothing of Ironrule.

The search ends at its first solution. How greedily it goes for one is set by `focal_eps`: with Veritas' default of 0.8,
and with the 0.2 of its robustness search, most boxes stay undecided; 0.01 with a focal list of 100 was the best of nine
settings tried, by median and by boxes decided.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import veritas

MEMORY = 4 << 30


def question(settings: dict[str, Any]) -> Any:
    """Does a point with positive output exist?"""
    config = veritas.Config(veritas.HeuristicType.MAX_OUTPUT)
    config.ignore_state_when_worse_than = 0.0
    config.stop_when_num_solutions_exceeds = 1
    config.stop_when_optimal = True
    config.focal_eps = settings["focal_eps"]
    config.max_focal_size = settings["focal_size"]
    config.max_memory = MEMORY
    return config


def decide(trees: Any, low: Any, high: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """One box: the answer and what it took, making the search (which prunes the trees) included."""
    wall, cpu = time.perf_counter(), time.process_time()
    box = [veritas.Interval(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    search = question(settings).get_search(trees, box)
    reason = search.step_for(settings["limit"], 100)
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    if search.num_solutions() > 0 and search.get_solution(0).output > 0.0:
        solution = search.get_solution(0)
        where = {int(column): [interval.lo, interval.hi] for column, interval in solution.box().items()}
        return taken | {"answer": "found", "output": solution.output, "where": where}
    return taken | {"answer": "none" if reason == veritas.StopReason.NO_MORE_OPEN else "undecided"}


def plain(array: Any) -> Any:
    """A copy with NumPy's own type object: Veritas compares types by identity and refuses what was loaded."""
    copy = np.empty(array.shape)
    copy[:] = array
    return copy


def main() -> None:
    """Read, decide, write."""
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    matrix, low, high = (plain(np.load(place / f"{name}.npy")) for name in ("matrix", "low", "high"))
    wall, cpu = time.perf_counter(), time.process_time()
    trees = veritas.get_addtree(model, silent=True)
    written: dict[str, Any] = {"set-up s": time.perf_counter() - wall, "set-up CPU s": time.process_time() - cpu}
    outputs = trees.eval(matrix)[:, 0]
    written["decides otherwise"] = float(((outputs > 0.0) != (np.asarray(model.predict(matrix)) == 1)).mean())
    written["answers"] = []
    decide(trees, low[0], high[0], settings)  # warm
    for a, b in zip(low, high, strict=True):
        written["answers"].append(decide(trees, a, b, settings))
        (place / "veritas.json").write_text(json.dumps(written, default=float))


if __name__ == "__main__":
    main()

"""The half of benchmarks/tree_rules.py that runs in PyXAI's own environment. It imports nothing of Ironrule.

    python benchmarks/pyxai_part.py FOLDER

FOLDER holds what both halves share: model.pkl (a scikit-learn tree), rows.npy (what the model sees of each row) and
labels.json (what it gives them). Written is pyxai.json: for every row the length of the reason found, whether PyXAI
itself says that it is one, and the seconds on both clocks; its MaxSAT solver is a program of its own, so the processor
time of finished children counts.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def cpu_seconds() -> float:
    """Processor time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measured(explainer: Any, row: Any, label: int) -> dict[str, Any]:
    """One row: setting it and asking for a minimal sufficient reason."""
    began, start = time.perf_counter(), cpu_seconds()
    explainer.set_instance(row)
    reason = explainer.minimal_sufficient_reason()
    taken = {"wall": time.perf_counter() - began, "cpu": cpu_seconds() - start}
    if explainer.target_prediction != label:
        raise SystemExit(f"PyXAI must decide as the model does ({label}), but it says {explainer.target_prediction}")
    return {**taken, "length": len(reason), "is_reason": bool(len(reason) and explainer.is_reason(reason))}


def main() -> None:
    """Read, explain, write."""
    from pyxai import Explaining, Learning, Tools

    place = Path(sys.argv[1])
    Tools.set_verbose(0)
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    rows = np.load(place / "rows.npy")
    labels = json.loads((place / "labels.json").read_text())
    os.chdir(place)  # PyXAI writes its solver's files into the working directory
    start = cpu_seconds()
    _, converted = Learning.ModelIO.import_models(model, instances_type="tabular")
    explainer = Explaining.initialize(converted)
    setup = cpu_seconds() - start
    measured(explainer, rows[0], labels[0])  # warm
    answers = [measured(explainer, row, label) for row, label in zip(rows, labels, strict=True)]
    (place / "pyxai.json").write_text(json.dumps({"setup": setup, "answers": answers}))


if __name__ == "__main__":
    main()

"""treecf's half of benchmarks/nearest.py, in an environment of its own (requirements-treecf.txt).

    python benchmarks/treecf_part.py FOLDER

FOLDER holds model.pkl (the classifier alone), background.npy, rows.npy and settings.json. Written is treecf.json: for
every row what changes, whether it is proven optimal, and what it took. It imports nothing of Ironrule. Changes are
counted first: a change costs more than all distances together; unless settings has "ranges", by which distances are
divided and then added up.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import treecf

PRICE_OF_A_CHANGE = 1000.0


def explain(explainer: Any, row: Any, target: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """One row: its counterfactual and what it took."""
    more = {"node_budget": 2_000_000_000} if settings["backend"] == "exact" else {}
    wall, cpu = time.perf_counter(), time.process_time()
    found = explainer.explain(
        row,
        target,
        backend=settings["backend"],
        time_budget_s=settings["seconds"],
        sparsity_weight=0.0 if "ranges" in settings else PRICE_OF_A_CHANGE,
        seed=0,
        **more,
    )
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    changes = getattr(found, "changes", None)
    point = None if changes is None else [float(value) for value in found.x_cf]
    return taken | {"changes": None if changes is None else len(changes), "proof": found.proof, "point": point}


def main() -> None:
    """Read, search, write."""
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    background, rows = np.load(place / "background.npy"), np.load(place / "rows.npy")
    ranges = np.array(settings["ranges"]) if "ranges" in settings else None
    explainer = treecf.Explainer(model, background, normalizers=ranges)
    if frozen := settings.get("frozen"):  # places of columns that must not change
        names = explainer.ir.feature_names
        constraints = [treecf.Freeze(names[place]) for place in frozen]
        explainer = treecf.Explainer(model, background, constraints=constraints)
    # What a forest of scikit-learn adds up is the probability itself.
    make_target = treecf.Target.raw if "Forest" in type(model).__name__ else treecf.Target.probability
    target = make_target(op=">=", value=0.5)
    explain(explainer, rows[0], target, settings)  # warm
    answers = [explain(explainer, row, target, settings) for row in rows]
    (place / "treecf.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()

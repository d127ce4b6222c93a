"""CARLA's own code of Growing Spheres, for benchmarks/carla, in an environment of its own (requirements-carla.txt).

    python benchmarks/carla/spheres_part.py FOLDER

FOLDER holds model.pkl (an estimator on model columns), rows.npy and settings.json with the names of the columns, those
that are immutable and those that are numbers. Written is answers.json: for every row the counterfactual in model
columns and its CPU seconds. It imports nothing of Ironrule, and of CARLA one module alone, since the whole package runs
on Python 3.7 only.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import pickle
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

MODULE = "recourse_methods/catalog/growing_spheres/library/gs_counterfactuals.py"


def load_search() -> Any:
    """CARLA's function, loaded from its file without the package around it."""
    found = importlib.util.find_spec("carla")
    if found is None or found.origin is None:
        raise SystemExit("carla-recourse must be installed in this environment, but it is not")
    package = ModuleType("carla")
    package.log = logging.getLogger("carla")  # type: ignore[attr-defined]
    sys.modules["carla"] = package
    spec = importlib.util.spec_from_file_location("gs_counterfactuals", Path(found.origin).parent / MODULE)
    if spec is None or spec.loader is None:
        raise SystemExit(f"carla-recourse must have {MODULE}, but it has not")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.growing_spheres_search


def main() -> None:
    """Read, search, write."""
    place, search = Path(sys.argv[1]), load_search()
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())
    columns, immutable = settings["columns"], settings["immutable columns"]
    mutable = [name for name in columns if name not in immutable]
    categories = [name for name in columns if name not in settings["numeric"]]
    np.random.seed(settings["seed"])  # noqa: NPY002  # CARLA draws from there
    answers = []
    for values in np.load(place / "rows.npy"):
        row = pd.Series(values, index=columns)
        began = time.process_time()
        found = search(row, mutable, immutable, settings["numeric"], categories, columns, model)
        cpu = time.process_time() - began
        point = None if np.isnan(found).any() else found.tolist()
        answers.append({"cpu": cpu, "point": point})
    (place / "answers.json").write_text(json.dumps({"set-up": None, "answers": answers}))


if __name__ == "__main__":
    main()

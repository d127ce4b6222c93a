"""actionable-recourse's half of benchmarks/carla, in an environment of its own (requirements-recourse.txt).

    python benchmarks/carla/recourse_part.py FOLDER

FOLDER holds background.npy, rows.npy (model columns) and settings.json with the names of the columns, those that are
immutable, and the coefficients. Written is answers.json: for every row the counterfactual in model columns, or nothing,
and its CPU seconds. It imports nothing of Ironrule. The cost is the package's default, the largest percentile shift;
the solver is CBC, through python-mip.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import recourse
from recourse.builder import RecourseBuilder

SOLVER = "python-mip"


def explain(actions: Any, row: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """One row: its counterfactual and what it took."""
    began = time.process_time()
    try:
        builder = RecourseBuilder(
            solver=SOLVER,
            action_set=actions,
            coefficients=np.array(settings["coefficients"]),
            intercept=settings["intercept"],
            x=row,
            mip_cost_type="max",
        )
    except ValueError as error:  # the package ends so where a feature of the row has no action at all
        return {"cpu": time.process_time() - began, "point": None, "failed": str(error)}
    found = builder.fit(time_limit=settings["seconds"])
    cpu = time.process_time() - began
    return {"cpu": cpu, "point": (row + found["actions"]).tolist() if found["feasible"] else None}


def main() -> None:
    """Read, search, write."""
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    background, rows = np.load(place / "background.npy"), np.load(place / "rows.npy")
    began = time.process_time()
    actions = recourse.ActionSet(X=pd.DataFrame(background, columns=settings["columns"]))
    for name in settings["immutable columns"]:
        actions[name].actionable = False
    actions.set_alignment(coefficients=np.array(settings["coefficients"]), intercept=settings["intercept"])
    setup = time.process_time() - began
    answers = [explain(actions, row, settings) for row in rows]
    (place / "answers.json").write_text(json.dumps({"set-up": setup, "answers": answers}))


if __name__ == "__main__":
    main()

"""The half of benchmarks/counterfactuals.py that runs in dice-ml's own environment. It imports nothing of Ironrule.

    python benchmarks/dice_part.py FOLDER

FOLDER holds what both halves share: model.pkl, table.csv (with the target), rows.json and settings.json. Written are
dice.json: for every row the counterfactuals as values, and the CPU seconds they took.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def counterfactuals(explainer: Any, row: Any, settings: dict[str, Any], initialization: str) -> list[dict[str, Any]]:
    """What dice-ml's genetic method finds for one row; nothing if it says that it found nothing."""
    from raiutils.exceptions import UserConfigValidationException

    try:
        found = explainer.generate_counterfactuals(
            row, total_CFs=settings["k"], desired_class=1, initialization=initialization
        )
    except UserConfigValidationException:
        return []
    frame = found.cf_examples_list[0].final_cfs_df
    return [] if frame is None else frame.drop(columns=settings["target"]).to_dict("records")


def measured(explainer: Any, row: Any, settings: dict[str, Any], initialization: str) -> dict[str, Any]:
    """One row, with CPU seconds."""
    random.seed(settings["seed"])
    np.random.seed(settings["seed"])  # noqa: NPY002  # dice-ml draws from the global state
    start, began = time.process_time(), time.perf_counter()
    found = counterfactuals(explainer, row, settings, initialization)
    return {"cpu": time.process_time() - start, "wall": time.perf_counter() - began, "found": found}


def main() -> None:
    """Read, search, write."""
    import dice_ml

    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    table = pd.read_csv(place / "table.csv")
    rows = json.loads((place / "rows.json").read_text())
    start = time.process_time()
    data = dice_ml.Data(dataframe=table, continuous_features=settings["numeric"], outcome_name=settings["target"])
    explainer = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method="genetic")
    setup = time.process_time() - start
    inputs = table.drop(columns=settings["target"])
    measured(explainer, inputs.iloc[[rows[0]]], settings, settings["initializations"][0])  # warm
    answers = {
        way: [measured(explainer, inputs.iloc[[row]], settings, way) for row in rows]
        for way in settings["initializations"]
    }
    (place / "dice.json").write_text(json.dumps({"setup": setup, "answers": answers}, default=lambda v: v.item()))


if __name__ == "__main__":
    main()

"""dice-ml's half of benchmarks/carla, in an environment of its own (requirements-dice.txt).

    python benchmarks/carla/dice_part.py FOLDER

FOLDER holds model.pkl (the pipeline), table.csv (raw columns with the model's outcomes as the target) and
settings.json. Written is answers.json: for every row the first counterfactual as values, or nothing, and its CPU
seconds. It imports nothing of Ironrule.
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

import dice_ml
import numpy as np
import pandas as pd
from raiutils.exceptions import UserConfigValidationException


def explain(explainer: Any, row: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """One row: its counterfactual and what it took."""
    random.seed(settings["seed"])
    np.random.seed(settings["seed"])  # noqa: NPY002  # dice-ml draws from the global state
    more = {"random_seed": settings["seed"]} if settings["method"] == "random" else {}
    began = time.process_time()
    try:
        found = explainer.generate_counterfactuals(
            row, total_CFs=1, desired_class=1, features_to_vary=settings["vary"], verbose=False, **more
        )
        frame = found.cf_examples_list[0].final_cfs_df
    except UserConfigValidationException:  # it found nothing
        frame = None
    cpu = time.process_time() - began
    values = None if frame is None or frame.empty else frame.drop(columns=settings["target"]).iloc[0].to_dict()
    return {"cpu": cpu, "values": values}


def main() -> None:
    """Read, search, write."""
    warnings.simplefilter("ignore")
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    table = pd.read_csv(place / "table.csv")
    began = time.process_time()
    data = dice_ml.Data(dataframe=table, continuous_features=settings["numeric"], outcome_name=settings["target"])
    explainer = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method=settings["method"])
    setup = time.process_time() - began
    inputs = table.drop(columns=settings["target"])
    explain(explainer, inputs.iloc[[settings["rows"][0]]], settings)  # warm
    answers = [explain(explainer, inputs.iloc[[row]], settings) for row in settings["rows"]]
    written = {"set-up": setup, "answers": answers}
    (place / "answers.json").write_text(json.dumps(written, default=lambda value: value.item()))


if __name__ == "__main__":
    main()

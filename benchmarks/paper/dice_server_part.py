"""The half of methods_dice.py that runs in dice-ml's environment: counterfactuals on demand, nothing of Ironrule.

    python -P benchmarks/paper/dice_server_part.py FOLDER

FOLDER holds model.pkl, table.csv (with the target) and settings.json. Questions come as lines of JSON: a row's number,
how many counterfactuals, and for every feature the range or the values that are permitted. Answers go out as lines of
JSON: the counterfactuals as values, and the CPU seconds of the search.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def found(explainer: Any, row: Any, asked: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What dice-ml finds; nothing if it says so."""
    from raiutils.exceptions import UserConfigValidationException

    try:
        answer = explainer.generate_counterfactuals(
            row,
            total_CFs=asked["k"],
            desired_class=1,
            permitted_range=asked["permitted"],
            features_to_vary=asked["vary"],
            **settings["options"],
        )
    except UserConfigValidationException:
        return []
    frame = answer.cf_examples_list[0].final_cfs_df
    return [] if frame is None else frame.drop(columns=settings["target"]).to_dict("records")


def main() -> None:
    """Answer until the questions end."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever dice-ml prints does not mix with answers
    warnings.simplefilter("ignore")
    import dice_ml

    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    table = pd.read_csv(place / "table.csv", keep_default_na=False)
    data = dice_ml.Data(dataframe=table, continuous_features=settings["numeric"], outcome_name=settings["target"])
    explainer = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method=settings["method"])
    inputs = table.drop(columns=settings["target"])
    for line in sys.stdin:
        asked, began = json.loads(line), time.process_time()
        random.seed(settings["seed"])
        np.random.seed(settings["seed"])  # noqa: NPY002  # dice-ml draws from the global state
        answer: dict[str, Any] = {}
        try:
            answer["found"] = found(explainer, inputs.iloc[[asked["row"]]], asked, settings)
        except Exception as error:
            answer["failed"] = repr(error)
        answer["cpu"] = time.process_time() - began
        out.write(json.dumps(answer, default=lambda value: value.item()) + "\n")
        out.flush()


if __name__ == "__main__":
    main()

"""The two-layer additive model of the FICO challenge: its file as a model, and its rows.

    IRONRULE_DATA=<folder> python -m benchmarks.fico

prints on how many rows the model gives the output that is known for them.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from benchmarks.data import folder
from ironrule import Bins, Subscale, TwoLayerAdditive

SPECIAL = (-7, -8, -9)  # codes for "no usable record", each with points of its own


def fico() -> tuple[TwoLayerAdditive, pd.DataFrame, pd.Series]:
    """The model (class 0 is good and desired, 1 is bad), the rows, and the model's known output on them."""
    rows = pd.read_csv(folder() / "fico" / "fico_model_rows.csv.gz")
    return fico_model(), rows.drop(columns="RiskBinary"), rows["RiskBinary"]


def fico_model() -> TwoLayerAdditive:
    """The model in the file: log odds of bad are the top bias plus weighted logistic subscales."""
    given = json.loads((folder() / "fico" / "two_layer_model.json").read_text())
    subscales = tuple(
        Subscale(weight, one["bias"], tuple(_bins(name, given, points) for name, points in one["weights"].items()))
        for weight, one in zip(given["top_weights"], given["subscales"], strict=True)
    )
    return TwoLayerAdditive(subscales, given["top_bias"])


def _bins(name: str, given: dict[str, Any], points: list[float]) -> Bins:
    """Bins between the thresholds, then the special codes; any other negative number counts as the highest bin."""
    edges = given["buckets"][name]
    count = len(edges)
    special = {code: points[count + 1 + place] for place, code in enumerate(SPECIAL)}
    return Bins(name, edges=(0, *edges), points=(points[count], *points[: count + 1]), values=special)


def main() -> None:
    """Compare."""
    model, rows, known = fico()
    same = int((model.predict(rows) == known).sum())
    print(f"{same} of {len(rows)} rows get the known output")


if __name__ == "__main__":
    main()

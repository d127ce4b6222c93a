"""The nearest counterfactuals of CARLA's logistic regression on Adult: proven, and how fast.

    python -m benchmarks.carla_linear --data <folder of CARLA's data and weights> [--rows 100]

The folder has ``adult.csv.gz`` (48,832 rows; ``income`` 1 is desired) and ``models/adult_linear_torch.npz``, weights
of CARLA's catalogue model (Pawelczyk et al., "CARLA", 2021). They are put into a scikit-learn pipeline on raw columns:
numbers scaled to [0, 1], one binary column per category. Age and sex are immutable, as CARLA declares them. One
counterfactual per row, and five per row.

Every answer is judged here by the pipeline itself, with none of the library's own code: whether it gives the desired
outcome, whether any single change would do where more are made, and, where one number changes, whether one does that
is nearer by more than a thousandth of the range.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from benchmarks.report import parser, show, store
from benchmarks.stopwatch import timed
from ironrule import Explainer

NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
IMMUTABLE = {"age": "immutable", "sex": "immutable"}


def build_model(folder: Path) -> tuple[Pipeline, pd.DataFrame]:
    """CARLA's model as a pipeline on raw columns, and its data."""
    table = pd.read_csv(folder / "adult.csv.gz")
    target = table.pop("income")
    categories = [name for name in table if name not in NUMBERS]
    prepare = ColumnTransformer(
        [("numbers", MinMaxScaler(), NUMBERS), ("categories", OneHotEncoder(drop="if_binary"), categories)]
    )
    model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(table, target)
    with np.load(folder / "models" / "adult_linear_torch.npz") as weights:
        scores, starts = weights["output.weight"].astype(np.float64), weights["output.bias"].astype(np.float64)
    model[-1].coef_ = (scores[1] - scores[0])[None, :]
    model[-1].intercept_ = starts[1:] - starts[:1]
    return model, table


def judge(found: Any, model: Pipeline, table: pd.DataFrame) -> dict[str, int]:
    """What is wrong with the counterfactuals of one row."""
    rows = pd.DataFrame([dict(item.values) for item in found])[list(table.columns)]
    denied = int((model.predict(rows) != 1).sum())
    too_many = not_nearest = 0
    first, instance = found[0], dict(found.instance)
    if len(first.changes) > 1:
        others = [{**instance, name: value} for name in table for value in (table[name].min(), table[name].max())
                  if name not in IMMUTABLE]  # fmt: skip
        too_many = int((model.predict(pd.DataFrame(others)[list(table.columns)]) == 1).any())
    elif first.changes[0].feature in NUMBERS:
        change = first.changes[0]
        between = np.linspace(change.before, change.after, 1002)[1:-1].round().astype(int)
        spread = table[change.feature].max() - table[change.feature].min()
        nearer = abs(between - change.before) < abs(change.after - change.before) - found.resolution * spread
        trial = [{**instance, change.feature: int(value)} for value in between[nearer]]
        not_nearest = int((model.predict(pd.DataFrame(trial)[list(table.columns)]) == 1).any()) if trial else 0
    return {"denied": denied, "fewer changes do": too_many, "nearer does": not_nearest}


def main() -> None:
    """Measure set-up and rows."""
    options = parser(__doc__)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--rows", type=int, default=100)
    arguments = options.parse_args()
    model, table = build_model(arguments.data)
    explainer, setup = timed(lambda: Explainer(model, table, desired=1, roles=IMMUTABLE))
    rows = explainer.row_numbers[~explainer.outcomes][: 5 if arguments.quick else arguments.rows].tolist()
    lines = []
    for k in (1, 5):
        results = [timed(lambda row=row, k=k: explainer.counterfactuals(row, k=k)) for row in rows]
        faults = pd.DataFrame([judge(found, model, table) for found, _ in results if len(found)]).sum()
        seconds = [taken.wall for _, taken in results]
        lines.append(
            {
                "k": k,
                "rows": len(rows),
                "proven": sum(found.proven for found, _ in results),
                "changes of the first": float(np.mean([len(found[0].changes) for found, _ in results])),
                **{name: int(count) for name, count in faults.items()},
                "first s": seconds[0],
                "median s": float(np.median(seconds)),
                "largest s": max(seconds[1:]),
                "median CPU s": float(np.median([taken.cpu for _, taken in results])),
                "set-up s": setup.wall,
                "set-up CPU s": setup.cpu,
            }
        )
    show("CARLA's logistic regression on Adult", lines)
    store(arguments.json, "carla_linear", lines)


if __name__ == "__main__":
    main()

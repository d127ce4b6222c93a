"""The nearest counterfactuals of CARLA's logistic regression on Adult: proven, and how fast.

One counterfactual per row, and five per row. Every answer is judged here by the pipeline itself, with none of the
library's own code: whether it gives the desired outcome, whether any single change would do where more are made, and,
where one number changes, whether one does that is nearer by more than a thousandth of the range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.carla.models import CarlaModel
from benchmarks.carla.settings import Settings
from benchmarks.stopwatch import timed


def judge_nearest(found: Any, model: CarlaModel) -> dict[str, int]:
    """What is wrong with the counterfactuals of one row."""
    table, columns = model.table, list(model.table.columns)

    def approve(rows: list[dict[str, Any]]) -> Any:
        return model.approve(model.encode(pd.DataFrame(rows)[columns]))

    denied = int((~approve([dict(item.values) for item in found])).sum())
    too_many = not_nearest = 0
    first, instance = found[0], dict(found.instance)
    change = first.changes[0]
    if len(first.changes) > 1:
        others = [{**instance, name: value} for name in columns for value in (table[name].min(), table[name].max())
                  if name not in model.immutable]  # fmt: skip
        too_many = int(approve(others).any())
    elif change.feature not in model.categories:
        between = np.linspace(change.before, change.after, 1002)[1:-1].round().astype(int)
        spread = table[change.feature].max() - table[change.feature].min()
        nearer = abs(between - change.before) < abs(change.after - change.before) - found.resolution * spread
        trial = [{**instance, change.feature: int(value)} for value in between[nearer]]
        not_nearest = int(approve(trial).any()) if trial else 0
    return {"denied": denied, "fewer changes do": too_many, "nearer does": not_nearest}


def measure_nearest(model: CarlaModel, settings: Settings) -> list[dict[str, Any]]:
    """Measure set-up and rows."""
    explainer, setup = timed(lambda: model.explainer)
    rows, lines = model.list_denied_rows(settings.rows), []
    for k in (1, 5):
        results = [timed(lambda row=row, k=k: explainer.counterfactuals(row, k=k)) for row in rows]
        faults = pd.DataFrame([judge_nearest(found, model) for found, _ in results if len(found)]).sum()
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
                "largest s": max(seconds[1:], default=seconds[0]),
                "median CPU s": float(np.median([taken.cpu for _, taken in results])),
                "set-up s": setup.wall,
                "set-up CPU s": setup.cpu,
            }
        )
    return lines

"""The changes that explanations suggest by default, on German (bundled) and Adult: would a lender print them?

    IRONRULE_DATA=<folder> python -m benchmarks.suggested_changes [--rows 40]

No role is declared. For every model and row the suggested changes are judged here, by the model itself and by the data,
with none of the library's own code for that: whether one changes a feature of the list below; whether one goes against
the rank correlation of the feature with the model's outcome (Spearman, at least 0.1); and, of changes of one number,
whether a value that was seen and is nearer would do, by more than the resolution that is claimed. Beside them, the
counterfactuals that the search for the rule came upon, which were shown before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import adult
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import timed
from ironrule import Explainer
from ironrule.data import load_german
from ironrule.rule.counterfactual import Counterfactual

UNTOUCHABLE = {
    "German": {"age_in_years", "foreign_worker"},
    "Adult": {"age", "race", "sex", "marital-status", "relationship", "native-country"},
}
MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=6, random_state=0),
    "boosted trees": lambda: GradientBoostingClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(50, max_depth=8, random_state=0),
    "linear": lambda: LogisticRegression(max_iter=2000),
    "network": lambda: MLPClassifier((16,), max_iter=200, random_state=0),
}
STRONG = 0.1  # a rank correlation that says which way is better


def fit(model: Any, table: pd.DataFrame, target: pd.Series) -> Pipeline:
    """A pipeline on raw columns."""
    categories = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
    return make_pipeline(make_column_transformer(categories, remainder=StandardScaler()), model).fit(table, target)


def correlate(table: pd.DataFrame, desired: Any) -> dict[str, float]:
    """The rank correlation of every numeric column with the outcome."""
    numbers = table.select_dtypes("number")
    return {name: float(spearmanr(numbers[name], desired).statistic) for name in numbers}


def is_nearest(
    change: Any, instance: dict[str, Any], decide: Callable[[pd.DataFrame], Any], values: Any, resolution: float
) -> bool:
    """Whether no value between the old and the new one gives the desired outcome, those within the resolution aside."""
    most = abs(change.after - change.before) - resolution * (values[-1] - values[0])
    low, high = sorted((change.before, change.after))
    inside = (value for value in values if low <= value <= high and value != change.after)
    between = [value for value in inside if abs(value - change.before) < most]
    return not between or not decide(pd.DataFrame([{**instance, change.feature: value} for value in between])).any()


def judge(found: Iterable[Counterfactual], instance: dict[str, Any], known: dict[str, Any]) -> dict[str, int]:
    """What is wrong with the changes of one row."""
    counts = dict.fromkeys(("suggested", "untouchable", "wrong way", "single", "not nearest"), 0)
    for item in found:
        counts["suggested"] += 1
        counts["untouchable"] += any(change.feature in known["untouchable"] for change in item.changes)
        trends = [(known["trends"].get(change.feature, 0.0), change) for change in item.changes]
        counts["wrong way"] += any(abs(r) >= STRONG and (r > 0) != (c.after > c.before) for r, c in trends)
        if len(item.changes) == 1 and item.changes[0].feature in known["values"]:
            change = item.changes[0]
            counts["single"] += 1
            values, within = known["values"][change.feature], getattr(found, "resolution", 0.0)
            counts["not nearest"] += not is_nearest(change, instance, known["decide"], values, within)
    return counts


def measure(data: str, name: str, explainer: Explainer, known: dict[str, Any], rows: list[int]) -> list[dict[str, Any]]:
    """Two lines: the counterfactuals that the search came upon, and the changes that are suggested now."""
    sums: dict[str, Counter[str]] = {"search": Counter(), "suggested": Counter()}
    proven, seconds = 0, []
    for row in rows:
        explanation = explainer.explain(row, budget=30)
        changes, taken = timed(lambda explanation=explanation: explanation.changes)
        seconds.append(taken.wall)
        proven += changes.proven
        for which, found in (("search", explanation.counterfactuals), ("suggested", changes)):
            sums[which].update(judge(found, dict(explanation.instance), known))
    own = {"rows proven": f"{proven} of {len(rows)}", "median s": float(np.median(seconds)), "largest s": max(seconds)}
    start = {"data": data, "model": name}
    return [
        {**start, "changes": which, **counts, **(own if which == "suggested" else dict.fromkeys(own))}
        for which, counts in sums.items()
    ]


def main() -> None:
    """Judge the changes of every model on both data sets."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=40)
    arguments = options.parse_args()
    lines = []
    for data, load, wanted in (("German", load_german, "good"), ("Adult", adult, 1)):
        table, target = load()
        for name, build in MODELS.items():
            model = fit(build(), table, target)
            explainer = Explainer(model, table, desired=wanted)
            known = {
                "untouchable": UNTOUCHABLE[data],
                "trends": correlate(table, explainer.outcomes),
                "values": {column: np.unique(table[column]).tolist() for column in table.select_dtypes("number")},
                "decide": partial(decide, model, list(table.columns), wanted),
            }
            rows = explainer.row_numbers[~explainer.outcomes][: 3 if arguments.quick else arguments.rows].tolist()
            lines += measure(data, name, explainer, known, rows)
    show("Changes of undesired rows, no role declared", lines)
    store(arguments.json, "suggested_changes", lines)


def decide(model: Pipeline, columns: list[str], wanted: Any, rows: pd.DataFrame) -> Any:
    """Which rows the model gives the desired outcome."""
    return model.predict(rows[columns]) == wanted


if __name__ == "__main__":
    main()

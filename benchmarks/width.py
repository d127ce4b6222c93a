"""Wide tables: 1,000 columns of which the model uses 60, against these 60 alone; and 128 and 300 used columns.

    python -m benchmarks.width [--quick] [--json FILE]

Both models of a pair are fitted on the same columns; the wide one saw zeros in all others. Times are per
row, by the CPU; the first row, which may compile, does not count. The same rows are explained on both sides, given as
dictionaries, so that the model itself is asked about every row and about what was found; what asking it once about one
row takes is in a column of its own, since it is the user's model, not the search, that reads all columns. Rows with
many used columns have a budget, and most of them end with it: their rules are proven, but shorter ones may hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.report import parser, show, store
from benchmarks.stopwatch import best, timed
from ironrule import Explainer, check

MODELS = {
    "forest": lambda: RandomForestClassifier(20, max_depth=5, max_features=None, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=40, max_depth=3, random_state=0),
    "linear": lambda: LogisticRegression(C=0.01, max_iter=2000),
}
USED, WIDE, VALUES, PAST_ROWS = 60, 1000, 12, 1500


def make_table(columns: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """A table whose first columns are the same for every width, and labels that some of them decide."""
    draw = np.random.default_rng
    first = draw(seed).integers(0, VALUES, size=(PAST_ROWS, USED))
    others = draw(seed + 1).integers(0, VALUES, size=(PAST_ROWS, columns - USED))
    table = pd.DataFrame(np.hstack([first, others]).astype(float), columns=[f"c{j}" for j in range(columns)])
    noise = draw(seed + 2).normal(0, 4, PAST_ROWS)
    return table, (first[:, :8].sum(axis=1) + noise > 8 * (VALUES - 1) / 2).astype(int)


def explain_rows(explainer: Explainer, rows: list[dict[str, Any]], budget: float | None) -> list[Any]:
    """An explanation of every row."""
    return [explainer.explain(row, budget=budget) for row in rows]


def measure(kind: str, columns: int, used: int, count: int, repeats: int, budget: float | None) -> dict[str, Any]:
    """Make the explainer, explain some denied rows, check one of the rules."""
    table, labels = make_table(columns)
    seen = table.copy()
    seen.iloc[:, used:] = 0.0
    model = MODELS[kind]().fit(seen, labels)
    explainer, construction = timed(lambda: Explainer(model, table, desired=1, progress=False))
    denied = np.flatnonzero(~explainer.outcomes)[: count + 1]
    rows = [table.iloc[place].to_dict() for place in denied.tolist()]
    explain_rows(explainer, rows[:1], budget)
    found = explain_rows(explainer, rows[1:], budget)
    taken = best(lambda: explain_rows(explainer, rows[1:], budget), repeats)
    asking = best(lambda: model.predict(table.iloc[:1]), 20)
    result, checking = timed(lambda: check(found[0], model, table))
    return {
        "model": kind,
        "columns": columns,
        "used": columns - len(explainer.unused_features),
        "construction s": construction.cpu,
        "ms per row": 1e3 * taken.cpu / len(found),
        "asking the model ms": 1e3 * asking.cpu,
        "parts": float(np.mean([len(one.rule.components) for one in found])),
        "minimum": f"{sum(one.minimum for one in found)} of {len(found)}",
        "document kB": len(found[0].to_json()) / 1e3,
        "check": f"{result.status}, {checking.cpu:.1f} s",
    }


def main() -> None:
    """Both comparisons."""
    options = parser(__doc__).parse_args()
    count, repeats = (2, 1) if options.quick else (20, 5)
    pairs = []
    for kind in ("forest", "boosting"):
        narrow, wide = (measure(kind, columns, USED, count, repeats, None) for columns in (USED, WIDE))
        ratio = {"wide / narrow": wide["ms per row"] / narrow["ms per row"]}
        less = [one["ms per row"] - 2 * one["asking the model ms"] for one in (narrow, wide)]
        pairs += [narrow | {"wide / narrow": None, "without the model": None}]
        pairs += [wide | ratio | {"without the model": less[1] / less[0]}]
    show(f"{WIDE} columns of which {USED} are used, against {USED}", pairs)
    budget = 1.0 if options.quick else 10.0
    many = [measure(kind, used, used, 2, 1, budget) for kind in ("forest", "linear") for used in (128, 300)]
    show(f"Many used columns, {budget:g} s per row", many)
    store(options.json, "width", {"unused columns": pairs, "used columns": many})


if __name__ == "__main__":
    main()

"""SBA with 30k to 900k past rows: does explanation time grow faster than the one pass that turns history into duals?

    IRONRULE_DATA=<folder> python -m benchmarks.sba_growth [--quick] [--json FILE]

One decision tree, trained on a sample, is explained as a black box on histories of growing size, the same rows every
time. Every history is a prefix of one shuffled table, and the space is that of the history. Measured apart: making the
explainer (encoding and asking the model about all rows), one pass over the desired rows, and one explanation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import sba
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import UNTIMED, Taken, best, timed
from benchmarks.tree import Tree, tree_of
from ironrule import Explainer, Space
from ironrule.rule.duals import count_distinct_duals
from ironrule.rule.instance_components import build_instance_components

SIZES = (30_000, 100_000, 300_000, 900_000)
TRAINING_ROWS = 50_000
PASSES = 7
GROWING = ("explanation s", "explanation CPU s", "pass s", "pass CPU s", "construction s")


def coded() -> tuple[pd.DataFrame, pd.Series, list[str]]:
    """SBA shuffled, texts as numbers (so that the model costs little), and the names of those nominal columns."""
    table, target = sba()
    order = np.random.default_rng(0).permutation(len(table))
    nominal = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    numbers = {name: pd.factorize(table[name], sort=True)[0] for name in nominal}
    table = table.assign(**numbers).iloc[order].reset_index(drop=True)
    return table, target.iloc[order].reset_index(drop=True), nominal


def trained(table: pd.DataFrame, target: pd.Series) -> Tree:
    """A decision tree on the first rows."""
    fitted = DecisionTreeClassifier(max_depth=12, min_samples_leaf=20, random_state=0)
    fitted.fit(table.iloc[:TRAINING_ROWS], target.iloc[:TRAINING_ROWS])
    return tree_of(fitted, tuple(table.columns))


def pass_time(explainer: Explainer, history: pd.DataFrame, rows: list[int]) -> tuple[Taken, float]:
    """One dual pass over the desired part of the history, and how many distinct duals come: medians over rows."""
    space = explainer.space
    columns = space.encode(history, progress=False).take(explainer.outcomes).columns
    taken, counts = [], []
    for row in rows:
        relevant = build_instance_components(space, space.encode_row(history.iloc[row].to_dict()))
        counts.append(len(count_distinct_duals(columns, relevant.low, relevant.high).counts))
        taken.append(best(lambda r=relevant: count_distinct_duals(columns, r.low, r.high), PASSES))
    return median(taken), float(np.median(counts))


def median(taken: list[Taken]) -> Taken:
    """The median by each clock."""
    return Taken(float(np.median([t.wall for t in taken])), float(np.median([t.cpu for t in taken])))


def measure(tree: Tree, history: pd.DataFrame, nominal: list[str], rows: list[int], algorithm: str) -> dict[str, Any]:
    """One line of the table."""
    explainer, construction = timed(
        lambda: Explainer(
            tree, history, space=Space.infer(history, nominal=nominal, progress=False), progress=False, domain="seen"
        )
    )
    explainer.explain(rows[0], algorithm=algorithm)
    explained = [timed(lambda r=row: explainer.explain(r, algorithm=algorithm, budget=UNTIMED)) for row in rows]
    explanation = median([taken for _, taken in explained])
    passed, duals = pass_time(explainer, history, rows)
    return {
        "history rows": len(history),
        "construction s": construction.wall,
        "explanation s": explanation.wall,
        "explanation CPU s": explanation.cpu,
        "evaluations": float(np.median([e.statistics.evaluations for e, _ in explained])),
        "pass s": passed.wall,
        "pass CPU s": passed.cpu,
        "distinct duals": duals,
    }


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, help="rows explained per size (15; quick: 3)")
    made.add_argument("--algorithm", default="greedy_cf")
    given = made.parse_args()
    table, target, nominal = coded()
    tree = trained(table, target)
    sizes = SIZES[:2] if given.quick else SIZES
    undesired = np.flatnonzero(~tree(table.iloc[: sizes[0]]))
    count = given.rows or (3 if given.quick else 15)
    rows = np.random.default_rng(1).choice(undesired, count, replace=False).tolist()
    results = [measure(tree, table.iloc[:size], nominal, rows, given.algorithm) for size in sizes]
    show(f"SBA, {given.algorithm}, median of {count} rows", results)
    growth = {name: results[-1][name] / results[0][name] for name in GROWING}
    show(f"Growth from {results[0]['history rows']} to {results[-1]['history rows']} rows", [growth])
    store(given.json, "sba_growth", {"algorithm": given.algorithm, "rows": results, "growth": growth})


if __name__ == "__main__":
    main()

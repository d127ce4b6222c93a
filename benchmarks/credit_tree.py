"""Credit with the paper's own decision tree, as a black box: how many of the rules found are truly globally consistent?

    IRONRULE_DATA=<folder> python -m benchmarks.credit_tree [--quick] [--json FILE]

The judge is exact and independent of every oracle: a rule is consistent if and only if its box meets no desired leaf's
box (see benchmarks/tree.py). Before it judges, the boxes are compared with the tree's decision on all past rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import credit, folder
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import UNTIMED, Taken, timed
from benchmarks.tree import LeafBoxes, Tree, desired_leaves, read_tree, rule_bounds
from ironrule import Explainer, Rule, Unrefuted

ALGORITHMS = ("greedy_cf", "genetic_cf", "genetic")
SHOWN = ("algorithm", "row", "rule", "verdict", "leaf node")  # of a failure; the record has its counterfactual too


@dataclass(frozen=True, slots=True)
class Judged:
    """One explanation and what the exact boxes say of it."""

    row: int
    rule: Rule
    verdict: str
    leaves: tuple[int, ...]  # the desired leaves that the rule's box meets
    redundant: bool
    taken: Taken
    oracle_calls: int
    evaluations: int


def judge(boxes: LeafBoxes, explainer: Explainer, row: int, algorithm: str) -> Judged:
    """Explain a row, then hold the rule against every desired leaf."""
    explanation, taken = timed(lambda: explainer.explain(row, algorithm=algorithm, budget=UNTIMED))
    rule, did = explanation.rule, explanation.statistics
    leaves = tuple(boxes.exceptions(rule).tolist())
    verdict = type(explanation.verdict).__name__
    if isinstance(explanation.verdict, Unrefuted) and explanation.statistics.stopped:
        verdict += f" ({explanation.statistics.stopped})"
    redundant = not leaves and has_redundant_component(boxes, rule)
    return Judged(row, rule, verdict, leaves, redundant, taken, did.oracle_calls, did.evaluations)


def has_redundant_component(boxes: LeafBoxes, rule: Rule) -> bool:
    """Whether a consistent rule stays consistent without some component."""
    parts = rule.components
    shorter = (replace(rule, components=parts[:i] + parts[i + 1 :]) for i in range(len(parts)))
    return any(len(boxes.exceptions(rule)) == 0 for rule in shorter)


def check_boxes(boxes: LeafBoxes, tree: Tree, table: pd.DataFrame) -> None:
    """The boxes must decide every past row as the tree does; ends the program if they do not."""
    codes = boxes.space.encode(table).points()
    inside = np.zeros(len(codes), dtype=np.bool_)
    for low, high in zip(boxes.low, boxes.high, strict=True):
        inside |= ((codes >= low) & (codes <= high)).all(axis=1)
    if (inside != tree(table)).any():
        raise SystemExit("the leaf boxes must agree with the tree on every past row, but they do not")


def summary(algorithm: str, done: list[Judged]) -> dict[str, Any]:
    """One line of the table."""
    consistent = [j for j in done if not j.leaves]
    wall = [j.taken.wall for j in done]
    return {
        "algorithm": algorithm,
        "rows": len(done),
        "consistent": len(consistent),
        "share": len(consistent) / len(done),
        "redundant": sum(j.redundant for j in done),
        "cardinality": float(np.mean([j.rule.cardinality for j in done])),
        "median s": float(np.median(wall)),
        "median CPU s": float(np.median([j.taken.cpu for j in done])),
        "longest s": max(wall),
        "oracle calls": float(np.mean([j.oracle_calls for j in done])),
        "evaluations": float(np.mean([j.evaluations for j in done])),
    }


def named_failure(boxes: LeafBoxes, tree: Tree, algorithm: str, failed: Judged) -> dict[str, Any]:
    """A rule that does not hold, with a point that it covers and the tree accepts."""
    leaf = failed.leaves[0]
    example = boxes.example(failed.rule, leaf)
    frame = pd.DataFrame([example])
    if not (tree(frame)[0] and failed.rule.covers(frame)[0]):
        raise SystemExit("a failure's counterfactual must be desired and covered by the rule, but it is not")
    return {
        "algorithm": algorithm,
        "row": failed.row,
        "rule": " and ".join(failed.rule.conditions),
        "verdict": failed.verdict,
        "desired leaves met": len(failed.leaves),
        "leaf node": int(boxes.nodes[leaf]),
        "share of the rule's box": share_of_box(boxes, failed),
        "counterfactual": example,
    }


def share_of_box(boxes: LeafBoxes, failed: Judged) -> float:
    """How much of the rule's box the desired leaves take: the share of exceptions."""
    low, high = rule_bounds(boxes.space, failed.rule)
    leaves = list(failed.leaves)
    widths = np.minimum(boxes.high[leaves], high) - np.maximum(boxes.low[leaves], low) + 1
    return float(np.exp(np.log(widths) - np.log(high - low + 1)[None, :]).prod(axis=1).sum())


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("--rows", type=int, help="undesired rows explained (200; quick: 10)")
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args()
    tree = read_tree(folder() / "credit" / "tree.npz")
    table = credit()[0][list(tree.columns)]
    explainer = Explainer(tree, table, domain="seen")
    boxes = desired_leaves(tree, explainer.space)
    check_boxes(boxes, tree, table)
    undesired = np.flatnonzero(~explainer.outcomes)
    count = given.rows or (10 if given.quick else 200)
    chosen = np.random.default_rng(given.seed).choice(undesired, count, replace=False).tolist()
    rows, failures = [], []
    for algorithm in ALGORITHMS:
        explainer.explain(chosen[0], algorithm=algorithm)  # compiles
        done = [judge(boxes, explainer, row, algorithm) for row in chosen]
        rows.append(summary(algorithm, done))
        failures += [named_failure(boxes, tree, algorithm, j) for j in done if j.leaves]
    show(f"Credit, the authors' tree ({len(boxes.low)} desired leaves), as a black box", rows)
    for failure in failures:
        print("not consistent: " + "; ".join(f"{name} {failure[name]}" for name in SHOWN))
    store(given.json, "credit_tree", {"rows": rows, "failures": failures})


if __name__ == "__main__":
    main()

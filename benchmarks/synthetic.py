"""Synthetic rule classifiers on Credit, as in the paper: does a search recover exactly the rule that decides?

    IRONRULE_DATA=<folder> python -m benchmarks.synthetic [--quick] [--json FILE]

A classifier denies whoever satisfies a random rule, made of components of a random past row that each exclude
something. The product space has a point that breaks any one component and keeps all others, so every component is
needed and no other rule without redundant components is consistent: a rule found is judged by comparing sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.data import credit
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import UNTIMED, Taken, timed
from ironrule import Explainer, Space

CARDINALITIES = (2, 4, 6, 8)
ALGORITHMS = ("greedy_cf", "genetic_cf")
Part = tuple[str, str, Any]


@dataclass(frozen=True, slots=True)
class RuleClassifier:
    """Denies (0) whoever satisfies all parts; everybody else is accepted (1)."""

    parts: frozenset[Part]

    def __call__(self, table: pd.DataFrame) -> npt.NDArray[np.int64]:
        """0 or 1 for every row."""
        denied = np.ones(len(table), dtype=np.bool_)
        for name, op, value in self.parts:
            column = table[name].to_numpy()
            denied &= column <= value if op == "<=" else column >= value
        return 1 - denied.astype(np.int64)


def random_classifier(rng: np.random.Generator, space: Space, row: pd.Series, cardinality: int) -> RuleClassifier:
    """A rule of the row's own components, drawn from those that exclude something."""
    usable: list[Part] = [
        (feature.name, op, row[feature.name])
        for feature in space.features
        for op, end in (("<=", feature.values[-1]), (">=", feature.values[0]))
        if row[feature.name] != end
    ]
    chosen = rng.choice(len(usable), cardinality, replace=False)
    return RuleClassifier(frozenset(usable[place] for place in chosen))


def judged(found: frozenset[Part], true: frozenset[Part]) -> str:
    """Exact; redundant: consistent, with needless components; or inconsistent: a needed component is not there."""
    return "exact" if found == true else "redundant" if found > true else "inconsistent"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rule searched for."""

    cardinality: int
    algorithm: str
    outcome: str
    taken: Taken
    evaluations: int
    row: int
    found: str
    true: str


def attempts(table: pd.DataFrame, each: int, seed: int) -> Iterator[Attempt]:
    """Every algorithm on ``each`` random classifiers per cardinality."""
    rng, space = np.random.default_rng(seed), Space.infer(table)
    for cardinality in CARDINALITIES:
        for _ in range(each):
            row = int(rng.integers(len(table)))
            classifier = random_classifier(rng, space, table.iloc[row], cardinality)
            explainer = Explainer(classifier, table, desired=1, space=space, domain="seen")
            for algorithm in ALGORITHMS:
                yield attempt(explainer, classifier, row, algorithm)


def attempt(explainer: Explainer, classifier: RuleClassifier, row: int, algorithm: str) -> Attempt:
    """Explain the row and compare."""
    explanation, taken = timed(lambda: explainer.explain(row, algorithm=algorithm, budget=UNTIMED))
    found = frozenset((c.feature, c.op, c.value) for c in explanation.rule.components)
    return Attempt(
        len(classifier.parts),
        algorithm,
        judged(found, classifier.parts),
        taken,
        explanation.statistics.evaluations,
        row,
        _text(found),
        _text(classifier.parts),
    )


def _text(parts: frozenset[Part]) -> str:
    return " and ".join(f"{name} {op} {value:g}" for name, op, value in sorted(parts))


def summary(done: list[Attempt], cardinality: int, algorithm: str) -> dict[str, Any]:
    """One line of the table."""
    group = [a for a in done if a.cardinality == cardinality and a.algorithm == algorithm]
    counts = Counter(a.outcome for a in group)
    wall = [a.taken.wall for a in group]
    return {
        "cardinality": cardinality,
        "algorithm": algorithm,
        "rules": len(group),
        **{outcome: counts[outcome] for outcome in ("exact", "redundant", "inconsistent")},
        "median s": float(np.median(wall)),
        "median CPU s": float(np.median([a.taken.cpu for a in group])),
        "longest s": max(wall),
        "evaluations": float(np.mean([a.evaluations for a in group])),
    }


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("--each", type=int, help="classifiers per cardinality (200; quick: 5)")
    made.add_argument("--seed", type=int, default=0)
    given = made.parse_args()
    table, _ = credit()
    warm = RuleClassifier(frozenset({("isMale", "<=", table.iloc[0]["isMale"])}))
    for algorithm in ALGORITHMS:  # compiles, so that no measured explanation does
        Explainer(warm, table, desired=1, domain="seen").explain(0, algorithm=algorithm)
    done = list(attempts(table, given.each or (5 if given.quick else 200), given.seed))
    rows = [summary(done, cardinality, algorithm) for cardinality in CARDINALITIES for algorithm in ALGORITHMS]
    show("Synthetic rules on Credit: how often the exact rule is recovered", rows)
    failures = [a for a in done if a.outcome != "exact"]
    for a in failures:
        print(f"{a.outcome}: {a.algorithm}, row {a.row}: found [{a.found}], true [{a.true}]")
    named = [{name: getattr(a, name) for name in ("algorithm", "outcome", "row", "found", "true")} for a in failures]
    store(given.json, "synthetic", {"rows": rows, "failures": named})


if __name__ == "__main__":
    main()

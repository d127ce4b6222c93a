"""Synthetic classifiers on Credit (the paper's Figures 3 and 5): is exactly the rule recovered that decides?

A classifier denies whoever satisfies a random rule, made of components of a random past row that each exclude
something. The product space has a point that breaks any one component and keeps all others, so every component is
needed and no other rule without redundant components is consistent. 1,000 classifiers each of cardinality 2, 4, 6, 8;
"row" counts classifiers. The paper's three categories are kept beside the judge's five: ``recovery`` compares sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import credit
from benchmarks.paper.common import panels, usual_pictures, usual_tables
from benchmarks.paper.experiment import Experiment, Record, Tables, Task
from benchmarks.paper.goals import Goal
from benchmarks.paper.methods import label, methods
from benchmarks.paper.pictures import Picture, Stacked
from benchmarks.paper.rows import Warmth, explained
from benchmarks.paper.subject import Subject
from benchmarks.paper.tables import good, grouped
from benchmarks.synthetic import random_classifier
from ironrule import Component, Feature, Rule, RuleClassifier, Space

NAME, TITLE = "synthetic", "Synthetic classifiers on Credit"
CARDINALITIES = (2, 4, 6, 8)
BUDGET, QUICK_BUDGET = 60.0, 10.0
COUNTS = {
    "minimum": 1000,
    "greedy_cf_exact": 1000,
    "genetic_cf_exact": 1000,
    "greedy_cf": 1000,
    "genetic_cf": 1000,
    "genetic": 1000,
    "min_set_cover": 1000,
    "anchor": 1000,
}
QUICK_ROWS = 2
RECOVERY = ("inconsistent", "redundant", "exact")


@dataclass(frozen=True, slots=True)
class Planted:
    """A classifier that is a rule, and the past row that it was made from."""

    rule: Rule
    row: int

    @property
    def parts(self) -> frozenset[str]:
        """The components as text."""
        return frozenset(f"{c.feature} {c.op} {c.value}" for c in self.rule.components)


def planted(table: pd.DataFrame, space: Space, cardinality: int, number: int) -> Planted:
    """The classifier of a number: the same each time, whatever was drawn before."""
    rng = np.random.default_rng((cardinality, number))
    row = int(rng.integers(len(table)))
    drawn = random_classifier(rng, space, table.iloc[row], cardinality)
    parts = sorted(drawn.parts, key=lambda part: (space.index(part[0]), part[1]))
    return Planted(Rule(tuple(_component(space[name], op, value) for name, op, value in parts)), row)


def _component(feature: Feature, op: Any, value: Any) -> Component:
    return Component.from_feature(feature, op, feature.values[feature.code_by_value[value]])


@dataclass(slots=True)
class State:
    """The table, its space, and the classifier looked at last: all methods come to it one after the other."""

    table: pd.DataFrame
    space: Space
    cardinality: int
    warmth: Warmth = field(default_factory=Warmth)
    last: tuple[int, Planted, Subject] | None = None

    def classifier(self, number: int, task: Task) -> tuple[Planted, Subject]:
        """A classifier and its subject."""
        if self.last is None or self.last[0] != number:
            made = planted(self.table, self.space, self.cardinality, number)
            model = RuleClassifier((made.rule,))
            subject = Subject(f"{task.name}, {number}", model, self.table, 1, task.q, task.s, self.space)
            self.last = (number, made, subject)
        return self.last[1], self.last[2]


def tasks(quick: bool) -> list[Task]:
    """One task per cardinality."""
    counts = {method: QUICK_ROWS if quick else count for method, count in COUNTS.items() if method in methods()}
    budget = QUICK_BUDGET if quick else BUDGET
    return [Task(f"cardinality {one}", counts, budget, facts={"cardinality": one}) for one in CARDINALITIES]


def prepare(task: Task) -> tuple[State, list[int]]:
    """The table and its space."""
    table = credit()[0]
    state = State(table, Space.infer(table, progress=False), task.facts["cardinality"])
    return state, list(range(max(task.counts.values())))


def measure(state: State, task: Task, method: str, rows: Sequence[int]) -> list[Record]:
    """One record per classifier, with what was recovered."""
    done = []
    for number in rows:
        made, subject = state.classifier(number, task)
        (record,) = explained(state.warmth, subject, method, [made.row], task.budget)
        done.append(record | {"planted": " and ".join(sorted(made.parts)), "recovery": recovery(record, made)})
    return done


def recovery(record: Record, made: Planted) -> str | None:
    """Exact; redundant: all that is needed and more; inconsistent: something needed is not there."""
    if record.get("rule") is None:
        return None
    found = frozenset(record["rule"].split(" and ")) - {""}
    return "exact" if found == made.parts else "redundant" if found > made.parts else "inconsistent"


def recovered(records: Sequence[Record]) -> dict[str, float]:
    """Percentages of the paper's three categories."""
    known = [record["recovery"] for record in records if record.get("recovery") is not None]
    return {one: 100.0 * known.count(one) / max(1, len(known)) for one in RECOVERY}


EXACTLY = ("minimum", "greedy_cf_exact", "genetic_cf_exact", "greedy_cf", "genetic_cf")
GOALS = (Goal("exactly the planted rule", EXACTLY, lambda records: recovered(records)["exact"]),)


def tables(records: Sequence[Record]) -> Tables:
    """What was recovered, then the usual."""
    lines = [
        {"task": task, "method": label(method), "classifiers": len(group)} | recovered(good(group))
        for (task, method), group in grouped(records).items()
    ]
    goals = [line for goal in GOALS for line in goal.lines(records)]
    return {"The planted rule recovered, %": lines} | usual_tables(records) | {"Goals": goals}


def pictures(records: Sequence[Record]) -> list[Picture]:
    """What was recovered, then the usual."""
    shown = panels(records, lambda group: list(recovered(group).values()))
    first = Stacked(f"{NAME}-recovery", f"{TITLE}: the planted rule recovered", "classifiers, %", RECOVERY, shown)
    return [first, *usual_pictures(NAME, TITLE, records)]


EXPERIMENT = Experiment(
    NAME,
    TITLE,
    tasks,
    prepare,
    measure,
    tables,
    pictures,
    settings=lambda task, method: methods()[method].settings(task),
    batch=lambda method: methods()[method].batch,
)

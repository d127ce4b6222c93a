"""Ablations: what each choice is worth, one changed at a time.

The oracle (GeCo against the exact one under the same algorithm), the samples s that the genetic algorithms judge
candidates by, the number q of candidates kept, and the choices in which the authors' public code differs from their
paper. The subjects are those of the real experiment without the stand-in, so that every rule is judged by proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.paper.common import panels, usual_pictures, usual_tables
from benchmarks.paper.experiment import Experiment, Record, Task
from benchmarks.paper.methods import methods
from benchmarks.paper.methods_variants import (
    AUTHORS_BASES,
    AUTHORS_NAMES,
    BY_KEPT,
    BY_SAMPLES,
    LABELS,
    VARIANTS,
    Variant,
)
from benchmarks.paper.pictures import Lines, Panel, Picture, Spread, Stacked
from benchmarks.paper.real import BUDGET, QUICK_BUDGET, measure, prepare
from benchmarks.paper.tables import CLASSES, CONSISTENT, column, good, quantile, shares

NAME, TITLE = "ablations", "Ablations"
ORACLES = ("greedy_cf", "greedy_cf_exact", "genetic_cf", "genetic_cf_exact", "minimum_geco", "minimum")
ROWS = {"Credit": 200, "Adult": 200, "FICO": 30}
QUICK_NAMES = (
    "greedy_cf",
    "greedy_cf_exact",
    "minimum",
    "genetic s=10",
    "genetic s=1000",
    "greedy_cf_exact q=5",
    "greedy_cf_exact q=1000",
    "genetic_cf_exact history rows",
    "greedy_cf_exact 5 of 20 duals",
)


def tasks(quick: bool) -> list[Task]:
    """Three classifiers with all variants; quick: some variants, a row each."""
    names = [*ORACLES, "genetic", *VARIANTS, *AUTHORS_NAMES]
    if quick:
        names = list(QUICK_NAMES)
    budget = QUICK_BUDGET if quick else BUDGET
    return [Task(one, dict.fromkeys(names, 1 if quick else rows), budget) for one, rows in ROWS.items()]


def pictures(records: Sequence[Record]) -> list[Picture]:
    """The oracle as bars and boxes; s and q as lines."""
    oracles = [record for record in records if record["method"] in ORACLES]
    return [
        Stacked(
            f"{NAME}-oracle-quality",
            "GeCo against the exact oracle: quality of the rules",
            "rules, %",
            CLASSES,
            panels(oracles, lambda group: list(shares(group).values())),
        ),
        Spread(
            f"{NAME}-oracle-runtime",
            "GeCo against the exact oracle: run time",
            "CPU seconds per row",
            panels(oracles, lambda group: column(group, "cpu")),
            log=True,
        ),
        *_authors(records),
        *_lines(records, "samples", "samples s per candidate", BY_SAMPLES),
        *_lines(records, "kept", "candidates kept q", BY_KEPT),
    ]


def _authors(records: Sequence[Record]) -> list[Picture]:
    """The authors' choices beside the paper's, base by base."""
    names = [name for base in AUTHORS_BASES for name in (base, *(n for n in AUTHORS_NAMES if _base(n) == base))]
    ranked = {name: place for place, name in enumerate(names)}
    chosen = sorted((r for r in records if r["method"] in ranked), key=lambda r: ranked[r["method"]])
    title = "Where the authors' program differs from their paper"
    return usual_pictures(f"{NAME}-authors", title, chosen)


def _base(name: str) -> str:
    return name.split(" ", 1)[0]


def _lines(records: Sequence[Record], name: str, across: str, variants: Sequence[Variant]) -> list[Picture]:
    """Consistent rules, minimum rules and seconds against a parameter."""
    places = sorted({variant.value for variant in variants})
    measures: tuple[tuple[str, str, str, Callable[[list[Record]], float], bool], ...] = (
        ("consistent", "Globally consistent rules", "rules, %", _consistent, False),
        ("minimum", "Minimum rules", "rules, %", lambda group: shares(group)["minimum"], False),
        ("runtime", "Run time", "CPU seconds per row, median", lambda group: quantile(group, "cpu", 0.5) or 0.0, True),
    )
    return [
        Lines(f"{NAME}-{name}-{one}", f"{title} by {across}", unit, across, places, _panels(records, variants, of), log)
        for one, title, unit, of, log in measures
    ]


def _consistent(group: list[Record]) -> float:
    return sum(shares(group)[one] for one in CONSISTENT)


def _panels(records: Sequence[Record], variants: Sequence[Variant], of: Callable[[list[Record]], float]) -> list[Panel]:
    made = []
    places = sorted({variant.value for variant in variants})
    for task in dict.fromkeys(record["task"] for record in records):
        groups = {v: [r for r in good(records) if r["task"] == task and r["method"] == v.name] for v in variants}
        lines = {
            LABELS[method]: [_at(groups, method, place, of) for place in places]
            for method in dict.fromkeys(variant.method for variant in variants)
        }
        made.append(Panel(task, {name: line for name, line in lines.items() if any(y == y for y in line)}))
    return made


def _at(groups: dict[Variant, list[Record]], method: str, place: float, of: Callable[[list[Record]], float]) -> float:
    """The measure of a variant, NaN where it was not run."""
    group = next((g for v, g in groups.items() if v.method == method and v.value == place and g), None)
    return float("nan") if group is None else of(group)


EXPERIMENT = Experiment(
    NAME,
    TITLE,
    tasks,
    prepare,
    measure,
    usual_tables,
    pictures,
    settings=lambda task, method: methods()[method].settings(task),
)

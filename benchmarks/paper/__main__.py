"""The command line: run experiments, keep their records, print tables, draw figures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.paper.experiment import MODULES, Experiment, Record, available, load
from benchmarks.paper.journal import Journal
from benchmarks.paper.methods import methods
from benchmarks.paper.runner import Asked, Run
from benchmarks.paper.shown import Shown
from benchmarks.paper.store import read_records, summary, write_json, write_records
from benchmarks.report import show

RESULTS = Path(__file__).parents[1] / "results"


def arguments() -> argparse.ArgumentParser:
    """What can be asked for."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.paper", description="The paper's evaluation, re-run.")
    made.add_argument("name", choices=(*MODULES, "figures", "all"), help="an experiment; figures: redraw what is there")
    made.add_argument("--quick", action="store_true", help="few rows, to see that everything runs")
    made.add_argument("--out", type=Path, help="where results go (benchmarks/results; quick: its folder quick)")
    made.add_argument("--workers", type=int, default=2, help="processes (2)")
    made.add_argument("--rows", type=int, help="at most so many rows per task and method")
    made.add_argument("--only", default="", help="only tasks with this in their name")
    made.add_argument("--algorithms", default="", help="only these methods, separated by commas")
    made.add_argument("--retry", action="store_true", help="ask again what failed before")
    made.add_argument("--any-engine", action="store_true", help="keep answers of engines other than this one")
    return made


def asked_for(given: argparse.Namespace) -> Asked:
    """The same as a value."""
    algorithms = tuple(name for name in given.algorithms.split(",") if name)
    unknown = [name for name in algorithms if name not in methods()]
    if unknown and given.name not in ("runtimes", "modern"):
        raise SystemExit(f"--algorithms must name some of {', '.join(methods())}, but {unknown[0]!r} came")
    out = given.out or (RESULTS / "quick" if given.quick else RESULTS)
    return Asked(out, given.quick, given.workers, given.rows, given.only, algorithms, given.retry, given.any_engine)


def run(experiment: Experiment, asked: Asked) -> bool:
    """Run, keep, print, draw; whether nothing failed."""
    shown = Shown(experiment.name)
    journal = Journal.at(asked.out / f"{experiment.name}.jsonl", asked.any_engine)
    records = Run(experiment, asked, journal, shown).everything()
    tables = experiment.tables(records)
    for title, rows in tables.items():
        show(f"{experiment.title}. {title}", rows)
    failed = [record for record in records if record.get("failed")]
    for record in failed[:20]:
        print(f"failed: {record['task']}, {record['method']}, row {record['row']}: {record['failed'].splitlines()[-1]}")
    if records:
        write_records(asked.out / f"{experiment.name}.parquet", records)
        write_json(
            asked.out / f"{experiment.name}.json", summary(experiment, records, tables, shown.failures, asked.quick)
        )
        draw(experiment, records, asked.out)
    return not failed and not shown.failures


def draw(experiment: Experiment, records: list[Record], out: Path) -> None:
    """All figures of an experiment."""
    from benchmarks.paper.drawing import save

    for picture in experiment.pictures(records):
        for file in save(picture, out / "figures"):
            print(f"drawn: {file}")


def main() -> int:
    """Run what was asked for."""
    given = arguments().parse_args()
    asked = asked_for(given)
    if given.name == "figures":
        for name in available():
            file = asked.out / f"{name}.parquet"
            if file.exists():
                draw(load(name), read_records(file), asked.out)
        return 0
    names = available() if given.name == "all" else [given.name]
    try:
        well = [run(load(name), asked) for name in names]
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        return 130
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())

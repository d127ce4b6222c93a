"""What a run leaves: records as Parquet, tables with machine and versions as JSON, figures as PNG and SVG."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.paper.engine import engine
from benchmarks.paper.experiment import Experiment, Record, Tables
from benchmarks.report import machine


def write_records(file: Path, records: Sequence[Record]) -> None:
    """All records; a column for every name that any of them has."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [_plain(record.get(name)) for record in records] for name in names}
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file, compression="zstd")


def _plain(value: object) -> object:
    return json.dumps(value) if isinstance(value, list | dict) else value


def read_records(file: Path) -> list[Record]:
    """What :func:`write_records` wrote, without what was not there."""
    rows = pq.read_table(file).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def summary(
    experiment: Experiment, records: Sequence[Record], tables: Tables, problems: Sequence[str], quick: bool
) -> Record:
    """The JSON: tables, failures, machine and versions."""
    failures = [
        {name: record[name] for name in ("task", "method", "row")} | {"failed": _last_line(record["failed"])}
        for record in records
        if record.get("failed")
    ]
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "quick": quick,
        "engine": engine(),
        "machine": machine(),
        "records": len(records),
        "tables": tables,
        "failures": failures,
        "not prepared": list(problems),
    }


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def write_json(file: Path, data: Record) -> None:
    """Indented, so that a person can read it."""
    file.write_text(json.dumps(data, indent=1, default=float) + "\n", encoding="utf-8")

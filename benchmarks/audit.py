"""The audit log: how long `ironrule audit verify` takes for logs of several lengths, and how much memory.

    python -m benchmarks.audit [--records 10000 100000] [--quick] [--json FILE]

Every record holds the explanation of a row of the bundled data, certificate and all. The log is an SQLite file with
heads, written in one transaction; the command runs in fresh processes, and the shortest of three runs counts.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import parser, show, store
from ironrule.cli.commands.demo import DESIRED_CLASS, build_demo_model
from ironrule.explain.explainer import Explainer
from ironrule.server.audit.database import LogDatabase
from ironrule.server.audit.heads import format_head
from ironrule.server.audit.key import AuditKey, create_key
from ironrule.server.audit.record import AuditEntry, AuditRecord, ChainEnd
from ironrule.server.audit.schema import INSERTION

DIFFERENT = 50  # explanations, which the records repeat
TIME = "2026-11-18T10:00:00.000000+00:00"


def build_entries() -> list[AuditEntry]:
    """Explanations of the first denied rows."""
    model, data, space = build_demo_model()
    explainer = Explainer(model, data, desired=DESIRED_CLASS, space=space)
    entries = []
    for row in np.flatnonzero(~np.asarray(explainer.outcomes))[:DIFFERENT]:
        found = explainer.explain(int(row), progress=False)
        said = {"rule": str(found.rule), "verdict": "proven", "document": found.to_dict()}
        entries.append(AuditEntry("ann", "explanation", int(row), found.space, found.model, **said))
    return entries


def write_log(url: str, heads: Path, entries: list[AuditEntry], count: int, key: AuditKey) -> None:
    """A log as a server would have written it, in one transaction."""
    log, end = LogDatabase(url, create=True), ChainEnd()
    with log.write() as connection, heads.open("w") as kept:
        for entry in itertools.islice(itertools.cycle(entries), count):
            record = AuditRecord.from_entry(entry, TIME, end, key)
            connection.execute(INSERTION, record.facts | {"compressed_document": record.compressed_document})
            end = record.end
            kept.write(f"{format_head(end)}\n")
    log.close()


MEASURING = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def measure_command(command: list[str]) -> list[float]:
    """Seconds on the wall, CPU seconds, and MiB at most, of a fresh process; a small process starts it, since the
    memory of the one that starts it counts.
    """
    ran = subprocess.run([sys.executable, "-c", MEASURING, *command], check=True, capture_output=True, text=True)
    figures: list[float] = json.loads(ran.stdout)
    return figures


def measure_log(entries: list[AuditEntry], count: int, repeats: int) -> dict[str, Any]:
    """The figures of one length."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "other").mkdir()
        key_file, heads, path = folder / "other" / "key", folder / "other" / "heads", folder / "audit.sqlite"
        write_log(f"sqlite:///{path}", heads, entries, count, create_key(key_file))
        command = [sys.executable, "-m", "ironrule", "audit", "verify", "--audit", f"sqlite:///{path}"]
        command += ["--audit-key", str(key_file), "--heads", str(heads)]
        runs = [measure_command(command) for _ in range(repeats)]
        row: dict[str, Any] = {"records": count, "MB": path.stat().st_size / 1e6}
        return row | {"s": min(r[0] for r in runs), "CPU s": min(r[1] for r in runs), "MiB": max(r[2] for r in runs)}


def main() -> None:
    """Measure all lengths, and how the time grows from one to the next."""
    made = parser(__doc__)
    made.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    options = made.parse_args()
    entries = build_entries()
    empty = measure_log(entries, 1, 1 if options.quick else 3)
    counts = [100, 1000] if options.quick else options.records
    rows = [empty, *(measure_log(entries, count, 1 if options.quick else 3) for count in counts)]
    for row in rows:
        row["CPU s beyond one record"] = row["CPU s"] - empty["CPU s"]
    show("ironrule audit verify --heads", rows)
    store(options.json, "audit", rows)


if __name__ == "__main__":
    main()

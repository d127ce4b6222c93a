"""Batches under random kills, interruptions, a full disk and damaged files.

``ironrule batch`` explains the denied rows of German credit under XGBoost 100 x 5. A run is disturbed at a random
moment and started again, as a user would do, until the folder is complete; then it must say what an undisturbed run
says, times aside. Kinds of disturbance:

    kill -9       of the process, or of one of its workers
    SIGINT, SIGTERM  which must end the process within two seconds, with exit code 130 or 143
    full disk     no file can grow beyond some size (RLIMIT_FSIZE): the run must end with exit code 2
    damage        a part is altered, cut short, removed or copied before the run starts
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks.soak.subject import Disturbance
from ironrule import Batch
from ironrule.data import load_german

MAX_SECONDS = 2.0  # from a signal to the end of the process
PATIENCE = 120.0
ROWS = 200
WORKERS = 2
FILE_LIMITS = (8_000, 20_000, 50_000, 100_000)  # bytes: less than the parts, or the file for workers, can have
# Finished rows are written every fifth of a second instead of every five, so that more kills fall into writing.
PROGRAM = (
    "import sys; from ironrule.explain.batch import run; run.FLUSH_SECONDS = 0.2; "
    "from ironrule.cli import run_process; sys.exit(run_process())"
)
TIMES = ("seconds", "operator_seconds", "compile_seconds")


def write_inputs(folder: Path) -> list[str]:
    """Write the model and the data of a batch; the command that explains it, but for its output."""
    from xgboost import XGBClassifier

    applicants, credit = load_german()
    text = make_column_selector(dtype_exclude="number")
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), text), remainder="passthrough"
    )
    model = make_pipeline(encoder, XGBClassifier(n_estimators=100, max_depth=5, random_state=0, n_jobs=1))
    model.fit(applicants, (credit == "good").astype(int))
    joblib.dump(model, folder / "model.joblib")
    applicants.to_csv(folder / "data.csv", index=False)
    applicants.head(ROWS).to_csv(folder / "rows.csv", index=False)
    files = [str(folder / "model.joblib"), str(folder / "data.csv"), "--rows", str(folder / "rows.csv")]
    return [sys.executable, "-P", "-c", PROGRAM, "batch", *files, "--trust-pickle", "--desired", "1"]


def read_answers(folder: Path) -> dict[int, Any]:
    """What a batch says of every row, without times."""
    answers: dict[int, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # copies of parts, which were put there on purpose
        batch = Batch.open(folder)
        for place, row in enumerate(batch.rows):
            found = batch.storage.row_at(place)
            document = json.loads(found.document or "{}")
            del document["digest"]
            for name in TIMES:
                del document["statistics"][name]
            answers[row] = document
    if not batch.complete:
        raise RuntimeError(f"{len(batch)} of {batch.counts['to_explain']} rows are there")
    return answers


class BatchSubject:
    """A batch that is disturbed."""

    name = "batch"

    def __init__(self) -> None:
        self.command: list[str] = []
        self.home, self.output = Path(), Path()
        self.expected: dict[int, Any] = {}
        self.usual_seconds = 0.0

    def prepare(self, folder: Path) -> None:
        """Explain all rows undisturbed: twice, since the first run may have to compile."""
        self.home, self.output, self.command = folder, folder / "batch", write_inputs(folder)
        for name in ("first", "undisturbed"):
            began = time.monotonic()
            done = self.start(folder / name).wait()
            self.usual_seconds = time.monotonic() - began
            if done:
                raise RuntimeError((folder / "log").read_text())
        self.expected = read_answers(folder / "undisturbed")

    def start(self, output: Path, max_file_bytes: int | None = None, workers: int = WORKERS) -> subprocess.Popen[bytes]:
        """One run into a folder; what it prints goes to a log."""

        def limit() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells let commands in the background ignore it
            if max_file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))

        with open(self.home / "log", "wb") as log:
            command = [*self.command, "--output", str(output), "--workers", str(workers)]
            return subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=limit, cwd=self.home)

    def disturb(self, rng: random.Random) -> Disturbance:
        """Disturb one run at a random moment; when the batch is complete, it is begun anew."""
        if (self.output / "manifest.json").exists() and self._count_rows() == len(self.expected):
            losses = self._compare()
            shutil.rmtree(self.output)
            if losses:
                return Disturbance("comparison", faults=tuple(losses))
        kinds = (self._kill, self.disturb_by_signal, self.disturb_by_signal, self._fill_disk, self._damage)
        return rng.choice(kinds)(rng)

    def conclude(self) -> list[str]:
        """Run the batch to its end, and compare."""
        if self.start(self.output).wait(PATIENCE):
            return [f"the last run failed: {self._read_log()}"]
        return self._compare()

    def _compare(self) -> list[str]:
        try:
            found = read_answers(self.output)
        except Exception as error:  # whatever it is, it is a finding
            return [f"{type(error).__name__}: {error}"]
        missing = [f"row {row} is lost" for row in self.expected if row not in found]
        return missing + [f"row {row} differs" for row in found if found[row] != self.expected.get(row)]

    def _count_rows(self) -> int:
        lines = (self.output / "parts.jsonl").read_text().splitlines() if (self.output / "parts.jsonl").exists() else []
        return sum(json.loads(line)["rows"] for line in lines)

    def _read_log(self) -> str:
        return (self.home / "log").read_text(errors="replace").strip()[-300:]

    def _wait_a_while(self, run: subprocess.Popen[bytes], rng: random.Random) -> None:
        """Wait for a random time, at the most as long as a run takes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(rng.random() * self.usual_seconds)

    def _kill(self, rng: random.Random) -> Disturbance:
        run = self.start(self.output)
        self._wait_a_while(run, rng)
        workers = _list_children(run.pid)
        if workers and rng.random() < 0.3:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
            self._wait_a_while(run, rng)
        run.kill()
        run.wait()
        return Disturbance("kill -9")

    def disturb_by_signal(self, rng: random.Random) -> Disturbance:
        """Send SIGINT or SIGTERM to a run at a random moment."""
        number = rng.choice((signal.SIGINT, signal.SIGTERM))
        run = self.start(self.output)
        self._wait_a_while(run, rng)
        return self._interrupt(run, number)

    def _interrupt(self, run: subprocess.Popen[bytes], number: signal.Signals) -> Disturbance:
        """Send a signal to a run, and look how it ends."""
        if run.poll() is not None:
            return Disturbance(f"{number.name} too late", faults=() if run.returncode == 0 else (self._read_log(),))
        began = time.monotonic()
        run.send_signal(number)
        try:
            run.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            run.kill()
            return Disturbance(number.name, PATIENCE, (f"{number.name} was ignored",))
        took, faults = time.monotonic() - began, list[str]()
        if took > MAX_SECONDS:
            faults.append(f"{number.name} took {took:.1f} s: {self._read_log()}")
        # Before the command begins, and after it has ended, Python itself handles signals; shells show the same codes.
        if run.returncode not in (128 + number, -number):
            faults.append(f"{number.name} gave exit code {run.returncode}: {self._read_log()}")
        return Disturbance(number.name, took, tuple(faults))

    def _fill_disk(self, rng: random.Random) -> Disturbance:
        run = self.start(self.output, max_file_bytes=rng.choice(FILE_LIMITS), workers=rng.choice((1, WORKERS)))
        code = run.wait(PATIENCE)
        if code == 2 and "space" in self._read_log():
            return Disturbance("full disk")
        faults = () if code == 0 else (f"a full disk gave exit code {code}: {self._read_log()}",)
        return Disturbance("full disk, with room enough", faults=faults)

    def _damage(self, rng: random.Random) -> Disturbance:
        """Damage a part, and let a run repair it for a while."""
        parts = sorted(self.output.glob("part-*.parquet"))
        if not parts:
            return self._kill(rng)
        part = rng.choice(parts)
        kind = rng.choice(("altered", "cut short", "removed", "copied"))
        content = bytearray(part.read_bytes())
        if kind == "altered":
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            part.write_bytes(content)
        elif kind == "cut short":
            part.write_bytes(content[: rng.randrange(len(content))])
        elif kind == "removed":
            part.unlink()
        else:
            shutil.copy(part, part.with_name(f"part-{rng.randrange(900_000, 999_999)}.parquet"))
        run = self.start(self.output)
        self._wait_a_while(run, rng)
        run.kill()
        run.wait()
        return Disturbance(f"damage: a part {kind}")


def _list_children(pid: int) -> list[int]:
    """The child processes of a process, on Linux; none elsewhere."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []

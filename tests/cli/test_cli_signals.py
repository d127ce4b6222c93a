"""``ironrule batch`` as a process that gets signals, or works in a folder with hostile files. Events are waited for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import pytest
from loans import FEATURES, Files, loans
from sklearn.base import BaseEstimator

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are another thing elsewhere")
PATIENCE = 300  # seconds after which a test gives up


class Blocking(BaseEstimator):
    """A model that leaves a mark after some answers and then does not answer; where the mark is, it always does.

    A stubborn one does not even heed KeyboardInterrupt, as a library that is inside compiled code.
    """

    classes_ = np.array(["no", "yes"])

    def __init__(self, mark: str, answers: int, stubborn: bool = False):
        self.mark, self.answers, self.stubborn = mark, answers, stubborn

    def predict(self, table):
        self.given = getattr(self, "given", 0) + 1
        if self.given > self.answers and not Path(self.mark).exists():
            Path(self.mark).touch()
            self._wait()
        return np.where(np.asarray(table)[:, 1].astype(int) > 4, "yes", "no")

    def _wait(self):
        while True:
            try:
                time.sleep(PATIENCE)
            except KeyboardInterrupt:
                if not self.stubborn:
                    raise


@contextmanager
def blocked_batch(tmp_path: Path, model: Blocking, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A batch whose model has just stopped answering."""
    joblib.dump(model, tmp_path / "model.joblib")
    loans()[FEATURES].to_csv(tmp_path / "loans.csv", index=False)
    with subprocess.Popen(
        list_arguments(tmp_path, *more), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            deadline = PATIENCE * 20
            while not Path(model.mark).exists() and process.poll() is None and deadline:
                time.sleep(0.05)
                deadline -= 1
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            process.kill()


def list_arguments(tmp_path: Path, *more: str) -> list[str]:
    files = [str(tmp_path / "model.joblib"), str(tmp_path / "loans.csv"), "--trust-pickle", "--desired", "yes"]
    options = ["--output", str(tmp_path / "batch"), "--workers", "1", "--evaluations", "300", *more]
    return [sys.executable, "-m", "ironrule", "batch", *files, *options]


def environment() -> dict[str, str]:
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_search_ends_a_batch_with_its_exit_code_and_the_next_run_goes_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with blocked_batch(tmp_path, Blocking(str(tmp_path / "mark"), answers=60)) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert out == ""
    assert re.fullmatch(r"error: interrupted: \d+ of \d+ denied rows explained and safe in .*\n", err), err
    again = subprocess.run(
        list_arguments(tmp_path), env=environment(), capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert "denied rows explained." in again.stdout, again.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_a_search_ends_a_batch_even_in_a_library_that_does_not_heed_it(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with blocked_batch(tmp_path, Blocking(str(tmp_path / "mark"), answers=0, stubborn=True)) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert err == "error: interrupted; run the same command again\n"


@pytest.mark.parametrize(("engine", "start"), [("local", ["-m"]), ("local", ["-P", "-m"]), ("ray", ["-P", "-m"])])
def test_a_batch_with_workers_executes_nothing_of_the_current_folder(
    tmp_path: Path, files: Files, engine: str, start: list[str]
) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    for name in ("random", "numpy", "pickle", "fractions", "secrets"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r})\n")
    arguments = [files.model, files.data, "--desired", "yes", "--output", str(tmp_path / "batch"), "--workers", "2"]
    command = [sys.executable, *start, "ironrule", "batch", *arguments, "--engine", engine]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert not (tmp_path / "mark").exists()
    if engine == "ray" and "timed out during startup" in result.stderr:  # after 30 s, which Ray fixes
        pytest.skip("Ray does not start on a machine as busy as this one")
    assert "26 denied rows explained." in result.stdout, result.stderr

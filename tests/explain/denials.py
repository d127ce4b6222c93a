"""A small table of denials, models for it, and what two batches must agree on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from ironrule import Batch, Explainer, Explanation

FEATURES = ["income", "accounts", "job", "debt"]


def history(rows: int = 120) -> pd.DataFrame:
    """Past rows, some of them equal."""
    from applications import past

    return past(rows)[FEATURES].fillna({"debt": -1.0})


def boosted(table: pd.DataFrame) -> Any:
    """A model that can be read, and is not learned perfectly."""
    labels = ((table["income"] >= 3) & ((table["accounts"] <= 1) | (table["job"] != "cook"))).map({True: "good"})
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    trees = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)
    return make_pipeline(encoder, trees).fit(table, labels.fillna("bad"))


def explainer(rows: int = 120, **more: Any) -> Explainer:
    """An explainer of it."""
    table = history(rows)
    return Explainer(boosted(table), table, desired="good", **more)


def essence(explanation: Explanation) -> Any:
    """An explanation without its times, which differ from run to run."""
    document = json.loads(explanation.to_json())
    del document["digest"], document["statistics"]["seconds"], document["statistics"]["operators"]
    return document


def contents(batch: Batch) -> dict[int, Any]:
    """What a batch says of every row."""
    return {row: essence(one) for row, one in zip(batch.rows, batch, strict=True)}


class Fragile:
    """A model whose process is killed, once, when it is asked in a worker."""

    classes_ = ("bad", "good")

    def __init__(self, mark: Path, home: int) -> None:
        self.mark, self.home = mark, home

    def predict(self, table: pd.DataFrame) -> Any:
        if os.getpid() != self.home and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        from applications import decide

        return decide(table)


KILLED = """
import sys, time
sys.path[:0] = {paths!r}
from denials import explainer
from ironrule.explain.batches import crew, making
from ironrule.explain.batches.folder import Folder
making.FLUSH_SECONDS, crew.MOST_ROWS = 0.0, 3
plain = Folder.add
def slow(self, lines):
    plain(self, lines)
    time.sleep(0.05)
Folder.add = slow
asked = explainer()
print("ready", flush=True)
asked.explain_many(output={folder!r}, workers={workers}, engine={engine!r})
"""
"""A run that writes often, for somebody to kill it."""


def started(folder: Path, workers: int, engine: str = "local") -> subprocess.Popen[str]:
    """That run, in a process of its own."""
    here = Path(__file__).parent
    script = KILLED.format(paths=[str(here), str(here.parent)], folder=str(folder), workers=workers, engine=engine)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed_after(process: subprocess.Popen[str], folder: Path, parts: int, pause: float = 0.0) -> None:
    """Kill a run some time after it has written so many parts."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob("part-*.parquet"))) < parts and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(pause)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """As on a full disk: what grows beyond a size cannot be written."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

"""A small history, models for it, and what two batches must agree on."""

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


def make_history(rows: int = 120) -> pd.DataFrame:
    """Past rows, some of them equal."""
    from applications import past

    return past(rows)[FEATURES].fillna({"debt": -1.0})


def fit_boosted_trees(table: pd.DataFrame) -> Any:
    """A model that can be read, and is not learned perfectly."""
    labels = ((table["income"] >= 3) & ((table["accounts"] <= 1) | (table["job"] != "cook"))).map({True: "good"})
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    trees = GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0)
    return make_pipeline(encoder, trees).fit(table, labels.fillna("bad"))


def make_explainer(rows: int = 120, **more: Any) -> Explainer:
    """An explainer of boosted trees."""
    table = make_history(rows)
    return Explainer(fit_boosted_trees(table), table, desired="good", **more)


def make_credit_explainer() -> Explainer:
    """An explainer of boosted trees on real applicants, whose rules have bounds that can be moved far."""
    from ironrule.data import load_german

    table, credit = load_german()
    table, credit = table.select_dtypes("number").iloc[:300], credit.iloc[:300]
    trees = GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0)
    return Explainer(trees.fit(table, credit), table, desired="good")


def without_times(explanation: Explanation) -> Any:
    """An explanation without its times, which differ from run to run."""
    document = json.loads(explanation.to_json())
    document.pop("changes", None)  # batches have them only where they were asked for
    del document["digest"]
    for name in ("seconds", "operator_seconds", "compile_seconds"):
        del document["statistics"][name]
    return document


def read_contents(batch: Batch) -> dict[int, Any]:
    """What a batch says of every row."""
    return {row: without_times(one) for row, one in zip(batch.rows, batch, strict=True)}


class DyingModel:
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


RUN_SCRIPT = """
import sys, time
sys.path[:0] = {paths!r}
from batch_examples import make_explainer
from ironrule.explain.batch import process_pool, run
from ironrule.results.batch_folder import BatchFolder
run.FLUSH_SECONDS, process_pool.MAX_TASK_ROWS = 0.0, 3
add = BatchFolder.add
def add_slowly(self, rows):
    add(self, rows)
    time.sleep(0.05)
BatchFolder.add = add_slowly
explainer = make_explainer()
print("ready", flush=True)
explainer.explain_many(output={folder!r}, workers={workers}, engine={engine!r})
"""
"""A run that writes often, for somebody to kill it."""


def start_run(folder: Path, workers: int, engine: str = "local") -> subprocess.Popen[str]:
    """That run, in a process of its own."""
    paths = [str(Path(__file__).parent)]
    script = RUN_SCRIPT.format(paths=paths, folder=str(folder), workers=workers, engine=engine)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill_after(process: subprocess.Popen[str], folder: Path, parts: int, pause: float = 0.0) -> None:
    """Kill a run some time after it has written so many parts."""
    while len(list(folder.glob("part-*.parquet"))) < parts and process.poll() is None:
        time.sleep(0.01)
    time.sleep(pause)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """As on a full disk: what grows beyond a size cannot be written."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

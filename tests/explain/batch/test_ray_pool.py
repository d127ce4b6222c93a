"""Batches on Ray give the answers of one process, whatever happens to its workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from applications import decide, past
from batch_examples import DyingModel, kill_after, limit_file_size, make_explainer, read_contents, start_run
from ironrule import Batch, Explainer, InputError, IronruleError, StorageError
from ironrule.explain.batch import process_pool, run

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves its logs open
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of this machine's own, which batches find connected."""
    where = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}  # the same package and test modules
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", runtime_env=where)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_batch_on_ray_says_what_one_process_says(tmp_path: Path) -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(engine="ray", output=tmp_path / "denials")
    assert batch.complete
    assert read_contents(batch) == read_contents(explainer.explain_many(workers=1))
    assert ray.is_initialized()  # who connected also disconnects


@pytest.mark.usefixtures("cluster")
def test_rules_are_reused_on_ray_as_in_one_process() -> None:
    explainer = make_explainer()
    batch, alone = explainer.explain_many(engine="ray", reuse=True), explainer.explain_many(workers=1, reuse=True)
    assert read_contents(batch) == read_contents(alone)
    assert batch.columns("covered_by") == alone.columns("covered_by")


@pytest.mark.usefixtures("cluster")
def test_large_arrays_are_read_where_they_lie() -> None:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (60_000, 20)), columns=[f"x{j}" for j in range(20)])
    explainer = Explainer(lambda rows: rows["x0"] + rows["x1"] > 12, table)
    assert explainer.codes.points(slice(0, None)).nbytes > 1 << 20
    rows = np.flatnonzero(~explainer.outcomes)[:6].tolist()
    batch = explainer.explain_many(rows, "greedy_cf", engine="ray")
    assert read_contents(batch) == read_contents(explainer.explain_many(rows, "greedy_cf", workers=1))


@pytest.mark.usefixtures("cluster")
def test_a_ray_worker_that_dies_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    explainer = Explainer(DyingModel(tmp_path / "mark", os.getpid()), past(60), desired="good")
    batch = explainer.explain_many(engine="ray")
    assert (tmp_path / "mark").exists()
    assert read_contents(batch) == read_contents(explainer.explain_many(workers=1))


@pytest.mark.usefixtures("cluster")
def test_an_error_on_ray_reaches_the_caller() -> None:
    with pytest.raises(InputError, match="'income' cannot be required") as raised:
        make_explainer().explain_many(engine="ray", require=["income"], forbid=["income"])
    assert raised.value.code == "unusable-requirement"


@pytest.mark.usefixtures("cluster")
def test_a_model_that_cannot_be_pickled_is_refused() -> None:
    from threading import Lock

    lock = Lock()

    def locked(table: pd.DataFrame) -> Any:
        with lock:
            return decide(table)

    with pytest.raises(InputError, match="cannot pickle the model"):
        Explainer(locked, past(40), desired="good").explain_many(engine="ray")


def test_engines_and_addresses_are_checked_before_any_work() -> None:
    explainer = make_explainer()
    with pytest.raises(InputError, match="engine must be one of local, ray, got 'spark'"):
        explainer.explain_many(engine="spark")  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match="needs the engine 'ray', got the engine 'local'; pass engine='ray'"
    ) as refused:
        explainer.explain_many(address="auto")
    assert refused.value.code == "ray-address-without-engine"


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_always_dies_on_ray_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.explain.batch.ray_pool.RETRIES", 0)
    home = os.getpid()

    def deadly(table: pd.DataFrame) -> Any:
        if os.getpid() != home:
            os._exit(9)
        return decide(table)

    with pytest.raises(IronruleError, match="a Ray worker died 1 time: "):
        Explainer(deadly, past(40), desired="good").explain_many(engine="ray")


@pytest.mark.usefixtures("cluster")
def test_a_batch_on_ray_whose_driver_is_killed_ends_as_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    undisturbed, folder = make_explainer().explain_many(workers=1), tmp_path / "batch"
    kill_after(start_run(folder, 2, "ray"), folder, 2)  # with a Ray of its own
    assert 0 < len(Batch.open(folder)) < len(undisturbed)
    batch = make_explainer().explain_many(output=folder, engine="ray")
    assert len(set(batch.rows)) == len(batch.rows)
    assert read_contents(batch) == read_contents(undisturbed)
    assert not list(folder.glob("*.unfinished"))


@pytest.mark.usefixtures("cluster")
@pytest.mark.skipif(os.name != "posix", reason="there are no such limits elsewhere")
def test_a_full_disk_on_ray_is_an_error_and_finished_parts_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "TASK_SECONDS", 1e9)
    explainer = make_explainer()
    undisturbed = explainer.explain_many(output=tmp_path / "undisturbed", engine="ray")
    sizes = [part.stat().st_size for part in sorted((tmp_path / "undisturbed").glob("part-*.parquet"))]
    assert sizes[0] < max(sizes)
    with limit_file_size((sizes[0] + max(sizes)) // 2), pytest.raises(StorageError, match="run the same again"):
        explainer.explain_many(output=tmp_path / "batch", engine="ray")
    assert 0 < len(Batch.open(tmp_path / "batch")) < len(undisturbed)
    assert read_contents(explainer.explain_many(output=tmp_path / "batch", engine="ray")) == read_contents(undisturbed)

"""One measurement of benchmarks.scale in a process of its own; the last line that it prints is JSON."""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sklearn

from benchmarks.data import adult_one_hot, folder, sba
from benchmarks.paper.yelp_stand_in import DESIRED, cache, table_file
from benchmarks.proof_models import make_task
from benchmarks.stopwatch import UNTIMED, best, timed
from benchmarks.tree import estimator_in
from ironrule import Explainer
from ironrule.rule.duals import count_distinct_duals
from ironrule.rule.instance_components import build_instance_components

EXPLAINED, SECONDS = 3, 20.0


def sba_model() -> Any:
    """A boosted model on SBA, learned from a part of it and kept."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    file = cache() / f"scale-sba-{sklearn.__version__}.pkl"
    if not file.exists():
        table, target = sba()
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        steps = make_column_transformer(
            (encoder, make_column_selector(dtype_exclude="number")), remainder="passthrough"
        )
        trees = HistGradientBoostingClassifier(max_iter=50, max_depth=5, random_state=0)
        some = np.random.default_rng(0).choice(len(table), 100_000, replace=False)
        file.write_bytes(pickle.dumps(make_pipeline(steps, trees).fit(table.iloc[some], target.iloc[some])))
    return pickle.loads(file.read_bytes())  # our own


def subject(data: str) -> tuple[Any, Path, int, str]:
    """A model, its history's file, the desired class, and the algorithm that explains it."""
    if data == "sba":
        return sba_model(), folder() / "sba" / "sba.parquet", 1, "auto"
    file = table_file(quick=data.endswith("quick"))
    network = cache() / f"{file.stem}-network-{sklearn.__version__}.pkl"
    if not network.exists():
        raise SystemExit(f"{network} must be there: python -m benchmarks.paper.yelp_stand_in")
    return pickle.loads(network.read_bytes()), file, DESIRED, "greedy_cf"  # our own


def opened(data: str, way: str, kept: str) -> tuple[Explainer, Any, str]:
    """An explainer, and what making it took; the model was read before."""
    model, file, desired, algorithm = subject(data)

    def make() -> Explainer:
        if way == "pandas":
            return Explainer(model, sba()[0], desired=desired, progress=False, domain="seen")
        return Explainer(model, file, desired=desired, cache=kept, progress=False, domain="seen")

    explainer, taken = timed(make)
    return explainer, taken, algorithm


def measure_open(data: str, way: str, kept: str) -> dict[str, Any]:
    """Time to open, peak memory, time per explanation."""
    explainer, taken, algorithm = opened(data, way, kept)
    line = {"data": data, "way": way, "rows": len(explainer.outcomes), "open s": taken.wall, "open CPU s": taken.cpu}
    line["peak GB after opening"] = peak()
    denied = np.random.default_rng(0).choice(np.flatnonzero(~explainer.outcomes), EXPLAINED + 1)
    explainer.explain(int(denied[0]), algorithm, budget=SECONDS)  # which compiles
    found = [timed(lambda row=row: explainer.explain(int(row), algorithm, budget=SECONDS)) for row in denied[1:]]
    line["explanation s"] = float(np.median([one.wall for _, one in found]))
    line["its pass s"] = float(np.median([one.statistics.operator_seconds.get("history", 0.0) for one, _ in found]))
    line["stopped"] = sum(one.statistics.stopped is not None for one, _ in found)
    return line | {"peak GB": peak()}


def measure_duals(data: str, way: str, kept: str) -> dict[str, Any]:
    """One pass over the desired rows against copying them, on all cores and on one."""
    explainer, _, _ = opened(data, way, kept)
    columns = explainer._context.history.desired.columns
    row = explainer._context.history.codes.row(int(np.flatnonzero(~explainer.outcomes)[0]))
    relevant = build_instance_components(explainer.space, row)
    copies = [np.empty_like(column) for column in columns]

    def copy() -> None:
        for column, target in zip(columns, copies, strict=True):
            np.copyto(target, column)

    size = sum(column.nbytes for column in columns) / 2**30
    copied = size / best(copy, 7).wall
    both, one = (
        size / best(lambda w=workers: count_distinct_duals(columns, relevant.low, relevant.high, threads=w), 7).wall
        for workers in (None, 1)
    )
    return {
        "data": data,
        "desired rows": len(columns[0]),
        "GB": size,
        "copy GB/s": copied,
        "duals GB/s": both,
        "on one core": one,
        "share of copy": both / copied,
    }


def measure_batch(
    model: str, workers: str, rows: str, engine: Literal["local", "ray"] = "local", reuse: str = ""
) -> dict[str, Any]:
    """A batch in memory: its rate, with all explanations as documents, certificates included; Ray runs already."""
    explainer, chosen = tree_of_adult() if model == "tree" else boosted_adult()
    some = chosen[: int(rows)]
    explainer.explain(int(some[0])).to_json()  # which compiles
    if engine == "ray":
        import ray

        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # as where Ironrule starts it: other programs are at work here, too
        known = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
        ray.init(num_cpus=int(workers), include_dashboard=False, log_to_driver=False, runtime_env=known)
    before = time.perf_counter(), time.process_time(), children()
    batch = explainer.explain_many(
        some, workers=int(workers), engine=engine, reuse=bool(reuse), progress=False, budget=UNTIMED
    )
    taken, here, there = time.perf_counter() - before[0], time.process_time() - before[1], children() - before[2]
    few, covering = timed(batch.find_rule_cover)
    line: dict[str, Any] = {"model": model, "engine": engine, "workers": int(workers), "rows": len(batch), "s": taken}
    line |= {"rows/s": len(batch) / taken, "CPU s here": here}
    line |= {"CPU s of workers": None if engine == "ray" else there, "proven": batch.verdicts["proven"]}
    line |= {"minimum": sum(batch.columns("minimum")["minimum"]), "reuse": bool(reuse)}
    line |= {"covered by another's rule": sum(by is not None for by in batch.columns("covered_by")["covered_by"])}
    return line | {"few rules": len(few), "at least": few.lower_bound, "their s": covering.wall}


def children() -> float:
    """Processor seconds of the processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_of_adult() -> tuple[Explainer, Any]:
    """The authors' tree on Adult, and the rows that it denies."""
    model = estimator_in(folder() / "adult" / "tree_onehot.npz")
    table = adult_one_hot()[0][list(model.feature_names_in_)]
    explainer = Explainer(model, table, desired=0, progress=False, domain="seen")
    return explainer, np.random.default_rng(0).permutation(np.flatnonzero(~explainer.outcomes))


def boosted_adult() -> tuple[Explainer, Any]:
    """XGBoost on Adult, and the rows that it denies."""
    task = make_task("Adult", "XGBoost 100 x 6")
    return task.explainer(), np.random.default_rng(0).permutation(task.undesired)


def peak() -> float:
    """The most memory that this process has had, in GB."""
    status = Path("/proc/self/status")
    if not status.exists():  # elsewhere it counts what was before this program began, too
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**20


MEASURES = {"open": measure_open, "duals": measure_duals, "batch": measure_batch}

if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](*sys.argv[2:])))

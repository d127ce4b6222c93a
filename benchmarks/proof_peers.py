"""Peers in their own environment: hands over model, matrix and question through a folder, and reads the answers."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.proof_models import Task
from benchmarks.proof_queries import Query, columns_of
from benchmarks.proof_worker import ONE_THREAD

Answer = dict[str, Any]
FOCAL = {"focal_eps": 0.01, "focal_size": 100}  # the best for Veritas of those tried, see veritas_part.py


def run_peer(
    python: str, script: str, task: Task, settings: Answer, limit: float, arrays: Answer | None = None
) -> Answer:
    """What a peer's script wrote about a task; an answer with "failed" where it wrote nothing.

    A script that does not end within the limit is ended, and what it has written until then counts.
    """
    written = script.removesuffix("_part.py") + ".json"
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "model.pkl").write_bytes(pickle.dumps(task.model[-1]))
        np.save(place / "matrix.npy", np.ascontiguousarray(task.encoded()))
        for label, array in (arrays or {}).items():
            np.save(place / f"{label}.npy", array)
        (place / "settings.json").write_text(json.dumps(settings))
        said = run_in_session([python, str(Path(__file__).with_name(script)), name], limit)
        if not (place / written).exists():
            return {"failed": f"{script} wrote nothing: {said}"}
        answer: Answer = json.loads((place / written).read_text())
    return answer


def run_in_session(command: list[str], limit: float, variables: dict[str, str] | None = None) -> str:
    """Run a script in a session of its own, so that it can be ended with all that it started; what it said last."""
    environment = os.environ | ONE_THREAD | (variables or {})
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            ended = f"exit code {process.wait(limit)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ended = f"no end within {limit:.0f} s"
        said.seek(0)
        return f"{ended}: {said.read()[-1500:]}"


def column_names(task: Task) -> tuple[list[str], dict[str, int]]:
    """Plain names for the matrix's columns, and of those that are one-hot columns the prefix and how many there are."""
    names: list[str] = []
    groups: dict[str, int] = {}
    encoder = task.model[0].named_transformers_.get("onehotencoder")
    for place, values in enumerate(getattr(encoder, "categories_", ())):
        groups[f"c{place}v"] = len(values)
        names += [f"c{place}v{value}" for value in range(len(values))]
    names += [f"n{place}" for place in range(task.encoded().shape[1] - len(names))]
    return names, groups


def pyxai(python: str, task: Task, rows: list[int], methods: list[str], limit: float) -> Answer:
    """PyXAI's reasons for some rows."""
    columns, groups = column_names(task)
    settings = {"rows": rows, "methods": methods, "limit": limit, "columns": columns, "groups": groups}
    return run_peer(python, "pyxai_reasons_part.py", task, settings, 120 + 1.5 * limit * len(rows) * len(methods))


def pyxai_lines(task: Task, answer: Answer, ours: list[Answer]) -> list[Answer]:
    """One line of the table per method, with the length of our rules on the same rows."""
    if answer.get("failed"):
        return [{"task": task.name, "method": "PyXAI", "rows": 0, "failed": answer["failed"]}]
    lengths = {one["row"]: one["cardinality"] for one in ours if one.get("minimum")}
    found: dict[str, list[Answer]] = {}
    for one in answer["answers"]:
        found.setdefault(one["method"], []).append(one)
    return [_line(task, answer, method, some, lengths) for method, some in found.items()]


def _line(task: Task, answer: Answer, method: str, some: list[Answer], lengths: dict[int, int]) -> Answer:
    good = [one for one in some if not one.get("failed")]
    both = [one for one in good if one["row"] in lengths]
    return {
        "task": task.name,
        "method": f"PyXAI, {method}",
        "rows": len(some),
        "answered": len(good),
        "median ms": _median([1000 * one["wall"] for one in good]),
        "CPU median ms": _median([1000 * one["cpu"] for one in good]),
        "max ms": max((1000 * one["wall"] for one in good), default=None),
        "conditions": _mean([one["conditions"] for one in good]),
        "bounds": _mean([one["bounds"] for one in both]),
        "our components": _mean([lengths[one["row"]] for one in both]),
        "decides otherwise": answer["decides otherwise"],
        "failed": next((one["failed"] for one in some if one.get("failed")), None),
    }


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def veritas(python: str | None, task: Task, queries: list[Query], limit: float) -> Answer:
    """Veritas' answers to boxes, in their order."""
    if python is None:
        return {"failed": "no environment was given, see --peers-python"}
    columns = columns_of(task, task.explainer().space)
    low, high = zip(*(columns.intervals(query) for query in queries), strict=True)
    settings = {"limit": limit, **FOCAL}
    arrays = {"low": np.array(low), "high": np.array(high)}
    return run_peer(python, "veritas_part.py", task, settings, limit=300 + 1.5 * limit * len(queries), arrays=arrays)

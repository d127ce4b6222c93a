"""Other packages on the same rows, each in a process and an environment of its own.

They are dice-ml, actionable-recourse, treecf, and CARLA's own code of Growing Spheres. The python of each environment
is an option of the command; a package without one is left out. Answers come back in model columns or as raw values, and
are measured as all others are. All are told what is immutable in their own ways.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.carla.models import CarlaModel
from benchmarks.proof_worker import ONE_THREAD

TARGET = "desired"
BACKGROUND_ROWS = 5_000  # what treecf learns spreads from


@dataclass(frozen=True, slots=True, eq=False)
class PeerAnswers:
    """What a package answered, in model columns, with CPU seconds per row and for setting up."""

    answers: list[np.ndarray | None]
    seconds: list[float]
    setup: float | None


@dataclass(frozen=True, slots=True)
class Peer:
    """A package: the system that it has, for which models, and how it is asked by the python of its environment."""

    package: str
    system: str
    label: str
    fits: Callable[[CarlaModel], bool]
    ask: Callable[[str, CarlaModel, Sequence[int], float], PeerAnswers]


def _run_part(python: str, script: str, place: Path, settings: Mapping[str, Any], written: str = "answers.json") -> Any:
    """What a package's half writes about what is in a folder."""
    (place / "settings.json").write_text(json.dumps(settings))
    part = str(Path(__file__).parents[1] / script)
    ran = subprocess.run([python, part, str(place)], env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{script} must end well, but it did not:\n{ran.stderr[-2000:]}")
    return json.loads((place / written).read_text())


def _list_immutable_columns(model: CarlaModel) -> list[int]:
    return [place for place, name in enumerate(model.features) if name in model.immutable]


def _as_points(points: Sequence[Sequence[float] | None]) -> list[np.ndarray | None]:
    return [None if point is None else np.array(point, dtype=np.float64) for point in points]


def ask_recourse(python: str, model: CarlaModel, rows: Sequence[int], budget: float) -> PeerAnswers:
    """actionable-recourse on a logistic regression."""
    estimator = model.pipeline[-1]
    settings = {
        "columns": model.columns,
        "immutable columns": [model.columns[place] for place in _list_immutable_columns(model)],
        "coefficients": estimator.coef_[0].tolist(),
        "intercept": float(estimator.intercept_[0]),
        "seconds": budget,
    }
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        np.save(place / "background.npy", model.encoded)
        np.save(place / "rows.npy", model.encoded[rows])
        said = _run_part(python, "carla/recourse_part.py", place, settings)
    points = _as_points([one["point"] for one in said["answers"]])
    return PeerAnswers(points, [one["cpu"] for one in said["answers"]], said["set-up"])


def ask_carla(python: str, model: CarlaModel, rows: Sequence[int], _: float) -> PeerAnswers:
    """CARLA's own Growing Spheres, on the estimator alone; it has no limit of time."""
    settings = {
        "columns": model.columns,
        "immutable columns": [model.columns[place] for place in _list_immutable_columns(model)],
        "numeric": model.columns[: len(model.columns) - len(model.categories)],
        "seed": 0,
    }
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "model.pkl").write_bytes(pickle.dumps(model.pipeline[-1]))
        np.save(place / "rows.npy", model.encoded[rows])
        said = _run_part(python, "carla/spheres_part.py", place, settings)
    return PeerAnswers(
        _as_points([one["point"] for one in said["answers"]]), [one["cpu"] for one in said["answers"]], None
    )


def ask_dice(method: str) -> Callable[[str, CarlaModel, Sequence[int], float], PeerAnswers]:
    """dice-ml with one of its methods; it has no limit of time."""

    def ask(python: str, model: CarlaModel, rows: Sequence[int], _: float) -> PeerAnswers:
        settings = {
            "method": method,
            "seed": 0,
            "target": TARGET,
            "numeric": [name for name in model.features if name not in model.categories],
            "vary": [name for name in model.features if name not in model.immutable],
            "rows": list(rows),
        }
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            (place / "model.pkl").write_bytes(pickle.dumps(model.pipeline))
            outcomes = model.approve(model.encoded).astype(int)
            model.table.assign(**{TARGET: outcomes}).to_csv(place / "table.csv", index=False)
            said = _run_part(python, "carla/dice_part.py", place, settings)
        points = [_encode_values(model, one["values"]) for one in said["answers"]]
        return PeerAnswers(points, [one["cpu"] for one in said["answers"]], said["set-up"])

    return ask


def _encode_values(model: CarlaModel, values: Mapping[str, Any] | None) -> np.ndarray | None:
    if values is None:
        return None
    row = pd.DataFrame([values])[list(model.table.columns)]
    numbers = [name for name in row if name not in model.categories]
    return model.encode(row.astype(dict.fromkeys(numbers, np.float64)))[0]


def ask_treecf(python: str, model: CarlaModel, rows: Sequence[int], budget: float) -> PeerAnswers:
    """treecf's exact search on a forest, for the fewest changes."""
    settings = {"backend": "exact", "seconds": budget, "frozen": _list_immutable_columns(model)}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "model.pkl").write_bytes(pickle.dumps(model.pipeline[-1]))
        np.save(place / "background.npy", model.encoded[-BACKGROUND_ROWS:])
        np.save(place / "rows.npy", model.encoded[rows])
        said = _run_part(python, "treecf_part.py", place, settings, "treecf.json")
    return PeerAnswers(_as_points([one["point"] for one in said]), [one["cpu"] for one in said], None)


def _is_forest(model: CarlaModel) -> bool:
    return model.kind == "forest"


def _is_linear(model: CarlaModel) -> bool:
    return model.kind == "linear"


PEERS = (
    Peer("treecf", "exact", "treecf 0.3.2", _is_forest, ask_treecf),
    Peer("dice-ml", "dice_random", "dice-ml 0.12", lambda model: not _is_forest(model), ask_dice("random")),
    Peer("dice-ml", "dice_genetic", "dice-ml 0.12", lambda model: not _is_forest(model), ask_dice("genetic")),
    Peer("carla-recourse", "growing_spheres", "CARLA's code, here", lambda model: not _is_forest(model), ask_carla),
    Peer("actionable-recourse", "actionable_recourse", "actionable-recourse 1.0.1", _is_linear, ask_recourse),
)

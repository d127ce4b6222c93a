"""CARLA's own answers, row by row, as they are stored: of CARLA 0.0.5, and of its last commit where a file says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.carla.models import CarlaModel, find_carla_folder

LAST_COMMIT = "HEAD_"


@dataclass(frozen=True, slots=True, eq=False)
class StoredAnswers:
    """What a system of CARLA answered for some rows of a model, both in model columns; None where it found nothing.

    ``version`` is that of CARLA; ``reported`` are its own measures and seconds of CPU, of the same run.
    """

    method: str
    version: str
    rows: np.ndarray
    answers: list[np.ndarray | None]
    reported: dict[str, Any]


def load_answers(model: CarlaModel) -> list[StoredAnswers]:
    """All stored answers about a model."""
    place = find_carla_folder() / "answers"
    ending = f"_{model.data}_{model.kind}_{model.backend}_cf.csv"
    return [_load(file, file.name.removesuffix(ending), model) for file in sorted(place.glob(f"*{ending}"))]


def _load(file: Path, name: str, model: CarlaModel) -> StoredAnswers:
    asked = pd.read_csv(file.with_name(file.name.replace("_cf.csv", "_f.csv")))[model.columns].to_numpy(np.float64)
    said = pd.read_csv(file)[model.columns]
    known = said.notna().all(axis=1)
    answers = [row if good else None for row, good in zip(said.to_numpy(np.float64), known, strict=True)]
    method = name.removeprefix(LAST_COMMIT)
    version = "last commit" if name.startswith(LAST_COMMIT) else "0.0.5"
    return StoredAnswers(method, version, asked, answers, _find_report(file.parent, method, model, len(asked)))


def _find_report(place: Path, method: str, model: CarlaModel, count: int) -> dict[str, Any]:
    """CARLA's measures of the run with so many rows; empty if there are none."""
    lines = map(json.loads, (place / "measures.jsonl").read_text().splitlines())
    wanted = {"method": method, "data": model.data, "model": model.kind, "backend": model.backend, "n": count}
    return next((one for one in lines if wanted.items() <= one.items()), {})


def exchange_columns(answers: StoredAnswers, columns: list[str], first: str, second: str) -> StoredAnswers:
    """The same answers with the values of two columns in each other's place."""
    order = np.arange(len(columns))
    one, other = columns.index(first), columns.index(second)
    order[one], order[other] = other, one
    exchanged = [None if answer is None else answer[order] for answer in answers.answers]
    return StoredAnswers(answers.method, answers.version, answers.rows, exchanged, answers.reported)

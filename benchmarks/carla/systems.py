"""The systems of the appendix: what CARLA, the paper and Ironrule call them, and how ours answer rows.

Ours are read from the registry of oracles, with their defaults. One that is not there, or that says that it has no use
for a kind of model, is shown as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.carla.models import CarlaModel
from benchmarks.carla.settings import Settings
from benchmarks.paper.experiment import Record
from benchmarks.stopwatch import timed
from ironrule import Budget
from ironrule.errors import IronruleError
from ironrule.oracles.registry import ORACLES

EXACT = "exact"


@dataclass(frozen=True, slots=True)
class System:
    """One system: its name here, in CARLA and in the paper's tables; None where it is not there.

    In our registry it is ``registered``, by default by the same name, and is built with ``options``.
    ``backend`` is the library for whose network and logistic regression CARLA has it, None for those that it has not;
    ``draws`` says whether answers depend on the seed.
    """

    name: str
    carla: str | None = None
    paper: str | None = None
    backend: str | None = None
    draws: bool = True
    registered: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> Any:
        """Ours; None if it is not in the registry."""
        make = ORACLES.get(self.registered or self.name)
        return None if make is None else make(**self.options)


SYSTEMS = (
    System(EXACT, draws=False),
    System("geco", paper="GeCo"),
    System("growing_spheres", "gs", "GS", "tensorflow"),
    System("dice_random", "dice", "DICE", "tensorflow", registered="dice", options={"method": "random"}),
    System("dice_genetic", registered="dice", options={"method": "genetic"}),
    System("dice_gradient", registered="dice", options={"method": "gradient"}),
    System("actionable_recourse", "ar", "AR", "tensorflow", draws=False),
    System("cem", "cem", "CEM", "tensorflow", draws=False),
    System("cchvae", "cchvae", "CCHVAE", "pytorch"),
    System("clue", "clue", "CLUE", "pytorch"),
    System("cruds", "cruds", "CRUDS", "pytorch"),
    System("revise", "revise", "REVISE", "pytorch"),
    System("face_knn", "face_knn", "FACE_KNN", "tensorflow", registered="face", options={"variant": "knn"}),
    System("face_epsilon", "face_epsilon", "FACE_EPS", "tensorflow", registered="face", options={"variant": "epsilon"}),
    System("wachter", "wachter", "WACHTER", "pytorch", draws=False),
    System("focus", "focus", "FOCUS", draws=False),
    System("feature_tweak", "ft", "FEATURE_TWEAKING", draws=False),
)


@dataclass(frozen=True, slots=True, eq=False)
class OwnAnswers:
    """What a system of ours answered for some rows with one seed, in model columns, and the CPU seconds of each.

    ``first`` is what the first question took besides; it includes what is trained or compiled once.
    """

    system: System
    seed: int
    answers: list[np.ndarray | None]
    taken: list[float]
    first: float


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a system of ours has no answers."""

    system: System
    reason: str


def answer_rows(
    model: CarlaModel, system: System, rows: Sequence[int], seed: int, settings: Settings, spent: float = 0.0
) -> OwnAnswers | Absence:
    """One counterfactual for every row, as many as the limit allows, of which so many seconds are spent; what a system
    says against a kind of model is the reason for its absence.
    """
    algorithm = EXACT if system.name == EXACT else system.build()
    if algorithm is None:
        return Absence(system, "not in the registry")

    def ask(row: int) -> np.ndarray | None:
        limit = Budget(seconds=settings.budget)
        found = model.explainer.counterfactuals(row, k=1, algorithm=algorithm, seed=seed, budget=limit, progress=False)
        return _encode(model, found[0].values) if len(found) else None

    def describe(row: int | None) -> Record:
        return settings.describe("table", model.name, system=system.name, seed=seed, row=row)

    answers, taken, is_warm = list[np.ndarray | None](), [spent], False
    try:
        for row in rows:
            known = settings.journal.known(describe(row))
            if known is None:
                if settings.is_spent(taken):
                    break
                if not is_warm:
                    first = settings.journal.known(describe(None))
                    _, time = timed(lambda: ask(rows[0]))
                    if first is None:
                        settings.journal.add({"cpu": time.cpu}, describe(None))
                    is_warm = True
                point, time = timed(lambda row=row: ask(row))
                said = None if point is None else point.tolist()
                known = settings.journal.add({"answer": said, "cpu": time.cpu}, describe(row))
            answers.append(None if known["answer"] is None else np.array(known["answer"]))
            taken.append(known["cpu"])
    except IronruleError as error:
        return Absence(system, str(error).splitlines()[0])
    first = settings.journal.known(describe(None))
    return OwnAnswers(system, seed, answers, taken[1:], 0.0 if first is None else first["cpu"])


def _encode(model: CarlaModel, values: Any) -> np.ndarray:
    """A counterfactual's values in model columns."""
    return model.encode(pd.DataFrame([dict(values)])[list(model.table.columns)])[0]

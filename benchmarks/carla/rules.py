"""The paper's question: which counterfactual system makes GreedyRuleCF's rules true? Judged by proof.

Every system stands under GreedyRuleCF as its oracle (``Explainer(oracle=...)``). The model is hidden behind its answers
and probabilities, since of a model that can be read the exact oracle is asked instead. The rule that a system could not
refute is then judged by the exact oracle: it holds, or here is its exception. Rules are about values seen, as in the
paper, for both. An explainer also checks rules on points drawn at random and sends those that fail back to the search;
that is left out here (``attempts=1``), since it would hide what a system misses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.carla.models import DESIRED, CarlaModel
from benchmarks.carla.settings import Settings
from benchmarks.carla.systems import EXACT, SYSTEMS, System
from benchmarks.paper.experiment import Record
from benchmarks.stopwatch import timed
from ironrule import Budget, Explainer, GreedyRuleCF
from ironrule.errors import IronruleError
from ironrule.progress import track
from ironrule.verdict.verdict import Quality

ALGORITHM = GreedyRuleCF(attempts=1)


@dataclass(frozen=True, slots=True)
class HiddenModel:
    """A model that can only be asked: for decisions and for probabilities.

    Its columns are prepared here by a few array operations, bit for bit as the pipeline prepares them: a question to a
    pipeline takes 5 to 10 ms, of which the estimator takes half a millisecond.
    """

    estimator: Any
    numbers: Sequence[str]
    scale: np.ndarray
    least: np.ndarray
    categories: Sequence[tuple[str, Any]]  # with the value whose column is 1

    @classmethod
    def build(cls, model: CarlaModel) -> HiddenModel:
        """Hide a model; ends the program if columns come out differently."""
        prepare = model.pipeline[0]
        scaler, categories = prepare.named_transformers_["numbers"], list[tuple[str, Any]]()
        if model.categories:
            known = prepare.named_transformers_["categories"].categories_
            categories = [(name, values[1]) for name, values in zip(model.categories, known, strict=True)]
        numbers = model.features[: len(model.features) - len(categories)]
        hidden = cls(model.pipeline[-1], numbers, scaler.scale_, scaler.min_, categories)
        if not np.array_equal(hidden.encode(model.table), model.encoded):
            raise SystemExit("columns must be prepared as the pipeline prepares them, but they are not")
        return hidden

    @property
    def classes_(self) -> Any:
        """The labels."""
        return self.estimator.classes_

    def encode(self, rows: pd.DataFrame) -> np.ndarray:
        """Rows in model columns."""
        encoded = np.empty((len(rows), len(self.numbers) + len(self.categories)))
        for place, name in enumerate(self.numbers):
            encoded[:, place] = rows[name].to_numpy(np.float64) * self.scale[place] + self.least[place]
        for place, (name, value) in enumerate(self.categories, len(self.numbers)):
            encoded[:, place] = rows[name].to_numpy() == value
        return encoded

    def predict(self, rows: pd.DataFrame) -> Any:
        """The decisions."""
        return self.estimator.predict(self.encode(rows))

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        """The probabilities."""
        return self.estimator.predict_proba(self.encode(rows))


def compare_rules(model: CarlaModel, settings: Settings) -> list[dict[str, Any]]:
    """One line per system, printed as soon as it is known: for how many rows its rule holds."""
    rows = model.list_denied_rows(settings.rows)
    judge = Explainer(model.pipeline, model.table, desired=DESIRED, domain="seen", progress=False)
    wanted = [system for system in SYSTEMS if settings.wants(system.name, system.carla, system.paper)]
    lines = []
    for system in track(wanted, "rules", len(wanted)):
        lines.append(_explain_rows(model, judge, system, rows, settings))
        print(", ".join(f"{name}: {figure}" for name, figure in lines[-1].items() if figure is not None), flush=True)
    return lines


def build_explainer(model: CarlaModel, judge: Explainer, system: System) -> Explainer | None:
    """The explainer that asks a system; None if that is not in the registry."""
    if system.name == EXACT:
        return judge
    oracle = system.build()
    if oracle is None:
        return None
    hidden, space = HiddenModel.build(model), judge.space
    return Explainer(hidden, model.table, desired=DESIRED, domain="seen", space=space, oracle=oracle, progress=False)


def explain_and_judge(explainer: Explainer, judge: Explainer, row: int, budget: float) -> Record:
    """The rule of one row: what the proof says of it, and what it took."""
    try:
        explanation, time = timed(
            lambda: explainer.explain(row, ALGORITHM, budget=Budget(seconds=budget), widen=False, progress=False)
        )
    except IronruleError as error:
        return {"verdict": "no rule", "note": str(error).splitlines()[0]}
    if explanation.statistics.stopped is not None:  # whatever rule it had by then, it had not been let pass
        return {"verdict": "not finished", "cpu": time.cpu}
    judgement = judge.judge(row, explanation.rule, budget=Budget(seconds=budget))
    return {
        "verdict": type(judgement.verdict).__name__,
        "minimum": judgement.quality is Quality.MINIMUM,
        "length": explanation.rule.cardinality,
        "cpu": time.cpu,
    }


def _explain_rows(
    model: CarlaModel, judge: Explainer, system: System, rows: list[int], settings: Settings
) -> dict[str, Any]:
    answers, taken, explainer = list[Record](), list[float](), None
    for row in rows:
        what = settings.describe("rules", model.name, system=system.name, row=row)
        known = settings.journal.known(what)
        if known is None:
            if settings.is_spent(taken):
                break
            explainer = explainer or build_explainer(model, judge, system)
            if explainer is None:
                return {"system": system.name, "note": "not in the registry"}
            known = settings.journal.add(explain_and_judge(explainer, judge, row, settings.budget), what)
        answers.append(known)
        taken.append(known.get("cpu", 0.0))
    found = Counter(one["verdict"] for one in answers)
    judged = [one for one in answers if "length" in one]
    notes = [one["note"] for one in answers if "note" in one]
    return {
        "system": system.name,
        "rows": len(answers),
        "hold": found["Proven"],
        "minimum": sum(one["minimum"] for one in judged),
        "have an exception": found["Refuted"],
        "not decided": found["Unrefuted"],
        "no rule": found["no rule"],
        "not finished": found["not finished"],
        "length": float(np.mean([one["length"] for one in judged])) if judged else None,
        "CPU s": float(np.mean(taken)) if taken else None,
        "note": notes[-1] if notes else None,
    }

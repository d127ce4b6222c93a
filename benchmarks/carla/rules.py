"""The paper's question: which counterfactual system makes GreedyRuleCF's rules true? Judged by proof.

Every system stands under GreedyRuleCF as its oracle (``Explainer(oracle=...)``). The model is hidden behind its answers
and probabilities, since of a model that can be read the exact oracle is asked instead. The rule that a system could not
refute is then judged by the exact oracle: it holds, or here is its exception. Rules are about values seen, as in the
paper, for both. An explainer also checks rules on points drawn at random and sends those that fail back to the search;
that is left out here (``attempts=1``), since it would hide what a system misses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.carla.models import DESIRED, CarlaModel
from benchmarks.carla.settings import Settings
from benchmarks.carla.systems import EXACT, SYSTEMS, System
from benchmarks.stopwatch import timed
from ironrule import Budget, Explainer, GreedyRuleCF
from ironrule.errors import IronruleError
from ironrule.progress import track
from ironrule.verdict.verdict import Quality

ALGORITHM = GreedyRuleCF(attempts=1)


@dataclass(frozen=True, slots=True)
class HiddenModel:
    """A model that can only be asked: for decisions and for probabilities."""

    model: Any

    @property
    def classes_(self) -> Any:
        """The labels."""
        return self.model.classes_

    def predict(self, rows: Any) -> Any:
        """The decisions."""
        return self.model.predict(rows)

    def predict_proba(self, rows: Any) -> Any:
        """The probabilities."""
        return self.model.predict_proba(rows)


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


def _explain_rows(
    model: CarlaModel, judge: Explainer, system: System, rows: list[int], settings: Settings
) -> dict[str, Any]:
    oracle = None if system.name == EXACT else system.build()
    if oracle is None and system.name != EXACT:
        return {"system": system.name, "note": "not in the registry"}
    explainer = judge
    if oracle is not None:
        hidden = HiddenModel(model.pipeline)
        explainer = Explainer(
            hidden, model.table, desired=DESIRED, domain="seen", space=judge.space, oracle=oracle, progress=False
        )
    found, lengths, taken, reason = Counter[str](), list[int](), list[float](), None
    for row in rows:
        try:
            explanation, time = timed(
                lambda row=row: explainer.explain(
                    row, ALGORITHM, budget=Budget(seconds=settings.budget), widen=False, progress=False
                )
            )
        except IronruleError as error:
            found["no rule"] += 1
            reason = str(error).splitlines()[0]
            continue
        if explanation.statistics.stopped is not None:  # whatever rule it had by then, it had not been let pass
            found["not finished"] += 1
            continue
        judgement = judge.judge(row, explanation.rule, budget=Budget(seconds=settings.budget))
        found[type(judgement.verdict).__name__] += 1
        found["minimum"] += judgement.quality is Quality.MINIMUM
        lengths.append(explanation.rule.cardinality)
        taken.append(time.cpu)
    return {
        "system": system.name,
        "rows": len(rows),
        "hold": found["Proven"],
        "minimum": found["minimum"],
        "have an exception": found["Refuted"],
        "not decided": found["Unrefuted"],
        "no rule": found["no rule"],
        "not finished": found["not finished"],
        "length": float(np.mean(lengths)) if lengths else None,
        "CPU s": float(np.mean(taken)) if taken else None,
        "note": reason,
    }

"""PyXAI's reasons as sets of values per feature, so that the exact oracle can look for exceptions to them.

PyXAI (2.0.1) reads XGBoost and random forests; for boosted trees it gives tree-specific reasons, for forests sufficient
ones, about a majority vote where scikit-learn averages probabilities. A reason may say that a feature is *not* some
value, which is no component of ours; so what it admits is handed on as ``sets``: per feature the codes. Where each set
is what components can say, the rule is handed on too. Its length counts as ours do: a bound each, or a set of values.

The environment variable IRONRULE_PYXAI_PYTHON names the python of its environment (requirements-pyxai.txt and, to read
the models, requirements-peers.txt); without it the method is left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.paper.encoded import Encoded
from benchmarks.paper.methods import Found, Method
from benchmarks.paper.packages import version
from benchmarks.paper.subject import Subject
from benchmarks.proof_models import Task
from benchmarks.proof_peers import column_names, pyxai
from benchmarks.stopwatch import Taken
from ironrule import Component, Feature, Rule

BATCH = 10
VARIABLE = "IRONRULE_PYXAI_PYTHON"
COMPARED = {
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
    "EQ": np.equal,
    "NEQ": np.not_equal,
}
Said = list[tuple[str, str, float]]


def run(python: str, subject: Subject, rows: Sequence[int], budget: float) -> list[Found]:
    """PyXAI's reasons for some rows."""
    task = Task(subject.name, "", subject.model, subject.table, np.empty(0, dtype=np.intp))
    boosted = "XGB" in type(subject.model[-1]).__name__
    answer = pyxai(python, task, list(rows), ["tree-specific" if boosted else "sufficient"], budget)
    if answer.get("failed"):
        return [Found(None, Taken(0.0, 0.0), {"failed": answer["failed"]}) for _ in rows]
    by_row = {one["row"]: one for one in answer["answers"]}
    lost = {"failed": "PyXAI gave no answer"}
    return [_found(Encoded(subject), task, by_row.get(row, lost)) for row in rows]


def _found(encoded: Encoded, task: Task, answer: dict[str, Any]) -> Found:
    if answer.get("failed"):
        return Found(None, Taken(0.0, 0.0), {"failed": answer["failed"]})
    sets = _sets(encoded, task, answer["said"])
    parts = [_components(encoded.space.features[j], codes) for j, codes in sets.items()]
    plain = [components for components in parts if components is not None]
    rule = Rule(tuple(c for some in plain for c in some)) if len(plain) == len(parts) else None
    facts = {
        "sets": {str(j): codes.tolist() for j, codes in sets.items()},
        "cardinality": sum(1 if some is None else len(some) for some in parts),
        "conditions": answer["conditions"],
    }
    return Found(rule, Taken(answer["wall"], answer["cpu"]), facts)


def _sets(encoded: Encoded, task: Task, said: Said) -> dict[int, npt.NDArray[np.intp]]:
    """Per feature that a reason names the codes that it admits, if these are not all."""
    names, _ = column_names(task)
    admitted: dict[int, npt.NDArray[np.bool_]] = {}
    for name, relation, threshold in said:
        column = names.index(name)
        j, values = int(encoded.columns.features[column]), encoded.columns.values[column].astype(np.float32)
        holds = COMPARED[relation](values, np.float32(threshold))
        admitted[j] = admitted.get(j, np.ones(len(holds), dtype=np.bool_)) & holds
    return {j: np.flatnonzero(some) for j, some in admitted.items() if not some.all()}


def _components(feature: Feature, codes: npt.NDArray[np.intp]) -> list[Component] | None:
    """What components can say that admits these codes and no others; None if none can."""
    if not feature.ordered:
        return [Component.from_feature(feature, "==", feature.values[codes[0]])] if len(codes) == 1 else None
    if codes[-1] - codes[0] + 1 != len(codes):
        return None
    upper = [Component.from_feature(feature, "<=", feature.values[codes[-1]])] if codes[-1] < feature.last_code else []
    return [*([Component.from_feature(feature, ">=", feature.values[codes[0]])] if codes[0] > 0 else []), *upper]


def _methods() -> tuple[Method, ...]:
    python = os.environ.get(VARIABLE)
    if not python:
        return ()
    known = version("pyxai", python)

    def asked(subject: Subject, rows: Sequence[int], budget: float) -> list[Found]:
        return run(python, subject, rows, budget)

    return (Method("pyxai", f"PyXAI {known.split()[1]}", asked, lambda _: "tree-specific, sufficient", BATCH, known),)


METHODS = _methods()

"""Certificates: how large they are, and how long checking takes against finding.

    IRONRULE_DATA=<folder> python -m benchmarks.certificates [--quick] [--json FILE]

Each row is explained with all that the public face does (minimum rule, wider rule, counterfactuals), and its JSON is
handed to a checker that was made once for the model and the data, as somebody would who checks many. Finding ends with
the document written, since much of it is only put into words then; checking begins with reading it. The sizes are of
the whole document and of the certificates in it.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.proof_models import Task, make_task
from benchmarks.report import parser, show, store
from benchmarks.stopwatch import timed
from ironrule import Budget, Checker, Explainer, Explanation
from ironrule.progress import track

TASKS = (
    ("German", "XGBoost 100 x 4"),
    ("Credit", "XGBoost 100 x 6"),
    ("Adult", "XGBoost 100 x 6"),
    ("Credit", "LightGBM"),
    ("Credit", "forest 100 x 6"),
    ("HELOC", "XGBoost 100 x 4"),
)
SECONDS = 30.0


def certificate_bytes(explanation: Explanation) -> int:
    """The size of the best rule's and of the wider rule's certificate together."""
    shown = [explanation.ranked[0], *([] if explanation.wider is None else [explanation.wider])]
    return sum(len(json.dumps(one.to_dict()["verdict"])) for one in shown)


def written(explainer: Explainer, row: int) -> tuple[Explanation, str]:
    """A row's explanation, and its document."""
    explanation = explainer.explain(row, budget=Budget(seconds=SECONDS))
    return explanation, explanation.to_json()


def measured(task: Task, rows: list[int]) -> dict[str, Any]:
    """One line of the table."""
    explainer = task.explainer()
    checker = Checker(task.model, task.table, space=explainer.space)
    checker.check(explainer.explain(rows[0], budget=Budget(seconds=SECONDS)).to_json())
    answers = []
    for row in track(rows, task.name, len(rows), None):
        (explanation, text), found = timed(lambda row=row: written(explainer, row))
        check, checked = timed(lambda text=text: checker.check(text))
        answers.append((len(text), certificate_bytes(explanation), found, checked, check.status, explanation.minimum))
    sizes, certificates, found, checked, statuses, minimum = zip(*answers, strict=True)
    return {
        "task": task.name,
        "rows": len(rows),
        "minimum": sum(minimum),
        "checked proven": statuses.count("proven"),
        "refuted": statuses.count("refuted"),
        "document bytes": float(np.median(sizes)),
        "certificate bytes": float(np.median(certificates)),
        "largest": max(certificates),
        "find CPU ms": float(np.median([taken.cpu for taken in found])) * 1e3,
        "check CPU ms": float(np.median([taken.cpu for taken in checked])) * 1e3,
        "check / find, mean CPU": sum(taken.cpu for taken in checked) / sum(taken.cpu for taken in found),
    }


def main() -> None:
    """Measure, show, store."""
    options = parser(__doc__).parse_args()
    count = 5 if options.quick else 50
    lines = []
    for data, classifier in TASKS:
        task = make_task(data, classifier)
        lines.append(measured(task, task.rows(count if data != "HELOC" else max(5, count // 3), 0)))
        show("Certificates", lines[-1:])
    store(options.json, "certificates", {"tasks": lines})


if __name__ == "__main__":
    main()

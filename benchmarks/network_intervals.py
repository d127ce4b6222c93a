"""Networks over whole intervals beside values seen: how many rows are decided in the same time, and how long rules are.

``python -m benchmarks.network_intervals --rows 12 --seconds 10 30`` trains the networks of benchmarks/network_tasks.py.
A row is explained with a budget, by default to a minimum rule; the checker then looks at every explanation.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.network_tasks import train
from benchmarks.proof_tables import quantile
from ironrule import Explainer, Proven, check
from ironrule.space.domain import DomainMode

TASKS = (("Credit", "20+20 relu"), ("Credit", "20+20 tanh"), ("HELOC", "10+10 relu"), ("HELOC", "20+20 logistic"))
DOMAINS: tuple[DomainMode, ...] = ("seen", "auto")


def main() -> None:
    """Print one line per task, domain and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 30.0])
    parser.add_argument("--tasks", nargs="+", default=[", ".join(task) for task in TASKS])
    given = parser.parse_args()
    print("| task | domain | values | seconds | minimum | proven | undecided | components | median s | confirmed |")
    for name in given.tasks:
        data, network = name.split(", ", 1)
        task = train(data, network)
        rows = task.rows(given.rows, 0)
        for domain in DOMAINS:
            explainer = Explainer(task.model, task.table, desired=1, domain=domain, progress=False)
            explainer.explain(rows[0], budget=5)  # compiles
            for seconds in given.seconds:
                answers = [explain(explainer, task, row, seconds) for row in rows]
                print(_format_line(name, domain, explainer, seconds, answers), flush=True)


def explain(explainer: Explainer, task: Any, row: int, seconds: float) -> dict[str, Any]:
    """What is known of a row when the time is up."""
    began = time.perf_counter()
    explanation = explainer.explain(row, budget=seconds)
    wall = time.perf_counter() - began
    result = check(explanation, task.model, task.table, desired=1)
    return {
        "proven": isinstance(explanation.verdict, Proven),
        "minimum": explanation.minimum,
        "components": explanation.cardinality,
        "wall": wall,
        "confirmed": all(finding.status == "holds" for finding in result.findings),
    }


def _format_line(name: str, domain: str, explainer: Explainer, seconds: float, answers: list[dict[str, Any]]) -> str:
    minimum, proven, confirmed = (sum(one[key] for one in answers) for key in ("minimum", "proven", "confirmed"))
    length = np.mean([one["components"] for one in answers if one["proven"]]) if proven else float("nan")
    median = quantile([one["wall"] for one in answers], 0.5)
    cells = [name, domain, f"{int(explainer.space.sizes.sum()):,}", f"{seconds:g}", minimum, proven - minimum]
    cells += [len(answers) - proven, f"{length:.1f}", f"{median:.2f}", f"{confirmed} of {len(answers)}"]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()

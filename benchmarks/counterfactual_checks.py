"""How long it takes to check nearest counterfactuals, beside how long it took to find them.

    python -m benchmarks.counterfactual_checks --rows 20 --k 1 3

For every model and data set: how many answers are proven, how many of these the checker confirms, and the CPU time of
both in the median and at most. The checker reads the data and the model once, with the first row of each line.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.nearest import DATA, MODELS, make_task
from ironrule import Checker, Cost, Explainer


def build_logistic() -> Any:
    """A logistic regression on standardized columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def build_network() -> Any:
    """A network of two small layers."""
    return make_pipeline(StandardScaler(), MLPClassifier((12, 8), random_state=0, max_iter=300))


MODELS |= {"logistic": build_logistic, "network": build_network}
COSTS = {"fewest": Cost(), "l1": Cost("l1"), "l2": Cost("l2"), "linf": Cost("linf"), "mad": Cost("fewest", scale="mad")}


def run_line(data: str, name: str, options: argparse.Namespace) -> None:
    """One model on one data set."""
    task = make_task(data, name, options.rows)
    explainer = Explainer(task.model, task.past)
    checker = Checker(task.model, task.past)
    for k in options.k:
        found, checked, proven, statuses = list[float](), list[float](), 0, list[str]()
        for row in range(len(task.denied)):
            one = task.denied[row]
            start = time.process_time()
            answer = explainer.counterfactuals(
                one, k=k, budget=options.seconds, cost=COSTS[options.cost], progress=False
            )
            found.append(time.process_time() - start)
            if not answer.proven:
                continue
            proven += 1
            start = time.process_time()
            check = checker.check(answer)
            checked.append(time.process_time() - start)
            statuses.append(check.status)
            if check.status != "proven":
                print([finding for finding in check.findings if finding.status != "holds"], flush=True)
        confirmed = statuses.count("proven")
        times = [f"{np.median(some):.3f} (at most {max(some):.3f})" if some else "-" for some in (found, checked)]
        print(
            f"{data} {name} {options.cost} k={k}: proven {proven} of {len(task.denied)}, confirmed {confirmed}; ",
            end="",
        )
        print(f"found in {times[0]} s, checked in {times[1]} s", flush=True)


def main() -> None:
    """Run every line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--cost", default="fewest", choices=list(COSTS))
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    for data in options.data:
        for name in options.models:
            run_line(data, name, options)


if __name__ == "__main__":
    main()

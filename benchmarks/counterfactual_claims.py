"""Claims about changes under the checker, true and forged, in random settings.

    python -m benchmarks.counterfactual_claims --settings 200 --seed 1

A setting is a small table, a model, a row that it denies, a cost, a target, restrictions, whole intervals or values
seen. What the search proves must be confirmed or left undecided; the share that is decided is printed for every kind of
model and cost. Then documents are forged: a farther counterfactual, one left out, "there is none", another price,
another order, a finer resolution. None of them may be confirmed unless it is true: whatever is confirmed, true or
forged, is attacked by points at random, near it and between it and the row, which the user's own estimator decides. A
single cheaper one is printed with all that is needed to repeat it, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from ironrule import Checker, Cost, Explainer, Target
from ironrule.errors import IronruleError
from ironrule.verdict.digest import add_digest

Document = dict[str, Any]
MODELS: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "scaled logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=10.0)),
    "discriminant": lambda: make_pipeline(MinMaxScaler(), LinearDiscriminantAnalysis()),
    "network": lambda: make_pipeline(
        StandardScaler(), MLPClassifier((4,), solver="lbfgs", max_iter=60, random_state=0)
    ),
    "boosted": lambda: GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0),
    "forest": lambda: RandomForestClassifier(6, max_depth=4, random_state=0),
}
NETWORKS: dict[str, Callable[[], Any]] = {  # for --models
    "wider network": lambda: _build_network((10,), "relu"),
    "deeper network": lambda: _build_network((6, 4), "relu"),
    "tanh network": lambda: _build_network((5,), "tanh"),
    "logistic network": lambda: _build_network((6,), "logistic"),
}
ATTACKS = 40_000  # points against each confirmed document
SLACK = 1e-5  # of a cost: rounding that the checker does not look at, and more


def _build_network(sizes: tuple[int, ...], activation: Any) -> Any:
    network = MLPClassifier(sizes, activation=activation, solver="lbfgs", max_iter=60, random_state=0)
    return make_pipeline(StandardScaler(), network)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A model and a row, what is asked for, and whether whole intervals are meant."""

    name: str
    model: Any
    table: np.ndarray
    row: np.ndarray
    cost: Cost
    asked: dict[str, Any]
    k: int
    intervals: bool

    def list_models(self) -> list[Any]:
        """All models that must agree."""
        return [self.model, *self.asked.get("models", [])]

    def meets(self, points: np.ndarray) -> np.ndarray:
        """Which points are counterfactuals, by the user's own estimators."""
        good = np.ones(len(points), dtype=np.bool_)
        target, margin = self.asked.get("target"), self.asked.get("margin", 0.0)
        for model in self.list_models():
            scores = model.predict_proba(points)[:, 1]
            if target is None:
                good &= np.asarray(model.predict(points) == 1)
                good &= (scores > 0.5 + margin) if margin else True
                continue
            if target.above is not None:
                good &= scores > target.above + margin
            if target.at_most is not None:
                good &= scores <= target.at_most - margin
        for text in self.asked.get("constraints", []):
            good &= RESTRICTIONS[text](points, self.row)
        varying = self.asked.get("features_to_vary")
        for j in range(points.shape[1]):
            if varying is not None and f"x{j}" not in varying:
                good &= points[:, j] == self.row[j]
        return good

    def measure(self, points: np.ndarray) -> np.ndarray:
        """What points cost; with the norm "fewest" the changes, and a share of the distance below 1."""
        parts = np.zeros(points.shape)
        for j, column in enumerate(self.table.T):
            price, own = self.cost.get_price(f"x{j}"), self.row[j]
            middle = np.abs(column - np.median(column))
            apart = np.abs(points[:, j] - own) / np.ptp(column)
            if self.cost.scale == "mad":
                apart = np.abs(points[:, j] - own) / (np.median(middle) or middle.mean())
            elif self.cost.scale == "percentile":
                ranks = np.searchsorted(np.sort(column), np.append(points[:, j], own))
                apart = np.abs(ranks[:-1] - ranks[-1]) / len(column)
            each = np.where(points[:, j] > own, price.up, price.down)
            with np.errstate(invalid="ignore"):
                parts[:, j] = np.where(points[:, j] == own, 0.0, np.where(np.isinf(each), np.inf, apart * each))
        count = (points != self.row).sum(axis=1)
        if self.cost.norm == "l2":
            return np.sqrt((parts**2).sum(axis=1))
        if self.cost.norm == "linf":
            return parts.max(axis=1)
        total = parts.sum(axis=1) + self.cost.per_change * count
        return total if self.cost.norm == "l1" else np.where(np.isinf(total), np.inf, 1e6 * count + total)


RESTRICTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "cf.x0 >= x.x0": lambda points, row: points[:, 0] >= row[0],
    "cf.x1 <= 2.25": lambda points, _: points[:, 1] <= 2.25,
    "cf.x2 == x.x2": lambda points, row: points[:, 2] == row[2],
    "if cf.x0 > x.x0 then cf.x1 == x.x1": lambda points, row: (points[:, 0] <= row[0]) | (points[:, 1] == row[1]),
    "cf.x1 == x.x1 or cf.x1 >= x.x1 + 0.75 or cf.x1 <= x.x1 - 0.75": lambda points, row: (
        (points[:, 1] == row[1]) | (points[:, 1] >= row[1] + 0.75) | (points[:, 1] <= row[1] - 0.75)
    ),
}


def draw_setting(seed: int, chosen: list[str] | None = None) -> Setting | None:
    """A setting, with one of the chosen models; None where the model denies no row or gives it to all."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(3, 6))
    table = rng.normal(size=(80, width)) * rng.uniform(0.5, 20, size=width) + rng.normal(size=width)
    table[:, 0] = np.round(table[:, 0])
    table = np.round(table, int(rng.integers(1, 4)))
    slopes = rng.normal(size=width)
    scores = ((table - table.mean(axis=0)) / table.std(axis=0)) @ slopes + rng.normal(size=80) / 3
    classes = (scores > np.quantile(scores, 0.6)).astype(int)
    name = str(rng.choice(chosen or list(MODELS), p=None if chosen else [0.25, 0.2, 0.15, 0.2, 0.1, 0.1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any network will do
        model = (MODELS | NETWORKS)[name]().fit(table, classes)
        further = LogisticRegression().fit(table[::2], classes[::2])
    asked: dict[str, Any] = {}
    kind = rng.random()
    if kind < 0.2:
        asked["margin"] = 0.1
    elif kind < 0.35:
        asked["target"] = Target(above=0.55, at_most=0.8)
    elif kind < 0.45 and "network" not in name:
        asked["models"] = [further]
    if rng.random() < 0.3:
        asked["constraints"] = [str(one) for one in rng.choice(list(RESTRICTIONS), 2, replace=False)]
    if rng.random() < 0.15:
        asked["features_to_vary"] = [f"x{j}" for j in range(width) if j != 1]
    cost = _draw_cost(rng)
    setting = Setting(name, model, table, table[0], cost, asked, int(rng.integers(1, 4)), rng.random() < 0.75)
    denied = [row for row in table if not setting.meets(row[None, :])[0] and model.predict(row[None, :])[0] == 0]
    if not denied:
        return None
    row = denied[int(rng.integers(len(denied)))]
    return Setting(name, model, table, row, cost, asked, setting.k, setting.intervals)


def _draw_cost(rng: np.random.Generator) -> Cost:
    norm = str(rng.choice(["fewest", "l1", "l2", "linf"], p=[0.16, 0.28, 0.28, 0.28]))
    prices: dict[str, Any] = {}
    for j in range(3):
        if rng.random() < 0.25:
            prices[f"x{j}"] = float(rng.choice([0.5, 2.0])) if rng.random() < 0.5 else {"up": 0.7, "down": 2.5}
    if rng.random() < 0.1:
        prices["x2"] = float("inf")
    scale = str(rng.choice(["range", "mad", "percentile"], p=[0.6, 0.2, 0.2]))
    charge = 0.05 if norm == "l1" and rng.random() < 0.3 else 0.0
    return Cost(norm, scale, prices=prices, per_change=charge)


def read_points(setting: Setting, document: Document) -> np.ndarray:
    """The counterfactuals of a document."""
    names = [f"x{j}" for j in range(len(setting.row))]
    found = [[one["values"][name] for name in names] for one in document["counterfactuals"]]
    return np.array(found, dtype=np.float64).reshape(-1, len(names))


def attack(setting: Setting, document: Document, rng: np.random.Generator) -> np.ndarray | None:
    """A point that shows a confirmed document to be false; None if none was found."""
    points = read_points(setting, document)
    proposals = _propose(setting, points, rng, document["scope"].get("breakpoints") is not None)
    proposals = proposals[setting.meets(proposals)]
    costs, changed = setting.measure(proposals), proposals != setting.row
    alive = np.isfinite(costs)
    for point, cost in zip(points, setting.measure(points), strict=True):
        away = document["resolution"]
        if setting.cost.norm == "fewest":
            away *= (point != setting.row).sum() if setting.cost.is_usual else 1.0
        cheaper = alive & (costs < cost - away - SLACK * max(1.0, cost if cost < 1e5 else 1.0))
        if cheaper.any():
            return np.asarray(proposals[np.flatnonzero(cheaper)[0]])
        alive &= ~changed[:, point != setting.row].all(axis=1)
    if len(points) < document["scope"]["k"] and alive.any():
        return np.asarray(proposals[np.flatnonzero(alive)[0]])
    return None


def _propose(setting: Setting, points: np.ndarray, rng: np.random.Generator, between_values: bool) -> np.ndarray:
    """Points of the domain at random, near the counterfactuals, and between these and the row; or values seen alone."""
    low, high = setting.table.min(axis=0), setting.table.max(axis=0)
    width, count = len(setting.row), ATTACKS // 4
    seen = np.stack([rng.choice(column, ATTACKS) for column in setting.table.T], axis=1)
    anything = rng.uniform(low, high, size=(ATTACKS, width)) if between_values else seen
    mixed = np.where(rng.random((ATTACKS, width)) < 0.5, anything, seen)
    if between_values:
        base = points[rng.integers(len(points), size=ATTACKS)] if len(points) else mixed
        near = base + rng.normal(size=base.shape) * (high - low) * 10.0 ** rng.uniform(-5, -1, size=(ATTACKS, 1))
        between = setting.row + (base - setting.row) * rng.uniform(0, 1.02, size=base.shape)
        mixed[:count], mixed[count : 2 * count] = near[:count], between[:count]
        goal = mixed[-count:]
        mixed[-count:] = setting.row + (goal - setting.row) * rng.uniform(0, 1, size=(count, 1)) ** 2
    mixed = np.where(rng.random(mixed.shape) < rng.uniform(0.05, 1.0, size=(len(mixed), 1)), mixed, setting.row)
    mixed[:, 0] = np.round(mixed[:, 0])  # whole numbers
    return np.clip(mixed, low, high)


def forge(setting: Setting, document: Document, rng: np.random.Generator) -> Iterator[tuple[str, Document]]:
    """Documents that say something else, each with a digest that fits."""
    document = {name: value for name, value in document.items() if name != "proven_count"}  # all is claimed
    items, scope = document["counterfactuals"], document["scope"]

    def write(**fields: Any) -> Document:
        return add_digest({**copy.deepcopy(document), **fields})

    if items:
        yield "the first left out", write(counterfactuals=items[1:])
        yield "none", write(counterfactuals=[])
        yield "as if alone", write(counterfactuals=items[:1], scope={**scope, "k": 2})
        yield "exactly", write(resolution=0.0)
        yield "another order", write(counterfactuals=items[::-1])
        prices = {change["feature"]: 3.0 for change in items[0]["changes"][:1]}
        dearer = Cost(setting.cost.norm, setting.cost.scale, prices=prices, per_change=setting.cost.per_change)
        yield "another price", write(cost=dearer.to_dict(), counterfactuals=items[:1], scope={**scope, "k": 1})
    between_values = document["scope"].get("breakpoints") is not None
    proposals = _propose(setting, read_points(setting, document), rng, between_values)
    good = proposals[setting.meets(proposals)]
    for point in good[rng.permutation(len(good))[:3]]:
        yield "another point", write(counterfactuals=[_write(setting.row, point)], scope={**scope, "k": 1})


def _write(row: np.ndarray, point: np.ndarray) -> Document:
    pairs = [(f"x{j}", old, new) for j, (old, new) in enumerate(zip(row.tolist(), point.tolist(), strict=True))]
    changes = [{"feature": name, "before": old, "after": new} for name, old, new in pairs if old != new]
    return {"values": {name: new for name, _, new in pairs}, "changes": changes}


def main() -> int:
    """Run the settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--models", nargs="+", choices=[*MODELS, *NETWORKS], help="instead of six of all kinds")
    parser.add_argument("--only-true", action="store_true", help="forge nothing")
    parser.add_argument("--print-undecided", action="store_true")
    options = parser.parse_args()
    told: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    forged: dict[str, Counter[str]] = defaultdict(Counter)
    wrong, checking = 0, 0.0
    for seed in range(options.seed, options.seed + options.settings):
        setting, rng = draw_setting(seed, options.models), np.random.default_rng(seed + 10**6)
        if setting is None:
            continue
        try:
            explainer = Explainer(setting.model, setting.table, **({} if setting.intervals else {"domain": "seen"}))
            found = explainer.counterfactuals(
                setting.row, k=setting.k, cost=setting.cost, budget=options.seconds, progress=False, **setting.asked
            )
        except IronruleError:  # nothing at all may be chosen
            continue
        if found.scope is None:
            continue
        document = json.loads(found.to_json())
        checker = Checker(setting.model, setting.table, models=setting.asked.get("models", ()))
        line = (
            setting.name,
            setting.cost.norm + (" seen" if document["scope"].get("breakpoints") is None else " whole"),
        )
        if found.proven:
            start = time.process_time()
            result = checker.check(document)
            checking += time.process_time() - start
            told[line][result.status] += 1
            if result.status == "refuted":
                wrong += 1
                print(f"setting {seed}: a proven answer is refuted: {result}", flush=True)
            if result.status == "undecided" and options.print_undecided:
                print(f"setting {seed} {line} {setting.cost} {sorted(setting.asked)}: {result}", flush=True)
            every = [("true", document)]
        else:
            every = []
        every += [] if options.only_true else forge(setting, {**document, "proven": True}, rng)
        for what, one in every:
            status = checker.check(one).status if what != "true" else result.status
            forged[what][status] += 1
            point = attack(setting, one, rng) if status == "proven" else None
            if point is not None:
                wrong += 1
                print(
                    f"setting {seed}: confirmed, but {point.tolist()} is cheaper ({what}): {json.dumps(one)}",
                    flush=True,
                )
    _print(told, forged, checking)
    return int(wrong > 0)


def _print(told: dict[tuple[str, str], Counter[str]], forged: dict[str, Counter[str]], seconds: float) -> None:
    for (model, cost), counts in sorted(told.items()):
        print(f"{model:16} {cost:13} proven {counts.total():4}, confirmed {counts['proven']:4}")
    every = sum(told.values(), Counter[str]())
    print(f"all: proven {every.total()}, {dict(every)}, checked in {seconds:.1f} s of CPU")
    for what, counts in forged.items():
        print(f"forged, {what:20} {dict(counts)}")


if __name__ == "__main__":
    sys.exit(main())

"""Ladders on real data: do their bounds hold, what are short rules worth, and how long does a ladder take?

``python -m benchmarks.ladder validity --ladders 1000``: the rows of a data set that a model was not trained on are a
population whose every share is known. Histories are drawn from it (with replacement, so that draws are independent),
ladders of denied people are built, and every bound is compared with the true share. A ladder is broken if one of its
bounds is: at 95 % confidence that may happen to 5 % of them. Rows with the same history share what they are measured
on, so few rows are taken per history. Five data sets, three models each.

``python -m benchmarks.ladder worth`` measures what rules of each length are worth (XGBoost, 100 trees of depth 6, and
others): bound, exceptions among fresh rows, rows covered, beside the rule that Anchor finds for the same row.

``python -m benchmarks.ladder peers`` asks anchor-exp and alibi about the same people (IRONRULE_ANCHOR_PYTHON and
IRONRULE_ALIBI_PYTHON name the pythons of their environments), and compares each of their rules with our rung of the
same length. A rule's length is the number of its components: both ends of a range are two.

``python -m benchmarks.ladder training-rows`` measures bounds on rows that the model was trained on, and on others, and
compares both with the share of exceptions among fresh rows: a deep forest is the worst case.

``python -m benchmarks.ladder limit`` asks how good a bound could be at all with so many measured rows: rules are chosen
on the search part, as ladders do, and once more with all rows in sight, measured and fresh ones too, which nobody may
do. The second choice is no result; what even it does not reach needs more measured rows, not a better search.

``python -m benchmarks.ladder speed`` times the search for the best rules alone.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.ensemble import RandomForestClassifier

from benchmarks.stopwatch import best, timed
from benchmarks.unseen import CLASSIFIERS, DATA, train
from ironrule import Budget, Explainer, Ladder
from ironrule.explain.ladder import RULES_WIDENED, RungBuilder
from ironrule.explain.query import build_case
from ironrule.search.best_of_length import ComponentRows, find_best_rules
from ironrule.verdict.bounded import Bounded

MODELS = ("XGBoost", "forest", "logistic")
ROWS_PER_HISTORY = 5
MOST = 4
BUDGET = Budget(seconds=1.0)  # of the last rung, whose proof is not what is measured here
SHORT_BUDGET = Budget(seconds=0.2)
PEER_DATA = ("German", "Adult", "Credit", "HELOC")
PEER_MOST = 6
PEER_SECONDS = 5.0  # per row


@dataclass(frozen=True, slots=True)
class Task:
    """A model, and rows that it was not trained on."""

    model: Any
    rows: pd.DataFrame
    outcomes: np.ndarray[Any, np.dtype[np.bool_]]


def prepare(data: str, classifier: str, train_rows: int) -> Task:
    """Train on some rows of a data set; the others are fresh."""
    table, target = DATA[data]()
    order = np.random.default_rng(0).permutation(len(table))
    table, target = table.iloc[order].reset_index(drop=True), target.iloc[order].reset_index(drop=True)
    model = train(table[:train_rows], target[:train_rows], classifier)
    fresh = table[train_rows : train_rows + 60_000].reset_index(drop=True)
    return Task(model, fresh, np.asarray(model.predict(fresh)) == 1)


@dataclass(slots=True)
class ValidityTally:
    """What came of the ladders of one model."""

    ladders: int = 0
    broken: int = 0
    rungs: int = 0
    broken_rungs: int = 0

    def add(self, ladder: Ladder, task: Task) -> None:
        """Compare every bound with the true share in the population."""
        broken = 0
        for rung in ladder[:-1]:
            covered = rung.rule.covers(task.rows)  # the explained row at least
            broken += task.outcomes[covered].mean() > rung.exception_bound
        self.ladders += 1
        self.rungs += len(ladder) - 1
        self.broken_rungs += broken
        self.broken += broken > 0


def measure_validity(ladders: int, history_rows: int) -> None:
    """Print one line per data set and model."""
    print("| data, model | ladders | broken | share | rungs | broken rungs |")
    print("|---|--:|--:|--:|--:|--:|")
    total = ValidityTally()
    per_model = -(-ladders // (len(DATA) * len(MODELS)))
    for data in DATA:
        rows = min(history_rows, len(DATA[data]()[0]) // 2)
        for classifier in MODELS:
            task, tally = prepare(data, classifier, rows), ValidityTally()
            for seed in range(-(-per_model // ROWS_PER_HISTORY)):
                _add_history(task, rows, seed, tally)
            print(_format_validity(f"{data}, {classifier}", tally), flush=True)
            for name in ("ladders", "broken", "rungs", "broken_rungs"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
    print(_format_validity("all", total))


def _add_history(task: Task, rows: int, seed: int, tally: ValidityTally) -> None:
    rng = np.random.default_rng(seed)
    past = task.rows.iloc[rng.choice(len(task.rows), rows)].reset_index(drop=True)
    explainer = Explainer(task.model, past, desired=1, domain="seen", progress=False)
    for place in rng.choice(np.flatnonzero(~task.outcomes), ROWS_PER_HISTORY).tolist():
        row = task.rows.iloc[place].to_dict()
        ladder = explainer.ladder(row, MOST, nested=seed % 2 == 0, budget=BUDGET, progress=False)
        tally.add(ladder, task)


def _format_validity(name: str, tally: ValidityTally) -> str:
    share = tally.broken / max(1, tally.ladders)
    return f"| {name} | {tally.ladders} | {tally.broken} | {share:.1%} | {tally.rungs} | {tally.broken_rungs} |"


def xgboost_large() -> Any:
    """XGBoost, 100 trees of depth 6."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0)


LARGE: dict[str, Callable[[], Any]] = {
    "XGBoost 100 x 6": xgboost_large,
    "LightGBM": CLASSIFIERS["LightGBM"],
    "deep forest": lambda: RandomForestClassifier(50, n_jobs=1, random_state=0),
    "MLP": CLASSIFIERS["MLP"],
}


@dataclass(slots=True)
class WorthTally:
    """Per length: bounds, shares of exceptions among fresh rows, past rows covered."""

    bounds: dict[str, list[float]] = field(default_factory=dict)
    fresh: dict[str, list[float]] = field(default_factory=dict)
    coverage: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, bound: float, rule: Any, fresh: pd.DataFrame, outcomes: Any) -> None:
        """One rule; a rule that covers no fresh row says nothing of them."""
        covered = rule.covers(fresh)
        self.bounds.setdefault(name, []).append(bound)
        self.coverage.setdefault(name, []).append(covered.mean())
        if covered.any():
            self.fresh.setdefault(name, []).append(outcomes[covered].mean())


def measure_worth(rows: int, only: list[str], nested: bool) -> None:
    """Print one line per data set, model and length."""
    print("| data, model | rule | bound, median | exceptions among fresh rows, median (mean) | fresh rows covered |")
    print("|---|---|--:|--:|--:|")
    CLASSIFIERS.update(LARGE)  # so that they are trained behind the same encoders
    for data in [name for name in DATA if name in only] or DATA:
        size = len(DATA[data]()[0])
        for classifier in [name for name in LARGE if name in only] or LARGE:
            task = prepare(data, classifier, min(20_000, size // 3))
            half = len(task.rows) * 2 // 3
            explainer = Explainer(task.model, task.rows[:half], desired=1, domain="seen", progress=False)
            fresh, outcomes = task.rows[half:], task.outcomes[half:]
            tally = WorthTally()
            for place in np.flatnonzero(~outcomes)[:rows].tolist():
                row = fresh.iloc[place].to_dict()
                ladder = explainer.ladder(row, MOST, nested=nested, budget=BUDGET, progress=False)
                for rung in ladder[:-1]:
                    tally.add(f"{rung.cardinality} components", rung.exception_bound, rung.rule, fresh, outcomes)
                tally.add("last rung", ladder.last.exception_bound, ladder.last.rule, fresh, outcomes)
                anchor = explainer.explain(row, "anchor", budget=BUDGET, progress=False).rule
                tally.add(f"Anchor, {anchor.cardinality} components", 1.0, anchor, fresh, outcomes)
            for name in sorted(tally.bounds):
                shares = tally.fresh.get(name, [float("nan")])
                cells = f"{np.median(tally.bounds[name]):.2%} | {np.median(shares):.2%} ({np.mean(shares):.2%})"
                count = len(tally.bounds[name])
                covered = np.median(tally.coverage[name])
                print(f"| {data}, {classifier} | {name} ({count}) | {cells} | {covered:.2%} |", flush=True)


def measure_peers(rows: int, only: list[str]) -> None:
    """Print, per data set and package, its rules beside our rungs of the same length."""
    from benchmarks.data import heloc as heloc_as_it_is  # the packages take no missing values
    from benchmarks.paper.methods_anchor_packages import PACKAGES, run
    from benchmarks.paper.subject import Subject

    print("| data, model | whose rule | rules | length | bound, median | fresh rows, median (mean) | covered | CPU s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    CLASSIFIERS.update(LARGE)
    DATA["HELOC"] = heloc_as_it_is
    data_names = [name for name in PEER_DATA if name in only] or PEER_DATA
    model_names = [name for name in LARGE if name in only] or LARGE
    for data, classifier in product(data_names, model_names):
        task = prepare(data, classifier, min(20_000, len(DATA[data]()[0]) // 3))
        half = len(task.rows) * 2 // 3
        past, fresh, outcomes = task.rows[:half], task.rows[half:], task.outcomes[half:]
        explainer = Explainer(task.model, past, desired=1, domain="seen", progress=False)
        places = np.flatnonzero(~task.outcomes[:half])[:rows].tolist()
        ladders: dict[str, list[tuple[Ladder, float]]] = {}
        for name, nested in (("nested", True), ("best of length", False)):
            build = partial(explainer.ladder, most=PEER_MOST, nested=nested, budget=SHORT_BUDGET, progress=False)
            built = [timed(partial(build, past.iloc[place].to_dict())) for place in places]
            ladders[name] = [(ladder, taken.cpu) for ladder, taken in built]
        for package, variable in PACKAGES.items():
            if variable not in os.environ:
                continue
            subject = Subject(data, task.model, past, 1)
            found = run(package, os.environ[variable], subject, places, PEER_SECONDS)
            tally, lengths = WorthTally(), []
            cpu: dict[str, list[float]] = {name: [] for name in (package, *ladders)}
            for number, one in enumerate(found):
                length = 0 if one.rule is None else one.rule.cardinality
                equal = {
                    name: rung
                    for name, own in ladders.items()
                    for rung in own[number][0][:-1]
                    if rung.cardinality == length
                }
                # A person counts where all have a rule of this length.
                if one.rule is None or len(equal) < len(ladders):
                    continue
                lengths.append(length)
                tally.add(package, float("nan"), one.rule, fresh, outcomes)
                cpu[package].append(one.taken.cpu)
                for name, rung in equal.items():
                    tally.add(name, rung.exception_bound, rung.rule, fresh, outcomes)
                    cpu[name].append(ladders[name][number][1])
            print(f"{data}, {classifier}, {package}: of {len(found)} people {len(lengths)} are compared", flush=True)
            for name in tally.bounds:
                shares = tally.fresh.get(name, [float("nan")])
                bound = "none" if name == package else f"{np.median(tally.bounds[name]):.2%}"
                cells = f"{len(lengths)} | {np.mean(lengths):.1f} | {bound}"
                cells += f" | {np.median(shares):.2%} ({np.mean(shares):.2%}) | {np.median(tally.coverage[name]):.2%}"
                print(f"| {data}, {classifier} | {name} | {cells} | {np.median(cpu[name]):.2f} |", flush=True)


def measure_limit(rows: int, only: list[str]) -> None:
    """Print, per length, the bounds of rules chosen honestly, and of rules chosen with all rows in sight."""
    print("| data | components | rows seen by the choice | bound, median | fresh rows, median (mean) | covered |")
    print("|---|--:|---|--:|--:|--:|")
    CLASSIFIERS.update(LARGE)
    for data in [name for name in ("Adult", "Credit", "HELOC") if name in only] or ("Adult", "Credit", "HELOC"):
        task = prepare(data, "XGBoost 100 x 6", min(20_000, len(DATA[data]()[0]) // 3))
        is_fresh = np.arange(len(task.rows)) >= len(task.rows) * 2 // 3
        is_searched = ~is_fresh & (np.random.default_rng(0).random(len(task.rows)) < 0.5)
        is_measured = ~is_fresh & ~is_searched
        choices = {"search part": is_searched, "all": np.ones(len(task.rows), dtype=np.bool_)}
        context = Explainer(task.model, task.rows, desired=1, domain="seen", progress=False)._context
        tallies: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
        for place in np.flatnonzero(~task.outcomes & is_fresh)[:rows].tolist():
            case = build_case(context, task.rows.iloc[place].to_dict())
            own = case.components
            for seen, is_seen in choices.items():
                builder = RungBuilder(
                    case=case,
                    components={number: own.component(number) for number in own.usable_numbers},
                    outcome="",
                    columns=tuple(column[is_seen] for column in context.search_history.codes.columns),
                    outcomes=task.outcomes[is_seen],
                    critical_value=-float(ndtri(0.05 / MOST)),
                    scale=is_measured.sum() / is_seen.sum(),
                )
                component_rows = builder.build_component_rows(sorted(builder.components))
                for length in range(1, MOST + 1):
                    found = find_best_rules(component_rows, length, RULES_WIDENED).rules
                    bounds, _ = min((builder.widen_bounds(rule.numbers, {}) for rule in found), key=lambda one: one[1])
                    covered = builder.build_rule(bounds).covers(task.rows)
                    measured, fresh = covered & is_measured, covered & is_fresh
                    bound = Bounded.from_counts(int(task.outcomes[measured].sum()), int(measured.sum()), 0.95, MOST)
                    shares = bound.exceptions, task.outcomes[fresh].mean(), fresh.sum() / is_fresh.sum()
                    tallies.setdefault((length, seen), []).append(shares)
        for (length, seen), shares in sorted(tallies.items()):
            medians, means = np.median(shares, axis=0), np.mean(shares, axis=0)
            cells = f"{medians[0]:.2%} | {medians[1]:.2%} ({means[1]:.2%}) | {medians[2]:.2%}"
            print(f"| {data} | {length} | {seen} | {cells} |", flush=True)


TRAINING_MODELS = ("deep forest", "XGBoost 100 x 6", "logistic")
TRAINING_ROWS = 3000


def measure_training_rows(rows: int, only: list[str]) -> None:
    """Print, per data set and model, what bounds say that were measured on training rows and on others."""
    print(
        "| data, model | measured on | ladders | broken | rungs | bound, median | fresh rows, median | broken rungs |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    CLASSIFIERS.update(LARGE)
    for data in [name for name in ("Adult", "HELOC") if name in only] or ("Adult", "HELOC"):
        table, target = DATA[data]()
        order = np.random.default_rng(0).permutation(len(table))
        table, target = table.iloc[order].reset_index(drop=True), target.iloc[order].reset_index(drop=True)
        for classifier in [name for name in TRAINING_MODELS if name in only] or TRAINING_MODELS:
            model = train(table[:TRAINING_ROWS], target[:TRAINING_ROWS], classifier)
            fresh = table[2 * TRAINING_ROWS :].reset_index(drop=True)
            task = Task(model, fresh, np.asarray(model.predict(fresh)) == 1)
            for name, first in (("training rows", 0), ("other rows", TRAINING_ROWS)):
                past = table[first : first + TRAINING_ROWS].reset_index(drop=True)
                _print_training_line(f"{data}, {classifier} | {name}", task, past, rows)


def _print_training_line(name: str, task: Task, past: pd.DataFrame, rows: int) -> None:
    """Ladders of the same fresh people, measured on half of these past rows."""
    explainer = Explainer(task.model, past, desired=1, domain="seen", progress=False)
    tally, bounds, shares = ValidityTally(), [], []
    for place in np.flatnonzero(~task.outcomes)[:rows].tolist():
        row = task.rows.iloc[place].to_dict()
        ladder = explainer.ladder(row, MOST, nested=False, budget=SHORT_BUDGET, progress=False)
        tally.add(ladder, task)
        bounds += [rung.exception_bound for rung in ladder[:-1]]
        shares += [task.outcomes[rung.rule.covers(task.rows)].mean() for rung in ladder[:-1]]
    cells = f"{tally.ladders} | {tally.broken} | {tally.rungs} | {np.median(bounds):.2%} | {np.median(shares):.2%}"
    print(f"| {name} | {cells} | {tally.broken_rungs} |", flush=True)


def measure_speed() -> None:
    """The best rules of one to four components, among 46, on made-up rows."""
    print("| rows | length | CPU, ms | found |")
    print("|--:|--:|--:|---|")
    for rows in (10_000, 1_000_000):
        rng = np.random.default_rng(0)
        values = rng.random((rows, 23), dtype=np.float32)
        outcomes = values[:, :6].sum(axis=1) + rng.normal(0, 0.5, rows) > 3.0
        flags = np.concatenate([(values <= 0.45).T, (values >= 0.45).T])
        packed, taken = timed(partial(ComponentRows.from_flags, range(46), flags, outcomes, 2.24))
        print(f"| {rows:,} | bitsets | {1e3 * taken.cpu:.1f} | |")
        for length in range(1, 5):
            shortest = best(partial(find_best_rules, packed, length, 4), 3)
            found = find_best_rules(packed, length, 4)
            print(f"| {rows:,} | {length} | {1e3 * shortest.cpu:.1f} | {found.rules[0].numbers} |")


def main() -> None:
    """Run one section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "section", choices=("validity", "worth", "peers", "training-rows", "limit", "speed"), nargs="?", default="worth"
    )
    parser.add_argument("--ladders", type=int, default=1000, help="validity: ladders in all")
    parser.add_argument("--history", type=int, default=2000, help="validity: past rows, half of which are measured on")
    parser.add_argument("--rows", type=int, default=20, help="worth, training-rows: rows per data set and model")
    parser.add_argument("--only", nargs="+", default=[], help="worth, training-rows: names of data sets and models")
    parser.add_argument("--not-nested", dest="nested", action="store_false", help="worth: the best rule of each length")
    given = parser.parse_args()
    if given.section == "validity":
        measure_validity(given.ladders, given.history)
    elif given.section == "worth":
        measure_worth(given.rows, given.only, given.nested)
    elif given.section == "peers":
        measure_peers(given.rows, given.only)
    elif given.section == "training-rows":
        measure_training_rows(given.rows, given.only)
    elif given.section == "limit":
        measure_limit(given.rows, given.only)
    else:
        measure_speed()


if __name__ == "__main__":
    main()

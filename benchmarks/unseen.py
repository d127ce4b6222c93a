"""Applicants whose values no past row has: are they explained, do the proofs hold, and what do whole intervals cost?

``python -m benchmarks.unseen --rows 5`` trains eight kinds of models on five data sets. Denied rows get one to three
numbers that no past row has, most between the smallest and the largest seen, some beyond, and sometimes a new category.
Each row is explained and the document checked. Then the model itself is asked for exceptions, inside the box of the
rule and inside that of the wider one: with every number at a bound, at a threshold of the model or next to one, as few
as one feature away from the row; at random; and uphill, where each step takes the change that raises the model's score
most. The same rows are also explained with ``domain="seen"``, which gives lengths and times to compare.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.data import adult, credit, heloc as raw_heloc, sba as raw_sba
from benchmarks.proof_tables import quantile
from ironrule import Check, Explainer, Explanation, Proven, check
from ironrule.data import load_german
from ironrule.results.scope import DomainSummary
from ironrule.rule.rule import Rule
from ironrule.space.domain import DomainMode

BUDGET_SECONDS = 10.0
NEW_CATEGORY = "a category that nobody has"
VALUES_PER_FEATURE = 60  # of a feature with more, some are drawn for every question
RANDOM_POINTS = 800
MANY_VALUES = 100
CLIMBS = 6

Row = dict[str, Any]


def german() -> tuple[pd.DataFrame, pd.Series]:
    """The bundled German credit data, and its target, 1 = good = desired."""
    table, target = load_german()
    return table, (target == "good").astype(int)


def heloc() -> tuple[pd.DataFrame, pd.Series]:
    """FICO's HELOC data with -9, -8 and -7 as what they mean, no value, and its target, 1 = good = desired."""
    table, target = raw_heloc()
    return table.mask(table < 0), target


def sba() -> tuple[pd.DataFrame, pd.Series]:
    """The SBA loans, as many not paid back as paid back: few models deny anybody where four in five pay back."""
    table, target = raw_sba()
    rng = np.random.default_rng(0)
    places = np.flatnonzero(target == 0)
    chosen = np.concatenate([places, rng.choice(np.flatnonzero(target == 1), len(places), replace=False)])
    return table.iloc[chosen], target.iloc[chosen]


def xgboost() -> Any:
    """XGBoost, 50 trees of depth 4."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=50, max_depth=4, n_jobs=1, random_state=0)


def lightgbm() -> Any:
    """LightGBM, 50 trees of 15 leaves."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=50, num_leaves=15, n_jobs=1, random_state=0, verbose=-1)


def additive() -> Any:
    """An explainable boosting machine without interactions."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(interactions=0, outer_bags=2, max_rounds=300, n_jobs=1, random_state=0)


DATA: dict[str, Callable[[], tuple[pd.DataFrame, pd.Series]]] = {
    "German": german,
    "Adult": adult,
    "Credit": credit,
    "HELOC": heloc,
    "SBA": sba,
}
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=6, random_state=0),
    "forest": lambda: RandomForestClassifier(30, max_depth=5, n_jobs=1, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=40, random_state=0),
    "XGBoost": xgboost,
    "LightGBM": lightgbm,
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "EBM": additive,
    "MLP": lambda: MLPClassifier((10,), max_iter=300, random_state=0),
}
IMPUTED = ("boosting", "logistic", "MLP")  # these take no missing values
SCALED = ("logistic", "MLP")


@dataclass(slots=True)
class Tally:
    """What came of the rows of one model."""

    rows: int = 0
    proven: int = 0
    minimum: int = 0
    checked: int = 0
    points: int = 0
    exceptions: int = 0
    lengths: dict[DomainMode, list[int]] = field(default_factory=lambda: {"auto": [], "seen": []})
    ratios: list[float] = field(default_factory=list)

    def format_line(self, name: str) -> str:
        """One line of the table."""
        auto, seen = (quantile(self.lengths[domain], 0.5) for domain in ("auto", "seen"))
        cells = [name, self.rows, self.proven, self.minimum, self.checked, f"{self.points:,}", self.exceptions]
        cells += [f"{auto:g}", f"{seen:g}", f"{quantile(self.ratios, 0.5):.2f}"]
        return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print one line per data set and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5, help="rows per data set and model")
    parser.add_argument("--history", type=int, default=2000, help="past rows, drawn from the data")
    parser.add_argument("--only", nargs="+", default=[], help="names of data sets and models; others are left out")
    given = parser.parse_args()
    print("| data, model | rows | proven | minimum | checked | points asked | exceptions | length | seen | time |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for data, classifier in list_tasks(given.only):
        tally = measure(data, classifier, given.history, given.rows)
        print(tally.format_line(f"{data}, {classifier}"), flush=True)


def list_tasks(only: list[str]) -> Iterator[tuple[str, str]]:
    """The data sets and models that are named; where no data set is named, all of them, and so for models."""
    unknown = [name for name in only if name not in DATA and name not in CLASSIFIERS]
    if unknown:
        raise SystemExit(f"--only must name some of {', '.join([*DATA, *CLASSIFIERS])}, but {unknown[0]!r} came")
    for data in [name for name in DATA if name in only] or DATA:
        yield from ((data, name) for name in [name for name in CLASSIFIERS if name in only] or CLASSIFIERS)


def measure(data: str, classifier: str, history: int, rows: int) -> Tally:
    """Explain, check and question so many rows of one model."""
    table, target = draw_history(data, history)
    model = train(table, target, classifier)
    explainers: dict[DomainMode, Explainer] = {
        domain: Explainer(model, table, desired=1, domain=domain, progress=False) for domain in ("auto", "seen")
    }
    rng, tally = np.random.default_rng(0), Tally()
    for number, row in enumerate(change_rows(model, table, rng, rows + 1)):
        explained = {domain: explain(explainer, row) for domain, explainer in explainers.items()}
        if number == 0:  # compiles
            continue
        explanation, seconds = explained["auto"]
        result = check(explanation.to_json(), model, table, desired=1)
        points, found = count_exceptions(explanation, model, table, rng)
        tally.rows += 1
        tally.proven += isinstance(explanation.verdict, Proven)
        tally.minimum += explanation.minimum
        tally.checked += agrees(explanation, result)
        tally.points += points
        tally.exceptions += found
        for domain, (one, _) in explained.items():
            tally.lengths[domain].append(one.cardinality)
        tally.ratios.append(seconds / explained["seen"][1])
        if found or not agrees(explanation, result):
            print(f"PROBLEM in {data}, {classifier}, row {row!r}: {found} exceptions\n{result}", flush=True)
    return tally


def draw_history(data: str, count: int) -> tuple[pd.DataFrame, pd.Series]:
    """Some rows of a data set, always the same; of the columns with many numbers every second is in thousands."""
    table, target = DATA[data]()
    many = [name for name in table.select_dtypes("number") if table[name].nunique() > MANY_VALUES]
    table = table.assign(**{name: table[name] / 1000 for name in many[::2]})
    chosen = np.sort(np.random.default_rng(0).permutation(len(table))[:count])
    return table.iloc[chosen].reset_index(drop=True), target.iloc[chosen].reset_index(drop=True)


def train(table: pd.DataFrame, target: pd.Series, classifier: str) -> Any:
    """A model behind an encoder of categories, which gives no column to a category that it does not know."""
    model = CLASSIFIERS[classifier]()
    steps: list[Any] = [SimpleImputer(strategy="median")] if classifier in IMPUTED else []
    steps += [StandardScaler()] if classifier in SCALED else []
    numbers = make_pipeline(*steps) if steps else "passthrough"
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
        (numbers, make_column_selector(dtype_include="number")),
    )
    return make_pipeline(encoder, model).fit(table, target)


def explain(explainer: Explainer, row: Row) -> tuple[Explanation, float]:
    """The explanation of a row, and the seconds of processor time that it took."""
    began = time.process_time()
    explanation = explainer.explain(row, budget=BUDGET_SECONDS)
    return explanation, time.process_time() - began


def agrees(explanation: Explanation, result: Check) -> bool:
    """Whether the checker says of an explanation what it says of itself."""
    claimed = isinstance(explanation.verdict, Proven)
    return all(finding.status == "holds" for finding in result.findings) and (result.status == "proven") == claimed


def change_rows(model: Any, table: pd.DataFrame, rng: np.random.Generator, count: int) -> Iterator[Row]:
    """Denied rows with some values that no past row has, and which are denied with these too."""
    denied = table[np.asarray(model.predict(table)) == 0]
    while count:
        row = denied.iloc[int(rng.integers(len(denied)))].to_dict()
        row = change_row(row, table, rng)
        if row and model.predict(build_frame([row], table))[0] == 0:
            count -= 1
            yield row


def change_row(row: Row, table: pd.DataFrame, rng: np.random.Generator) -> Row | None:
    """A row with one to three numbers that its columns do not have, and now and then a new category."""
    numbers = [name for name in table if pd.api.types.is_numeric_dtype(table[name])]
    texts = [name for name in table if name not in numbers]
    changed = {name: draw_unseen_number(table[name], rng) for name in rng.choice(numbers, int(rng.integers(1, 4)))}
    new = {name: value for name, value in changed.items() if value is not None}
    if new and texts and rng.random() < 0.25:
        new[str(rng.choice(texts))] = NEW_CATEGORY
    return row | new if new else None


def draw_unseen_number(column: pd.Series, rng: np.random.Generator) -> int | float | None:
    """A number that a column lacks: one time in five beyond what it has; None if it has all whole numbers."""
    values = np.unique(column.dropna())
    whole = bool((values == np.floor(values)).all())
    if rng.random() < 0.2:
        beyond = values[-1] + (values[-1] - values[0]) / 10 + 1 if rng.random() < 0.7 else values[0] - 1
        return int(beyond) if whole else float(beyond)
    if not whole:
        place = int(rng.integers(len(values) - 1))
        between = float(rng.uniform(values[place], values[place + 1]))
        return between if between not in values else None
    left = np.setdiff1d(rng.integers(values[0], values[-1] + 1, 50), values)
    return int(rng.choice(left)) if len(left) else None


def count_exceptions(
    explanation: Explanation, model: Any, table: pd.DataFrame, rng: np.random.Generator
) -> tuple[int, int]:
    """How many points inside the boxes of an explanation's proven rules the model was asked about, and how many of
    these it gives the desired outcome.
    """
    asked = found = 0
    ranked = [explanation.ranked[0], *([explanation.wider] if explanation.wider else [])]
    for rule in [one.rule for one in ranked if isinstance(one.verdict, Proven)]:
        values = {name: list_values(explanation, rule, name, table, rng) for name in explanation.domains}
        for frame in draw_points(explanation.instance, values, model, table, rng):
            if not rule.covers(frame).all():
                raise AssertionError(f"a point outside {rule} was drawn")
            asked += len(frame)
            found += int((np.asarray(model.predict(frame)) == 1).sum())
    return asked, found


def list_values(
    explanation: Explanation, rule: Rule, name: str, table: pd.DataFrame, rng: np.random.Generator
) -> list[Any]:
    """Values of a feature that a rule admits: all categories; numbers at bounds, at thresholds, beside, and between."""
    domain = explanation.domains[name]
    parts = [part for part in rule.components if part.feature == name]
    if domain.kind == "list":
        values: list[Any] = [*domain.values, *([None] if domain.missing else [])]
        admitted = [{part.value, *(part.allowed or ())} for part in parts]
        return [value for value in values if all(value in some for some in admitted)]
    if any(part.value is None for part in parts):
        return [None]
    low = max([domain.low, *(part.value for part in parts if part.op in (">=", "=="))])
    high = min([domain.high, *(part.value for part in parts if part.op in ("<=", "=="))])
    known = {*table[name].dropna().unique().tolist(), *explanation.extended_values.get(name, ())}
    numbers = list_numbers(domain, low, high, known, (explanation.breakpoints or {}).get(name, ()), rng)
    return [*numbers, *([None] if domain.missing and not parts else [])]


def list_numbers(
    domain: DomainSummary, low: Any, high: Any, known: set[Any], breakpoints: Any, rng: np.random.Generator
) -> list[Any]:
    """Numbers from low to high that a domain has."""
    if not domain.is_interval:
        return sorted(value for value in known if low <= value <= high)
    turns = np.array(sorted({low, high, *known, *breakpoints}), dtype=np.float64)
    if domain.kind == "integers":
        turns = np.concatenate([turns, turns - 1, turns + 1, rng.integers(int(low), int(high) + 1, 20)])
        return sorted({int(one) for one in turns if low <= one <= high})
    near = np.concatenate([turns, np.nextafter(turns, -np.inf), np.nextafter(turns, np.inf)])
    return sorted({float(one) for one in (*near, *rng.uniform(low, high, 20)) if low <= one <= high})


def draw_points(
    instance: Any, values: dict[str, list[Any]], model: Any, table: pd.DataFrame, rng: np.random.Generator
) -> Iterator[pd.DataFrame]:
    """Points of a box: one feature away from the row, at random, and uphill from two starts."""
    own = dict(instance)
    yield build_frame([own | {name: value} for name, some in values.items() for value in some], table)
    random = [{name: pick(some, rng) for name, some in values.items()} for _ in range(RANDOM_POINTS)]
    yield build_frame(random, table)
    for start in (own, random[0]):
        for _ in range(CLIMBS):
            some = {name: draw_some(listed, rng) for name, listed in values.items()}
            near = [start | {name: value} for name, few in some.items() for value in few]
            frame = build_frame(near, table)
            yield frame
            start = near[int(np.argmax(model.predict_proba(frame)[:, 1]))]


def draw_some(values: list[Any], rng: np.random.Generator) -> list[Any]:
    """All values if they are few, else some of them."""
    return values if len(values) <= VALUES_PER_FEATURE else [pick(values, rng) for _ in range(VALUES_PER_FEATURE)]


def pick(values: list[Any], rng: np.random.Generator) -> Any:
    """One of some values, the first and the last more often."""
    place = int(rng.integers(-len(values) // 4, len(values) + len(values) // 4 + 1))
    return values[min(max(place, 0), len(values) - 1)]


def build_frame(rows: list[Row], table: pd.DataFrame) -> pd.DataFrame:
    """Rows as a table with the columns of another and, where their values permit, with its types."""
    frame = pd.DataFrame(rows, columns=list(table))
    kept = {name: kind for name, kind in table.dtypes.items() if not (kind.kind in "iu" and frame[name].isna().any())}
    return frame.astype(kept)


if __name__ == "__main__":
    main()

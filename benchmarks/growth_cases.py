"""What benchmarks.growth measures: one explainer per size, and the denied rows that it explains.

``rows``      the stand-in for Yelp (32 features, see benchmarks.paper.yelp_stand_in), whole and parts of it drawn at
              random, from Parquet; XGBoost 50 x 3; the same rows and the same space every time, so that nothing grows
              but the history; by reading the model and by asking it
``features``  made-up tables of 20,000 rows, ten values per feature: ten features and a noise decide; XGBoost 50 x 3
``trees``     Adult with XGBoost, depth 4, of 10 to 1,000 trees
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from xgboost import XGBClassifier

from benchmarks.paper.stand_in_columns import TARGET
from benchmarks.paper.yelp_stand_in import cache, table_file
from benchmarks.proof_models import train
from ironrule import Explainer

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)  # and all rows
FEATURES = (10, 18, 32, 56, 100)
TREES = (10, 30, 100, 300, 1_000)
EXPLAINED, QUICK_EXPLAINED = 15, 3
LEARNED = 100_000  # rows that the model of the stand-in learns from, half of them sold
MADE_UP_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Case:
    """One size, and what is explained there."""

    size: int
    explainer: Explainer
    rows: list[Any]
    algorithms: tuple[str, ...] = ("minimum",)


def boosted(trees: int, depth: int, **more: Any) -> XGBClassifier:
    """A model of so many trees."""
    return XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1, random_state=0, **more)


def denied(explainer: Explainer, quick: bool) -> list[int]:
    """Some rows that the model denies."""
    count = QUICK_EXPLAINED if quick else EXPLAINED
    return np.random.default_rng(0).choice(np.flatnonzero(~explainer.outcomes), count, replace=False).tolist()


def by_features(quick: bool) -> Iterator[Case]:
    """More and more features, most of them noise."""
    for count in FEATURES[::2] if quick else FEATURES:
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.integers(0, 10, (MADE_UP_ROWS, count)), columns=[f"f{j}" for j in range(count)])
        score = table.iloc[:, :10].sum(axis=1) + rng.normal(0, 4, MADE_UP_ROWS)
        model = boosted(50, 3).fit(table, (score > score.quantile(0.7)).astype(int))
        explainer = Explainer(model, table, desired=1, progress=False, domain="seen")
        yield Case(count, explainer, denied(explainer, quick))


def by_trees(quick: bool) -> Iterator[Case]:
    """More and more trees."""
    for count in TREES[:3] if quick else TREES:
        model, table = train("Adult", boosted(count, 4, learning_rate=0.1))
        explainer = Explainer(model, table, desired=1, progress=False, domain="seen")
        yield Case(count, explainer, denied(explainer, quick))


def by_rows(quick: bool) -> Iterator[Case]:
    """Shorter and shorter histories, the whole table first: it gives the space."""
    whole = table_file(quick)
    total = pq.ParquetFile(whole).metadata.num_rows
    model, known = _learned(whole, total), None
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir=cache()))
    try:
        rows = _dictionaries(model, whole, total, quick)
        for size in (total, *(size for size in reversed(SIZES) if size < total)):
            file = whole if size == total else _drawn(whole, size / total, folder / f"{size}.parquet")
            explainer = Explainer(model, file, desired=1, space=known, progress=False, domain="seen")
            known = explainer.space
            yield Case(len(explainer.outcomes), explainer, rows, ("minimum", "greedy_cf"))
    finally:
        shutil.rmtree(folder)


def _learned(file: Path, total: int) -> XGBClassifier:
    """A model of as many sold lines as others, as the stand-in's network is."""
    target = pq.read_table(file, columns=[TARGET]).column(0).to_numpy()
    rng, sold, others = np.random.default_rng(0), np.flatnonzero(target == 1), np.flatnonzero(target == 0)
    half = min(LEARNED // 2, len(sold))
    some = np.sort(np.concatenate([rng.choice(sold, half, replace=False), rng.choice(others, half, replace=False)]))
    flags = np.zeros(total, dtype=np.bool_)
    flags[some] = True
    table = pd.concat([part.to_pandas() for part in _chosen(file, flags)])
    return boosted(50, 3).fit(table.drop(columns=TARGET), table[TARGET])


def _chosen(file: Path, flags: Any) -> Iterator[pa.Table]:
    """The flagged rows, a batch after the other."""
    first = 0
    for batch in pq.ParquetFile(file).iter_batches(1 << 18):
        yield pa.Table.from_batches([batch]).filter(pa.array(flags[first : first + len(batch)]))
        first += len(batch)


def _drawn(file: Path, share: float, target: Path) -> Path:
    """A share of the rows, drawn at random, as a file of its own."""
    flags = np.random.default_rng(1).random(pq.ParquetFile(file).metadata.num_rows) < share
    with pq.ParquetWriter(target, pq.read_schema(file)) as writer:
        for part in _chosen(file, flags):
            writer.write_table(part)
    return target


def _dictionaries(model: XGBClassifier, file: Path, total: int, quick: bool) -> list[dict[str, Any]]:
    """Some rows that the model denies, as they stand in the table."""
    flags = np.random.default_rng(2).random(total) < min(1.0, 1_000 / total)
    table = pd.concat([part.to_pandas() for part in _chosen(file, flags)]).drop(columns=TARGET)
    undesired = table[model.predict(table) == 0].iloc[: QUICK_EXPLAINED if quick else EXPLAINED]
    return [{str(name): value for name, value in row.items()} for row in undesired.to_dict("records")]


CASES: dict[str, Callable[[bool], Iterator[Case]]] = {"rows": by_rows, "features": by_features, "trees": by_trees}

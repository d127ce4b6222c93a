"""How fast duals are found, against copying the same bytes, and minimum hitting sets, against HiGHS.

    IRONRULE_DATA=<folder with credit/ and sba/> python benchmarks/duals.py

Without IRONRULE_DATA only made-up histories are measured. Every figure is the best of several runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp

from ironrule.hitting.reduce import find_minimal_sets
from ironrule.hitting.solver import find_minimum_hitting_set, list_minimal_hitting_sets
from ironrule.jit import kernel
from ironrule.rule.duals import BLOCK_ROWS, count_distinct_duals, fill_dual_words

Columns = Sequence[npt.NDArray[Any]]
ROWS = 1_000_000


def best_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def bounds_of(columns: Columns, row: int) -> tuple[list[int], list[int]]:
    """The components `F <= v` and `F >= v` of one row."""
    values = [int(column[row]) for column in columns]
    low = [bound for value in values for bound in (0, value)]
    high = [bound for value, column in zip(values, columns, strict=True) for bound in (value, int(column.max()))]
    return low, high


@kernel
def convert(pointers: Any, planes: Any, words: Any, duals: Any, start: int, end: int) -> None:
    """The dual of every row of a range, of one word, written down: the pass without counting."""
    for first in range(start, end, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, end - first)
        fill_dual_words(pointers, first, rows, planes, words)
        for r in range(rows):
            duals[first + r] = words[r]


def conversion_seconds(columns: Columns, low: list[int], high: list[int], workers: int) -> float:
    addresses = np.array([column.ctypes.data for column in columns])
    pointers = (addresses, np.array([column.itemsize for column in columns]), np.array(low), np.array(high))
    size, rows = (4 if len(columns) <= 16 else 8) * BLOCK_ROWS, len(columns[0])
    duals, step = np.empty(rows, np.uint64), -(-rows // (workers * BLOCK_ROWS)) * BLOCK_ROWS
    workspaces = [(np.empty(size, np.uint8), np.zeros(BLOCK_ROWS, np.uint64)) for _ in range(workers)]

    def part(worker: int) -> None:
        convert(pointers, *workspaces[worker], duals, worker * step, min(rows, (worker + 1) * step))

    with ThreadPoolExecutor(workers) as pool:
        return best_seconds(lambda: list(pool.map(part, range(workers))))


def measure_pass(name: str, columns: Columns, row: int) -> None:
    """The speed of copying the same bytes, and, as shares of it, of the conversion and of the whole pass."""
    low, high = bounds_of(columns, row)
    matrix = np.frombuffer(b"".join(column.tobytes() for column in columns), np.uint8)
    copied = best_seconds(lambda: np.copy(matrix))
    written = [conversion_seconds(columns, low, high, workers) for workers in (1, 2)]
    counted = [
        best_seconds(lambda w=workers: count_distinct_duals(columns, low, high, threads=w)) for workers in (1, 2)
    ]
    count = len(count_distinct_duals(columns, low, high).counts)
    print(
        f"{name:28} {matrix.size / 1e6:6.1f} MB {count:7} distinct  copy {matrix.size / copied / 1e9:5.1f} GB/s;"
        f" duals written: 1 thread {copied / written[0]:4.0%}, 2 {copied / written[1]:4.0%};"
        f" and counted: 1 thread {copied / counted[0]:4.0%}, 2 {copied / counted[1]:4.0%} ({counted[1] * 1e3:.1f} ms)"
    )


def skewed(rng: np.random.Generator, rows: int) -> Columns:
    """Few distinct values, of which the instance has a common one."""
    return [np.minimum(rng.geometric(0.9, rows) - 1, 40).astype(np.uint8) for _ in range(14)]


def as_codes(table: Any) -> list[npt.NDArray[Any]]:
    """Every column as positions in the sorted list of its values, in the smallest type."""
    codes = [
        np.unique(table[name].astype(str) if table[name].dtype == object else table[name], return_inverse=True)[1]
        for name in table
    ]
    return [code.astype(np.min_scalar_type(int(code.max()))) for code in codes]


def credit(folder: Path, rng: np.random.Generator) -> tuple[Columns, Columns, Columns]:
    """A million rows drawn from the Credit data: as they are; in bytes; in bytes and shuffled within blocks of 64."""
    import pandas as pd

    codes = as_codes(pd.read_csv(folder / "credit" / "credit.csv.gz").iloc[:, 1:])
    octets = [(code * (255 / max(255, code.max()))).astype(np.uint8) for code in codes]
    drawn = rng.integers(0, len(codes[0]), ROWS)
    shuffled = [octet[rng.permuted(drawn[: ROWS // 64 * 64].reshape(-1, 64), axis=1).ravel()] for octet in octets]
    return [code[drawn] for code in codes], [octet[drawn] for octet in octets], shuffled


def sba(folder: Path) -> Columns:
    import pandas as pd

    table = pd.read_parquet(folder / "sba" / "sba.parquet").iloc[:, :-1]
    return as_codes(table.astype({name: object for name in table if not pd.api.types.is_numeric_dtype(table[name])}))


def random_duals(rng: np.random.Generator, bits: int, count: int, least: int, most: int) -> npt.NDArray[np.bool_]:
    ranks = rng.random((count, bits)).argsort(axis=1).argsort(axis=1)
    flags: npt.NDArray[np.bool_] = ranks < rng.integers(least, most + 1, (count, 1))
    return flags


def planted_duals(rng: np.random.Generator, bits: int, count: int, size: int) -> npt.NDArray[np.bool_]:
    """False points of a random monotone function with six prime implicants of one size: every one of those hits all."""
    flags = rng.random((count, bits)) < rng.uniform(0.1, 0.4, (count, 1))
    for rule in (rng.choice(bits, size, replace=False) for _ in range(6)):
        missed = np.flatnonzero(~flags[:, rule].any(axis=1))
        flags[missed, rng.choice(rule, len(missed))] = True
    return flags


def measure_minimum(name: str, flags: npt.NDArray[np.bool_]) -> None:
    padded = np.zeros((len(flags), -(-flags.shape[1] // 64) * 64), np.bool_)
    padded[:, : flags.shape[1]] = flags
    duals = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
    kept = find_minimal_sets(duals)
    ours = best_seconds(lambda: find_minimum_hitting_set(duals, node_limit=1_000_000), 3)
    found = find_minimum_hitting_set(duals, node_limit=1_000_000)
    start = time.perf_counter()
    matrix = np.unpackbits(kept.view(np.uint8), axis=1, bitorder="little")
    exact = milp(
        np.ones(matrix.shape[1]),
        constraints=LinearConstraint(matrix, 1),
        integrality=1,
        bounds=Bounds(0, 1),
        options={"time_limit": 60.0},
    )
    theirs = time.perf_counter() - start
    agrees = exact.status != 0 or round(exact.fun) == found.weight
    print(
        f"{name:28} {len(kept):5} minimal  optimum {found.weight:3.0f} (at least {found.lower_bound:3.0f})"
        f"  ours {ours * 1e3:9.2f} ms  HiGHS {theirs * 1e3:8.1f} ms  {'agree' if agrees else 'DISAGREE'}"
    )


def measure_listing(rng: np.random.Generator) -> None:
    duals = np.packbits(np.pad(random_duals(rng, 28, 60, 3, 8), ((0, 0), (0, 36))), axis=1, bitorder="little")
    for limit in (100, 1_000_000):
        seconds = best_seconds(lambda n=limit: list_minimal_hitting_sets(duals.view(np.uint64), n), 3)
        sets, complete = list_minimal_hitting_sets(duals.view(np.uint64), limit)
        print(f"minimal hitting sets, limit {limit}: {len(sets)}, complete {complete}, {seconds * 1e3:.1f} ms")


def main() -> None:
    rng = np.random.default_rng(0)
    measure_pass("made up, 1M x 14", skewed(rng, ROWS), 0)
    measure_pass("made up, 10M x 14", skewed(rng, 10 * ROWS), 0)
    if "IRONRULE_DATA" in os.environ:
        folder = Path(os.environ["IRONRULE_DATA"])
        for name, columns in zip(("", " in bytes", " in bytes, shuffled"), credit(folder, rng), strict=True):
            measure_pass(f"Credit{name}", columns, 5)
        history = sba(folder)
        measure_pass("SBA, row 0", history, 0)
        measure_pass("SBA, row 1000", history, 1000)
    for bits, count in ((28, 50), (28, 300), (28, 3000), (46, 300), (92, 100)):
        measure_minimum(f"{count} random duals of {bits}", random_duals(rng, bits, count, 3, 8))
    for bits, count, size in ((28, 500, 5), (46, 1000, 8), (46, 3000, 12), (92, 3000, 8)):
        measure_minimum(f"{count} planted duals of {bits}", planted_duals(rng, bits, count, size))
    measure_listing(rng)


if __name__ == "__main__":
    main()

"""Compiled forests are, array for array, what the reference compiler gives; packed splits are what single ones are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from reference_compiler import compile_reference
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from ironrule.backends.forest import leaf_boxes
from ironrule.backends.forest.compile import CompiledForest, compile_tree_sum
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form import cells
from ironrule.model.normal_form.splits import ThresholdSplits, group_equivalent_thresholds
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Term, Tree, TreeSplit, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.catboost_models import CatBoostThresholdSplit
from ironrule.model.readers.lightgbm_models import LightGBMThresholdSplit
from ironrule.model.readers.sklearn_trees import SklearnThresholdSplit, read_sklearn_trees
from ironrule.model.readers.xgboost_models import XGBoostThresholdSplit
from ironrule.space.feature import Feature
from ironrule.space.space import Space

ONE_TENTH = float(np.float32(0.1))
SPECIAL = [0.0, -0.0, 1e-36, -1e-35, 0.1, ONE_TENTH, 1.0, 16777216.0, 16777217.0, 1e300, -1e300, np.inf, -np.inf]
LINKS = (Link(), Link("logistic", 2.0, 0.5, 1.0), Link("step", 1.0, 1.0, 0.25))


@dataclass(frozen=True, slots=True)
class Among:
    """Goes left for some values: any subset, as categorical splits and missing values make them."""

    column: int
    values: frozenset[int]

    def goes_left(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return np.isin(values, list(self.values))


def random_tree(rng: np.random.Generator, sizes: list[int], inner: int) -> Tree:
    """Subsets and thresholds in any shape: splits that all answer alike, branches that nobody reaches."""
    splits: list[TreeSplit | None] = [None]
    left, right = [-1], [-1]
    for _ in range(inner):
        node = int(rng.choice([place for place, split in enumerate(splits) if split is None]))
        column = int(rng.integers(len(sizes)))
        some = rng.random(sizes[column]) < rng.random()
        if rng.random() < 0.5:
            some = np.arange(sizes[column]) < rng.integers(0, sizes[column] + 1)
        splits[node] = Among(column, frozenset(np.flatnonzero(some).tolist()))
        left[node], right[node] = len(splits), len(splits) + 1
        splits += [None, None]
        left += [-1, -1]
        right += [-1, -1]
    values = rng.choice([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0], len(splits))
    return Tree(tuple(splits), np.array(left, np.int32), np.array(right, np.int32), values)


def random_tree_sum(rng: np.random.Generator, sizes: list[int]) -> TreeSum:
    def margin() -> Margin:
        groups = []
        for _ in range(rng.integers(0, 3)):
            trees = [random_tree(rng, sizes, int(rng.integers(0, 25))) for _ in range(rng.integers(0, 4))]
            again = [Tree(tree.splits, tree.left, tree.right, -tree.value) for tree in trees[:1]]
            effect = rng.normal(size=max(sizes))
            column = int(rng.integers(len(sizes)))
            terms = (Term(column, lambda values, effect=effect: effect[values]),) if rng.random() < 0.3 else ()
            groups.append(LinkedGroup((*trees, *again), LINKS[rng.integers(3)], terms))
        return Margin(float(rng.normal()), tuple(groups), float(rng.random()), 2.0**-40)

    return TreeSum(tuple(tuple(margin() for _ in range(rng.integers(1, 3))) for _ in range(rng.integers(1, 3))))


def columns_and_space(sizes: list[int]) -> tuple[TabulatedColumns, Space]:
    columns = TabulatedColumns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    return columns, Space(tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(sizes)))


def assert_same(compiled: tuple[CompiledForest, ...], reference: tuple[CompiledForest, ...]) -> None:
    assert len(compiled) == len(reference)
    for one, other in zip(compiled, reference, strict=True):
        mine, theirs = {**one._asdict(), **one.cells._asdict()}, {**other._asdict(), **other.cells._asdict()}
        for name in sorted(set(mine) - {"cells"}):
            assert mine[name].dtype == theirs[name].dtype, name
            assert mine[name].tolist() == theirs[name].tolist(), name


@pytest.mark.parametrize("seed", range(40))
def test_random_sums_of_trees_are_compiled_as_the_reference_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 6, 63, 64, 65, 130], rng.integers(1, 5)).tolist()
    tree_sum, (columns, space) = random_tree_sum(rng, sizes), columns_and_space(sizes)
    assert_same(compile_tree_sum(tree_sum, columns, space), compile_reference(tree_sum, columns, space))


@pytest.mark.parametrize("kind", [RandomForestClassifier, HistGradientBoostingClassifier])
def test_models_with_packed_splits_are_compiled_as_the_reference_does(kind: Any) -> None:
    rng = np.random.default_rng(0)
    values = [np.array([*rng.normal(size=90), np.nan]), np.arange(4.0), np.array([0.1, ONE_TENTH, np.nan, -0.0])]
    rows = np.stack([rng.choice(some, 300) for some in values], axis=1)
    y = (np.nan_to_num(rows[:, 0]) + rows[:, 1] + rng.normal(size=300) > 1).astype(int) + (rows[:, 1] > 2)
    model = kind(**{"n_estimators": 4} if kind is RandomForestClassifier else {"max_iter": 4}, random_state=0)
    tree_sum = read_sklearn_trees(model.fit(rows, y), (1, 2), None)
    assert tree_sum is not None
    trees = [tree for margin in tree_sum.alternatives[0] for group in margin.groups for tree in group.trees]
    assert all(isinstance(tree.splits, ThresholdSplits) for tree in trees)
    _, space = columns_and_space([len(some) for some in values])
    columns = TabulatedColumns(np.arange(3), tuple(values))
    assert_same(compile_tree_sum(tree_sum, columns, space), compile_reference(tree_sum, columns, space))


def make_lightgbm_split(column: int, threshold: float, kind: int) -> TreeSplit:
    return LightGBMThresholdSplit(column, threshold, bool(kind & 1), kind >> 1)


MAKERS: list[Callable[[int, float, int], TreeSplit]] = [
    lambda column, threshold, kind: SklearnThresholdSplit(column, threshold, bool(kind & 1), as_float32=bool(kind & 2)),
    lambda column, threshold, kind: XGBoostThresholdSplit(
        column, threshold, bool(kind & 1), [None, 1.0, 0.0][kind >> 1]
    ),
    lambda column, threshold, kind: CatBoostThresholdSplit(column, threshold, bool(kind & 1)),
    make_lightgbm_split,
]


def as_single(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, object, np.int64])
def test_numeric_splits_of_one_class_answer_alike(make: Callable[[int, float, int], TreeSplit], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        pool = np.array([*SPECIAL, *(rng.integers(0, 9, 5) / 10)])
        pool = np.concatenate([pool, as_single(pool), np.nextafter(pool, 0), np.nextafter(pool, 9)])
        values = rng.choice(np.array([*pool, np.nan]), 12)
        whole = rng.integers(-3, 3, 12) + rng.choice([0, 2**24, 2**54 + 2**30], 12)
        values = whole if dtype is np.int64 else as_single(values) if dtype is np.float32 else values.astype(dtype)
        thresholds = rng.choice(np.array([*pool, *whole, np.nan]), 60).astype(np.float64)
        if isinstance(make(0, 0.0, 0), XGBoostThresholdSplit | CatBoostThresholdSplit):
            thresholds = as_single(thresholds).astype(np.float64)
        kinds = rng.integers(0, 6 if make is make_lightgbm_split else 4, 60).astype(np.int32)
        first, classes = group_equivalent_thresholds(thresholds, kinds, values)
        for place, own in enumerate(first[classes].tolist()):
            answers = [make(0, thresholds[one], int(kinds[one])) for one in (place, own)]
            try:
                expected = answers[0].goes_left(values).tolist()
            except Unreadable:
                with pytest.raises(Unreadable):
                    answers[1].goes_left(values)
                continue
            assert answers[1].goes_left(values).tolist() == expected


def test_what_takes_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    columns, space = columns_and_space([70, 70])
    tree_sum = TreeSum(((Margin(0.0, (LinkedGroup((random_tree(rng, [70, 70], 40),)),)),),))
    with monkeypatch.context() as patch:
        patch.setattr(cells, "MAX_SPLIT_BYTES", 100)
        with pytest.raises(Unreadable, match="coarser"):
            compile_tree_sum(tree_sum, columns, space)
    monkeypatch.setattr(leaf_boxes, "MAX_MASK_BYTES", 200)
    with pytest.raises(Unreadable, match="coarser"):
        compile_tree_sum(tree_sum, columns, space)

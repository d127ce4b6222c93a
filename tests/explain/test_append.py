"""Rows appended to a history: the explainer is the one that all rows together give; old rows are not asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from applications import decide, past
from ironrule import Explainer, Space, TableError


def both(model: Any, frame: Any, cut: int, **more: Any) -> tuple[Explainer, Explainer]:
    """Appended, and made of all rows."""
    head, tail = frame[:cut], frame[cut:]
    return Explainer(model, head, **more).with_more_rows(tail), Explainer(model, frame, **more)


def assert_alike(one: Explainer, other: Explainer) -> None:
    assert one.space == other.space
    assert one.space.fingerprint == other.space.fingerprint
    histories = [explainer._context.history for explainer in (one, other)]
    for mine, theirs in zip(histories[0].codes.columns, histories[1].codes.columns, strict=True):
        assert mine.dtype == theirs.dtype
    assert histories[0].fingerprint() == histories[1].fingerprint()
    assert (histories[0].desired.points() == histories[1].desired.points()).all()
    assert (one.outcomes == other.outcomes).all()
    numbers = [
        explainer._context.get_row_numbers(np.flatnonzero(~explainer.outcomes)).tolist() for explainer in (one, other)
    ]
    assert numbers[0] == numbers[1]
    for row in (numbers[0][0], numbers[0][-1]):
        found = [explainer.explain(row, seed=2) for explainer in (one, other)]
        assert found[0].rule == found[1].rule
        assert found[0].verdict == found[1].verdict
        assert found[0].coverage == found[1].coverage


@pytest.mark.parametrize("cut", [6, 40, 119])
def test_appended_rows_give_what_all_rows_give(cut: int) -> None:
    frame = past(120).assign(year=np.repeat([2023, 2024], 60) + (np.arange(120) % 2))
    assert_alike(*both(decide, frame, cut, desired="good"))


def test_new_values_and_new_missing_ones_extend_the_domains() -> None:
    frame = past(120).sort_values(["income", "debt"]).reset_index(drop=True)
    appended, whole = both(decide, frame, 60, desired="good")
    first = Explainer(decide, frame[:60], desired="good")
    assert first.space != whole.space
    assert_alike(appended, whole)


def test_old_rows_are_not_asked_about_again() -> None:
    asked: list[int] = []

    def counted(table: pd.DataFrame) -> np.ndarray:
        asked.append(len(table))
        return decide(table)

    frame = pd.concat([past(200)] * 30, ignore_index=True)
    explainer = Explainer(counted, frame, desired="good")
    asked.clear()
    longer = explainer.with_more_rows(past(50))
    assert len(longer.outcomes) == 6050
    assert sum(asked) < 200
    assert len(explainer.outcomes) == 6000


def test_a_column_that_gets_another_type_is_shown_to_the_model_anew() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3, 1, 2, 3], "b": [0, 1, 0, 1, 0, 1]})
    more = pd.DataFrame({"a": [2.5, 1.0], "b": [0, 1]})

    def by_type(table: pd.DataFrame) -> np.ndarray:
        return np.asarray((table["a"] >= 2) & (table["a"].dtype == np.float64))

    appended = Explainer(by_type, frame.astype({"a": int})).with_more_rows(more)
    assert_alike(appended, Explainer(by_type, pd.concat([frame, more], ignore_index=True)))


def test_constraints_and_row_numbers_count_for_all_rows() -> None:
    frame = past(120)
    with pytest.warns(UserWarning, match="break the constraints"):
        appended, whole = both(decide, frame, 70, desired="good", constraints=["cf.accounts <= 2"])
    assert_alike(appended, whole)


def test_appending_twice_is_appending_once() -> None:
    frame = past(120)
    twice = Explainer(decide, frame[:40], desired="good").with_more_rows(frame[40:80]).with_more_rows(frame[80:])
    assert_alike(twice, Explainer(decide, frame, desired="good"))


def test_polars_tables_and_arrays_can_grow() -> None:
    numbers = np.random.default_rng(0).integers(0, 5, (90, 3))

    def by_sum(table: Any) -> np.ndarray:
        matrix = table if isinstance(table, np.ndarray) else table.to_numpy()
        return np.asarray(matrix.sum(axis=1) >= 6)

    assert_alike(*both(by_sum, numbers, 50))
    assert_alike(*both(by_sum, pl.DataFrame(numbers, schema=["a", "b", "c"]), 50))


def test_histories_on_disk_grow_on_disk(tmp_path: Path) -> None:
    frame = past(120).assign(since=lambda table: pd.to_datetime(table["since"]))
    for place, part in enumerate((frame[:70], frame[70:], frame)):
        part.to_parquet(tmp_path / f"{place}.parquet")
    appended = Explainer(decide, tmp_path / "0.parquet", desired="good").with_more_rows(tmp_path / "1.parquet")
    assert_alike(appended, Explainer(decide, tmp_path / "2.parquet", desired="good"))
    from_memory = Explainer(decide, pd.read_parquet(tmp_path / "0.parquet"), desired="good")
    assert_alike(from_memory.with_more_rows(tmp_path / "1.parquet"), Explainer(decide, frame, desired="good"))


def test_a_declared_space_is_not_extended() -> None:
    frame = past(120)
    space = Space.infer(frame[frame["income"] <= 3])
    explainer = Explainer(decide, frame[frame["income"] <= 3], desired="good", space=space)
    assert len(explainer.with_more_rows(frame[frame["income"] == 2]).outcomes) > len(explainer.outcomes)
    with pytest.raises(TableError, match="income"):
        explainer.with_more_rows(frame)


def test_rows_that_do_not_fit_are_refused() -> None:
    explainer = Explainer(decide, past(60), desired="good")
    with pytest.raises(TableError, match="the new rows must have the column 'debt', got columns "):
        explainer.with_more_rows(past(10).drop(columns="debt"))
    with pytest.raises(TableError, match="only one is an array"):
        explainer.with_more_rows(past(10).to_numpy())


def test_rows_appended_to_whole_intervals_give_the_explainer_of_all_rows() -> None:
    from sklearn.tree import DecisionTreeClassifier

    frame = past(60)[["income", "accounts"]] * 1.5
    tree = DecisionTreeClassifier(random_state=0).fit(frame, decide(past(60)))
    half = Explainer(tree, frame.iloc[:20], desired="good", domain="interval")
    longer, whole = half.with_more_rows(frame.iloc[20:]), Explainer(tree, frame, desired="good", domain="interval")
    assert longer.space == whole.space
    assert longer.fingerprint == whole.fingerprint
    for row in np.flatnonzero(~whole.outcomes)[:5].tolist():
        assert longer.explain(row).to_dict()["breakpoints"] == whole.explain(row).to_dict()["breakpoints"]
        assert longer.explain(row).rule == whole.explain(row).rule


def test_appended_rows_may_all_be_denied() -> None:
    frame = past(120)
    denied = frame[np.asarray(decide(frame)) != "good"]
    explainer = Explainer(decide, frame, desired="good")
    grown = explainer.with_more_rows(denied)
    assert grown.outcomes.sum() == explainer.outcomes.sum()
    assert len(grown.outcomes) == len(frame) + len(denied)

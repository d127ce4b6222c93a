"""On how many threads a model runs when it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from ironrule.errors import ModelError
from ironrule.model.decision import ask_model
from ironrule.model.thread_limit import SMALL_ROWS

ELSEWHERE = 3


def count_threads() -> set[int]:
    found = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp"}
    assert found, "scikit-learn loads OpenMP"
    return found


def record_threads(seen: list[set[int]]) -> Callable[[Any], Any]:
    def predict(table: Any) -> Any:
        seen.append(count_threads())
        return np.zeros(len(table))

    return predict


@pytest.mark.parametrize(("rows", "expected"), [(1, 1), (SMALL_ROWS, 1), (SMALL_ROWS + 1, ELSEWHERE)])
def test_few_rows_are_decided_on_one_thread_and_many_on_all(rows: int, expected: int) -> None:
    seen: list[set[int]] = []
    with threadpool_limits(ELSEWHERE, "openmp"):
        ask_model(record_threads(seen), np.zeros((rows, 2)), rows)
        assert count_threads() == {ELSEWHERE}
    assert seen == [{expected}]


def test_the_number_of_threads_is_restored_after_an_error() -> None:
    def fail(table: Any) -> Any:
        raise ValueError(len(table))

    with threadpool_limits(ELSEWHERE, "openmp"):
        with pytest.raises(ModelError):
            ask_model(fail, np.zeros((2, 2)), 2)
        assert count_threads() == {ELSEWHERE}


def test_the_answers_are_the_same() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(SMALL_ROWS, 4))
    model = HistGradientBoostingClassifier(max_iter=20).fit(table, table[:, 0] * table[:, 1] > 0)
    assert np.array_equal(ask_model(model.predict_proba, table, len(table)), model.predict_proba(table))

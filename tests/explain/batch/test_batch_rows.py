"""Which rows a batch explains: equal ones once, and never all their codes at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from batch_examples import make_explainer, read_contents
from ironrule.explain.batch import process_pool, rows
from ironrule.explain.batch.rows import find_first_equal
from ironrule.space.codes import EncodedTable


def first_by_definition(points: list[list[int]]) -> list[int]:
    return [points.index(point) for point in points]


@pytest.mark.parametrize("factor", [rows.HASH_FACTOR, np.uint64(0), np.uint64(2**32)])  # the others collide
@settings(deadline=None, max_examples=40)
@given(points=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), max_size=40), chunk=st.integers(1, 50))
def test_the_first_equal_row_is_found_even_where_hashes_collide(
    factor: Any, points: list[list[int]], chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "HASH_FACTOR", factor)
        found = find_first_equal(np.array(points, dtype=np.int32).reshape(-1, 3), chunk)
    assert found.tolist() == first_by_definition(points)


def test_a_batch_of_all_past_rows_reads_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, read, plain = make_explainer(), list[int](), EncodedTable.points
    whole = explainer.explain_many(workers=1)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 8)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 20)

    def counted(self: EncodedTable, *some: Any) -> Any:
        found = plain(self, *some)
        read.append(len(found))
        return found

    monkeypatch.setattr(EncodedTable, "points", counted)
    batch = explainer.explain_many(workers=1)
    assert len(batch) > 8
    assert max(read) <= 20  # a chunk, or a task
    assert read_contents(batch) == read_contents(whole)


def test_the_hash_of_all_rows_does_not_depend_on_how_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = make_explainer()
    prints = set()
    for chunk in (1, 7, 1 << 16):
        monkeypatch.setattr(rows, "CHUNK_ROWS", chunk)
        prints.add(rows.select_undesired_rows(explainer._context, None).fingerprint)
    points = explainer.codes.points(np.flatnonzero(~explainer.outcomes))
    monkeypatch.undo()
    assert prints == {
        rows.UndesiredRows(np.flatnonzero(~explainer.outcomes), points, np.empty(0, np.int64)).fingerprint
    }

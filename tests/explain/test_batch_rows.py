"""Which rows a batch explains: equal ones once, and never all their codes at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from denials import contents, explainer
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.explain.batches import equal, rows
from ironrule.explain.batches.equal import first_equal
from ironrule.space import Codes


def first_by_definition(points: list[list[int]]) -> list[int]:
    return [points.index(point) for point in points]


@pytest.mark.parametrize("scatter", [equal.SCATTER, np.uint64(0), np.uint64(2**32)])  # the others collide
@settings(deadline=None, max_examples=40)
@given(points=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), max_size=40), chunk=st.integers(1, 50))
def test_the_first_equal_row_is_found_even_where_hashes_collide(
    scatter: Any, points: list[list[int]], chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal, "SCATTER", scatter)
        found = first_equal(np.array(points, dtype=np.int32).reshape(-1, 3), chunk)
    assert found.tolist() == first_by_definition(points)


def test_a_batch_of_all_past_rows_reads_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read, plain = explainer(), list[int](), Codes.points
    whole = asked.explain_many(workers=1)
    monkeypatch.setattr(rows, "CHUNK", 8)

    def counted(self: Codes, *some: Any) -> Any:
        found = plain(self, *some)
        read.append(len(found))
        return found

    monkeypatch.setattr(Codes, "points", counted)
    batch = asked.explain_many(workers=1)
    assert len(batch) > 8
    assert max(read) <= 31  # a chunk, or a portion of the work
    assert contents(batch) == contents(whole)


def test_the_hash_of_all_rows_does_not_depend_on_how_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = explainer()
    prints = set()
    for chunk in (1, 7, 1 << 16):
        monkeypatch.setattr(rows, "CHUNK", chunk)
        prints.add(rows.chosen_rows(asked._prepared, None).fingerprint)
    points = asked.codes.points(np.flatnonzero(~asked.outcomes))
    monkeypatch.undo()
    assert prints == {rows.Rows(np.flatnonzero(~asked.outcomes), points, np.empty(0, np.int64)).fingerprint}

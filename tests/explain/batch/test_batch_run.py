"""Batches: the same answers as one by one, whoever works on them, and the few rules that cover all."""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from applications import decide, past
from batch_examples import DyingModel, fit_boosted_trees, make_explainer, make_history, read_contents, without_times
from ironrule import Batch, ConstraintError, Explainer, InputError, IronruleError, ModelError, OutcomeError
from ironrule.explain.batch import process_pool
from ironrule.explain.batch.process_pool import TaskQueue
from ironrule.explain.batch.worker import RowExplainer
from ironrule.explain.options import SearchOptions
from ironrule.search import rule_cover
from ironrule.search.rule_cover import find_covered_points, find_minimum_rule_cover
from waiting import PATIENCE, wait_until


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_says_of_every_row_what_explain_says_of_it_alone(workers: int) -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(workers=workers)
    denied = np.flatnonzero(~explainer.outcomes).tolist()
    assert batch.rows == tuple(denied)
    assert batch.complete
    assert read_contents(batch) == {row: without_times(explainer.explain(row)) for row in denied}


def test_rows_may_be_a_table_or_row_numbers() -> None:
    explainer, table = make_explainer(), make_history()
    denied = np.flatnonzero(~explainer.outcomes)[:5]
    by_number = explainer.explain_many(denied, workers=1)
    by_table = explainer.explain_many(table.iloc[denied], workers=1)
    assert by_number.rows == tuple(denied.tolist())
    assert by_table.rows == (0, 1, 2, 3, 4)
    assert list(read_contents(by_number).values()) == list(read_contents(by_table).values())
    assert explainer.explain_many(denied.tolist(), workers=1).rows == by_number.rows


def test_desired_rows_need_no_explanation_and_are_counted() -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(workers=1)
    assert batch.counts == {
        "to_explain": int((~explainer.outcomes).sum()),
        "desired": int(explainer.outcomes.sum()),
        "not_robust": 0,
    }


def test_a_batch_without_denied_rows_is_empty() -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(np.flatnonzero(explainer.outcomes), workers=2)
    assert len(batch) == 0
    assert batch.complete
    assert len(batch.find_rule_cover()) == 0
    assert "0 denied rows" in str(batch)


def test_equal_rows_are_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, table = make_explainer(), make_history()
    denied = np.flatnonzero(~explainer.outcomes)
    distinct = len(table.iloc[denied].drop_duplicates())
    assert distinct < len(denied)
    asked_about: list[Any] = []
    plain = Explainer.explain
    monkeypatch.setattr(
        Explainer, "explain", lambda self, row, *a, **k: asked_about.append(row) or plain(self, row, *a, **k)
    )
    batch = explainer.explain_many(workers=1)
    assert len(asked_about) == distinct
    assert len(batch) == len(denied)
    read = batch.columns("row", "same_as")
    for row, same in zip(read["row"], read["same_as"], strict=True):
        assert table.iloc[row].equals(table.iloc[same])


def test_rows_that_no_rule_can_explain_are_counted_not_explained() -> None:
    explainer = make_explainer(margin=0.3)
    batch = explainer.explain_many(workers=1)
    denied = np.flatnonzero(~explainer.outcomes).tolist()
    beyond = [row for row in denied if row not in batch.rows]
    assert batch.counts["not_robust"] == len(beyond) > 0
    for row in beyond:
        with pytest.raises(OutcomeError, match="no robust rule"):
            explainer.explain(row)
    assert "within the margin" in str(batch)


def test_options_reach_every_row() -> None:
    batch = make_explainer().explain_many(workers=1, require=["debt"], widen=False, k=1)
    assert all("debt" in explanation.rule.features for explanation in batch)
    assert batch.columns("wider")["wider"] == [None] * len(batch)


def test_a_model_that_can_only_be_asked_is_explained_by_all_workers_too() -> None:
    table = past(60)
    explainer = Explainer(decide, table, desired="good")
    batch = explainer.explain_many(range(20), workers=2, budget=None)
    assert read_contents(batch) == {row: without_times(explainer.explain(row, budget=None)) for row in batch.rows}


def test_unusable_options_are_refused_before_any_work() -> None:
    explainer = make_explainer()
    with pytest.raises(InputError, match="workers must be a positive integer, got 0"):
        explainer.explain_many(workers=0)
    with pytest.raises(InputError, match=r"algorithm must be one of .*, got 'guess'"):
        explainer.explain_many(algorithm="guess")
    with pytest.raises(InputError, match=r"list of row numbers of the data, got a list with 'a'"):
        explainer.explain_many(["a"])
    with pytest.raises(InputError, match=r"from 0 to 119 \(120 rows\), got 120"):
        explainer.explain_many([120])


def test_a_row_that_breaks_a_constraint_is_named() -> None:
    part, table = make_explainer().where("cf.income >= 2"), make_history()
    poor = table[table["income"] == 1].head(1)
    with pytest.raises(ConstraintError, match=r"row 1 does not satisfy 'cf\.income >= 2'; leave it out") as refused:
        part.explain_many(pd.concat([table[table["income"] == 2].head(1), poor]), workers=1)
    assert refused.value.code == "row-violates-constraint"
    with pytest.raises(ConstraintError, match=f"row {poor.index[0]} does not satisfy the constraints on the space"):
        part.explain_many([int(poor.index[0])], workers=1)


def test_a_row_that_is_not_in_the_batch_is_named() -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(workers=1)
    with pytest.raises(InputError, match="the batch does not explain row"):
        batch.get_explanation(int(np.flatnonzero(explainer.outcomes)[0]))
    assert without_times(batch.get_explanation(batch.rows[3])) == without_times(batch[3])
    assert [without_times(one) for one in batch[1:3]] == [without_times(batch[1]), without_times(batch[2])]
    assert without_times(batch[-1]) == without_times(batch[len(batch) - 1])
    with pytest.raises(IndexError):
        batch[len(batch)]


def test_without_documents_there_is_a_table_but_no_explanation() -> None:
    explainer = make_explainer()
    batch, whole = explainer.explain_many(workers=1, documents=False), explainer.explain_many(workers=1)
    assert (
        batch.to_frame()
        .drop(columns=["seconds", "digest"])
        .equals(whole.to_frame().drop(columns=["seconds", "digest"]))
    )
    with pytest.raises(InputError, match="without documents") as refused:
        batch[0]
    assert (refused.value.code, refused.value.hint) == (
        "batch-without-documents",
        "explain the row again, or make the batch with documents=True",
    )
    assert batch.find_rule_cover() == whole.find_rule_cover()


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, plain = tmp_path / "mark", Explainer.explain
    explainer = Explainer(DyingModel(mark, os.getpid()), past(100), desired="good")

    def waiting(self: Explainer, row: Any, **more: Any) -> Any:
        wait_until(mark.exists, "the worker's turn")
        return plain(self, row, **more)

    monkeypatch.setattr(Explainer, "explain", waiting)
    batch = explainer.explain_many(workers=2)
    assert mark.exists()
    assert batch.complete
    assert read_contents(batch) == read_contents(explainer.explain_many(workers=1))


def test_a_worker_that_always_dies_is_an_error_not_an_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pool, "WORKER_STATEMENT", "raise SystemExit(9)")
    given_up, replace_process, plain = threading.Event(), process_pool._WorkerHandle._replace_process, Explainer.explain

    def replace_and_tell(self: Any) -> bool:
        replaced = replace_process(self)
        if not replaced:
            given_up.set()
        return replaced

    def wait_and_explain(self: Explainer, row: Any, **more: Any) -> Any:
        assert given_up.wait(PATIENCE)  # so that this process does not explain all rows before
        return plain(self, row, **more)

    monkeypatch.setattr(process_pool._WorkerHandle, "_replace_process", replace_and_tell)
    monkeypatch.setattr(Explainer, "explain", wait_and_explain)
    with pytest.raises(IronruleError, match="died 3 times"):
        make_explainer().explain_many(workers=2)


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    explainer = make_explainer()
    with pytest.raises(InputError, match="'income' cannot be required") as raised:
        explainer.explain_many(workers=2, require=["income"], forbid=["income"])
    assert raised.value.code == "unusable-requirement"


def test_a_model_that_cannot_be_pickled_is_explained_here_with_a_warning() -> None:
    from threading import Lock

    lock = Lock()

    def locked(table: pd.DataFrame) -> Any:
        with lock:
            return decide(table)

    explainer = Explainer(locked, past(40), desired="good")
    with pytest.warns(UserWarning, match="cannot be sent to other processes"):
        batch = explainer.explain_many(workers=2)
    assert batch.complete


def test_tasks_grow_with_the_speed_and_come_back_when_returned() -> None:
    tasks = TaskQueue((tuple(range(10)), np.zeros((10, 2), dtype=np.int32)))
    first = tasks.take()
    assert first is not None
    assert first[0] == (0,)
    tasks.put_back(first)
    assert tasks.take() is first
    assert tasks.take() is not None


def test_towards_the_end_tasks_become_smaller_so_that_all_end_together() -> None:
    tasks = TaskQueue((tuple(range(100)), np.zeros((100, 2), dtype=np.int32)), workers=2)
    row = make_explainer().explain_many(range(20), workers=1).storage.row_at(0)
    tasks.record_times([dataclasses.replace(row, seconds=0.01)])
    sizes = [len(task[0]) for task in iter(tasks.take, None) if task is not None]
    assert sum(sizes) == 100
    assert sizes[0] == 25  # as many as take a quarter of a second
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-2] == 2  # a tenth of that: what is done once for a task would take longer than rows

    alone = TaskQueue((tuple(range(100)), np.zeros((100, 2), dtype=np.int32)))
    alone.record_times([dataclasses.replace(row, seconds=0.005)])
    assert [len(task[0]) for task in iter(alone.take, None) if task is not None] == [50, 50]


def fewest(flags: Any) -> int:
    """By trying all choices."""
    for size in itertools.count(0):
        for some in itertools.combinations(range(len(flags)), size):
            if flags[list(some)].any(axis=0).all():
                return size
    raise AssertionError


@pytest.mark.parametrize("seed", range(30))
def test_the_fewest_covering_rules_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    flags = rng.random((rng.integers(1, 9), rng.integers(1, 12))) < 0.35
    flags = flags[:, flags.any(axis=0)]
    chosen = find_minimum_rule_cover(flags, seconds=PATIENCE)
    assert flags[list(chosen.positions)].any(axis=0).all()
    assert len(chosen.positions) == chosen.lower_bound == fewest(flags)


def test_a_cover_that_is_not_proven_minimum_is_not_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_cover, "_solve_with_highs", lambda *_: rule_cover.RuleCoverSolution((), 1))
    batch = make_explainer().explain_many(workers=1)
    rules = batch.find_rule_cover()
    assert len(rules) > 1
    assert not rules.minimum
    assert "at least 1 is needed" in str(batch)


@pytest.mark.parametrize("wider", [True, False])
def test_the_rules_of_a_cover_hold_and_cover_every_row(wider: bool) -> None:
    explainer, table = make_explainer(), make_history()
    batch = explainer.explain_many(workers=1)
    rules = batch.find_rule_cover(wider=wider)
    assert rules.minimum
    assert rules.covered == len(batch)
    covered, model = np.zeros(len(table), dtype=bool), fit_boosted_trees(table)
    for one in rules.rules:
        found = batch.get_explanation(one.row)
        assert str((found.wider if wider else found.ranked[0]).rule) == one.rule
        mask = (found.wider if wider else found.ranked[0]).rule.covers(table)
        assert (model.predict(table[mask]) == "bad").all()
        assert mask[list(batch.rows)].sum() == one.covered_rows
        covered |= mask
    assert covered[list(batch.rows)].all()


def test_rules_that_are_not_proven_cover_nothing() -> None:
    from applications import score, wide

    explainer = Explainer(score, wide(60), threshold=0.5)
    batch = explainer.explain_many(range(6), workers=1)
    assert set(batch.verdicts) == {"unrefuted"}
    assert batch.find_rule_cover().rules == ()
    assert batch.find_rule_cover().uncovered == len(batch)


def test_boxes_cover_the_points_inside_them() -> None:
    points = np.array([[0, 1], [1, 1], [2, 0]])
    assert find_covered_points(points, np.array([[0, 1], [1, 0]]), np.array([[1, 1], [2, 1]])).tolist() == [
        [True, True, False],
        [False, True, True],
    ]


def test_a_batch_can_be_shown() -> None:
    batch = make_explainer().explain_many(workers=1)
    assert isinstance(batch, Batch)
    assert "proven rules cover all" in str(batch)
    assert "and fewer cannot" in str(batch)
    html = batch._repr_html_()
    assert f"{len(batch)} proven" in html
    assert "<script" not in html
    assert repr(batch) == f"<Batch: {len(batch)} rows explained; {len(batch)} proven>"


def test_a_model_that_contradicts_its_reading_is_reported_by_a_batch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = make_explainer()
    explainer.explain_many(workers=1)
    for kind in {type(explainer._context.point_model), type(explainer._context.model)}:
        monkeypatch.setattr(kind, "desired", lambda _, points: np.zeros(len(points), np.bool_))
    with pytest.raises(ModelError, match="decisions differ from its reading"):
        explainer.explain_many(workers=1)


def test_the_model_confirms_several_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, plain, calls = make_explainer(), type(make_explainer()._context.point_model).desired, list[int]()
    monkeypatch.setattr(
        type(explainer._context.point_model),
        "desired",
        lambda self, points: calls.append(len(points)) or plain(self, points),
    )
    numbers = np.flatnonzero(~explainer.outcomes)[:6]
    task = tuple(numbers.tolist()), explainer.codes.points(numbers)
    rows = RowExplainer(explainer, SearchOptions(), documents=True).explain_task(task)
    assert [row.row for row in rows] == numbers.tolist()
    assert len(calls) == 1
    assert calls[0] >= len(numbers)

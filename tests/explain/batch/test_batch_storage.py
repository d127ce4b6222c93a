"""The folder of a batch: whatever ends the work, nothing is lost and nothing comes twice."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from batch_examples import (
    fit_boosted_trees,
    kill_after,
    limit_file_size,
    make_explainer,
    make_history,
    read_contents,
    start_run,
)
from ironrule import Batch, Explainer, InputError, StorageError
from ironrule.explain.batch import process_pool, run
from ironrule.results import batch_folder, batch_storage
from ironrule.results.batch_folder import lock_folder


@pytest.fixture(autouse=True)
def _many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 3)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_that_is_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path, workers: int) -> None:
    undisturbed = make_explainer().explain_many(workers=1)
    folder, rng, sizes = tmp_path / "batch", np.random.default_rng(workers), [0]
    for wanted in (0, 1, 3):
        kill_after(start_run(folder, workers), folder, wanted, rng.random() * 0.1)
        if (folder / "manifest.json").exists():
            sizes.append(len(Batch.open(folder)))
    assert sizes == sorted(sizes)
    assert 0 < sizes[-1] < len(undisturbed), "no row, or every row, was finished before a kill: this tests nothing"
    batch = make_explainer().explain_many(output=tmp_path / "batch", workers=workers)
    assert len(set(batch.rows)) == len(batch.rows)
    assert read_contents(batch) == read_contents(undisturbed)
    assert not list((tmp_path / "batch").glob("*.unfinished"))


def test_what_is_finished_is_not_explained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = make_explainer()
    first = explainer.explain_many(output=tmp_path / "batch", workers=1)
    monkeypatch.setattr(Explainer, "explain", lambda *_, **__: pytest.fail("explained again"))
    again = explainer.explain_many(output=tmp_path / "batch", workers=2)
    assert again.rows == first.rows
    assert read_contents(again) == read_contents(first)


def test_a_row_is_read_from_its_part_alone(tmp_path: Path) -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(output=tmp_path / "batch", workers=1)
    assert len(list((tmp_path / "batch").glob("part-*.parquet"))) > 3
    opened = Batch.open(tmp_path / "batch")
    assert read_contents(opened) == read_contents(explainer.explain_many(workers=1)) == read_contents(batch)
    assert opened.counts == batch.counts
    assert opened.space == explainer.space
    assert opened.find_rule_cover() == batch.find_rule_cover()


def test_an_interrupted_batch_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, plain, count = make_explainer(), Explainer.explain, [0]
    monkeypatch.setattr(run, "FLUSH_SECONDS", 1e9)

    def interrupted(self: Explainer, *args: Any, **more: Any) -> Any:
        count[0] += 1
        if count[0] == 6:
            raise KeyboardInterrupt
        return plain(self, *args, **more)

    monkeypatch.setattr(Explainer, "explain", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explainer.explain_many(output=tmp_path / "batch", workers=1)
    kept = Batch.open(tmp_path / "batch")
    assert 0 < len(kept) < kept.counts["to_explain"]
    assert not kept.complete
    assert "run the same again" in str(kept)
    assert explainer.explain_many(output=tmp_path / "batch", workers=1).complete


def test_a_full_disk_is_an_error_and_finished_parts_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, sync, count = make_explainer(), os.fsync, [0]

    def full(handle: int) -> None:
        count[0] += 1
        if count[0] > 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    with monkeypatch.context() as patched:
        patched.setattr(batch_folder.os, "fsync", full)
        with pytest.raises(StorageError, match=r"No space left.*run the same again"):
            explainer.explain_many(output=tmp_path / "batch", workers=1)
    kept = Batch.open(tmp_path / "batch")
    assert 0 < len(kept) < kept.counts["to_explain"]
    assert read_contents(explainer.explain_many(output=tmp_path / "batch")) == read_contents(
        explainer.explain_many(workers=1)
    )
    assert not list((tmp_path / "batch").glob("*.unfinished"))


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits elsewhere")
def test_a_part_that_finds_no_room_is_an_error_and_the_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 256)
    monkeypatch.setattr(process_pool, "TASK_SECONDS", 1e9)
    explainer = make_explainer()
    undisturbed = explainer.explain_many(output=tmp_path / "undisturbed", workers=1)
    sizes = [part.stat().st_size for part in sorted((tmp_path / "undisturbed").glob("part-*.parquet"))]
    assert sizes[0] < max(sizes)
    with limit_file_size((sizes[0] + max(sizes)) // 2), pytest.raises(StorageError, match="run the same again"):
        explainer.explain_many(output=tmp_path / "batch", workers=1)
    assert 0 < len(Batch.open(tmp_path / "batch")) < len(undisturbed)
    assert read_contents(explainer.explain_many(output=tmp_path / "batch", workers=1)) == read_contents(undisturbed)


def test_no_room_for_the_hand_over_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(process_pool, "write_pickle", full)
    with pytest.raises(StorageError, match=r"No space left.*TMPDIR"):
        make_explainer().explain_many(workers=2)


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks elsewhere")
def test_what_a_killed_run_left_for_its_workers_goes_with_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # which was found before
    kill_after(start_run(tmp_path / "batch", 2), tmp_path / "batch", 1)
    assert list((tmp_path / "temporary").glob("ironrule-*/handover"))
    assert make_explainer().explain_many(output=tmp_path / "batch", workers=2).complete
    assert not list((tmp_path / "temporary").glob("ironrule-*"))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("other options", lambda explainer, folder: explainer.explain_many(output=folder, seed=1)),
        ("other rows", lambda explainer, folder: explainer.explain_many(range(40), output=folder)),
        (
            "another history",
            lambda _, folder: make_explainer(119).explain_many(make_history().iloc[:20], output=folder),
        ),
        (
            "another space",
            lambda _, folder: make_explainer(constraints=["cf.debt >= 0 or cf.income <= 4"]).explain_many(
                output=folder
            ),
        ),
    ],
)
def test_a_folder_of_another_batch_is_refused(tmp_path: Path, what: str, change: Any) -> None:
    explainer, rows = make_explainer(), make_history().iloc[:20] if what == "another history" else None
    explainer.explain_many(rows, output=tmp_path / "batch", workers=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f"holds another batch: it was begun with .*{what}") as refused:
        change(explainer, tmp_path / "batch")
    assert (refused.value.code, refused.value.hint) == ("batch-mismatch", "choose another folder, or remove it")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_batch_of_another_model_is_refused(tmp_path: Path) -> None:
    table = make_history()
    make_explainer().explain_many(range(9), output=tmp_path / "batch", workers=1)
    other = fit_boosted_trees(table)
    other[-1].estimators_[0, 0].tree_.value[:] *= 1.01
    explainer = Explainer(other, table, desired="good")
    with pytest.raises(InputError, match="another model"):
        explainer.explain_many(range(9), output=tmp_path / "batch")


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"output must be a new folder .*, which has other files in it"):
        make_explainer().explain_many(output=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(InputError, match=r"output must be a new folder .*, which is a file"):
        make_explainer().explain_many(output=tmp_path / "letter.txt")
    with pytest.raises(InputError, match="no manifest"):
        Batch.open(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(InputError, match=r"must have format 4, got 99; install a newer version of ironrule") as newer:
        Batch.open(tmp_path)
    assert newer.value.code == "wrong-format"
    (tmp_path / "manifest.json").write_text('{"format": 3, "question": ""}')
    for use in (Batch.open, lambda folder: make_explainer().explain_many(output=folder)):
        with pytest.raises(InputError) as older:
            use(tmp_path)
        assert (older.value.code, older.value.got) == ("wrong-format", "3")
        assert older.value.expected == f"the batch in {str(tmp_path)!r} must have format 4"
        assert str(older.value.hint).startswith("explain its rows again into another folder, or use the version")
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(InputError, match=r"must have format 4, got list"):
        Batch.open(tmp_path)


def test_a_run_that_was_killed_before_it_had_begun_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "batch").mkdir()
    for name in ("lock", "manifest.json.unfinished"):
        (tmp_path / "batch" / name).write_text("{")
    assert make_explainer().explain_many(range(5), output=tmp_path / "batch", workers=1).complete
    assert not list((tmp_path / "batch").glob("*.unfinished"))


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "batch"), pytest.raises(InputError, match="another run is writing to") as refused:
        make_explainer().explain_many(output=tmp_path / "batch")
    assert refused.value.code == "batch-in-use"
    assert make_explainer().explain_many(range(5), output=tmp_path / "batch", workers=1).complete


def test_arrays_are_handed_over_without_copies(tmp_path: Path) -> None:
    long = np.arange(200_000)
    stored = np.memmap(tmp_path / "codes", dtype=np.uint16, mode="w+", shape=(1 << 20,))
    stored[:] = 7
    thing = {
        "long": long,
        "stored": np.ascontiguousarray(stored[8:]),
        "empty": np.empty(0),
        "word": "x",
        "f": lambda: 3,
    }
    path = process_pool.write_pickle(thing, tmp_path)
    assert long.nbytes < path.stat().st_size < long.nbytes + 10_000
    read = process_pool.read_pickle(path)
    assert (read["long"] == long).all()
    assert (read["stored"] == 7).all()
    assert len(read["stored"]) == (1 << 20) - 8
    assert read["f"]() == 3
    read["long"][0] = 5  # ours alone
    assert process_pool.read_pickle(path)["long"][0] == 0


def test_rows_have_the_number_of_their_conditions_and_older_parts_are_read_without(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pd.DataFrame({"a": np.arange(60) % 10, "b": np.arange(60) % 7})
    model = DecisionTreeClassifier(random_state=0).fit(table, ((table["a"] < 3) | (table["a"] > 5)))
    batch = Explainer(model, table, desired=True).explain_many(workers=1, progress=False)
    read = batch.columns("conditions", "cardinality")
    assert read["conditions"] == [len(one.rule.conditions) for one in batch]
    assert any(few < many for few, many in zip(*read.values(), strict=True))  # a range is one condition of two bounds
    counts = sorted(read["conditions"])
    assert f"Conditions per rule: {counts[0]} to {counts[-1]}, median {counts[len(counts) // 2]}." in str(batch)
    path = tmp_path / "part.parquet"
    path.write_bytes(batch_storage.encode_parquet([batch.storage.row_at(0)], batch_storage.BatchRow))
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["conditions"]), path)  # as earlier versions wrote it
    assert batch_storage.read_columns(path, ["row", "conditions"])["conditions"] == [None]
    older = batch_storage.BatchRow.from_columns(batch_storage.read_batch_row(path, 0))
    assert older.explanation() == batch[0]
    mixed = Batch(batch_storage.InMemoryBatch([older, *batch.storage.batch_rows[1:]]), batch.counts, batch.space)
    assert "Bounds per rule: " in str(mixed)

"""The folder of a batch on its own: killed between any two steps, on a full disk, damaged, and with foreign files."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from batch_examples import make_credit_explainer, make_explainer, read_contents
from ironrule import Batch, InputError, StorageError
from ironrule.results import batch_folder
from ironrule.results.batch_folder import BatchFolder, open_batch_folder
from ironrule.results.batch_storage import BatchRow

KEYS = dict.fromkeys(batch_folder.MANIFEST_KEYS, "same")
COUNTS = {"to_explain": 8, "desired": 0, "not_robust": 0}
PORTION = 2


class Killed(BaseException):
    """As by kill -9: no handler runs."""


@pytest.fixture(scope="module")
def rows() -> list[BatchRow]:
    """Eight finished rows, and what describes their batch."""
    batch = make_explainer().explain_many(workers=1)
    return [batch.storage.row_at(place) for place in range(8)]


def open_folder(path: Path) -> BatchFolder:
    return open_batch_folder(path, KEYS | COUNTS)


def finish(path: Path, rows: list[BatchRow]) -> None:
    """What a run does: open, see what is there, add the rest, a few rows at a time."""
    folder = open_folder(path)
    there = folder.finished_row_numbers()
    missing = [row for row in rows if row.row not in there]
    for start in range(0, len(missing), PORTION):
        folder.add(missing[start : start + PORTION])


def read_all(path: Path) -> list[BatchRow]:
    return sorted(BatchFolder(path).read_rows(), key=lambda row: row.row)


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, number: int, failure: BaseException, *, done: bool) -> Iterator[list[str]]:
    """Let the file operation of a number fail: before it is done, or, as only a kill can, when it is done.

    What has not been brought to the disk by then is cut in half.
    """
    names: list[str] = []

    def wrap(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any) -> Any:
            names.append(name)
            if len(names) != number:
                return operation(*given)
            if done:
                operation(*given)
            elif name == "fsync" and not os.path.isdir(f"/proc/self/fd/{given[0]}"):
                os.ftruncate(given[0], os.fstat(given[0]).st_size // 2)
            raise failure

        return wrapped

    with monkeypatch.context() as patched:
        for name in ("fsync", "replace"):
            patched.setattr(batch_folder.os, name, wrap(name, getattr(os, name)))
        patched.setattr(Path, "unlink", wrap("unlink", Path.unlink))
        yield names


@contextmanager
def allow_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is a folder is seen there")
@pytest.mark.parametrize("done", [False, True])
def test_a_kill_between_any_two_steps_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[BatchRow], done: bool
) -> None:
    killed, number = 0, 0
    while killed == number:
        number += 1
        path = tmp_path / str(number)
        with failing(monkeypatch, number, Killed(), done=done):
            try:
                finish(path, rows)
            except Killed:
                killed += 1
        if (path / "manifest.json").exists():
            there = read_all(path)  # a reader sees whole parts alone, and warns of nothing
            assert there == [row for row in rows if row in there]
        finish(path, rows)
        assert read_all(path) == rows
        assert not list(path.glob("*.unfinished"))
    assert killed > 20, "hardly any step was interrupted: this tests nothing"


def test_a_kill_while_what_a_kill_left_is_repaired_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[BatchRow]
) -> None:
    source = tmp_path / "source"
    finish(source, rows)
    for number in range(1, 8):
        path = tmp_path / str(number)
        shutil.copytree(source, path)
        (path / "part-000001.parquet").rename(path / "part-000001.parquet.unfinished")  # listed, not renamed yet
        (path / "part-000009.parquet.unfinished").write_bytes(b"half")
        (path / "part-000003.parquet").write_bytes(b"altered")
        with failing(monkeypatch, number, Killed(), done=False), allow_warnings(), contextlib.suppress(Killed):
            finish(path, rows)
        with allow_warnings():
            finish(path, rows)
        assert read_all(path) == rows


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is a folder is seen there")
def test_a_full_disk_at_any_step_is_a_storage_error_and_the_folder_can_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[BatchRow]
) -> None:
    told, number = list[str](), 0
    while len(told) == number:
        number += 1
        path = tmp_path / str(number)
        with failing(monkeypatch, number, OSError(errno.ENOSPC, "No space left on device"), done=False):
            try:
                finish(path, rows)
            except StorageError as error:
                told.append(str(error))
        leftovers = [file.name for file in path.glob("*.unfinished")]
        listed = [record.part + ".unfinished" for record in BatchFolder(path).read_index()]
        assert set(leftovers) <= set(listed), "only a whole part, which is listed, may wait for its name"
        finish(path, rows)
        assert read_all(path) == rows
    assert len(told) > 20
    assert all("No space left on device" in text for text in told)


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(StorageError, match=r"cannot write to the folder .*: No space left on device; free some space"):
        batch_folder.lock_folder(tmp_path / "batch")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "altered": lambda part: part.write_bytes(_flip_byte(part.read_bytes(), len(part.read_bytes()) // 2)),
    "altered at its end": lambda part: part.write_bytes(_flip_byte(part.read_bytes(), -1)),
    "cut short": lambda part: part.write_bytes(part.read_bytes()[:-7]),
    "emptied": lambda part: part.write_bytes(b""),
    "removed": lambda part: part.unlink(),
    "renamed": lambda part: part.rename(part.with_name("part-000777.parquet")),
    "replaced by another part": lambda part: shutil.copy(part.with_name("part-000000.parquet"), part),
}


def _flip_byte(content: bytes, place: int) -> bytes:
    altered = bytearray(content)
    altered[place] ^= 1
    return bytes(altered)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_named_refused_to_readers_and_redone_by_the_same_call(tmp_path: Path, damage: str) -> None:
    explainer, folder = make_explainer(), tmp_path / "batch"
    undisturbed = read_contents(explainer.explain_many(output=folder, workers=1))
    storage = BatchFolder(folder)
    storage.add([])  # so that the damaged part is not the last one
    part = sorted(folder.glob("part-*.parquet"))[0 if damage != "replaced by another part" else 1]
    rows_there = next(record.rows for record in storage.read_index() if record.part == part.name)
    DAMAGES[damage](part)
    with pytest.raises(InputError) as refused:
        len(Batch.open(folder))
    assert refused.value.code == "batch-damaged"
    assert part.name in str(refused.value)
    assert f"output={str(folder)!r}" in str(refused.value.hint)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        again = explainer.explain_many(output=folder, workers=1)
        assert read_contents(again) == undisturbed
    texts = [str(one.message) for one in said]
    assert any(part.name in text and f"its {rows_there} rows are explained again" in text for text in texts)
    assert any("part-000777.parquet" in text for text in texts) == (damage == "renamed")
    if damage not in ("removed", "renamed"):
        assert (folder / f"{part.name}.damaged").exists()
    if damage != "renamed":  # set aside, so it is no news any more
        assert read_contents(Batch.open(folder)) == undisturbed


def test_a_copy_of_a_part_is_not_counted_twice(tmp_path: Path, rows: list[BatchRow]) -> None:
    finish(tmp_path, rows)
    shutil.copy(tmp_path / "part-000001.parquet", tmp_path / "part-000009.parquet")
    with pytest.warns(UserWarning, match=r"ignored 'part-000009\.parquet'"):
        assert read_all(tmp_path) == rows
    with pytest.warns(UserWarning, match=r"ignored 'part-000009\.parquet'"):
        finish(tmp_path, rows)
    BatchFolder(tmp_path).add(rows[:1])
    assert BatchFolder(tmp_path).read_index()[-1].part == "part-000010.parquet"  # no name is used twice


def test_foreign_files_are_left_alone_and_named(tmp_path: Path, rows: list[BatchRow]) -> None:
    finish(tmp_path, rows)
    for name in ("a.txt", "b.parquet", "c", "d", ".hidden"):
        (tmp_path / name).write_text("foreign")
    with pytest.warns(UserWarning, match=r"ignored 'a\.txt', 'b\.parquet', 'c' and 1 more in") as said:
        finish(tmp_path, rows)
    assert ".hidden" not in str(said[0].message)
    assert (tmp_path / "a.txt").read_text() == "foreign"


@pytest.mark.parametrize("line", ["", "{", "[]", '{"part": "../x", "rows": 1, "bytes": 1, "sha256": ""}', "\x00\xff"])
def test_a_line_of_the_index_that_cannot_be_read_costs_its_part_alone(
    tmp_path: Path, rows: list[BatchRow], line: str
) -> None:
    finish(tmp_path, rows)
    lines = (tmp_path / "parts.jsonl").read_text().splitlines()
    lines[1] = line
    (tmp_path / "parts.jsonl").write_bytes("\n".join(lines).encode("latin-1"))
    with pytest.warns(UserWarning, match=r"ignored 'part-000001\.parquet'"):
        assert read_all(tmp_path) == rows[:2] + rows[4:]
    with pytest.warns(UserWarning, match=r"ignored 'part-000001\.parquet'"):
        finish(tmp_path, rows)
    with pytest.warns(UserWarning, match=r"ignored 'part-000001\.parquet'"):
        assert read_all(tmp_path) == rows


def test_an_index_with_an_altered_checksum_has_its_part_redone(tmp_path: Path, rows: list[BatchRow]) -> None:
    finish(tmp_path, rows)
    index = (tmp_path / "parts.jsonl").read_text()
    first = json.loads(index.splitlines()[0])["sha256"]
    (tmp_path / "parts.jsonl").write_text(index.replace(first, "0" * 64))
    with pytest.warns(UserWarning, match=r"'part-000000\.parquet' .* was damaged or removed"):
        finish(tmp_path, rows)
    assert read_all(tmp_path) == rows


def test_an_altered_manifest_is_refused(tmp_path: Path, rows: list[BatchRow]) -> None:
    finish(tmp_path, rows)
    manifest = (tmp_path / "manifest.json").read_text()
    (tmp_path / "manifest.json").write_text(manifest.replace('"to_explain": 8', '"to_explain": 6'))
    for use in (Batch.open, open_folder):
        with pytest.raises(InputError, match=r"was altered after it was written; explain its rows again") as refused:
            use(tmp_path)
        assert refused.value.code == "manifest-altered"


def test_a_manifest_or_an_index_that_is_nested_too_deep_cannot_be_read(tmp_path: Path, rows: list[BatchRow]) -> None:
    finish(tmp_path, rows)
    (tmp_path / "parts.jsonl").write_text("[" * 100_000)
    with pytest.warns(UserWarning, match="no part of the batch by its index"):
        finish(tmp_path, rows)
    with pytest.warns(UserWarning, match="no part of the batch by its index"):
        found = read_all(tmp_path)
    assert found == rows
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="has no manifest that can be read"):
        Batch.open(tmp_path)


def test_a_damaged_part_in_the_middle_is_redone_with_rules_of_earlier_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironrule.explain.batch import process_pool, run

    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 2)
    explainer, folder = make_credit_explainer(), tmp_path / "batch"
    undisturbed = explainer.explain_many(reuse=True, workers=1)
    explainer.explain_many(reuse=True, workers=1, output=folder)
    parts = sorted(folder.glob("part-*.parquet"))
    assert len(parts) > 2
    for part in parts[:2]:
        part.write_bytes(b"damaged")
        with pytest.warns(UserWarning, match=part.name):
            batch = explainer.explain_many(reuse=True, workers=1, output=folder)
        assert read_contents(batch) == read_contents(undisturbed)
        assert batch.columns("covered_by") == undisturbed.columns("covered_by")

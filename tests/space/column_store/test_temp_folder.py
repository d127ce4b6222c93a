"""Folders of one's own: gone when nobody holds them, even after a process that was killed."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ironrule.space.column_store.storage import TempFolder, write_columns

posix = pytest.mark.skipif(os.name != "posix", reason="there are no such locks elsewhere")

HOLDS = """
import sys, time
from pathlib import Path
from ironrule.space.column_store.storage import TempFolder
held = TempFolder.create(Path(sys.argv[1]))
(held.path / "large").write_text("x")
print(held.path, flush=True)
time.sleep(600)
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process with a folder of its own, and that folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(parent)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_goes_when_nobody_holds_it(tmp_path: Path) -> None:
    folder = TempFolder.create(tmp_path)
    path = folder.path
    assert path.is_dir()
    del folder
    gc.collect()
    assert not path.exists()
    with TempFolder.create(tmp_path) as again:
        assert again.path.is_dir()
    assert not again.path.exists()


def test_a_copy_does_not_remove_the_folder(tmp_path: Path) -> None:
    folder = TempFolder.create(tmp_path)
    with pickle.loads(pickle.dumps(folder)) as copy:
        assert copy.path == folder.path
    del copy
    gc.collect()
    assert folder.path.is_dir()


@posix
def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    process, path = holder(tmp_path)
    try:
        with TempFolder.create(tmp_path):
            assert (path / "large").exists()  # somebody holds it
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert (path / "large").exists()
    with TempFolder.create(tmp_path):
        assert not path.exists()


@posix
def test_what_others_left_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = tmp_path / "ironrule-held-strange"
    strange.mkdir()
    (strange / "letter.txt").write_text("dear")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "in-use").touch()
    (tmp_path / "ironrule-held-link").symlink_to(tmp_path / "home")
    with TempFolder.create(tmp_path):
        assert (strange / "letter.txt").exists()
        assert (tmp_path / "home" / "in-use").exists()
    (strange / "in-use").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: -5)
        with TempFolder.create(tmp_path):
            assert strange.exists()  # somebody else's
    with TempFolder.create(tmp_path):
        assert not strange.exists()


def test_columns_that_cannot_be_made_leave_nothing_behind(tmp_path: Path) -> None:
    def broken() -> None:
        raise ValueError("no")
        yield

    with pytest.raises(ValueError, match="no"):
        write_columns(tmp_path / "codes", iter([broken()]))
    assert not list(tmp_path.iterdir())

"""Where the tests of the audit log keep it: SQLite, and a real PostgreSQL where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDERS = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
OTHER_USERS = ("postgres", "nobody")  # PostgreSQL refuses to run as root


def find_program(name: str) -> str | None:
    """Where a program of PostgreSQL is."""
    return shutil.which(name, path=os.pathsep.join([*FOLDERS, os.environ.get("PATH", "")]))


@contextmanager
def open_postgresql(folder: Path) -> Iterator[str]:
    """The URL of a new PostgreSQL server that listens on a socket in a folder alone; skips where there is none."""
    initdb, control = find_program("initdb"), find_program("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("PostgreSQL is not installed: no initdb and pg_ctl")
    owner = _choose_owner(folder)
    data = folder / "data"
    run = {"check": True, "capture_output": True, "text": True, **owner}
    subprocess.run([initdb, "-D", data, "-U", "tester", "--auth=trust", "--no-sync"], **run)  # type: ignore[call-overload]
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    started = [control, "-D", str(data), "-o", options, "-w"]
    subprocess.run([*started, "-l", str(folder / "log"), "start"], **run)  # type: ignore[call-overload]
    try:
        yield f"postgresql://tester@/postgres?host={folder}"
    finally:
        subprocess.run([*started, "-m", "immediate", "stop"], **run)  # type: ignore[call-overload]


def _choose_owner(folder: Path) -> dict[str, object]:
    """Who runs the server: whoever runs the tests, unless that is root."""
    if os.geteuid() != 0:
        return {}
    known = [name for name in OTHER_USERS if _user_exists(name)]
    if not known:
        pytest.skip("PostgreSQL refuses to run as root, and there is no other user here")
    shutil.chown(folder, known[0])
    return {"user": known[0], "extra_groups": [], "cwd": folder, "env": {"LC_ALL": "C", "PATH": os.defpath}}


def _user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True

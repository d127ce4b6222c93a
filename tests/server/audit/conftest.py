"""Fixtures: a log in SQLite, and in a real PostgreSQL where one is installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from audit_examples import execute
from databases import open_postgresql


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    # In /tmp itself, since the path of a socket must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as name, open_postgresql(Path(name)) as url:
        yield url


@pytest.fixture
def postgresql(cluster: str) -> Iterator[str]:
    """The URL of a database without a log."""
    yield cluster
    execute(cluster, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The URL of a file that does not exist yet."""
    return f"sqlite:///{tmp_path}/audit.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found

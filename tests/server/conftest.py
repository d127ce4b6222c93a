"""Fixtures: one server on the bundled data for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from served import bundled, client_of

from ironrule.server.subject import Subject


@pytest.fixture(scope="session")
def german() -> Subject:
    return bundled()


@pytest.fixture(scope="session")
def client(german: Subject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with client_of(german, tmp_path_factory.mktemp("served")) as made:
        yield made

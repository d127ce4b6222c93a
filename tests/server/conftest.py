"""Fixtures: one server on the bundled data for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from server_examples import build_demo, open_client

from ironrule.server.served_model import ServedModel


@pytest.fixture(scope="session")
def german() -> ServedModel:
    return build_demo()


@pytest.fixture(scope="session")
def client(german: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with open_client(german, tmp_path_factory.mktemp("served")) as made:
        yield made

"""schemathesis: whatever the OpenAPI document allows, and much that it does not, is answered without a server error."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from server_examples import open_client

from ironrule.server.routes import api
from ironrule.server.served_model import ServedModel
from ironrule.server.settings import ServerLimits
from waiting import PATIENCE

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def list_operations() -> list[APIOperation]:
    described = FastAPI(title="Ironrule", version="0")
    described.include_router(api.router)
    return [found.ok() for found in schemathesis.openapi.from_dict(described.openapi()).get_all_operations()]


@pytest.fixture(scope="module")
def limited(german: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    limits = ServerLimits(seconds=0.5, evaluations=2_000, batch_rows=5)
    with open_client(german, tmp_path_factory.mktemp("schema"), limits) as client:
        yield client


def test_every_call_is_in_the_document(client: httpx.Client) -> None:
    paths = client.get("/api/openapi.json").json()["paths"]
    assert {one.path for one in list_operations()} == set(paths)
    assert len(list_operations()) >= 13


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not allowed"])
@pytest.mark.parametrize("operation", list_operations(), ids=lambda one: f"{one.method} {one.path}")
def test_no_request_makes_the_server_fail(operation: APIOperation, mode: GenerationMode, limited: httpx.Client) -> None:
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body or operation.path_parameters):
        return  # nothing can be wrong with it

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def check_answer(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=str(limited.base_url), checks=CHECKS, timeout=PATIENCE)

    check_answer()

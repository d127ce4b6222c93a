"""Errors have one shape: the command line (``--json``) and the HTTP API give the same fields, with their own advice."""

from __future__ import annotations

import json

import pytest

from ironrule.cli.errors import CLI_HINTS, run_with_exit_code
from ironrule.errors import InputError, IronruleError, ModelError, SpaceError
from ironrule.interrupts import InterruptFlag
from ironrule.server.errors import SERVER_HINTS, ErrorDetail, to_api_error

ERRORS = [
    InputError(expected="k must be a positive integer", got=0),
    InputError("the following are required: MODEL", hint="name them", code="usage"),
    SpaceError("unknown feature 'shoe'", hint="did you mean 'show'?", code="unknown-feature"),
    ModelError(
        expected="the model must be given its 3 columns", got="2", hint="pass columns=[...]", code="model-columns"
    ),
    *(InputError("it cannot be", hint="pass k=...", code=code) for code in sorted({*CLI_HINTS} & {*SERVER_HINTS})),
]


def read_cli_error(error: IronruleError, capsys: pytest.CaptureFixture[str]) -> dict[str, str | None]:
    def fail() -> int:
        raise error

    run_with_exit_code(fail, as_json=True, flag=InterruptFlag())
    fields: dict[str, str | None] = json.loads(capsys.readouterr().err)["error"]
    return fields


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_the_command_line_and_the_api_give_the_same_fields(
    error: IronruleError, capsys: pytest.CaptureFixture[str]
) -> None:
    told, answered = read_cli_error(error, capsys), to_api_error(error).to_dict()["error"]
    assert told.pop("type") == type(error).__name__
    assert list(told) == list(answered) == list(ErrorDetail.model_fields)
    for name in ("code", "expected", "got"):
        assert told[name] == answered[name] == getattr(error, name)
    for fields, hints in ((told, CLI_HINTS), (answered, SERVER_HINTS)):
        assert fields["hint"] == hints.get(error.code, error.hint)
        assert fields["message"] == (f"{error.statement}; {fields['hint']}" if fields["hint"] else error.statement)

"""Fixtures: the loans and their model as files, and a way to run the command line in this process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from loans import FEATURES, Files, Run, fitted, loans
from skops import io

from ironrule.cli import main


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder, table = tmp_path_factory.mktemp("loans"), loans()
    table.to_csv(folder / "loans.csv", index=False)
    model = fitted(table, table["paid"])
    io.dump(model, folder / "model.skops")
    denied = int(np.flatnonzero(model.predict(table[FEATURES]) == "no")[0])
    return Files(folder, str(folder / "model.skops"), str(folder / "loans.csv"), denied)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("IRONRULE_DEBUG", raising=False)

    def run_here(*arguments: str) -> Run:
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    return run_here


@pytest.fixture
def refused(run: Callable[..., Run]) -> Callable[..., str]:
    """Run a command that must be refused as bad input, in one message without a traceback."""

    def refused_here(*arguments: str) -> str:
        result = run(*arguments)
        assert result.code == 2, result
        assert result.out == ""
        assert result.err.startswith("error: ")
        assert "Traceback" not in result.err
        return result.err

    return refused_here

"""ironrule recheck: stored explanations against a new model, by exit code too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from loans import Files, Run, fitted, loans
from skops import io


@pytest.fixture
def batch(files: Files, run: Callable[..., Run], tmp_path: Path) -> str:
    folder = str(tmp_path / "batch")
    command = ["batch", files.model, files.data, "--desired", "yes", "--output", folder, "--workers", "1"]
    assert run(*command).code == 0
    return folder


def test_the_same_model_ends_with_0(files: Files, run: Callable[..., Run], batch: str) -> None:
    result = run("recheck", batch, "--model", files.model, "--data", files.data, "--desired", "yes", "--json")
    assert result.code == 0
    assert set(result.json["counts"]) == {"holds"}


def test_a_kinder_model_ends_with_1_and_says_who_breaks_the_rules(
    files: Files, run: Callable[..., Run], batch: str, tmp_path: Path
) -> None:
    table = loans()
    kinder = fitted(table, np.where((table["paid"] == "yes") | (table["age"] >= 28), "yes", "no"))
    io.dump(kinder, tmp_path / "new.skops")
    output = tmp_path / "answer.json"
    more = ["--model", str(tmp_path / "new.skops"), "--data", files.data, "--desired", "yes", "--output", str(output)]
    result = run("recheck", batch, *more)
    assert result.code == 1
    assert "breaks: the rule has an exception now" in result.text
    assert "->" in result.text
    assert output.exists()


def test_json_files_can_be_rechecked(files: Files, run: Callable[..., Run], tmp_path: Path) -> None:
    run("explain", *files.ask("--output", str(tmp_path / "why.json")))
    more = ["--model", files.model, "--data", files.data, "--desired", "yes", "--json"]
    result = run("recheck", str(tmp_path / "why.json"), *more)
    assert result.json["explanations"][0]["status"] == "holds"
    assert result.json["explanations"][0]["name"].endswith("why.json")


def test_what_is_no_explanation_is_refused(files: Files, refused: Callable[..., str], tmp_path: Path) -> None:
    more = ["--model", files.model, "--data", files.data, "--desired", "yes"]
    assert "no manifest" in refused("recheck", str(tmp_path), *more)
    assert "explanation not found: " in refused("recheck", str(tmp_path / "none.json"), *more)

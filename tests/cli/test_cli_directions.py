"""Low scores are desired (--desired below): every command that takes a threshold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from loans import Run
from sklearn.linear_model import LinearRegression, LogisticRegression
from skops import io

THRESHOLD = "0.35"
BELOW = ("--desired", "below", "--threshold", THRESHOLD)


@pytest.fixture(scope="module")
def risks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A regression and a classifier of defaults, with the past rows."""
    folder, rng = tmp_path_factory.mktemp("risks"), np.random.default_rng(0)
    table = pd.DataFrame({"late": rng.integers(0, 5, 80), "debt": rng.integers(1, 6, 80)})
    share = (0.12 * table["late"] + 0.06 * table["debt"]).clip(0, 1)
    table.to_csv(folder / "risks.csv", index=False)
    io.dump(LinearRegression().fit(table, share), folder / "regression.skops")
    io.dump(LogisticRegression().fit(table, rng.random(80) < share), folder / "classifier.skops")
    return folder, table


@pytest.mark.parametrize("name", ["regression", "classifier"])
def test_every_command_knows_the_direction(
    run: Callable[..., Run], risks: tuple[Path, pd.DataFrame], name: str, tmp_path: Path
) -> None:
    folder, table = risks
    model = str(folder / f"{name}.skops")
    fitted = io.load(model, trusted=io.get_untrusted_types(file=model))
    scores = fitted.predict(table) if name == "regression" else fitted.predict_proba(table)[:, 1]
    row = str(int(np.argmax(scores)))
    files = (model, str(folder / "risks.csv"))
    explained = run("explain", *files, "--row", row, *BELOW, "--output", str(tmp_path / "why.json"))
    assert explained.code == 0, explained.err
    saved = (str(tmp_path / "why.json"), "--model", files[0], "--data", files[1])
    assert run("check", *saved, *BELOW, "--strict").code == 0
    assert run("check", *saved, "--threshold", THRESHOLD).code == 1
    assert "direction" in (tmp_path / "why.json").read_text()
    page = ("--audience", "validator", "--output", str(tmp_path / "why.html"))
    report = run("report", str(tmp_path / "why.json"), *page)
    assert report.code == 0, report.err
    assert "a score below the threshold" in (tmp_path / "why.html").read_text()
    near = run("counterfactual", *files, "--row", row, *BELOW, "--json")
    assert near.code == 0, near.err
    judged = run("judge", *files, "--row", row, *BELOW, "--rule", "late >= 0", "--json")
    assert "at least" in judged.json["judgements"][0]["rule"]["outcome"], judged.err
    assert judged.json["judgements"][0]["verdict"]["kind"] == "refuted"
    batch = run("batch", *files, *BELOW, "--output", str(tmp_path / "all"))
    assert batch.code == 0, batch.err
    best = str(int(np.argmin(scores)))
    desired = run("explain", *files, "--row", best, *BELOW)
    assert desired.code == 2

"""ironrule batch: every denied row explained, kept in a folder, and gone on with by the same command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from loans import FEATURES, Files, Run, fitted, loans

from ironrule import Batch


def command(files: Files, folder: Path, *more: str) -> list[str]:
    return ["batch", files.model, files.data, "--desired", "yes", "--output", str(folder), "--workers", "1", *more]


def test_every_denied_row_is_explained_and_the_few_rules_are_told(
    files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    result = run(*command(files, tmp_path / "batch", "--json"))
    table = loans()
    denied = np.flatnonzero(fitted(table, table["paid"]).predict(table[FEATURES]) == "no").tolist()
    assert result.code == 0
    assert result.json["explained"] == result.json["to_explain"] == len(denied)
    assert result.json["verdicts"] == {"proven": len(denied)}
    assert result.json["rule_cover"]["minimum"] is True
    batch = Batch.open(tmp_path / "batch")
    assert list(batch.rows) == denied
    assert len(result.json["rule_cover"]["rules"]) == len(batch.find_rule_cover())


def test_the_same_command_again_explains_nothing_and_says_the_same(
    files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    first = run(*command(files, tmp_path / "batch"))
    parts = sorted((tmp_path / "batch").iterdir())
    again = run(*command(files, tmp_path / "batch"))
    assert first.code == again.code == 0
    assert first.out == again.out
    assert "denied rows explained" in first.out
    assert sorted((tmp_path / "batch").iterdir()) == parts


def test_rows_may_come_from_a_file_of_their_own(files: Files, run: Callable[..., Run], tmp_path: Path) -> None:
    rows = loans().iloc[[files.denied, files.denied]].drop(columns="paid")
    pd.DataFrame(rows).to_csv(tmp_path / "tonight.csv", index=False)
    more = ["--rows", str(tmp_path / "tonight.csv"), "--no-documents", "--no-widen", "--json"]
    assert run(*command(files, tmp_path / "batch", *more)).json["explained"] == 2
    assert Batch.open(tmp_path / "batch").columns("same_as", "wider") == {"same_as": [0, 0], "wider": [None, None]}


def test_rules_may_serve_again(files: Files, run: Callable[..., Run], tmp_path: Path) -> None:
    every, fewer = tmp_path / "every", tmp_path / "fewer"
    run(*command(files, every))
    assert "not searched, covered by the rule of another row" in run(*command(files, fewer, "--reuse")).out
    assert Batch.open(fewer).rows == Batch.open(every).rows
    assert any(by is not None for by in Batch.open(fewer).columns("covered_by")["covered_by"])


def test_another_question_in_the_same_folder_is_refused(
    files: Files, run: Callable[..., Run], refused: Callable[..., str], tmp_path: Path
) -> None:
    run(*command(files, tmp_path / "batch"))
    assert "other options" in refused(*command(files, tmp_path / "batch", "--seed", "3"))
    assert "required" in refused("batch", files.model, files.data)


def test_data_that_is_too_long_for_memory_is_read_in_chunks(
    files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    cache = ["--cache", str(tmp_path / "cache")]
    in_memory = run(*command(files, tmp_path / "one", "--json"))
    for folder in ("two", "three"):  # the second time from the cache
        assert run(*command(files, tmp_path / folder, "--json", *cache)).json == in_memory.json
    told = [run("explain", *files.ask("--json", *more)).json for more in ([], cache, ["--target", "paid", *cache])]
    assert told[0]["rules"] == told[1]["rules"] == told[2]["rules"]
    assert told[0]["instance"] == told[1]["instance"]

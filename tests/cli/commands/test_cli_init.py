"""ironrule init: what is suggested, what is asked, and that the file which is written works."""

from __future__ import annotations

import io
import shutil
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from loans import Files

from ironrule.cli.project import PROJECT_FILE


class Terminal(io.StringIO):
    """Somebody who types answers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def folder(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(files.model, tmp_path / "model.skops")
    shutil.copy(files.data, tmp_path / "loans.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(folder: Path) -> dict[str, object]:
    return tomllib.loads((folder / PROJECT_FILE).read_text(encoding="utf-8"))


def test_the_files_and_the_target_are_found(run, folder: Path, files: Files):
    result = run("init", "--desired", "yes", "--json")
    assert result.code == 0, result.err
    assert read(folder) == {"model": "model.skops", "data": "loans.csv", "target": "paid", "desired": "yes"}
    assert result.json == {"output": PROJECT_FILE, **read(folder), "denied_row": files.denied}
    assert run("explain", "--row", str(files.denied)).code == 0


def test_questions_are_asked_and_suggestions_taken(run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", Terminal("\n\n\n\nyes\n"))  # the fourth question has no suggestion
    result = run("init")
    assert result.code == 0, result.err
    assert read(folder)["desired"] == "yes"
    assert "The model file [model.skops]" in result.err
    assert "The desired class (no, yes)" in result.err


def test_answers_are_checked(run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", Terminal("\n\n-\nmaybe\n"))
    result = run("init")
    assert result.code == 2
    assert "maybe" in result.err
    assert not (folder / PROJECT_FILE).exists()
    monkeypatch.setattr(sys, "stdin", Terminal("\n"))
    assert "the input ended" in run("init").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--desired"),
        (("--desired", "maybe"), "maybe"),
        (("--desired", "yes", "--target", "none"), "'none'"),
        (("--desired", "yes", "--model", "no.skops"), "no.skops"),
    ],
)
def test_what_cannot_be_known_or_used_is_refused(refused, folder: Path, arguments: tuple[str, ...], words: str):
    assert words in refused("init", "--yes", *arguments)
    assert not (folder / PROJECT_FILE).exists()


def test_several_files_must_be_told_apart(refused, run, folder: Path):
    shutil.copy(folder / "loans.csv", folder / "more.csv")
    assert "loans.csv, more.csv" in refused("init", "--desired", "yes")
    assert run("init", "--desired", "yes", "--data", "more.csv").code == 0
    assert "already exists" in refused("init", "--desired", "yes", "--data", "more.csv")
    assert run("init", "--desired", "yes", "--data", "loans.csv", "--overwrite").code == 0
    assert read(folder)["data"] == "loans.csv"


def test_the_next_command_is_about_a_row_that_is_denied(run, folder: Path):
    table = pd.read_csv(folder / "loans.csv")
    denied = table["paid"] == "no"
    pd.concat([table[~denied].head(3), table[denied]]).to_csv(folder / "loans.csv", index=False)
    result = run("init", "--desired", "yes", "--yes")
    assert "ironrule explain --row 3," in result.text
    assert run("explain", "--row", "3").code == 0
    assert run("init", "--desired", "yes", "--yes", "--overwrite", "--json").json["denied_row"] == 3


def test_what_keeps_rows_from_being_explained_is_said_at_once(run, folder: Path):
    table = pd.read_csv(folder / "loans.csv")
    table[table["paid"] == "yes"].to_csv(folder / "loans.csv", index=False)
    none = run("init", "--desired", "yes", "--yes").text
    assert "denies none of the first" in none
    assert "ironrule explain" not in none
    table.assign(income=table["income"].astype(str).where(table.index != 4, "n.k.")).to_csv(
        folder / "loans.csv", index=False
    )
    broken = run("init", "--desired", "yes", "--yes", "--overwrite").text
    assert "No row can be explained yet: column 'income' must hold numbers" in broken


def test_an_empty_folder_says_what_is_missing(refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert "no model file" in refused("init", "--yes")


def test_the_example_has_all_that_the_commands_need(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    made = run("init", "--example", "my credit", "--json")
    assert made.code == 0, made.err
    monkeypatch.chdir(tmp_path / "my credit")
    assert made.json["files"] == sorted(path.name for path in Path.cwd().iterdir())
    explained = run("explain", "--row", str(made.json["denied_row"]), "--json")
    assert explained.code == 0, explained.err
    assert explained.json["rules"][0]["verdict"]["kind"] == "proven"
    assert explained.json["labels"]["features"]["credit_amount"]["label"] == "Amount"


@pytest.mark.parametrize("option", ["model", "data", "target", "desired"])
def test_the_example_takes_no_files_of_ones_own(run, tmp_path: Path, option: str):
    result = run("init", "--example", str(tmp_path / "new"), f"--{option}", "mine")
    assert result.code == 2
    assert f"leave --{option}" in result.err
    assert not (tmp_path / "new").exists()


def test_the_example_never_writes_over_files(run, tmp_path: Path):
    (tmp_path / "mine.csv").write_text("mine", encoding="utf-8")
    for folder, said in ((tmp_path, "which has files in it"), (tmp_path / "mine.csv", "which is a file")):
        result = run("init", "--example", str(folder))
        assert result.code == 2
        assert said in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]

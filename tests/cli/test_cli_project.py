"""The project file: it stands in for what is not given, the command line wins, and bad files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from loans import Files

from ironrule.cli.project import KEYS, PROJECT_FILE


@pytest.fixture
def folder(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a project file, which is the current one."""
    monkeypatch.chdir(tmp_path)
    text = f'model = "{files.model}"\ndata = "{files.data}"\ntarget = "paid"\ndesired = "yes"\n'
    (tmp_path / PROJECT_FILE).write_text(text, encoding="utf-8")
    return tmp_path


def add(folder: Path, text: str) -> None:
    path = folder / PROJECT_FILE
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


@pytest.mark.usefixtures("folder")
def test_a_command_needs_the_row_alone_and_says_what_it_took(run, files: Files):
    result = run("explain", "--row", str(files.denied), "--json")
    given = run("explain", *files.ask("--no-project", "--json"))
    assert result.code == 0, result.err
    assert result.json["rules"] == given.json["rules"]
    assert result.err == given.err  # programs get no line more
    assert "using ironrule.toml: model, data, target, desired\n" in run("explain", "--row", str(files.denied)).err


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect",),
        ("counterfactual", "--row", "{row}"),
        ("judge", "--row", "{row}", "--rule", "age <= 20"),
        ("ladder", "--row", "{row}"),
        ("report", "--row", "{row}", "--output", "why.html"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_all_commands_find_it(run, files: Files, arguments: tuple[str, ...]):
    result = run(*(word.format(row=files.denied) for word in arguments))
    assert result.code == 0, result.err


@pytest.mark.usefixtures("folder")
def test_a_stored_explanation_is_checked_without_naming_a_file(run, files: Files):
    assert run("explain", "--row", str(files.denied), "--output", "why.json").code == 0
    assert run("check", "why.json").code == 0
    assert run("recheck", "why.json").code == 0


def test_the_command_line_wins(run, folder: Path, files: Files):
    row = ("--row", str(files.denied))
    refused = [
        ("no-such-class", ("--desired", "no-such-class")),
        ("no-such.csv", ("no-such.csv",)),  # DATA by its ending
        ("no-such.skops", ("no-such.skops",)),
    ]
    for words, given in refused:
        result = run("explain", *row, *given)
        assert result.code == 2
        assert words in result.err.splitlines()[1]
    # An option that is given with its default's value counts as given.
    add(folder, 'domain = "seen"\n')
    seen, auto = run("explain", *row), run("explain", *row, "--domain", "auto")
    assert "domain" in seen.err
    assert "domain" not in auto.err


def test_paths_are_those_of_its_folder(run, folder: Path, files: Files, monkeypatch: pytest.MonkeyPatch):
    other = folder / "other"
    other.mkdir()
    (folder / PROJECT_FILE).write_text('model = "m.skops"\ndata = "d.csv"\ntarget = "paid"\n', encoding="utf-8")
    (folder / "m.skops").write_bytes(Path(files.model).read_bytes())
    (folder / "d.csv").write_bytes(Path(files.data).read_bytes())
    monkeypatch.chdir(other)
    arguments = ("--row", str(files.denied), "--desired", "yes")
    assert run("explain", "--project", "../ironrule.toml", *arguments).code == 0
    refused = run("explain", *arguments)  # no file in this folder
    assert refused.code == 2
    assert "MODEL, DATA" in refused.err
    assert "ironrule init" in refused.err


def test_roles_and_constraints_hold(run, folder: Path, files: Files):
    add(folder, 'constraints = "cf.age >= 20"\n[roles]\nage = "immutable"\nincome = { direction = "fall" }\n')
    found = run("counterfactual", "--row", str(files.denied), "--json")
    assert found.code == 0, found.err
    changed = [change["feature"] for one in found.json["counterfactuals"] for change in one["changes"]]
    assert "age" not in changed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modle = "x"', "did you mean 'model'"),
        ("trust_pickle = true", "--trust-pickle each time"),
        ('trust = ["os.system"]', "well-known libraries"),
        ('trust = ["mine.Model"]', "well-known libraries"),
        ("model = 3", "the path of a file, got 3"),
        ('threshold = "half"', "a number"),
        ("threshold = true", "a number"),
        ("desired = []", "a class, or a list of classes"),
        ('domain = "all"', "auto"),
        ("roles = 3", "a table from features to roles"),
        ("[roles]\nage = { rle = 3 }", "a table from features to roles"),
        ("model = ", "not well-formed TOML"),
    ],
)
def test_bad_files_are_refused(refused, folder: Path, files: Files, text: str, words: str):
    (folder / PROJECT_FILE).write_text(text + "\n", encoding="utf-8")
    assert words in refused("explain", files.model, files.data, "--target", "paid", "--row", str(files.denied))


def test_an_unknown_role_is_refused(run, folder: Path, files: Files):
    add(folder, '[roles]\nage = "fixed"\n')
    result = run("explain", "--row", str(files.denied))
    assert result.code == 2
    assert "the role of 'age' must be" in result.err


def test_every_key_is_described():
    text = Path(__file__).parents[2].joinpath("docs", "cli.md").read_text(encoding="utf-8")
    assert [name for name in KEYS if f"`{name}`" not in text] == []

"""Pages show what the commands print: their examples are run one after the other, with each page's model and data."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = {  # the commands whose output a page shows
    "cli.md": ("demo", "explain", "check", "judge", "counterfactual", "inspect", "init"),
    "tutorials/csv_to_rules.md": ("inspect", "explain", "check", "batch", "report"),
}
SECONDS = re.compile(r"\d+\.\d+ s\.")


def read_blocks(page: str, kind: str) -> list[str]:
    """The contents of the code blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def read_examples(page: str) -> list[tuple[str, str]]:
    """Commands with what they print; nothing where the document does not show it."""
    blocks = [block for block in read_blocks(page, "console") if block.startswith("$ ")]
    texts = [text for block in blocks for text in block[2:].split("\n$ ")]
    examples = [text.partition("\n")[::2] for text in texts]
    # tree.skops is a file that the document does not make
    known = [(line.partition("#")[0], out) for line, out in examples if "tree.skops" not in line]
    return [(line, out) for line, out in known if line.startswith(tuple(f"ironrule {name} " for name in SHOWN[page]))]


@pytest.mark.parametrize("page", SHOWN)
def test_the_commands_print_what_the_document_shows(page: str, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    model = next(block for block in read_blocks(page, "python") if "io.dump" in block)
    exec(compile(model, page, "exec"), {})
    shown = []
    for command, expected in read_examples(page):
        arguments = shlex.split(command)[1:]
        printed = run(*arguments)
        if expected.strip():
            shown.append(arguments[0])
            texts = (expected, printed.out + printed.err)
            want, got = (SECONDS.sub("0.00 s.", text.strip("\n") + "\n") for text in texts)
            assert doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS), (command, want, got)
    assert set(shown) == set(SHOWN[page])


def test_the_commands_of_the_readme_work_one_after_the_other(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    block = next(block for block in read_blocks("../README.md", "console") if "init --example" in block)
    for line in block.splitlines()[1:]:  # the first one installs
        name, *arguments = shlex.split(line)
        if name == "cd":
            monkeypatch.chdir(tmp_path / arguments[0])
        else:
            assert name == "ironrule"
            result = run(*arguments)
            assert result.code == 0, (line, result.err)
    there = {path.name for path in Path.cwd().iterdir()}
    assert {"why.json", "why.html", "notice.html", "denials", "credit.ironrule"} <= there

"""docs/cli.md shows what the commands print: its examples are run one after the other, with its model and data."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
COMMANDS = ("demo", "explain", "check", "judge", "counterfactual", "inspect", "init")
SECONDS = re.compile(r"\d+\.\d+ s\.")


def read_blocks(kind: str) -> list[str]:
    """The contents of the code blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def read_examples() -> list[tuple[str, str]]:
    """Commands with what they print; nothing where the document does not show it."""
    texts = [text for block in read_blocks("console") if block.startswith("$ ") for text in block[2:].split("\n$ ")]
    examples = [text.partition("\n")[::2] for text in texts]
    # tree.skops is a file that the document does not make
    known = [(line.partition("#")[0], out) for line, out in examples if "tree.skops" not in line]
    return [(line, out) for line, out in known if line.startswith(tuple(f"ironrule {name} " for name in COMMANDS))]


def test_the_commands_print_what_the_document_shows(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    model = next(block for block in read_blocks("python") if "io.dump" in block)
    exec(compile(model, str(DOCUMENT), "exec"), {})
    shown = []
    for command, expected in read_examples():
        arguments = shlex.split(command)[1:]
        printed = run(*arguments)
        if expected.strip():
            shown.append(arguments[0])
            texts = (expected, printed.out + printed.err)
            want, got = (SECONDS.sub("0.00 s.", text.strip("\n") + "\n") for text in texts)
            assert doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS), (command, want, got)
    assert set(shown) == set(COMMANDS)

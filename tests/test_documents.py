"""The documents: examples run, links lead somewhere, and the two commands are those that are promised."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import ironrule

ROOT = Path(__file__).parents[1]
INSTALL = "pip install . && ironrule demo"
TEST = "pip install '.[test]' && pytest"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOUND = [found.name for found in pkgutil.walk_packages(ironrule.__path__, "ironrule.")]
THERE = [name for name in FOUND if not name.endswith("_torch") or importlib.util.find_spec("torch")]  # it is an extra
MODULES = ["ironrule", *(name for name in THERE if not name.endswith("__main__"))]  # importing that one runs it

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_hold(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert outcome.failed == 0


def test_some_docstrings_have_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) > 10


@every_page
def test_the_examples_on_a_page_hold(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for text in blocks(page, "python"):
        exec(compile(text, str(page), "exec"), namespace)
    session = "\n".join(blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(session, namespace, page.name, str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert "".join(said) == ""


@every_page
def test_a_relative_link_leads_to_a_file(page: Path) -> None:
    outside_code = BLOCK.sub("", page.read_text())
    targets = [target.partition("#")[0] for target in LINK.findall(outside_code) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_the_readme_has_the_two_commands_exactly() -> None:
    lines = [line.strip().removeprefix("$ ") for line in (ROOT / "README.md").read_text().splitlines()]
    for command in (INSTALL, TEST):
        assert any(command in (line, line.strip("`")) for line in lines) or f"`{command}`" in "\n".join(lines)


def test_the_continuous_integration_runs_the_readmes_test_command_and_no_other() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert [line for line in commands if re.search(r"\b(pip|pytest)\b", line)] == [TEST]
    assert commands[-1] == TEST

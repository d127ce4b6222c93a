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
ROOT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
FOUND = [found.name for found in pkgutil.walk_packages(ironrule.__path__, "ironrule.")]
IMPORTABLE = [name for name in FOUND if ".network.gpu." not in name or importlib.util.find_spec("torch")]  # an extra
MODULES = ["ironrule", *(name for name in IMPORTABLE if not name.endswith("__main__"))]  # importing that one runs it

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
ROW = re.compile(r"^\| (.+?) \|", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def links(page: Path) -> list[str]:
    outside_code = BLOCK.sub("", page.read_text())
    return [target for target in LINK.findall(outside_code) if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings have on GitHub."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


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
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=failures.append)
    assert "".join(failures) == ""


@every_page
def test_a_relative_link_leads_to_a_file(page: Path) -> None:
    targets = [target.partition("#")[0] for target in links(page)]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@every_page
def test_a_link_to_a_heading_leads_to_one(page: Path) -> None:
    broken = []
    for target in links(page):
        name, _, fragment = target.partition("#")
        if fragment and fragment not in anchors(page.parent / name if name else page):
            broken.append(target)
    assert broken == []


def test_every_figure_of_the_comparison_stands_in_the_results() -> None:
    figure = re.compile(r"\d+(?:[.,]\d+)+")
    shown = figure.findall((ROOT / "docs" / "comparison.md").read_text())
    measured = figure.findall((ROOT / "benchmarks" / "RESULTS.md").read_text())
    assert len(shown) > 40
    assert set(shown) <= set(measured)


def test_the_glossary_has_every_word_once_and_the_engines_words_in_order() -> None:
    _, *sections = (ROOT / "docs" / "glossary.md").read_text().split("\n## ")
    entries = [[entry for entry in ROW.findall(section) if entry != "word"] for section in sections]
    words = [word for section in entries for entry in section for word in entry.split(", ")]
    assert len(sections) > 5
    assert sorted(words) == sorted(set(words))
    for section in entries[1:]:  # the words for users come first, one after the other as they are needed
        assert section == sorted(section)


def test_the_readme_has_the_two_commands_exactly() -> None:
    lines = [line.strip().removeprefix("$ ") for line in (ROOT / "README.md").read_text().splitlines()]
    for command in (INSTALL, TEST):
        assert any(command in (line, line.strip("`")) for line in lines) or f"`{command}`" in "\n".join(lines)


def test_the_continuous_integration_runs_the_readmes_test_command_and_no_other() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert [line for line in commands if re.search(r"\b(pip|pytest)\b", line)] == [TEST]
    assert commands[-1] == TEST

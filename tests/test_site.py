"""The documentation site: it builds without a warning and without the network, and has every public name once."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ironrule

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
NO_NETWORK = """
import socket, sys

def refuse(*arguments, **keywords):
    raise AssertionError(f"the site asked for {arguments}")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(sys.argv[1:])
"""

needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings_handlers") is None,
    reason="the extra docs is not installed",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", NO_NETWORK, "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def read(site: Path, page: str) -> str:
    return (site / page / "index.html").read_text(encoding="utf-8")


@needs_mkdocs
def test_the_site_describes_every_public_name_with_its_docstring(site: Path) -> None:
    found = {
        name
        for file in (site / "reference").rglob("*.html")
        for name in list_described(file.read_text(encoding="utf-8"))
    }
    assert set(ironrule.__all__) <= found
    page = read(site, "reference/explainer")
    assert "Explains single decisions of a classifier by rules." in page
    assert 'href="../spaces/#ironrule.SqlQuery"' in page  # a link from a docstring


def list_described(page: str) -> list[str]:
    """The names of the root that a page has a heading for."""
    return re.findall(r'<h2 id="ironrule\.(\w+)"', page)


@needs_mkdocs
def test_pages_from_outside_the_documents_are_on_the_site_and_links_to_them_lead_there(site: Path) -> None:
    assert "Nothing false is called proven" in read(site, "security_policy")
    assert 'href="../security_policy/"' in read(site, "security")
    assert 'href="../benchmarks/#scale"' in read(site, "batches")
    assert 'href="../server/#what-an-attacker-can-do"' in read(site, "changelog")
    assert 'href="../files/LICENSE"' in read(site, "licences")
    assert (site / "files" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@needs_mkdocs
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    loaded = r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]* href="(?:https?:)?//'
    assert len(pages) > 30
    assert [page.name for page in pages if re.search(loaded, page.read_text(encoding="utf-8"))] == []


def test_the_reference_names_every_public_name_once() -> None:
    texts = [page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md"))]
    named = [name for text in texts for name in re.findall(r"^::: ironrule\.(\w+)$", text, re.MULTILINE)]
    assert sorted(named) == sorted(ironrule.__all__)


@needs_mkdocs
def test_links_are_resolved_in_the_repository_and_written_for_the_site() -> None:
    from tools.site_pages import replace_links, rewrite_link

    assert rewrite_link("docs/security.md", "../SECURITY.md#how-to-report-a-vulnerability") == (
        "security_policy.md#how-to-report-a-vulnerability"
    )
    assert rewrite_link("docs/tutorials/first_rule.md", "../../README.md") == "../index.md"
    assert rewrite_link("docs/reference/index.md", "../cli.md#explain") == "../cli.md#explain"
    assert rewrite_link("benchmarks/RESULTS.md", "../docs/evaluation.md") == "evaluation.md"
    assert rewrite_link("benchmarks/paper/README.md", "../../pyproject.toml") == "files/pyproject.toml"
    for target in ("https://example.org/README.md", "#terms", "no_such_page.md"):
        assert rewrite_link("docs/security.md", target) == target
    markdown = "[a\nb](b) ![c](d)\n```python\n[e](f)\n```\n[g](h)\n"
    assert replace_links(markdown, str.upper) == "[a\nb](B) ![c](D)\n```python\n[e](f)\n```\n[g](H)\n"


@needs_mkdocs
def test_headings_have_the_fragments_of_the_repositorys_view() -> None:
    from tools.site_pages import slugify

    assert slugify("greedy_cf, genetic_cf: 100 x 6!", "-") == "greedy_cf-genetic_cf-100-x-6"


@needs_mkdocs
def test_examples_in_docstrings_become_blocks_and_references_become_links() -> None:
    from tools.site_docstrings import write_markdown

    docstring = (
        "Like :class:`~ironrule.rule.rule.Rule` in :mod:`ironrule.rule`.\n\nSo:\n>>> 1 + 1  # doctest: +SKIP\n2\n\nEnd."
    )
    text = "Like [`Rule`][ironrule.Rule] in `ironrule.rule`."
    assert write_markdown(docstring) == f"{text}\n\nSo:\n\n```pycon\n>>> 1 + 1\n2\n```\n\nEnd."

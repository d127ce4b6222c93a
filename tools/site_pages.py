"""A hook of mkdocs: pages that stand outside ``docs`` are part of the site, and links to them lead there.

In the repository, pages link to each other by where their files are, so that the links work wherever Markdown is shown.
The site has other places for pages outside ``docs``. So each link is resolved in the repository, and written again for
the site; other files that are linked are copied. Headings get the fragments that they have in the repository.
Notebooks are pages by then (``tools/notebook_pages.py``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs/"
COPIED = "files/"  # the folder of the site with files that are no pages
# Pages outside docs, and what they are called on the site:
INCLUDED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security_policy.md",
    "benchmarks/README.md": "running_benchmarks.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "benchmarks/paper/README.md": "paper_experiments.md",
}
REPLACED = {"README.md": "index.md"}  # pages that the site has in other words
SOURCES = {on_site: source for source, on_site in INCLUDED.items()}
NOTEBOOKS = "docs/notebooks/"

FENCE = re.compile(r"^ *(```+|~~~+)")
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)([^)]*\))")
OTHER_LINK = re.compile(r"[a-z][a-z+.-]*:|[#/]", re.IGNORECASE)  # an address, a heading of the same page, a root


def slugify(heading: str, separator: str) -> str:
    """The fragment of a heading, as in the repository's view."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def find_source(on_site: str) -> str:
    """Where a page of the site is in the repository."""
    source = SOURCES.get(on_site, DOCS + on_site)
    return replace_ending(source, ".ipynb") if source.startswith(NOTEBOOKS) and is_notebook(source) else source


def is_notebook(source: str) -> bool:
    """Whether a page, by its name as Markdown, is a notebook in the repository."""
    return (ROOT / replace_ending(source, ".ipynb")).is_file()


def replace_ending(path: str, ending: str) -> str:
    """The path of a file with another ending."""
    return posixpath.splitext(path)[0] + ending


def find_place(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path.startswith(NOTEBOOKS):
        path = replace_ending(path, ".md")
    known = INCLUDED | REPLACED
    return known.get(path) or (path.removeprefix(DOCS) if path.startswith(DOCS) else COPIED + path)


def resolve_link(source: str, target: str) -> str | None:
    """The file of the repository that a link on a page leads to; None where it leads to none."""
    if OTHER_LINK.match(target):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target.partition("#")[0]))
    return path if (ROOT / path).is_file() else None


def rewrite_link(source: str, target: str) -> str:
    """A link on a page of the repository, as the site needs it."""
    path = resolve_link(source, target)
    if path is None:
        return target  # mkdocs says if it leads nowhere
    _, mark, fragment = target.partition("#")
    folder = posixpath.dirname(find_place(source)) or "."
    return posixpath.relpath(find_place(path), folder) + mark + fragment


def split_fences(markdown: str) -> Iterator[tuple[bool, str]]:
    """The parts of a page, one after the other, and whether each is a block of code."""
    fence = ""
    parts: list[tuple[bool, str]] = []
    for line in markdown.splitlines(keepends=True):
        found = FENCE.match(line)
        parts.append((bool(fence or found), line))
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line.strip(" `~\n"):
            fence = ""
    for is_code, lines in groupby(parts, key=itemgetter(0)):
        yield is_code, "".join(line for _, line in lines)


def list_links(markdown: str) -> list[str]:
    """Where the links of a page lead, but for those in blocks of code."""
    return [match[2] for is_code, part in split_fences(markdown) if not is_code for match in LINK.finditer(part)]


def replace_links(markdown: str, replace: Callable[[str], str]) -> str:
    """A page with its links replaced, but for those in blocks of code."""

    def replace_match(match: re.Match[str]) -> str:
        return match[1] + replace(match[2]) + match[3]

    return "".join(part if is_code else LINK.sub(replace_match, part) for is_code, part in split_fences(markdown))


def list_copied(sources: Iterable[str]) -> list[str]:
    """The files outside ``docs``, no pages, that some pages link to."""
    texts = {source: (ROOT / source).read_text(encoding="utf-8") for source in sources}
    found = {resolve_link(source, target) for source, text in texts.items() for target in list_links(text)}
    return sorted(path for path in found if path is not None and find_place(path).startswith(COPIED))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings get the fragments that they have in the repository's view."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside ``docs``, and the files that pages link to."""
    for source, on_site in INCLUDED.items():
        files.append(File.generated(config, on_site, abs_src_path=str(ROOT / source)))
    for path in list_copied(find_source(file.src_uri) for file in files.documentation_pages()):
        files.append(File.generated(config, find_place(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Write the links of a page for the site."""
    source = find_source(page.file.src_uri)
    return replace_links(markdown, lambda target: rewrite_link(source, target))

"""An extension of griffe, which reads the package for the site's reference: docstrings as Markdown.

Examples become blocks of code; references such as ``:class:`Rule``` become links to public names, or else plain code.
Nothing is imported or run; the tests run the examples.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from griffe import Extension, Object

STUB = Path(__file__).parents[1] / "src" / "ironrule" / "__init__.pyi"
PUBLIC = frozenset(re.findall(r" as (\w+)", STUB.read_text(encoding="utf-8")))
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
OPTION = re.compile(r"\s+# doctest: .*$", re.MULTILINE)
PROMPT = ">>> "


def write_markdown(docstring: str) -> str:
    """A docstring as Markdown. An example ends with the paragraph that it is in."""
    paragraphs = ROLE.sub(write_reference, docstring).split("\n\n")
    return "\n\n".join(fence_example(one) for one in paragraphs)


def write_reference(role: re.Match[str]) -> str:
    """What a reference in a docstring names: a link, if that has a heading in the reference."""
    name = role[1].rpartition(".")[2]
    return f"[`{name}`][ironrule.{name}]" if name in PUBLIC else f"`{role[1]}`"


def fence_example(paragraph: str) -> str:
    """A paragraph, as a block of code from its first prompt on."""
    lines = paragraph.splitlines()
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith(PROMPT)), None)
    if start is None:
        return paragraph
    example = OPTION.sub("", "\n".join(lines[start:]))
    return "\n".join([*lines[:start], *([""] if start else []), "```pycon", example, "```"])


class MarkdownDocstrings(Extension):
    """Rewrites the docstring of everything that is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = write_markdown(obj.docstring.value)

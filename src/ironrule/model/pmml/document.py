"""A PMML file as a tree of elements, each with the line that it begins on.

The file may come from anybody, so expat is used with care: a document type declaration is refused, and with it all
entities (those that expand without end, those that name other files); size, depth and the number of elements are
limited. Nothing in a file is ever run or fetched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

from ironrule.errors import InputError, describe_value

MAX_BYTES = 256 * 2**20
MAX_ELEMENTS = 4_000_000
MAX_DEPTH = 400
VERSIONS = ("4.0", "4.1", "4.2", "4.3", "4.4")


@dataclass(slots=True, eq=False)
class Element:
    """An element without its namespace; extensions are left out."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text directly inside."""
        return "".join(self.texts).strip()

    def find(self, tag: str) -> Element | None:
        """The first child with this tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def find_all(self, *tags: str) -> Iterator[Element]:
        """The children with one of these tags."""
        return (child for child in self.children if child.tag in tags)

    def get(self, name: str, default: str | None = None) -> str | None:
        """An attribute."""
        return self.attributes.get(name, default)

    def require(self, name: str) -> str:
        """An attribute that must be there."""
        if name not in self.attributes:
            self.refuse(f"lacks its attribute {name!r}")
        return self.attributes[name]

    def get_number(self, name: str, default: float | None = None) -> float:
        """An attribute that is a finite number; it must be there unless there is a default."""
        if default is not None and name not in self.attributes:
            return default
        return self.parse_number(self.require(name), name)

    def parse_number(self, text: str, what: str) -> float:
        """A finite number."""
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.refuse(f"has {what} {describe_value(text)}, which is no finite number")
        return number

    def require_only(self, *tags: str) -> None:
        """Refuse the first child whose tag is none of these."""
        for child in self.children:
            if child.tag not in tags:
                child.refuse(f"inside {self.tag} is not understood")

    def require_value(self, name: str, default: str, *known: str) -> str:
        """An attribute that must have one of some values."""
        value = self.attributes.get(name, default)
        if value not in (default, *known):
            self.refuse(f"has {name}={describe_value(value)}, which is not understood")
        return value

    def refuse(self, why: str) -> NoReturn:
        """Raise InputError about this element, with its name and line."""
        raise InputError(f"the PMML element {self.tag} in line {self.line} {why}", code="pmml-not-understood")


IGNORED = frozenset(("Extension", "Header", "ModelStats", "ModelExplanation", "ModelVerification", "Annotation"))


class _Builder:
    """Makes elements of what expat reports."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.open: list[Element] = []
        self.count = self.skipped = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.add_text
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag, line = name.rpartition(" ")[2], self.parser.CurrentLineNumber
        self.count += 1
        if self.count > MAX_ELEMENTS or len(self.open) + self.skipped >= MAX_DEPTH:
            what = f"more than {MAX_ELEMENTS:,} elements" if self.count > MAX_ELEMENTS else "too many levels"
            raise InputError(f"the PMML file has {what}", hint="a smaller model is read")
        if self.skipped or tag in IGNORED:
            self.skipped += 1
            return
        element = Element(tag, {key.rpartition(" ")[2]: value for key, value in attributes.items()}, line)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, name: str) -> None:  # noqa: ARG002  # expat passes it
        if self.skipped:
            self.skipped -= 1
        else:
            self.open.pop()

    def add_text(self, text: str) -> None:
        if self.open and not self.skipped:
            self.open[-1].texts.append(text)

    def refuse_doctype(self, *_: Any) -> None:
        raise InputError(
            "the PMML file has a document type declaration (DOCTYPE)",
            hint="remove it: entities are not expanded, and no other file is read",
        )


def require_file_size(size: int) -> None:
    """Raise InputError if a file is too large."""
    if size > MAX_BYTES:
        raise InputError(expected=f"a PMML file must have at most {MAX_BYTES:,} bytes", got=f"{size:,}")


def parse_document(source: bytes) -> Element:
    """The element PMML of a file; raises InputError for anything else."""
    require_file_size(len(source))
    builder = _Builder()
    try:
        builder.parser.Parse(source, True)
    except expat.ExpatError as error:
        raise InputError(f"this is not an XML file that can be read: {error}") from None
    root = builder.root
    if root is None or root.tag != "PMML":
        got = "no element" if root is None else f"the element {describe_value(root.tag)}"
        raise InputError(expected="the file must hold the element PMML", got=got)
    version = root.get("version", "")
    if not any(version == known or str(version).startswith(f"{known}.") for known in VERSIONS):
        raise InputError(
            expected=f"the version of PMML must be one of {', '.join(VERSIONS)}", got=describe_value(version)
        )
    return root

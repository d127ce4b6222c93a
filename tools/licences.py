"""python -m tools.licences: write docs/licences.md, the licences of the direct dependencies.

What they require in turn is in the bill of materials, see ``tools.sbom``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from tools.dependencies import CORE, ROOT, find_closure, list_extras, list_requirements, read_licence, read_project

PATH = ROOT / "docs" / "licences.md"
DEVELOPMENT = ("benchmarks", "docs", "notebooks", "release", "test")  # extras of those who work on the package itself
HEAD = """\
# Licences

Ironrule is under the [Apache License 2.0](../LICENSE). It contains no code of its dependencies; `pip` installs them
beside it. These are the direct dependencies of the core and of the extras that users install, with the licence that the
named version states. `python -m tools.licences` writes this page; `python -m tools.sbom` also lists what they require
in turn ([how](security.md#supply)).

| package | needed by | version | licence |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class LicenceRow:
    """A direct dependency: who needs it, and the licence that this version states."""

    name: str
    needed_by: tuple[str, ...]
    version: str
    licence: str


def list_users(project: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """The direct dependencies, and for each the core or the extras that need it."""
    users: dict[str, list[str]] = {}
    for extra in [CORE, *(name for name in list_extras(project) if name not in (*DEVELOPMENT, "all"))]:
        core = extra == CORE
        for requirement in list_requirements(project, () if core else [extra], core=core):
            users.setdefault(canonicalize_name(requirement.name), []).append(extra)
    return {name: tuple(users[name]) for name in sorted(users)}


def list_licences() -> list[LicenceRow]:
    """A row per direct dependency, as installed here."""
    project = read_project()
    users = list_users(project)
    closure = find_closure(list_requirements(project, {extra for by in users.values() for extra in by} - {CORE}))
    packages = [(closure[name], by) for name, by in users.items()]
    return [LicenceRow(one.name, by, one.version, read_licence(one.distribution)) for one, by in packages]


def write_licences() -> str:
    """The page's text."""
    rows = [f"| {row.name} | {', '.join(row.needed_by)} | {row.version} | {row.licence} |\n" for row in list_licences()]
    return HEAD + "".join(rows)


def read_licences(text: str) -> list[LicenceRow]:
    """The rows of such a page."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [LicenceRow(name, tuple(by.split(", ")), version, licence) for name, by, version, licence in lines[1:]]


if __name__ == "__main__":
    PATH.write_text(write_licences())
    print(f"{len(read_licences(PATH.read_text()))} packages in {PATH.relative_to(ROOT)}")

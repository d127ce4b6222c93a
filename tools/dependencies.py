"""What is installed with the package: its requirements, all that those require, and under which licences.

The requirements are read from ``pyproject.toml``, everything else from the metadata of the installed packages, so
nothing is downloaded.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CORE = "core"
CLASSIFIER = "License :: OSI Approved :: "
MAX_NAME = 200  # characters; a longer text is no name
# Names of licences that are not SPDX identifiers and mean exactly one of them:
SPDX_NAMES = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "MIT License (MIT)": "MIT",
    "The MIT License (MIT)": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def read_project(root: Path = ROOT) -> dict[str, Any]:
    """The table ``project`` of ``pyproject.toml``."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return project


def list_extras(project: dict[str, Any]) -> list[str]:
    """The names of the extras."""
    return list(project["optional-dependencies"])


def list_requirements(project: dict[str, Any], extras: Iterable[str] = (), core: bool = True) -> list[Requirement]:
    """The requirements of the core and of some extras, with those of the extras that they name."""
    lines = list(project["dependencies"]) if core else []
    waiting, seen = list(extras), set()
    while waiting:
        extra = waiting.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        known = project["optional-dependencies"]
        if extra not in known:
            raise SystemExit(f"the extra must be one of {', '.join(sorted(known))}, got {extra!r}")
        for line in known[extra]:
            requirement = Requirement(line)
            if requirement.name == project["name"]:
                waiting.extend(sorted(requirement.extras))
            else:
                lines.append(line)
    return [Requirement(line) for line in dict.fromkeys(lines)]


@dataclass(slots=True)
class Installed:
    """An installed package of the closure, and what it requires there."""

    distribution: metadata.Distribution
    extras: set[str] = field(default_factory=set)
    requires: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The package's name, in its normal form."""
        return canonicalize_name(self.distribution.metadata["Name"])

    @property
    def version(self) -> str:
        """The version, without the tag of a local build such as ``+cpu``."""
        return self.distribution.version.partition("+")[0]


def find_closure(requirements: Iterable[Requirement]) -> dict[str, Installed]:
    """The requirements and all that they require here, as installed, by name."""
    closure: dict[str, Installed] = {}
    waiting: list[tuple[Requirement, str | None]]
    waiting = [(requirement, None) for requirement in requirements if _applies(requirement, ())]
    while waiting:
        requirement, parent = waiting.pop()
        name = canonicalize_name(requirement.name)
        known = name in closure
        package = closure.setdefault(name, Installed(_find_distribution(name)))
        if parent is not None:
            closure[parent].requires.add(name)
        new = requirement.extras - package.extras
        package.extras |= new
        for line in package.distribution.requires or ():
            needed = Requirement(line)
            if (not known and _applies(needed, ())) or (new and _applies(needed, new)):
                waiting.append((needed, name))
    return dict(sorted(closure.items()))


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether a requirement holds on this machine, with one of the extras or without any."""
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras or ("",))


def _find_distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise SystemExit(f"{name} must be installed to be listed; install the extra that needs it") from None


def read_licence(distribution: metadata.Distribution) -> str:
    """The licence that a package states: as an SPDX expression where that is clear, else in its own words.

    Newer packages state an expression. Older ones have a field in free text, which often holds the whole licence, or
    classifiers, or no more than a file.
    """
    about = distribution.metadata
    classifiers = [line.removeprefix(CLASSIFIER) for line in about.get_all("Classifier", []) if CLASSIFIER in line]
    fields = [*about.get_all("License-Expression", []), *about.get_all("License", [])]
    stated: list[str | None] = [*fields, *classifiers, _read_licence_title(distribution)]
    names = [name.strip() for name in stated if name and "\n" not in name.strip() and len(name) <= MAX_NAME]
    expressions = [expression for expression in map(parse_licence, names) if expression]
    return (expressions + names + ["not stated"])[0]


def parse_licence(name: str) -> str | None:
    """The SPDX expression that a name is or means; None where it is not clear."""
    try:
        return canonicalize_license_expression(SPDX_NAMES.get(name, name))
    except InvalidLicenseExpression:
        return None


def _read_licence_title(distribution: metadata.Distribution) -> str | None:
    """The first line of a package's licence file."""
    for file in distribution.files or ():
        if re.match(r"LICEN[CS]E", file.name) and ".dist-info" in str(file):
            lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
            return next((line for line in lines if line), None)
    return None

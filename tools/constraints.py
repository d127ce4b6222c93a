"""python -m tools.constraints: write constraints.txt, the exact versions of everything that is installed here.

Run it where all tests have passed, with every extra installed: ``pip install '.[test,torch]' && pytest``.
"""

from __future__ import annotations

import sys

from packaging.requirements import Requirement

from tools.dependencies import ROOT, find_closure, list_extras, list_requirements, read_project

PATH = ROOT / "constraints.txt"
HEAD = """\
# Versions with which all tests have passed, on Linux with Python {version}. Written by python -m tools.constraints.
# pip install -c constraints.txt '.[test]'
"""


def write_constraints() -> str:
    """The file's text: one line per package of the core and of every extra."""
    project = read_project()
    closure = find_closure(list_requirements(project, list_extras(project)))
    head = HEAD.format(version=".".join(map(str, sys.version_info[:2])))
    return head + "".join(f"{package.name}=={package.version}\n" for package in closure.values())


def read_constraints(text: str) -> list[Requirement]:
    """The lines of such a file that are no comments."""
    return [Requirement(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


if __name__ == "__main__":
    PATH.write_text(write_constraints())
    print(f"{len(read_constraints(PATH.read_text()))} versions in {PATH.name}")

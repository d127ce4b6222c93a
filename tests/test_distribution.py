"""``python -m build``: what is in the wheel that users install, and in the archive of the sources."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tools.dependencies import read_project

ROOT = Path(__file__).parents[1]
PROJECT = read_project()
NAME = f"ironrule-{PROJECT['version']}"
MADE_BY_RUNNING = {".pyc", ".nbi", ".nbc"}  # files beside the sources that belong to nobody's checkout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both archives, built without the network."""
    made = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(made), str(ROOT)]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def wheel(folder: Path) -> set[str]:
    """The files in the wheel."""
    with zipfile.ZipFile(folder / f"{NAME}-py3-none-any.whl") as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def sdist(folder: Path) -> set[str]:
    """The files in the archive of the sources, without its folder."""
    with tarfile.open(folder / f"{NAME}.tar.gz") as archive:
        return {str(PurePosixPath(one.name).relative_to(NAME)) for one in archive.getmembers() if one.isfile()}


def list_sources(folder: Path) -> set[str]:
    """The files of a checkout below a folder, relative to the folder that it is in."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in MADE_BY_RUNNING)
    return {path.relative_to(folder.parent).as_posix() for path in files}


def test_the_wheel_has_the_package_whole_and_nothing_else(wheel: set[str]) -> None:
    about = {name for name in wheel if name.startswith(f"{NAME}.dist-info/")}
    assert wheel - about == list_sources(ROOT / "src" / "ironrule")


@pytest.mark.parametrize(
    "name",
    [
        "ironrule/py.typed",
        "ironrule/__init__.pyi",
        "ironrule/data/german.csv.gz",
        "ironrule/report/templates/person.html",
        "ironrule/server/templates/base.html",
        "ironrule/server/static/ironrule.css",
        f"{NAME}.dist-info/licenses/LICENSE",
        f"{NAME}.dist-info/entry_points.txt",
    ],
)
def test_the_wheel_has_what_is_no_module(wheel: set[str], name: str) -> None:
    assert name in wheel


def test_the_wheel_says_what_it_is(folder: Path) -> None:
    with zipfile.ZipFile(folder / f"{NAME}-py3-none-any.whl") as archive:
        lines = archive.read(f"{NAME}.dist-info/METADATA").decode().splitlines()
    assert {"License-Expression: Apache-2.0", "Requires-Python: >=3.11"} <= set(lines)
    core = [line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert sorted(core) == sorted(f"Requires-Dist: {line}" for line in PROJECT["dependencies"])


def test_the_sources_have_all_that_the_tests_need(sdist: set[str]) -> None:
    for name in ("tests", "docs", "benchmarks", "tools", "src"):
        assert {one for one in list_sources(ROOT / name) if one.endswith((".py", ".md", ".html"))} <= sdist
    files = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "pyproject.toml"}
    assert {*files, "constraints.txt", ".ci/run"} <= sdist


def test_the_sources_have_no_file_of_this_machine(sdist: set[str]) -> None:
    places = {PurePosixPath(name).parts[0] for name in sdist if "/" in name}
    assert places == {"src", "tests", "docs", "benchmarks", "tools", ".ci"}
    assert not [name for name in sdist if PurePosixPath(name).suffix in MADE_BY_RUNNING]
    assert not [name for name in sdist if name.endswith((".sqlite", ".key", ".log", "tokens.txt"))]

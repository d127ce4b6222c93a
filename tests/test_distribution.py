"""``python -m build``: what is in the wheel that users install, and in the archive of the sources.

The wheel carries machine code where this machine can compile it; then a first explanation compiles nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import hatch_build
from hatch_build import KernelBuildHook, is_for_baseline, is_wanted
from ironrule import kernel_cache
from tools.dependencies import read_project

ROOT = Path(__file__).parents[1]
PROJECT = read_project()
NAME = f"ironrule-{PROJECT['version']}"
MADE_BY_RUNNING = {".pyc", ".nbi", ".nbc", ".kernel"}  # files beside the sources that belong to nobody's checkout


def build(made: Path, *options: str, **environment: str) -> Path:
    """Build without the network, into a folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(made), str(ROOT)]
    own = os.environ | environment
    done = subprocess.run(command, cwd=made, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both archives."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel_file(folder: Path) -> Path:
    """The wheel."""
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> set[str]:
    """The files in the wheel."""
    with zipfile.ZipFile(wheel_file) as archive:
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


def test_the_wheel_has_the_package_whole_and_machine_code(wheel: set[str]) -> None:
    about = {name for name in wheel if name.startswith(f"{NAME}.dist-info/")}
    code = {name for name in wheel if name.startswith("ironrule/machine_code/")}
    assert wheel - about - code == list_sources(ROOT / "src" / "ironrule")
    assert {PurePosixPath(name).suffix for name in code} == ({".kernel"} if is_wanted() else set())


def test_a_wheel_without_machine_code_fits_every_platform(tmp_path: Path, wheel: set[str]) -> None:
    build(tmp_path, "--wheel", IRONRULE_BUILD_KERNELS="0")
    with zipfile.ZipFile(tmp_path / f"{NAME}-py3-none-any.whl") as archive:
        assert set(archive.namelist()) == {name for name in wheel if not name.startswith("ironrule/machine_code/")}


def test_the_archives_can_be_published_as_they_are(folder: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, folder.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


@pytest.mark.skipif(not is_wanted() or not is_for_baseline(), reason="platforms of others have tags of another form")
def test_a_wheel_with_machine_code_is_for_this_python_and_platform(wheel_file: Path) -> None:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel_file.name == f"{NAME}-{python}-{python}-{platform}.whl"
    with zipfile.ZipFile(wheel_file) as archive:
        lines = archive.read(f"{NAME}.dist-info/WHEEL").decode().splitlines()
    assert {"Root-Is-Purelib: false", f"Tag: {python}-{python}-{platform}"} <= set(lines)


FIRST_SESSION = """
import sys
from numba.core import event

class CompiledNames(event.Listener):
    def on_start(self, event):
        print("compiled", event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass

event.register("numba:compile", CompiledNames())
from ironrule.kernel_cache import PRECOMPILED
print(PRECOMPILED)
from ironrule.cli import main
sys.exit(main(["demo"]))
"""


@pytest.mark.skipif(not is_wanted(), reason="IRONRULE_BUILD_KERNELS is 0")
def test_with_machine_code_the_demo_compiles_nothing(wheel_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_file) as archive:
        archive.extractall(tmp_path / "site")
    own = {"PYTHONPATH": str(tmp_path / "site"), "IRONRULE_CACHE_DIR": str(tmp_path / "cache")}
    environment = os.environ | own
    command = [sys.executable, "-c", FIRST_SESSION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site" / "ironrule" / "machine_code"))
    assert "Verdict: proven" in done.stdout
    assert "compiled" not in done.stdout
    assert not (tmp_path / "cache").exists()


class SilentApplication:
    """In the place of hatchling's."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_info(self, text: str) -> None:
        """Nobody reads it."""

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


@pytest.mark.parametrize(("version", "place"), [("standard", None), ("editable", "src/ironrule/machine_code")])
def test_an_editable_install_has_its_machine_code_in_the_checkout(
    version: str, place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "ironrule" / "machine_code").mkdir(parents=True)
    stale = tmp_path / "src" / "ironrule" / "machine_code" / "stale.kernel"
    stale.touch()

    def compile_one(folder: Path, _root: Path) -> subprocess.CompletedProcess[str]:
        (folder / "new.kernel").touch()
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setenv(hatch_build.SWITCH, "1")
    monkeypatch.setattr(hatch_build, "compile_into", compile_one)
    hook = KernelBuildHook(str(tmp_path), {}, None, None, "", "wheel", SilentApplication())  # type: ignore[arg-type]
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, data)
    assert [*data["force_include"].values()] == ([] if place else ["ironrule/machine_code"])
    assert sorted(path.name for path in stale.parent.iterdir()) == (["new.kernel"] if place else ["stale.kernel"])


def test_where_nothing_can_be_compiled_the_build_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "no compiler here")
    monkeypatch.setenv(hatch_build.SWITCH, "1")
    monkeypatch.setattr(hatch_build, "compile_into", lambda *_: failed)
    application = SilentApplication()
    hook = KernelBuildHook(str(tmp_path), {}, None, None, "", "wheel", application)  # type: ignore[arg-type]
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", data)
    assert application.warnings == ["no machine code is built: no compiler here"]
    assert data == {"force_include": {}}


@pytest.mark.parametrize(("switch", "baseline"), [("1", True), ("own", False)])
def test_the_processor_is_the_baseline_or_the_own_one(
    switch: str, baseline: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(hatch_build.SWITCH, switch)
    monkeypatch.setattr(hatch_build.platform, "machine", lambda: "x86_64")
    given: dict[str, str] = {}

    def note(*_: Any, env: dict[str, str], **__: Any) -> subprocess.CompletedProcess[str]:
        given.update(env)
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.setattr(hatch_build.subprocess, "run", note)
    hatch_build.compile_into(tmp_path, ROOT)
    assert given.get("NUMBA_CPU_NAME") == (kernel_cache.BASELINE[0] if baseline else None)


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


def test_the_wheel_says_what_it_is(wheel_file: Path) -> None:
    with zipfile.ZipFile(wheel_file) as archive:
        lines = archive.read(f"{NAME}.dist-info/METADATA").decode().splitlines()
    assert {"License-Expression: Apache-2.0", "Requires-Python: >=3.11"} <= set(lines)
    core = [line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert sorted(core) == sorted(f"Requires-Dist: {line}" for line in PROJECT["dependencies"])


def test_the_sources_have_all_that_the_tests_need(sdist: set[str]) -> None:
    for name in ("tests", "docs", "benchmarks", "tools", "src"):
        assert {one for one in list_sources(ROOT / name) if one.endswith((".py", ".md", ".html"))} <= sdist
    files = {
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        "pyproject.toml",
        "hatch_build.py",
    }
    settings = {
        "conda/recipe.yaml",
        "constraints.txt",
        "mkdocs.yml",
        "CITATION.cff",
        ".ci/run",
        ".pre-commit-config.yaml",
    }
    assert {*files, *settings, "tools/kernel_signatures.json"} <= sdist
    assert list_sources(ROOT / ".github") <= sdist


def test_the_sources_have_no_file_of_this_machine(sdist: set[str]) -> None:
    places = {PurePosixPath(name).parts[0] for name in sdist if "/" in name}
    assert places == {"src", "tests", "docs", "benchmarks", "tools", "conda", ".ci", ".github"}
    assert not [name for name in sdist if PurePosixPath(name).suffix in MADE_BY_RUNNING]
    assert not [name for name in sdist if name.endswith((".sqlite", ".key", ".log", "tokens.txt"))]

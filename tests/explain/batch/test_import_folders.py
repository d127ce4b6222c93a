"""Where workers look for modules: never in the folder of the data, always where this process found its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ironrule.explain.batch.import_folders import build_worker_command, build_worker_environment, list_import_folders

HOSTILE = ("random", "numpy", "pickle", "fractions", "pandas", "cloudpickle", "sitecustomize", "notinstalled")
BUILD = "from ironrule.explain.batch.import_folders import build_worker_command, build_worker_environment\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with data, and with files that leave a mark if they are executed."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write({name!r})\n")
    return folder


def run_in(folder: Path, *command: str, **variables: str) -> str:
    """What a command prints that runs in a folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("before", ["", "/nowhere"], ids=["empty", "with an empty entry"])
def test_a_worker_executes_nothing_of_the_current_folder(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", before + os.pathsep)  # an empty entry means the current folder
    command = build_worker_command("import random, numpy, pickle, fractions; print(random.__file__)")
    result = subprocess.run(
        command, cwd=hostile, env=build_worker_environment(), capture_output=True, text=True, check=True
    )
    assert Path(result.stdout.strip()).parent == Path(os.__file__).parent
    assert not (hostile.parent / "mark").exists()


def test_all_folders_of_this_process_are_handed_over_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/first", "lib", "/second", "/first"])
    folders = list_import_folders()
    assert folders[:3] == ["/first", str(tmp_path / "lib"), "/second"]
    assert str(tmp_path) not in folders
    monkeypatch.setattr(sys, "path", [str(tmp_path), "/first"])  # named by somebody
    assert list_import_folders()[:2] == [str(tmp_path), "/first"]


def test_a_worker_finds_modules_beside_a_script(tmp_path: Path, hostile: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "own_models.py").write_text("NAME = 'own'\n")
    (tmp_path / "scripts" / "main.py").write_text(
        BUILD + "import subprocess\n"
        "command = build_worker_command('import random, own_models; print(own_models.NAME)')\n"
        "print(subprocess.run(command, env=build_worker_environment(), capture_output=True, text=True).stdout)\n"
    )
    assert run_in(hostile, sys.executable, str(tmp_path / "scripts" / "main.py")) == "own"
    assert not (tmp_path / "mark").exists()


def test_a_session_that_imports_from_the_current_folder_hands_it_over_as_the_last_one(hostile: Path) -> None:
    for name in HOSTILE[:-1]:  # what this session imports itself is its own affair
        (hostile / f"{name}.py").unlink()
    (hostile / "beside.py").write_text("NAME = 'beside'\n")
    session = (
        BUILD + "import subprocess, pathlib\n"
        "{imported}\n"
        "pathlib.Path('fractions.py').write_text('raise SystemExit(3)')\n"
        "command = build_worker_command('import fractions, beside; print(beside.NAME)')\n"
        "print(subprocess.run(command, env=build_worker_environment(), capture_output=True, text=True).stdout)\n"
    )
    python = (sys.executable, "-c")
    assert run_in(hostile, *python, session.format(imported="import fractions, beside")) == "beside"
    (hostile / "fractions.py").unlink()
    assert run_in(hostile, *python, session.format(imported="import fractions")) == ""


def test_the_command_line_executes_nothing_of_the_current_folder(hostile: Path) -> None:
    python = (sys.executable, "-m", "ironrule")
    assert run_in(hostile, *python, "--version").startswith("ironrule")
    run_in(hostile, *python, "demo")
    assert not (hostile.parent / "mark").exists()

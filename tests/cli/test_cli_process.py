"""The command as a process of its own: entry points, pipes, encodings, and how little --help loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from loans import Files

ENVIRONMENT = {**os.environ, "COLUMNS": "100"}


def ironrule(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ironrule", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT | environment, check=False)


def test_help_names_every_command():
    result = ironrule("--help")
    assert result.returncode == 0
    for command in ("demo", "explain", "counterfactual", "inspect"):
        assert command in result.stdout


def test_the_version_is_told():
    assert ironrule("--version").stdout.startswith("ironrule 0.")


def test_no_command_is_bad_input():
    result = ironrule()
    assert result.returncode == 2
    assert "COMMAND" in result.stderr
    assert "explain a denied loan" in result.stderr  # the help, not one line that names it
    assert result.stdout == ""


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from ironrule.cli import main; main(['explain', '--help']); "
        "print([m for m in ('numpy', 'numba', 'pandas', 'sklearn', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert result.stderr.strip() == "[]"


def test_explain_runs_as_a_process(files: Files):
    result = ironrule("explain", *files.ask("--json"))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["format"] == 5
    assert result.stderr == ""


def test_a_reader_that_leaves_early_causes_no_traceback(files: Files):
    command = [sys.executable, "-m", "ironrule", "inspect", files.data]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_terminal_without_unicode_gets_plain_characters(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("straße\na\nü\n", encoding="utf-8")
    result = ironrule("inspect", str(data), "--json", PYTHONIOENCODING="ascii")
    assert json.loads(result.stdout)["features"]["straße"]["values"] == ["a", "ü"]
    assert ironrule("inspect", str(data), PYTHONIOENCODING="ascii").returncode == 0

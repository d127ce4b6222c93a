"""The house style, as far as programs can check it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ironrule"
MODULES = sorted(PACKAGE.rglob("*.py"))

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check src tests benchmarks", "mypy"])
def test_the_tools_have_nothing_to_say(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def find_undocumented(tree: ast.Module) -> list[str]:
    """The module, and its public classes and functions, that say nothing about themselves; overloads need not."""
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)
    ]
    silent = [node.name for node in public if not ast.get_docstring(node)]
    return silent if ast.get_docstring(tree) else ["the module itself", *silent]


@every_module
def test_everything_public_has_a_docstring(path: Path) -> None:
    assert find_undocumented(ast.parse(path.read_text())) == []


def test_a_missing_docstring_is_noticed() -> None:
    source = 'class A:\n    """Doc."""\nclass B: ...\ndef f(): ...\ndef _g(): ...\n@overload\ndef h(): ...\n'
    assert find_undocumented(ast.parse(source)) == ["the module itself", "B", "f"]

"""The house style, as far as programs can check it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ironrule"
MODULES = sorted(PACKAGE.rglob("*.py"))

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check src tests benchmarks tools", "mypy"])
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


MAX_POSITIONAL = 5
COMPILED = ("kernel", "kernel_helper", "stencil")


def list_callables(trees: Iterable[ast.Module]) -> dict[str, bool]:
    """Our own classes and functions by name, and whether calls of one may be long.

    Numba takes no keywords for compiled functions, nor for the NamedTuples of arrays that they get; and where a
    function takes any number of arguments, they have no names.
    """
    callables: dict[str, bool] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            exempt = any(ast.unparse(base) == "NamedTuple" for base in node.bases)
        elif isinstance(node, ast.FunctionDef):
            compiled = any(ast.unparse(decorator).split("(")[0] in COMPILED for decorator in node.decorator_list)
            exempt = compiled or node.args.vararg is not None
        else:
            continue
        callables[node.name] = callables.get(node.name, False) or exempt
    return callables


def list_foreign_names(tree: ast.Module) -> set[str]:
    """The names that a module imports from other libraries."""
    foreign = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            foreign |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("ironrule"):
            foreign |= {alias.asname or alias.name for alias in node.names}
    return foreign


def find_long_calls(tree: ast.Module, callables: Mapping[str, bool]) -> list[str]:
    """Calls of our own classes and functions with more positional arguments than anybody can review."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    own = {id(call): node.name for node in classes for call in ast.walk(node)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > MAX_POSITIONAL]
    calls = [call for call in calls if ast.unparse(call.func).split(".")[0] not in list_foreign_names(tree)]
    names = [ast.unparse(call.func).rpartition(".")[2] for call in calls]
    called = [own.get(id(call), name) if name == "cls" else name for call, name in zip(calls, names, strict=True)]
    return [
        f"line {call.lineno}: {name} with {len(call.args)}"
        for call, name in zip(calls, called, strict=True)
        if not callables.get(name, True)
    ]


@pytest.fixture(scope="module")
def callables() -> dict[str, bool]:
    return list_callables(ast.parse(path.read_text()) for path in MODULES)


@pytest.mark.parametrize(
    "path",
    MODULES,
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_calls_with_more_than_five_arguments_name_them(path: Path, callables: dict[str, bool]) -> None:
    assert find_long_calls(ast.parse(path.read_text()), callables) == []


def test_a_long_call_is_noticed() -> None:
    source = (
        "from sqlalchemy import Table\nTable(1, 2, 3, 4, 5, 6)\nclass Table: ...\n"
        "@kernel\ndef fast(*a): ...\nclass Row(NamedTuple): ...\n"
        "class Box:\n    @classmethod\n    def make(cls):\n        cls(1, 2, 3, 4, 5, 6)\n"
        "Box(1, 2, 3, 4, 5)\nBox(1, 2, 3, 4, 5, d=6)\nbox.Box(1, 2, 3, *many, 5, 6)\n"
        "fast(1, 2, 3, 4, 5, 6)\nRow(1, 2, 3, 4, 5, 6)\nmax(1, 2, 3, 4, 5, 6)\n"
    )
    tree = ast.parse(source)
    assert find_long_calls(tree, list_callables([tree])) == ["line 13: Box with 6", "line 10: Box with 6"]

"""Which engine gave an answer: its version and a digest of the source that decides, without comments and docstrings.

Answers of another engine are not mixed with those of this one, and a change of words alone changes nothing.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import ironrule

DECIDING = ("space", "hitting", "rule", "model", "verdict", "oracles", "backends", "search", "results", "explain")


@cache
def engine() -> str:
    """The engine at hand."""
    home = Path(str(ironrule.__file__)).parent
    sources = [path for layer in DECIDING for path in sorted((home / layer).rglob("*.py"))]
    whole = hashlib.sha256()
    for path in sources:
        whole.update(f"{path.relative_to(home).as_posix()}\n{code(path.read_text(encoding='utf-8'))}\n".encode())
    return f"{ironrule.__version__} {whole.hexdigest()[:12]}"


def code(source: str) -> str:
    """What a source does: its syntax without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None

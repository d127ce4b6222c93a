"""The layers: each may import only what stands above it. Read from the source, so that nothing can hide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ironrule"
LAYERS = ("errors", "space", "rule", "model", "verdict", "oracles", "search", "explain", "report", "cli")
BESIDE = (
    "checker",
    "shared_reading",
)  # the checker, and what lends it a reading: see tests/checker/test_checker_alone.py
SAME_LEVEL = {"progress": "errors", "counting": "errors", "data": "errors", "server": "cli", "__main__": "cli"}
DISPLAY = ("explain", "report")  # a display method may call what draws it
EXTRAS = {"duckdb", "matplotlib", "onnx", "onnxruntime", "pandas", "polars", "pyarrow", "ray", "skops", "torch", "yaml"}
DATABASE = "sqlalchemy"  # an extra, but for the server, which cannot be had without
SERVER = {"fastapi", "jinja2", "psycopg", "pydantic", "starlette", "uvicorn"}  # of the server alone
MODULES = sorted(PACKAGE.rglob("*.py"))


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: the full module path, and whether it is imported when the module is."""

    target: str
    at_import: bool


def imports_of(path: Path) -> list[Import]:
    return list(_imports(ast.parse(path.read_text()), path, at_import=True))


def _imports(node: ast.AST, path: Path, at_import: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_import) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (Import(f"{_base(child, path)}.{alias.name}", at_import) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(child, path, at_import=False)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (Import(one.target, False) for one in _imports(child, path, at_import=False))
        else:
            yield from _imports(child, path, at_import)


def _base(node: ast.ImportFrom, path: Path) -> str:
    """The module that names are imported from, relative imports resolved."""
    if node.level == 0:
        return node.module or ""
    package = ("ironrule", *path.relative_to(PACKAGE).parent.parts)
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def layer_of(parts: tuple[str, ...]) -> str:
    """The layer that a path inside the package belongs to."""
    name = parts[0].removesuffix(".py") if parts else ""
    return SAME_LEVEL.get(name, name)


def breaches(path: Path, found: list[Import]) -> list[str]:
    """What a module imports although it stands above it."""
    own = layer_of(path.relative_to(PACKAGE).parts)
    wrong = []
    for one in found:
        parts = tuple(one.target.split("."))
        if parts[0] != "ironrule" or len(parts) < 2 or layer_of(parts[1:]) not in LAYERS:
            continue
        other = layer_of(parts[1:])
        if LAYERS.index(other) > LAYERS.index(own) and (one.at_import or (own, other) != DISPLAY):
            wrong.append(f"{path.relative_to(PACKAGE)} imports {one.target}")
    return wrong


def test_the_source_is_found() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in MODULES} >= set(LAYERS[1:-1])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_belongs_to_a_layer_and_imports_only_what_stands_above_it(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return  # the public face names what all layers offer, and imports it when it is first used
    own = layer_of(path.relative_to(PACKAGE).parts)
    if own not in BESIDE:
        assert own in LAYERS
        assert breaches(path, imports_of(path)) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_checker_is_imported_by_the_command_line_and_the_server_alone(path: Path) -> None:
    own = layer_of(path.relative_to(PACKAGE).parts)
    uses = [one.target for one in imports_of(path) if one.target.startswith("ironrule.checker")]
    assert not uses or own in (*BESIDE, "cli", "__init__")


def test_the_public_face_imports_nothing_but_errors_when_it_is_imported() -> None:
    own = [one.target for one in imports_of(PACKAGE / "__init__.py") if one.at_import]
    assert all(target.startswith("ironrule.errors.") for target in own if target.startswith("ironrule"))


def test_the_rule_about_layers_can_be_broken() -> None:
    inside = PACKAGE / "rule" / "box.py"
    assert breaches(inside, [Import("ironrule.search.solve", True)])
    assert breaches(inside, [Import("ironrule.search.solve", False)])
    assert breaches(inside, [Import("ironrule.space.Space", True), Import("ironrule.rule.rule", True)]) == []
    face = PACKAGE / "explain" / "explanation.py"
    assert breaches(face, [Import("ironrule.report.text", True)])
    assert breaches(face, [Import("ironrule.report.text", False)]) == []
    assert breaches(face, [Import("ironrule.cli", False)])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_numba_is_imported_by_kernels_alone_and_extras_only_when_they_are_used(path: Path) -> None:
    found = imports_of(path)
    if not path.name.endswith("_kernels.py"):
        assert not any(one.target.split(".")[0] == "numba" for one in found)
    extras = EXTRAS - {"torch"} if path.name.endswith("_torch.py") else EXTRAS
    extras = extras if path.relative_to(PACKAGE).parts[0] == "server" else extras | {DATABASE}
    assert not [one.target for one in found if one.at_import and one.target.split(".")[0] in extras]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_the_server_needs_is_imported_by_the_server_alone(path: Path) -> None:
    found = imports_of(path)
    inside = path.relative_to(PACKAGE).parts[0] == "server"
    assert inside or not [one.target for one in found if one.target.split(".")[0] in SERVER]
    assert inside or not [one.target for one in found if one.at_import and one.target.startswith("ironrule.server")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_is_written_for_torch_is_imported_when_it_is_used_or_by_its_like(path: Path) -> None:
    written = {module.stem for module in MODULES if module.name.endswith("_torch.py")}
    for_torch = [one for one in imports_of(path) if written & set(one.target.split("."))]
    assert written
    assert path.stem in written or not any(one.at_import for one in for_torch)


def test_what_is_called_a_kernel_is_compiled() -> None:
    kernels = [path for path in MODULES if path.name.endswith("_kernels.py")]
    assert kernels
    for path in kernels:
        assert any(one.target.startswith("numba.") or "_kernels." in one.target for one in imports_of(path))


def test_no_search_imports_a_concrete_oracle_except_for_the_independent_check() -> None:
    concrete = ("Exhaustive", "GeCo", "Layered", "Sampling")
    for path in (PACKAGE / "search").glob("*.py"):
        if path.name != "solve.py":
            assert not [one.target for one in imports_of(path) if one.target.endswith(concrete)]

"""The layers: each may import only what stands below it. Read from the source, so that nothing can hide."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.house import ImportGraph, count_folder_files, find_repeated_classes, read_import_graph

PACKAGE = Path(__file__).parents[1] / "src" / "ironrule"
MODULES = sorted(PACKAGE.rglob("*.py"))
LAYERS = (  # from the lowest to the highest; what stands on one line may import one another
    (
        *("errors", "other_packages", "clock", "interrupts", "progress", "kernel_cache", "kernel_pipeline", "jit"),
        *("arrays", "wording", "data"),
    ),
    ("space",),
    ("hitting",),
    ("rule",),
    ("model",),
    ("verdict",),
    ("oracles",),
    ("backends",),
    ("search",),
    ("results",),
    ("report",),
    ("explain",),
    ("integrations",),
    ("server",),
    ("cli", "__main__"),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
BESIDE = ("checker", "shared_reading")  # see tests/checker/test_checker_independence.py
DISPLAY = ("results/display.py", "report")  # calls what renders a result, when it is displayed
EXTRAS = {
    "duckdb",
    "matplotlib",
    "mlflow",
    "onnx",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "ray",
    "skops",
    "torch",
    "yaml",
}
DATABASE = "sqlalchemy"  # an extra, except in the server, which does not run without it
# Used by the server only:
SERVER = {"cachetools", "fastapi", "psycopg", "pydantic", "python_multipart", "starlette", "uvicorn"}
GPU = PACKAGE / "backends" / "network" / "gpu"
MAX_FOLDER_FILES = 20
MAX_CHAIN = 22

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: the full module path, and whether it is imported when the module is."""

    target: str
    at_import: bool

    @property
    def root(self) -> str:
        """The package that it belongs to."""
        return self.target.split(".")[0]


def list_imports(path: Path) -> list[Import]:
    return list(_walk_imports(ast.parse(path.read_text()), path, at_import=True))


def _walk_imports(node: ast.AST, path: Path, at_import: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_import) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (Import(f"{_resolve(child, path)}.{alias.name}", at_import) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _walk_imports(child, path, at_import=False)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (Import(one.target, False) for one in _walk_imports(child, path, at_import=False))
        else:
            yield from _walk_imports(child, path, at_import)


def _resolve(node: ast.ImportFrom, path: Path) -> str:
    """The module that names are imported from, relative imports resolved."""
    if node.level == 0:
        return node.module or ""
    package = ("ironrule", *path.relative_to(PACKAGE).parent.parts)
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def get_layer(path: Path) -> str:
    """The layer that a module belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def find_breaches(path: Path, found: list[Import]) -> list[str]:
    """What a module imports although it stands above it."""
    own, place = get_layer(path), str(path.relative_to(PACKAGE))
    wrong = []
    for one in found:
        parts = one.target.split(".")
        if parts[0] != "ironrule" or len(parts) < 2 or parts[1] not in LEVELS or LEVELS[parts[1]] <= LEVELS[own]:
            continue
        if one.at_import or (place, parts[1]) != DISPLAY:
            wrong.append(f"{place} imports {one.target}")
    return wrong


def test_the_source_is_found() -> None:
    assert {get_layer(path) for path in MODULES} == {"__init__", *LEVELS, *BESIDE}


@every_module
def test_a_module_belongs_to_a_layer_and_imports_only_what_stands_below_it(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return  # it names what all layers offer, and imports it when it is first used
    own = get_layer(path)
    if own not in BESIDE:
        assert own in LEVELS
        assert find_breaches(path, list_imports(path)) == []


def test_the_exemption_is_needed() -> None:
    place, layer = DISPLAY
    assert any(one.target.startswith(f"ironrule.{layer}.") for one in list_imports(PACKAGE / place))


def test_the_rule_about_layers_can_be_broken() -> None:
    inside = PACKAGE / "rule" / "box.py"
    assert find_breaches(inside, [Import("ironrule.search.driver", True)])
    assert find_breaches(inside, [Import("ironrule.search.driver", False)])
    assert find_breaches(inside, [Import("ironrule.space.space.Space", True), Import("ironrule.rule.rule", True)]) == []
    assert find_breaches(PACKAGE / "jit.py", [Import("ironrule.arrays", True)]) == []
    assert find_breaches(PACKAGE / "server" / "app.py", [Import("ironrule.cli.main", False)])
    result, display = PACKAGE / "results" / "explanation.py", PACKAGE / "results" / "display.py"
    assert find_breaches(result, [Import("ironrule.report.text", True)])
    assert find_breaches(result, [Import("ironrule.report.text", False)])
    assert find_breaches(result, [Import("ironrule.explain.explainer.Explainer", False)])
    assert find_breaches(display, [Import("ironrule.report.text", True)])
    assert find_breaches(display, [Import("ironrule.report.text", False)]) == []
    assert find_breaches(display, [Import("ironrule.explain.explainer.Explainer", False)])
    assert find_breaches(PACKAGE / "report" / "text.py", [Import("ironrule.explain.explainer.Explainer", False)])


@every_module
def test_the_checker_is_imported_by_the_root_the_command_line_and_the_server_alone(path: Path) -> None:
    uses = [one.target for one in list_imports(path) if one.target.startswith("ironrule.checker")]
    assert not uses or get_layer(path) in (*BESIDE, "cli", "server", "__init__")


def test_the_root_imports_nothing_but_errors_when_it_is_imported() -> None:
    own = [one.target for one in list_imports(PACKAGE / "__init__.py") if one.at_import]
    assert all(target.startswith("ironrule.errors.") for target in own if target.startswith("ironrule"))


def load_modules(name: str) -> set[str]:
    """All modules that are loaded when this one is imported."""
    code = f"import sys, {name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert name in loaded
    return loaded


def test_importing_the_explainer_loads_neither_numba_nor_torch() -> None:
    assert load_modules("ironrule.explain.explainer") & {"numba", "torch", "ironrule.jit"} == set()


def test_importing_the_explainer_loads_no_oracle_and_no_reader_that_few_models_need() -> None:
    needless = ("ironrule.oracles.heuristics.dice", "ironrule.oracles.latent", "ironrule.model.pmml", "onnx", "xgboost")
    assert not [name for name in load_modules("ironrule.explain.explainer") if name.startswith(needless)]


def test_jinja2_is_loaded_when_the_first_report_is_rendered() -> None:
    assert "jinja2" not in load_modules("ironrule.report.audiences")
    users = [path for path in MODULES if any(one.root == "jinja2" for one in list_imports(path))]
    assert {str(path.relative_to(PACKAGE)) for path in users} == {"report/templating.py", "server/responses.py"}


@every_module
def test_numba_is_imported_by_three_modules_and_extras_only_when_they_are_used(path: Path) -> None:
    found = list_imports(path)
    for_kernels = [PACKAGE / name for name in ("jit.py", "kernel_cache.py", "kernel_pipeline.py")]
    assert path in for_kernels or not any(one.root in ("numba", "llvmlite") for one in found)
    extras = EXTRAS - {"torch"} if GPU in path.parents else EXTRAS
    extras = extras if get_layer(path) == "server" else extras | {DATABASE}
    assert not [one.target for one in found if one.at_import and one.root in extras]


@every_module
def test_what_needs_torch_is_imported_at_first_use(path: Path) -> None:
    for_gpu = [one for one in list_imports(path) if one.target.startswith("ironrule.backends.network.gpu")]
    assert GPU in path.parents or not any(one.at_import for one in for_gpu)


def test_torch_is_imported_at_the_top_for_the_gpu() -> None:
    users = [path for path in MODULES if any(one.root == "torch" and one.at_import for one in list_imports(path))]
    assert users
    assert all(GPU in path.parents for path in users)


@every_module
def test_what_the_server_needs_is_imported_by_the_server_alone(path: Path) -> None:
    found = list_imports(path)
    inside = get_layer(path) == "server"
    assert inside or not [one.target for one in found if one.root in SERVER]
    assert inside or not [one.target for one in found if one.at_import and one.target.startswith("ironrule.server")]


def test_no_search_imports_a_concrete_oracle_except_for_the_independent_check() -> None:
    concrete = ("Exhaustive", "GeCo", "SearchThenProve", "Sampling")
    for path in (PACKAGE / "search").glob("*.py"):
        if path.name != "driver.py":
            assert not [one.target for one in list_imports(path) if one.target.endswith(concrete)]


def test_no_folder_has_many_files() -> None:
    counts = count_folder_files(PACKAGE)
    assert counts.total() == len(MODULES)
    assert {folder: count for folder, count in counts.items() if count > MAX_FOLDER_FILES} == {}


def test_no_public_class_name_is_used_twice() -> None:
    assert find_repeated_classes(PACKAGE) == {}


def test_there_is_no_import_cycle_and_no_chain_of_imports_is_long() -> None:
    chain = read_import_graph(PACKAGE).find_longest_chain()
    assert len(chain) <= MAX_CHAIN, " -> ".join(chain)


def test_an_import_cycle_is_noticed() -> None:
    graph = ImportGraph({name: Path(name) for name in "abc"})
    graph.at_top["a"], graph.at_top["b"] = {"b"}, {"c"}
    assert graph.find_longest_chain() == ["a", "b", "c"]
    graph.at_top["c"] = {"a"}
    with pytest.raises(ValueError, match="import cycle: a -> b -> c -> a"):
        graph.find_longest_chain()

"""The root of the package: its names, what importing it loads, its type information, its version."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from importlib.resources import files

import pytest

import ironrule

HEAVY = ("numba", "sklearn", "pandas", "polars", "pyarrow", "scipy")
CONTRACT = {"Explainer", "Explanation", "Space", "Rule", "Component", "Counterfactual", "Constraint"} | {
    "Proven", "Refuted", "Unrefuted", "Budget", "IronruleError"
}  # fmt: skip


@pytest.mark.parametrize("name", ironrule.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(ironrule, name) is not None
    assert getattr(ironrule, name).__name__ == name
    assert name in dir(ironrule)


def test_the_names_that_users_rely_on_are_public() -> None:
    assert set(ironrule.__all__) >= CONTRACT
    assert len(set(ironrule.__all__)) == len(ironrule.__all__)


def list_imports(file: str) -> dict[str, str]:
    """The module of every name that a file of the root imports from the package."""
    tree = ast.parse(files("ironrule").joinpath(file).read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    return {alias.name: node.module or "" for node in found for alias in node.names if node.module != "typing"}


def test_what_type_checkers_see_is_what_is_imported_on_demand_or_at_once_and_all_of_it_is_public() -> None:
    typed, at_once = list_imports("__init__.pyi"), list_imports("__init__.py")
    assert set(at_once.values()) == {"ironrule.errors"}
    assert not set(at_once) & set(ironrule._HOMES)
    assert typed == at_once | ironrule._HOMES
    assert set(ironrule.__all__) == set(typed)


def test_every_name_is_imported_from_the_module_that_defines_it() -> None:
    for name, home in ironrule._HOMES.items():
        assert getattr(ironrule, name).__module__ == home


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = ironrule.nonsense


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, ironrule; print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ironrule" in loaded
    assert loaded & set(HEAVY) == set()


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert files("ironrule").joinpath("py.typed").is_file()


def test_the_version_is_that_of_the_distribution() -> None:
    assert ironrule.__version__ == importlib.metadata.version("ironrule")

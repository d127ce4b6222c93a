"""The public face of the package: its names, its weight, its type information, its version."""

from __future__ import annotations

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

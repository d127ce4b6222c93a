"""The list of what is compiled when a wheel is built fits the kernels that there are."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import typeof
from tests.test_kernel_cache import list_kernels

from hatch_build import NEEDED
from ironrule.kernel_cache import KernelCache, KernelDigest
from ironrule.model.normal_form.cells import Cells
from tools.compile_kernels import list_called_kernels
from tools.kernel_signatures import (
    decode_type,
    encode_type,
    list_used_signatures,
    read_signatures,
    write_signatures,
)

SIGNATURES = read_signatures()
NUMBERS = np.zeros(3)
ADVICE = "run python -m tools.kernel_signatures"

ROOT = Path(__file__).parents[1]


def list_named_tuples(encoded: Any) -> Iterator[tuple[str, int]]:
    """The class of each named tuple within a type, and how many fields are listed."""
    if isinstance(encoded, list):
        if encoded[0] != "tuple":
            yield encoded[0], len(encoded) - 1
        for item in encoded[1:]:
            yield from list_named_tuples(item)


def test_kernels_that_any_other_calls_are_known_as_such() -> None:
    """Only these keep what others are compiled with, so that one which is missing could not be called."""
    kernels = {kernel.py_func: kernel for kernel in list_kernels()}
    names = {function: f"{function.__module__}.{function.__name__}" for function in kernels}
    reached = {
        names[function]
        for own, kernel in kernels.items()
        for function in KernelDigest(kernel).functions
        if function is not own and function in kernels
    }
    assert reached
    assert reached & SIGNATURES.keys() <= list_called_kernels(SIGNATURES)


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_entry_fits_a_kernel(name: str) -> None:
    module, _, function = name.rpartition(".")
    kernel = getattr(importlib.import_module(module), function, None)
    assert kernel is not None, ADVICE
    assert isinstance(kernel._cache, KernelCache)
    assert SIGNATURES[name]
    for way in SIGNATURES[name]:
        assert len(inspect.signature(kernel.py_func).parameters) == len(way), ADVICE
        for kind, count in list_named_tuples(["tuple", *way]):
            home, _, class_name = kind.partition(":")
            assert len(getattr(importlib.import_module(home), class_name)._fields) == count, ADVICE


@pytest.mark.parametrize(
    "value",
    [
        1,
        2.0,
        True,
        NUMBERS,
        NUMBERS.reshape(1, 3),
        NUMBERS[::2],
        NUMBERS > 0,
        np.uint64(1),
        np.zeros(3, dtype=np.uint8),
        (1, 2),
        (1, 2.0, NUMBERS),
        (1, (NUMBERS, NUMBERS)),
        Cells(*[np.zeros(2, dtype=np.int64)] * 6),
        (Cells(*[np.zeros(2, dtype=np.int64)] * 6), True),
    ],
    ids=repr,
)
def test_a_type_is_read_as_it_was_written(value: Any, tmp_path: Path) -> None:
    kind = typeof(value)
    write_signatures({"some.kernel": [[encode_type(kind), "int64"], ["float64"]], "other": []}, tmp_path / "file.json")
    (written, whole), (number,) = read_signatures(tmp_path / "file.json")["some.kernel"]
    assert decode_type(written) == kind
    assert decode_type(whole) == numba.int64
    assert decode_type(number) == numba.float64


def test_what_cannot_be_written_is_named() -> None:
    fixed = NUMBERS.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="cannot be written down"):
        encode_type(typeof(fixed))


def test_what_was_called_is_listed() -> None:
    from ironrule.hitting.reduce import flag_hitting_sets

    name = f"{flag_hitting_sets.__module__}.{flag_hitting_sets.__name__}"
    sets = np.array([[1], [2]], dtype=np.uint64)
    flag_hitting_sets(sets, sets)
    assert ["uint64[2C]", "uint64[2C]"] in list_used_signatures()[name]


def test_kernels_import_no_more_than_a_build_has() -> None:
    """The environment in which a wheel is built has what hatch_build.py names, and nothing else of the dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=~!\[]", line)[0].strip() for line in project["dependencies"]]
    absent = [{"scikit-learn": "sklearn"}.get(name, name) for name in names if name not in NEEDED]
    assert {"sklearn", "tqdm"} <= set(absent)
    code = f"""
import importlib, sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from tools.kernel_signatures import decode_type, read_signatures
for kernel, ways in read_signatures().items():
    importlib.import_module(kernel.rpartition(".")[0])
    [decode_type(kind) for way in ways for kind in way]
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

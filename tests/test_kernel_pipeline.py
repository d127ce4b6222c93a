"""Kernels that are compiled in another way compute the same, and count references right."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

import ironrule
from ironrule import jit, kernel_pipeline
from ironrule.jit import kernel, kernel_helper


class Pair(NamedTuple):
    """Two arrays, as kernels get them."""

    first: Any
    second: Any


@kernel_helper
def _choose(pair: Pair, use_first: bool) -> Any:
    return pair.first if use_first else pair.second


@kernel_helper
def _step_from(start: int) -> int:
    return start + 1


@kernel
def _return_part(pair: Pair, use_first: bool) -> Any:
    chosen = _choose(pair, use_first)
    return chosen[1:]


@kernel
def _return_argument(values: Any, times: int) -> Any:
    other = values
    for _ in range(times):
        other = values
    return other


@kernel
def _assign_argument(values: Any, others: Any, times: int) -> float:
    total = 0.0
    for _ in range(times):
        total += values[0]
        values, others = others, values
    return total + values[0]


@kernel
def _divide_after_loop(pair: Pair, count: int) -> float:
    while count > 0:
        pair.first[0] += _step_from(0) + _step_from(-1) + _step_from(count)
        count -= 1
    if pair.second[0] == 0:
        raise ValueError("nothing to divide by")
    return pair.first[0] / pair.second[0]


def count_references(values: Any) -> int:
    gc.collect()
    return sys.getrefcount(values)


@pytest.mark.parametrize("use_first", [True, False])
def test_what_is_returned_lives_as_long_as_it_is_used(use_first: bool) -> None:
    pair = Pair(np.arange(1_000.0), np.arange(1_000.0) + 5)
    before = [count_references(values) for values in pair]
    expected = (pair.first if use_first else pair.second)[1:].copy()
    parts = [_return_part(pair, use_first) for _ in range(50)]
    del pair
    spoilers = [np.full(1_000, -1.0) for _ in range(50)]  # would take memory that was given back too early
    assert all((part == expected).all() for part in parts)
    again = Pair(np.arange(1_000.0), np.arange(1_000.0) + 5)
    for _ in range(50):
        _return_part(again, use_first)
    assert [count_references(values) for values in again] == before
    assert len(spoilers) == 50


def test_an_argument_that_is_returned_is_the_same_array() -> None:
    values = np.arange(5.0)
    before = count_references(values)
    returned = _return_argument(values, 3)
    assert np.shares_memory(returned, values)
    del returned
    assert count_references(values) == before


def test_an_argument_may_be_assigned_again() -> None:
    values, others = np.array([1.0]), np.array([10.0])
    before = count_references(values), count_references(others)
    assert [_assign_argument(values, others, times) for times in range(4)] == [1.0, 11.0, 12.0, 22.0]
    assert (count_references(values), count_references(others)) == before


def test_loops_and_errors_are_as_ever() -> None:
    pair = Pair(np.array([0.0]), np.array([2.0]))
    assert _divide_after_loop(pair, 3) == (3 + 2 + 3 + 4) / 2
    with pytest.raises(ValueError, match="nothing to divide by"):
        _divide_after_loop(Pair(np.array([0.0]), np.array([0.0])), 0)


def test_constants_as_arguments_are_compiled_once() -> None:
    _divide_after_loop(Pair(np.array([0.0]), np.array([2.0])), 1)
    assert [str(kind) for kinds in list_signatures(_step_from) for kind in kinds] == ["int64"]


def list_signatures(function: Any) -> list[Any]:
    """For which types it was compiled in this process; those of Numba alone where the code came from the cache."""
    compiled = list(function.signatures)
    if not compiled:
        probe = njit(lambda count: function(count) + function(0) + function(-1))
        probe(3)
        compiled = list(function.signatures)
    return compiled


def test_this_version_of_numba_has_what_is_changed() -> None:
    """Where this fails, kernels are compiled as any function, which takes longer."""
    assert kernel_pipeline.is_supported()
    assert jit._KERNEL_OPTIONS["pipeline_class"] is kernel_pipeline.KernelCompiler
    assert jit._HELPER_OPTIONS["pipeline_class"] is kernel_pipeline.HelperCompiler


@pytest.mark.parametrize("broken", ["attribute", "import"])
def test_without_it_kernels_are_compiled_as_any_function(
    broken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IRONRULE_CACHE_DIR", str(tmp_path))
    if broken == "attribute":
        monkeypatch.setattr(kernel_pipeline, "dynamic_functions", None)
        assert not kernel_pipeline.is_supported()
    else:
        monkeypatch.setitem(sys.modules, "ironrule.kernel_pipeline", None)
        monkeypatch.delattr(ironrule, "kernel_pipeline")
    assert jit.find_pipelines() == ({}, {})
    monkeypatch.setattr(jit, "_KERNEL_OPTIONS", {})
    monkeypatch.setattr(jit, "_HELPER_OPTIONS", {})
    step = kernel_helper(lambda count: count + 1)
    assert kernel(lambda count: step(count) + step(0))(3) == 5

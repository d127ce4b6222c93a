"""What the compiled kernels share: how they are compiled, and three operations that Numba does not offer.

Kernels release the interpreter lock, so that plain Python threads run them side by side, and are cached on disk, so
that only the first use on a machine pays for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_njit: Any = njit  # whose published types lack two of its options

ZERO = np.uint64(0)
ONE = np.uint64(1)


def kernel(function: Function) -> Function:
    """Compile without bounds checks, without the interpreter lock and with IEEE division."""
    compiled: Any = _njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    return cast(Function, compiled)


def part(function: Function) -> Function:
    """Compile for other kernels only, which keep its code in their own caches: that saves compile time."""
    compiled: Any = _njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function)
    return cast(Function, compiled)


def _intrinsic(typing: Callable[..., Any]) -> Callable[..., Any]:
    return cast(Callable[..., Any], intrinsic(typing))


@_intrinsic
def popcount(_context: Any, _word: Any) -> Any:
    """The number of ones in a uint64: one instruction, and one that vectorises."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_intrinsic
def lowest(_context: Any, _word: Any) -> Any:
    """The position of the lowest one in a uint64 that is not zero."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


@_intrinsic
def add_if_outside(_context: Any, _byte: Any, code: Any, _low: Any, _span: Any, _bit: Any) -> Any:
    """`byte | bit` if the code lies outside [low, low + span], else `byte`.

    Written in LLVM because Numba widens all integers to 64 bits, and the vectoriser then handles an eighth of the rows
    per register.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, code, low, span, bit = arguments
        outside = builder.icmp_unsigned(">", builder.sub(code, low), span)
        return builder.or_(byte, builder.select(outside, bit, context.get_constant(types.uint8, 0)))

    return types.uint8(types.uint8, code, code, code, types.uint8), generate


def _pointer_to(item: Any) -> Callable[..., Any]:
    """A cast of an address to a typed pointer, so that one kernel reads columns that lie anywhere in memory."""
    make: Any = types.CPointer
    typed = make(item)

    def pointer(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return typed(types.int64), generate

    return _intrinsic(pointer)


pointer_to_uint8 = _pointer_to(types.uint8)
pointer_to_uint16 = _pointer_to(types.uint16)
pointer_to_uint32 = _pointer_to(types.uint32)


@kernel
def popcounts(words: Words) -> Integers:
    """The number of ones per row."""
    counts = np.zeros(words.shape[0], np.int64)
    for r in range(words.shape[0]):
        for w in range(words.shape[1]):
            counts[r] += int(popcount(words[r, w]))
    return counts

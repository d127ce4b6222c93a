"""How compiled code is compiled (Numba), and the operations on bits and addresses that Numba does not offer.

``@kernel`` is for functions that Python calls: they release the interpreter lock, so that plain threads run them side
by side, and are kept on disk (:mod:`ironrule.kernel_cache`), so that only the first use on a machine pays for the
compiler. ``@kernel_helper`` is
for functions that only kernels call: their code is kept in the kernels' own caches, which saves compile time. What else
saves it is in :mod:`ironrule.kernel_pipeline`.

Compiling a kernel, or loading it, stops the clock of searches (:mod:`ironrule.clock`), so that it is not charged to a
budget; where the compiler itself must run, that is announced once (:mod:`ironrule.progress`).

Importing this module loads Numba. Modules that ``import ironrule.explain`` loads import it, and every module that holds
kernels, at first use only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import event
from numba.extending import intrinsic

from ironrule.clock import WORK_CLOCK
from ironrule.kernel_cache import KernelCache, KernelDigest, is_supported
from ironrule.progress import announce_compiling

_Function = TypeVar("_Function", bound=Callable[..., Any])
_njit: Any = njit  # whose published types lack two of its options
ZERO = np.uint64(0)
ONE = np.uint64(1)
_unliteral: Any = types.unliteral


def find_pipelines() -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that make compiling kernels, and helpers, quick; none where this version of Numba has other parts."""
    try:
        from ironrule import kernel_pipeline
    except (ImportError, AttributeError):
        return {}, {}
    if not kernel_pipeline.is_supported():
        return {}, {}
    return {"pipeline_class": kernel_pipeline.KernelCompiler}, {"pipeline_class": kernel_pipeline.HelperCompiler}


_KERNEL_OPTIONS, _HELPER_OPTIONS = find_pipelines()


def kernel(function: _Function) -> _Function:
    """Compile without bounds checks, without the interpreter lock and with IEEE division."""
    compiled: Any = _njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **_KERNEL_OPTIONS)(function)
    _take_constants_as_variables(compiled)
    if is_supported(compiled):
        compiled._cache = KernelCache(compiled)
    else:
        _use_cache_of_numba(compiled)
    compile_or_load = compiled.compile

    def compile_off_the_clock(signature: Any) -> Any:
        with WORK_CLOCK.pause():
            return compile_or_load(signature)

    compiled.compile = compile_off_the_clock  # what Numba calls for argument types that are new
    return cast(_Function, compiled)


def kernel_helper(function: _Function) -> _Function:
    """Compile for other kernels only, which keep its code in their own caches: that saves compile time."""
    compiled: Any = _njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True, **_HELPER_OPTIONS)(
        function
    )
    _take_constants_as_variables(compiled)
    return cast(_Function, compiled)


def _take_constants_as_variables(compiled: Any) -> None:
    """Compile for the types of arguments alone: a helper that is called with 0, with -1 and with a variable once."""
    find_template = compiled.get_call_template

    def find_general_template(args: Any, kws: Any) -> Any:
        return find_template([_unliteral(kind) for kind in args], {name: _unliteral(kws[name]) for name in kws})

    compiled.get_call_template = find_general_template


def _use_cache_of_numba(compiled: Any) -> None:
    """Keep the code as this version of Numba does, under a name that changes with what the code depends on."""
    # Numba looks at the kernel's own module alone, and names its files after the function.
    function = compiled.py_func
    function.__qualname__ = f"{function.__qualname__}_{KernelDigest(compiled).hexdigest()[:16]}"
    compiled.enable_caching()


class _CompilingListener(event.Listener):
    """Hears of what the compiler works on, and not of what is loaded."""

    def on_start(self, event: Any) -> None:  # noqa: ARG002  # its name is Numba's
        """Announce it, if it is a kernel of ours and not another library's."""
        if WORK_CLOCK.is_paused:
            announce_compiling()

    def on_end(self, event: Any) -> None:
        """Nothing is left to say."""


_register_listener: Any = event.register
_register_listener("numba:compile", _CompilingListener())


def _declare_intrinsic(typing: Callable[..., Any]) -> Callable[..., Any]:
    return cast(Callable[..., Any], intrinsic(typing))


@_declare_intrinsic
def popcount(_context: Any, _word: Any) -> Any:
    """The number of ones in a uint64: one instruction, and one that vectorises."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_declare_intrinsic
def lowest_bit(_context: Any, _word: Any) -> Any:
    """The position of the lowest one in a uint64 that is not zero."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


@_declare_intrinsic
def set_bit_if_outside(_context: Any, _byte: Any, code: Any, _low: Any, _span: Any, _bit: Any) -> Any:
    """`byte | bit` if the code lies outside [low, low + span], else `byte`.

    Written in LLVM because Numba widens all integers to 64 bits, and the vectoriser then handles an eighth of the rows
    per register.
    """

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        # Below `low` the unsigned difference wraps to a large number, so one comparison tests both ends.
        byte, code, low, span, bit = arguments
        outside = builder.icmp_unsigned(">", builder.sub(code, low), span)
        return builder.or_(byte, builder.select(outside, bit, context.get_constant(types.uint8, 0)))

    return types.uint8(types.uint8, code, code, code, types.uint8), generate


def _build_pointer_cast(item: Any) -> Callable[..., Any]:
    """A cast of an address to a typed pointer, so that one kernel reads columns that lie anywhere in memory."""
    # Columns have different item types. As arrays, every combination of types would be compiled anew.
    make: Any = types.CPointer
    typed = make(item)

    def pointer(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return typed(types.int64), generate

    return _declare_intrinsic(pointer)


pointer_to_uint8 = _build_pointer_cast(types.uint8)
pointer_to_uint16 = _build_pointer_cast(types.uint16)
pointer_to_uint32 = _build_pointer_cast(types.uint32)

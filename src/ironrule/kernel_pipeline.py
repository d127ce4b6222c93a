"""How the compiler treats kernels differently from other functions, so that it takes half as long.

Kernels get their data as tuples of up to 40 arrays, and consist of many small helpers that hand these on. Two things
that Numba does by default cost most of its time on such code:

- *Arguments are copied.* Every function counts a reference to every array of every argument when it begins and when it
  ends, and keeps its arguments in memory, from where each use loads the whole tuple. But who calls holds its arguments
  until the call returns: here an argument that is never assigned again is borrowed, and stays the value that it is.
- *Helpers are optimised, and translated to machine code, one by one,* and again as a part of each helper that calls
  them, and of each kernel. Helpers never run alone: here their code is handed on, and optimised with the kernel.

Neither changes what a kernel computes. Both lean on Numba's inner parts: where a version has others, this module cannot
be imported, or :func:`is_supported` says so, and kernels are compiled as any function.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from numba import _dynfunc as dynamic_functions  # type: ignore[attr-defined]
from numba.core import codegen, compiler, compiler_machinery, ir, lowering, typed_passes

# Numba has no types of its own:
_register_pass: Any = compiler_machinery.register_pass
_Lower: Any = lowering.Lower
_NativeLowering: Any = typed_passes.NativeLowering
_CompilerBase: Any = compiler.CompilerBase
_JITCodeLibrary: Any = codegen.JITCodeLibrary
_PassBuilder: Any = compiler.DefaultPassBuilder
_PassManager: Any = compiler_machinery.PassManager


class BorrowingLower(_Lower):  # type: ignore[misc]
    """Translates a function whose arguments are borrowed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._borrowed: dict[str, Any] = {}  # by the name of the variable
        super().__init__(*args, **options)
        self._assignments = Counter(
            instruction.target.name for block in self.blocks.values() for instruction in block.find_insts(ir.Assign)
        )

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """An argument that is assigned to a variable of its type, once, is that variable from then on."""
        name, value = inst.target.name, inst.value
        if (
            isinstance(value, ir.Arg)
            and self._assignments[name] == 1
            and self.generator_info is None
            and self.typeof("arg." + value.name) == ty
        ):
            self._borrowed[name] = self.fnargs[value.index]
            return self._borrowed[name]
        return super().lower_assign(ty, inst)

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        """Nothing is stored of what is borrowed."""
        if name not in self._borrowed:
            super().storevar(value, name, argidx=argidx)

    def loadvar(self, name: str) -> Any:
        """Arguments are known from the first block on, which comes before all others."""
        return self._borrowed[name] if name in self._borrowed else super().loadvar(name)

    def delvar(self, name: str) -> None:
        """No reference was counted."""
        if name not in self._borrowed:
            super().delvar(name)

    def getvar(self, name: str) -> Any:
        """What is borrowed has no place in memory."""
        if name in self._borrowed:
            raise NotImplementedError(f"the place of {name} in memory")
        return super().getvar(name)


@_register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(_NativeLowering):  # type: ignore[misc]
    """Translates a kernel."""

    _name = "ironrule_kernel_lowering"

    @property
    def lowering_class(self) -> Any:
        """With borrowed arguments."""
        return BorrowingLower


@_register_pass(mutates_CFG=True, analysis_only=False)
class HelperLowering(KernelLowering):
    """Translates a helper, which is never run by itself: no machine code."""

    _name = "ironrule_helper_lowering"

    def run_pass(self, state: Any) -> bool:
        """Translate it, and let other functions call it."""
        state.flags.no_compile = True
        super().run_pass(state)
        lowered, described = state["cr"], state["cr"].fndesc
        # Callers find the code by this object, whose address is never called.
        entry = dynamic_functions.make_function(
            described.lookup_module(),
            described.qualname.rpartition(".")[-1],
            "a helper of kernels",
            0,
            lowered.env,
            (state.library,),
        )
        state.targetctx.insert_user_function(entry, described, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class HelperLibrary(_JITCodeLibrary):  # type: ignore[misc]
    """The code of a helper as it was translated, for those that link it."""

    def _optimize_final_module(self) -> None:
        """The kernel is optimised as a whole."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class KernelCompiler(_CompilerBase):  # type: ignore[misc]
    """Numba's passes, with another translation."""

    lowering: Any = KernelLowering

    def define_pipelines(self) -> list[Any]:
        """The default one, with one pass exchanged."""
        passes = _PassBuilder.define_nopython_pipeline(self.state)
        steps = [(self.lowering if step is _NativeLowering else step, text) for step, text in passes.passes]
        changed = _PassManager(passes.pipeline_name)
        changed.passes.extend(steps)
        changed.finalize()
        return [changed]


class HelperCompiler(KernelCompiler):
    """The same for helpers."""

    lowering = HelperLowering

    def compile_extra(self, func: Any) -> Any:
        """Compile into a library of another kind."""
        self.state.library = HelperLibrary(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


def is_supported() -> bool:
    """Whether this version of Numba has what is changed here, none of which it promises to keep."""
    steps = getattr(_PassBuilder, "define_nopython_pipeline", None)
    methods = {
        _Lower: ("lower_assign", "storevar", "loadvar", "delvar", "getvar", "typeof"),
        _NativeLowering: ("run_pass", "lowering_class"),
        _CompilerBase: ("define_pipelines", "compile_extra"),
        _JITCodeLibrary: (
            "_optimize_final_module",
            "_finalize_final_module",
            "_finalize_dynamic_globals",
            "_verify_declare_only_symbols",
            "enable_object_caching",
        ),
    }
    return (
        callable(steps)
        and all(hasattr(home, name) for home, names in methods.items() for name in names)
        and "no_compile" in compiler.Flags.options
        and callable(getattr(dynamic_functions, "make_function", None))
    )

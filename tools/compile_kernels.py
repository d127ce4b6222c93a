"""Compile all kernels for the baseline processor, into a folder that a wheel carries.

    python -m tools.compile_kernels FOLDER

``hatch_build.py`` runs this. What the user's cache has already is taken from there. Which types of arguments are
compiled is in ``kernel_signatures.json``; an entry that fits no kernel any more is left out, with a line that says so.
Kernels that others call keep what these are compiled with, since a user may call one of those with other types; of the
rest the machine code is enough.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core.errors import NumbaError

from ironrule.kernel_cache import KernelCache, KernelDigest, drop_bitcode, list_folders, read_file, write_file
from tools.kernel_signatures import Signatures, decode_type, read_signatures

ADVICE = "run python -m tools.kernel_signatures"


def compile_kernels(signatures: Signatures, folder: Path) -> Iterator[str]:
    """Compile these kernels for the processor that this process was told of, and keep them; say what cannot be."""
    # Those with many arrays take longest, so they begin.
    ordered = sorted(signatures.items(), key=lambda item: -len(repr(item)))
    called = list_called_kernels(signatures)
    are_whole = [name in called for name, _ in ordered]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(compile_kernel, *zip(*ordered, strict=True), are_whole, [folder] * len(ordered)):
            yield from said


def list_called_kernels(names: Iterable[str]) -> set[str]:
    """The kernels that other kernels call, of the modules that these are in."""
    kernels: dict[Any, Any] = {}
    for module in {name.rpartition(".")[0] for name in names}:
        with suppress(ImportError):  # what an entry names that fits no kernel is said when it is compiled
            found = [one for one in vars(importlib.import_module(module)).values() if hasattr(one, "py_func")]
            kernels |= {one.py_func: one for one in found if isinstance(getattr(one, "_cache", None), KernelCache)}
    called = {
        function
        for own, kernel in kernels.items()
        for function in KernelDigest(kernel).functions
        if function is not own and function in kernels
    }
    return {f"{function.__module__}.{function.__name__}" for function in called}


def compile_kernel(name: str, ways: list[Any], is_whole: bool, folder: Path) -> list[str]:
    """Compile one kernel for several types of arguments, and keep it in the folder; with its bitcode if it is to be
    whole.
    """
    module, _, function = name.rpartition(".")
    try:
        kernel = getattr(importlib.import_module(module), function)
        said = []
        for way in ways:
            kinds = tuple(decode_type(kind) for kind in way)
            kernel.compile(kinds)
            file = kernel._cache.build_file_name(kinds, kernel.targetctx)
            kept = None if file is None else read_file(file, list_folders())
            if file is None or kept is None:
                said.append(f"{name}: its machine code was not kept")
            else:
                write_file(file, kept if is_whole else drop_bitcode(kept), [folder])
    except (ImportError, AttributeError, TypeError, ValueError, NumbaError) as error:
        return [f"{name}: {str(error).splitlines()[0]}; {ADVICE}"]
    return said


def main() -> None:
    """Compile for the baseline processor."""
    (folder,) = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for line in compile_kernels(read_signatures(), folder):
        print(line)
    print(f"machine code: {len(list(folder.iterdir()))} files")


if __name__ == "__main__":
    main()

"""Compile all kernels for the baseline processor, into a folder that a wheel carries.

    python -m tools.compile_kernels FOLDER

``hatch_build.py`` runs this. What the user's cache has already is taken from there. Which types of arguments are
compiled is in ``kernel_signatures.json``; an entry that fits no kernel any more is left out, with a line that says so.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from numba.core.errors import NumbaError

from ironrule.kernel_cache import list_folders
from tools.kernel_signatures import Signatures, decode_type, read_signatures

ADVICE = "run python -m tools.kernel_signatures"


def compile_kernels(signatures: Signatures, folder: Path) -> Iterator[str]:
    """Compile these kernels for the processor that this process was told of, and copy them; say what cannot be."""
    # Those with many arrays take longest, so they begin.
    ordered = sorted(signatures.items(), key=lambda item: -len(repr(item)))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(compile_kernel, *zip(*ordered, strict=True), [folder] * len(ordered)):
            yield from said


def compile_kernel(name: str, ways: list[Any], folder: Path) -> list[str]:
    """Compile one kernel for several types of arguments, and copy its files."""
    module, _, function = name.rpartition(".")
    try:
        kernel = getattr(importlib.import_module(module), function)
        said = []
        for way in ways:
            kinds = tuple(decode_type(kind) for kind in way)
            kernel.compile(kinds)
            file = kernel._cache.build_file_name(kinds, kernel.targetctx)
            kept = [place / file for place in list_folders() if file is not None and (place / file).exists()]
            if kept:
                shutil.copy(kept[0], folder)
            else:
                said.append(f"{name}: its machine code was not kept")
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

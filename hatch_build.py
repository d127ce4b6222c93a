"""Builds wheels with machine code, so that no user waits for the compiler.

Kernels are compiled for a baseline processor where that is x86-64, else for the processor at hand, as with
``IRONRULE_BUILD_KERNELS=own``. The code is found by its content (``src/ironrule/kernel_cache.py``), which has the
processor and the versions of Python, Numba, llvmlite and NumPy in it; where anything differs, the user's machine
compiles as it does without. ``IRONRULE_BUILD_KERNELS=0`` builds a wheel of sources alone, for every platform, and so
does a machine that cannot compile. An editable install has its machine code in the checkout, until a kernel changes.
The archive of the sources has none.
"""

from __future__ import annotations

import ast
import atexit
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "ironrule/machine_code"
SWITCH = "IRONRULE_BUILD_KERNELS"
# What the modules with kernels import; with the versions that pyproject.toml asks for.
NEEDED = ("numpy", "numba", "narwhals", "threadpoolctl")


class KernelBuildHook(BuildHookInterface[Any]):
    """Adds machine code to wheels."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What compiling needs, in an environment that is made for building."""
        if not is_wanted():
            return []
        return [line for line in self.metadata.core.dependencies if line.startswith(NEEDED)]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the files put into the wheel."""
        if version not in ("standard", "editable") or not is_wanted():
            return
        folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        self.app.display_info("compiling the kernels, which takes about a minute")
        done = compile_into(folder, Path(self.root))
        if done.returncode or not any(folder.iterdir()):
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            self.app.display_warning(f"no machine code is built: {''.join(said)}")
            return
        for line in done.stdout.splitlines():
            self.app.display_info(line)
        if version == "editable":
            shutil.rmtree(Path(self.root) / "src" / FOLDER, ignore_errors=True)
            shutil.copytree(folder, Path(self.root) / "src" / FOLDER)
            return
        build_data["force_include"][str(folder)] = FOLDER
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def is_wanted() -> bool:
    """Whether machine code is built here."""
    return os.environ.get(SWITCH, "1") != "0"


def is_for_baseline() -> bool:
    """Whether it is for other processors too."""
    return os.environ.get(SWITCH, "1") != "own" and platform.machine().lower() in ("x86_64", "amd64")


def compile_into(folder: Path, root: Path) -> subprocess.CompletedProcess[str]:
    """Compile in another process, since Numba reads the name of the processor when it is loaded."""
    target: dict[str, str] = {}
    if is_for_baseline():
        target["NUMBA_CPU_NAME"], target["NUMBA_CPU_FEATURES"] = read_baseline(root)
    environment = os.environ | target
    environment |= {
        "NUMBA_DISABLE_INTEL_SVML": "1",  # a library that users may not have
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-m", "tools.compile_kernels", str(folder)]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def read_baseline(root: Path) -> tuple[str, str]:
    """The constant of kernel_cache.py, which cannot be imported here: that would load Numba."""
    tree = ast.parse((root / "src" / "ironrule" / "kernel_cache.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "BASELINE":
            processor, features = ast.literal_eval(node.value)
            return processor, features
    raise LookupError("kernel_cache.py has no BASELINE")

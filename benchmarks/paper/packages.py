"""Packages that live in environments of their own."""

from __future__ import annotations

import os
import subprocess
from functools import cache

from benchmarks.proof_worker import ONE_THREAD


@cache
def version(package: str, python: str) -> str:
    """A package's name and version in an environment; ends the program with a clear message if it is not there."""
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    said = subprocess.run([python, "-c", asked], capture_output=True, text=True, env=os.environ | ONE_THREAD)
    if said.returncode:
        raise SystemExit(f"{python} must have {package}, but: {said.stderr.strip().splitlines()[-1]}")
    return f"{package} {said.stdout.strip()}"

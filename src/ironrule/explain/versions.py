"""The libraries that explanations are made with, and their versions, which reports name."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

import ironrule

CORE_LIBRARIES = ("numpy", "numba", "scikit-learn")
OPTIONAL_LIBRARIES = ("xgboost", "lightgbm", "catboost", "interpret-core", "pygam", "onnxruntime", "torch")


@lru_cache(maxsize=1)
def _list_core_versions() -> tuple[tuple[str, str], ...]:
    own = (("ironrule", ironrule.__version__), ("Python", platform.python_version()))
    return (*own, *((name, version(name)) for name in CORE_LIBRARIES))


def list_library_versions() -> tuple[tuple[str, str], ...]:
    """The libraries that explanations are made with here, and their versions."""
    loaded = (name for name in OPTIONAL_LIBRARIES if name.removesuffix("-core") in sys.modules)
    return (*_list_core_versions(), *((name, found) for name in loaded if (found := find_version(name)) is not None))


def find_version(name: str) -> str | None:
    """The version of a distribution; None where there is none of that name."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None

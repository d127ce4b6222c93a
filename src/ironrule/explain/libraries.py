"""The libraries that explanations are made with, and their versions: a report tells them."""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

ALWAYS = ("numpy", "numba", "scikit-learn")
IF_LOADED = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "interpret": "interpret-core",
    "pygam": "pygam",
    "onnxruntime": "onnxruntime",
    "torch": "torch",
}


@lru_cache(maxsize=1)
def _always() -> tuple[tuple[str, str], ...]:
    import ironrule

    own = (("ironrule", ironrule.__version__), ("Python", platform.python_version()))
    return (*own, *((name, version(name)) for name in ALWAYS))


def libraries_at_work() -> tuple[tuple[str, str], ...]:
    """The libraries that explanations are made with here, and their versions."""
    loaded = (name for module, name in IF_LOADED.items() if module in sys.modules)
    return (*_always(), *((name, found) for name in loaded if (found := _version(name)) is not None))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # a module of that name that is no such distribution
        return None

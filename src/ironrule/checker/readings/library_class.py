"""Whether an object is exactly a class of a library, with that library's own methods.

A reading tells what the library's own code decides. A subclass, or an object whose ``predict`` was replaced, may decide
otherwise, so it has no reading.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from ironrule.checker.readings.normal_form import Unreadable

DECIDING = ("predict", "predict_proba", "decision_function", "predict_log_proba", "transform", "score_samples")
INNER = ("fn", "__wrapped__", "__func__", "fget")
DEPTH = 8  # wrappers to look through


def name_in(library: str, candidate: Any) -> str:
    """The class's name if it is exactly a class of the library, or an empty text; raises Unreadable if one of the
    methods that decide was replaced.

    >>> name_in("builtins", 3), name_in("numpy", 3)
    ('int', '')
    """
    kind = type(candidate)
    if kind.__module__.split(".")[0] != library or not _is_found_by_name(kind):
        return ""
    for method in DECIDING:
        if method in getattr(candidate, "__dict__", {}) or not _is_own(kind, method, library):
            raise Unreadable(
                f"the {method} of this {kind.__name__} was replaced, so its structure does not tell what it decides"
            )
    return kind.__name__


def _is_found_by_name(kind: type) -> bool:
    """Whether the module that a class names really has this very class."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def _is_own(kind: type, method: str, library: str) -> bool:
    """Whether a method, where there is one, was written by the library. A function is known by the module of its global
    names, which no wrapper can copy; descriptors and wrappers keep what they wrap under one of a few names.
    """
    found = inspect.getattr_static(kind, method, None)
    for _ in range(DEPTH):
        if found is None:
            return True
        written_in = getattr(found, "__globals__", {}).get("__name__")
        home = written_in or getattr(found, "__module__", None) or type(found).__module__
        if home.split(".")[0] not in ({library} if written_in else {library, "builtins", "functools"}):
            return False
        found = next((getattr(found, name) for name in INNER if hasattr(found, name)), None)
    return False

"""Checks of the numbers that counterfactual systems are set up with."""

from __future__ import annotations

import math
from typing import Any

from ironrule.errors import InputError, describe_value


def require_count(**values: Any) -> None:
    """Raise InputError for a value that is no positive integer."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(expected=f"{name} must be a positive integer", got=describe_value(value))


def require_positive(**values: Any) -> None:
    """Raise InputError for a value that is no positive number."""
    for name, value in values.items():
        if not _is_number(value) or not 0.0 < value < math.inf:
            raise InputError(expected=f"{name} must be a positive number", got=describe_value(value))


def require_not_negative(**values: Any) -> None:
    """Raise InputError for a value that is neither 0 nor a positive number."""
    for name, value in values.items():
        if not _is_number(value) or not 0.0 <= value < math.inf:
            raise InputError(expected=f"{name} must be 0 or a positive number", got=describe_value(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

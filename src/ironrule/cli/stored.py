"""Explanations that were written to files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ironrule.cli.existing import existing
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.explain import Explanation

T = TypeVar("T")
MAKE_ONE = "make one with: ironrule explain MODEL DATA --row N --output why.json"


def stored_explanation(path: Path) -> Explanation:
    """The explanation in a file."""
    from ironrule.explain import Explanation

    return read_as(Explanation.from_json, path)


def read_as(read: Callable[[str], T], path: Path) -> T:
    """What a reader makes of an explanation's file; raises InputError, which names the file, if it cannot be read."""
    existing(path, "explanation", f"check the path, or {MAKE_ONE}")
    try:
        return read(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path.name} as an explanation: {error}", hint=MAKE_ONE) from None
    except InputError as error:
        raise InputError(
            f"cannot read {path.name} as an explanation: {error.statement}",
            expected=error.expected,
            got=error.got,
            hint=MAKE_ONE,
            code=error.code,
        ) from None

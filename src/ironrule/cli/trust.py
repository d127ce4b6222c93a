"""What a .skops file may hold: how large it may become when it is unpacked, and which of its types are suggested.

A .skops file is a ZIP archive that names the types it is made of. Types that skops does not know must be trusted by
name, and whoever wrote the file chose these names: a line to copy that trusts them all would be as good as a pickle. So
a command line is offered for types of well-known libraries alone. Others are listed with a warning, and what can run
code by itself, such as functions of ``os``, is never suggested.

An archive may unpack to a thousand times its size. Its directory says to how much, and is read first.
"""

from __future__ import annotations

import os
import shlex
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ironrule.errors import InputError

KNOWN_LIBRARIES = frozenset(
    (
        "sklearn",
        "numpy",
        "scipy",
        "pandas",
        "xgboost",
        "lightgbm",
        "catboost",
        "interpret",
        "pygam",
        "ironrule",
        "collections",
    )
)
DANGEROUS_MODULES = frozenset(
    (
        *("builtins", "os", "posix", "nt", "sys", "subprocess", "shutil", "pathlib", "importlib", "runpy", "code"),
        *("pickle", "marshal", "shelve", "ctypes", "socket", "urllib", "http", "webbrowser", "pty", "signal", "pdb"),
        *("operator", "functools", "types", "inspect", "timeit", "tempfile", "multiprocessing", "threading", "asyncio"),
    )
)
# Of well-known libraries, what reads files or runs what it is given:
DANGEROUS_NAMES = (
    "eval",
    "exec",
    "load",
    "system",
    "popen",
    "f2py",
    "distutils",
    "ctypeslib",
    "testing",
    "read_pickle",
)
# What skops does not know, and only holds texts and types: it runs nothing when it is loaded or called.
HARMLESS_TYPES = ("sklearn.compose._column_transformer.make_column_selector",)
MAX_UNPACKED_VARIABLE = "IRONRULE_MAX_MODEL_MB"
MAX_UNPACKED_MB = 2_000
MAX_RATIO = 200  # unpacked to packed; trees and networks are at 2 to 20
FREE_MB = 50  # below it, no ratio is too high
MEGABYTE = 1_000_000


def build_trust_error(file: str, untrusted: Sequence[str]) -> InputError:
    """The error for types that are not trusted; its hint says how to trust those that are well known."""
    dangerous = [name for name in untrusted if _is_dangerous(name)]
    known = [name for name in untrusted if is_well_known_type(name)]
    other = [name for name in untrusted if name not in dangerous and name not in known]
    if dangerous:
        return InputError(
            f"{file} has types that can run any code when they are loaded: {', '.join(dangerous)}",
            hint="do not load it: no model needs these",
            code="dangerous-types",
        )
    if other:
        return InputError(
            f"{file} has types of no well-known library, which can run code when they are loaded: {', '.join(other)}",
            hint="load it only if you know who wrote it and what these types do; --trust takes their names",
            code="unknown-types",
        )
    return InputError(
        f"{file} has types that are not trusted: {', '.join(known)}",
        hint=f"if you trust them, add --trust {shlex.join(known)}",
        code="untrusted-types",
    )


def is_well_known_type(name: str) -> bool:
    """Whether a type belongs to a well-known library, and loading it runs no other code."""
    return not _is_dangerous(name) and name.split(".")[0] in KNOWN_LIBRARIES


def _is_dangerous(name: str) -> bool:
    """Whether loading such a type can run code by itself; a name that is no dotted path is never a type."""
    first, *rest = name.split(".")
    is_path = all(part.isidentifier() for part in (first, *rest))
    return not is_path or first in DANGEROUS_MODULES or any(part in DANGEROUS_NAMES for part in rest)


def check_unpacked_size(path: Path) -> None:
    """Raise InputError if an archive would unpack to too much, by what its own directory says."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, NotImplementedError, UnicodeDecodeError) as error:
        statement = f"cannot load the model in {path.name}: it is no .skops file: {error}"
        raise InputError(statement, hint="save the model again") from None
    most, packed = _read_limit() * MEGABYTE, max(path.stat().st_size, 1)
    if size > most or (size > FREE_MB * MEGABYTE and size > MAX_RATIO * packed):
        raise InputError(
            expected=f"a model file must unpack to at most {most // MEGABYTE:,} MB, and to at most {MAX_RATIO} times "
            "its size",
            got=f"{size // MEGABYTE:,} MB from {packed / MEGABYTE:.1f} MB in {path.name}",
            hint=f"set {MAX_UNPACKED_VARIABLE} to more megabytes if you trust the file",
            code="model-too-large",
        )


def _read_limit() -> int:
    text = os.environ.get(MAX_UNPACKED_VARIABLE, "")
    if text and not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
        raise InputError(expected=f"{MAX_UNPACKED_VARIABLE} must be a number of megabytes", got=repr(text[:40]))
    return int(text) if text else MAX_UNPACKED_MB

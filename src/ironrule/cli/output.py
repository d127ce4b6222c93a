"""The result of a command, and how it reaches the user: on standard output, and in a file where one was asked for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ironrule.cli.terminal import escape_output
from ironrule.errors import CONTROL_CHARACTERS, InputError


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One result in its forms: ``view`` for people, ``data`` for programs, ``text`` for the file ``output``, which may
    also be bytes; and the exit code. Data is built only when it is needed: certificates can be long.
    """

    view: str
    data: Callable[[], dict[str, Any]]
    output: Path | None = None
    text: str | bytes = ""
    code: int = 0


def write_result(result: CommandResult, as_json: bool) -> None:
    """Print the result, then write its file: what was found is shown even if the disk is full."""
    _write_stdout(_format_json(result.data(), sys.stdout.encoding) if as_json else f"{result.view}\n")
    if result.output is not None:
        content = result.text
        result.output.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def format_json_file(data: dict[str, Any]) -> str:
    """The text of a JSON file."""
    return _escape_json(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"


def check_output_path(options: argparse.Namespace, endings: tuple[str, ...]) -> Path | None:
    """The path of the file to write; raises InputError, before any work, if it cannot be written."""
    output: Path | None = options.output
    if output is None:
        return None
    if output.suffix.lower() not in endings:
        raise InputError(expected=f"the output file must end in {' or '.join(endings)}", got=repr(output.name))
    if not output.parent.is_dir():
        raise InputError(
            f"the folder of the output file does not exist: {str(output.parent)!r}", hint="create it first"
        )
    if output.is_dir():
        raise InputError(
            expected="the output must be a file", got=f"the folder {str(output)!r}", hint="name a file in it"
        )
    if output.exists() and not options.overwrite:
        raise InputError(
            f"the output file already exists: {str(output)!r}",
            hint="add --overwrite to replace it",
            code="output-exists",
        )
    return output


def _format_json(data: dict[str, Any], encoding: str | None) -> str:
    unicode = (encoding or "").lower().replace("-", "") == "utf8"
    return _escape_json(json.dumps(data, indent=2, ensure_ascii=not unicode)) + "\n"


def _escape_json(text: str) -> str:
    """The same JSON with the escapes of JSON for control characters that JSON itself lets stand in strings."""
    return CONTROL_CHARACTERS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def _write_stdout(text: str) -> None:
    """Write to standard output; a character that its encoding lacks becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(escape_output(text).encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()

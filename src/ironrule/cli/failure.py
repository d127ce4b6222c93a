"""What the command line says when something goes wrong: one clear message on standard error, and an exit code."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironrule.cli.hints import hint_for
from ironrule.errors import IronruleError, ModelError, text_with_hint

UNEXPECTED, BAD_INPUT, MODEL_FAILED, INTERRUPTED = 1, 2, 3, 130
DEBUG = "IRONRULE_DEBUG"


class Interrupted(KeyboardInterrupt):
    """An interrupt that says what is done, and how to get the rest."""

    def __init__(self, statement: str, hint: str) -> None:
        super().__init__(statement)
        self.statement, self.hint = statement, hint


def with_exit_code(command: Callable[[], int], as_json: bool) -> int:
    """Run a command for its exit code; whatever it raises becomes a message and an exit code, never a traceback."""
    try:
        with reader_may_leave():
            return command()
    except SystemExit as end:  # argparse ends so after --help and --version
        return end.code if isinstance(end.code, int) else UNEXPECTED if end.code else 0
    except KeyboardInterrupt as stop:
        _print_error("Interrupted", _interrupted(stop), as_json)
        return INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        code, shown = _judge(error)
        _print_error(type(error).__name__, shown, as_json)
        return code
    return 0


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print without complaint to a reader, such as head, that has seen enough."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted(stop: KeyboardInterrupt) -> IronruleError:
    if isinstance(stop, Interrupted):
        return IronruleError(stop.statement, hint=stop.hint, code="interrupted")
    return IronruleError("interrupted", code="interrupted")


def _judge(error: Exception) -> tuple[int, IronruleError]:
    """The exit code of an error, and the error to show."""
    if isinstance(error, IronruleError):
        return (MODEL_FAILED if isinstance(error, ModelError) else BAD_INPUT), error
    kind = type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        statement = f"cannot use {str(error.filename)!r}: {error.strerror or kind}"
        return BAD_INPUT, IronruleError(statement, hint="check the path and its permissions", code="file")
    hint = f"set {DEBUG}=1 to see the traceback"
    return UNEXPECTED, IronruleError(f"unexpected {kind}: {error}", hint=hint, code="unexpected")


@contextlib.contextmanager
def warnings_as_lines(as_json: bool) -> Iterator[None]:
    """Show each warning as one line on standard error, without file names and source code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        _print("warning", {"type": category.__name__, "message": str(message)}, as_json)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _print_error(kind: str, error: IronruleError, as_json: bool) -> None:
    hint = hint_for(error)
    fields = {
        "type": kind,
        "code": error.code,
        "message": text_with_hint(error, hint),
        "expected": error.expected,
        "got": error.got,
        "hint": hint,
    }
    _print("error", fields, as_json)


def _print(what: str, fields: Mapping[str, str | None], as_json: bool) -> None:
    with contextlib.suppress(BrokenPipeError):  # the reader is gone
        print(json.dumps({what: fields}) if as_json else f"{what}: {fields['message']}", file=sys.stderr)

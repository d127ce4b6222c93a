"""What the command line says when something goes wrong: one clear message on standard error, and an exit code."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ironrule.cli.spoken import spoken
from ironrule.errors import IronruleError, ModelError

UNEXPECTED, BAD_INPUT, MODEL_FAILED, INTERRUPTED = 1, 2, 3, 130
DEBUG = "IRONRULE_DEBUG"


def with_exit_code(command: Callable[[], int], as_json: bool) -> int:
    """Run a command for its exit code; whatever it raises becomes a message and an exit code, never a traceback."""
    try:
        with reader_may_leave():
            return command()
    except SystemExit as end:  # argparse ends so after --help and --version
        return end.code if isinstance(end.code, int) else UNEXPECTED if end.code else 0
    except KeyboardInterrupt as stop:  # one with a message says how to go on
        _say("error", "Interrupted", str(stop) or "interrupted", as_json)
        return INTERRUPTED
    except Exception as error:
        return _report(error, as_json)
    return 0


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print without complaint to a reader, such as head, that has seen enough."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception, as_json: bool) -> int:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    code, message = _judge(error)
    _say("error", type(error).__name__, message, as_json)
    return code


def _judge(error: Exception) -> tuple[int, str]:
    if isinstance(error, IronruleError):
        return (MODEL_FAILED if isinstance(error, ModelError) else BAD_INPUT), spoken(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        why = error.strerror or type(error).__name__
        what = f"the file {str(error.filename)!r} must be one that can be used"
        return BAD_INPUT, f"{what}, but: {why}; check the path and its permissions"
    return UNEXPECTED, f"unexpected {type(error).__name__}: {error} (set {DEBUG}=1 to see where it happened)"


@contextlib.contextmanager
def warnings_as_lines(as_json: bool) -> Iterator[None]:
    """Show each warning as one line on standard error, without file names and source code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        _say("warning", category.__name__, spoken(str(message)), as_json)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _say(what: str, kind: str, message: str, as_json: bool) -> None:
    data = {what: {"type": kind, "message": message}}
    with contextlib.suppress(BrokenPipeError):  # nobody is left to tell
        print(json.dumps(data) if as_json else f"{what}: {message}", file=sys.stderr)

"""Errors on the command line: one clear message on standard error, and an exit code.

The hints of the library are for Python. Where one names a Python argument, its error has a code, and the hint for the
command line is in ``CLI_HINTS``. A test looks at every error of the library and fails where one is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ironrule.errors import IronruleError, ModelError, list_error_fields
from ironrule.interrupts import SIGNALS, InterruptFlag, get_exit_code
from ironrule.wording import escape_controls

SAVED_HINT = "name MODEL and DATA themselves instead of the saved explainer"
CLI_HINTS: dict[str, str | None] = {
    "value-outside-domain": "list the value in a --space file",
    "missing-among-values": "set missing to true for this feature in the --space file instead",
    "desired-required": "add --desired LABEL",
    "threshold-required": "add --threshold T",
    "threshold-per-model": "add --threshold T",
    "unknown-algorithm": None,
    "exact-counterfactuals-unavailable": "add --algorithm geco",
    "batch-without-documents": "explain the row again, or make the batch again without --no-documents",
    "batch-damaged": "run the ironrule batch command that made it again, with the same --output: it explains them anew",
    "change-cost-without-changes": "add --changes, and leave out --no-documents",
    "ray-address-without-engine": "add --engine ray",
    "output-required": "save the model with a single output",
    "probabilities-required": "save the model with its sigmoid or softmax, or explain it from Python",
    "network-classes": "save the model with one output, or with two; explain one of more classes from Python",
    # The messages say what must hold, and other searches are chosen in Python.
    **dict.fromkeys(
        ("bad-cost", "unknown-cost", "bad-target", "scores-required", "past-rows-required", "models-required")
    ),
    "unsuitable-model": None,
    "onnx-classes": "export the model with its class labels",
    "onnx-without-labels": "leave --desired out and give a --threshold, or export the model with its class labels",
    **dict.fromkeys(("unknown-to-saved-model", "target-not-saved", "undecided-point", "model-required"), SAVED_HINT),
    "no-past-rows-saved": "save it again without --no-history, or give the row by its values: --row-json",
    "measured-rows-in-data": "leave them out of DATA or out of the file of --measure",
    "file-exists": "add --overwrite to replace it",
    "model-columns": "give DATA with the columns that the model was fitted on, and name the other one with --target",
    "model-categories": "give DATA as a .parquet file, which keeps categories; a .csv file has text in their place",
    "model-unknown-category": "leave those rows out of DATA, or fit the model on all categories",
    "model-text": "save the model as a pipeline with its encoder, fitted on the columns of DATA",
    "model-missing-values": "save the model with an imputer in its pipeline, or leave such rows out of DATA",
}


UNEXPECTED, BAD_INPUT, MODEL_FAILED = 1, 2, 3
INTERRUPTED_CODES = tuple(map(get_exit_code, SIGNALS))
DEBUG_VARIABLE = "IRONRULE_DEBUG"


class CommandInterrupted(KeyboardInterrupt):
    """An interrupt that says what is finished, and how to continue."""

    def __init__(self, statement: str, hint: str) -> None:
        super().__init__(statement)
        self.error = IronruleError(statement, hint=hint, code="interrupted")


def run_with_exit_code(command: Callable[[], int], as_json: bool, flag: InterruptFlag) -> int:
    """Run a command for its exit code; every exception becomes a message and an exit code, never a traceback.

    ``flag`` knows which signal interrupted the command, if one did.
    """
    try:
        with ignore_broken_pipe():
            return command()
    except SystemExit as end:  # argparse ends so after --help and --version
        return end.code if isinstance(end.code, int) else UNEXPECTED if end.code else 0
    except KeyboardInterrupt as stop:
        _print_error("Interrupted", getattr(stop, "error", IronruleError("interrupted", code="interrupted")), as_json)
        return get_exit_code(flag.signal_number)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        code, shown = _classify_error(error)
        _print_error(type(error).__name__, shown, as_json)
        return code
    return 0


@contextlib.contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Print without an error to a reader, such as head, that stops reading."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _classify_error(error: Exception) -> tuple[int, IronruleError]:
    """The exit code of an error, and the error to show."""
    if isinstance(error, IronruleError):
        return (MODEL_FAILED if isinstance(error, ModelError) else BAD_INPUT), error
    kind = type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        statement = f"cannot use {str(error.filename)!r}: {error.strerror or kind}"
        return BAD_INPUT, IronruleError(statement, hint="check the path and its permissions", code="file")
    hint = f"set {DEBUG_VARIABLE}=1 to see the traceback"
    return UNEXPECTED, IronruleError(f"unexpected {kind}: {error}", hint=hint, code="unexpected")


@contextlib.contextmanager
def print_warnings_as_lines(as_json: bool) -> Iterator[None]:
    """Show each warning as one line on standard error, without file names and source code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = escape_controls(" ".join(str(message).split("\n")))
        _print_message("warning", {"type": category.__name__, "message": text}, as_json)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _print_error(kind: str, error: IronruleError, as_json: bool) -> None:
    hint = CLI_HINTS.get(error.code, error.hint)
    _print_message("error", {"type": kind, **list_error_fields(error, hint)}, as_json)


def _print_message(what: str, fields: Mapping[str, object], as_json: bool) -> None:
    with contextlib.suppress(BrokenPipeError):  # the reader is gone
        if as_json:
            text = json.dumps({what: fields}).replace("\x7f", "\\u007f")  # the one control that JSON lets stand
        else:  # an error about a constraint has lines of its own, which point at a place
            text = escape_controls(f"{what}: {fields['message']}", keep="\n\t")
        print(text, file=sys.stderr)

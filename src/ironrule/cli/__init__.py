"""The command line: parse the options, call the public API, print the result.

    parser      all commands, and how their errors are raised
    options     options that several commands share
    project     the project file, which stands in for options that are not given
    files       read data and model files
    inputs      from the options to an explainer and a row
    saved       explanations that were written to files
    commands/   one file per command
    render      results as a terminal shows them
    output      print a result, write its file
    errors      messages, hints and exit codes

Standard output carries the result alone (with ``--json``: one JSON document), standard error everything else. Exit
codes: 0 a result, 1 an unexpected failure, 2 input that cannot be used, 3 a model that failed, 130 interrupted by
Ctrl-C, 143 by SIGTERM. For ``check`` and ``recheck``, 1 also means that an explanation is refuted, and 3 that it is
undecided.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence

from ironrule.cli.errors import (
    BAD_INPUT,
    INTERRUPTED_CODES,
    ignore_broken_pipe,
    print_warnings_as_lines,
    run_with_exit_code,
)
from ironrule.cli.output import write_result
from ironrule.cli.parser import build_parser
from ironrule.cli.project import apply_project
from ironrule.cli.terminal import render_for
from ironrule.interrupts import CommandSignals, use_interrupt_flag

OBJECTS_PER_COLLECTION = 500_000  # a short command, with all that it imports, makes fewer


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; never raises for what a user did."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    with CommandSignals() as signals, use_interrupt_flag(signals.flag):
        return run_with_exit_code(lambda: _run_command(arguments, as_json), as_json, signals.flag)


def run_process() -> int:
    """The same for a process of its own. One that was interrupted ends here, without waiting for threads that are still
    inside compiled code.
    """
    # Most of what a command makes are modules and models, which live until it ends; to look through them for garbage
    # again and again takes a fifth of a short command's time.
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    code = main()
    if code in INTERRUPTED_CODES:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # a reader that is gone, or a stream that is closed
                stream.flush()
        os._exit(code)
    # When Python ends, it looks through all that lives for garbage, several times; what is frozen is left out.
    gc.freeze()
    return code


def _run_command(arguments: list[str], as_json: bool) -> int:
    if not arguments:
        build_parser().print_help(sys.stderr)
        return BAD_INPUT
    options = build_parser().parse_args(arguments)
    if hasattr(options, "no_project"):
        apply_project(options)
    # What a user's model prints must not end up in the result.
    with render_for(sys.stdout), contextlib.redirect_stdout(sys.stderr), print_warnings_as_lines(as_json):
        result = options.run(options)
    with ignore_broken_pipe():
        write_result(result, as_json)
    code: int = result.code
    return code

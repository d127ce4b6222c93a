"""The command line: parse, call the public API, print. One file per command.

Standard output carries the answer alone (with ``--json``: one JSON document), standard error everything else. Exit
codes: 0 an answer, 1 an unexpected failure, 2 input that cannot be used, 3 a model that failed, 130 interrupted. Of
``check`` and ``recheck``, 1 also says that an explanation is refuted, and 3 that it cannot be decided here.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Sequence

from ironrule.cli.failure import reader_may_leave, warnings_as_lines, with_exit_code
from ironrule.cli.parser import new_parser

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; never raises for what a user did."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary files are removed
    as_json = "--json" in arguments
    return with_exit_code(lambda: _run(arguments, as_json), as_json)


def _run(arguments: list[str], as_json: bool) -> int:
    from ironrule.cli.answer import deliver

    options = new_parser().parse_args(arguments)
    # Whatever a user's model prints while it is asked must not end up in the answer.
    with contextlib.redirect_stdout(sys.stderr), warnings_as_lines(as_json):
        answer = options.run(options)
    with reader_may_leave():
        deliver(answer, as_json)
    code: int = answer.code
    return code

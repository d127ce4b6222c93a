"""The argument parser: the list of commands, and usage errors raised as Ironrule's own errors.

A command is a module with ``NAME``, ``HELP``, ``add_options(parser)`` and ``run(options)``; its docstring is its help.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

import ironrule
from ironrule.cli.commands import (
    audit,
    batch,
    check,
    counterfactual,
    demo,
    drift,
    explain,
    init,
    inspect,
    judge,
    ladder,
    reasons,
    recheck,
    report,
    save,
    serve,
)
from ironrule.cli.project import add_project_options
from ironrule.errors import InputError

COMMANDS = (
    *(demo, init, explain, ladder, batch, report, check, judge, recheck, drift, counterfactual),
    *(reasons, inspect, save, serve, audit),
)
WITHOUT_PROJECT = (demo, init, drift, audit)  # no file of the user's is read there, or only if it is named
DESCRIPTION = "Explain one decision of a classifier by a rule without exceptions."
EPILOG = "Every command has --help, and --json for programs. Set IRONRULE_DEBUG=1 to see the traceback of an error."


class CommandParser(argparse.ArgumentParser):
    """A parser that raises its errors, so that all errors are reported in one place."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, hint=f"see {self.prog} --help", code="usage")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; the parsed options have the function of the command in ``run``."""
    parser = CommandParser(prog="ironrule", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"ironrule {ironrule.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        about = (command.__doc__ or "").partition(": ")[2]
        child = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=about[:1].upper() + about[1:],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_options(child)
        if command not in WITHOUT_PROJECT:
            add_project_options(child)
        child.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
        child.set_defaults(run=command.run)
    return parser

"""The argument parser: the list of commands, and usage errors raised as Ironrule's own errors.

A command is a module with ``NAME``, ``HELP``, ``add_options(parser)`` and ``run(options)``; its docstring is its help.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import sys
from typing import Any, NoReturn

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
OPTION_PATTERN = re.compile(r"--?[a-zA-Z][\w-]*")
DESCRIPTION = "Explain one decision of a classifier by a rule without exceptions."
EPILOG = "Every command has --help, and --json for programs. Set IRONRULE_DEBUG=1 to see the traceback of an error."


class CommandParser(argparse.ArgumentParser):
    """A parser that raises its errors, so that all errors are reported in one place, and names what may be meant."""

    def error(self, message: str) -> NoReturn:
        self._raise(message, None)

    def _raise(self, message: str, close: str | None) -> NoReturn:
        hint = f"see {self.prog} --help" if close is None else f"did you mean {close}? See {self.prog} --help"
        raise InputError(message, hint=hint, code="usage")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse an unknown option first: what it was meant to say would else be reported as missing."""
        words = list(sys.argv[1:] if args is None else args)
        for word in itertools.takewhile(self._may_be_own, words):
            name = word.partition("=")[0]
            if OPTION_PATTERN.fullmatch(name) and name not in self._option_string_actions:
                self._raise(f"unrecognized arguments: {word}", self._find_similar_option(name))
        options, others = super().parse_known_args(words, namespace)
        if others and self._subparsers is None:  # else the parser of all commands would say so, with a hint to itself
            self._raise(f"unrecognized arguments: {' '.join(map(str, others))}", None)
        return options, others

    def _may_be_own(self, word: str) -> bool:
        """Whether a word, and not only the words before it, is for this parser; what follows a command is for that."""
        return word != "--" and (self._subparsers is None or word.startswith("-"))

    def _find_similar_option(self, name: str) -> str | None:
        """The option of this command that is spelt most like a word."""
        known = {option.lstrip("-"): option for option in self._option_string_actions if option.startswith("--")}
        close = difflib.get_close_matches(name.lstrip("-").lower().replace("_", "-"), known, 1)
        return known[close[0]] if close else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            close = difflib.get_close_matches(str(value).lower(), map(str, action.choices or ()), 1)
            self._raise(str(error), close[0] if close else None)


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

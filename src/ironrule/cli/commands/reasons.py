"""ironrule reasons: check whether a catalogue of reasons has an entry for every feature of your data.

  ironrule reasons check reasons.toml loans.csv --target status
  ironrule reasons check reasons.toml loans.csv --target status --language de

Exit codes: 0 nothing is missing, 1 something is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ironrule.cli import options as shared
from ironrule.cli.files import read_data
from ironrule.cli.inputs import read_space
from ironrule.cli.output import CommandResult
from ironrule.space.labels import DEFAULT_LANGUAGE
from ironrule.wording import format_count

NAME, HELP = "reasons", "check a catalogue of reasons"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("what", choices=("check",), help="what to do")
    text = "codes and sentences of reasons (.toml)"
    parser.add_argument("catalogue", metavar="CATALOGUE", type=Path, nargs="?", help=text)
    shared.need_files(parser, "CATALOGUE")
    shared.add_data_options(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Compare the catalogue with the features of the data."""
    from ironrule.results.reasons import ReasonCatalogue

    catalogue = ReasonCatalogue.from_file(options.catalogue)
    space = read_space(options, read_data(options.data, options.target))
    language = options.language or DEFAULT_LANGUAGE
    missing = catalogue.find_missing(space.features, language)
    unknown = sorted({feature for feature, _ in catalogue.entries} - {*space.names})
    lines = [f"missing: {name}" for name in missing] + [f"no such feature: {name}" for name in unknown]
    count = format_count(len(missing), "entry is", "entries are")
    text = "\n".join([*lines, f"{count} missing in the language {language!r}."])
    data = {"language": language, "missing": missing, "unknown": unknown}
    return CommandResult(text, lambda: data, code=1 if missing or unknown else 0)

"""ironrule save: write an explainer to one file, which other commands take instead of MODEL and DATA.

The file opens without the model and its library, and runs no code. With --no-history it contains no past rows, only the
values that features can take:

  ironrule save model.skops loans.csv --target status --desired paid --output credit.ironrule
  ironrule explain credit.ironrule --row-json '{"months": 36, "amount": 9000, "job": "skilled"}'
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ironrule.cli import options as shared
from ironrule.cli.inputs import SAVED_ENDING, read_files, refuse_saved_explainer
from ironrule.cli.output import CommandResult, check_output_path
from ironrule.errors import InputError
from ironrule.wording import format_count

NAME, HELP = "save", "write an explainer to one file that opens without the model"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    group = parser.add_argument_group("explainer")
    group.add_argument("--no-history", action="store_true", help="leave out all past rows")
    shared.add_constraint_option(group)
    shared.add_domain_option(group)
    text = "rules must hold for these models too; they are in the file as well"
    group.add_argument("--models", metavar="MODEL", type=Path, nargs="+", default=[], help=text)
    text = "rows to measure ladders on, preferably not used to train the model (default: half of DATA)"
    group.add_argument("--measure", metavar="FILE", type=Path, help=text)
    shared.add_output_option(parser, f"the explainer ({SAVED_ENDING})", is_needed=True)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, write the explainer."""
    if options.output is None:
        raise InputError("the following are required: --output", hint="such as --output credit.ironrule", code="usage")
    output = check_output_path(options, (SAVED_ENDING,))
    assert output is not None
    refuse_saved_explainer(options.model, "it is saved already")
    explainer = read_files(options).build_explainer(options, shared.parse_constraints(options))
    has_history = not options.no_history
    explainer.save(output, history=has_history, overwrite=options.overwrite)
    rows = len(explainer.outcomes) if has_history else 0
    reason = explainer.unreadable_reason

    def build_data() -> dict[str, Any]:
        opens_alone = reason is None
        return {
            "path": str(output),
            "past_rows": rows,
            "opens_without_model": opens_alone,
            "model": explainer.fingerprint,
        }

    size = f"{output.stat().st_size:,}"
    held = format_count(rows, "past row") if rows else "no past row"
    lines = [f"Saved {output.name}: {held}, {format_count(len(explainer.space), 'feature')}, {size} bytes."]
    if reason is not None:
        lines.append(f"It opens together with its model alone, which could not be read: {reason}.")
    return CommandResult("\n".join(lines), build_data)

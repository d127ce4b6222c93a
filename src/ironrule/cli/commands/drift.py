"""ironrule drift: show how explanations changed between two batches, of two versions of a model or of two months.

OLD and NEW are folders of ironrule batch. If you pass the new model, it rechecks every rule of OLD:

  ironrule drift may/ june/ --output drift.html
  ironrule drift old/ new/ --model new.skops --data loans.csv --target status --desired paid
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_files
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.results.batch import Batch


NAME, HELP = "drift", "show how explanations changed between two batches"
OUTPUT_ENDINGS = (".html", ".json", ".txt")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("old", metavar="OLD", type=Path, help="the folder of the first batch")
    parser.add_argument("new", metavar="NEW", type=Path, help="the folder of the second batch")
    group = parser.add_argument_group("recheck by the new model")
    group.add_argument("--model", metavar="MODEL", type=Path, help="the new model")
    group.add_argument("--data", metavar="DATA", type=Path, help="past rows")
    shared.add_desired_and_trust_options(group)
    shared.add_space_options(group)
    shared.add_robustness_options(group)
    shared.add_search_options(parser, several=False)
    shared.add_output_option(parser, "the comparison (.html, .json or .txt)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the batches, recheck the old one where that is asked for, and compare."""
    output, search = check_output_path(options, OUTPUT_ENDINGS), shared.build_search_options(options)
    constraints = shared.parse_constraints(options)
    old, new = _open_batch(options.old), _open_batch(options.new)
    recheck = None
    if options.model is not None:
        explainer = read_files(options).build_explainer(options, constraints)
        recheck = explainer.recheck(old, budget=search.budget, seed=search.seed)
    elif options.data is not None or constraints:
        raise InputError("a recheck needs the new model", hint="add --model", code="usage")
    found = old.compare(new, recheck=recheck)
    ending = "" if output is None else output.suffix.lower()
    text = found.to_html() if ending == ".html" else f"{found}\n"
    if ending == ".json":
        text = format_json_file(found.to_dict())
    return CommandResult(str(found), found.to_dict, output, text)


def _open_batch(path: Path) -> Batch:
    """The batch in a folder; raises InputError if there is none."""
    from ironrule.results.batch import Batch

    if not path.is_dir():
        raise InputError(
            expected="OLD and NEW must be folders of batches",
            got=repr(str(path)),
            hint="make one with: ironrule batch MODEL DATA --output FOLDER",
        )
    return Batch.open(path)

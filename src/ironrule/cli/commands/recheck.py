"""ironrule recheck: check stored rules against a new version of the model.

Says which rules still hold, and shows an exception for each that does not. EXPLANATIONS are the folder of an
ironrule batch, or JSON files of ironrule explain:

  ironrule recheck denials/ --model new.skops --data loans.csv --desired paid

Exit codes: 0 every rule holds or its row is no longer denied, 1 a rule breaks, 2 input that cannot be used, 3 no rule
breaks, but some are undecided.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_files
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.errors import InputError
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.results.batch import Batch
    from ironrule.results.explanation import Explanation


NAME, HELP = "recheck", "check stored rules against a new version of the model"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    text = "the folder of a batch, or JSON files"
    parser.add_argument("explanations", metavar="EXPLANATIONS", type=Path, nargs="+", help=text)
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="MODEL", type=Path, help="the new model")
    shared.add_desired_and_trust_options(group)
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, help="past rows")
    shared.need_files(parser, "--model", "--data")
    shared.add_space_options(group)
    shared.add_search_options(parser, several=False)
    shared.add_robustness_options(parser.add_argument_group("rule"))
    shared.add_output_option(parser, "the answer (.json)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, recheck every explanation."""
    output, search = check_output_path(options, (".json",)), shared.build_search_options(options)
    constraints, stored = shared.parse_constraints(options), _read_saved(options.explanations)
    explainer = read_files(options).build_explainer(options, constraints)
    found = explainer.recheck(stored, budget=search.budget, seed=search.seed)
    code = 1 if found.counts["breaks"] else 3 if found.counts["undecided"] else 0
    return CommandResult(str(found), found.to_dict, output, format_json_file(found.to_dict()), code)


def _read_saved(paths: list[Path]) -> Batch | dict[str, Explanation]:
    """A batch by its folder, or explanations by the names of their files."""
    from ironrule.cli.saved import read_explanation
    from ironrule.results.batch import Batch

    if len(paths) == 1 and paths[0].is_dir():
        return Batch.open(paths[0])
    folders = [path for path in paths if path.is_dir()]
    if folders:
        expected = "the explanations must be files or the folder of one batch"
        got = f"the folder {str(folders[0])!r} and {format_count(len(paths) - 1, 'other')}"
        raise InputError(expected=expected, got=got, hint="recheck each folder by itself")
    return {str(path): read_explanation(path) for path in paths}

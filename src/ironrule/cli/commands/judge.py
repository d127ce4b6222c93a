"""ironrule judge: how good a given rule for a row is, by proof.

Give the conditions of the rule, each as one text; --rule may be repeated to judge several rules:

  ironrule judge model.skops loans.csv --row 17 --desired paid --rule 'months >= 30' '20 < age <= 37' 'housing = rent'

A rule has an exception among the past rows (failed data consistency) or elsewhere (failed global consistency), or it
holds: with a condition that could be left out (consistent but redundant), longer than the shortest rule (irredundant
but not minimum), or as short as possible (minimum). If none of these could be proven, it is not judged.
"""

from __future__ import annotations

import argparse

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_row_inputs
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.cli.terminal import show_spinner

NAME, HELP = "judge", "say how good a rule for one row is"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_row_option(parser)
    group = parser.add_argument_group("rule")
    text = "the rule's conditions, such as 'age <= 30' 'job = cook' '20 < age <= 37'; may be repeated for other rules"
    group.add_argument("--rule", metavar="CONDITION", nargs="+", action="append", required=True, help=text)
    shared.add_robustness_options(group)
    shared.add_search_options(parser, several=False)
    shared.add_output_option(parser, "the judgements (.json)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, judge the rules."""
    from ironrule.cli.render import render_judgements

    output, search = check_output_path(options, (".json",)), shared.build_search_options(options)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        found = explainer.judge(row, options.rule, budget=search.budget, seed=search.seed)
    document = {"judgements": [judgement.to_dict() for judgement in found]}
    return CommandResult(render_judgements(found), lambda: document, output, format_json_file(document))

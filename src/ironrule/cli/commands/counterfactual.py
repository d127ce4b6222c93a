"""ironrule counterfactual: the smallest changes that would have given a row the desired outcome.

ironrule counterfactual model.skops loans.csv --row 17 --desired paid --vary amount months --range months=6:36
"""

from __future__ import annotations

import argparse

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_row_inputs
from ironrule.cli.output import CommandResult, check_output_path, format_json_file

NAME, HELP = "counterfactual", "find the changes that would have reversed the decision"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_row_option(parser)
    shared.add_search_options(parser)
    group = parser.add_argument_group("changes")
    group.add_argument(
        "--algorithm",
        dest="counterfactual_algorithm",  # not one of those that search for rules
        choices=("auto", "exact", "geco"),
        default="auto",
        help="default: auto (exact for a model that can be read, geco otherwise)",
    )
    shared.add_domain_option(group)
    group.add_argument("--vary", metavar="F", **shared.MANY, help="features that may change (default: all)")
    text = 'where a feature may go: age=18:60, age=18:, job=clerk,cook, or job=["a, b"] as a JSON list'
    group.add_argument("--range", metavar="F=VALUES", **shared.MANY, default=[], help=text)
    shared.add_output_option(parser, "the counterfactuals (.json)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, look for counterfactuals."""
    from ironrule.cli.render import render_counterfactuals
    from ironrule.cli.terminal import show_spinner
    from ironrule.explain.counterfactuals.options import ChangeOptions
    from ironrule.rule.parsing import parse_ranges

    output, search = check_output_path(options, (".json",)), shared.build_search_options(options)
    constraints = shared.parse_constraints(options)  # on the changes: the row itself need not satisfy them
    explainer, row = read_row_inputs(options)
    changes = ChangeOptions(
        algorithm=options.counterfactual_algorithm,
        features_to_vary=options.vary or "all",
        permitted_range=parse_ranges(options.range, explainer.space),
        constraints=constraints,
    )
    with show_spinner():
        counterfactuals = explainer.counterfactuals(
            row, search.k, budget=search.budget, seed=search.seed, **changes.to_kwargs()
        )
    text = format_json_file(counterfactuals.to_dict())
    return CommandResult(render_counterfactuals(counterfactuals), counterfactuals.to_dict, output, text)

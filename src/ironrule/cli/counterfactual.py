"""ironrule counterfactual: the smallest changes that would have given a row the desired outcome.

ironrule counterfactual model.skops loans.csv --row 17 --desired paid --vary amount months --range months=6:36
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ironrule.cli import options as shared

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer

NAME, HELP = "counterfactual", "find the changes that would have turned the decision"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model(parser)
    shared.add_data(parser)
    shared.add_row(parser)
    shared.add_search(parser)
    group = parser.add_argument_group("changes")
    group.add_argument(
        "--algorithm",
        choices=("auto", "exact", "geco"),
        default="auto",
        help="default: auto (exact for a model that can be read, geco otherwise)",
    )
    group.add_argument(
        "--vary", metavar="F", nargs="+", action="extend", help="features that may change (default: all)"
    )
    text = 'where a feature may go: age=18:60, age=18:, job=clerk,cook, or job=["a, b"] as a JSON list'
    group.add_argument("--range", metavar="F=VALUES", nargs="+", action="extend", default=[], help=text)
    shared.add_json(parser)
    shared.add_output(parser, "the counterfactuals (.json)")


def run(options: argparse.Namespace) -> Answer:
    """Read the files, look for counterfactuals."""
    from ironrule.cli.answer import Answer, check_output, json_text
    from ironrule.cli.question import question_of
    from ironrule.cli.ranges import ranges_of
    from ironrule.cli.show import counterfactuals_view, searching

    output, budget = check_output(options, (".json",)), shared.budget_of(options)
    constraints = shared.constraints_of(options)  # on the changes: the row itself need not satisfy them
    question = question_of(options)
    ranges = ranges_of(options.range, question.explainer.space)
    with searching():
        found = question.explainer.counterfactuals(
            question.row,
            options.k,
            algorithm=options.algorithm,
            features_to_vary=options.vary or "all",
            permitted_range=ranges,
            constraints=constraints,
            budget=budget,
            seed=options.seed,
        )
    return Answer(counterfactuals_view(found), found.to_dict, output, json_text(found.to_dict()))

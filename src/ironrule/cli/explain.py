"""ironrule explain: a rule that explains why a model gave one row the undesired outcome.

MODEL is a fitted classifier, DATA the past rows. Put MODEL and DATA first, the options after them:

  ironrule explain model.skops loans.csv --row 17 --target status --desired paid
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ironrule.cli import options as shared

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer
    from ironrule.explain import Explanation

NAME, HELP = "explain", "explain one row of your data by a rule"
ENDINGS = (".json", ".html", ".txt")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model(parser)
    shared.add_data(parser)
    shared.add_cache(parser)
    shared.add_row(parser)
    shared.add_search(parser)
    shared.add_rule(parser)
    shared.add_json(parser)
    shared.add_output(parser, "the explanation (.json, .html or .txt)")


def run(options: argparse.Namespace) -> Answer:
    """Read the files, explain the row."""
    from ironrule.cli.answer import Answer, check_output
    from ironrule.cli.show import explanation_view

    output = check_output(options, ENDINGS)
    explanation = explained(options)
    text = "" if output is None else _as_file(explanation, output.suffix.lower(), options)
    return Answer(explanation_view(explanation), explanation.to_dict, output, text)


def explained(options: argparse.Namespace) -> Explanation:
    """The explanation that the options ask for."""
    from ironrule.cli.question import question_of
    from ironrule.cli.show import searching

    budget = shared.budget_of(options)
    question = question_of(options, shared.constraints_of(options), options.models, options.margin, options.intervals)
    with searching():
        return question.explainer.explain(
            question.row,
            options.algorithm,
            k=options.k,
            budget=budget,
            seed=options.seed,
            require=options.require,
            forbid=options.forbid,
            widen=not options.no_widen,
        )


def _as_file(explanation: Explanation, ending: str, options: argparse.Namespace) -> str:
    from ironrule.cli.answer import json_text
    from ironrule.cli.checking_command import recheck_of
    from ironrule.report.reports import explanation_report
    from ironrule.report.text import explanation_text

    if ending == ".html":
        return explanation_report(explanation, "validator", recheck_of(options))
    return json_text(explanation.to_dict()) if ending == ".json" else explanation_text(explanation) + "\n"

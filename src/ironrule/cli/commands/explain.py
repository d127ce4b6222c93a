"""ironrule explain: a rule that explains why a model gave one row the undesired outcome.

MODEL is a fitted classifier, DATA the past rows. Put MODEL and DATA first, the options after them:

  ironrule explain model.skops loans.csv --row 17 --target status --desired paid

First a rule of at most four components with a bound on its exceptions, then the whole rule:

  ironrule explain model.skops loans.csv --row 17 --target status --desired paid --most 4
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_row_inputs
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.results.explanation import Explanation
    from ironrule.results.ladder import Ladder


NAME, HELP = "explain", "explain one row of your data by a rule"
OUTPUT_ENDINGS = (".json", ".html", ".txt")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_cache_option(parser)
    shared.add_row_option(parser)
    shared.add_search_options(parser)
    shared.add_rule_options(parser)
    text = "first a rule of at most N components, with a bound on its exceptions among people like past ones"
    parser.add_argument("--most", metavar="N", type=int, help=text)
    text = "rows to measure that bound on, best ones that the model was not trained on (default: half of DATA)"
    parser.add_argument("--measure", metavar="FILE", type=Path, help=text)
    parser.add_argument("--diagnose", action="store_true", help="also say what makes the rule long")
    shared.add_output_option(parser, "the explanation (.json, .html or .txt)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, explain the row, and diagnose the explanation where that is asked for."""
    from ironrule.cli.render import render_diagnosis
    from ironrule.cli.terminal import show_spinner

    output = check_output_path(options, OUTPUT_ENDINGS)
    if options.measure is not None and options.most is None:
        expected, hint = "--measure must come with --most, whose rule is measured on these rows", "add --most 4"
        raise InputError(expected=expected, got="no --most", hint=hint)
    search = shared.build_search_options(options)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        ladder = None if options.most is None else explainer.ladder(row, options.most, **search.to_kwargs())
        explanation = explainer.explain(row, **search.to_kwargs()) if ladder is None else ladder.explanation
    view, document = _render(explanation, ladder, options.most), (explanation if ladder is None else ladder).to_dict
    text = "" if output is None else _format_output(explanation, ladder, output.suffix.lower(), options)
    if not options.diagnose:
        return CommandResult(view, document, output, text)
    with show_spinner():
        diagnosis = explainer.diagnose(explanation, budget=search.budget, seed=search.seed)

    def build_data() -> dict[str, Any]:
        return {"explanation" if ladder is None else "ladder": document(), "diagnosis": diagnosis.to_dict()}

    return CommandResult(f"{view}\n{render_diagnosis(diagnosis)}", build_data, output, text)


def explain_row(options: argparse.Namespace) -> Explanation:
    """The explanation that the options of another command ask for."""
    from ironrule.cli.terminal import show_spinner

    search = shared.build_search_options(options)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        return explainer.explain(row, **search.to_kwargs())


def _render(explanation: Explanation, ladder: Ladder | None, most: int) -> str:
    from ironrule.cli.render import render_explanation, render_explanation_with_short_rule

    return render_explanation(explanation) if ladder is None else render_explanation_with_short_rule(ladder, most)


def _format_output(explanation: Explanation, ladder: Ladder | None, ending: str, options: argparse.Namespace) -> str:
    """The explanation as a file of this ending, or the ladder, which contains it."""
    from ironrule.cli.saved import build_check_command
    from ironrule.report.audiences import render_report

    result = explanation if ladder is None else ladder
    if ending == ".json":
        return format_json_file(result.to_dict())
    if ending == ".txt":
        return f"{result}\n"
    if ladder is not None:
        return ladder.to_html("validator")
    return render_report(explanation, "validator", build_check_command(options))

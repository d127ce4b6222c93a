"""ironrule explain: a rule that explains why a model gave one row the undesired outcome.

MODEL is a fitted classifier, DATA the past rows. Put MODEL and DATA first, the options after them:

  ironrule explain model.skops loans.csv --row 17 --target status --desired paid
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_row_inputs
from ironrule.cli.output import CommandResult, check_output_path, format_json_file

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.results.explanation import Explanation


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
    parser.add_argument("--diagnose", action="store_true", help="also say what makes the rule long")
    shared.add_output_option(parser, "the explanation (.json, .html or .txt)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, explain the row, and diagnose the explanation where that is asked for."""
    from ironrule.cli.render import render_diagnosis, render_explanation
    from ironrule.cli.terminal import show_spinner

    output = check_output_path(options, OUTPUT_ENDINGS)
    explainer, explanation = _explain(options)
    text = "" if output is None else _format_output(explanation, output.suffix.lower(), options)
    view = render_explanation(explanation)
    if not options.diagnose:
        return CommandResult(view, explanation.to_dict, output, text)
    search = shared.build_search_options(options)
    with show_spinner():
        diagnosis = explainer.diagnose(explanation, budget=search.budget, seed=search.seed)

    def build_data() -> dict[str, Any]:
        return {"explanation": explanation.to_dict(), "diagnosis": diagnosis.to_dict()}

    return CommandResult(f"{view}\n{render_diagnosis(diagnosis)}", build_data, output, text)


def explain_row(options: argparse.Namespace) -> Explanation:
    """The explanation that the options ask for."""
    return _explain(options)[1]


def _explain(options: argparse.Namespace) -> tuple[Explainer, Explanation]:
    from ironrule.cli.terminal import show_spinner

    search = shared.build_search_options(options)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        return explainer, explainer.explain(row, **search.to_kwargs())


def _format_output(explanation: Explanation, ending: str, options: argparse.Namespace) -> str:
    from ironrule.cli.saved import build_check_command
    from ironrule.report.audiences import render_report
    from ironrule.report.text import format_explanation

    if ending == ".html":
        return render_report(explanation, "validator", build_check_command(options))
    return format_json_file(explanation.to_dict()) if ending == ".json" else format_explanation(explanation) + "\n"

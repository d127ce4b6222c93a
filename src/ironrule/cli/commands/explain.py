"""ironrule explain: a rule that explains why a model gave one row the undesired outcome.

MODEL is a fitted classifier, DATA the past rows. Write MODEL and DATA first, the options after them:

  ironrule explain model.skops loans.csv --row 17 --target status --desired paid

If the proven rule has more than four bounds, a short rule with a bound on its exceptions comes first. --most 3 asks for
a short rule of at most three bounds, --most 0 only for the whole rule.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_row_inputs
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.errors import InputError
from ironrule.search.algorithms import AUTO

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.explain.options import SearchOptions
    from ironrule.results.explanation import Explanation
    from ironrule.results.ladder import Ladder


NAME, HELP = "explain", "explain one row of your data by a rule"
OUTPUT_ENDINGS = (".json", ".html", ".txt")
MIN_ROWS = 100  # past rows, of which half are enough to measure on


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_cache_option(parser)
    shared.add_row_option(parser)
    shared.add_search_options(parser)
    shared.add_rule_options(parser)
    shared.add_change_cost_options(parser)
    text = "first a rule of at most N bounds, with a bound on its share of exceptions; 0: no short rule"
    parser.add_argument("--most", metavar="N", type=int, help=f"{text} (default: 4 above a long proven rule)")
    text = "rows to measure that bound on, preferably not used to train the model (default: half of DATA)"
    parser.add_argument("--measure", metavar="FILE", type=Path, help=text)
    parser.add_argument("--diagnose", action="store_true", help="also say what makes the rule long")
    text = "also append one line of JSON to a log, without the person's values (see docs/pipelines.md)"
    parser.add_argument("--log", metavar="FILE", type=Path, help=text)
    shared.add_output_option(parser, "the explanation (.json, .html or .txt)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, explain the row, and diagnose the explanation where that is asked for."""
    from ironrule.cli.render import render_diagnosis
    from ironrule.cli.terminal import show_spinner

    output = check_output_path(options, OUTPUT_ENDINGS)
    if options.measure is not None and options.most == 0:
        expected, hint = "--measure must come with a short rule, which is measured on these rows", "leave out --most 0"
        raise InputError(expected=expected, got="--most 0", hint=hint)
    search = shared.build_search_options(options)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        ladder = build_shown_ladder(explainer, row, options, search)
        explanation = explainer.explain(row, **search.to_kwargs()) if ladder is None else ladder.explanation
    if options.log is not None:
        from ironrule.integrations.json_logs import append_to_log

        append_to_log(options.log, explanation if ladder is None else ladder)
    view = _render(explanation, ladder, options.most)
    if options.most is None:  # what is stored is the explanation, unless a ladder was asked for
        ladder = None
    document = (explanation if ladder is None else ladder).to_dict
    text = "" if output is None else _format_output(explanation, ladder, output, options)
    if not options.diagnose:
        return CommandResult(view, document, output, text)
    with show_spinner():
        diagnosis = explainer.diagnose(explanation, budget=search.budget, seed=search.seed)

    def build_data() -> dict[str, Any]:
        return {"explanation" if ladder is None else "ladder": document(), "diagnosis": diagnosis.to_dict()}

    return CommandResult(f"{view}\n{render_diagnosis(diagnosis)}", build_data, output, text)


def explain_row(options: argparse.Namespace, has_short_rule: bool = False) -> Explanation | Ladder:
    """What the options of another command ask for: an explanation, or where a short rule is wanted, a ladder."""
    from ironrule.cli.terminal import show_spinner

    search = shared.build_search_options(options)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        ladder = build_shown_ladder(explainer, row, options, search) if has_short_rule else None
        return ladder or explainer.explain(row, **search.to_kwargs())


def build_shown_ladder(
    explainer: Explainer, row: Any, options: argparse.Namespace, search: SearchOptions
) -> Ladder | None:
    """The ladder whose short rule is shown first; None where only the whole rule is wanted.

    Without ``--most`` a proven rule that is long gets short ones. A model that can only be asked does not, unless rows
    to measure on are named: the search for its rule would look at half of the past rows.
    """
    from ironrule.results.ladder import MAX_SHORT

    most, measure = getattr(options, "most", None), getattr(options, "measure", None)
    if most == 0:
        return None
    if most is not None:
        return explainer.ladder(row, most, **search.to_kwargs())
    is_read = explainer.unreadable_reason is None and search.algorithm in (AUTO, "minimum")
    if measure is None and not (is_read and len(explainer.outcomes) >= MIN_ROWS):
        return None
    return explainer.ladder(row, MAX_SHORT, short_enough=MAX_SHORT, **search.to_kwargs())


def _render(explanation: Explanation, ladder: Ladder | None, most: int | None) -> str:
    from ironrule.cli.render import render_explanation, render_explanation_with_short_rule

    return render_explanation(explanation) if ladder is None else render_explanation_with_short_rule(ladder, most)


def _format_output(explanation: Explanation, ladder: Ladder | None, output: Path, options: argparse.Namespace) -> str:
    """The explanation as a file of this ending, or the ladder, which contains it."""
    from ironrule.cli.saved import build_check_command
    from ironrule.report.audiences import render_report

    result, ending = explanation if ladder is None else ladder, output.suffix.lower()
    if ending == ".json":
        return format_json_file(result.to_dict())
    if ending == ".txt":
        return f"{result}\n"
    report = build_check_command(options, str(output)).to_options()
    if ladder is not None:
        return ladder.to_html("validator", report=report)
    return render_report(explanation, "validator", report)

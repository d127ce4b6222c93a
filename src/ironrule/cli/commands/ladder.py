"""ironrule ladder: explain one row by rules of 1, 2, 3, ... conditions, each with its verdict.

Short rules get a bound on their share of exceptions, measured on past rows that the search did not look at, or on rows
that the model was not trained on:

  ironrule ladder model.skops loans.csv --row 17 --target status --desired paid --measure new-loans.csv

A notice that can be sent to the applicant:

  ironrule ladder model.skops loans.csv --row 17 --target status --desired paid --audience notice --output notice.html
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.inputs import read_row_inputs
from ironrule.cli.notices import add_notice_options, build_notice_options, get_language_code
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.cli.terminal import show_spinner
from ironrule.errors import InputError
from ironrule.results.audience import LADDER_AUDIENCES, LadderAudience

if TYPE_CHECKING:
    from ironrule.results.ladder import Ladder
    from ironrule.results.notice import NoticeOptions


NAME, HELP = "ladder", "explain one row by short rules, each with a bound, and by the proven one"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_cache_option(parser)
    shared.add_row_option(parser)
    group = parser.add_argument_group("ladder")
    group.add_argument("--most", metavar="N", type=int, default=6, help="most bounds of a short rule (default 6)")
    text = "the best rule of each length, instead of rules that contain one another"
    group.add_argument("--not-nested", dest="nested", action="store_false", help=text)
    text = "show first the shortest rule that holds for this share of people, such as 0.99"
    group.add_argument("--at-least", metavar="SHARE", type=float, help=text)
    text = "the confidence with which all bounds hold together (default 0.95)"
    group.add_argument("--confidence", metavar="C", type=float, default=0.95, help=text)
    text = "rows to measure on, preferably not used to train the model (default: half of DATA)"
    group.add_argument("--measure", metavar="FILE", type=Path, help=text)
    text = "also give at most N reasons, as a notice names them"
    group.add_argument("--reasons", metavar="N", type=int, help=text)
    group = parser.add_argument_group("notice")
    text = "of the .html file: person, validator (default: all short rules and the proven one), or notice"
    group.add_argument("--audience", choices=LADDER_AUDIENCES, default="validator", help=text)
    add_notice_options(group)
    shared.add_search_options(parser)
    shared.add_rule_options(parser)
    shared.add_change_cost_options(parser)
    shared.add_output_option(parser, "the ladder (.json, .html or .txt)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, build the ladder, and find reasons where that is asked for."""
    from ironrule.cli.render import render_ladder, render_reasons

    output = check_output_path(options, (".json", ".html", ".txt"))
    if options.audience != "validator" and (output is None or output.suffix.lower() != ".html"):
        expected = f"--audience {options.audience} needs an HTML file to write to"
        got = "no --output" if output is None else f"--output {output}"
        raise InputError(expected=expected, got=got, hint=f"add --output {options.audience}.html")
    search = shared.build_search_options(options)
    notice = build_notice_options(options, options.reasons)
    explainer, row = read_row_inputs(options, shared.parse_constraints(options))
    with show_spinner():
        ladder = explainer.ladder(
            row,
            options.most,
            nested=options.nested,
            at_least=options.at_least,
            confidence=options.confidence,
            **search.to_kwargs(),
        )
    text = "" if output is None else _format_output(ladder, output.suffix.lower(), options.audience, notice)
    if options.reasons is None:
        return CommandResult(render_ladder(ladder), ladder.to_dict, output, text)
    reasons = ladder.reasons(options.reasons, notice.catalogue, get_language_code(options.language))
    view = f"{render_ladder(ladder)}\n{render_reasons(reasons)}"

    def build_data() -> dict[str, Any]:
        return {"ladder": ladder.to_dict(), "reasons": [reason.to_dict() for reason in reasons]}

    return CommandResult(view, build_data, output, text)


def _format_output(ladder: Ladder, ending: str, audience: LadderAudience, notice: NoticeOptions) -> str:
    if ending == ".html":
        return ladder.to_html(audience, notice=notice)
    return format_json_file(ladder.to_dict()) if ending == ".json" else f"{ladder}\n"

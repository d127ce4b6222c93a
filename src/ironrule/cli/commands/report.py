"""ironrule report: an explanation as one HTML file, for the person it is about or for whoever must vouch for it.

From what ironrule explain has written; several explanations make one report of all of them:

  ironrule report why.json --output why.html
  ironrule report why.json --audience validator --model model.skops --data loans.csv --output why.html

Or of a batch, from the folder that ironrule batch has written:

  ironrule report explained --output all.html

Or explained afresh, with the options of ironrule explain:

  ironrule report model.skops loans.csv --row 17 --target status --desired paid --output why.html
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.cli import options as shared
from ironrule.cli.commands import explain
from ironrule.errors import InputError
from ironrule.results.audience import AUDIENCES, Audience

if TYPE_CHECKING:
    from ironrule.cli.output import CommandResult
    from ironrule.results.explanation import Explanation
    from ironrule.space.constraints.syntax import Constraint


NAME, HELP = "report", "write an explanation as an HTML report"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "files", metavar="FILE", type=Path, nargs="+", help="explanations as JSON; a batch's folder; or MODEL and DATA"
    )
    group = parser.add_argument_group("report")
    group.add_argument("--output", metavar="FILE", type=Path, required=True, help="the report (.html)")
    shared.add_overwrite_option(group)
    group.add_argument(
        "--audience",
        choices=AUDIENCES,
        help="default: person; of several explanations: validator, which has an overview",
    )
    group = parser.add_argument_group("what an explanation from a file was made with")
    group.add_argument("--data", metavar="DATA", type=Path, help="the past rows: pictures show them, labels come along")
    group.add_argument("--model", metavar="MODEL", type=Path, help="the model: the command to check again names it")
    shared.add_space_options(parser.add_argument_group("data"))
    shared.add_desired_and_trust_options(parser.add_argument_group("model"))
    shared.add_row_option(parser, required=False)
    shared.add_search_options(parser)
    shared.add_rule_options(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the explanations, or explain; write the report."""
    from ironrule.cli.output import CommandResult
    from ironrule.cli.render import render_report_summary
    from ironrule.cli.saved import build_check_command
    from ironrule.report.audiences import render_batch_report, render_report

    output = _check_report_path(options)
    explanations, names = _collect_explanations(options)
    alone = len(explanations) == 1 and not options.files[0].is_dir()
    audience: Audience = options.audience or ("person" if alone else "validator")
    if alone:
        named = options.files[0].name if options.row is None else None
        check_command = build_check_command(options) if named is None else build_check_command(options, named)
        text = render_report(explanations[0], audience, check_command)
    else:
        text = render_batch_report(explanations, audience, names)
    told = {"output": str(output), "audience": audience, "verdicts": [_get_verdict_name(one) for one in explanations]}
    return CommandResult(render_report_summary(told), lambda: told, output, text)


def _get_verdict_name(explanation: Explanation) -> str:
    from ironrule.report.text import get_verdict_name

    return get_verdict_name(explanation.verdict)


def _check_report_path(options: argparse.Namespace) -> Path:
    from ironrule.cli.output import check_output_path

    output = check_output_path(options, (".html",))
    assert output is not None
    return output


def _collect_explanations(options: argparse.Namespace) -> tuple[Sequence[Explanation], list[str]]:
    """What to report, and how each is called."""
    from ironrule.results.batch import Batch

    documents = all(path.suffix.lower() == ".json" for path in options.files)
    if documents and options.row is None:
        return _attach_data(_read_explanations(options.files), options), [path.stem for path in options.files]
    if len(options.files) == 1 and options.files[0].is_dir() and options.row is None:
        batch = Batch.open(options.files[0])
        return _attach_data(batch, options), [f"row {row}" for row in batch.rows]
    if documents or len(options.files) != 2 or options.row is None:
        raise _build_input_error(options)
    if options.data or options.model:
        raise InputError("--data and --model are for explanations from files and cannot be combined with --row")
    options.model, options.data = options.files
    return [explain.explain_row(options)], []


def _build_input_error(options: argparse.Namespace) -> InputError:
    given = ", ".join(repr(str(path)) for path in options.files)
    if len(options.files) == 2 and options.row is None:
        given += " without --row"
    absent = [path for path in options.files if not path.exists()]
    return InputError(
        expected="a report needs explanations (.json), the folder of a batch, or MODEL, DATA and --row",
        got=given,
        hint=f"check the path: {str(absent[0])!r} does not exist" if absent else "see ironrule report --help",
    )


def _read_explanations(paths: Sequence[Path]) -> list[Explanation]:
    from ironrule.cli.saved import read_explanation

    return [read_explanation(path) for path in paths]


def _attach_data(explanations: Sequence[Explanation], options: argparse.Namespace) -> Sequence[Explanation]:
    """The explanations with the past rows behind them, where the data is given."""
    from ironrule.cli.files import read_data

    if options.data is None:
        alone = [name for name in ("space", "intervals") if getattr(options, name)]
        if alone:
            raise InputError(f"--{alone[0]} needs --data, whose values it describes")
        return explanations
    if options.intervals:
        from ironrule.cli.saved import attach_interval_history

        return attach_interval_history(explanations, options)
    constraints = [one for one in shared.parse_constraints(options) if not one.mentions_instance]
    data = read_data(options.data, options.target)
    return [_attach_history(one, data, constraints, options) for one in explanations]


def _attach_history(
    explanation: Explanation, data: object, constraints: list[Constraint], options: argparse.Namespace
) -> Explanation:
    from ironrule.cli.inputs import read_space
    from ironrule.space.table import read_table

    known = [name for name in explanation.instance if name in read_table(data).names]
    space = read_space(options, data, known if len(known) == len(explanation.instance) else None)
    space = space.extend_domains(explanation.instance) if options.extend_domain else space
    return explanation.with_history(data, replace(space, constraints=(*space.constraints, *constraints)))

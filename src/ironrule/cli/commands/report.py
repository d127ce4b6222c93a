"""ironrule report: an explanation as one HTML file, for the person it is about or for a validator.

From explanations that ironrule explain has written; several make one report:

  ironrule report why.json --output why.html
  ironrule report why.json --audience validator --model model.skops --data loans.csv --output why.html

Or of a batch, from the folder that ironrule batch has written:

  ironrule report explained --output all.html

Or of a new explanation, with the options of ironrule explain:

  ironrule report model.skops loans.csv --row 17 --target status --desired paid --output why.html
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ironrule.cli import options as shared
from ironrule.cli.commands import explain
from ironrule.cli.files import load_model, read_data
from ironrule.cli.inputs import read_space
from ironrule.cli.output import CommandResult, check_output_path
from ironrule.errors import InputError
from ironrule.results.audience import AUDIENCES, Audience

if TYPE_CHECKING:
    from ironrule.results.explanation import Explanation


NAME, HELP = "report", "write an explanation as an HTML report"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    text = "explanations as JSON; a batch's folder; or MODEL and DATA"
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help=text)
    group = parser.add_argument_group("report")
    group.add_argument("--output", metavar="FILE", type=Path, required=True, help="the report (.html)")
    shared.add_overwrite_option(group)
    text = "default: person; for several explanations: validator, with an overview"
    group.add_argument("--audience", choices=AUDIENCES, help=text)
    group = parser.add_argument_group("what an explanation from a file was made with")
    group.add_argument("--data", metavar="DATA", type=Path, help="the past rows, for pictures and labels")
    group.add_argument("--model", metavar="MODEL", type=Path, help="the model, for the command that checks again")
    shared.add_space_options(parser.add_argument_group("data"))
    shared.add_desired_and_trust_options(parser.add_argument_group("model"))
    shared.add_row_option(parser, required=False)
    shared.add_search_options(parser)
    shared.add_rule_options(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the explanations, or explain; write the report."""
    from ironrule.cli.saved import build_check_command
    from ironrule.report.audiences import render_batch_report, render_report
    from ironrule.report.text import get_verdict_name
    from ironrule.report.validator import EXPLANATION_FILE

    output = check_output_path(options, (".html",))
    explanations, names = _collect_explanations(options)
    alone = len(explanations) == 1 and not options.files[0].is_dir()
    audience: Audience = options.audience or ("person" if alone else "validator")
    if alone:
        file_name = options.files[0].name if options.row is None else EXPLANATION_FILE
        text = render_report(explanations[0], audience, build_check_command(options, file_name))
    else:
        text = render_batch_report(explanations, audience, names)
    verdicts = [get_verdict_name(one.verdict) for one in explanations]
    data = {"output": str(output), "audience": audience, "verdicts": verdicts}
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())
    summary = f"Report for the {audience}: {output} ({counts if len(verdicts) > 1 else verdicts[0]})"
    return CommandResult(summary, lambda: data, output, text)


def _collect_explanations(options: argparse.Namespace) -> tuple[Sequence[Explanation], list[str]]:
    """The explanations to report, and their names."""
    from ironrule.cli.saved import read_explanation
    from ironrule.results.batch import Batch

    documents = all(path.suffix.lower() == ".json" for path in options.files)
    if documents and options.row is None:
        explanations = [read_explanation(path) for path in options.files]
        return _attach_data(explanations, options), [path.stem for path in options.files]
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
    listed = ", ".join(repr(str(path)) for path in options.files)
    if len(options.files) == 2 and options.row is None:
        listed += " without --row"
    absent = [path for path in options.files if not path.exists()]
    return InputError(
        expected="a report needs explanations (.json), the folder of a batch, or MODEL, DATA and --row",
        got=listed,
        hint=f"check the path: {str(absent[0])!r} does not exist" if absent else "see ironrule report --help",
    )


def _attach_data(explanations: Sequence[Explanation], options: argparse.Namespace) -> Sequence[Explanation]:
    """The explanations with past rows attached, where the data is given."""
    from ironrule.model.categories import restore_categories
    from ironrule.space.table import read_table

    if options.data is None:
        if options.space:
            raise InputError("--space needs --data, whose values it describes")
        return explanations
    constraints = [one for one in shared.parse_constraints(options) if not one.mentions_instance]
    data = read_data(options.data, options.target)
    if options.model is not None:
        data = restore_categories(load_model(options.model, options.trust, options.trust_pickle), data)
    names, attached = set(read_table(data).names), []
    for one in explanations:
        space = read_space(options, data, list(one.instance) if names.issuperset(one.instance) else None)
        attached.append(one.with_history(data, replace(space, constraints=(*space.constraints, *constraints))))
    return attached

"""ironrule report: an explanation as one HTML file, for the person it is about or for whoever must vouch for it.

From what ironrule explain has written; several explanations make one report of all of them:

  ironrule report why.json --output why.html
  ironrule report why.json --voice validator --model model.skops --data loans.csv --output why.html

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

from ironrule.cli import explain
from ironrule.cli import options as shared
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer
    from ironrule.explain import Explanation
    from ironrule.report.reports import Voice
    from ironrule.space import Constraint

NAME, HELP = "report", "write an explanation as an HTML report"
VOICES = ("person", "validator")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "files", metavar="FILE", type=Path, nargs="+", help="explanations as JSON; a batch's folder; or MODEL and DATA"
    )
    group = parser.add_argument_group("report")
    group.add_argument("--output", metavar="FILE", type=Path, required=True, help="the report (.html)")
    shared.add_overwrite(group)
    group.add_argument(
        "--voice", choices=VOICES, help="default: person; of several explanations: validator, which has an overview"
    )
    group = parser.add_argument_group("what an explanation from a file was made with")
    group.add_argument("--data", metavar="DATA", type=Path, help="the past rows: pictures show them, labels come along")
    group.add_argument("--model", metavar="MODEL", type=Path, help="the model: the command to check again names it")
    shared.add_space(parser.add_argument_group("data"))
    shared.add_decision(parser.add_argument_group("model"))
    shared.add_row(parser, required=False)
    shared.add_search(parser)
    shared.add_rule(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Answer:
    """Read the explanations, or explain; write the report."""
    from ironrule.cli.answer import Answer
    from ironrule.cli.checking_command import recheck_of
    from ironrule.cli.show import report_view
    from ironrule.report.reports import batch_report, explanation_report

    output = _output(options)
    explanations, names = _explanations(options)
    alone = len(explanations) == 1 and not options.files[0].is_dir()
    voice: Voice = options.voice or ("person" if alone else "validator")
    if alone:
        named = options.files[0].name if options.row is None else None
        recheck = recheck_of(options) if named is None else recheck_of(options, named)
        text = explanation_report(explanations[0], voice, recheck)
    else:
        text = batch_report(explanations, voice, names)
    told = {"output": str(output), "voice": voice, "verdicts": [_word(one) for one in explanations]}
    return Answer(report_view(told), lambda: told, output, text)


def _word(explanation: Explanation) -> str:
    from ironrule.report.text import verdict_word

    return verdict_word(explanation.verdict)


def _output(options: argparse.Namespace) -> Path:
    from ironrule.cli.answer import check_output

    output = check_output(options, (".html",))
    assert output is not None
    return output


def _explanations(options: argparse.Namespace) -> tuple[Sequence[Explanation], list[str]]:
    """What to report, and how each is called."""
    from ironrule.explain import Batch

    documents = all(path.suffix.lower() == ".json" for path in options.files)
    if documents and options.row is None:
        return _with_data(_from_files(options.files), options), [path.stem for path in options.files]
    if len(options.files) == 1 and options.files[0].is_dir() and options.row is None:
        batch = Batch.open(options.files[0])
        return _with_data(batch, options), [f"row {row}" for row in batch.rows]
    if documents or len(options.files) != 2 or options.row is None:
        raise _nothing_to_report(options)
    if options.data or options.model:
        raise InputError("--data and --model are for explanations from files and cannot be combined with --row")
    options.model, options.data = options.files
    return [explain.explained(options)], []


def _nothing_to_report(options: argparse.Namespace) -> InputError:
    given = ", ".join(repr(str(path)) for path in options.files)
    if len(options.files) == 2 and options.row is None:
        given += " without --row"
    absent = [path for path in options.files if not path.exists()]
    return InputError(
        expected="a report needs explanations (.json), the folder of a batch, or MODEL, DATA and --row",
        got=given,
        hint=f"check the path: {str(absent[0])!r} does not exist" if absent else "see ironrule report --help",
    )


def _from_files(paths: Sequence[Path]) -> list[Explanation]:
    from ironrule.cli.stored import stored_explanation

    return [stored_explanation(path) for path in paths]


def _with_data(found: Sequence[Explanation], options: argparse.Namespace) -> Sequence[Explanation]:
    """The explanations with the past rows behind them, where the data is given."""
    from ironrule.cli.files import read_data

    if options.data is None:
        alone = [name for name in ("space", "intervals") if getattr(options, name)]
        if alone:
            raise InputError(f"--{alone[0]} needs --data, whose values it describes")
        return found
    if options.intervals:
        from ironrule.cli.intervals import with_intervals

        return with_intervals(found, options)
    constraints = [one for one in shared.constraints_of(options) if not one.mentions_instance]
    data = read_data(options.data, options.target)
    return [_with_history(one, data, constraints, options) for one in found]


def _with_history(
    explanation: Explanation, data: object, constraints: list[Constraint], options: argparse.Namespace
) -> Explanation:
    from ironrule.cli.question import space_of
    from ironrule.space import read_table

    known = [name for name in explanation.instance if name in read_table(data).names]
    space = space_of(options, data, known if len(known) == len(explanation.instance) else None)
    space = space.extended(explanation.instance) if options.extend_domain else space
    return explanation.with_history(data, replace(space, constraints=(*space.constraints, *constraints)))

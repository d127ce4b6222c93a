"""ironrule report: write an explanation as one HTML or PDF file, for the person it is about or for a validator.

From files that ironrule explain has written; several files make one report:

  ironrule report why.json --output why.html
  ironrule report why.json --audience validator --model model.skops --data loans.csv --output why.html

From a batch, that is, the folder that ironrule batch has written:

  ironrule report explained --output all.html
  ironrule report explained --row 17 --output 17.html

Notices to send, from ladders or from a batch with ladders:

  ironrule report ladder.json --audience notice --language de --output notice.html
  ironrule report explained --audience notice --people people.csv --output notices.html

For a new explanation, with the options of ironrule explain:

  ironrule report model.skops loans.csv --row 17 --target status --desired paid --output why.html
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.commands import explain
from ironrule.cli.files import load_model, read_data
from ironrule.cli.inputs import parse_row, read_labels, read_space
from ironrule.cli.notices import add_notice_options, build_notice_options, build_report_options
from ironrule.cli.output import CommandResult, check_output_path
from ironrule.errors import InputError
from ironrule.report.pdf import import_weasyprint, render_pdf
from ironrule.results.audience import LADDER_AUDIENCES, Audience, LadderAudience

if TYPE_CHECKING:
    from ironrule.results.batch import Batch
    from ironrule.results.explanation import Explanation
    from ironrule.results.ladder import Ladder
    from ironrule.results.notice import NoticeOptions
    from ironrule.results.report_options import ReportOptions
    from ironrule.space.space import Space


NAME, HELP = "report", "write an explanation as an HTML or PDF report"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    text = "explanations or ladders as JSON; a batch's folder; or MODEL and DATA"
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help=text)
    group = parser.add_argument_group("report")
    group.add_argument("--output", metavar="FILE", type=Path, required=True, help="the report (.html, .pdf)")
    shared.add_overwrite_option(group)
    text = "default: person; for several explanations: validator, with an overview; notice: of ladders, to be sent"
    group.add_argument("--audience", choices=LADDER_AUDIENCES, help=text)
    group = parser.add_argument_group("letters and notices")
    group.add_argument("--reasons", metavar="N", type=int, help="the largest number of reasons in a notice (default 4)")
    add_notice_options(group)
    text = "values for single letters of a batch (.csv with the column row)"
    group.add_argument("--people", metavar="FILE", type=Path, help=text)
    group = parser.add_argument_group("what an explanation from a file was made with")
    group.add_argument("--data", metavar="DATA", type=Path, help="the past rows, for pictures and labels")
    group.add_argument(
        "--model", metavar="MODEL", type=Path, help="the model, for score, outcomes and the command that checks"
    )
    shared.add_space_options(parser.add_argument_group("data"))
    shared.add_desired_and_trust_options(parser.add_argument_group("model"))
    shared.add_row_option(parser, required=False)
    shared.add_search_options(parser)
    shared.add_rule_options(parser)
    shared.add_change_cost_options(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the explanations or ladders, or explain; write the report."""
    output = check_output_path(options, (".html", ".pdf"))
    assert output is not None  # the option is required
    is_pdf = output.suffix.lower() == ".pdf"
    if is_pdf:
        import_weasyprint()
    notice = build_notice_options(options, options.reasons)
    reported = _collect_reported(options)
    audience: LadderAudience = options.audience or ("person" if reported.is_single else "validator")
    _check_audience(audience, options)
    document = None if is_pdf else output  # a page has its explanation attached
    report = build_report_options(options, reported.document or document)
    if audience == "notice" or reported.ladders is not None:
        text = _render_ladders(reported, audience, notice, report)
    else:
        text = _render_explanations(reported, audience, report)
    verdicts = _name_verdicts(reported, audience, notice)
    data = {"output": str(output), "audience": audience, "verdicts": verdicts}
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())
    title = "Notice" if audience == "notice" else f"Report for the {audience}"
    summary = f"{title}: {output} ({counts if len(verdicts) > 1 else verdicts[0]})"
    return CommandResult(summary, lambda: data, output, render_pdf(text) if is_pdf else text)


def _check_audience(audience: LadderAudience, options: argparse.Namespace) -> None:
    """Raise InputError if a template is given for a report that has a form of its own."""
    if audience == "validator" and options.template is not None and "template" not in options.project_options:
        expected = "--template must come with --audience person or notice"
        hint = "the report for the validator has a form of its own"
        raise InputError(expected=expected, got="--audience validator", hint=hint)


@dataclass(frozen=True, slots=True)
class _Reported:
    """What is reported: explanations by name; or ladders, each with its explanation, by name and row number."""

    explanations: Sequence[Explanation]
    names: Sequence[str]
    is_single: bool
    ladders: Sequence[Ladder] | None = None
    rows: Sequence[int] = ()
    space: Space | None = None
    document: Path | None = None  # the file of the one explanation, where there is one


def _name_verdicts(reported: _Reported, audience: LadderAudience, notice: NoticeOptions) -> list[str]:
    """The verdict of the rule that each report leads with: letters and notices of ladders may lead with a short one."""
    from ironrule.report.text import get_verdict_name

    if reported.ladders is None or audience == "validator":
        return [get_verdict_name(one.verdict) for one in reported.explanations]
    if audience == "person":
        return [get_verdict_name(ladder.short.verdict) for ladder in reported.ladders]
    rungs = [ladder.find_reason_rung(notice.most) or ladder.last for ladder in reported.ladders]
    return [get_verdict_name(rung.verdict) for rung in rungs]


def _render_explanations(reported: _Reported, audience: Audience, report: ReportOptions) -> str:
    from ironrule.report.audiences import render_batch_report, render_report

    if reported.is_single:
        return render_report(reported.explanations[0], audience, report)
    rows = reported.rows or None
    return render_batch_report(reported.explanations, audience, reported.names, report=report, rows=rows)


def _render_ladders(reported: _Reported, audience: LadderAudience, notice: NoticeOptions, report: ReportOptions) -> str:
    from ironrule.report.audiences import ReportedLadders, render_ladder_batch_report, render_ladder_report

    if reported.ladders is None:
        hint = "make one with: ironrule ladder MODEL DATA --row N --output ladder.json, or ironrule batch --ladders"
        raise InputError("a notice needs a ladder, or a batch with ladders", hint=hint, code="notice-needs-ladder")
    if reported.is_single:
        return render_ladder_report(reported.ladders[0], audience, notice, report)
    many = ReportedLadders(reported.ladders, reported.rows, reported.names, reported.space)
    return render_ladder_batch_report(many, audience, notice, report)


def _collect_reported(options: argparse.Namespace) -> _Reported:
    """What is to be reported, from files or explained now."""
    from ironrule.results.batch import Batch
    from ironrule.results.ladder import Ladder

    documents = bool(options.files) and all(path.suffix.lower() == ".json" for path in options.files)
    if documents or any(path.is_dir() for path in options.files):
        _refuse_change_cost(options)
    if documents and options.row is None:
        return _read_documents(options)
    if len(options.files) == 1 and options.files[0].is_dir():
        batch = Batch.open(options.files[0])
        if options.row is not None:
            return _select_row(batch, options)
        names, explanations = [f"row {row}" for row in batch.rows], _attach_data(batch, options)
        ladders = None
        if options.audience in ("person", "notice") and batch.has_ladders:
            ladders = _replace_explanations(batch.ladders(), explanations, options)
        space = batch.space if options.space is None else None
        return _Reported(explanations, names, is_single=False, ladders=ladders, rows=batch.rows, space=space)
    from_project = not options.files and options.row is not None and {"model", "data"} <= options.project_options
    if not from_project:
        if documents or len(options.files) != 2 or options.row is None:
            raise _build_input_error(options)
        if any(getattr(options, name) and name not in options.project_options for name in ("data", "model")):
            raise InputError("--data and --model are for explanations from files and cannot be combined with --row")
        options.model, options.data = options.files
    found = explain.explain_row(options, has_short_rule=options.audience in (None, "person"))
    if isinstance(found, Ladder):
        return _Reported([found.explanation], [], is_single=True, ladders=[found])
    return _Reported([found], [], is_single=True)


def _refuse_change_cost(options: argparse.Namespace) -> None:
    """Raise InputError for a cost of changes where these were found before, and are only read."""
    if options.change_cost is not None and "change_cost" not in options.project_options:
        expected = "a cost of changes must come with MODEL, DATA and --row: others were found when they were explained"
        hint = "give it to ironrule explain, or with --changes to ironrule batch"
        raise InputError(expected=expected, got="explanations from files", hint=hint, code="usage")


def _select_row(batch: Batch, options: argparse.Namespace) -> _Reported:
    """One row of a batch."""
    row = parse_row(options.row)
    if not isinstance(row, int):
        raise InputError(expected="a row of a batch must be a row number", got=options.row)
    found = _attach_data([batch.get_explanation(row)], options)
    if options.audience == "validator" or not batch.has_ladders:
        return _Reported(found, [], is_single=True)
    ladders = _replace_explanations([batch.get_ladder(row)], found, options)
    return _Reported(found, [], is_single=True, ladders=ladders)


def _read_documents(options: argparse.Namespace) -> _Reported:
    """The explanations or the ladders in JSON files."""
    from ironrule.cli.saved import read_saved
    from ironrule.results.ladder import Ladder

    saved, names = [read_saved(path) for path in options.files], [path.stem for path in options.files]
    ladders = [one for one in saved if isinstance(one, Ladder)]
    explanations = _attach_data([one.explanation if isinstance(one, Ladder) else one for one in saved], options)
    is_single = len(saved) == 1
    document = options.files[0] if is_single else None
    if not ladders:
        return _Reported(explanations, names, is_single, document=document)
    if len(ladders) < len(saved):
        raise InputError("a report must be of ladders alone or of explanations alone, got both")
    attached = _replace_explanations(ladders, explanations, options)
    rows = range(len(saved))
    return _Reported(explanations, names, is_single, ladders=attached, rows=rows, document=document)


def _replace_explanations(
    ladders: Iterable[Ladder], explanations: Iterable[Explanation], options: argparse.Namespace
) -> list[Ladder]:
    """The ladders with their explanations as they are after past rows were attached, where they were."""
    if options.data is None:
        return list(ladders)
    return [replace(ladder, explanation=one) for ladder, one in zip(ladders, explanations, strict=True)]


def _build_input_error(options: argparse.Namespace) -> InputError:
    listed = ", ".join(repr(str(path)) for path in options.files) or "no file"
    if len(options.files) == 2 and options.row is None:
        listed += " without --row"
    absent = [path for path in options.files if not path.exists()]
    return InputError(
        expected="a report needs explanations or ladders (.json), the folder of a batch, or MODEL, DATA and --row",
        got=listed,
        hint=f"check the path: {str(absent[0])!r} does not exist" if absent else "see ironrule report --help",
    )


def _attach_data(explanations: Sequence[Explanation], options: argparse.Namespace) -> Sequence[Explanation]:
    """The explanations with past rows attached, where the data is given; to one for the validator the model, too."""
    from ironrule.model.categories import restore_categories
    from ironrule.space.table import read_table

    if options.data is None:
        if options.space:
            raise InputError("--space needs --data, whose values it describes")
        labels = read_labels(options)
        return [one.with_labels(labels.extend(one.labels)) for one in explanations] if labels else explanations
    constraints = [one for one in shared.parse_constraints(options) if not one.mentions_instance]
    data, model = read_data(options.data, options.target), None
    if options.model is not None:
        model = load_model(options.model, options.trust, options.trust_pickle)
        data = restore_categories(model, data)
    names, attached = set(read_table(data).names), []
    for one in explanations:
        space = read_space(options, data, list(one.instance) if names.issuperset(one.instance) else None)
        space = replace(space, constraints=(*space.constraints, *constraints))
        if model is not None and options.audience == "validator" and len(explanations) == 1:
            attached.append(_attach_model(one, model, data, space, options))
        else:
            attached.append(one.with_history(data, space))
    return attached


def _attach_model(
    explanation: Explanation, model: Any, data: Any, space: Space, options: argparse.Namespace
) -> Explanation:
    """The explanation with the past rows and what the model says of them; raises InputError for another model."""
    from ironrule.explain.explainer import Explainer

    others = [load_model(path, options.trust, options.trust_pickle) for path in getattr(options, "models", ())]
    decision = explanation.decision
    if len(others) + 1 != explanation.model_count:
        return explanation.with_history(data, space)
    explainer = Explainer(
        model,
        data,
        desired=decision.desired_argument,
        threshold=decision.threshold,
        space=space,
        margin=decision.margin,
        models=others,
        domain="seen" if explanation.breakpoints is None else options.domain,
        progress=False,
    )
    return explanation.with_history(explainer)

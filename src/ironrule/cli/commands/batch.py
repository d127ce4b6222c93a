"""ironrule batch: explain every row that a model gives the undesired outcome, on all processors.

Finished rows are written to a folder as Parquet. If the work is interrupted, run the same command again to continue:

  ironrule batch model.skops loans.csv --desired paid --output denials/
  ironrule batch model.skops loans.csv --rows tonight.csv --desired paid --output tonight/
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ironrule.cli import options as shared
from ironrule.cli.errors import CommandInterrupted
from ironrule.cli.files import read_data
from ironrule.cli.inputs import read_files
from ironrule.cli.output import CommandResult
from ironrule.errors import InputError
from ironrule.interrupts import CommandSignals, get_exit_code
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.explain.ladder import LadderOptions
    from ironrule.results.batch import Batch


NAME, HELP = "batch", "explain every denied row, on all processors"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_cache_option(parser)
    group = parser.add_argument_group("batch")
    text = "the folder for finished rows, new or continued"
    group.add_argument("--output", metavar="FOLDER", type=Path, required=True, help=text)
    group.add_argument("--rows", metavar="FILE", type=Path, help="the rows to explain (default: all rows of DATA)")
    group.add_argument("--workers", metavar="N", type=int, help="number of processes (default: one per processor)")
    group.add_argument("--engine", choices=("local", "ray"), default="local", help="default: this machine")
    group.add_argument("--address", metavar="ADDRESS", help="address of a Ray cluster (default: start one here)")
    text = "give a row the proven rule of an earlier row that covers it, without a search"
    group.add_argument("--reuse", action="store_true", help=text)
    group.add_argument("--changes", action="store_true", help="suggest changes too, for letters; takes longer")
    text = "explain every row by short rules too, for notices (see ironrule ladder)"
    group.add_argument("--ladders", action="store_true", help=text)
    text = "most bounds of a short rule (default 6)"
    group.add_argument("--most", metavar="N", type=int, help=text)
    text = "rows to measure short rules on (default: half of DATA)"
    group.add_argument("--measure", metavar="FILE", type=Path, help=text)
    group.add_argument("--no-documents", action="store_true", help="keep the table only, without proofs")
    shared.add_search_options(parser)
    shared.add_rule_options(parser)
    shared.add_change_cost_options(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, explain the rows."""
    with end_soon_after_signal():
        return _explain_rows(options)


def _explain_rows(options: argparse.Namespace) -> CommandResult:
    from ironrule.model.categories import restore_categories

    if not options.changes and "change_cost" in options.project_options:  # it is there for other commands
        options.change_cost = None
    search, constraints = shared.build_search_options(options), shared.parse_constraints(options)
    ladders = _build_ladder_options(options)
    files = read_files(options)
    rows = None if options.rows is None else restore_categories(files.model, read_data(options.rows))
    explainer = files.build_explainer(options, constraints)
    with add_resume_hint(options.output):
        batch = explainer.explain_many(
            rows,
            output=options.output,
            workers=options.workers,
            engine=options.engine,
            address=options.address,
            documents=not options.no_documents,
            changes=options.changes,
            reuse=options.reuse,
            ladders=ladders,
            **search.to_kwargs(),
        )
    return CommandResult(str(batch), lambda: build_summary(batch))


def _build_ladder_options(options: argparse.Namespace) -> LadderOptions | Literal[False]:
    from ironrule.explain.ladder import LadderOptions

    if not options.ladders:
        if "measure" in options.project_options:  # it is there for other commands
            options.measure = None
        if options.most is not None or options.measure is not None:
            raise InputError("--most and --measure are for ladders", hint="add --ladders")
        return False
    return LadderOptions() if options.most is None else LadderOptions(most=options.most)


@contextlib.contextmanager
def end_soon_after_signal() -> Iterator[None]:
    """Within this block the process ends soon after a signal, even if a library does not let it end in order."""
    signals = CommandSignals.active
    with contextlib.nullcontext() if signals is None else signals.limit_delay(_end_process):
        yield


def _end_process(signal_number: int) -> None:
    with contextlib.suppress(OSError):  # its reader has ended
        os.write(2, b"error: interrupted; run the same command again\n")
    os._exit(get_exit_code(signal_number))


@contextlib.contextmanager
def add_resume_hint(folder: Path) -> Iterator[None]:
    """An interrupt inside says how many rows are finished, and how to continue."""
    from ironrule.results.batch_folder import BatchFolder

    try:
        yield
    except KeyboardInterrupt:
        try:
            manifest, done = BatchFolder(folder).manifest(), BatchFolder(folder).count_listed_rows()
        except InputError:  # it has not begun
            done = 0
        if not done:
            raise CommandInterrupted("interrupted before a row was finished", "run the same command again") from None
        share = f"{done:,} of {format_count(manifest['to_explain'], 'denied row')}"
        raise CommandInterrupted(
            f"interrupted: {share} explained and safe in {str(folder)!r}", "run the same command again for the others"
        ) from None


def build_summary(batch: Batch) -> dict[str, Any]:
    """A batch in figures, as plain data."""
    cover = batch.find_rule_cover()
    rules = [asdict(rule) for rule in cover.rules]
    covering = {"rules": rules, "minimum": cover.minimum, "lower_bound": cover.lower_bound}
    return {"explained": len(batch), **batch.counts, "verdicts": dict(batch.verdicts), "rule_cover": covering}

"""ironrule batch: explain every row that a model gives the undesired outcome, on all processors.

Finished rows are written to a folder as Parquet. If the work is interrupted, run the same command again to continue:

  ironrule batch model.skops loans.csv --desired paid --output denials/
  ironrule batch model.skops loans.csv --rows tonight.csv --desired paid --output tonight/
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.errors import CommandInterrupted
from ironrule.cli.files import read_data
from ironrule.cli.inputs import read_files
from ironrule.cli.output import CommandResult
from ironrule.errors import InputError
from ironrule.wording import format_count

if TYPE_CHECKING:
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
    text = "give a row that another row's proven rule covers that rule, without a search"
    group.add_argument("--reuse", action="store_true", help=text)
    group.add_argument("--changes", action="store_true", help="suggest changes too, for letters; takes longer")
    group.add_argument("--no-documents", action="store_true", help="keep the table only, without proofs")
    shared.add_search_options(parser)
    shared.add_rule_options(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, explain the rows."""
    from ironrule.model.categories import restore_categories

    search, constraints = shared.build_search_options(options), shared.parse_constraints(options)
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
            **search.to_kwargs(),
        )
    return CommandResult(str(batch), lambda: build_summary(batch))


@contextlib.contextmanager
def add_resume_hint(folder: Path) -> Iterator[None]:
    """An interrupt inside says how many rows are finished, and how to continue."""
    from ironrule.results.batch import Batch

    try:
        yield
    except KeyboardInterrupt:
        try:
            found = Batch.open(folder)
        except InputError:  # no row is finished
            raise CommandInterrupted("interrupted before a row was finished", "run the same command again") from None
        done = f"{len(found):,} of {format_count(found.counts['to_explain'], 'denied row')}"
        raise CommandInterrupted(
            f"interrupted: {done} explained and safe in {str(folder)!r}", "run the same command again for the others"
        ) from None


def build_summary(batch: Batch) -> dict[str, Any]:
    """A batch in figures, as plain data."""
    cover = batch.find_rule_cover()
    rules = [asdict(rule) for rule in cover.rules]
    covering = {"rules": rules, "minimum": cover.minimum, "lower_bound": cover.lower_bound}
    return {"explained": len(batch), **batch.counts, "verdicts": dict(batch.verdicts), "rule_cover": covering}

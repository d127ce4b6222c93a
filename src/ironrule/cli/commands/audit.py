"""ironrule audit: read the log of every explanation that a server has given.

  ironrule audit verify                             # check the chain of hashes from the first record to the last
  ironrule audit verify --head HASH                 # and check that it contains a hash that you kept
  ironrule audit export --output log.jsonl          # everything, with certificates; .csv: without
  ironrule audit show 17 --output why.json          # one explanation, for ironrule check

Exit codes of verify: 0 the chain is whole, 1 it is broken.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.commands.serve import AUDIT_HELP, get_audit_url
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.errors import InputError, MissingExtraError
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.server.audit.log import AuditLog


NAME, HELP = "audit", "verify or export a server's audit log"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("what", choices=("verify", "export", "show"), help="what to do")
    parser.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="of the record to show")
    parser.add_argument("--audit", metavar="URL", help=AUDIT_HELP)
    parser.add_argument("--head", metavar="HASH", help="a hash that must be in the chain")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where to write: .jsonl or .csv; show: .json")
    shared.add_overwrite_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Open the log, then verify, export or show."""
    try:
        from ironrule.server.audit.log import AuditLog
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sqlalchemy", "server", "ironrule audit") from None
    with contextlib.closing(AuditLog(get_audit_url(options), create=False)) as log:
        return {"verify": _verify_log, "export": _export_records, "show": _show_record}[options.what](options, log)


def _verify_log(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    found = log.verify(options.head)
    data = {"intact": found.flaw is None, "records": found.count, "head": found.head, "flaw": found.flaw}
    text = f"The chain is whole: {format_count(found.count, 'record')}. Keep the last hash elsewhere:\n{found.head}"
    if found.flaw is not None:
        before = format_count(found.count, "record is", "records are")
        text = f"The chain is broken: {found.flaw}. Before that, {before} whole."
    return CommandResult(text, lambda: data, code=0 if found.flaw is None else 1)


def _export_records(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    from ironrule.server.audit.record import export_csv, export_json_lines

    output = check_output_path(options, (".jsonl", ".csv"))
    if output is None:
        raise InputError("audit export needs a file to write to", hint="add --output, such as --output log.jsonl")
    as_csv = output.suffix.lower() == ".csv"
    count = -1 if as_csv else 0  # the header of a CSV is no record
    with output.open("w", encoding="utf-8", newline="") as file:
        for line in (export_csv if as_csv else export_json_lines)(log.records()):
            file.write(line)
            count += 1
    data = {"records": count, "output": str(output)}
    return CommandResult(f"{format_count(count, 'record')} in {output}.", lambda: data)


def _show_record(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    output = check_output_path(options, (".json",))
    if options.number is None:
        raise InputError("audit show needs the number of a record", hint="such as: ironrule audit show 17")
    record = log.read(options.number)
    if record is None:
        hint = f"the log has {format_count(log.get_last_number(), 'record')}"
        raise InputError(f"not found: record {options.number}", hint=hint)
    facts: dict[str, Any] = record.facts
    text = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return CommandResult(text, lambda: facts | {"document": record.document}, output, format_json_file(record.document))

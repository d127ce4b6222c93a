"""ironrule audit: look at the log of every explanation that a server has given.

  ironrule audit verify                             # follow the chain of hashes from the first record to the last
  ironrule audit verify --head HASH                 # and see that a hash you kept is still in it
  ironrule audit export --output log.jsonl          # everything, with certificates; .csv for the facts alone
  ironrule audit show 17 --output why.json          # one explanation, for ironrule check

Exit codes of verify: 0 the chain is whole, 1 it is not.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.commands.serve import AUDIT_VARIABLE, DEFAULT_AUDIT_URL
from ironrule.errors import InputError, MissingExtraError
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.cli.output import CommandResult
    from ironrule.server.audit.log import AuditLog


NAME, HELP = "audit", "verify or export a server's audit log"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("what", choices=("verify", "export", "show"), help="what to do")
    parser.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="of the record to show")
    parser.add_argument(
        "--audit", metavar="URL", help=f"the audit log (default {DEFAULT_AUDIT_URL}; or {AUDIT_VARIABLE})"
    )
    parser.add_argument("--head", metavar="HASH", help="a hash that must be in the chain")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where to write: .jsonl or .csv; show: .json")
    shared.add_overwrite_option(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Open the log, do what is asked."""
    try:
        from ironrule.server.audit.log import AuditLog
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sqlalchemy", "server", "ironrule audit") from None
    url = options.audit or os.environ.get(AUDIT_VARIABLE) or DEFAULT_AUDIT_URL
    log = AuditLog(url, create=False)
    try:
        return {"verify": _verify_log, "export": _export_records, "show": _show_record}[options.what](options, log)
    finally:
        log.close()


def _verify_log(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    from rich.text import Text

    from ironrule.cli.output import CommandResult

    found = log.verify(options.head)
    data = {"intact": found.flaw is None, "records": found.count, "head": found.head, "flaw": found.flaw}
    told = f"The chain is whole: {format_count(found.count, 'record')}. Keep the last hash elsewhere:\n{found.head}"
    if found.flaw is not None:
        before = format_count(found.count, "record is", "records are")
        told = f"The chain is broken: {found.flaw}. Before that, {before} whole."
    return CommandResult(Text(told), lambda: data, code=0 if found.flaw is None else 1)


def _export_records(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    from rich.text import Text

    from ironrule.cli.output import CommandResult, check_output_path
    from ironrule.server.audit.record import export_csv, export_json_lines

    output = check_output_path(options, (".jsonl", ".csv"))
    if output is None:
        raise InputError("audit export needs a file to write to", hint="add --output, such as --output log.jsonl")
    lines = export_csv(log.records()) if output.suffix.lower() == ".csv" else export_json_lines(log.records())
    count = 0
    with output.open("w", encoding="utf-8", newline="") as file:
        for line in lines:
            file.write(line)
            count += 1
    count -= output.suffix.lower() == ".csv"
    return CommandResult(
        Text(f"{format_count(count, 'record')} in {output}."), lambda: {"records": count, "output": str(output)}
    )


def _show_record(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    from rich.text import Text

    from ironrule.cli.output import CommandResult, check_output_path, format_json_file

    output = check_output_path(options, (".json",))
    if options.number is None:
        raise InputError("audit show needs the number of a record", hint="such as: ironrule audit show 17")
    record = log.read(options.number)
    if record is None:
        raise InputError(
            f"not found: record {options.number}", hint=f"the log has {format_count(log.get_last_number(), 'record')}"
        )
    facts: dict[str, Any] = record.facts
    told = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return CommandResult(
        Text(told), lambda: facts | {"document": record.document}, output, format_json_file(record.document)
    )

"""ironrule audit: the log of every explanation that a server has given.

  ironrule audit verify                             # check the chain from the first record to the last
  ironrule audit verify --heads heads.txt           # and that it contains the heads that were written elsewhere
  ironrule audit verify --head HASH                 # and that it contains a hash that you kept
  ironrule audit export --output log.jsonl          # everything, with certificates; .csv: without
  ironrule audit show 17 --output why.json          # one explanation, for ironrule check
  ironrule audit key --output audit.key             # a new key; without --output: which key is in use
  ironrule audit create --audit postgresql://...    # table and triggers, by the role that is to own them

Exit codes of verify: 0 the chain is whole, 1 it is broken.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.commands.serve import AUDIT_HELP, AUDIT_KEY_HELP, get_audit_key_file, get_audit_url
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.errors import InputError, MissingExtraError
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.server.audit.log import AuditLog, ChainVerification


NAME, HELP = "audit", "verify or export a server's audit log"
MAX_LISTED = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("what", choices=("verify", "export", "show", "create", "key"), help="what to do")
    parser.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="of the record to show")
    parser.add_argument("--audit", metavar="URL", help=AUDIT_HELP)
    parser.add_argument("--audit-key", metavar="FILE", type=Path, help=AUDIT_KEY_HELP)
    parser.add_argument("--head", metavar="HASH", help="a hash that must be in the chain")
    text = "a file of heads, all of which must be in the chain; may be repeated"
    parser.add_argument("--heads", metavar="FILE", type=Path, action="append", default=[], help=text)
    parser.add_argument("--output", metavar="FILE", type=Path, help="where to write: .jsonl or .csv; show: .json")
    shared.add_overwrite_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Open the log, then do what is asked."""
    try:
        from ironrule.server.audit.log import AuditLog
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sqlalchemy", "server", "ironrule audit") from None
    if options.what == "key":
        return _make_or_name_key(options)
    if options.what == "create":
        return _create_log(options)
    key_file = get_audit_key_file(options)
    with contextlib.closing(AuditLog(get_audit_url(options), create=False, key_file=key_file)) as log:
        return {"verify": _verify_log, "export": _export_records, "show": _show_record}[options.what](options, log)


def _make_or_name_key(options: argparse.Namespace) -> CommandResult:
    from ironrule.server.audit.key import create_key, open_key

    if options.output is None:
        key, path = open_key(get_audit_key_file(options), create=False)
        text = f"The key {key.id} is in {path}."
    else:
        key, path = create_key(options.output), options.output
        text = f"A new key, {key.id}, is in {path}. Keep a copy: without it the log cannot be verified."
    data = {"key_id": key.id, "file": str(path)}
    return CommandResult(text, lambda: data)


def _create_log(options: argparse.Namespace) -> CommandResult:
    from ironrule.server.audit.database import LogDatabase

    with contextlib.closing(LogDatabase(get_audit_url(options), create=True)) as created:
        display_url, is_new, flaw = created.display_url, created.is_new, created.flaws.table or created.flaws.triggers
    if flaw is not None:
        raise InputError(f"there is an audit log already, and {flaw}", hint="see ironrule audit verify")
    done = "now has" if is_new else "already has"
    text = f"{display_url} {done} an audit log."
    if display_url.startswith("postgresql"):
        grant = "GRANT SELECT, INSERT ON ironrule_audit TO ..."
        text += f" Let the server's role append to it, and no more:\n{grant}"
    data = {"audit": display_url, "created": is_new}
    return CommandResult(text, lambda: data)


def _verify_log(options: argparse.Namespace, log: AuditLog) -> CommandResult:
    found = log.verify(options.head, options.heads)
    data = {"intact": found.flaw is None, "records": found.count, "head": found.head, "flaw": found.flaw}
    if options.heads:
        listed = {"without_head": list(found.without_head), "without_head_count": found.without_head_count}
        data |= {"heads": found.heads, **listed}
    text = _describe_verification(found, bool(options.heads))
    return CommandResult(text, lambda: data, code=0 if found.flaw is None else 1)


def _describe_verification(found: ChainVerification, with_heads: bool) -> str:
    if found.flaw is not None:
        return f"The log is broken: {found.flaw}. {format_count(found.count, 'record')} before that can be trusted."
    whole = f"The chain is whole: {format_count(found.count, 'record')}."
    if not with_heads:
        return f"{whole} Keep the last hash elsewhere:\n{found.head}"
    lines = [f"{whole} {format_count(found.heads, 'head agrees', 'heads agree')} with it."]
    if found.without_head:
        listed = ", ".join(map(str, found.without_head[:MAX_LISTED]))
        rest = ", ..." if found.without_head_count > MAX_LISTED else ""
        missing = format_count(found.without_head_count, "record has", "records have")
        lines.append(f"{missing} no head, though earlier ones have: {listed}{rest}.")
    return "\n".join([*lines, found.head])


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

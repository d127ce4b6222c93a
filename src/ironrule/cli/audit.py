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
from ironrule.cli.serve import AUDIT, DEFAULT_AUDIT
from ironrule.counting import counted
from ironrule.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer
    from ironrule.server.audit import AuditLog

NAME, HELP = "audit", "verify or export a server's audit log"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("what", choices=("verify", "export", "show"), help="what to do")
    parser.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="of the record to show")
    parser.add_argument("--audit", metavar="URL", help=f"the audit log (default {DEFAULT_AUDIT}; or {AUDIT})")
    parser.add_argument("--head", metavar="HASH", help="a hash that must be in the chain")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where to write: .jsonl or .csv; show: .json")
    shared.add_overwrite(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Answer:
    """Open the log, do what is asked."""
    try:
        from ironrule.server.audit import AuditLog
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "sqlalchemy", "server", "ironrule audit") from None
    url = options.audit or os.environ.get(AUDIT) or DEFAULT_AUDIT
    log = AuditLog(url, create=False)
    try:
        return {"verify": _verify, "export": _export, "show": _show}[options.what](options, log)
    finally:
        log.close()


def _verify(options: argparse.Namespace, log: AuditLog) -> Answer:
    from rich.text import Text

    from ironrule.cli.answer import Answer

    found = log.verify(options.head)
    data = {"whole": found.flaw is None, "records": found.count, "head": found.head, "flaw": found.flaw}
    told = f"The chain is whole: {counted(found.count, 'record')}. Keep the last hash elsewhere:\n{found.head}"
    if found.flaw is not None:
        told = (
            f"The chain is broken: {found.flaw}. Before that, {counted(found.count, 'record is', 'records are')} whole."
        )
    return Answer(Text(told), lambda: data, code=0 if found.flaw is None else 1)


def _export(options: argparse.Namespace, log: AuditLog) -> Answer:
    from rich.text import Text

    from ironrule.cli.answer import Answer, check_output
    from ironrule.server.audit.export import as_csv, as_json_lines

    output = check_output(options, (".jsonl", ".csv"))
    if output is None:
        raise InputError("audit export needs a file to write to", hint="add --output, such as --output log.jsonl")
    lines = as_csv(log.records()) if output.suffix.lower() == ".csv" else as_json_lines(log.records())
    count = 0
    with output.open("w", encoding="utf-8", newline="") as file:
        for line in lines:
            file.write(line)
            count += 1
    count -= output.suffix.lower() == ".csv"
    return Answer(Text(f"{counted(count, 'record')} in {output}."), lambda: {"records": count, "output": str(output)})


def _show(options: argparse.Namespace, log: AuditLog) -> Answer:
    from rich.text import Text

    from ironrule.cli.answer import Answer, check_output, json_text

    output = check_output(options, (".json",))
    if options.number is None:
        raise InputError("audit show needs the number of a record", hint="such as: ironrule audit show 17")
    record = log.read(options.number)
    if record is None:
        raise InputError(f"not found: record {options.number}", hint=f"the log has {counted(log.count_to(), 'record')}")
    facts: dict[str, Any] = record.facts
    told = "\n".join(f"{name}: {value}" for name, value in facts.items())
    return Answer(Text(told), lambda: facts | {"document": record.document}, output, json_text(record.document))

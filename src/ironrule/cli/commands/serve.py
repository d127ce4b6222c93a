"""ironrule serve: a web page and an HTTP API for one model, with an audit log of every explanation given.

Without a model, the German credit data that comes with Ironrule is served. Only this machine can reach the server
unless --host says otherwise, and then a token is needed:

  ironrule serve --model model.skops --data loans.csv --target status --desired paid
  IRONRULE_TOKEN=... ironrule serve --model model.skops --data loans.csv --host 0.0.0.0 --audit postgresql://user@host/db
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.files import require_file
from ironrule.cli.inputs import read_files
from ironrule.cli.output import CommandResult
from ironrule.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ironrule.server.served_model import ServedModel
    from ironrule.server.settings import ServerSettings


NAME, HELP = "serve", "serve a web page and an HTTP API for a model"
TOKEN_VARIABLE, AUDIT_VARIABLE = "IRONRULE_TOKEN", "IRONRULE_AUDIT"
DEFAULT_AUDIT_URL = "sqlite:///ironrule-audit.sqlite"
AUDIT_HELP = f"the audit log (default {DEFAULT_AUDIT_URL}; or {AUDIT_VARIABLE})"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="MODEL", type=Path, help="a fitted model: .skops, .onnx, or .pkl if trusted")
    shared.add_desired_and_trust_options(group)
    shared.add_robustness_options(group)
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, help="past rows: .csv, .csv.gz, .tsv or .parquet")
    shared.add_space_options(group)
    shared.add_constraint_option(group)
    _add_server_options(parser.add_argument_group("server"))


def _add_server_options(group: argparse._ActionsContainer) -> None:
    group.add_argument("--host", metavar="HOST", default="127.0.0.1", help="where to listen (default: this machine)")
    group.add_argument("--port", metavar="PORT", type=int, default=8000, help="default 8000; 0 takes a free one")
    text = f"required of every client; {TOKEN_VARIABLE} hides it from other users"
    group.add_argument("--token", metavar="TOKEN", help=text)
    group.add_argument("--tokens", metavar="FILE", type=Path, help="one 'name token' per line; the log has the names")
    group.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a host name of this server")
    group.add_argument("--audit", metavar="URL", help=AUDIT_HELP)
    group.add_argument("--seconds", metavar="S", type=float, default=60.0, help="limit of one explanation (default 60)")
    group.add_argument("--workers", metavar="N", type=int, help="explanations at the same time (default: one per core)")
    group.add_argument("--access-log", action="store_true", help="write every request's address to standard error")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, then serve until Ctrl-C."""
    try:
        from ironrule.server.app import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "server", "ironrule serve") from None
    settings = _build_settings(options)
    served_model = _build_demo() if options.model is None and options.data is None else _build_served_model(options)
    served = serve(served_model, settings, options.access_log)
    return CommandResult(f"Explanations given: {served:,}.", lambda: {"explanations": served})


def get_audit_url(options: argparse.Namespace) -> str:
    """Where the audit log is: the option, else the variable, else the default."""
    return options.audit or os.environ.get(AUDIT_VARIABLE) or DEFAULT_AUDIT_URL


def _build_settings(options: argparse.Namespace) -> ServerSettings:
    from ironrule.server.settings import ServerLimits, ServerSettings

    chosen: dict[str, Any] = {} if options.workers is None else {"workers": options.workers}
    return ServerSettings(
        host=options.host,
        port=options.port,
        tokens=_read_tokens(options),
        host_names=tuple(options.allow_host),
        audit=get_audit_url(options),
        limits=ServerLimits(seconds=options.seconds, **chosen),
    )


def _read_tokens(options: argparse.Namespace) -> dict[str, str]:
    """The tokens with the names of their owners, from the file and from --token."""
    found: dict[str, str] = {}
    if options.tokens is not None:
        path = require_file(options.tokens, "tokens file", "write one 'name token' per line to it")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, secret = line.strip().partition(" ")
            if name and not secret.strip():
                expected, got = "every line of the tokens file must be 'name token'", "a line with one word"
                raise InputError(expected=expected, got=got, hint="add the name of the token's owner")
            if name:
                found[secret.strip()] = name
    single = options.token or os.environ.get(TOKEN_VARIABLE)
    return found | ({single: "token"} if single else {})


def _build_demo() -> ServedModel:
    from ironrule.cli.commands.demo import DESIRED_CLASS, build_demo_model
    from ironrule.server.served_model import ServedModel

    model, data, space = build_demo_model()
    title = "German credit: 1,000 loans, decided by a decision tree (bundled data)"
    return ServedModel.from_model(model, data, title, {"space": space}, desired=DESIRED_CLASS)


def _build_served_model(options: argparse.Namespace) -> ServedModel:
    from ironrule.server.served_model import ServedModel

    if options.model is None or options.data is None:
        got = f"{'--data' if options.model is None else '--model'} alone"
        hint = "leave out both to serve the bundled data"
        raise InputError(expected="--model and --data must be given together", got=got, hint=hint)
    constraints, files = shared.parse_constraints(options), read_files(options)
    return ServedModel.from_model(
        files.model,
        files.data,
        f"{options.model.name} on {options.data.name}",
        {"space": files.space, "constraints": constraints, "models": files.models},
        domain=options.domain,
        desired=files.desired,
        threshold=options.threshold,
        margin=options.margin,
    )

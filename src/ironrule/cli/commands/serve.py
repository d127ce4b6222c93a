"""ironrule serve: a web page and an HTTP API for one model, with an audit log of every explanation given.

Without a model, the German credit data that comes with Ironrule is served. Only this machine can reach the server
unless --host says otherwise, and then a token is needed. A tokens file has a name, a token and a role per line: ask may
do everything, read may read the log and check, check may check explanations. It may change while the server runs:

  ironrule serve --model model.skops --data loans.csv --target status --desired paid
  ironrule serve --model credit.ironrule
  IRONRULE_TOKEN=... ironrule serve --model model.skops --data loans.csv --host 0.0.0.0 --audit postgresql://user@host/db
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.commands.demo import DESIRED_CLASS, build_demo_model
from ironrule.cli.files import require_file
from ironrule.cli.inputs import is_saved_explainer, read_files, require_saved_explainer
from ironrule.cli.output import CommandResult
from ironrule.errors import InputError, MissingExtraError, describe_value
from ironrule.space.labels import Labels

if TYPE_CHECKING:
    from ironrule.server.served_model import ServedModel
    from ironrule.server.settings import ServerSettings


NAME, HELP = "serve", "serve a web page and an HTTP API for a model"
OBJECTS_PER_COLLECTION = 100_000
TOKEN_VARIABLE, AUDIT_VARIABLE = "IRONRULE_TOKEN", "IRONRULE_AUDIT"
DEFAULT_AUDIT_URL = "sqlite:///ironrule-audit.sqlite"
AUDIT_HELP = f"the audit log (default {DEFAULT_AUDIT_URL}; or {AUDIT_VARIABLE})"
AUDIT_KEY_VARIABLE, AUDIT_HEADS_VARIABLE = "IRONRULE_AUDIT_KEY_FILE", "IRONRULE_AUDIT_HEADS"
AUDIT_KEY_HELP = f"the key of the log (default: one in your configuration folder; or {AUDIT_KEY_VARIABLE})"
AUDIT_HEADS_HELP = f"where the hash of every record is written too: a file, or syslog: (or {AUDIT_HEADS_VARIABLE})"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        type=Path,
        help="a fitted model: .skops, .onnx, .pmml, or .pkl if trusted; or a saved explainer: .ironrule (no --data)",
    )
    shared.add_desired_and_trust_options(group)
    shared.add_robustness_options(group)
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, help="past rows: .csv, .csv.gz, .tsv or .parquet")
    shared.add_space_options(group)
    shared.add_constraint_option(group)
    _add_server_options(parser.add_argument_group("server"))


def _add_server_options(group: argparse._ActionsContainer) -> None:
    text = "the title of the pages (default: the names of the files)"
    group.add_argument("--title", metavar="TEXT", help=text)
    group.add_argument("--host", metavar="HOST", default="127.0.0.1", help="where to listen (default: this machine)")
    group.add_argument("--port", metavar="PORT", type=int, default=8000, help="default 8000; 0 takes a free one")
    text = f"required of every client; {TOKEN_VARIABLE} hides it from other users"
    group.add_argument("--token", metavar="TOKEN", help=text)
    text = "one 'name token [role] [expires=2027-01-31]' per line; roles: ask (default), read, check"
    group.add_argument("--tokens", metavar="FILE", type=Path, help=text)
    group.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a host name of this server")
    group.add_argument("--audit", metavar="URL", help=AUDIT_HELP)
    group.add_argument("--audit-key", metavar="FILE", type=Path, help=AUDIT_KEY_HELP)
    group.add_argument("--audit-heads", metavar="FILE", help=AUDIT_HEADS_HELP)
    group.add_argument("--seconds", metavar="S", type=float, default=60.0, help="limit of one explanation (default 60)")
    text = "limit of the work on one batch (default 3600)"
    group.add_argument("--batch-seconds", metavar="S", type=float, default=3600.0, help=text)
    text = "a browser that is not used for so long must log in again (default 60)"
    group.add_argument("--idle-minutes", metavar="M", type=float, default=60.0, help=text)
    text = "a browser must log in again after so long in any case (default 12)"
    group.add_argument("--session-hours", metavar="H", type=float, default=12.0, help=text)
    text = "explanations at the same time (default: one per core, and at least 2)"
    group.add_argument("--workers", metavar="N", type=int, help=text)
    group.add_argument("--access-log", action="store_true", help="write every request's address to standard error")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, then serve until Ctrl-C."""
    try:
        from ironrule.server.app import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "server", "ironrule serve") from None
    settings = _build_settings(options)
    title = _parse_title(options.title)
    is_demo = options.model is None and options.data is None
    served_model = _build_demo(title) if is_demo else _build_served_model(options, title)
    gc.set_threshold(OBJECTS_PER_COLLECTION)  # a server makes garbage as long as it runs
    served = serve(served_model, settings, options.access_log)
    return CommandResult(f"Explanations given: {served:,}.", lambda: {"explanations": served})


def get_audit_url(options: argparse.Namespace) -> str:
    """Where the audit log is: the option, else the variable, else the default."""
    return options.audit or os.environ.get(AUDIT_VARIABLE) or DEFAULT_AUDIT_URL


def get_audit_key_file(options: argparse.Namespace) -> Path | None:
    """Where the key of the log is: the option, else the variable; None means the default."""
    named = os.environ.get(AUDIT_KEY_VARIABLE)
    return options.audit_key or (Path(named) if named else None)


def _build_settings(options: argparse.Namespace) -> ServerSettings:
    from ironrule.server.settings import ServerLimits, ServerSettings

    chosen: dict[str, Any] = {} if options.workers is None else {"workers": options.workers}
    limits = ServerLimits(
        seconds=options.seconds,
        batch_seconds=options.batch_seconds,
        session_idle_seconds=options.idle_minutes * 60,
        session_seconds=options.session_hours * 3600,
        **chosen,
    )
    return ServerSettings(
        host=options.host,
        port=options.port,
        tokens=_get_single_token(options),
        tokens_file=_find_tokens_file(options),
        host_names=tuple(options.allow_host),
        audit=get_audit_url(options),
        audit_key=get_audit_key_file(options),
        audit_heads=options.audit_heads or os.environ.get(AUDIT_HEADS_VARIABLE) or None,
        limits=limits,
    )


def _get_single_token(options: argparse.Namespace) -> dict[str, str]:
    """The token of --token or of the variable; an empty one is an error, never a server without tokens."""
    given = options.token if options.token is not None else os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return {}
    if not given.strip():
        origin = "--token" if options.token is not None else TOKEN_VARIABLE
        hint = f"leave out {origin} to serve this machine without a token"
        raise InputError(expected=f"{origin} must be a token", got="an empty text", hint=hint)
    return {given: "token"}


def _find_tokens_file(options: argparse.Namespace) -> Path | None:
    if options.tokens is None:
        return None
    return require_file(options.tokens, "tokens file", "write one 'name token' per line to it")


MAX_TITLE_LENGTH = 80


def _parse_title(text: str | None) -> str | None:
    """A title of one line, or None."""
    if text is None:
        return None
    if not text.strip() or len(text) > MAX_TITLE_LENGTH or not text.isprintable():
        expected = f"--title must be one line of at most {MAX_TITLE_LENGTH} characters"
        raise InputError(expected=expected, got=describe_value(text))
    return text.strip()


def _build_demo(title: str | None) -> ServedModel:
    from ironrule.data import load_german_labels
    from ironrule.server.served_model import ServedModel

    model, data, space = build_demo_model()
    space = space.with_labels(Labels.from_dict(load_german_labels()))
    usual = "German credit: 1,000 loans, decided by a decision tree (bundled data)"
    return ServedModel.from_model(model, data, title or usual, {"space": space}, desired=DESIRED_CLASS)


def _build_served_model(options: argparse.Namespace, title: str | None) -> ServedModel:
    from ironrule.server.served_model import ServedModel

    if is_saved_explainer(options.model):
        constraints = shared.parse_constraints(options)
        path = require_saved_explainer(options)
        return ServedModel.from_saved_file(path, title or f"{path.name}, without its model", constraints)
    if options.model is None or options.data is None:
        got = f"{'--data' if options.model is None else '--model'} alone"
        hint = "leave out both to serve the bundled data"
        raise InputError(expected="--model and --data must be given together", got=got, hint=hint)
    constraints, files = shared.parse_constraints(options), read_files(options)
    return ServedModel.from_model(
        files.model,
        files.data,
        title or f"{options.model.name} on {options.data.name}",
        {"space": files.space, "constraints": constraints, "models": files.models},
        domain=options.domain,
        desired=files.desired,
        threshold=options.threshold,
        margin=options.margin,
    )

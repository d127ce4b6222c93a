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
from ironrule.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ironrule.cli.output import CommandResult
    from ironrule.server.served_model import ServedModel
    from ironrule.server.settings import ServerSettings


NAME, HELP = "serve", "serve a web page and an HTTP API for a model"
TOKEN_VARIABLE, AUDIT_VARIABLE = "IRONRULE_TOKEN", "IRONRULE_AUDIT"
DEFAULT_AUDIT_URL = "sqlite:///ironrule-audit.sqlite"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="MODEL", type=Path, help="a fitted model: .skops, .onnx, or .pkl if trusted")
    group.add_argument("--desired", metavar="LABEL", nargs="+", action="extend", help="the desired class, or several")
    group.add_argument("--threshold", metavar="T", type=float, help="desired means a score above T")
    shared.add_trust_options(group)
    shared.add_robustness_options(group)
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, help="past rows: .csv, .csv.gz, .tsv or .parquet")
    shared.add_space_options(group)
    shared.add_constraint_option(group)
    _add_server_options(parser.add_argument_group("server"))
    shared.add_json_option(parser)


def _add_server_options(group: argparse._ActionsContainer) -> None:
    group.add_argument("--host", metavar="HOST", default="127.0.0.1", help="where to listen (default: this machine)")
    group.add_argument("--port", metavar="PORT", type=int, default=8000, help="default 8000; 0 takes a free one")
    group.add_argument(
        "--token", metavar="TOKEN", help=f"who asks must bring it; better in {TOKEN_VARIABLE}, unseen by others"
    )
    group.add_argument("--tokens", metavar="FILE", type=Path, help="one 'name token' per line: the log has the names")
    group.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a name the server has")
    group.add_argument(
        "--audit", metavar="URL", help=f"the audit log (default {DEFAULT_AUDIT_URL}; or {AUDIT_VARIABLE})"
    )
    group.add_argument("--seconds", metavar="S", type=float, default=60.0, help="most for one explanation (60)")
    group.add_argument("--workers", metavar="N", type=int, help="explanations at a time (default: one per core)")
    group.add_argument("--access-log", action="store_true", help="write every request's address to standard error")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, then serve until Ctrl-C."""
    from rich.text import Text

    from ironrule.cli.output import CommandResult

    try:
        from ironrule.server.app import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "server", "ironrule serve") from None
    settings = _build_settings(options)
    served_model = _build_demo() if options.model is None and options.data is None else _build_served_model(options)
    served = serve(served_model, settings, options.access_log)
    return CommandResult(Text(f"Explanations given: {served:,}."), lambda: {"explanations": served})


def _build_settings(options: argparse.Namespace) -> ServerSettings:
    from ironrule.server.settings import ServerLimits, ServerSettings

    chosen: dict[str, Any] = {} if options.workers is None else {"workers": options.workers}
    return ServerSettings(
        host=options.host,
        port=options.port,
        tokens=_read_tokens(options),
        host_names=tuple(options.allow_host),
        audit=options.audit or os.environ.get(AUDIT_VARIABLE) or DEFAULT_AUDIT_URL,
        limits=ServerLimits(seconds=options.seconds, **chosen),
    )


def _read_tokens(options: argparse.Namespace) -> dict[str, str]:
    """Secrets with the names of their owners; the file first."""
    found: dict[str, str] = {}
    if options.tokens is not None:
        path = require_file(options.tokens, "tokens file", "write one 'name token' per line to it")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, secret = line.strip().partition(" ")
            if name and not secret.strip():
                raise InputError(
                    expected="every line of the tokens file must be 'name token'",
                    got="a line with one word",
                    hint="add the name of the token's owner",
                )
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
    from ironrule.cli.files import load_model, parse_desired, read_data
    from ironrule.cli.inputs import find_model_columns, read_space
    from ironrule.server.served_model import ServedModel

    if options.model is None or options.data is None:
        raise InputError(
            expected="--model and --data must be given together",
            got=f"{'--data' if options.model is None else '--model'} alone",
            hint="leave out both to serve the bundled data",
        )
    model = load_model(options.model, options.trust, options.trust_pickle)
    data = read_data(options.data, options.target)
    both = {
        "space": read_space(options, data, find_model_columns(model)),
        "constraints": shared.parse_constraints(options),
        "models": [load_model(path, options.trust, options.trust_pickle) for path in options.models],
        "intervals": options.intervals,
    }
    wanted = {
        "desired": parse_desired(options.desired, model),
        "threshold": options.threshold,
        "margin": options.margin,
    }
    return ServedModel.from_model(model, data, f"{options.model.name} on {options.data.name}", both, **wanted)

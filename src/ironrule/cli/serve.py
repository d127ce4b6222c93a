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
from ironrule.cli.existing import existing
from ironrule.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer
    from ironrule.server.settings import Settings
    from ironrule.server.subject import Subject

NAME, HELP = "serve", "serve a web page and an HTTP API for a model"
TOKEN, AUDIT = "IRONRULE_TOKEN", "IRONRULE_AUDIT"
DEFAULT_AUDIT = "sqlite:///ironrule-audit.sqlite"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="MODEL", type=Path, help="a fitted model: .skops, .onnx, or .pkl if trusted")
    group.add_argument("--desired", metavar="LABEL", nargs="+", action="extend", help="the desired class, or several")
    group.add_argument("--threshold", metavar="T", type=float, help="desired means a score above T")
    shared.add_trust(group)
    shared.add_reach(group)
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, help="past rows: .csv, .csv.gz, .tsv or .parquet")
    shared.add_space(group)
    shared.add_constraint(group)
    _add_server(parser.add_argument_group("server"))
    shared.add_json(parser)


def _add_server(group: argparse._ActionsContainer) -> None:
    group.add_argument("--host", metavar="HOST", default="127.0.0.1", help="where to listen (default: this machine)")
    group.add_argument("--port", metavar="PORT", type=int, default=8000, help="default 8000; 0 takes a free one")
    group.add_argument("--token", metavar="TOKEN", help=f"who asks must bring it; better in {TOKEN}, unseen by others")
    group.add_argument("--tokens", metavar="FILE", type=Path, help="one 'name token' per line: the log has the names")
    group.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a name the server has")
    group.add_argument("--audit", metavar="URL", help=f"the audit log (default {DEFAULT_AUDIT}; or {AUDIT})")
    group.add_argument("--seconds", metavar="S", type=float, default=60.0, help="most for one explanation (60)")
    group.add_argument("--workers", metavar="N", type=int, help="explanations at a time (default: one per core)")
    group.add_argument("--access-log", action="store_true", help="write every request's address to standard error")


def run(options: argparse.Namespace) -> Answer:
    """Read the files, then serve until Ctrl-C."""
    from rich.text import Text

    from ironrule.cli.answer import Answer

    try:
        from ironrule.server.run import serve
        from ironrule.server.subject import Subject  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "server", "ironrule serve") from None
    settings = _settings(options)
    subject = _bundled() if options.model is None and options.data is None else _subject(options)
    served = serve(subject, settings, options.access_log)
    return Answer(Text(f"Explanations given: {served:,}."), lambda: {"explanations": served})


def _settings(options: argparse.Namespace) -> Settings:
    from ironrule.server.settings import Limits, Settings

    chosen: dict[str, Any] = {} if options.workers is None else {"workers": options.workers}
    return Settings(
        host=options.host,
        port=options.port,
        tokens=_tokens(options),
        names=tuple(options.allow_host),
        audit=options.audit or os.environ.get(AUDIT) or DEFAULT_AUDIT,
        limits=Limits(seconds=options.seconds, **chosen),
    )


def _tokens(options: argparse.Namespace) -> dict[str, str]:
    """Secrets with the names of their owners; the file first."""
    found: dict[str, str] = {}
    if options.tokens is not None:
        path = existing(options.tokens, "tokens file", "write one 'name token' per line to it")
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
    single = options.token or os.environ.get(TOKEN)
    return found | ({single: "token"} if single else {})


def _bundled() -> Subject:
    from ironrule.cli.demo import DESIRED, demo_model
    from ironrule.server.subject import Subject

    model, data, space = demo_model()
    title = "German credit: 1,000 loans, decided by a decision tree (bundled data)"
    return Subject.of(model, data, title, {"space": space}, desired=DESIRED)


def _subject(options: argparse.Namespace) -> Subject:
    from ironrule.cli.files import read_data
    from ironrule.cli.models import desired_of, read_model
    from ironrule.cli.question import columns_of, space_of
    from ironrule.server.subject import Subject

    if options.model is None or options.data is None:
        raise InputError(
            expected="--model and --data must be given together",
            got=f"{'--data' if options.model is None else '--model'} alone",
            hint="leave out both to serve the bundled data",
        )
    model = read_model(options.model, options.trust, options.trust_pickle)
    data = read_data(options.data, options.target)
    both = {
        "space": space_of(options, data, columns_of(model)),
        "constraints": shared.constraints_of(options),
        "models": [read_model(path, options.trust, options.trust_pickle) for path in options.models],
        "intervals": options.intervals,
    }
    wanted = {"desired": desired_of(options.desired, model), "threshold": options.threshold, "margin": options.margin}
    return Subject.of(model, data, f"{options.model.name} on {options.data.name}", both, **wanted)

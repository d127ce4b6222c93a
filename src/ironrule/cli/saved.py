"""Saved explanations: read them from files, and build the command that checks them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ironrule.cli.files import require_file
from ironrule.errors import InputError
from ironrule.report.attachments import read_attached_document
from ironrule.report.check_command import DATA_PLACEHOLDER, EXPLANATION_FILE, MODEL_PLACEHOLDER, CheckCommand

if TYPE_CHECKING:
    from ironrule.results.explanation import Explanation
    from ironrule.results.ladder import Ladder


T = TypeVar("T")
MAKE_ONE_HINT = "make one with: ironrule explain MODEL DATA --row N --output why.json"


def read_explanation(path: Path) -> Explanation:
    """The explanation in a file."""
    from ironrule.results.explanation import Explanation

    return parse_explanation_file(Explanation.from_json, path)


def read_saved(path: Path) -> Explanation | Ladder:
    """The explanation or the ladder in a file."""
    from ironrule.results.explanation import Explanation
    from ironrule.results.ladder import FORMAT_FIELD, Ladder

    def parse(text: str) -> Explanation | Ladder:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return Explanation.from_json(text)  # which says what is wrong with it
        is_ladder = isinstance(document, dict) and FORMAT_FIELD in document
        return Ladder.from_dict(document) if is_ladder else Explanation.from_dict(document)

    return parse_explanation_file(parse, path)


def parse_explanation_file(parse: Callable[[str], T], path: Path) -> T:
    """The contents of an explanation's file, or of the one attached to a validator's report, by ``parse``; raises
    InputError, with the file's name, if it fails.
    """
    require_file(path, "explanation", f"check the path, or {MAKE_ONE_HINT}")
    try:
        text = path.read_text(encoding="utf-8")
        return parse(read_attached_document(text) if path.suffix.lower() == ".html" else text)
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path.name} as an explanation: {error}", hint=MAKE_ONE_HINT) from None
    except InputError as error:
        other_version = error.code == "wrong-format" and str(error.got).isdecimal()
        raise InputError(
            f"cannot read {path.name} as an explanation: {error.statement}",
            expected=error.expected,
            got=error.got,
            hint=error.hint if other_version else MAKE_ONE_HINT,
            code=error.code,
        ) from None


def build_check_command(options: argparse.Namespace, explanation: str = EXPLANATION_FILE) -> CheckCommand:
    """The command with all options that the check needs; unknown files have a placeholder."""
    more: list[str] = []
    for name in ("target", "space", "threshold"):
        value = getattr(options, name, None)
        more += [] if value is None else [f"--{name}", str(value)]
    more += ["--margin", str(options.margin)] if getattr(options, "margin", 0.0) else []
    more += ["--trust-pickle"] if options.trust_pickle else []
    for name in ("desired", "constraint", "models", "trust"):
        values = getattr(options, name, None)
        more += [f"--{name}", *map(str, values)] if values else []
    model, data = str(options.model or MODEL_PLACEHOLDER), str(options.data or DATA_PLACEHOLDER)
    return CheckCommand(explanation, model, data, tuple(more))

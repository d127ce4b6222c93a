"""Saved explanations: read them from files, attach past rows to them, and build the command that checks them.

An explanation made with ``--intervals`` has every threshold of the model in its space, so attaching past rows to it
needs the model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ironrule.cli import options as shared
from ironrule.cli.files import require_file
from ironrule.cli.inputs import read_files
from ironrule.errors import InputError
from ironrule.report.validator import DATA_PLACEHOLDER, EXPLANATION_FILE, MODEL_PLACEHOLDER, CheckCommand

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.model.decision import DecisionTarget
    from ironrule.results.explanation import Explanation
    from ironrule.space.space import Space


T = TypeVar("T")
MAKE_ONE_HINT = "make one with: ironrule explain MODEL DATA --row N --output why.json"


def read_explanation(path: Path) -> Explanation:
    """The explanation in a file."""
    from ironrule.results.explanation import Explanation

    return parse_explanation_file(Explanation.from_json, path)


def parse_explanation_file(parse: Callable[[str], T], path: Path) -> T:
    """The contents of an explanation's file, by ``parse``; raises InputError, with the file's name, if it fails."""
    require_file(path, "explanation", f"check the path, or {MAKE_ONE_HINT}")
    try:
        return parse(path.read_text(encoding="utf-8"))
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


def attach_interval_history(explanations: Sequence[Explanation], options: argparse.Namespace) -> list[Explanation]:
    """The explanations with past rows attached; raises InputError without the model, which is read again."""
    if options.model is None:
        raise InputError(
            "--intervals needs --model, whose thresholds are part of the space",
            hint="add --model, or leave out --data and --intervals for a report without past rows",
        )
    constraints, files = shared.parse_constraints(options), read_files(options)

    def build_explainer(decision: DecisionTarget, space: Space) -> Explainer:
        made_with = argparse.Namespace(threshold=decision.threshold, margin=decision.margin, intervals=True)
        return replace(files, desired=decision.desired, space=space).build_explainer(made_with, constraints)

    if options.extend_domain:  # each has a space of its own
        extend = files.space.extend_domains
        return [one.with_history(build_explainer(one.decision, extend(one.instance))) for one in explanations]
    decisions = dict.fromkeys(one.decision for one in explanations)
    explainers = {decision: build_explainer(decision, files.space) for decision in decisions}
    return [one.with_history(explainers[one.decision]) for one in explanations]


def build_check_command(options: argparse.Namespace, explanation: str = EXPLANATION_FILE) -> CheckCommand:
    """The command with all options that the check needs; unknown files have a placeholder."""
    more: list[str] = []
    for name in ("target", "space", "threshold"):
        value = getattr(options, name, None)
        more += [] if value is None else [f"--{name}", str(value)]
    more += ["--margin", str(options.margin)] if getattr(options, "margin", 0.0) else []
    for name in ("extend_domain", "intervals", "trust_pickle"):
        more += [f"--{name.replace('_', '-')}"] if getattr(options, name) else []
    for name in ("desired", "constraint", "models", "trust"):
        values = getattr(options, name, None)
        more += [f"--{name}", *map(str, values)] if values else []
    model, data = str(options.model or MODEL_PLACEHOLDER), str(options.data or DATA_PLACEHOLDER)
    return CheckCommand(explanation, model, data, tuple(more))

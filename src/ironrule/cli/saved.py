"""Saved explanations: read them from files, attach past rows to them, and name the command that checks them.

An explanation made with ``--intervals`` has every threshold of the model in its space, so its past rows can only be
attached with the model at hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ironrule.cli import options as shared
from ironrule.cli.files import require_file
from ironrule.errors import InputError
from ironrule.report.validator import DATA_PLACEHOLDER, EXPLANATION_FILE, MODEL_PLACEHOLDER, CheckCommand

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.model.decision import DecisionTarget
    from ironrule.results.explanation import Explanation


T = TypeVar("T")
MAKE_ONE_HINT = "make one with: ironrule explain MODEL DATA --row N --output why.json"


def read_explanation(path: Path) -> Explanation:
    """The explanation in a file."""
    from ironrule.results.explanation import Explanation

    return parse_explanation_file(Explanation.from_json, path)


def parse_explanation_file(parse: Callable[[str], T], path: Path) -> T:
    """What a reader makes of an explanation's file; raises InputError, which names the file, if it cannot be read."""
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
    """The explanations with the past rows behind them; raises InputError without the model, which is read anew."""
    from ironrule.cli.files import load_model, read_data

    if options.model is None:
        raise InputError(
            "--intervals needs --model, whose thresholds are part of the space",
            hint="add --model, or leave out --data and --intervals for a report without past rows",
        )
    model, *others = [
        load_model(path, options.trust, options.trust_pickle) for path in (options.model, *options.models)
    ]
    data = read_data(options.data, options.target)
    made: dict[DecisionTarget, Explainer] = {}
    told = []
    for one in explanations:
        explainer = made.get(one.decision) or _build_interval_explainer(one, model, others, data, options)
        if not options.extend_domain:  # else each has a space of its own
            made[one.decision] = explainer
        told.append(one.with_history(explainer))
    return told


def _build_interval_explainer(
    explanation: Explanation, model: Any, others: list[Any], data: Any, options: argparse.Namespace
) -> Explainer:
    from ironrule.cli.inputs import find_model_columns, read_space
    from ironrule.explain.explainer import Explainer

    space, decision = read_space(options, data, find_model_columns(model)), explanation.decision
    return Explainer(
        model,
        data,
        desired=decision.desired,
        threshold=decision.threshold,
        space=space.extend_domains(explanation.instance) if options.extend_domain else space,
        constraints=shared.parse_constraints(options),
        margin=decision.margin,
        models=others,
        intervals=True,
    )


def build_check_command(options: argparse.Namespace, explanation: str = EXPLANATION_FILE) -> CheckCommand:
    """The check with all options that say what was explained; where files are not known, their place is named."""
    more: list[str] = []
    for name in ("target", "space", "threshold"):
        value = getattr(options, name, None)
        more += [] if value is None else [f"--{name}", str(value)]
    more += ["--margin", str(options.margin)] if getattr(options, "margin", 0.0) else []
    for name in ("keep_constant", "extend_domain", "intervals", "trust_pickle"):
        more += [f"--{name.replace('_', '-')}"] if getattr(options, name) else []
    for name in ("desired", "constraint", "models", "trust"):
        values = getattr(options, name, None)
        more += [f"--{name}", *map(str, values)] if values else []
    return CheckCommand(
        explanation, str(options.model or MODEL_PLACEHOLDER), str(options.data or DATA_PLACEHOLDER), tuple(more)
    )

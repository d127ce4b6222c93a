"""Past rows behind explanations that were made with intervals: their space has every threshold of the model in it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.explain import Explainer, Explanation
    from ironrule.model import Wanted


def with_intervals(found: Sequence[Explanation], options: argparse.Namespace) -> list[Explanation]:
    """The explanations with the past rows behind them; raises InputError without the model, which is read anew."""
    from ironrule.cli.files import read_data
    from ironrule.cli.models import read_model

    if options.model is None:
        raise InputError(
            "--intervals needs --model, whose thresholds are part of the space",
            hint="add --model, or leave out --data and --intervals for a report without past rows",
        )
    model, *others = [
        read_model(path, options.trust, options.trust_pickle) for path in (options.model, *options.models)
    ]
    data = read_data(options.data, options.target)
    made: dict[Wanted, Explainer] = {}
    told = []
    for one in found:
        explainer = made.get(one.decision) or _explainer(one, model, others, data, options)
        if not options.extend_domain:  # else each has a space of its own
            made[one.decision] = explainer
        told.append(one.with_history(explainer))
    return told


def _explainer(
    explanation: Explanation, model: Any, others: list[Any], data: Any, options: argparse.Namespace
) -> Explainer:
    from ironrule.cli.question import columns_of, space_of
    from ironrule.explain import Explainer

    space, decision = space_of(options, data, columns_of(model)), explanation.decision
    return Explainer(
        model,
        data,
        desired=decision.desired,
        threshold=decision.threshold,
        space=space.extended(explanation.instance) if options.extend_domain else space,
        constraints=shared.constraints_of(options),
        margin=decision.margin,
        models=others,
        intervals=True,
    )

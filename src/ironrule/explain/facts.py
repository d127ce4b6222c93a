"""The facts about an explainer that people see: what it explains, with which model, and what can be proven."""

from __future__ import annotations

from typing import Any

from ironrule.explain.context import ExplainerContext
from ironrule.model.decision import read_classes, resolve_desired_labels
from ironrule.rule.phrasing import is_named_outcome
from ironrule.wording import escape_controls, format_count, format_names

MAX_NAMED_CLASSES = 3


def list_facts(context: ExplainerContext) -> list[tuple[str, str]]:
    """The facts, each with its name."""
    space, reason, obstacles = context.space, context.unreadable_reason, context.obstacles
    desired, undesired = name_outcomes(context)
    rows, desired_rows = len(context.outcomes), int(context.outcomes.sum())
    ordered = sum(feature.ordered for feature in space.features)
    facts = [
        ("Model", " and ".join(name_model(model) for model in context.arguments.models)),
        ("Data", f"{format_count(rows, 'past row')}: {desired_rows:,} {desired}, {rows - desired_rows:,} {undesired}"),
        ("Space", f"{format_count(len(space), 'feature')}: {ordered} ordered, {len(space) - ordered} nominal"),
    ]
    facts += [("Only where", " and ".join(map(str, space.constraints)))] if space.constraints else []
    facts += [("Never used", format_names(context.unused_features))] if context.unused_features else []
    is_interval, seen = any(feature.interval for feature in space.features), format_names(tuple(obstacles))
    but = f", but of {seen} those seen" if obstacles else ""
    facts.append(("Numbers", f"any value in their range{but}" if is_interval else "the values seen"))
    can_prove = "yes: the model was read" if reason is None else f"no: the model can only be asked ({reason})"
    alone = [] if context.is_confirmed else [("Confirmed by the model", "no: the explainer was loaded without it")]
    return [*facts, ("Rules can be proven", can_prove), *alone]


def name_model(model: Any) -> str:
    """A model by its type; of a pipeline by that of its last step; of a function by its name."""
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return f"{type(model).__name__} ending in {type(steps[-1][1]).__name__}"
    return str(getattr(model, "__name__", type(model).__name__))


def name_outcomes(context: ExplainerContext) -> tuple[str, str]:
    """The desired and the undesired outcome: by their labels, by classes that have names, or else by these words."""
    labels, classes = context.space.labels, read_classes(context.arguments.models[0]) or ()
    desired = context.target.desired
    wanted = (resolve_desired_labels(desired, list(classes)) if classes else desired) or ()
    others = tuple(one for one in classes if one not in wanted)
    undesired = labels.get_undesired(context.model.primary.decision.undesired_name)
    return (
        escape_controls(labels.get_desired(wanted) or _name_classes(wanted) or "desired"),
        escape_controls(undesired or _name_classes(others) or "undesired"),
    )


def _name_classes(classes: tuple[object, ...]) -> str | None:
    """The classes by their names; None where one has none, such as a number, or they are many."""
    named = [one for one in classes if isinstance(one, str) and is_named_outcome(one)]
    return " or ".join(named) if 0 < len(named) == len(classes) <= MAX_NAMED_CLASSES else None

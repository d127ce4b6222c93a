"""What people call the two outcomes of a decision, on pages that show both."""

from __future__ import annotations

from ironrule.explain.context import ExplainerContext
from ironrule.model.decision import read_classes, resolve_desired_labels
from ironrule.rule.phrasing import is_named_outcome
from ironrule.wording import escape_controls

MAX_NAMED_CLASSES = 3


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

"""What a counterfactual may change: features to vary, permitted ranges and constraints, as boxes and constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ironrule.errors import InputError, describe_value
from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.rule.box import Box
from ironrule.rule.instance_components import InstanceComponents
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Reference, Subject, format_literal
from ironrule.space.feature import Feature, Value
from ironrule.space.space import as_constraint
from ironrule.space.table import VALUE_TYPES, is_listing, to_python_value


def list_changing_constraints(context: ExplainerContext, changes: ChangeOptions) -> list[Constraint]:
    """The constraints and the permitted ranges that come on top of the explainer's own."""
    limits = changes.permitted_range or {}
    ranges = [parse_constraint(format_range(context.space[name], values)) for name, values in limits.items()]
    return [*map(as_constraint, changes.constraints), *ranges]


def require_changeable(context: ExplainerContext, names: Sequence[str]) -> None:
    """Raise InputError if a feature is to vary that must not change by its declared role."""
    for name in names:
        role = context.space[name].role
        if role is not None and role.kind != "actionable":
            raise InputError(
                expected="features_to_vary must name features whose role lets them change",
                got=f"{name!r}, which is declared {role.kind}",
                hint="leave it out, or declare it actionable",
                code="unchangeable-feature",
            )


def build_change_box(components: InstanceComponents, names: Sequence[str] | None) -> Box:
    """The whole space, except that features which may not vary keep the instance's value."""
    box = components.box(0)
    if names is None:
        return box
    free = [components.space.index(name) for name in names]
    fixed = np.setdiff1d(np.arange(len(components.space)), free)
    low, high = box.low.copy(), box.high.copy()
    low[fixed] = high[fixed] = components.instance[fixed]
    return Box(low, high)


def format_range(feature: Feature, values: Sequence[Value]) -> str:
    """A permitted range as a constraint: lowest and highest for an ordered feature, a list of values otherwise."""
    must = f"the permitted range of {feature.name!r} must be"
    if not is_listing(values) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise InputError(expected=f"{must} a non-empty list", got=describe_value(values))
    odd = [value for value in map(to_python_value, values) if value is not None and not isinstance(value, VALUE_TYPES)]
    odd += [value for value in values if isinstance(value, int) and abs(value) >= 2**64]
    if odd:
        raise InputError(expected=f"{must} a list of single values", got=describe_value(odd[0]))
    name, literals = Reference(Subject.POINT, feature.name), [format_literal(value) for value in values]
    if not feature.ordered:
        return f"{name} in ({', '.join(literals)})"
    if len(values) != 2:
        raise InputError(expected=f"{must} [lowest, highest]", got=list(values))
    if any(value is None or value != value for value in values):  # missing
        raise InputError(expected=f"{must} [lowest, highest]", got=list(values), hint="use math.inf for no limit")
    # no number of a domain is infinite: an end that is limits nothing, except that what is missing has no place
    ends = [
        f"{name} {sign} {text}"
        for sign, text, end in zip((">=", "<="), literals, values, strict=True)
        if not _is_open(end)
    ]
    return " and ".join(ends) or f"{name} != missing"


def _is_open(end: Value) -> bool:
    return isinstance(end, float) and math.isinf(end)

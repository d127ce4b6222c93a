"""What a counterfactual may change, in the words that users of DiCE know: features to vary, permitted ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ironrule.errors import InputError
from ironrule.rule import Box, Relevant
from ironrule.space import Constraint, Feature, Space, Value, parse
from ironrule.space.plaf.syntax import Literal, Reference, Subject
from ironrule.space.table import as_python


def recourse_box(relevant: Relevant, features_to_vary: Sequence[str] | str) -> Box:
    """The whole space, except that features which may not vary keep the instance's value."""
    box = relevant.box(0)
    if features_to_vary == "all":
        return box
    names = [features_to_vary] if isinstance(features_to_vary, str) else features_to_vary
    free = [relevant.space.index(name) for name in names]
    fixed = np.setdiff1d(np.arange(len(relevant.space)), free)
    low, high = box.low.copy(), box.high.copy()
    low[fixed] = high[fixed] = relevant.instance[fixed]
    return Box(low, high)


def recourse_constraints(space: Space, permitted_range: Mapping[str, Sequence[Value]]) -> list[Constraint]:
    """Permitted ranges as constraints: lowest and highest for an ordered feature, a list of values otherwise."""
    return [parse(_as_text(space[name], values)) for name, values in permitted_range.items()]


def _as_text(feature: Feature, values: Sequence[Value]) -> str:
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise InputError(f"the permitted range of {feature.name!r} must be a list, but {values!r} came")
    name, literals = Reference(Subject.POINT, feature.name), [_literal(value) for value in values]
    if not feature.ordered:
        return f"{name} in ({', '.join(literals)})"
    if len(values) != 2:
        raise InputError(f"the permitted range of {feature.name!r} must be [lowest, highest], but {list(values)} came")
    return f"{name} >= {literals[0]} and {name} <= {literals[1]}"


def _literal(value: Value) -> str:
    plain = as_python(value)
    return str(Literal(plain if plain is None or isinstance(plain, (bool, int, float)) else str(plain)))

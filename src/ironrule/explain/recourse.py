"""What a counterfactual may change, in the words that users of DiCE know: features to vary, permitted ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from ironrule.errors import InputError
from ironrule.rule import Box, Relevant
from ironrule.space import Constraint, Feature, Space, Value, parse


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
    """Permitted ranges as constraints: lowest and highest for an ordered feature, a list of values for a nominal one."""
    return [parse(_as_text(space[name], values)) for name, values in permitted_range.items()]


def _as_text(feature: Feature, values: Sequence[Value]) -> str:
    name = f"cf[{json.dumps(feature.name)}]"
    if not feature.ordered:
        return f"{name} in ({', '.join(_literal(value) for value in values)})"
    if len(values) != 2:
        raise InputError(f"the permitted range of {feature.name!r} must be [lowest, highest], but {list(values)} came")
    return f"{name} >= {_literal(values[0])} and {name} <= {_literal(values[1])}"


def _literal(value: Value) -> str:
    return repr(value).lower() if isinstance(value, bool) else json.dumps(value, ensure_ascii=False, default=str)

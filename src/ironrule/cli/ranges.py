"""Permitted ranges as text: ``age=18:60`` for a feature with an order, ``job=clerk,cook`` for one without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.space import Feature, Space


def ranges_of(texts: Sequence[str], space: Space) -> dict[str, list[Any]]:
    """The permitted values per feature, in the feature's own type."""
    return dict(_range(text, space) for text in texts)


def _range(text: str, space: Space) -> tuple[str, list[Any]]:
    named = [name for name in space.names if text.startswith(f"{name}=")]  # a name may itself contain "="
    name = max(named, key=len, default=text.partition("=")[0])
    feature, values = space[name], text[len(name) + 1 :]
    if not values.strip():
        raise InputError(
            expected=f"a range must be written as feature=values, such as {name}={_example(feature)}", got=repr(text)
        )
    if values.lstrip().startswith("["):
        return name, _listed(name, values)
    return name, _between(feature, values) if feature.ordered else _among(feature, values)


def _listed(name: str, values: str) -> list[Any]:
    try:
        return list(json.loads(values))
    except json.JSONDecodeError as error:
        raise InputError(f"the range of {name!r} begins with [, but is not a JSON list: {error}") from None


def _between(feature: Feature, values: str) -> list[Any]:
    lowest, colon, highest = values.partition(":")
    if not colon:
        raise InputError(
            expected=f"the range of {feature.name!r} must be lowest:highest, such as {_example(feature)}",
            got=repr(values),
        )
    ends = (lowest.strip(), feature.values[0]), (highest.strip(), feature.values[-1])
    return [_value(feature, text) if text else end for text, end in ends]


def _among(feature: Feature, values: str) -> list[Any]:
    """The categories between the commas; a text that is a category as a whole is not cut."""
    whole = [value for value in feature.values if str(value) == values]
    return whole or [_value(feature, text.strip()) for text in values.split(",")]


def _value(feature: Feature, text: str) -> Any:
    known = {str(value): value for value in feature.values}
    if text in known:
        return known[text]
    if feature.ordered and feature.numeric:
        try:
            return float(text)
        except ValueError:
            pass
    raise InputError(expected=f"a value in the range of {feature.name!r} must be {feature.describe()}", got=repr(text))


def _example(feature: Feature) -> str:
    if feature.ordered:
        return f"{feature.values[0]}:{feature.values[-1]}" if feature.values else "1:2"
    return ",".join(map(str, feature.values[:2]))

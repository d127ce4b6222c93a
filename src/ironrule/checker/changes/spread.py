"""How far counterfactuals must lie apart that differ in value: the condition as constraints on a changed row.

A later counterfactual lies far enough from an earlier one if some feature that the earlier one changes is left as it is
in the row, or gets another category, or a number that is away from the earlier one's by at least the *spread*, a share
of the range of the feature. In whole numbers that means the next one as far away.

Nothing is taken from the search: the constraints are built from what the document lists as changed.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironrule.checker.document import JsonObject
from ironrule.checker.result import ClaimUndecided
from ironrule.checker.space.constraints import FormulaNode, ParsedConstraint
from ironrule.checker.space.space import CheckerFeature, CheckerSpace, value_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator


def build_spread_constraints(
    space: CheckerSpace, earlier: Sequence[JsonObject], spread: float
) -> tuple[ParsedConstraint, ...]:
    """What is far enough from every one of some counterfactuals; raises ClaimUndecided where a feature's numbers are
    not listed in their order, so that they have no range.
    """
    return tuple(_build_constraint(space, one["changes"], spread) for one in earlier)


def _build_constraint(space: CheckerSpace, changes: Sequence[JsonObject], spread: float) -> ParsedConstraint:
    names = [change["feature"] for change in changes]
    tests = [
        test
        for name, change in zip(names, changes, strict=True)
        for test in _list_tests(space.features[space.index(name)], value_from_json(change["after"]), spread)
    ]
    text = f"at least {spread:g} of the range away from another counterfactual"
    return ParsedConstraint(text, FormulaNode("or", tuple(tests), None, 0), frozenset(names), mentions_instance=True)


def _list_tests(feature: CheckerFeature, value: Any, spread: float) -> Iterator[FormulaNode]:
    """Conditions on one feature, of which one is enough."""
    own, missing = FormulaNode("row", (), feature.name, 0), _write_literal(None)
    if value is None:
        yield _compare(feature, "!=", missing)
        return
    yield _compare(feature, "==", own)
    if feature.missing:
        yield _compare(feature, "==", missing)
    if not feature.ordered or not feature.numeric:
        yield _compare(feature, "!=", _write_literal(value))
        return
    if not feature.naturally_ordered:
        raise ClaimUndecided(f"the numbers of {feature.name!r} are not listed in their order")
    step = spread * (feature.values[-1] - feature.values[0])
    below, above = value - step, value + step
    if feature.whole:
        below, above = math.floor(below), math.ceil(above)
    yield _compare(feature, "<=", _write_literal(below))
    yield _compare(feature, ">=", _write_literal(above))


def _compare(feature: CheckerFeature, how: str, other: FormulaNode) -> FormulaNode:
    return FormulaNode("compare", (FormulaNode("feature", (), feature.name, 0), other), (how,), 0)


def _write_literal(value: Any) -> FormulaNode:
    """A value as constraints write it: dates as texts."""
    plain = value.isoformat() if isinstance(value, datetime.date) else value
    return FormulaNode("literal", (), plain, 0)

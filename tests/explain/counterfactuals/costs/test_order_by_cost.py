"""The order of counterfactuals by what they cost."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from ironrule import Counterfactual
from ironrule.explain.counterfactuals.costs.by_cost import order_by_cost


@pytest.mark.parametrize("costs", [(1.0, 1.0 - 2**-52, 0.5), (1.0, 1.0, 2.0), (1.0, math.inf, 0.5)])
def test_what_changes_all_of_another_stays_before_it(costs: tuple[float, float, float]) -> None:
    """Rounding must not put the first of two behind the second, whose features it changes all."""
    by_features = dict(zip(("ab", "a", "c"), costs, strict=True))
    row = {"a": 0, "b": 0, "c": 0}
    items = [Counterfactual.from_values(row, {**row, **dict.fromkeys(names, 1)}) for names in by_features]
    measured: Any = SimpleNamespace(
        measure_row=lambda values: by_features["".join(name for name in "abc" if values[name])]
    )

    def list_features(**options: bool) -> list[str]:
        found = order_by_cost(items, measured, **options)
        return ["".join(change.feature for change in one.changes) for one in found]

    cheapest_first = sorted(
        (names for names in by_features if by_features[names] < math.inf), key=lambda names: by_features[names]
    )
    assert list_features() == cheapest_first
    kept = list_features(keeps_apart=True)
    assert sorted(kept) == sorted(cheapest_first)
    assert "a" not in kept or kept.index("ab") < kept.index("a")
    assert (kept[0] == "c") == (costs[2] == 0.5)

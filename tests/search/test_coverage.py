"""How many past rows rules cover, against looking at every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.oracle import ForestOracle
from ironrule.hitting.bits import pack_sets
from ironrule.oracles.protocol import Case
from ironrule.rule.kernels import has_more_matching_rows
from ironrule.search import problem
from ironrule.search.problem import count_covered, may_cover_more
from random_tree_sums import read_cases
from tiny_cases import subsets


@pytest.mark.parametrize(  # each rule reads all, always by duals, as it is, always rule by rule
    ("rows", "passes"), [(10**9, 2), (0, -1), (0, 2), (0, 10**9)]
)
@settings(deadline=None, max_examples=60)
@given(made=read_cases(), data=st.data())
def test_counts_are_those_of_looking_at_every_row(
    rows: int, passes: int, made: tuple[Case, ForestOracle], data: st.DataObject
) -> None:
    case, _ = made
    drawn = st.lists(st.integers(0, (1 << 2 * len(case.space)) - 1), max_size=6)
    rules = [rule & case.components.usable for rule in data.draw(drawn)]
    points = case.history.codes.points()
    expected = [int(case.components.box(rule).contains(points).sum()) for rule in rules]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "MAX_PASSES", passes)
        patch.setattr(problem, "MAX_ROWS_READ", rows)
        assert count_covered(case, rules) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_rows_in_which_some_of_every_set_holds_are_counted_whatever_the_type(dtype: type[np.unsignedinteger]) -> None:
    columns = [np.array([0, 1, 2, 3, 200], dtype=dtype), np.array([5, 5, 0, 0, 0], dtype=dtype)]
    places = np.array([column.ctypes.data for column in columns]), np.array([column.itemsize for column in columns])
    bounds = np.array([0, 2, 0, 5]), np.array([2, 255, 0, 255])  # a <= 2, a >= 2, b <= 0, b >= 5
    sets = pack_sets([0b0011, 0b1010], 2)  # all rows; those with a >= 2 or b >= 5
    assert has_more_matching_rows(places, bounds, sets, 5, 4)
    assert not has_more_matching_rows(places, bounds, sets, 5, 5)
    sets = pack_sets([0b0001, 0b1000], 2)  # the first three; the first two
    assert has_more_matching_rows(places, bounds, sets, 5, 1)
    assert not has_more_matching_rows(places, bounds, sets, 5, 2)


@settings(deadline=None, max_examples=200)
@given(made=read_cases(), data=st.data())
def test_a_rule_is_called_widest_only_if_no_rule_that_meets_the_demands_covers_more(
    made: tuple[Case, ForestOracle], data: st.DataObject
) -> None:
    case, _ = made
    usable, points = case.components.usable, case.history.codes.points()
    some = st.integers(0, (1 << 2 * len(case.space)) - 1).map(lambda drawn: drawn & usable)
    rule, sets = data.draw(some), data.draw(st.lists(some, max_size=4))
    covered = {one: int(case.components.box(one).contains(points).sum()) for one in subsets(usable)}
    demands = pack_sets(sets, len(case.space))
    meeting = [one for one in covered if all(one & demand for demand in sets)]
    below = points[:, [i // 2 for i in range(2 * len(case.space))]]
    holds = (below >= case.components.low) & (below <= case.components.high)
    bound = sum(all(any(row[i] for i in range(len(row)) if demand >> i & 1) for demand in sets) for row in holds)
    assert may_cover_more(case, rule, demands) == (bound > covered[rule])
    assert max((covered[one] for one in meeting), default=0) <= bound
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "MAX_ROWS_COMPARED", len(points) - 1)
        assert may_cover_more(case, rule, demands)

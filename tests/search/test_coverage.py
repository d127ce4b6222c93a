"""How many past rows rules cover, against looking at every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.oracles import Case, Ensemble
from ironrule.rule.bits import pack
from ironrule.rule.count_kernels import some_hold_in_more
from ironrule.search import coverage
from ironrule.search.coverage import coverages, may_be_wider
from readings import read_cases
from tiny import subsets


@pytest.mark.parametrize(  # each rule reads all, always by duals, as it is, always rule by rule
    ("few", "again"), [(10**9, 2), (0, -1), (0, 2), (0, 10**9)]
)
@settings(deadline=None, max_examples=60)
@given(made=read_cases(), data=st.data())
def test_coverages_are_those_of_looking_at_every_row(
    few: int, again: int, made: tuple[Case, Ensemble], data: st.DataObject
) -> None:
    case, _ = made
    drawn = st.lists(st.integers(0, (1 << 2 * len(case.space)) - 1), max_size=6)
    rules = [rule & case.relevant.usable for rule in data.draw(drawn)]
    points = case.history.codes.points()
    expected = [int(case.relevant.box(rule).contains(points).sum()) for rule in rules]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "READ_AGAIN", again)
        patch.setattr(coverage, "FEW_READ", few)
        assert coverages(case, rules) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_rows_in_which_some_of_every_set_holds_are_counted_whatever_the_type(dtype: type[np.unsignedinteger]) -> None:
    columns = [np.array([0, 1, 2, 3, 200], dtype=dtype), np.array([5, 5, 0, 0, 0], dtype=dtype)]
    places = np.array([column.ctypes.data for column in columns]), np.array([column.itemsize for column in columns])
    bounds = np.array([0, 2, 0, 5]), np.array([2, 255, 0, 255])  # a <= 2, a >= 2, b <= 0, b >= 5
    sets = pack([0b0011, 0b1010], 2)  # all rows; those with a >= 2 or b >= 5
    assert some_hold_in_more(places, bounds, sets, 5, 4)
    assert not some_hold_in_more(places, bounds, sets, 5, 5)
    sets = pack([0b0001, 0b1000], 2)  # the first three; the first two
    assert some_hold_in_more(places, bounds, sets, 5, 1)
    assert not some_hold_in_more(places, bounds, sets, 5, 2)


@settings(deadline=None, max_examples=200)
@given(made=read_cases(), data=st.data())
def test_a_rule_is_called_widest_only_if_no_rule_that_meets_the_demands_covers_more(
    made: tuple[Case, Ensemble], data: st.DataObject
) -> None:
    case, _ = made
    usable, points = case.relevant.usable, case.history.codes.points()
    some = st.integers(0, (1 << 2 * len(case.space)) - 1).map(lambda drawn: drawn & usable)
    rule, sets = data.draw(some), data.draw(st.lists(some, max_size=4))
    covered = {one: int(case.relevant.box(one).contains(points).sum()) for one in subsets(usable)}
    demands = pack(sets, len(case.space))
    meeting = [one for one in covered if all(one & demand for demand in sets)]
    below = points[:, [i // 2 for i in range(2 * len(case.space))]]
    holds = (below >= case.relevant.low) & (below <= case.relevant.high)
    bound = sum(all(any(row[i] for i in range(len(row)) if demand >> i & 1) for demand in sets) for row in holds)
    assert may_be_wider(case, rule, demands) == (bound > covered[rule])
    assert max((covered[one] for one in meeting), default=0) <= bound
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage, "FEW_LOOKED_AT", len(points) - 1)
        assert may_be_wider(case, rule, demands)

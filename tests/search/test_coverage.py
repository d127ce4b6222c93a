"""How many past rows rules cover, against looking at every row."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.oracles import Case, Ensemble
from ironrule.search import coverage
from ironrule.search.coverage import coverages
from readings import read_cases


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

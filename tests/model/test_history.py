"""The history: past rows, the desired ones among them, and how often every value occurs."""

import numpy as np

from ironrule.model import history, history_of
from ironrule.rule import Box
from ironrule.space import Codes, Feature, Space

SPACE = Space((Feature("a", (1, 2, 3), ordered=True), Feature("b", ("x", "y"), ordered=False, missing=True)))
CODES = Codes((np.array([0, 1, 2, 2], dtype=np.uint8), np.array([0, 2, 2, 0], dtype=np.uint8)))
OUTCOMES = np.array([False, True, True, False])


def test_a_history_knows_its_desired_rows_and_its_frequencies():
    past = history_of(SPACE, CODES, OUTCOMES)
    assert len(past) == 4
    assert past.desired.points().tolist() == [[1, 2], [2, 2]]
    assert past.seeds.tolist() == [[1, 2], [2, 2]]
    assert [counts.tolist() for counts in past.frequencies] == [[1, 1, 2], [2, 0, 2]]


def test_coverage_counts_the_rows_in_a_box():
    past = history_of(SPACE, CODES, OUTCOMES)
    assert past.coverage(Box(np.array([0, 0]), np.array([2, 2])), SPACE.sizes) == 4
    assert past.coverage(Box(np.array([1, 0]), np.array([2, 1])), SPACE.sizes) == 1


def test_a_long_history_keeps_the_same_choice_of_seeds_every_time(monkeypatch):
    monkeypatch.setattr(history, "SEED_ROWS", 3)
    codes = Codes((np.arange(3, dtype=np.uint8).repeat(4), np.zeros(12, dtype=np.uint8)))
    first, second = (history_of(SPACE, codes, np.ones(12, dtype=bool)) for _ in range(2))
    assert len(first.seeds) == 3
    np.testing.assert_array_equal(first.seeds, second.seeds)
    assert len(first.desired) == 12


def test_seeds_are_chosen_from_all_desired_rows_and_from_no_others(monkeypatch):
    monkeypatch.setattr(history, "SEED_ROWS", 20)
    space = Space((Feature("row", tuple(range(1000)), ordered=True),))
    codes = Codes((np.arange(1000, dtype=np.uint16),))
    desired = np.arange(1000) % 2 == 1
    seeds = history_of(space, codes, desired).seeds[:, 0]
    assert len(np.unique(seeds)) == 20
    assert desired[seeds].all()
    assert len(np.unique(seeds // 250)) == 4  # some of every quarter

"""The history: past rows, the desired ones among them, and how often every value occurs."""

import copy
import pickle

import numpy as np
import pytest

from ironrule.model import history
from ironrule.model.history import RowCounter, build_history
from ironrule.rule.box import Box
from ironrule.space.codes import EncodedTable, choose_code_type
from ironrule.space.feature import Feature
from ironrule.space.space import Space

SPACE = Space((Feature("a", (1, 2, 3), ordered=True), Feature("b", ("x", "y"), ordered=False, missing=True)))
CODES = EncodedTable((np.array([0, 1, 2, 2], dtype=np.uint8), np.array([0, 2, 2, 0], dtype=np.uint8)))
OUTCOMES = np.array([False, True, True, False])


def test_a_history_knows_its_desired_rows_and_its_frequencies():
    past = build_history(SPACE, CODES, OUTCOMES)
    assert len(past) == 4
    assert past.desired.points().tolist() == [[1, 2], [2, 2]]
    assert past.seeds.tolist() == [[1, 2], [2, 2]]
    assert [counts.tolist() for counts in past.frequencies] == [[1, 1, 2], [2, 0, 2]]


def test_coverage_counts_the_rows_in_a_box():
    past = build_history(SPACE, CODES, OUTCOMES)
    assert past.count_covered(Box(np.array([0, 0]), np.array([2, 2])), SPACE.sizes) == 4
    assert past.count_covered(Box(np.array([1, 0]), np.array([2, 1])), SPACE.sizes) == 1


def test_a_long_history_keeps_the_same_choice_of_seeds_every_time(monkeypatch):
    monkeypatch.setattr(history, "SEED_ROWS", 3)
    codes = EncodedTable((np.arange(3, dtype=np.uint8).repeat(4), np.zeros(12, dtype=np.uint8)))
    first, second = (build_history(SPACE, codes, np.ones(12, dtype=bool)) for _ in range(2))
    assert len(first.seeds) == 3
    np.testing.assert_array_equal(first.seeds, second.seeds)
    assert len(first.desired) == 12


def test_seeds_are_chosen_from_all_desired_rows_and_from_no_others(monkeypatch):
    monkeypatch.setattr(history, "SEED_ROWS", 20)
    space = Space((Feature("row", tuple(range(1000)), ordered=True),))
    codes = EncodedTable((np.arange(1000, dtype=np.uint16),))
    desired = np.arange(1000) % 2 == 1
    seeds = build_history(space, codes, desired).seeds[:, 0]
    assert len(np.unique(seeds)) == 20
    assert desired[seeds].all()
    assert len(np.unique(seeds // 250)) == 4  # some of every quarter


@pytest.mark.parametrize("way", [lambda past: past, copy.deepcopy, lambda past: pickle.loads(pickle.dumps(past))])
@pytest.mark.parametrize("sizes", [(256, 65536, 70_000), (3, 300, 2)])
def test_coverage_is_right_for_codes_of_every_width_and_after_copying(way, sizes):
    rng = np.random.default_rng(0)
    space = Space(tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(sizes)))
    points = rng.integers(0, sizes, size=(9000, 3))
    codes = EncodedTable(tuple(points[:, j].astype(choose_code_type(size)) for j, size in enumerate(sizes)))
    past = way(build_history(space, codes, np.zeros(9000, dtype=bool)))
    for _ in range(20):
        low, high = np.sort(rng.integers(0, sizes, size=(2, 3)), axis=0).astype(np.int32)
        expected = ((points >= low) & (points <= high)).all(axis=1).sum()
        assert past.count_covered(Box(low, high), space.sizes) == expected


@pytest.mark.parametrize("sizes", [(256, 65536, 70_000), (3, 300, 2)])
def test_rows_found_in_one_box_are_counted_in_boxes_inside_it(sizes):
    rng = np.random.default_rng(1)
    space = Space(tuple(Feature(f"f{j}", tuple(range(size)), ordered=True) for j, size in enumerate(sizes)))
    points = rng.integers(0, sizes, size=(9000, 3))
    codes = EncodedTable(tuple(points[:, j].astype(choose_code_type(size)) for j, size in enumerate(sizes)))
    past = RowCounter.from_history(build_history(space, codes, np.zeros(9000, dtype=bool)), space.sizes)
    for _ in range(20):
        outer = np.sort(rng.integers(0, sizes, size=(2, 3)), axis=0).astype(np.int32)
        inner = outer.copy()
        for j in (0, 2):
            inner[:, j] = np.sort(rng.integers(outer[0, j], outer[1, j] + 1, 2))
        found = past.restrict(Box(*outer), [0, 2])
        assert found.rows == past.count(Box(*outer)) == ((points >= outer[0]) & (points <= outer[1])).all(axis=1).sum()
        expected = ((points >= inner[0]) & (points <= inner[1])).all(axis=1).sum()
        assert found.count(Box(*inner)) == past.count(Box(*inner)) == expected
        assert found.restrict(Box(*inner), [2]).rows == expected


def test_a_history_of_signed_codes_is_counted_all_the_same():
    codes = EncodedTable((np.array([0, 1, 2, 2]), np.array([0, 2, 2, 0])))
    past = build_history(SPACE, codes, OUTCOMES)
    assert past.count_covered(Box(np.array([1, 0]), np.array([2, 1])), SPACE.sizes) == 1

"""The checker on networks over whole intervals: no cover closes a box with a desired number in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from altered_certificates import covers
from hypothesis import given, settings, strategies as st

from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.checker.bounds.network_bounds import prepare_network_bounds
from ironrule.checker.bounds.pieces import Pieces, split_box
from ironrule.checker.document import CoverClaim
from ironrule.checker.intervals import find_network_gaps
from ironrule.checker.preprocessing import EstimatorColumn
from ironrule.checker.readers.network_form import NetworkForm
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.checker.space.space import space_from_json
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.box import Box
from ironrule.shared_reading import convert_normal_form
from ironrule.verdict.verdict import Proven
from random_networks import draw_seen_numbers, has_desired_numbers, interval_models
from tiny_cases import run_of


class CheckedNetwork:
    """The checker's bounds of a network that was read, and its gaps."""

    def __init__(self, case: Case, read: TabulatedModel) -> None:
        reading = convert_normal_form(read.normal_form)
        assert isinstance(reading, NetworkForm)
        pairs = zip(read.columns.features.tolist(), read.columns.values, strict=True)
        columns = [EstimatorColumn(feature, values) for feature, values in pairs]
        space = space_from_json(case.space.to_dict())
        self.sizes = space.sizes.tolist()
        self.gaps = find_network_gaps(columns, space)
        self.bounds = prepare_network_bounds(reading, columns, self.sizes)

    def find_open(self, cover: Any, low: Any, high: Any, alternative: int) -> Pieces:
        """The pieces that no bound closes."""
        pieces = split_box(CoverClaim(cover.splits, cover.tree), low, high, self.sizes).with_gaps(self.gaps, high)
        return pieces.select(np.flatnonzero(~self.bounds.flag_closed(pieces, alternative)))


@settings(deadline=None, max_examples=300)
@given(interval_models(), st.data())
def test_no_cover_closes_a_box_with_a_desired_number(made: tuple[Case, TabulatedModel], data: st.DataObject) -> None:
    case, read = made
    checked, sizes = CheckedNetwork(case, read), case.space.sizes.tolist()
    low = [data.draw(st.integers(0, size - 1)) for size in sizes]
    high = [data.draw(st.integers(first, size - 1)) for first, size in zip(low, sizes, strict=True)]
    try:
        cover = data.draw(covers(sizes))
        left = [checked.find_open(cover, low, high, place) for place in range(len(checked.bounds.alternatives))]
    except ClaimFailed:
        return
    if not any(map(len, left)):
        box = Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))
        assert not has_desired_numbers(read, draw_seen_numbers(case, read, box, np.random.default_rng(0), 400))


@settings(deadline=None, max_examples=200)
@given(interval_models(), st.data())
def test_what_the_search_proves_the_checker_closes(made: tuple[Case, TabulatedModel], data: st.DataObject) -> None:
    case, read = made
    oracle = NetworkOracle(compile_network(read.normal_form, read.columns, case.space))  # type: ignore[arg-type]
    low = [data.draw(st.integers(0, size - 1)) for size in case.space.sizes.tolist()]
    pairs = zip(low, case.space.sizes.tolist(), strict=True)
    high = [data.draw(st.integers(first, size - 1)) for first, size in pairs]
    box = Box(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32))
    verdict = oracle.find(BoxQuery(case, box), run_of())
    if not isinstance(verdict, Proven):
        return
    certificate, checked = verdict.certificate.with_built_covers(), CheckedNetwork(case, read)
    for place, source in enumerate(certificate.covers):
        left = checked.find_open(source.cover(), certificate.low, certificate.high, place)
        assert not left.flag_gaps().any()  # single points may be left, about which the model is asked


def test_columns_that_do_not_rise_or_fall_are_not_trusted() -> None:
    plain = {"kind": "ordered", "values": [0.0, 1.0, 2.0], "missing": False, "interval": True}
    space = space_from_json({"features": {"x": plain}, "constraints": []})
    for columns in (
        [EstimatorColumn(0, np.array([0.0, 2.0, 1.0]))],
        [EstimatorColumn(0, np.array([0.0, 1.0, 2.0])), EstimatorColumn(0, np.array([0.0, 0.0, 1.0]))],
    ):
        with pytest.raises(ClaimUndecided, match="'x'"):
            find_network_gaps(columns, space)

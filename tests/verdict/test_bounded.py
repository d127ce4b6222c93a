"""Bounds on the share of exceptions: the exact binomial ones, and what is written of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from ironrule.errors import InputError
from ironrule.verdict.bounded import Bounded, compute_share_bound, rung_verdict_from_dict, rung_verdict_to_dict


def sum_binomial(seen: int, rows: int, share: float) -> float:
    """The probability of at most so many."""
    return math.fsum(math.comb(rows, k) * share**k * (1.0 - share) ** (rows - k) for k in range(seen + 1))


@given(st.integers(1, 200), st.data(), st.sampled_from([0.5, 0.8, 0.95, 0.99, 0.9999]))
def test_the_bound_is_where_so_few_exceptions_become_too_unlikely(rows, data, confidence):
    seen = data.draw(st.integers(0, rows - 1))
    bound = compute_share_bound(seen, rows, confidence)
    assert seen / rows <= bound <= 1.0 or confidence <= 0.5
    assert sum_binomial(seen, rows, bound) == pytest.approx(1.0 - confidence, rel=1e-6)


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("share", [0.001, 0.02, 0.1, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("shared_by", [1, 4])
def test_a_bound_is_broken_no_more_often_than_the_confidence_allows(rows, share, shared_by):
    """Over all that may be seen, with its probability."""
    broken = 0.0
    for seen in range(rows + 1):
        probability = math.comb(rows, seen) * share**seen * (1.0 - share) ** (rows - seen)
        if Bounded.from_counts(seen, rows, 0.95, shared_by).exceptions < share:
            broken += probability
    assert broken <= 0.05 / shared_by + 1e-12


@pytest.mark.parametrize("doubt", [1e-6, 1e-9, 1e-12, 1e-15])
def test_a_small_doubt_keeps_its_digits(doubt):
    """Without exceptions, the bound has a closed form: the doubt's part to the power of one over the rows."""
    confidence = 1.0 - doubt
    exact = -math.expm1(math.log((1.0 - confidence) / 6) / 100)
    assert Bounded.from_counts(0, 100, confidence, shared_by=6).exceptions == pytest.approx(exact, abs=1e-12)


def test_with_no_rows_nothing_is_known():
    bounded = Bounded.from_counts(0, 0, 0.95)
    assert bounded.exceptions == 1.0
    assert "nothing is known" in str(bounded)


def test_a_bound_is_never_called_proven():
    text = str(Bounded.from_counts(0, 10**6, 0.95))
    assert text.startswith("bounded, not proven")
    assert "0%" not in text.replace("0.0003%", "").split("exceptions")[0]


@pytest.mark.parametrize(("seen", "rows"), [(-1, 3), (4, 3)])
def test_counts_that_cannot_be_are_refused(seen, rows):
    with pytest.raises(InputError, match="between 0 and the number of rows"):
        compute_share_bound(seen, rows, 0.95)


def test_a_bounded_verdict_survives_json_and_a_smaller_bound_is_refused():
    bounded = Bounded.from_counts(3, 200, 0.95, shared_by=6)
    data = rung_verdict_to_dict(bounded)
    assert data["kind"] == "bounded"
    assert rung_verdict_from_dict(data) == bounded
    with pytest.raises(InputError, match="must follow from its counts"):
        rung_verdict_from_dict(data | {"exceptions": bounded.exceptions * 0.9})

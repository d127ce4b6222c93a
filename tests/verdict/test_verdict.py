"""Verdicts: their bounds, their words, and their plain data."""

import numpy as np
import pytest
from scipy.stats import beta, binomtest

import ironrule
from ironrule.errors import InputError
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.verdict import (
    Proven,
    Refuted,
    Unrefuted,
    compute_exception_bound,
    verdict_from_dict,
    verdict_to_dict,
)

POINT = Counterfactual({"age": 30}, (Change("age", 20, 30),))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.9999])
@pytest.mark.parametrize("samples", [1, 2, 10, 100, 10_000, 10**9])
def test_the_bound_is_the_exact_one_of_clopper_and_pearson(samples, confidence):
    bound = Unrefuted(tried=samples, samples=samples, confidence=confidence).exception_bound
    assert bound == pytest.approx(beta.ppf(confidence, 1, samples), rel=1e-9)
    if samples <= 10_000:
        exact = binomtest(0, samples, alternative="less").proportion_ci(confidence, method="exact").high
        assert bound == pytest.approx(exact, rel=1e-9)


def test_nothing_drawn_bounds_nothing():
    assert compute_exception_bound(0, 0.95) == 1.0
    assert Unrefuted(tried=500, samples=0, confidence=0.0).exception_bound == 1.0


@pytest.mark.parametrize("samples", [1, 7, 123, 9_999, 10_000])
@pytest.mark.parametrize("confidence", [0.95, 0.975, 0.99167, 0.999881])
def test_the_words_never_claim_more_than_the_numbers(samples, confidence):
    verdict = Unrefuted(tried=samples, samples=samples, confidence=confidence)
    words = str(verdict).split()
    shown = float(words[words.index("confidence") - 1].rstrip("%")) / 100
    bound = float(words[words.index("most") + 1])
    assert confidence - 0.0001 <= shown <= confidence + 1e-9
    assert verdict.exception_bound * (1 - 1e-6) <= bound <= min(1.0, verdict.exception_bound * 1.1)
    assert str(verdict).startswith("unrefuted, not proven: no exception among ")


def test_a_search_without_samples_claims_no_bound():
    assert str(Unrefuted(tried=1234, samples=0, confidence=0.0)) == (
        "unrefuted, not proven: no exception among 1,234 points tried"
    )


def test_the_share_explored_is_never_rounded_up():
    assert str(Unrefuted(tried=9, samples=0, confidence=0.0, explored=0.99999)) == (
        "unrefuted, not proven: no exception among 9 points tried; 99.99% of the box is proven to hold none"
    )
    assert "explored" not in verdict_to_dict(Unrefuted(tried=9, samples=0, confidence=0.0))


def test_proven_and_refuted_say_so():
    assert str(Proven(Certificate(method="enumeration", points=1200, space="f", model="m", low=(0,), high=(1,)))) == (
        "proven: all 1,200 points of the rule's box are undesired"
    )
    assert str(Refuted(POINT, np.zeros((1, 1)))) == "refuted: age: 20 -> 30"


@pytest.mark.parametrize(
    "verdict",
    [
        Proven(Certificate(method="enumeration", points=12, space="abc", model="m", low=(0,), high=(1,))),
        Refuted(POINT, np.zeros((1, 1), dtype=np.int32)),
        Unrefuted(tried=10, samples=5, confidence=0.95),
        Unrefuted(tried=10, samples=5, confidence=0.95, explored=0.75),
    ],
    ids=lambda verdict: type(verdict).__name__,
)
def test_verdicts_survive_plain_data(verdict):
    data = verdict_to_dict(verdict)
    assert data["kind"] == type(verdict).__name__.lower()
    assert verdict_from_dict(data) == verdict
    assert isinstance(verdict, (ironrule.Proven, ironrule.Refuted, ironrule.Unrefuted))


def test_an_unknown_kind_of_verdict_is_refused():
    with pytest.raises(InputError, match="proven, refuted or unrefuted, got 'true'"):
        verdict_from_dict({"kind": "true"})


CERTIFICATE = Certificate(method="enumeration", points=12, space="abc", model="m", low=(0,), high=(1,)).to_dict()


@pytest.mark.parametrize(
    ("data", "message", "code"),
    [
        (
            CERTIFICATE | {"format": 99},
            "a certificate must have format 2, got 99; install a newer version",
            "wrong-format",
        ),
        ({"version": 1}, "a certificate must have format 2, got None; explain the row again", "wrong-format"),
        ([1], "a certificate must have format 2, got a list", "wrong-format"),
        (CERTIFICATE | {"method": "luck"}, "method must be 'cover' or 'enumeration', got 'luck'", "input"),
        (CERTIFICATE | {"points": 1.5}, r"cannot read the certificate: .*expected an integer, got 1\.5", "input"),
        (CERTIFICATE | {"model": 3}, "cannot read the certificate: .*expected a string, got 3", "input"),
        ({k: v for k, v in CERTIFICATE.items() if k != "low"}, "cannot read the certificate: KeyError.*low", "input"),
    ],
)
def test_plain_data_that_is_no_certificate_is_refused(data, message, code):
    with pytest.raises(InputError, match=message) as caught:
        Certificate.from_dict(data)
    assert caught.value.code == code

"""REVISE: with an autoencoder that changes nothing it is Wachter's search; with its own it stays among likely rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ironrule.errors import InputError
from ironrule.oracles.heuristics.descent import PermittedRange
from ironrule.oracles.heuristics.gradients import SlopedScore, build_score_gradient
from ironrule.oracles.heuristics.wachter import Wachter
from ironrule.oracles.latent.autoencoder import prepare_autoencoder
from ironrule.oracles.latent.dense_network import AutoencoderTraining
from ironrule.oracles.latent.latent_descent import LatentLoss
from ironrule.oracles.latent.revise import REVISE
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.verdict.verdict import Refuted, Unrefuted
from latent_cases import IdentityAutoencoder, LinearScores, differ, search_linear
from tiny_cases import run_of

MODEL = LinearScores((2.0, 1.0), -1.8)


def descend_among_rows(weight: float, steps: int, rate: float) -> list[np.ndarray]:
    """Wachter's loss for a linear score, and Adam's way down it, written out for the rows themselves."""
    slopes, center = np.array([2.0, 1.0]), np.array([0.2, 0.2])
    vector, mean, square, passed = center.copy(), np.zeros(2), np.zeros(2), []
    for step in range(1, steps + 1):
        passed.append(np.clip(vector, 0.0, 1.0))
        missed = (passed[-1] @ slopes - 1.8) / 1.2 - 0.1  # the instance has a score of -1.2
        gradient = 2.0 * weight * missed / 1.2 * slopes + np.sign(passed[-1] - center)
        gradient[((vector >= 1.0) & (gradient < 0.0)) | ((vector <= 0.0) & (gradient > 0.0))] = 0.0
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        move = mean / (1.0 - 0.9**step) / (np.sqrt(square / (1.0 - 0.999**step)) + 1e-8)
        vector = vector - rate * (1.0 - (step - 1) / steps) * move
    return passed


def test_with_an_autoencoder_that_changes_nothing_it_is_wachters_search_among_the_rows() -> None:
    search = search_linear(MODEL)
    oracle = REVISE(weight=4.0, rounds=1, autoencoder=IdentityAutoencoder())
    verdict = oracle.find(search.query, run_of())
    assert isinstance(verdict, Refuted)
    passed = search.encoding.decode_among(np.stack(descend_among_rows(4.0, oracle.steps, oracle.rate)), search.codes)
    wanted = passed[MODEL.desired(passed)]
    nearest = wanted[np.abs(wanted - [20, 20]).sum(axis=1).argmin()]
    assert verdict.points.tolist() == [nearest.tolist()]
    # The steeper feature alone is worth changing: 2 a + b = 180 where b stays at 20.
    assert np.abs(verdict.points[0] - [80, 20]).max() <= 3


def test_it_comes_to_the_answer_of_the_wachter_oracle() -> None:
    search = search_linear(MODEL, history=np.array([[10, 10], [20, 20], [30, 30]], np.int32))  # a and b count the same
    wachter = Wachter().find(search.query, run_of())
    revise = REVISE(weight=4.0, rounds=1, autoencoder=IdentityAutoencoder()).find(search.query, run_of())
    assert isinstance(wachter, Refuted)
    assert isinstance(revise, Refuted)
    assert np.abs(revise.points[0] - wachter.points[0]).max() <= 3


def test_the_gradient_at_latent_vectors_is_that_of_finite_differences() -> None:
    search = search_linear(MODEL)
    autoencoder = prepare_autoencoder(None, AutoencoderTraining(latent=3), search, "REVISE")
    loss = LatentLoss(
        search,
        autoencoder,
        build_score_gradient(search),
        lambda score: (score**2, 2.0 * score),
        distance_weight=0.7,
        permitted=PermittedRange.build(search),
    )
    latent = np.array([0.3, -0.2, 0.4])
    # The score of a vector is that of its point: a grid that is fine enough would make it smooth.
    smooth = replace(loss, gradient=SmoothScores())
    assert smooth.evaluate(latent)[1].gradient == pytest.approx(
        differ(lambda: smooth.evaluate(latent)[1].score, latent), abs=1e-5
    )
    assert loss.evaluate(latent)[1].gradient == pytest.approx(smooth.evaluate(latent)[1].gradient, abs=0.1)


class SmoothScores:
    """The linear score of any vector."""

    def evaluate(self, vector: Any) -> Any:
        slopes = np.array([2.0, 1.0])
        return SlopedScore(float(vector @ slopes) - 1.8, slopes)


def test_counterfactuals_resemble_past_rows() -> None:
    search = search_linear(LinearScores((1.0, 0.0), -0.7))
    plain = REVISE(autoencoder=IdentityAutoencoder()).find(search.query, run_of())
    assert isinstance(plain, Refuted)
    assert plain.points[0, 1] <= 25  # b is of no use
    found = REVISE(training=AutoencoderTraining(latent=1)).find(search.query, run_of())
    assert isinstance(found, Refuted)
    assert found.points[0, 0] > 70
    assert np.abs(found.points[0, 0] - found.points[0, 1]) <= 15  # past rows have nearly the same a and b


def test_a_box_that_fixes_a_feature_is_obeyed() -> None:
    query = search_linear(MODEL).query
    box = Box(np.array([20, 0], np.int32), np.array([20, 100], np.int32))
    assert isinstance(REVISE().find(BoxQuery(query.case, box), run_of()), Unrefuted)  # 40 + 100 is below 180
    box = Box(np.array([0, 20], np.int32), np.array([100, 20], np.int32))
    found = REVISE().find(BoxQuery(query.case, box), run_of())
    assert isinstance(found, Refuted)
    assert found.points[0, 1] == 20
    assert found.points[0, 0] > 80


@pytest.mark.parametrize(
    "wrong", [{"target": 0}, {"weight": -1.0}, {"rounds": 0}, {"steps": "many"}, {"rate": None}, {"growth": 1}]
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"must be a (positive|number greater than 1)"):
        REVISE(**wrong)

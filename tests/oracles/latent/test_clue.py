"""CLUE: the way down leads to certainty, on whichever side of the threshold the row is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ironrule.errors import InputError
from ironrule.oracles.heuristics.gradients import build_point_score
from ironrule.oracles.latent.clue import CLUE, measure_entropy, measure_scale
from ironrule.verdict.verdict import Refuted, Unrefuted
from latent_cases import IdentityAutoencoder, LinearScores, differ, draw_ridge, search_linear
from tiny_cases import run_of

MODEL = LinearScores((10.0, 0.0), -5.0)  # the log-odds of a share of a: even at a = 50


def entropy_of(search: Any, vector: Any) -> float:
    """The entropy of the model's decision on the point that stands for a vector."""
    (score,) = MODEL.scores(search.encoding.decode_among(vector[None, :], search.codes))
    share = 1.0 / (1.0 + math.exp(-score))
    return -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)


def test_the_entropy_and_its_derivative() -> None:
    for log_odds in (-3.0, 0.0, 0.5, 4.0):
        share = 1.0 / (1.0 + math.exp(-log_odds))
        entropy, slope = measure_entropy(log_odds)
        assert entropy == pytest.approx(-share * math.log(share) - (1.0 - share) * math.log(1.0 - share))
        here = np.array([log_odds])
        assert slope == pytest.approx(differ(lambda here=here: measure_entropy(here[0])[0], here)[0], abs=1e-6)


@pytest.mark.parametrize("autoencoder", [None, IdentityAutoencoder()])
@pytest.mark.parametrize("start", [30, 46])
def test_the_way_leads_to_certainty_and_away_from_the_other_outcome(start: int, autoencoder: Any) -> None:
    search = search_linear(MODEL, np.array([start, start], np.int32))
    oracle = CLUE(scale=1.0, autoencoder=autoencoder)
    passed = list(oracle.build_loss(search).descend(oracle.steps, oracle.rate))
    vector, loss = min(passed, key=lambda one: one[1])
    assert loss < passed[0][1]
    assert entropy_of(search, vector) < entropy_of(search, search.center) - 0.05
    assert vector[0] * 100 < start  # further from the threshold, at 50


def test_rows_that_become_certainly_undesired_are_no_answer() -> None:
    search = search_linear(MODEL, np.array([46, 46], np.int32))
    verdict = CLUE(scale=1.0, autoencoder=IdentityAutoencoder()).find(search.query, run_of())
    assert isinstance(verdict, Unrefuted)
    assert verdict.tried > 1


def test_rows_that_become_certainly_desired_are() -> None:
    # What the autoencoder makes of the row is on the other side: from there certainty is desired.
    search = search_linear(MODEL, np.array([46, 46], np.int32))
    verdict = CLUE(scale=1.0, autoencoder=ShiftedAutoencoder()).find(search.query, run_of())
    assert isinstance(verdict, Refuted)
    assert verdict.points[0, 0] > 70


class ShiftedAutoencoder(IdentityAutoencoder):
    """Rows come back with larger numbers."""

    def decode(self, latents: Any) -> Any:
        return latents + 0.1


def test_the_scale_is_that_of_past_rows() -> None:
    history = draw_ridge(150)
    search = search_linear(MODEL, history=history)
    scores = MODEL.scores(history)
    found = measure_scale(search, build_point_score(search.query.case, search.run))
    assert found == pytest.approx(np.sqrt((scores**2).mean()))
    assert search.run.meter.evaluations == 150
    empty = search_linear(MODEL, history=history[:0])
    assert measure_scale(empty, build_point_score(empty.query.case, empty.run)) == 1.0


@pytest.mark.parametrize("wrong", [{"distance_weight": -1}, {"steps": 0}, {"rate": math.inf}, {"scale": 0.0}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"must be (0 or )?a positive"):
        CLUE(**wrong)

"""C-CHVAE: with an autoencoder that changes nothing it is Growing Spheres; with its own it stays among likely rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ironrule.errors import InputError
from ironrule.oracles.heuristics.growing_spheres import GrowingSpheres
from ironrule.oracles.latent.cchvae import CCHVAE
from ironrule.oracles.latent.dense_network import AutoencoderTraining
from ironrule.rule.box import Box
from ironrule.verdict.verdict import Refuted, Unrefuted
from latent_cases import A, B, IdentityAutoencoder, ask_grid


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("table", [2 * A + B >= 180, (A < 18) | (B > 60)])
def test_with_an_autoencoder_that_changes_nothing_it_is_growing_spheres(table: Any, seed: int) -> None:
    layers = {"samples": 300, "radius": 0.1, "step": 0.05}
    spheres = ask_grid(GrowingSpheres(**layers, undo_changes=False), table, k=4, seed=seed)
    same = CCHVAE(**layers, limit=math.sqrt(2), autoencoder=IdentityAutoencoder())
    found = ask_grid(same, table, k=4, seed=seed)
    assert isinstance(found, Refuted)
    assert found.points.tolist() == spheres.points.tolist()


@pytest.mark.parametrize("oracle", [CCHVAE(samples=50, autoencoder=IdentityAutoencoder()), GrowingSpheres(samples=50)])
def test_what_was_found_is_answered_when_the_budget_ends(oracle: Any) -> None:
    # The first ball holds counterfactuals; the budget does not suffice for one half as large.
    verdict = ask_grid(oracle, A + B >= 45, evaluations=60)
    assert isinstance(verdict, Refuted)
    assert verdict.points.sum() >= 45
    assert verdict.stopped == "budget"


def test_the_limit_ends_the_search() -> None:
    near = CCHVAE(samples=200, limit=0.2, autoencoder=IdentityAutoencoder())
    assert isinstance(ask_grid(near, A + B >= 120), Unrefuted)
    far = CCHVAE(samples=200, autoencoder=IdentityAutoencoder())
    assert isinstance(ask_grid(far, A + B >= 120), Refuted)


def test_counterfactuals_resemble_past_rows() -> None:
    # Only a matters, but past rows have nearly the same b.
    plain = ask_grid(GrowingSpheres(), A >= 70)
    assert plain.points.tolist() == [[70, 20]]
    found = ask_grid(CCHVAE(training=AutoencoderTraining(latent=1)), A >= 70, k=5)
    assert isinstance(found, Refuted)
    assert (found.points[:, 0] >= 70).all()
    assert np.abs(found.points[:, 0] - found.points[:, 1]).max() <= 15


def test_a_box_that_fixes_a_feature_is_obeyed() -> None:
    box = Box(np.array([0, 20], np.int32), np.array([100, 20], np.int32))
    found = ask_grid(CCHVAE(), A >= 70, box=box)
    assert isinstance(found, Refuted)
    assert found.points[0, 0] >= 70
    assert found.points[0, 1] == 20


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"radius": -1.0}, {"step": "wide"}, {"limit": 0}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be a positive"):
        CCHVAE(**wrong)

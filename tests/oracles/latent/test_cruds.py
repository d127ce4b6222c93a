"""CRUDS: gradients against finite differences; what has to do with the outcome changes, and all else stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ironrule.arrays import Float64Array
from ironrule.errors import InputError
from ironrule.oracles.latent.cruds import CRUDS
from ironrule.oracles.latent.dense_network import AutoencoderTraining, DenseNetwork
from ironrule.oracles.latent.subspace_autoencoder import SubspaceAutoencoder, fit_subspace_autoencoder
from ironrule.rule.box import Box
from ironrule.verdict.verdict import Refuted, Unrefuted
from latent_cases import A, ask_grid, differ, draw_rows
from tiny_cases import meter_of


def draw_fitted(conditions: bool) -> SubspaceAutoencoder:
    rng = np.random.default_rng(1)
    kept = np.array([4]) if conditions else np.empty(0, dtype=np.intp)
    free = np.setdiff1d(np.arange(5), kept)
    return SubspaceAutoencoder(
        DenseNetwork.draw(rng, 5, 6, 4),
        DenseNetwork.draw(rng, 6, 6, 2),
        DenseNetwork.draw(rng, 3 + len(kept), 6, len(free)),
        DenseNetwork.draw(rng, 2, 6, 1),
        free=free,
        conditions=kept,
        binary=np.isin(free, (1, 4)),
        deviation=0.3,
    )


@pytest.mark.parametrize("conditions", [False, True])
def test_the_gradients_of_both_losses_are_those_of_finite_differences(conditions: bool) -> None:
    fitted, rows, rng = draw_fitted(conditions), draw_rows(7), np.random.default_rng(3)
    desired = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    rest, own = rng.standard_normal((7, 2)), rng.standard_normal((7, 1))

    def measure() -> float:
        return fitted.compute_loss(rows, desired, rest, own)[0]

    gradients = fitted.compute_loss(rows, desired, rest, own)[1]
    parts = fitted.rest_encoder, fitted.subspace_encoder, fitted.decoder
    parameters = [one for part in parts for one in part.parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert gradient == pytest.approx(differ(measure, parameter), abs=1e-5)

    def measure_adversary() -> float:
        return fitted.compute_adversary_loss(rows, desired, rest)[0]

    gradients = fitted.compute_adversary_loss(rows, desired, rest)[1]
    for parameter, gradient in zip(fitted.adversary.parameters, gradients, strict=True):
        assert gradient == pytest.approx(differ(measure_adversary, parameter), abs=1e-5)


def draw_independent(count: int = 600) -> Float64Array:
    """Two numbers that have nothing to do with each other."""
    return np.random.default_rng(0).uniform(size=(count, 2))


def test_what_has_to_do_with_the_outcome_is_apart_from_all_else() -> None:
    rows = draw_independent()
    fitted = fit_subspace_autoencoder(
        rows,
        rows[:, 0] > 0.5,
        np.zeros(2, dtype=np.bool_),
        np.empty(0, dtype=np.intp),
        subspace=1,
        training=AutoencoderTraining(latent=2, epochs=150),
        meter=meter_of(),
    )
    places = 3.0 + np.random.default_rng(1).standard_normal((200, 1))
    for vector in (np.array([0.2, 0.2]), np.array([0.3, 0.8])):
        decoded = fitted.decode_desired(vector, places)
        assert (decoded[:, 0] > 0.5).mean() > 0.8
        assert np.abs(decoded[:, 1] - vector[1]).mean() < 0.15


def test_a_search_finds_it_and_changes_only_what_may_change() -> None:
    history = np.asarray((draw_independent() * 100).round(), dtype=np.int32)
    found = ask_grid(CRUDS(), A >= 50, history=history, k=3)
    assert isinstance(found, Refuted)
    assert len(found.points) == 3
    assert (found.points[:, 0] >= 50).all()
    box = Box(np.array([0, 20], np.int32), np.array([100, 20], np.int32))
    found = ask_grid(CRUDS(), A >= 50, history=history, box=box)
    assert isinstance(found, Refuted)
    assert found.points[0, 1] == 20
    nothing = Box(np.array([0, 20], np.int32), np.array([40, 20], np.int32))
    assert isinstance(ask_grid(CRUDS(), A >= 50, history=history, box=nothing), Unrefuted)


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"subspace": 1.5}])
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be a positive"):
        CRUDS(**wrong)

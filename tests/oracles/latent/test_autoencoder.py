"""Autoencoders: gradients against finite differences, what fitting achieves, what is kept and what is fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ironrule.errors import InputError
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.latent import autoencoder
from ironrule.oracles.latent.autoencoder import (
    MAX_FITTED,
    VariationalAutoencoder,
    fit_autoencoder,
    fit_to_past_rows,
    prepare_autoencoder,
)
from ironrule.oracles.latent.dense_network import AutoencoderTraining, DenseNetwork
from ironrule.oracles.protocol import BoxQuery
from ironrule.space.feature import Feature
from ironrule.space.roles import Role
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, BudgetExhausted
from latent_cases import differ, draw_rows
from tiny_cases import case_of, meter_of, run_of

NONE = np.empty(0, dtype=np.intp)


def draw_network(conditions: bool) -> VariationalAutoencoder:
    """Five columns, the second and fifth binary; the fifth may be a condition."""
    rng = np.random.default_rng(1)
    kept = np.array([4]) if conditions else NONE
    free = np.setdiff1d(np.arange(5), kept)
    return VariationalAutoencoder(
        DenseNetwork.draw(rng, 5, 6, 4),
        DenseNetwork.draw(rng, 2 + len(kept), 6, len(free)),
        free,
        kept,
        binary=np.isin(free, (1, 4)),
        deviation=0.3,
    )


@pytest.mark.parametrize("conditions", [False, True])
def test_the_gradients_of_the_loss_are_those_of_finite_differences(conditions: bool) -> None:
    fitted, rows = draw_network(conditions), draw_rows(7)
    noise = np.random.default_rng(3).standard_normal((7, 2))
    gradients = fitted.compute_loss(rows, noise)[1]
    parameters = (*fitted.encoder.parameters, *fitted.decoder.parameters)
    assert len(gradients) == len(parameters) == 8
    for own, gradient in zip(parameters, gradients, strict=True):
        assert gradient == pytest.approx(differ(lambda: fitted.compute_loss(rows, noise)[0], own), abs=1e-5)


@pytest.mark.parametrize("conditions", [False, True])
def test_gradients_of_decoded_rows_come_back_as_finite_differences_say(conditions: bool) -> None:
    bound = draw_network(conditions).bind(draw_rows(1)[0])
    latents = np.random.default_rng(4).standard_normal((3, 2))
    weights = np.random.default_rng(5).standard_normal((3, 5))
    found = bound.backpropagate(latents, weights)
    assert found == pytest.approx(differ(lambda: (weights * bound.decode(latents)).sum(), latents), abs=1e-5)


def test_fitting_lowers_the_loss_and_rows_come_back() -> None:
    # One hidden number decides all: a number, its opposite, and whether it is above a half. Noise is in the fourth.
    rng = np.random.default_rng(0)
    hidden = rng.uniform(size=600)
    rows = np.stack([hidden, 1.0 - hidden, hidden > 0.5, rng.uniform(size=600)], axis=1)
    binary = np.array([False, False, True, False])
    noise = rng.standard_normal((600, 2))
    training = AutoencoderTraining(latent=2, epochs=40)
    losses = []
    for epochs in (1, 40):
        fitted = fit_autoencoder(rows, binary, NONE, AutoencoderTraining(latent=2, epochs=epochs), meter_of())
        losses.append(fitted.compute_loss(rows, noise)[0])
    assert losses[1] < losses[0]
    again = fit_autoencoder(rows, binary, NONE, training, meter_of())
    assert all(map(np.array_equal, again.encoder.parameters, fitted.encoder.parameters))
    bound = fitted.bind(rows[0])
    decoded = bound.decode(bound.encode(rows))
    misses = np.abs(decoded - rows).mean(axis=0)
    assert (misses[:2] < 0.08).all()  # guessing the mean misses by 0.25
    assert ((decoded[:, 2] > 0.5) == rows[:, 2]).mean() > 0.95


def test_conditions_are_told_and_kept() -> None:
    # The first column is the condition's own number, whatever the latent numbers: nothing else explains it.
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 600).astype(float)
    rows = np.stack([0.2 + 0.6 * group, rng.uniform(size=600), group], axis=1)
    fitted = fit_autoencoder(
        rows, np.array([False, False, True]), np.array([2]), AutoencoderTraining(epochs=40), meter_of()
    )
    latents = rng.standard_normal((200, 8))
    for own in (0.0, 1.0):
        decoded = fitted.bind(np.array([0.5, 0.5, own])).decode(latents)
        assert (decoded[:, 2] == own).all()
        assert np.abs(decoded[:, 0] - (0.2 + 0.6 * own)).mean() < 0.1


def search_of(space: Space, history: Any = None, **run: Any) -> CandidateSearch:
    rows = np.random.default_rng(0).integers(0, 4, (30, 2)).astype(np.int32) if history is None else history
    case = case_of(space, np.ones((4, 4), dtype=np.bool_), np.array([1, 1], np.int32), rows)
    search = CandidateSearch.build(BoxQuery(case, case.components.box(0)), run_of(**run))
    assert search is not None
    return search


SPACE = Space(tuple(Feature(name, (0, 1, 2, 3), ordered=True) for name in "ab"))


def test_what_was_fitted_is_kept_for_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    search, fits = search_of(SPACE), []
    monkeypatch.setattr(autoencoder, "fit_autoencoder", lambda *given: fits.append(given) or fit_autoencoder(*given))
    monkeypatch.setattr(autoencoder, "_FITTED", {})
    first = fit_to_past_rows(search, AutoencoderTraining(epochs=1), "A system")
    assert fit_to_past_rows(search_of(SPACE), AutoencoderTraining(epochs=1), "Another system") is first
    assert fit_to_past_rows(search, AutoencoderTraining(epochs=2), "A system") is not first
    others = np.full((30, 2), 3, dtype=np.int32)
    assert fit_to_past_rows(search_of(SPACE, others), AutoencoderTraining(epochs=1), "A system") is not first
    assert len(fits) == 3
    for seed in range(MAX_FITTED):  # the oldest ones make room
        fit_to_past_rows(search, AutoencoderTraining(epochs=1, seed=seed + 1), "A system")
    assert fit_to_past_rows(search, AutoencoderTraining(epochs=1), "A system") is not first
    assert len(fits) == 4 + MAX_FITTED


def test_features_that_must_not_change_are_conditions() -> None:
    first, second = SPACE.features
    immutable = Feature("a", first.values, ordered=True, role=Role("immutable"))
    fitted = fit_to_past_rows(search_of(Space((immutable, second))), AutoencoderTraining(epochs=1), "A system")
    assert (fitted.conditions.tolist(), fitted.free.tolist()) == ([0], [1])


def test_a_budget_ends_fitting_and_nothing_half_fitted_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoencoder, "_FITTED", {})
    stopped = search_of(SPACE)
    stopped.run.meter.budget = Budget(callback=lambda meter: meter.exhaust("seconds"))
    with pytest.raises(BudgetExhausted):
        fit_to_past_rows(stopped, AutoencoderTraining(epochs=1), "A system")
    assert autoencoder._FITTED == {}


def test_past_rows_are_needed_unless_an_autoencoder_is_given() -> None:
    empty = search_of(SPACE, np.empty((0, 2), dtype=np.int32))
    with pytest.raises(InputError, match="A system needs past rows, got none"):
        prepare_autoencoder(None, AutoencoderTraining(), empty, "A system")
    bound = draw_network(conditions=False).bind(np.zeros(5))
    assert prepare_autoencoder(bound, AutoencoderTraining(), empty, "A system") is bound


@pytest.mark.parametrize("wrong", [{"latent": 0}, {"epochs": 1.5}, {"rate": 0}, {"deviation": "wide"}, {"seed": -1}])
def test_training_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"must be (0 or )?a positive"):
        AutoencoderTraining(**wrong)

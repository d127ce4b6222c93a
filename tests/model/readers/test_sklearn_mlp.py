"""Multi-layer perceptrons of scikit-learn, and what is common to all networks."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from network_agreement import count_ties, decide_by_margins, require_agreement
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import ironrule
from ironrule.model.decision import build_decision
from ironrule.model.model_input import compute_model_input
from ironrule.model.normal_form.network import (
    DOUBLE_ROUNDOFF,
    SINGLE_ROUNDOFF,
    Activation,
    Network,
    bound_arithmetic_errors,
    find_largest_sizes,
)
from ironrule.model.pipeline import split_pipeline
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.network_steps import (
    fold_steps,
    make_dense,
    make_leaky_relu,
    make_normalisation,
    make_unitwise,
)
from ironrule.model.readers.registry import OTHER_READERS, read_estimator
from ironrule.model.readers.sklearn_mlp import read_mlp

ACTIVATIONS = ("relu", "tanh", "logistic", "identity")


def rows(seed: int, count: int = 120) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 3)) * [1.0, 3.0, 0.2]


def labels(X: np.ndarray, classes: list[Any]) -> np.ndarray:
    score = np.sin(2 * X[:, 0]) + X[:, 1] / 2
    return np.array(classes)[np.digitize(score, np.quantile(score, np.linspace(0, 1, len(classes) + 1)[1:-1]))]


def fitted(kind: type, seed: int, y: Any = None, dtype: type = np.float64, **settings: Any) -> Any:
    X = rows(seed).astype(dtype)
    settings = {"hidden_layer_sizes": (7, 5)[: 1 + seed % 2], "max_iter": 60, "learning_rate_init": 0.03} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        return kind(random_state=seed, **settings).fit(X, labels(X, ["bad", "good"]) if y is None else y(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_perceptron_with_two_classes_is_read_as_it_decides(activation: str, dtype: type) -> None:
    ask = rows(99, 2000).astype(dtype)
    for seed in range(4):
        model = fitted(MLPClassifier, seed, dtype=dtype, activation=activation)
        own = model.predict_proba(ask)[:, 1]
        for desired in ("bad", "good"):
            network = require_agreement(model, desired, None, ask)
            assert network.roundoff == (DOUBLE_ROUNDOFF if dtype is np.float64 else SINGLE_ROUNDOFF)
            inside = own[(own > 0.01) & (own < 0.99)][:4] if desired == "good" else 1 - own[:0]
            for threshold in (0.5, 0.1, 0.97, *map(float, inside)):  # on rows' own probabilities too
                require_agreement(model, desired, threshold, ask)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_perceptron_with_more_classes_is_read_as_it_decides(activation: str) -> None:
    for seed, dtype in enumerate((np.float64, np.float32, np.float64)):
        model = fitted(MLPClassifier, seed, lambda X: labels(X, [1, 2, 3, 5]), dtype, activation=activation)
        for desired in ((1,), (2, 5), (1, 2, 3)):
            require_agreement(model, desired, None, rows(98, 2000).astype(dtype))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_regression_is_read_with_a_threshold(activation: str) -> None:
    ask = rows(97, 2000)
    for seed, dtype in enumerate((np.float64, np.float32)):
        model = fitted(MLPRegressor, seed, lambda X: X @ [1.0, 0.5, 2.0], dtype, activation=activation)
        own = model.predict(ask.astype(dtype))
        for threshold in (0.0, -0.7, float(own[0]), float(own[1]), float(np.median(own))):
            require_agreement(model, None, threshold, ask.astype(dtype))


def test_a_regression_of_counts_is_read_through_its_exponential() -> None:
    if "loss" not in MLPRegressor().get_params():
        pytest.skip("this scikit-learn has no such regression")
    model = fitted(MLPRegressor, 1, lambda X: np.exp(X[:, 0] / 2), loss="poisson")
    own = model.predict(rows(97, 500))
    for threshold in (1.0, 0.3, float(own[0])):
        require_agreement(model, None, threshold, rows(97, 500))
    with pytest.raises(Unreadable, match="decides nothing"):
        read_estimator(model, None, 0.0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_decisions_one_float_apart_are_never_contradicted(activation: str) -> None:
    for seed, dtype in enumerate((np.float64, np.float32)):
        ask = rows(96, 200).astype(dtype)
        model = fitted(MLPClassifier, seed, dtype=dtype, activation=activation)
        for desired, threshold in (("good", None), ("bad", None), ("good", 0.3), ("bad", 0.8)):
            assert count_ties(model, desired, threshold, ask) >= 4
        several = fitted(MLPClassifier, seed, lambda X: labels(X, [1, 2, 3]), dtype, activation=activation)
        assert count_ties(several, (1, 3), None, ask) >= 4
        number = fitted(MLPRegressor, seed, lambda X: X[:, 0], dtype, activation=activation)
        assert count_ties(number, None, 0.1, ask) >= 4


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_bias_that_puts_a_row_one_float_from_the_threshold_is_never_contradicted(activation: str) -> None:
    for seed in range(3):
        model, row = fitted(MLPClassifier, seed, activation=activation), rows(95, 1)
        network = read_estimator(model, "good", None)
        assert isinstance(network, Network)
        model.intercepts_[-1] = model.intercepts_[-1] - network.outputs(row)[0]
        for step in (-np.inf, np.inf) * 3:
            for desired, threshold in (("good", None), ("bad", None), ("good", 0.5), ("bad", 0.5)):
                require_agreement(model, desired, threshold, row, most_unsure=1.0)
                may, must = decide_by_margins(read_estimator(model, desired, threshold), row)  # type: ignore[arg-type]
                assert may[0]
                assert not must[0]
            model.intercepts_[-1] = np.nextafter(model.intercepts_[-1], step)


def applicants(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.normal(3000, 900, 150).round(),
            "age": rng.integers(18, 80, 150),
            "home": rng.choice(["own", "rent", "none"], 150),
        }
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_networks_behind_pipelines_are_read_as_they_decide(activation: str) -> None:
    table, ask = applicants(0), applicants(1)
    preparing = make_column_transformer(
        (StandardScaler(), ["income"]), (MinMaxScaler(), ["age"]), (OneHotEncoder(), ["home"])
    )
    model = make_pipeline(preparing, MLPClassifier((6,), activation=activation, max_iter=500, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, (table["income"] > 3000) & (table["home"] != "none"))
    transform, final = split_pipeline(model)
    assert final is model.steps[-1][1]
    for desired, threshold in ((True, None), (False, None), (True, 0.3), (False, 0.9)):
        require_agreement(model, desired, threshold, compute_model_input(transform, ask), table=ask)


def test_the_bounds_cover_the_difference_to_exact_arithmetic() -> None:
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("nothing more precise than double is at hand here")
    ask = rows(94, 300)
    for seed in range(6):
        model = fitted(MLPRegressor, seed, lambda X: X[:, 0], activation=ACTIVATIONS[seed % 4])
        network = read_estimator(model, None, 0.25)
        assert isinstance(network, Network)
        values = ask.astype(np.longdouble)
        for layer in network.layers:
            sums = values @ layer.weights.astype(np.longdouble) + layer.bias.astype(np.longdouble)
            values = {
                "identity": sums,
                "relu": np.maximum(sums, 0),
                "tanh": np.tanh(sums),
                "logistic": 1 / (1 + np.exp(-sums)),
            }[layer.activation.kind]
        ((error,),) = bound_arithmetic_errors(network, find_largest_sizes(list(ask.T)))
        assert np.abs(values[:, 0] - model.predict(ask)).max() <= error
        assert np.abs(values[:, 0] - network.outputs(ask)[:, 0]).max() <= error
        assert error < 1e-9


def changed(model: Any, change: Any) -> Any:
    """A copy of a model with its weights and biases changed."""
    other = copy.deepcopy(model)
    other.coefs_ = [change(weights, True) for weights in other.coefs_]
    other.intercepts_ = [change(bias, False) for bias in other.intercepts_]
    return other


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
def test_saturated_units_are_read_as_they_decide(activation: str) -> None:
    model = changed(fitted(MLPClassifier, 1, activation=activation), lambda part, _: 300.0 * part)
    hidden = model._forward_pass([rows(93, 500)] + [None] * len(model.coefs_))[1]
    assert (np.abs(hidden) > 1 - 1e-16).mean() > 0.3
    for desired, threshold in (("good", None), ("bad", 0.4)):
        require_agreement(model, desired, threshold, rows(93, 500))
    assert count_ties(model, "good", None, rows(93, 500)) >= 4


def test_dead_units_are_read_as_they_decide() -> None:
    model = fitted(MLPClassifier, 3)
    model.intercepts_[0][:5] = -1e6
    require_agreement(model, "good", None, rows(92, 500))


def test_a_constant_output_is_left_to_the_model_where_it_ties_and_decided_where_it_does_not() -> None:
    model, ask = changed(fitted(MLPClassifier, 1), lambda part, _: 0.0 * part), rows(91, 50)
    for desired, threshold, unsure in (("good", None, 1.0), ("bad", None, 1.0), ("good", 0.4, 0.0), ("bad", 0.6, 0.0)):
        require_agreement(model, desired, threshold, ask, unsure)
        may, must = decide_by_margins(read_estimator(model, desired, threshold), ask)  # type: ignore[arg-type]
        assert (may & ~must).mean() == unsure


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_huge_weights_are_read_as_they_decide_or_refused(activation: str) -> None:
    model, ask = fitted(MLPClassifier, 1, activation=activation), rows(90, 300)
    with np.errstate(over="ignore"):
        for power in (5, 20, 100):
            large = changed(model, lambda part, _, p=power: 10.0**p * part)
            require_agreement(
                large, "good", None, ask, most_unsure=0.3 if power == 5 or activation in ("relu", "identity") else 1.0
            )
        over = changed(model, lambda part, is_weights: part * (1e200 if is_weights else 1.0))
        network = read_estimator(over, "good", None)
        assert isinstance(network, Network)
        if activation in ("relu", "identity"):
            with pytest.raises(Unreadable, match="so large"):
                bound_arithmetic_errors(network, find_largest_sizes(list(ask.T)))
        else:
            require_agreement(over, "good", None, ask, most_unsure=1.0)


def test_sums_that_single_precision_cannot_hold_are_refused() -> None:
    model = changed(fitted(MLPClassifier, 1, dtype=np.float32), lambda part, _: (part * 1e25).astype(np.float32))
    network = read_estimator(model, "good", None)
    assert isinstance(network, Network)
    with pytest.raises(Unreadable, match="float32 may not hold"):
        bound_arithmetic_errors(network, np.ones(3))
    with pytest.raises(Unreadable, match="float32 may not hold"):
        bound_arithmetic_errors(
            read_estimator(fitted(MLPClassifier, 1, dtype=np.float32), "good", None), np.full(3, 1e39)
        )  # type: ignore[arg-type]


def test_what_underflows_is_left_to_the_model() -> None:
    model = changed(fitted(MLPRegressor, 1, lambda X: X[:, 0]), lambda part, _: 0.0 * part)
    model.coefs_[0][0, 0], model.coefs_[-1][0, 0] = 1e-200, 1e-200
    if len(model.coefs_) == 3:
        model.coefs_[1][0, 0] = 1.0
    ask = np.array([[1.0, 0.0, 0.0]])
    assert model.predict(ask)[0] == 0.0
    may, must = decide_by_margins(read_estimator(model, None, 0.0), ask)  # type: ignore[arg-type]
    assert may[0]
    assert not must[0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(wrong: float) -> None:
    for part in ("coefs_", "intercepts_"):
        model = fitted(MLPClassifier, 1)
        getattr(model, part)[0].flat[0] = wrong
        with pytest.raises(Unreadable, match="finite"):
            read_estimator(model, "good", None)


def test_what_cannot_be_read_says_why() -> None:
    several = fitted(MLPClassifier, 0, lambda X: labels(X, [1, 2, 3]))
    with pytest.raises(Unreadable, match="more than two classes"):
        read_estimator(several, 1, 0.4)
    both = fitted(MLPClassifier, 0, lambda X: X[:, :2] > 0)
    with pytest.raises(Unreadable, match="several labels"):
        read_mlp(both, (0,), None)
    two = fitted(MLPClassifier, 0)
    for threshold in (0.0, 1.0, -1.0, 1e-18):
        with pytest.raises(Unreadable, match="decides nothing"):
            read_estimator(two, "good", threshold)
    number = fitted(MLPRegressor, 0, lambda X: X[:, 0])
    with pytest.raises(Unreadable, match="threshold alone"):
        read_estimator(number, 1.0, None)
    with pytest.raises(Unreadable, match="2 numbers at once"):
        read_estimator(fitted(MLPRegressor, 0, lambda X: X[:, :2]), None, 0.0)
    with pytest.raises(Unreadable, match="not fitted"):
        read_mlp(MLPClassifier(), (1,), None)
    two.coefs_ = [weights.astype(np.float16) for weights in two.coefs_]
    with pytest.raises(Unreadable, match="float16"):
        read_estimator(two, "good", None)
    with pytest.raises(Unreadable, match="SVC is not one"):
        read_estimator(SVC().fit(rows(0), labels(rows(0), [0, 1])), 1, None)
    assert all(reader(SVC(), (1,), None) is None for reader in OTHER_READERS)


def test_a_network_can_be_pickled() -> None:
    network = read_estimator(fitted(MLPClassifier, 2), "good", None)
    assert isinstance(network, Network)
    other = pickle.loads(pickle.dumps(network))
    assert (other.margins(rows(1))[0] == network.margins(rows(1))[0]).all()


@pytest.mark.parametrize(("name", "package"), [("TorchNetwork", "torch"), ("OnnxNetwork", "onnx")])
def test_a_missing_library_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ironrule.MissingExtraError, match=rf"ironrule\[{package}\]"):
        getattr(ironrule, name)(b"")


def test_factors_and_shifts_are_folded_into_the_weights_beside_them() -> None:
    rng = np.random.default_rng(0)
    first, second = make_dense(rng.normal(size=(3, 4)), rng.normal(size=4)), make_dense(rng.normal(size=(4, 2)))
    scale, norm = (
        make_unitwise(rng.normal(size=3), rng.normal(size=3), 2),
        make_normalisation(*rng.random((4, 4)), 1e-5),
    )
    relu = Activation("relu")
    cases = (((scale, first, norm, relu, norm, norm, second), 3, 2), ((first, second), 3, 2), ((norm, relu), 4, 2))
    for steps, width, count in cases:
        expected = values = rng.normal(size=(9, width))
        for step in steps:
            expected = step.apply(expected) if isinstance(step, Activation) else expected @ step.matrix + step.bias
        layers = fold_steps(steps, DOUBLE_ROUNDOFF).layers
        assert len(layers) == count
        np.testing.assert_allclose(Network(layers, ()).outputs(values), expected, rtol=1e-12, atol=1e-12)


def test_constants_that_cancel_count_by_their_own_sizes() -> None:
    mean = np.full(20, 1e4)
    body = fold_steps((make_normalisation(mean, np.ones(20), np.ones(20), mean, 0.0),), SINGLE_ROUNDOFF)
    margin = body.build_margin(np.eye(20)[0], 0.0, 0.0)
    ((error,),) = bound_arithmetic_errors(Network(body.layers, ((margin,),), body.roundoff), np.ones(20))
    row = np.random.default_rng(0).random(20, dtype=np.float32)
    off = np.abs((row - np.float32(1e4)) + np.float32(1e4) - row).max()
    assert error - margin.error < off < error  # the bias is zero, and says nothing of what met in it


def test_paths_that_are_rounded_often_make_the_unit_larger() -> None:
    one = np.ones(1)
    assert fold_steps((make_dense(np.ones((1, 1))),), DOUBLE_ROUNDOFF).roundoff == DOUBLE_ROUNDOFF
    assert (
        fold_steps((make_normalisation(one, one, one, one, 0.0), make_dense(np.ones((1, 1)))), DOUBLE_ROUNDOFF).roundoff
        > 2 * DOUBLE_ROUNDOFF
    )
    assert (
        fold_steps(
            (make_unitwise(np.ones(50), np.zeros(50), 3), make_dense(np.ones((50, 9)))), DOUBLE_ROUNDOFF
        ).roundoff
        == DOUBLE_ROUNDOFF
    )


def test_steps_that_make_no_network_are_refused() -> None:
    with pytest.raises(Unreadable, match="no weights"):
        fold_steps((Activation("relu"),), DOUBLE_ROUNDOFF)
    with pytest.raises(Unreadable, match="do not fit"):
        fold_steps((make_dense(np.ones((2, 3))), make_dense(np.ones((2, 2)))), DOUBLE_ROUNDOFF)
    with pytest.raises(Unreadable, match="do not fit"):
        fold_steps((make_dense(np.ones((2, 3))), make_unitwise(np.ones(2), np.ones(2), 1)), DOUBLE_ROUNDOFF)
    for slope in (-0.1, 1.5, np.nan):
        with pytest.raises(Unreadable, match="slope from 0 to 1"):
            make_leaky_relu(slope)


def test_activations_in_a_row_and_at_the_ends_get_layers_that_change_nothing() -> None:
    steps = (Activation("tanh"), make_dense(np.eye(2), np.ones(2)), Activation("tanh"), Activation("relu"))
    layers = fold_steps(steps, DOUBLE_ROUNDOFF).layers
    assert [layer.activation.kind for layer in layers] == ["tanh", "tanh", "relu", "identity"]
    values = np.random.default_rng(0).normal(size=(5, 2))
    expected = np.maximum(np.tanh(np.tanh(values) + 1), 0)
    np.testing.assert_allclose(Network(layers, ()).outputs(values), expected, rtol=1e-14)


def test_a_probability_is_compared_as_the_model_compares_it() -> None:
    model, ask = fitted(MLPClassifier, 1), rows(89, 400)
    own = model.predict_proba(ask)
    assert (build_decision(model, "bad", 0.5)(ask, 400) == (own[:, 0] > 0.5)).all()
    network = read_estimator(model, "bad", 0.5)
    assert isinstance(network, Network)
    assert network.alternatives[0][0].offset == 0.0
    assert network.alternatives[0][0].coefficients.tolist() == [-1.0]

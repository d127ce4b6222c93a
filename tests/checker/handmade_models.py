"""Models with numbers chosen by hand, and past rows for them; nothing of the search is loaded with these."""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer


def linear(coefficients: list[list[float]], intercepts: list[float]) -> LogisticRegression:
    """A fitted classifier with these numbers."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = np.array(coefficients), np.array(intercepts)
    model.classes_ = np.arange(max(2, len(coefficients)))
    model.n_features_in_ = len(coefficients[0])
    return model


def layered(*layers: tuple[list[list[float]], list[float]]) -> MLPClassifier:
    """A fitted network with these weights and biases."""
    model = MLPClassifier([len(bias) for _, bias in layers[:-1]])
    model.coefs_, model.intercepts_ = [np.array(weights) for weights, _ in layers], [np.array(b) for _, b in layers]
    model.classes_, model.n_features_in_ = np.arange(2), len(layers[0][0])
    model.n_layers_, model.n_outputs_, model.out_activation_ = len(layers) + 1, 1, "logistic"
    model._label_binarizer = LabelBinarizer().fit(model.classes_)
    return model


def rows(*sizes: int) -> np.ndarray:
    """Every combination of numbers below the sizes, as past rows."""
    return np.array(list(itertools.product(*map(range, sizes))), dtype=np.float64)


NETWORK = layered(
    ([[1.0, -0.5, 0.25], [-0.5, 1.0, 0.5], [0.75, 0.5, -1.0]], [-0.25, 0.5, 1.0]),
    ([[1.0, -0.5], [-1.5, 0.75], [0.5, 1.0]], [0.25, -0.5]),
    ([[1.5], [-1.25]], [-0.375]),
)


SLOPES = [[1.0, -1.5, 0.75, 0.5]]
TIES = "cf.x0 + cf.x2 <= 4 and cf.x1 >= cf.x3"


def feasible_rows(*sizes: int) -> np.ndarray:
    """Those of these rows that satisfy TIES."""
    every = rows(*sizes)
    return every[(every[:, 0] + every[:, 2] <= 4) & (every[:, 1] >= every[:, 3])]


def bank(table: np.ndarray) -> np.ndarray:
    """A model that can only be asked: good with an income of 2 and one account at most, or with no debt at all."""
    return ((table[:, 0] >= 2) & (table[:, 1] <= 1)) | (table[:, 2] == 0)

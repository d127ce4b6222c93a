"""CARLA's data and catalogue models, as scikit-learn pipelines on raw columns.

Numbers are scaled to [0, 1] over the whole table, binary categories are one column each: these are CARLA's model
columns, in which all of its answers and distances are. The weights are put into estimators of scikit-learn and XGBoost.

CARLA's forests are asked in the order of columns in which it asks them itself, capital-loss before hours-per-week.
They were trained in the other order (``findings`` shows it), which is why thresholds of one of these columns lie among
the values of the other. The decisions of CARLA, and so its rows and answers, are those of the order used here.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from benchmarks.data import folder
from ironrule import Explainer

DESIRED = 1
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_TARGET, HELOC_TARGET = "income", "RiskPerformance"
TARGETS = {"adult": ADULT_TARGET, "heloc": HELOC_TARGET}
IMMUTABLE = {"adult": ("age", "sex"), "heloc": ()}  # as CARLA's catalogue declares them
KINDS = ("ann", "linear", "forest")
BACKENDS = {
    "ann": ("tensorflow", "pytorch"),
    "linear": ("tensorflow", "pytorch"),
    "forest": ("sklearn", "xgboost"),
}
HIDDEN_LAYERS = (18, 9, 3)
TREES, DEPTH = 5, 2


def find_carla_folder() -> Path:
    """The folder of CARLA's data, weights and answers; ends the program with a clear message if it is not there."""
    place = folder() / "carla"
    if not place.is_dir():
        raise SystemExit(f"IRONRULE_DATA must name a folder with carla/ in it, but {str(place)!r} is no folder")
    return place


@dataclass(frozen=True)
class CarlaModel:
    """One of CARLA's models on its data. ``pipeline`` decides raw rows; its last step decides model columns."""

    data: str
    kind: str
    backend: str
    pipeline: Pipeline
    table: pd.DataFrame
    immutable: tuple[str, ...]

    @property
    def name(self) -> str:
        """As results call it."""
        return f"{self.data} {self.kind} {self.backend}"

    @property
    def features(self) -> list[str]:
        """The raw feature of every model column."""
        return [str(name) for _, _, names in self.pipeline[0].transformers_ for name in names]

    @property
    def categories(self) -> list[str]:
        """The features that are no numbers; their columns are the last ones."""
        return [
            str(name) for part, _, names in self.pipeline[0].transformers_ for name in names if part == "categories"
        ]

    @property
    def columns(self) -> list[str]:
        """The model columns, by CARLA's names: of the two categories of a feature, the second has the column."""
        numbers = self.features[: len(self.features) - len(self.categories)]
        if not self.categories:
            return numbers
        values = self.pipeline[0].named_transformers_["categories"].categories_
        return numbers + [f"{name}_{known[1]}" for name, known in zip(self.categories, values, strict=True)]

    @cached_property
    def encoded(self) -> np.ndarray:
        """The whole table in model columns."""
        return self.encode(self.table)

    def encode(self, rows: pd.DataFrame) -> np.ndarray:
        """Raw rows in model columns."""
        return np.asarray(self.pipeline[0].transform(rows), dtype=np.float64)

    def decode_categories(self, point: np.ndarray) -> list[str]:
        """The categories of a point in model columns, as the encoder reads any numbers there."""
        if not self.categories:
            return []
        encoder = self.pipeline[0].named_transformers_["categories"]
        return [str(value) for value in encoder.inverse_transform(point[None, -len(self.categories) :])[0]]

    def approve(self, points: np.ndarray) -> np.ndarray:
        """Which points, in model columns, get the desired outcome."""
        if len(points) == 0:
            return np.zeros(0, dtype=np.bool_)
        return np.asarray(self.pipeline[-1].predict(np.asarray(points, dtype=np.float64))) == DESIRED

    def list_denied_rows(self, count: int) -> list[int]:
        """The first rows of the table that the model denies: those that CARLA explains."""
        return np.flatnonzero(~self.approve(self.encoded))[:count].tolist()

    @cached_property
    def explainer(self) -> Explainer:
        """Ours, which is told what is immutable."""
        roles = dict.fromkeys(self.immutable, "immutable")
        return Explainer(self.pipeline, self.table, desired=DESIRED, roles=roles, guess_roles=False, progress=False)


def load_model(data: str, kind: str, backend: str) -> CarlaModel:
    """A model of CARLA's catalogue with its data."""
    place = find_carla_folder()
    table = pd.read_csv(place / f"{data}.csv.gz").drop(columns=TARGETS[data])
    numbers = list(ADULT_NUMBERS) if data == "adult" else list(table.columns)
    parts: list[tuple[str, Any, list[str]]] = [("numbers", MinMaxScaler(), numbers)]
    if kind == "forest":  # the forests know the numbers alone
        table = table[numbers]
    elif categories := [name for name in table if name not in numbers]:
        parts.append(("categories", OneHotEncoder(drop="if_binary", sparse_output=False), categories))
    prepare = ColumnTransformer(parts).fit(table)
    build = BUILDERS[kind, backend] if kind == "forest" else BUILDERS[kind, ""]
    width = sum(len(names) for _, _, names in parts)
    suffix = {"tensorflow": "ann_tf", "pytorch": "ann_torch", "sklearn": "rf.npz", "xgboost": "xgb.json"}[backend]
    suffix = suffix if kind == "forest" else f"{suffix.replace('ann', kind)}.npz"
    estimator = build(place / "models" / f"{data}_{suffix}", width)
    pipeline = Pipeline([("prepare", prepare), ("model", estimator)])
    immutable = tuple(name for name in IMMUTABLE[data] if name in table)
    return CarlaModel(data, kind, backend, pipeline, table, immutable)


def read_layers(file: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (in, out) and biases of every layer; torch's are stored as (out, in)."""
    with np.load(file) as stored:
        arrays = {name: stored[name].astype(np.float64) for name in stored.files}
    layers = []
    for name, weights in arrays.items():
        if weights.ndim == 2:
            bias = arrays[name.replace("kernel", "bias").replace("weight", "bias")]
            layers.append((weights if "kernel" in name else weights.T, bias))
    return layers


def _merge_outputs(weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One output of two: the desired class has the larger one where their difference is positive."""
    return weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1]


def build_linear(file: Path, width: int) -> LogisticRegression:
    """Logistic regression with stored weights."""
    weights, bias = _merge_outputs(*read_layers(file)[0])
    model = LogisticRegression().fit(_placeholder_rows(width), [0, 1])
    model.coef_, model.intercept_ = np.ascontiguousarray(weights.T), bias
    return model


def build_network(file: Path, width: int) -> MLPClassifier:
    """A network of relu layers with stored weights."""
    *hidden, last = read_layers(file)
    layers = [*hidden, _merge_outputs(*last)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that two rows are no training
        model = MLPClassifier(HIDDEN_LAYERS, max_iter=1, random_state=0).fit(_placeholder_rows(width), [0, 1])
    model.coefs_, model.intercepts_ = ([np.ascontiguousarray(layer[part]) for layer in layers] for part in (0, 1))
    return model


def build_forest(file: Path, width: int) -> RandomForestClassifier:
    """A forest of scikit-learn with stored trees."""
    model = RandomForestClassifier(TREES, max_depth=DEPTH, random_state=0).fit(_placeholder_rows(width), [0, 1])
    with np.load(file) as stored:
        for place, tree in enumerate(model.estimators_):
            tree.tree_ = _build_tree(type(tree.tree_), width, *(stored[f"{part}{place}"] for part in "lrftv"))
    return model


def _build_tree(
    make: Callable[..., Any], width: int, left: Any, right: Any, features: Any, thresholds: Any, counts: Any
) -> Any:
    """A tree of scikit-learn from stored nodes; it keeps shares of classes where counts are stored."""
    sizes, shares = counts.sum(axis=1), counts / counts.sum(axis=1, keepdims=True)
    tree = make(width, np.array([2], dtype=np.intp), 1)
    empty = tree.__getstate__()
    nodes = np.zeros(len(left), dtype=empty["nodes"].dtype)
    columns = {"left_child": left, "right_child": right, "feature": features, "threshold": thresholds}
    for name, column in {**columns, "n_node_samples": sizes, "weighted_n_node_samples": sizes}.items():
        nodes[name] = column
    state = {"max_depth": DEPTH, "node_count": len(left), "nodes": nodes, "values": shares[:, None, :].copy()}
    tree.__setstate__({**empty, **state})
    return tree


def build_boosted(file: Path, width: int) -> Any:
    """XGBoost's trees as stored; the names of columns, which are in the order of training, are left out."""
    from xgboost import XGBClassifier

    stored = json.loads(file.read_text())
    stored["learner"]["feature_names"], stored["learner"]["feature_types"] = [], []
    model = XGBClassifier(n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the format is an old one
        model.load_model(bytearray(json.dumps(stored).encode()))
    if model.n_features_in_ != width:
        raise SystemExit(f"{file.name} must be a model of {width} columns, but it has {model.n_features_in_}")
    return model


def _placeholder_rows(width: int) -> np.ndarray:
    """Two rows, to give an estimator its form before its weights are replaced."""
    return np.array([np.zeros(width), np.ones(width)])


BUILDERS: dict[tuple[str, str], Callable[[Path, int], Any]] = {
    ("linear", ""): build_linear,
    ("ann", ""): build_network,
    ("forest", "sklearn"): build_forest,
    ("forest", "xgboost"): build_boosted,
}

"""FeatureTweak as CARLA runs it, on its forests, to see what its answers are.

For every tree that denies the row, each path to a leaf that approves sets the features that it asks about to epsilon
beyond its thresholds, whether that is needed or not, from the leaf up: where it asks about a feature twice, the upper
threshold counts. Of the results that the same tree approves, the nearest (by the Euclidean distance) is the answer;
CARLA then drops it if the ensemble denies it. That the ensemble approves is not asked for before. With
``asks_ensemble``, only results that it approves are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.carla.models import CarlaModel

EPSILON = 0.1  # CARLA's default, in scaled columns


@dataclass(frozen=True, slots=True, eq=False)
class FlatTree:
    """A tree's nodes; ``approves`` says of every leaf whether the tree by itself approves there."""

    left: np.ndarray
    right: np.ndarray
    features: np.ndarray
    thresholds: np.ndarray
    approves: np.ndarray
    strict: bool  # whether left means below the threshold, not at most

    def decide(self, point: np.ndarray) -> bool:
        """What the tree by itself says."""
        node = 0
        while self.left[node] >= 0:
            value, threshold = np.float32(point[self.features[node]]), self.thresholds[node]
            goes_left = value < threshold if self.strict else value <= threshold
            node = self.left[node] if goes_left else self.right[node]
        return bool(self.approves[node])

    def list_paths(self, node: int = 0) -> Iterator[list[tuple[int, float, int]]]:
        """To every leaf that approves: the features, thresholds and directions on the way."""
        if self.left[node] < 0:
            if self.approves[node]:
                yield []
            return
        feature, threshold = int(self.features[node]), float(self.thresholds[node])
        for child, direction in ((self.left[node], -1), (self.right[node], 1)):
            for rest in self.list_paths(child):
                yield [(feature, threshold, direction), *rest]


def list_trees(model: CarlaModel) -> list[FlatTree]:
    """The trees of a forest of CARLA's."""
    estimator = model.pipeline[-1]
    return _list_sklearn(estimator) if model.backend == "sklearn" else _list_boosted(estimator)


def _list_sklearn(forest: Any) -> list[FlatTree]:
    trees = [one.tree_ for one in forest.estimators_]
    return [
        FlatTree(
            tree.children_left,
            tree.children_right,
            tree.feature,
            tree.threshold,
            tree.value[:, 0, 1] > tree.value[:, 0, 0],
            strict=False,
        )
        for tree in trees
    ]


def _list_boosted(model: Any) -> list[FlatTree]:
    """XGBoost's trees; a leaf's value stands where a threshold would."""
    frame = model.get_booster().trees_to_dataframe()
    trees = []
    for _, nodes in frame.groupby("Tree"):
        number = {name: place for place, name in enumerate(nodes["ID"])}
        children = [np.array([number.get(name, -1) for name in nodes[side]]) for side in ("Yes", "No")]
        features = np.array([int(name[1:]) if name != "Leaf" else -2 for name in nodes["Feature"]])
        thresholds = nodes["Split"].fillna(-2.0).to_numpy()
        trees.append(FlatTree(*children, features, thresholds, nodes["Gain"].to_numpy() > 0.0, strict=True))
    return trees


def tweak_features(
    model: CarlaModel, trees: list[FlatTree], row: np.ndarray, asks_ensemble: bool = False
) -> np.ndarray | None:
    """The answer for a row; None if there is none, or if the ensemble denies it."""
    best, least = None, np.inf
    for tree in trees:
        if tree.decide(row):
            continue
        for path in tree.list_paths():
            point = row.copy()
            for feature, threshold, direction in reversed(path):
                point[feature] = threshold + direction * EPSILON
            length = float(np.linalg.norm(point - row))
            accepted = tree.decide(point) and (not asks_ensemble or model.approve(point[None, :])[0])
            if accepted and length < least:
                best, least = point, length
    return None if best is None or not model.approve(best[None, :])[0] else best

"""What is explained: a model on a table, with one explainer that may read the model and one that may only ask it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import adult_one_hot, credit, folder, heloc
from benchmarks.fico import fico
from benchmarks.paper.experiment import Task
from benchmarks.tree import estimator_in
from ironrule import Explainer, Space

SEED = 0
NOTHING = -9  # in every feature of a row without a record
FICO_UNITS = (10,)  # as many as the FICO model has subscales


@dataclass(frozen=True, slots=True)
class Veiled:
    """A model that can only be asked, and that says which it is, so that its outcomes of a long history can be kept."""

    model: Any

    def predict(self, rows: Any) -> Any:
        """What the model says."""
        return self.model.predict(rows)


@dataclass(frozen=True)
class Subject:
    """A model and its table, or the Parquet file of one that is too long for memory; explainers are made when they are
    first wanted. ``q`` and ``s`` are the paper's.
    """

    name: str
    model: Any
    past: pd.DataFrame | Path
    desired: Any
    q: int = 50
    s: int = 1000
    space: Space | None = None
    kept: Path | None = None  # where codes of a file and outcomes are, for the next time

    @cached_property
    def table(self) -> pd.DataFrame:
        """The past rows in memory."""
        if isinstance(self.past, pd.DataFrame):
            return self.past
        return pd.read_parquet(self.past, columns=list(self.model.feature_names_in_))

    def _explainer(self, model: Any, space: Space | None) -> Explainer:
        return Explainer(
            model, self.past, desired=self.desired, space=space, cache=self.kept, progress=False, domain="seen"
        )

    @cached_property
    def exact(self) -> Explainer:
        """Reads the model where it can, so that rules are proven."""
        return self._explainer(self.model, self.space)

    @cached_property
    def black_box(self) -> Explainer:
        """Gets the model's predict alone, so that it can only be asked; GeCo looks for counterfactuals."""
        if self.exact.unreadable_reason is not None:
            return self.exact
        veiled = self.model.predict if self.kept is None else Veiled(self.model)
        return self._explainer(veiled, self.exact.space)

    def undesired(self, count: int) -> list[int]:
        """Rows with the undesired outcome in a fixed random order: the first of many are those of few."""
        order = np.random.default_rng(SEED).permutation(np.flatnonzero(~self.exact.outcomes))
        return [int(row) for row in order[:count]]


def _credit(task: Task) -> Subject:
    """The authors' tree on Credit; desired is no default."""
    model = estimator_in(folder() / "credit" / "tree.npz")
    return Subject("Credit", model, credit()[0][list(model.feature_names_in_)], 1, task.q, task.s)


def _adult(task: Task) -> Subject:
    """The authors' tree on Adult, one-hot; as in their script, rows predicted 1 are explained."""
    model = estimator_in(folder() / "adult" / "tree_onehot.npz")
    return Subject("Adult", model, adult_one_hot()[0][list(model.feature_names_in_)], 0, task.q, task.s)


def _fico(task: Task) -> Subject:
    """The authors' two-layer model on FICO's rows; desired is good, class 0."""
    model, table, _ = fico()
    return Subject("FICO", model, table, 0, task.q, task.s)


def _fico_network(task: Task) -> Subject:
    """Two layers of logistic units, as in the FICO model, but learned freely; on HELOC's rows that have any value."""
    table, target = heloc()
    known = (table != NOTHING).any(axis=1)
    table, target = table[known].reset_index(drop=True), target[known]
    network = MLPClassifier(FICO_UNITS, activation="logistic", max_iter=300, random_state=SEED)
    model = make_pipeline(StandardScaler(), network).fit(table, target)
    return Subject("FICO network", model, table, 1, task.q, task.s)


def _stand_in(task: Task) -> Subject:
    """The stand-in for Yelp with its network; its module builds table, model and the desired class."""
    from benchmarks.paper.yelp_stand_in import cache, stand_in_file

    file, model, desired = stand_in_file(quick=bool(task.facts.get("quick")))
    return Subject("Yelp stand-in", model, file, desired, task.q, task.s, kept=cache() / "histories")


SUBJECTS = {
    "Credit": _credit,
    "Adult": _adult,
    "FICO": _fico,
    "FICO network": _fico_network,
    "Yelp stand-in": _stand_in,
}
"""Makers of the paper's four classifiers and of one more network, by task name."""

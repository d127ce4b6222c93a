"""A subject as other packages want it: a matrix of numbers with some columns called categorical, and a model on it.

Ordered features with numbers keep their values; other features become codes, categorical ones where they have no order.
The model's own preprocessing is a table over codes (:mod:`ironrule.model.model_input`), so the model travels as its
last step and as these tables, and every package explains the same features that we explain.
"""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.paper.subject import SEED, Subject
from ironrule import Component, Feature, Rule, Space
from ironrule.arrays import Points
from ironrule.model.model_input import TabulatedColumns, compute_model_input, tabulate
from ironrule.model.pipeline import split_pipeline

MOST_ROWS = 100_000  # of the table: larger ones are sampled
PAST = 4096
KNOWN = 1000  # rows on which the model must decide elsewhere as it does here

Condition = tuple[int, str, float]  # a feature's place; <=, > or ==; a bound on its number


@dataclass(frozen=True)
class Encoded:
    """The numbers of a subject's features, and back from conditions on them to rules."""

    subject: Subject

    @property
    def space(self) -> Space:
        """The space of the subject."""
        return self.subject.exact.space

    @property
    def layout(self) -> Any:
        """From codes to the table that the model gets."""
        return self.subject.exact._context.model.primary.layout

    @cached_property
    def columns(self) -> TabulatedColumns:
        """What the model's last step sees for every code."""
        transform, _ = split_pipeline(self.subject.model)
        return tabulate(
            lambda points: compute_model_input(transform, self.layout.decode(points)), self.space, self.codes(PAST)
        )

    def codes(self, most: int) -> Points:
        """Rows of the table as codes, a sample of them where there are more."""
        table = self.subject.table
        rows = np.arange(len(table))
        if len(table) > most:
            rows = np.sort(np.random.default_rng(SEED).choice(len(table), most, replace=False))
        return self.of_rows(rows.tolist())

    def of_rows(self, rows: list[int]) -> Points:
        """Some rows of the table as codes."""
        return self.space.encode(self.subject.table.iloc[rows], progress=False).points(slice(0, len(rows)))

    def numbers(self, codes: Points) -> npt.NDArray[np.float64]:
        """Codes as the numbers that a package gets."""
        return np.stack([domain(f)[codes[:, j]] for j, f in enumerate(self.space.features)], axis=1)

    def rule(self, conditions: list[Condition]) -> Rule:
        """Conditions as a rule over domain values: per feature the tightest bound on each side, if it excludes any."""
        components: list[Component] = []
        for j in dict.fromkeys(condition[0] for condition in conditions):
            components += _components(self.space.features[j], [c for c in conditions if c[0] == j])
        return Rule(tuple(components))

    def write(self, place: Path, rows: list[int], settings: dict[str, Any]) -> None:
        """All that a package's process needs, into a folder."""
        if any(feature.missing for feature in self.space.features):
            raise RuntimeError("features must never be missing for other packages, but some are")
        _, final = split_pipeline(self.subject.model)
        (place / "model.pkl").write_bytes(pickle.dumps(_without_draws(final)))
        codes = self.codes(MOST_ROWS)
        np.save(place / "train.npy", self.numbers(codes))
        known = np.asarray(self.subject.model.predict(self.layout.decode(codes[:KNOWN])))
        np.save(place / "known.npy", known.astype(str))
        np.save(place / "rows.npy", self.numbers(self.of_rows(rows)))
        tables = {f"table{place}": values for place, values in enumerate(self.columns.values)}
        domains = {f"domain{place}": domain(feature) for place, feature in enumerate(self.space.features)}
        np.savez(place / "tables.npz", features=self.columns.features, **tables, **domains)
        said = {"names": list(self.space.names), "categorical": _categorical(self.space)}
        own = type(final).__module__.split(".")[0] == "ironrule"
        said["frame"] = [str(name) for name in self.layout.decode(codes[:1]).columns] if own else None
        (place / "settings.json").write_text(json.dumps(settings | said))


def _without_draws(model: Any) -> Any:
    """A model without what it drew random numbers from: NumPy 1 cannot read it from NumPy 2, no decision needs it."""
    made = copy.copy(model)
    for name, value in list(vars(made).items()) if hasattr(made, "__dict__") else ():
        if isinstance(value, np.random.RandomState | np.random.Generator):
            delattr(made, name)
    return made


def domain(feature: Feature) -> npt.NDArray[np.float64]:
    """The numbers that a feature's codes stand for: its values where these are numbers in their order."""
    plain = feature.ordered and feature.naturally_ordered and feature.numeric
    return np.array(feature.values if plain else range(len(feature.values)), dtype=np.float64)


def _categorical(space: Space) -> dict[str, list[str]]:
    """Per feature without order the texts of its values."""
    return {str(j): [str(v) for v in f.values] for j, f in enumerate(space.features) if not f.ordered}


def _components(feature: Feature, conditions: list[Condition]) -> list[Component]:
    numbers = domain(feature)
    admitted = np.ones(len(numbers), dtype=np.bool_)
    for _, relation, bound in conditions:
        admitted &= {"<=": numbers <= bound, ">": numbers > bound, "==": numbers == bound}[relation]
    codes = np.flatnonzero(admitted)
    if not feature.ordered:
        if len(codes) != 1:
            raise RuntimeError(f"a condition on {feature.name!r} must name one value, but {len(codes)} satisfy it")
        return [Component.from_feature(feature, "==", feature.values[codes[0]])]
    upper = [Component.from_feature(feature, "<=", feature.values[codes[-1]])] if codes[-1] < feature.last_code else []
    return [*([Component.from_feature(feature, ">=", feature.values[codes[0]])] if codes[0] > 0 else []), *upper]

"""A subject: a model, its table, what counts as desired, and what else is asked of the explainer.

The truth comes from here: a model's raw answers, by its own ``predict`` or ``predict_proba``, and how a user would
read a decision from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.fuzz.data import Table, Value

Flags = npt.NDArray[np.bool_]
DEFAULT_THRESHOLD = 0.5


class NotDrawn(Exception):  # noqa: N818  # no error: this draw has no model
    """Why a case came to nothing before the explainer was asked, such as a library that refused the data."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What counts as desired: classes, a threshold on scores, and by how much every score may move."""

    desired: tuple[Any, ...] | None = None
    threshold: float | None = None
    margin: float = 0.0

    def alone(self) -> Decision:
        """The same without the margin."""
        return Decision(self.desired, self.threshold)


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint: its text for the explainer, and its truth for a point and the instance."""

    text: str
    holds: Callable[[Mapping[str, Value], Mapping[str, Value]], bool] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What one case is about. ``space_rules`` speak of a point alone, ``change_rules`` of it and the instance."""

    model: Any
    table: Table
    decision: Decision
    others: tuple[Any, ...] = ()
    intervals: bool = False
    space_rules: tuple[Rule, ...] = ()
    change_rules: tuple[Rule, ...] = ()
    weights_apart: bool = False
    second: Any = None  # another model of the same table, to recheck with
    note: str = ""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of an explainer."""
        given: dict[str, Any] = {"progress": False, "domain": "auto" if self.intervals else "seen"}
        if self.decision.desired is not None:
            given["desired"] = self.decision.desired[0] if len(self.decision.desired) == 1 else self.decision.desired
        if self.decision.threshold is not None:
            given["threshold"] = self.decision.threshold
        if self.decision.margin:
            given["margin"] = self.decision.margin
        if self.others:
            given["models"] = list(self.others)
        return given

    def describe(self) -> str:
        """The subject in a few words, for reports of false claims."""
        table = ", ".join(f"{column.name}: {column.kind} {list(column.domain)}" for column in self.table.columns)
        rules = [rule.text for rule in (*self.space_rules, *self.change_rules)]
        extra = f"; intervals={self.intervals}; {len(self.others)} more models; constraints {rules}; {self.note}"
        return f"{self.model!r}\n  {self.table.form} table of {len(self.table)} rows, {table}\n  {self.decision}{extra}"


@dataclass(slots=True, eq=False)
class Answers:
    """A model's own answers about some rows, each kind asked for once."""

    model: Any
    rows: Any
    _labels: Any = None
    _scores: Any = None

    def desired(self, decision: Decision) -> Flags:
        """Which rows are desired, a margin counted."""
        classes = getattr(self.model, "classes_", None)
        if classes is None or len(classes) == 0:
            threshold = DEFAULT_THRESHOLD if decision.threshold is None else decision.threshold
            return np.asarray(self._predicted() > threshold - decision.margin, dtype=np.bool_)
        known = [label.item() if hasattr(label, "item") else label for label in np.asarray(classes).ravel()]
        wanted = (1,) if decision.desired is None else decision.desired
        if decision.threshold is None and not decision.margin:
            labels = self._predicted()
            return np.asarray(np.any([labels == label for label in wanted], axis=0), dtype=np.bool_)
        threshold = DEFAULT_THRESHOLD if decision.threshold is None else decision.threshold
        if self._scores is None:
            self._scores = np.asarray(self.model.predict_proba(self.rows))
        scores = self._scores
        if scores.ndim == 1:  # pyGAM answers for the second class alone
            scores = np.column_stack([1 - scores, scores])
        chosen = scores[:, [known.index(label) for label in wanted]].sum(axis=1)
        return np.asarray(chosen > threshold - decision.margin, dtype=np.bool_)

    def closeness(self, decision: Decision) -> npt.NDArray[np.float64]:
        """How close every row is to being decided otherwise, where the model has scores; zeros where it has none."""
        classes, threshold = getattr(self.model, "classes_", None), decision.threshold
        if classes is None or len(classes) == 0:
            answers = self._predicted()
            if answers.dtype.kind != "f":
                return np.zeros(len(answers))
            return np.abs(answers - (DEFAULT_THRESHOLD if threshold is None else threshold) + decision.margin)
        if threshold is None and not decision.margin and hasattr(self.model, "decision_function"):
            scores = np.asarray(self.model.decision_function(self.rows), dtype=np.float64)
        elif hasattr(self.model, "predict_proba"):
            scores = np.asarray(self.model.predict_proba(self.rows), dtype=np.float64)
        else:
            return np.zeros(len(self._predicted()))
        if threshold is not None or decision.margin:
            cut = (DEFAULT_THRESHOLD if threshold is None else threshold) - decision.margin
            return np.asarray(np.abs(scores.reshape(len(scores), -1) - cut).min(axis=1))
        if scores.ndim == 1:
            return np.abs(scores)
        ranked = np.sort(scores, axis=1)
        return np.asarray(ranked[:, -1] - ranked[:, -2])

    def _predicted(self) -> npt.NDArray[Any]:
        if self._labels is None:
            ask = self.model.predict if hasattr(self.model, "predict") else self.model
            labels = np.asarray(ask(self.rows))
            self._labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        labels = self._labels
        return np.asarray(labels)


def desired_by_any(models: Sequence[Any], rows: Any, decision: Decision) -> Flags:
    """Which rows some model desires, margins counted."""
    return np.asarray(np.any([Answers(model, rows).desired(decision) for model in models], axis=0), dtype=np.bool_)

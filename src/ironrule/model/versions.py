"""What a rule must withstand: several versions of a model at once, and scores that may move.

A rule that must hold for several models holds where none of them gives the desired outcome: together they desire what
any of them desires. A rule that must hold although every score may move by a margin holds where no score comes within
the margin of the threshold: that is the same model with a lower threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError, OutcomeError
from ironrule.model.blackbox import BlackBox, black_box
from ironrule.model.decision import DEFAULT_THRESHOLD, as_labels, refuse_impossible
from ironrule.model.readable import Read, Readable, read_model, readable
from ironrule.space import Codes, Points, Space, Table
from ironrule.space.plain import from_plain, to_plain


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts as desired: the classes, the threshold on scores, and the margin by which scores may move."""

    desired: tuple[Any, ...] | None = None
    threshold: float | None = None
    margin: float = 0.0

    @classmethod
    def of(cls, desired: Any, threshold: float | None, margin: float = 0.0) -> Wanted:
        """The same from what a caller gives, checked."""
        number = isinstance(margin, (int, float, np.number)) and not isinstance(margin, bool)
        if not number or not 0 <= margin < float("inf"):
            raise InputError(expected="margin must be a finite non-negative number", got=repr(margin))
        return cls(None if desired is None else as_labels(desired), threshold, float(margin))

    def lowered(self, model: Any) -> float | None:
        """The threshold less the margin; raises OutcomeError if the model's decision has no score to move."""
        if self.margin == 0 or (self.threshold is not None):
            return None if self.threshold is None else self.threshold - self.margin
        classes = getattr(model, "classes_", None)
        if classes is None and not hasattr(model, "predict"):
            return DEFAULT_THRESHOLD - self.margin
        if classes is None or len(classes) != 2 or not hasattr(model, "predict_proba"):
            raise OutcomeError(
                expected="a margin needs a score with a threshold, such as a classifier of two classes with "
                "predict_proba has",
                got=type(model).__name__,
                hint="pass threshold=... with the margin",
                code="threshold-per-model",
            )
        return DEFAULT_THRESHOLD - self.margin

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        desired = None if self.desired is None else [to_plain(label) for label in self.desired]
        return {"desired": desired, "threshold": self.threshold, "margin": self.margin}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Wanted:
        """What :meth:`to_dict` wrote."""
        desired = None if data["desired"] is None else tuple(from_plain(label) for label in data["desired"])
        return cls.of(desired, data["threshold"], data["margin"])


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """Models that are asked together; ``own`` is the first one as it is, whose decision is explained."""

    own: BlackBox
    boxes: tuple[BlackBox, ...]
    models: int = 1  # how many models there are; one of them may be asked in two ways

    def desired(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which points some version desires, its threshold lowered by the margin."""
        return np.asarray(np.any([box.desired(points) for box in self.boxes], axis=0), dtype=np.bool_)

    def outcomes(self, codes: Codes, progress: bool | None = None) -> npt.NDArray[np.bool_]:
        """Which rows of a history some version desires."""
        return np.asarray(np.any([box.outcomes(codes, progress) for box in self.boxes], axis=0), dtype=np.bool_)


def ask_versions(models: Sequence[Any], table: Table, space: Space, wanted: Wanted) -> Versions:
    """The models, checked, as they are asked."""
    refuse_impossible(models[0], wanted.threshold)  # as it was given: a margin may move it anywhere
    own = black_box(models[0], table, space, wanted.desired, wanted.threshold)
    if len(models) == 1 and wanted.margin == 0:
        return Versions(own, (own,))
    boxes = tuple(black_box(model, table, space, wanted.desired, level) for model, level in _levels(models, wanted))
    return Versions(own, boxes, len(models))


def _levels(models: Sequence[Any], wanted: Wanted) -> list[tuple[Any, float | None]]:
    """The models with the thresholds that they must withstand. A classifier that decides by its labels is asked for
    these too: its labels need not be those of the largest probability.
    """
    levels = [(model, wanted.lowered(model)) for model in models]
    return [(models[0], None), *levels] if wanted.margin and wanted.threshold is None else levels


def read_versions(models: Sequence[Any], asked: Versions, space: Space, past: Points, wanted: Wanted) -> Readable:
    """The models, read; raises Unreadable if one of them cannot be."""
    parts = [
        readable(model, box, space, past, wanted.desired, level)
        for (model, level), box in zip(_levels(models, wanted), asked.boxes, strict=True)
    ]
    forests = tuple(forest for part in parts for forest in part.forests)
    own = parts[0].own
    if wanted.margin:
        own = read_model(models[0], asked.own, space, past, wanted.desired, wanted.threshold)
    quick = parts[0].direct if asked.boxes == (asked.own,) else None
    return Readable(forests, joint_fingerprint([part.fingerprint for part in parts]), own, quick)


def read_each(
    models: Sequence[Any], asked: Versions, space: Space, past: Points, wanted: Wanted
) -> list[tuple[Any, Read]]:
    """Every model with its reading, for every way in which it is asked, not yet checked against it; the first one also
    as it is, since counterfactuals are its own. Raises Unreadable if one of them has none.
    """
    found = [
        (model, read_model(model, box, space, past, wanted.desired, level))
        for (model, level), box in zip(_levels(models, wanted), asked.boxes, strict=True)
    ]
    own = [(models[0], read_model(models[0], asked.own, space, past, wanted.desired, wanted.threshold))]
    return [*found, *(own if wanted.margin and wanted.threshold is not None else [])]


def joint_fingerprint(fingerprints: Sequence[str]) -> str:
    """One fingerprint for several models."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256("".join(fingerprints).encode()).hexdigest()

"""Several decisions as one model that desires what all of them desire: :class:`JointModel`.

A counterfactual is robust if it stays desired when scores move by a margin, and under other models too. So each model
is asked with a threshold that is harder to pass, and all of them must agree. (A rule is robust the other way round: its
models are asked with a threshold that is easier to pass, and what any of them desires is an exception.)

To its callers, this is a classifier with the classes False and True. It is read by reading each
decision (:mod:`ironrule.model.read_model`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from ironrule.arrays import BoolArray, Float64Array
from ironrule.errors import InputError, describe_value
from ironrule.model.decision import Decision, DecisionTarget, build_target_decision, is_finite_number
from ironrule.model.scores import Score, build_score

JOINT_TARGET = DecisionTarget((True,))


@dataclass(frozen=True, slots=True)
class ModelColumns:
    """The columns that a model takes of a table: their names and positions, None for all as they are; and whether it
    takes them as a plain array.
    """

    names: tuple[str, ...] | None = None
    positions: tuple[int, ...] | None = None
    as_array: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class JointMember:
    """A model, what it must reach, and how a table is laid out for it: its columns by name and by position (None: all
    columns as they are), or a plain array.
    """

    model: Any
    target: DecisionTarget
    decision: Decision
    score: Score | None
    columns: ModelColumns

    def lay_out(self, table: Any) -> Any:
        """The table as the model takes it."""
        if isinstance(table, np.ndarray):
            return table if self.columns.positions is None else table[:, list(self.columns.positions)]
        frame = nw.from_native(table, eager_only=True)
        chosen = frame if self.columns.names is None else frame.select(list(self.columns.names))
        return chosen.to_numpy() if self.columns.as_array else chosen.to_native()

    def desired(self, table: Any) -> BoolArray:
        """Which rows the model desires."""
        return self.decision(self.lay_out(table), len(table))


@dataclass(frozen=True, slots=True, eq=False)
class JointModel:
    """A classifier that answers True where all of its members desire a row.

    ``shared``: the one model that all members are of, if there is only one; tables are then laid out as for it.
    ``target`` is what was asked for, before thresholds were moved. ``apart``: members are read one by one, and their
    normal forms are not joined; ``margins_apart``: nor are the margins of one, which must all be positive.
    """

    members: tuple[JointMember, ...]
    shared: Any = None
    classes_: tuple[bool, bool] = (False, True)
    target: DecisionTarget = JOINT_TARGET
    apart: bool = False
    margins_apart: bool = False

    @property
    def feature_names_in_(self) -> Any:
        """The columns of the shared model; there are none if it has none."""
        return self._get_shared("feature_names_in_")

    @property
    def n_features_in_(self) -> Any:
        """How many columns the shared model takes; it is left open if that model does not say."""
        return self._get_shared("n_features_in_")

    def _get_shared(self, name: str) -> Any:
        if self.shared is None:
            raise AttributeError(name)
        return getattr(self.shared, name)

    def predict(self, table: Any) -> BoolArray:
        """Which rows all members desire."""
        return np.asarray(np.all([member.desired(table) for member in self.members], axis=0), dtype=np.bool_)

    @property
    def decision_function(self) -> Any:
        """How close rows are to being desired by all; there is none if a member has no scores."""
        scores = [member.score for member in self.members]
        if any(score is None for score in scores):
            raise AttributeError("decision_function")
        return self._compute_scores

    def _compute_scores(self, table: Any) -> Float64Array:
        scored = [one.score(one.lay_out(table), len(table)) for one in self.members if one.score is not None]
        return np.asarray(np.min(scored, axis=0), dtype=np.float64)


def split_bands(joint: JointModel, margins_apart: bool = False) -> JointModel:
    """The same decision with a member for each end of a band of scores, and members that stay apart: each of them has
    one threshold, so that with a number it only turns once. ``margins_apart``: so has each of the margins by which one
    class wins over several.
    """
    members = tuple(
        replace(member, target=half, decision=build_target_decision(member.model, half))
        for member in joint.members
        for half in _split_band(member.target)
    )
    return replace(joint, members=members, apart=True, margins_apart=margins_apart)


def _split_band(target: DecisionTarget) -> list[DecisionTarget]:
    if target.upper is None or target.threshold is None:
        return [target]
    return [replace(target, upper=None), replace(target, threshold=None)]


def list_joint_targets(
    models: Sequence[Any], target: DecisionTarget, margin: float
) -> list[tuple[Any, DecisionTarget]]:
    """The models with what each must reach so that it still decides so when its scores move by the margin.

    Classifiers that decide by their labels must give a desired one too: labels need not be those of the largest
    probability. Raises InputError where a band of scores is not wider than the margin on both sides.
    """
    plain = replace(target, margin=0.0)
    if not margin:
        return [(model, plain) for model in models]
    tightened = [(model, _tighten(plain, model, margin)) for model in models]
    by_labels = [(model, plain) for model in models] if target.threshold is None and target.upper is None else []
    return [*by_labels, *tightened]


def _tighten(target: DecisionTarget, model: Any, margin: float) -> DecisionTarget:
    """The target with its thresholds moved by the margin to where they are harder to pass."""
    if target.upper is None:
        return replace(target, threshold=target.shift_threshold(model, -margin))
    upper = target.upper - margin
    lower = None if target.threshold is None else target.threshold + margin
    if lower is not None and not lower < upper:
        raise InputError(
            expected="the band of scores must be wider than twice the margin",
            got=f"a band of {target.upper - (target.threshold or 0.0):g} and a margin of {margin:g}",
            hint="lower the margin",
            code="margin-too-wide",
        )
    return replace(target, threshold=lower, upper=upper)


def parse_margin(margin: Any) -> float:
    """A margin as a caller gives it; raises InputError if it is none."""
    if not is_finite_number(margin) or margin < 0:
        raise InputError(expected="margin must be a finite non-negative number", got=describe_value(margin))
    return float(margin)


def build_joint_model(
    targets: Sequence[tuple[Any, DecisionTarget]],
    columns: Sequence[ModelColumns],
    target: DecisionTarget = JOINT_TARGET,
) -> JointModel:
    """The model that desires what all of these desire; ``columns`` says for each how a table is laid out for it, and
    ``target`` what was asked for.
    """
    first = targets[0][0]
    shared = first if all(model is first for model, _ in targets) else None
    members = tuple(
        JointMember(
            model,
            target,
            build_target_decision(model, target),
            build_score(model, target) if hasattr(model, "predict") else None,
            chosen if shared is None else ModelColumns(),
        )
        for (model, target), chosen in zip(targets, columns, strict=True)
    )
    return JointModel(members, shared, target=target)

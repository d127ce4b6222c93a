"""Compile the models that can be read for exact search, and check them against the models' own decisions.

The check covers every value of every feature (so every threshold, from both sides), past rows and random points. If
one decision differs, the model is not served by an exact oracle at all. Several versions of a model, or one whose
scores may move, are compiled side by side: together they desire what any of them desires.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.model.blackbox import BlackBox, ModelSet, list_targets
from ironrule.model.decision import DecisionTarget
from ironrule.model.model_input import TabulatedColumns, compute_model_input
from ironrule.model.pipeline import FinalEstimator, build_final_estimator, split_pipeline
from ironrule.model.protocol import Unreadable
from ironrule.model.read_model import TabulatedModel, read_model
from ironrule.model.readers.registry import get_input_conversion
from ironrule.space.space import Space

if TYPE_CHECKING:
    from ironrule.backends.backend import Backend


CHECKED_POINTS = 4096
MAX_CHECKED_VALUES = 50_000


class CompiledPart(NamedTuple):
    """What one of several models was compiled to: arrays for every alternative, and the backends that serve these."""

    backends: tuple[Backend, ...]
    alternatives: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledModel:
    """Alternatives that decide as the model does, or as any of several models."""

    parts: tuple[CompiledPart, ...]
    fingerprint: str
    tabulated: TabulatedModel  # the model itself, where the parts are of several or withstand a margin
    final_estimator: FinalEstimator | None = None  # a single model's final estimator, where that decides alone

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The alternatives of all parts."""
        return tuple(alternative for part in self.parts for alternative in part.alternatives)


def compile_model(model: Any, black_box: BlackBox, space: Space, past: Points, target: DecisionTarget) -> CompiledModel:
    """Read a model for search; raises Unreadable also if its normal form decides otherwise."""
    from ironrule.backends.registry import list_backends

    read = read_model(model, black_box, space, past, target)
    backends = list_backends(read.normal_form)
    part = CompiledPart(backends, backends[0].compile(read, space, space.feasible))
    points = draw_check_points(space, past)
    points = points[space.feasible.admits(points)]
    outcomes = black_box.desired(points)
    _check_decisions(part, outcomes, points)
    quick = build_final_estimator(model, read.columns, black_box, target, points=points, outcomes=outcomes)
    return CompiledModel((part,), backends[0].compute_fingerprint(read), read, quick)


def insert_codes(
    compiled: CompiledModel, model: Any, black_box: BlackBox, space: Space, *, places: Mapping[int, int], point: Points
) -> CompiledModel:
    """A single compiled model over a space with one more number in some intervals, at these places of their domains.

    ``point`` has all of these numbers. Raises Unreadable if the model does not decide it as its parts do.
    """
    transform, final = split_pipeline(model)
    laid = black_box.layout.decode(point[None, :])
    seen = compute_model_input(transform, laid, get_input_conversion(final), black_box.layout.names)
    old = compiled.tabulated.columns
    values = tuple(
        np.insert(table, places[j], seen[0, column]) if (j := int(feature)) in places else table
        for column, (feature, table) in enumerate(zip(old.features, old.values, strict=True))
    )
    columns = TabulatedColumns(old.features, values)
    if not np.array_equal(columns.look_up(point[None, :]), seen, equal_nan=seen.dtype.kind == "f"):
        raise Unreadable("what the model sees of the row does not follow from its single values")
    read = TabulatedModel(compiled.tabulated.normal_form, columns)
    (part,) = compiled.parts
    larger = part._replace(alternatives=part.backends[0].compile(read, space, space.feasible))
    _check_decisions(larger, black_box.desired(point[None, :]), point[None, :])
    quick = compiled.final_estimator
    if quick is not None:
        quick = replace(quick, starts=np.cumsum([0, *map(len, values[:-1])]), values=np.concatenate(values))
    return CompiledModel((larger,), compiled.fingerprint, read, quick)


def _check_decisions(part: CompiledPart, desired: BoolArray, points: Points) -> None:
    possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
    for alternative in part.alternatives:
        may, must = part.backends[0].decide_points(alternative, points)
        possible |= may
        sure |= must
    if (desired & ~possible).any() or (sure & ~desired).any():
        raise Unreadable("its reading decides otherwise than the model itself; the model is only asked")


def draw_check_points(space: Space, past: Points) -> Points:
    """Past rows, random points, and every value of every feature once."""
    rng = np.random.default_rng(0)
    rows = past[np.unique(np.linspace(0, len(past) - 1, CHECKED_POINTS).astype(np.intp))]
    random = rng.integers(0, space.sizes, size=(CHECKED_POINTS, len(space)), dtype=np.int32)
    values = []
    for j, size in enumerate(space.sizes.tolist()):
        codes = np.arange(size) if size <= MAX_CHECKED_VALUES else rng.choice(size, MAX_CHECKED_VALUES, replace=False)
        block = rows[rng.integers(0, len(rows), size=len(codes))]
        block[:, j] = codes
        values.append(block)
    return np.concatenate([rows, random, *values])


def compile_models(
    models: Sequence[Any], model_set: ModelSet, space: Space, past: Points, target: DecisionTarget
) -> CompiledModel:
    """The models, read; raises Unreadable if one of them cannot be."""
    compiled = [
        compile_model(model, box, space, past, own_target)
        for (model, own_target), box in zip(list_targets(models, target), model_set.black_boxes, strict=True)
    ]
    own = compiled[0].tabulated
    if target.margin:
        own = read_model(models[0], model_set.primary, space, past, target)
    quick = compiled[0].final_estimator if model_set.black_boxes == (model_set.primary,) else None
    parts, fingerprint = tuple(part for model in compiled for part in model.parts), compiled[0].fingerprint
    if len(compiled) > 1:
        fingerprint = hashlib.sha256("".join(model.fingerprint for model in compiled).encode()).hexdigest()
    return CompiledModel(parts, fingerprint, own, quick)

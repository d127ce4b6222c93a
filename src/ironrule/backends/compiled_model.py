"""Compile the models that can be read for exact search, and check them against the models' own decisions.

The check covers every value of every feature (so every threshold, from both sides), past rows and random points. If
one decision differs, the model is not served by an exact oracle at all. Several versions of a model, or one whose
scores may move, are compiled side by side: together they desire what any of them desires.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, Points
from ironrule.model.blackbox import BlackBox, ModelSet
from ironrule.model.decision import DecisionTarget
from ironrule.model.model_input import TabulatedColumns, compute_model_input
from ironrule.model.pipeline import FinalEstimator, build_final_estimator, split_pipeline
from ironrule.model.protocol import Model, NormalForm, Unreadable
from ironrule.model.read_model import TabulatedModel, read_models
from ironrule.model.readers.registry import get_input_conversion
from ironrule.model.saved_model import SavedModel
from ironrule.space.reduced import ReducedSpace, reduce_space
from ironrule.space.space import Space

if TYPE_CHECKING:
    from ironrule.backends.backend import Backend


CHECKED_POINTS = 4096
MAX_CHECKED_VALUES = 50_000
MAX_ASKED_CODES = 1 << 25  # that are laid out for the model at once


class CompiledPart(NamedTuple):
    """What one of several models was compiled to: arrays for every alternative, and the backends that serve these."""

    backends: tuple[Backend, ...]
    alternatives: Sequence[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ReadDecisions:
    """Decides points by what was read of a model, and asks the model itself where rounding could turn that, or about
    more than ``most`` points at once.
    """

    part: CompiledPart
    model: Model
    most: int | None = None

    def desired(self, points: Points) -> BoolArray:
        """Which points have the desired outcome."""
        if self.most is not None and len(points) > self.most:
            return self.model.desired(points)
        possible, sure = self.part.backends[0].decide_points(self.part.alternatives, points)
        unsure = possible & ~sure
        if not unsure.any():
            return sure
        answers = sure.copy()
        answers[unsure] = self.model.desired(points[unsure])
        return answers


@dataclass(frozen=True, slots=True, eq=False)
class CompiledModel:
    """Alternatives that decide as the model does, or as any of several models, over the features that these use."""

    parts: tuple[CompiledPart, ...]
    fingerprint: str
    tabulated: TabulatedModel  # the model itself, where the parts are of several or withstand a margin
    reduced: ReducedSpace  # the features that all of this is about
    used_features: frozenset[int]  # those of the whole space on which a decision may depend
    reads: tuple[TabulatedModel, ...]  # what the parts were made of, and last the model itself, over the whole space
    final_estimator: FinalEstimator | None = None  # a single model's final estimator, where that decides alone

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The alternatives of all parts."""
        return tuple(alternative for part in self.parts for alternative in part.alternatives)


def compile_models(
    models: Sequence[Any],
    model_set: ModelSet,
    space: Space,
    past: Points,
    target: DecisionTarget,
    also: Iterable[int] = (),
    known: Sequence[NormalForm] = (),
) -> CompiledModel:
    """Read the models for search, over the features that they use, that constraints are about, and ``also`` others;
    ``known`` has their normal forms, as :func:`read_models` gives them, where they were read before.

    Raises Unreadable if one of them cannot be read, or if its normal form decides otherwise.
    """
    reads = [read for _, read in read_models(models, model_set, space, past, target, known=known)]
    reads += [] if target.margin else reads[:1]  # the last is the first model as it is
    used = frozenset().union(*map(find_used_features, reads))
    compiled = _compile_reads(tuple(reads), used, reduce_space(space, {*used, *_list_constrained(space), *also}))
    if isinstance(models[0], SavedModel):
        return compiled  # it decides by this reading itself, and has nothing else to compare it with
    checked = draw_check_points(compiled.reduced, past)
    outcomes = [_ask_model(box, compiled.reduced, checked) for box in model_set.black_boxes]
    for part, desired in zip(compiled.parts, outcomes, strict=True):
        _check_decisions(part, desired, checked.points)
    if model_set.black_boxes != (model_set.primary,):
        return compiled
    row, columns = model_set.primary.layout.decode(past[:1]), compiled.tabulated.columns
    quick = build_final_estimator(models[0], columns, row, target, points=checked.points, outcomes=outcomes[0])
    return replace(compiled, final_estimator=quick)


def extend_compiled_model(compiled: CompiledModel, also: Iterable[int]) -> CompiledModel:
    """The same over further features; it was compared with the model's own decisions before."""
    reduced = reduce_space(compiled.reduced.whole, {*compiled.reduced.kept.tolist(), *also})
    return _compile_reads(compiled.reads, compiled.used_features, reduced)


def find_used_features(read: TabulatedModel) -> set[int]:
    """The features on which the decision of a model may depend."""
    return {int(read.columns.features[column]) for column in _find_used_columns(read)}


def _find_used_columns(read: TabulatedModel) -> set[int]:
    from ironrule.backends.registry import list_backends

    return list_backends(read.normal_form)[0].find_used_columns(read)


def reduce_tabulated(read: TabulatedModel, reduced: ReducedSpace) -> TabulatedModel:
    """A model over some features, among them all that it uses."""
    return read.reduce(reduced, _find_used_columns(read))


def _list_constrained(space: Space) -> set[int]:
    return {j for predicate in space.feasible.predicates for j in predicate.columns}


def _compile_reads(reads: tuple[TabulatedModel, ...], used: frozenset[int], reduced: ReducedSpace) -> CompiledModel:
    from ironrule.backends.registry import list_backends

    parts, fingerprints, space = [], [], reduced.space
    *own, primary = reads
    for read in own:
        backends = list_backends(read.normal_form)
        alternatives = backends[0].compile(reduce_tabulated(read, reduced), space, space.feasible)
        parts.append(CompiledPart(backends, alternatives))
        fingerprints.append(backends[0].compute_fingerprint(read))
    joined = hashlib.sha256("".join(fingerprints).encode()).hexdigest() if len(own) > 1 else fingerprints[0]
    tabulated = reduce_tabulated(primary, reduced)
    return CompiledModel(tuple(parts), joined, tabulated=tabulated, reduced=reduced, used_features=used, reads=reads)


def _ask_model(box: BlackBox, reduced: ReducedSpace, checked: CheckPoints) -> BoolArray:
    """What the model says of the points, some at a time where each is long."""
    rows, answers = max(1, MAX_ASKED_CODES // len(reduced.whole)), []
    for start in range(0, len(checked.points), rows):
        others = checked.whole[checked.places[start : start + rows]]
        answers.append(box.desired(reduced.embed(checked.points[start : start + rows], others)))
    return np.concatenate(answers)


def insert_codes(
    compiled: CompiledModel, model: Any, black_box: BlackBox, space: Space, *, places: Mapping[int, int], point: Points
) -> CompiledModel:
    """A single compiled model over a space with one more number in some intervals, at these places of their domains.

    ``point`` has all of these numbers. Raises Unreadable if the model does not decide it as its parts do.
    """
    transform, final = split_pipeline(model)
    laid = black_box.layout.decode(point[None, :])
    seen = compute_model_input(transform, laid, get_input_conversion(final), black_box.layout.names)
    old = compiled.reads[-1]
    values = tuple(
        np.insert(table, places[j], seen[0, column]) if (j := int(feature)) in places else table
        for column, (feature, table) in enumerate(zip(old.columns.features, old.columns.values, strict=True))
    )
    columns = TabulatedColumns(old.columns.features, values)
    if not np.array_equal(columns.look_up(point[None, :]), seen, equal_nan=seen.dtype.kind == "f"):
        raise Unreadable("what the model sees of the row does not follow from its single values")
    read, reduced = TabulatedModel(old.normal_form, columns), reduce_space(space, compiled.reduced.kept.tolist())
    if find_used_features(read) - compiled.used_features:
        raise Unreadable("the model uses a feature of the row that it did not use before")
    tabulated, (part,) = reduce_tabulated(read, reduced), compiled.parts
    alternatives = part.backends[0].compile(tabulated, reduced.space, reduced.space.feasible)
    larger = part._replace(alternatives=alternatives)
    _check_decisions(larger, black_box.desired(point[None, :]), reduced.reduce(point[None, :]))
    quick = compiled.final_estimator
    if quick is not None:
        tables = tabulated.columns.values
        quick = replace(quick, starts=np.cumsum([0, *map(len, tables[:-1])]), values=np.concatenate(tables))
    return replace(
        compiled, parts=(larger,), tabulated=tabulated, reduced=reduced, reads=(read, read), final_estimator=quick
    )


def _check_decisions(part: CompiledPart, desired: BoolArray, points: Points) -> None:
    possible, sure = part.backends[0].decide_points(part.alternatives, points)
    if (desired & ~possible).any() or (sure & ~desired).any():
        raise Unreadable("its reading decides otherwise than the model itself; the model is only asked")


class CheckPoints(NamedTuple):
    """Points of a reduced space, and for each the place of the whole point that has all other features."""

    points: Points
    places: Int64Array
    whole: Points


def draw_check_points(reduced: ReducedSpace, past: Points) -> CheckPoints:
    """Past rows, random points, and every value of every feature once, as far as they can occur."""
    rng = np.random.default_rng(0)
    rows = past[np.unique(np.linspace(0, len(past) - 1, CHECKED_POINTS).astype(np.intp))]
    random = rng.integers(0, reduced.whole.sizes, size=(CHECKED_POINTS, len(reduced.whole)), dtype=np.int32)
    whole = np.concatenate([rows, random])
    points, places = [reduced.reduce(whole)], [np.arange(len(whole))]
    for j, size in enumerate(reduced.space.sizes.tolist()):
        codes = np.arange(size) if size <= MAX_CHECKED_VALUES else rng.choice(size, MAX_CHECKED_VALUES, replace=False)
        places.append(rng.integers(0, len(rows), size=len(codes)))
        block = points[0][places[-1]]
        block[:, j] = codes
        points.append(block)
    every, others = np.concatenate(points), np.concatenate(places)
    occurs = reduced.space.feasible.admits(every)
    return CheckPoints(every[occurs], others[occurs], whole)

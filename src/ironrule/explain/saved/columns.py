"""What a model sees of a table, learned from the user's own preprocessing when an explainer is saved.

Reading a model has tabulated what it sees of every value of every domain (:mod:`ironrule.model.model_input`). That
answers for these values, and where splits alone look at a column, for all numbers between. For other numbers a formula
is looked for: the number itself, or what a scaler of the pipeline makes of it. A formula counts only if all steps are
scikit-learn's own, none of them may tell single numbers apart (as an imputer for -999 does), and it gives every known
value, and further numbers that the preprocessing is run on, bit for bit; where it holds for the numbers inside the
range and not for those outside, it counts inside alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.explain.context import ExplainerContext
from ironrule.explain.saved.fields import NotStorable
from ironrule.model.blackbox import make_layout_builder
from ironrule.model.model_input import compute_model_input
from ironrule.model.normal_form.network import Network
from ironrule.model.normal_form.splits import list_split_columns
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.number_formulas import agrees_with_formula, list_number_formulas
from ironrule.model.pipeline import TransformerSteps, find_unordered_columns, split_pipeline
from ironrule.model.read_model import TabulatedModel
from ironrule.model.readers.library_class import get_library_class_name
from ironrule.model.readers.registry import get_input_conversion
from ironrule.model.saved_model import NumberFormula, SavedColumn, SavedTransform
from ironrule.space.feature import Feature
from ironrule.space.layout import Layout

PROBES = 48  # numbers inside the range, and half as many outside, that a formula is tried on
MAX_SINGLE_INTEGER = 2.0**24  # up to here float32 holds every whole number
FAR = (0.01, 0.5, 3.0, 100.0)  # how far outside, by the range


def describe_transform(context: ExplainerContext, place: int = 0) -> SavedTransform:
    """How what a model sees follows from a table; raises NotStorable if that cannot be said column by column."""
    assert context.compiled_model is not None
    model, read = context.arguments.models[place], context.compiled_model.reads[place]
    layout = context.model.black_boxes[place].layout
    transform, final = split_pipeline(model)
    steps = transform if isinstance(transform, TransformerSteps) else None
    unordered = find_unordered_columns(transform, len(layout.names))
    if isinstance(transform, SavedTransform):  # an explainer that was loaded, and is saved again
        return transform
    probed = _probe_columns(context, model, steps, final)
    formulas = [NumberFormula(), NumberFormula(single=True)]
    formulas += list(dict.fromkeys(list_number_formulas(steps.transformers))) if steps is not None else []
    described = _DescribedModel(
        context=context,
        read=read,
        names=layout.names,
        feature_indices=layout.feature_indices,
        formulas=formulas,
        probed=probed,
        unordered=unordered,
        is_plain=steps is None or all(map(_is_plain, steps.transformers)),
        rounds_integers=get_input_conversion(final).integers_as_float32,
    )
    columns = tuple(described.describe_column(place) for place in range(len(read.columns.values)))
    return SavedTransform(layout.names, columns, _find_matrix_type(read), unordered)


def _is_plain(step: Any) -> bool:
    """Whether a step is scikit-learn's own: what a file of another format does to numbers far away is not known."""
    return bool(get_library_class_name(step, "sklearn"))


def _find_matrix_type(read: TabulatedModel) -> str:
    types = {values.dtype for values in read.columns.values}
    return "object" if any(one.kind == "O" for one in types) else np.result_type(*types).name


@dataclass(frozen=True, slots=True)
class _Probed:
    """Numbers that a feature was given, and what the model saw of them, by column; None where it failed on them."""

    numbers: Float64Array
    seen: AnyArray | None


@dataclass(frozen=True, slots=True, eq=False)
class _DescribedModel:
    """What is needed to describe the columns of one model."""

    context: ExplainerContext
    read: TabulatedModel
    names: tuple[str, ...]
    feature_indices: tuple[int, ...]
    formulas: Sequence[NumberFormula]
    probed: tuple[dict[int, _Probed], dict[int, _Probed]]  # inside and outside the range, by feature
    unordered: Mapping[int, str]  # columns of the table that some step may tell single numbers apart in
    is_plain: bool  # whether all that prepares the table is scikit-learn's own
    rounds_integers: bool  # whether the library makes whole numbers float32

    def describe_column(self, place: int) -> SavedColumn:
        """One column that the model sees."""
        j, seen = int(self.read.columns.features[place]), self.read.columns.values[place]
        feature = self.context.space.features[j]
        named, summed = self._list_named()
        sources = [at for at, index in enumerate(self.feature_indices) if index == j]
        if place not in named or not sources:
            return SavedColumn(sources[0] if sources else 0, feature.name, (None,), seen[:1], is_constant=True)
        if feature.one_hot:
            return self._describe_one_hot(feature, sources, seen)
        values = (*feature.values, *([None] if feature.missing else []))
        has_formula = feature.can_be_interval and self.is_plain and sources[0] not in self.unordered
        formula = self._find_formula(feature, j, place, seen) if has_formula else None
        between = bool(feature.interval) and place not in summed
        return SavedColumn(sources[0], self.names[sources[0]], values, seen, formula=formula, between=between)

    def _list_named(self) -> tuple[set[int], set[int]]:
        """The columns that the normal form names, and those that a term or a network speaks of."""
        form = self.read.normal_form
        if isinstance(form, Network):
            every = {*range(len(self.read.columns.values))}
            return every, every
        if not isinstance(form, TreeSum):
            raise NotStorable(f"a {form.kind} is not stored so far")
        summed = {term.column for group in form.groups for term in group.terms}
        splits = {id(tree.splits): tree.splits for group in form.groups for tree in group.trees}.values()
        return summed.union(*map(list_split_columns, splits)), summed

    def _describe_one_hot(self, feature: Feature, sources: Sequence[int], seen: AnyArray) -> SavedColumn:
        """A column that follows from one column of a one-hot group."""
        for source in sources:
            position = feature.columns.index(self.names[source])
            hot, others = seen[position], np.delete(seen, position)
            if (others == others[0]).all():
                values = np.array([others[0], hot], dtype=seen.dtype)
                return SavedColumn(source, self.names[source], (0, 1), values)
        raise NotStorable(f"a column that it sees depends on several columns of {feature.name!r} together")

    def _find_formula(self, feature: Feature, j: int, place: int, seen: AnyArray) -> NumberFormula | None:
        """A formula that gives all that is known of the numbers of a feature."""
        numbers = np.array(feature.values, dtype=np.float64)
        known = _to_numbers(seen[: len(numbers)])
        if known is None:
            return None
        inside, outside = (probes.get(j) for probes in self.probed)
        for formula in self.formulas:
            if not agrees_with_formula(formula, numbers, known) or not _agrees_with_probes(formula, inside, place):
                continue
            if not _agrees_with_probes(formula, outside, place):
                return replace(formula, low=float(numbers[0]), high=float(numbers[-1]))
            return (
                replace(formula, low=-MAX_SINGLE_INTEGER, high=MAX_SINGLE_INTEGER) if self.rounds_integers else formula
            )
        return None


def _agrees_with_probes(formula: NumberFormula, probed: _Probed | None, place: int) -> bool:
    known = None if probed is None or probed.seen is None else _to_numbers(probed.seen[:, place])
    return probed is not None and known is not None and agrees_with_formula(formula, probed.numbers, known)


def _to_numbers(seen: AnyArray) -> Float64Array | None:
    """What the model sees as numbers; None if some of it is none."""
    if seen.dtype.kind == "O" and not all(isinstance(one, (int, float)) for one in seen.tolist()):
        return None
    return seen.astype(np.float64)


def _probe_columns(
    context: ExplainerContext, model: Any, steps: TransformerSteps | None, final: Any
) -> tuple[dict[int, _Probed], dict[int, _Probed]]:
    """What the model sees of numbers inside the ranges of all features, and outside of them."""
    features = context.space.features
    numeric = [j for j, feature in enumerate(features) if feature.can_be_interval]
    rng = np.random.default_rng(0)
    inside, outside = (
        {j: _draw_numbers(context, features[j], outside, rng) for j in numeric} for outside in (False, True)
    )
    layout = make_layout_builder(model, context.table)
    return (
        _look_through(context, layout, steps, final, numbers=inside),
        _look_through(context, layout, steps, final, numbers=outside),
    )


def _draw_numbers(context: ExplainerContext, feature: Feature, outside: bool, rng: np.random.Generator) -> list[Any]:
    """Numbers as the feature's column may hold them, rising."""
    low, high = float(feature.values[0]), float(feature.values[-1])
    width = (high - low) or 1.0
    drawn = rng.uniform(low, high, PROBES)
    if outside:
        drawn = np.array([end + sign * width * far for end, sign in ((low, -1.0), (high, 1.0)) for far in FAR])
    if feature.has_only_integers:
        return sorted({int(number) for number in np.round(drawn) if abs(number) < 2**53})
    dtype = context.table.column(feature.columns[0]).values.dtype
    kept = drawn.astype(dtype).astype(np.float64) if dtype.kind == "f" else drawn
    return sorted({float(number) for number in kept if np.isfinite(number)})


def _look_through(
    context: ExplainerContext,
    layout: Callable[[Sequence[Feature]], Layout],
    steps: TransformerSteps | None,
    final: Any,
    numbers: dict[int, list[Any]],
) -> dict[int, _Probed]:
    """What the model sees of these numbers, all features at once; of none where the preprocessing refuses them."""
    numbers = {j: listed for j, listed in numbers.items() if listed}
    if not numbers:
        return {}
    features = [
        replace(feature, values=tuple(numbers[j]), missing=False, interval=None) if j in numbers else feature
        for j, feature in enumerate(context.space.features)
    ]
    rows = max(map(len, numbers.values()))
    points = np.zeros((rows, len(features)), dtype=np.int32)
    for j, listed in numbers.items():
        points[:, j] = np.minimum(np.arange(rows), len(listed) - 1)
    try:
        laid = layout(features)
        seen = compute_model_input(steps, laid.decode(points), get_input_conversion(final), laid.names)
    except Exception:  # whatever the user's preprocessing raises: then nothing is known of these numbers
        return {j: _Probed(np.array(listed, dtype=np.float64), None) for j, listed in numbers.items()}
    return {j: _Probed(np.array(listed, dtype=np.float64), seen[: len(listed)]) for j, listed in numbers.items()}

"""What a pipeline makes of numbers, as formulas: the scalers of scikit-learn move and stretch a column, no more.

A formula that gives what the model sees of every known value, bit for bit, says what it sees of the numbers between
them, as long as no step of the pipeline can do anything else to a number (:data:`STRAIGHT_STEPS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.pipeline import (
    ENCODERS,
    IMPUTERS,
    SELECTIONS,
    STEP_CONTAINERS,
    TransformerSteps,
    is_no_operation,
    is_passthrough,
)
from ironrule.model.readers.library_class import get_library_class_name
from ironrule.model.saved_model import NumberFormula, SavedTransform

SCALERS = frozenset(("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"))
STRAIGHT_STEPS = SCALERS | ENCODERS | IMPUTERS | SELECTIONS | {"VarianceThreshold"}
"""Steps that move and stretch numbers, hand them on as they are, or drop them. Encoders and imputers that tell single
numbers apart leave no intervals (:func:`ironrule.model.pipeline.find_unordered_columns`).
"""
BEND_UNITS = 8.0  # units of rounding of all sizes that meet in a formula


def list_number_formulas(steps: Iterable[Any]) -> Iterator[NumberFormula]:
    """What the scalers of a pipeline make of numbers, each in double and in single precision."""
    for step in steps:
        name = get_library_class_name(step, "sklearn")
        if name in STEP_CONTAINERS:
            yield from list_number_formulas(part for _, part in STEP_CONTAINERS[name](step))
            continue
        for formula in _list_own_formulas(step, name):
            yield formula
            yield replace(formula, single=True)


def _list_own_formulas(step: Any, name: str) -> Iterator[NumberFormula]:
    if name in ("StandardScaler", "RobustScaler"):
        centre = getattr(step, "mean_" if name == "StandardScaler" else "center_", None)
        # a StandardScaler knows the mean even where it is not to be taken off
        shifts = _list_numbers(centre if getattr(step, "with_mean", True) else None, 0.0)
        scales = _list_numbers(getattr(step, "scale_", None), 1.0)
        count = max(len(shifts), len(scales))
        for place in range(count):
            shift, scale = shifts[min(place, len(shifts) - 1)], scales[min(place, len(scales) - 1)]
            yield NumberFormula("shift_then_divide", shift, scale)
    elif name == "MinMaxScaler":
        for shift, scale in zip(_list_numbers(step.min_, 0.0), _list_numbers(step.scale_, 1.0), strict=True):
            yield NumberFormula("multiply_then_shift", shift, scale)
    elif name == "MaxAbsScaler":
        for scale in _list_numbers(step.scale_, 1.0):
            yield NumberFormula("divide", 0.0, scale)


def _list_numbers(given: Any, default: float) -> list[float]:
    return [default] if given is None else [float(number) for number in np.asarray(given).ravel()]


def agrees_with_formula(formula: NumberFormula, numbers: Float64Array, seen: Float64Array) -> bool:
    """Whether a formula gives what the model sees of some numbers, bit for bit."""
    return bool(np.array_equal(formula.apply(numbers), seen, equal_nan=True))


def bound_bend(
    transform: TransformerSteps | SavedTransform | None,
    column: int,
    numbers: Float64Array,
    seen: AnyArray,
    single: bool,
) -> float | None:
    """How far what the model sees of the numbers in a range, in one of its columns, may be from the straight line; None
    if it may be anywhere.

    ``numbers`` are known ones, rising, the ends of the range among them, ``seen`` is what the model sees of them;
    ``single`` says whether numbers of single precision are involved.
    """
    if isinstance(transform, SavedTransform):
        formula = transform.columns[column].formula
        formulas = [] if formula is None else [formula]
    else:
        steps = () if transform is None else transform.transformers
        if not all(map(_is_straight, steps)):
            return None
        formulas = [NumberFormula(), NumberFormula(single=True), *list_number_formulas(steps)]
    outputs = np.asarray(seen, dtype=np.float64)
    for formula in dict.fromkeys(formulas):
        if agrees_with_formula(formula, numbers, outputs) and formula.covers(numbers[[0, -1]]).all():
            slope = (outputs[-1] - outputs[0]) / ((numbers[-1] - numbers[0]) or 1.0)
            size = abs(slope) * np.abs(numbers).max() + np.abs(outputs).max() + abs(outputs[0] - slope * numbers[0])
            unit = 2.0**-24 if single or formula.single else 2.0**-53
            return float(BEND_UNITS * unit * size)
    return None


def _is_straight(step: Any) -> bool:
    """Whether a step can do nothing to a number but move and stretch it."""
    name = get_library_class_name(step, "sklearn")
    if name in STEP_CONTAINERS:
        return all(_is_straight(part) for _, part in STEP_CONTAINERS[name](step))
    if name == "MinMaxScaler" and getattr(step, "clip", False):
        return False
    return name in STRAIGHT_STEPS or is_no_operation(step) or is_passthrough(step)

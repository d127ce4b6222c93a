"""Whole intervals: whether what holds at the values of a domain holds at every number between them.

The explainer puts the places where a model's splits turn into the domains (a document's ``breakpoints``). Nothing of
how it found them is believed. The checker looks at every split and every pair of neighbouring values of a numeric
feature: if the split answers differently at both, the two must be neighbouring numbers, so that nothing lies between;
if it answers the same, so it does in between, since its answer turns once at the most and the preparation of its column
rises or falls all the way. A term adds something between what it adds at both, where it is monotone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ironrule.checker.columns import Column
from ironrule.checker.pipelines import Preparation
from ironrule.checker.readings.normal_form import SumReading
from ironrule.checker.result import ClaimUndecided
from ironrule.checker.space.spaces import Feature

LARGEST = 2**53


def is_numeric(feature: Feature) -> bool:
    """Whether a feature may take any number between its smallest and its largest value."""
    return (
        feature.ordered and feature.numeric and feature.natural and len(feature.columns) == 1 and bool(feature.values)
    )


def find_gaps(feature: Feature) -> npt.NDArray[np.bool_]:
    """For every two neighbouring values of a numeric feature whether a number lies between them: a whole one where all
    values are whole, a float64 otherwise.
    """
    if feature.whole:
        return np.array(
            [after - before > 1 for before, after in zip(feature.values, feature.values[1:], strict=False)], np.bool_
        )
    numbers = np.array(feature.values, dtype=np.float64)
    return np.asarray(np.nextafter(numbers[:-1], np.inf) < numbers[1:])


def require_intervals(
    reading: object, columns: Sequence[Column], preparation: Preparation, features: Sequence[Feature]
) -> None:
    """Raise ClaimUndecided, or Unreadable, unless the model decides every number between two values of a domain as the
    bounds at these values say.
    """
    if not isinstance(reading, SumReading):
        raise ClaimUndecided("between two values a network's decision may turn anywhere")
    preparation.require_monotone()
    gaps = {j: find_gaps(feature) for j, feature in enumerate(features) if is_numeric(feature)}
    for j in gaps:
        if features[j].whole and max(abs(features[j].values[0]), abs(features[j].values[-1])) > LARGEST:
            raise ClaimUndecided(
                f"{features[j].name!r} has whole numbers beyond 2**53, which libraries round each in their own way"
            )
    parts = [part for margins in reading.alternatives for margin in margins for part in margin.parts]
    for split in {split for part in parts for tree in part.trees for split in tree.splits if split is not None}:
        column = columns[split.column]
        if column.feature in gaps:
            _require_neighbours(split, column, gaps[column.feature], features[column.feature])
    for term in (term for part in parts for term in part.terms):
        feature = features[columns[term.column].feature]
        if columns[term.column].feature in gaps and not term.monotone:
            raise ClaimUndecided(f"what {feature.name!r} adds may be more between two values than at both")


def _require_neighbours(split, column: Column, gaps: npt.NDArray[np.bool_], feature: Feature) -> None:  # type: ignore[no-untyped-def]
    answers = np.asarray(split.goes_left(column.values))[: len(feature.values)]
    turns = answers[1:] != answers[:-1]
    if not turns.any() and not gaps.any():
        return
    if not split.turns_once or turns.sum() > 1:
        raise ClaimUndecided(f"a split tells single values of {feature.name!r} apart, not only lower from higher ones")
    if (turns & gaps).any():
        place = int(np.flatnonzero(turns & gaps)[0])
        between = f"{feature.values[place]!r} and {feature.values[place + 1]!r}"
        raise ClaimUndecided(
            f"the model turns somewhere between {between} of {feature.name!r}, and the domain does not say where"
        )

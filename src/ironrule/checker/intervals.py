"""Whole intervals: whether what holds at the values of a domain holds at every number between them.

The explainer puts the places where a model's splits turn into the domains (a document's ``breakpoints``). Nothing of
how it found them is believed. Two neighbouring values of a numeric feature with further numbers between them enclose a
*gap*. Every point with numbers in gaps must be dominated by a point with values of the domains: one that can occur if
it can, and at which no margin of a way to be desired is smaller. That is so if

- no split turns in a gap: where it answers differently at both ends, these are neighbouring numbers; and elsewhere it
  answers the same in between, since its answer turns once at the most and the preparation of its column rises or falls
  all the way;
- every term of the feature is monotone, and all that meet in one way to be desired rise or all fall, so that one end of
  the gap is the better one for all of them;
- constraints compare the feature with constants alone, and no gap touches one of these.

Where the dominating point is denied only because the model itself was asked, rounding could still decide otherwise in
the gap; such claims are left undecided (:func:`find_gaps_in_sums`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ironrule.checker.columns import Column
from ironrule.checker.pipelines import Preparation
from ironrule.checker.readings.normal_form import Margin, Split, SumReading, Term
from ironrule.checker.result import ClaimUndecided
from ironrule.checker.space.spaces import Feature, Space
from ironrule.checker.space.tables import Table

if TYPE_CHECKING:
    from ironrule.checker.space.constraints import Node

Mask = npt.NDArray[np.bool_]
Gaps = dict[int, Mask]  # per numeric feature, for every value but the last whether numbers lie between it and the next

LARGEST = 2**53


def is_numeric(feature: Feature) -> bool:
    """Whether a feature may take any number between its smallest and its largest value."""
    return feature.ordered and feature.numeric and feature.natural and not feature.one_hot and bool(feature.values)


def find_gaps(feature: Feature) -> Mask:
    """For every two neighbouring values of a numeric feature whether a number lies between them: a whole one where all
    values are whole, a float64 otherwise.
    """
    if feature.whole:
        pairs = zip(feature.values, feature.values[1:], strict=False)
        return np.array([after - before > 1 for before, after in pairs], dtype=np.bool_)
    numbers = np.array(feature.values, dtype=np.float64)
    return np.asarray(np.nextafter(numbers[:-1], np.inf) < numbers[1:])


def require_doubles(table: Table, space: Space) -> None:
    """Raise ClaimUndecided if a numeric feature's column cannot hold every number of its range."""
    for feature in filter(is_numeric, space.features):
        kind = table.column(feature.columns[0]).values.dtype
        if kind.kind == "f" and kind != np.float64:
            raise ClaimUndecided(f"{feature.name!r} comes as {kind}, which does not hold every number in between")


def require_intervals(reading: object, columns: Sequence[Column], preparation: Preparation, space: Space) -> None:
    """Raise ClaimUndecided, or Unreadable, unless every point between the values of the domains is dominated by a point
    with values of the domains.
    """
    if not isinstance(reading, SumReading):
        raise ClaimUndecided("between two values a network's decision may turn anywhere")
    preparation.require_monotone()
    gaps = {j: find_gaps(feature) for j, feature in enumerate(space.features) if is_numeric(feature)}
    for j in gaps:
        name, values = space.features[j].name, space.features[j].values
        if space.features[j].whole and max(abs(values[0]), abs(values[-1])) > LARGEST:
            raise ClaimUndecided(
                f"{name!r} has whole numbers beyond 2**53, which libraries round each in their own way"
            )
    for split in {split for margin in _list_margins(reading) for split in _list_splits(margin)}:
        column = columns[split.column]
        if column.feature in gaps:
            _require_neighbours(split, column, gaps[column.feature], space.features[column.feature])
    for margins in reading.alternatives:
        _require_one_direction(margins, columns, gaps, space)
    for formula in space.formulas:
        _require_constants(formula, gaps, space)


def find_gaps_in_sums(reading: object, columns: Sequence[Column], space: Space) -> Gaps:
    """The gaps of the numeric features that a term speaks of."""
    terms = (term for margin in _list_margins(reading) for term in _list_terms(margin))
    features = {columns[term.column].feature for term in terms}
    return {j: find_gaps(space.features[j]) for j in features if is_numeric(space.features[j])}


def _list_margins(reading: object) -> Iterator[Margin]:
    if isinstance(reading, SumReading):
        yield from (margin for margins in reading.alternatives for margin in margins)


def _list_splits(margin: Margin) -> Iterator[Split]:
    yield from (split for part in margin.parts for tree in part.trees for split in tree.splits if split is not None)


def _list_terms(margin: Margin) -> Iterator[Term]:
    yield from (term for part in margin.parts for term in part.terms)


def _require_neighbours(split: Split, column: Column, gaps: Mask, feature: Feature) -> None:
    answers = np.asarray(split.goes_left(column.values))[: len(feature.values)]
    turns = answers[1:] != answers[:-1]
    if not gaps.any():
        return
    if not split.turns_once or turns.sum() > 1:
        raise ClaimUndecided(f"a split tells single values of {feature.name!r} apart, not only lower from higher ones")
    if (turns & gaps).any():
        place = int(np.flatnonzero(turns & gaps)[0])
        between = f"{feature.values[place]!r} and {feature.values[place + 1]!r}"
        raise ClaimUndecided(f"the model turns somewhere between {between} of {feature.name!r}, and nothing says where")


def _require_one_direction(margins: Sequence[Margin], columns: Sequence[Column], gaps: Gaps, space: Space) -> None:
    """Of a feature with gaps all terms that meet in one way to be desired must rise, or all must fall."""
    rising: dict[int, bool] = {}
    for term in (term for margin in margins for term in _list_terms(margin)):
        column = columns[term.column]
        if column.feature not in gaps or not gaps[column.feature].any():
            continue
        name = space.features[column.feature].name
        steps = np.diff(np.asarray(term.add(column.values))[: len(space.features[column.feature].values)])
        if not term.monotone or not ((steps >= 0).all() or (steps <= 0).all()):
            raise ClaimUndecided(f"what {name!r} adds may be more between two values than at both")
        if steps.any() and rising.setdefault(column.feature, bool((steps >= 0).all())) != bool((steps >= 0).all()):
            raise ClaimUndecided(
                f"{name!r} raises one score and lowers another, so that the decision may turn in between"
            )


def _require_constants(node: Node, gaps: Gaps, space: Space) -> None:
    """Raise ClaimUndecided unless features with gaps are compared with constants alone that no gap touches."""
    if node.kind != "compare":
        for part in node.parts:
            _require_constants(part, gaps, space)
        return
    open_features = {j for j in _list_features(node, space) if j in gaps and gaps[j].any()}
    for left, right in zip(node.parts, node.parts[1:], strict=False):
        named = {j for side in (left, right) for j in _list_features(side, space)} & open_features
        if not named:
            continue
        plain = {left.kind, right.kind} == {"feature", "literal"}
        constant = left.value if left.kind == "literal" else right.value
        if not plain or _touches(constant, gaps[min(named)], space.features[min(named)]):
            raise ClaimUndecided("a constraint may hold between two values of a domain and at neither")


def _touches(constant: Any, gaps: Mask, feature: Feature) -> bool:
    """Whether a number lies in a gap, or at one of its ends; missing lies nowhere."""
    values = np.array(feature.values, dtype=np.float64)
    number = isinstance(constant, (int, float)) and not isinstance(constant, bool)
    return number and bool((gaps & (values[:-1] <= constant) & (constant <= values[1:])).any())


def _list_features(node: Node, space: Space) -> Iterator[int]:
    if node.kind == "feature":
        yield space.index(node.value)
    for part in node.parts:
        yield from _list_features(part, space)

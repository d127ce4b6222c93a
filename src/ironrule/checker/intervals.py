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
- the column of the user's table, if it has fewer digits than float64, rounds numbers to the nearest: their order stays;
- constraints compare the feature with constants alone, and no gap touches one of these.

A network has no such points: it may turn anywhere. Its bounds must hold for the numbers in gaps as well
(:func:`find_network_gaps`), and where none does, asking the model at values of the domains settles nothing.

Where the dominating point is denied only because the model itself was asked, rounding could still decide otherwise in
the gap; such claims are left undecided, so the gaps of features with terms are kept (:func:`find_dominated_gaps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.checker.arrays import BoolArray
from ironrule.checker.preprocessing import EstimatorColumn, EstimatorColumns
from ironrule.checker.readers.normal_form import MarginPart, NoReading, Reading, Split, SumForm, to_float64
from ironrule.checker.result import ClaimUndecided
from ironrule.checker.space.space import CheckerFeature, CheckerSpace, value_to_json

if TYPE_CHECKING:
    from ironrule.checker.space.constraints import FormulaNode


# per numeric feature, for every value but the last whether numbers lie between it and the next
GapMasks = dict[int, BoolArray]
MAX_EXACT_INTEGER = 2**53
STRAIGHT_ERROR_UNITS = 16.0  # units that a scaled number may be off the line between two others


def can_be_interval(feature: CheckerFeature) -> bool:
    """Whether a feature is an ordered number, so that it may take any between its smallest and its largest value."""
    rises = feature.ordered and feature.numeric and feature.naturally_ordered
    return rises and not feature.one_hot and bool(feature.values)


def is_interval_feature(feature: CheckerFeature) -> bool:
    """Whether a feature may take any number between its smallest and its largest value."""
    return feature.interval is True


def summarize_domains(space: CheckerSpace) -> dict[str, dict[str, Any]]:
    """What every feature can take, as a document says it."""
    return {feature.name: _summarize_domain(feature) for feature in space.features}


def _summarize_domain(feature: CheckerFeature) -> dict[str, Any]:
    if not feature.values or not feature.ordered or not feature.naturally_ordered:
        values = [value_to_json(value) for value in feature.values]
        return {"kind": "list", "missing": feature.missing, "values": values}
    kind = ("integers" if feature.whole else "interval") if is_interval_feature(feature) else "seen"
    low, high = value_to_json(feature.values[0]), value_to_json(feature.values[-1])
    count = {"count": len(feature.values)} if kind == "seen" else {}
    return {"kind": kind, "missing": feature.missing, "low": low, "high": high} | count


def find_gaps(feature: CheckerFeature) -> BoolArray:
    """For every two neighbouring values of a numeric feature whether a number lies between them: a whole one where all
    values are whole, a float64 otherwise.
    """
    if feature.whole:
        return np.array([after - before > 1 for before, after in pairwise(feature.values)], dtype=np.bool_)
    numbers = np.array(feature.values, dtype=np.float64)
    return np.asarray(np.nextafter(numbers[:-1], np.inf) < numbers[1:])


def require_ordered_intervals(unordered: Mapping[int, str], space: CheckerSpace) -> None:
    """Raise NoReading if an interval is among the features that a model's preparation may not keep in order."""
    for j, reason in unordered.items():
        if is_interval_feature(space.features[j]):
            raise NoReading(f"{reason}, and {space.features[j].name!r} goes through it")


def _find_all_gaps(space: CheckerSpace) -> GapMasks:
    """The gaps of all intervals; raises ClaimUndecided if libraries may not keep the order of their numbers."""
    gaps = {j: find_gaps(feature) for j, feature in enumerate(space.features) if is_interval_feature(feature)}
    for feature in (space.features[j] for j in gaps):
        if feature.whole and max(abs(feature.values[0]), abs(feature.values[-1])) > MAX_EXACT_INTEGER:
            beyond = f"{feature.name!r} has whole numbers beyond 2**53"
            raise ClaimUndecided(f"{beyond}, which libraries round each in their own way")
    return gaps


def find_network_gaps(columns: EstimatorColumns, space: CheckerSpace) -> GapMasks:
    """The gaps in which a network may tell numbers apart; raises ClaimUndecided unless it sees each of these numbers
    between what it sees of the values at both ends.
    """
    gaps, found = _find_all_gaps(space), GapMasks()
    for j, opened in gaps.items():
        feature = space.features[j]
        own = (to_float64(column.values)[: len(feature.values)] for column in columns if column.feature == j)
        steps = [change for numbers in own if (change := np.sign(np.diff(numbers))).any()]
        if not opened.any() or not steps:
            continue
        if len(steps) > 1:
            raise ClaimUndecided(f"several columns of what the network sees change with {feature.name!r}")
        if (steps[0] > 0).any() and (steps[0] < 0).any():
            raise ClaimUndecided(f"what the network sees of {feature.name!r} does not rise or fall all the way")
        if (opened & (steps[0] != 0)).any():  # where both ends are seen alike, so is all between them
            found[j] = opened & (steps[0] != 0)
    for formula in space.formulas:
        _require_constant_comparisons(formula, gaps, space)
    return found


def find_straight_columns(columns: EstimatorColumns, space: CheckerSpace, bent: set[int]) -> dict[int, float]:
    """The intervals of which a single column changes with the number, and that one affinely but for rounding, with how
    far off it may be at most. ``bent`` are features that may reach a step which is not affine.

    A scaler rounds a number two or three times, each time by half a unit of the type of the column, relatively to the
    product, the difference or what comes out. The product is no larger than the slope times the number. At both ends of
    a line values are off as well.
    """
    found = dict[int, float]()
    for j, feature in enumerate(space.features):
        own = [column.values[: len(feature.values)] for column in columns if column.feature == j]
        changing = [values for values in own if len(values) > 1 and (values[1:] != values[:-1]).any()]
        if not is_interval_feature(feature) or j in bent or len(changing) != 1:
            continue
        kind, numbers = changing[0].dtype, np.array(feature.values, dtype=np.float64)
        unit = float(np.finfo(kind).eps) if kind.kind == "f" else float(np.finfo(np.float64).eps)
        column = to_float64(changing[0])
        slope = abs(column[-1] - column[0]) / (numbers[-1] - numbers[0])
        size = float(np.abs(column).max()) + slope * float(np.abs(numbers).max())
        if np.isfinite(size):
            found[j] = STRAIGHT_ERROR_UNITS * unit * size
    return found


def find_dominated_gaps(reading: Reading, columns: EstimatorColumns, space: CheckerSpace) -> GapMasks:
    """The gaps of the numeric features that a term speaks of; raises ClaimUndecided unless every point between the
    values of the domains is dominated by a point with values of the domains.
    """
    if not isinstance(reading, SumForm):
        raise ClaimUndecided(f"between two values a {reading.kind}'s decision may turn anywhere")
    gaps = _find_all_gaps(space)
    ways = [[part for margin in margins for part in margin.parts] for margins in reading.alternatives]
    parts = list(chain(*ways))
    for split in {split for part in parts for tree in part.trees for split in tree.splits if split is not None}:
        column = columns[split.column]
        if column.feature in gaps:
            _require_no_turn_in_gaps(split, column, gaps[column.feature], space.features[column.feature])
    for way in ways:
        _require_same_direction(way, columns, gaps, space)
    for formula in space.formulas:
        _require_constant_comparisons(formula, gaps, space)
    with_terms = {columns[term.column].feature for part in parts for term in part.terms}
    return {j: gaps[j] for j in with_terms if j in gaps}


def _require_no_turn_in_gaps(split: Split, column: EstimatorColumn, gaps: BoolArray, feature: CheckerFeature) -> None:
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


def _require_same_direction(
    parts: list[MarginPart], columns: EstimatorColumns, gaps: GapMasks, space: CheckerSpace
) -> None:
    """Of a feature with gaps all terms that meet in one way to be desired must rise, or all must fall."""
    rising: dict[int, bool] = {}
    for term in (term for part in parts for term in part.terms):
        column = columns[term.column]
        if column.feature not in gaps or not gaps[column.feature].any():
            continue
        name = space.features[column.feature].name
        steps = np.diff(np.asarray(term.contribution(column.values))[: len(space.features[column.feature].values)])
        if not term.monotone or not ((steps >= 0).all() or (steps <= 0).all()):
            raise ClaimUndecided(f"what {name!r} adds may be more between two values than at both")
        if steps.any() and rising.setdefault(column.feature, bool((steps >= 0).all())) != bool((steps >= 0).all()):
            both = f"{name!r} raises one score and lowers another"
            raise ClaimUndecided(f"{both}, so that the decision may turn in between")


def _require_constant_comparisons(node: FormulaNode, gaps: GapMasks, space: CheckerSpace) -> None:
    """Raise ClaimUndecided unless features with gaps are compared with constants alone that no gap touches."""
    if node.kind != "compare":
        for part in node.parts:
            _require_constant_comparisons(part, gaps, space)
        return
    open_features = {j for j in _list_feature_indices(node, space) if j in gaps and gaps[j].any()}
    for left, right in pairwise(node.parts):
        named = {j for side in (left, right) for j in _list_feature_indices(side, space)} & open_features
        if not named:
            continue
        plain = {left.kind, right.kind} == {"feature", "literal"}
        constant = left.value if left.kind == "literal" else right.value
        if not plain or _touches_gap(constant, gaps[min(named)], space.features[min(named)]):
            raise ClaimUndecided("a constraint may hold between two values of a domain and at neither")


def _touches_gap(constant: Any, gaps: BoolArray, feature: CheckerFeature) -> bool:
    """Whether a number lies in a gap, or at one of its ends; missing lies nowhere."""
    values = np.array(feature.values, dtype=np.float64)
    number = isinstance(constant, (int, float)) and not isinstance(constant, bool)
    return number and bool((gaps & (values[:-1] <= constant) & (constant <= values[1:])).any())


def _list_feature_indices(node: FormulaNode, space: CheckerSpace) -> Iterator[int]:
    if node.kind == "feature":
        yield space.index(node.value)
    for part in node.parts:
        yield from _list_feature_indices(part, space)

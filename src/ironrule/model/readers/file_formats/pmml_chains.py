"""Chains of PMML models whose last one looks at a single answer: a calibrated probability, or a score put in bins.

Let s be the answer, which a link made of a sum r: a model that sees nothing but s decides by a function of s. It is
read like any other, with s for its only column. Each of its margins is positive on some stretches of s: a line on one
side of its zero, a tree on the pieces between the numbers that it compares s with. Since links rise, a stretch of s is
one of r, and its ends are found in r with all rounding of s, of the line and of the link counted. So the decision is
one about r: an alternative for every stretch, with a margin for each of its ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.tree_sum import Margin, TreeSum
from ironrule.model.pmml.links import LINKS, find_crossing
from ironrule.model.pmml.models import (
    EnsembleModel,
    HandedAnswer,
    Model,
    RegressionModel,
    RescaledModel,
    ScorecardModel,
    TreeModel,
)
from ironrule.model.pmml.predicates import (
    ComparisonPredicate,
    CompoundPredicate,
    ConstantPredicate,
    MissingPredicate,
    Predicate,
    SetPredicate,
)
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.file_formats.pmml_conditions import NumberSplit, ValueSplit
from ironrule.model.readers.file_formats.pmml_scores import ScoreForm, read_crossing
from ironrule.model.readers.sklearn_additive import ScaledShape

if TYPE_CHECKING:
    from ironrule.model.readers.file_formats.pmml_models import ModelReader

MAX_STRETCHES = 256
Stretch = tuple[float, float, float]  # of an answer: from where, up to where, and how far off these places may be


@dataclass(frozen=True, slots=True, eq=False)
class LinkedAnswer:
    """What a model of a chain hands on: a link's answer for a number, or 1 less it. ``column`` is where it stands."""

    score: ScoreForm
    link: str = "none"
    complement: bool = False
    column: int = -1


def find_link_answer(
    model: Model, answers: Mapping[int, tuple[Model, HandedAnswer]], reader: ModelReader
) -> LinkedAnswer | None:
    """The answer that a model looks at and at nothing else; None if it looks at none, or adds up plain numbers."""
    seen = list_columns(model)
    handed = sorted(seen & answers.keys())
    linked = [reader.read_handed(column) for column in handed]
    if all(one.link == "none" for one in linked):
        in_steps = len(seen) == 1 and isinstance(model, TreeModel | ScorecardModel)
        return linked[0] if linked and in_steps else None
    require_readable(
        len(seen) == 1, "its last model looks at a probability of another one and at other columns as well"
    )
    return linked[0]


def read_over_answer(linked: LinkedAnswer, read: Callable[[ModelReader], TreeSum], reader: ModelReader) -> TreeSum:
    """What a model decides by an answer alone, as margins of the number behind its link."""
    form = read(reader.enter_answer(linked.column))
    alternatives: list[tuple[Margin, ...]] = []
    for margins in form.alternatives:
        found = [_find_stretches(margin, linked) for margin in margins]
        require_readable(
            len(alternatives) + math.prod(map(len, found)) <= MAX_STRETCHES, "its last model has too many steps"
        )
        for chosen in itertools.product(*found):
            ends = [_read_stretch(linked, stretch) for stretch in chosen]
            if None not in ends:
                parts = [margin for some in ends if some is not None for margin in some]
                alternatives.append(tuple(parts) or (Margin(1.0, ()),))
    return TreeSum(tuple(alternatives) or ((Margin(-1.0, ()),),))


def _read_stretch(linked: LinkedAnswer, stretch: Stretch) -> list[Margin] | None:
    """The margins for both ends of a stretch; None if no answer lies in it."""
    low, high, off = stretch
    margins: list[Margin] = []
    for end, above in ((low, True), (high, False)):
        if math.isinf(end):
            continue
        own = 1.0 - end if linked.complement else end
        crossing = find_crossing(linked.link, own, off)
        if crossing is None:
            raise Unreadable(f"its last model turns at {end!r}, too near the end of what it is handed")
        form = read_crossing(linked.score, linked.link, crossing, above=above != linked.complement)
        ((margin,),) = form.alternatives
        if not margin.groups and not margin.error:
            if margin.offset < 0:
                return None
            continue
        margins.append(margin)
    return margins


def _find_stretches(margin: Margin, linked: LinkedAnswer) -> list[Stretch]:
    """Where a margin of a single column is positive."""
    terms = [term for group in margin.groups for term in group.terms]
    trees = [tree for group in margin.groups for tree in group.trees]
    require_readable(all(group.link.kind == "identity" for group in margin.groups), "a number goes through two links")
    require_readable(not (terms and trees), "its last model puts a line and steps together")
    if trees:
        return _find_pieces(margin, [split for tree in trees for split in tree.splits if split is not None])
    factors = [_get_factor(term.contribution) for term in terms]
    slope, size = math.fsum(factors), math.fsum(map(abs, factors))
    if not terms:
        return [(-math.inf, math.inf, 0.0)] if margin.offset > 0 else []
    require_readable(
        abs(slope) > 0 and margin.relative_error * size < abs(slope) / 8, "the lines of its last model cancel"
    )
    place = -margin.offset / slope
    reach = 1.0 if LINKS[linked.link].high == 1.0 and LINKS[linked.link].low == 0.0 else 2 * abs(place) + 1.0
    off = (margin.error + margin.relative_error * (abs(margin.offset) + size * reach)) / abs(slope)
    off = 1.01 * off + 4 * DOUBLE_ROUNDOFF * (abs(place) + 1.0)
    return [(place, math.inf, off)] if slope > 0 else [(-math.inf, place, off)]


def _get_factor(contribution: Any) -> float:
    require_readable(
        isinstance(contribution, ScaledShape) and getattr(contribution.shape, "exponent", 1) == 1,
        "its last model takes a power of another model's answer",
    )
    return float(contribution.factor)


def _find_pieces(margin: Margin, splits: list[Any]) -> list[Stretch]:
    """The pieces between the numbers of splits on which a margin of trees is positive."""
    marks: set[float] = set()
    for split in splits:
        if isinstance(split, NumberSplit):
            marks |= {split.low, split.high}
        else:
            require_readable(
                isinstance(split, ValueSplit), "its last model asks whether another one's answer is missing"
            )
            marks |= set(map(float, split.values))
    places = sorted(mark for mark in marks if math.isfinite(mark))
    if not places:
        return [(-math.inf, math.inf, 0.0)] if margin.evaluate(np.zeros((1, 1)))[0] > 0 else []
    points = [places[0] - 1.0 - abs(places[0])]
    for here, following in zip(places, [*places[1:], places[-1] + 2.0 + 2 * abs(places[-1])], strict=True):
        points += [here, here + (following - here) / 2]
    require_readable(all(np.diff(points) > 0), "its last model has steps next to each other")
    seen = np.array(points)[:, None]
    values, error = margin.evaluate(seen), margin.bound_error(seen)
    require_readable(bool((np.abs(values) > error).all()), "its last model decides too closely")
    holds = (values > 0).tolist()  # at, and between, the places in turn: the points at odd positions are the places
    for at in range(1, len(holds), 2):
        require_readable(holds[at] in (holds[at - 1], holds[at + 1]), "its last model asks for a single number")
    stretches, start = list[Stretch](), None
    for at in range(0, len(holds), 2):  # the pieces between the places
        low = places[at // 2 - 1] if at else -math.inf
        if holds[at] and start is None:
            start = low
        if not holds[at] and start is not None:
            stretches.append((start, low, 0.0))
            start = None
    return [*stretches, (start, math.inf, 0.0)] if start is not None else stretches


def list_columns(model: Model) -> set[int]:
    """The columns that a model looks at."""
    match model:
        case TreeModel():
            found, waiting = set[int](), [model.root]
            while waiting:
                node = waiting.pop()
                found |= _list_predicate_columns(node.predicate)
                waiting += node.children
            return found
        case RegressionModel():
            numeric = {one.column for table in model.tables for one in table.numeric}
            single = numeric | {one.column for table in model.tables for one in table.categorical}
            products = [one for table in model.tables for one in table.products]
            return single.union(*(one.columns for one in products))
        case ScorecardModel():
            attributes = [one for part in model.characteristics for one in part.attributes]
            return set[int]().union(*(_list_predicate_columns(one.predicate) for one in attributes))
        case RescaledModel():
            return list_columns(model.model)
        case EnsembleModel():
            own = [_list_predicate_columns(segment.predicate) for segment in model.segments]
            return set[int]().union(*own, *(list_columns(segment.model) for segment in model.segments))


def _list_predicate_columns(predicate: Predicate) -> set[int]:
    match predicate:
        case CompoundPredicate(_, parts):
            return set[int]().union(*map(_list_predicate_columns, parts))
        case ConstantPredicate():
            return set()
        case ComparisonPredicate(column) | MissingPredicate(column) | SetPredicate(column):
            return {column}

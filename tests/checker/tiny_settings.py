"""Tiny random readings with the models that they stand for: small enough to look at every point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ironrule.checker.asked_models import AnswerCache, AskedModels
from ironrule.checker.columns import Column
from ironrule.checker.network_bounds.network_bounds import prepare_network_bounds
from ironrule.checker.outcomes import Decision, Target
from ironrule.checker.readings.network_form import NetworkReading
from ironrule.checker.readings.normal_form import Question
from ironrule.checker.scope import Bounds, ReadModel, Scope
from ironrule.checker.space.occurrence import list_combinations
from ironrule.checker.space.spaces import space_from_plain
from ironrule.checker.sum_bounds.sum_bounds import prepare_sum_bounds
from ironrule.errors import ConstraintError
from ironrule.model.network import Network
from ironrule.model.readable import Read
from ironrule.model.reading import Group, Link, Margin, Reading, Term
from ironrule.model.tabulate import Columns
from ironrule.oracles import Case
from ironrule.shared_reading import convert_reading
from ironrule.space import Feature, Points, Space, parse
from readings import trees
from tiny import TableModel, case_of, constraints, every_point

VALUES = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
LINKS = st.sampled_from(
    [
        Link("logistic", 0.5, 1.0, 0.0),
        Link("logistic", 2.0, 0.5, 1.0),
        Link("step", 1.0, 1.0, 0.25),
        Link("step", 0.5, 1.0, -0.25),
    ]
)


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a term adds: a table over the values of its column."""

    table: tuple[float, ...]

    def __call__(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return np.array(self.table)[values.astype(np.intp)]


@st.composite
def groups(draw: st.DrawFn, sizes: tuple[int, ...], linked: bool) -> Group:
    """Trees and terms, several terms of one feature among them."""
    some = draw(st.lists(trees(sizes), max_size=3))
    places = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=3))
    terms = [Term(j, Lookup(tuple(draw(VALUES) for _ in range(sizes[j])))) for j in places]
    return Group(tuple(some), draw(LINKS) if linked and draw(st.booleans()) else Link(), tuple(terms))


@st.composite
def margins(draw: st.DrawFn, sizes: tuple[int, ...]) -> Margin:
    linked = draw(st.booleans())
    parts = draw(st.lists(groups(sizes, linked), max_size=2 if linked else 1))
    offset = draw(st.sampled_from([-2.25, -1.0, -0.25, 0.0, 0.75]))
    return Margin(offset, tuple(parts), draw(st.sampled_from([0.0, 0.3, 1.0])), draw(st.sampled_from([0.0, 0.125])))


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A case, its model's reading, and the checker's scope of it."""

    case: Case
    reading: Reading | Network
    columns: Columns
    scope: Scope

    @property
    def answers(self) -> AnswerCache:
        return AnswerCache(self.case.model, self.scope.space, self.case.instance)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    features = tuple(Feature(f"f{j}", tuple(range(size)), draw(st.booleans())) for j, size in enumerate(sizes))
    texts = draw(st.lists(constraints(features, of_instance=False), max_size=2))
    try:
        return Space(features, tuple(map(parse, texts)))
    except ConstraintError:  # nothing satisfies them
        return Space(features)


@st.composite
def settings_of_models(draw: st.DrawFn) -> Setting:
    """A model that decides as its reading says, and as it likes where rounding leaves room: alike for points that the
    reading cannot tell apart.
    """
    space = draw(spaces())
    sizes = tuple(space.sizes.tolist())
    some = st.lists(margins(sizes), min_size=1, max_size=2).map(tuple)
    reading = Reading(tuple(draw(st.lists(some, min_size=1, max_size=2))))
    columns = Columns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    points = every_point(space)
    possible, sure = decisions(reading, columns, points)
    classes = bounds_for(Read(reading, columns), space).classes
    _, alike = np.unique([of[points[:, j]] for j, of in enumerate(classes)], axis=1, return_inverse=True)
    whims = np.array(draw(st.lists(st.booleans(), min_size=len(points), max_size=len(points))))[alike.ravel()]
    desired = sure | (possible & whims)
    occurring = space.feasible.admits(points)
    if not (occurring & ~desired).any():
        desired = np.zeros_like(desired)
        reading = Reading(((Margin(-1.0, ()),),))
    undesired = points[occurring & ~desired]
    instance = undesired[draw(st.integers(0, len(undesired) - 1))]
    past = points[occurring][:: max(1, int(occurring.sum()) // 7)]
    case = case_of(space, desired.reshape(sizes), instance, past)
    return Setting(case, reading, columns, scope_of_reading(case, Read(reading, columns), past))


def decisions(reading: Reading, columns: Columns, points: Points) -> tuple[Any, Any]:
    """Which points may be desired and which surely are, the model's error counted; sums here are exact but for
    logistic functions.
    """
    seen = columns.at(points)
    possible, sure = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    for alternative in reading.alternatives:
        values = np.array([margin.at(seen) for margin in alternative])
        errors = np.array([[_error(margin, seen)] for margin in alternative])
        possible |= (values > -errors).all(axis=0)
        sure |= (values > errors).all(axis=0)
    return possible, sure


def _error(margin: Margin, seen: Any) -> float:
    return margin.error_over(seen) + (1e-12 if any(g.link.kind == "logistic" for g in margin.groups) else 0.0)


def bounds_for(read: Read, space: Space) -> Bounds:
    """What bounds the margins of a reading, in the checker's form."""
    columns = [Column(int(j), values) for j, values in zip(read.columns.features, read.columns.values, strict=True)]
    reading = convert_reading(read.reading)
    if isinstance(reading, NetworkReading):
        return prepare_network_bounds(reading, columns, space.sizes.tolist())
    return prepare_sum_bounds(reading, columns, space.sizes.tolist())


def scope_of_reading(case: Case, read: Read, past: Points) -> Scope:
    """The checker's scope, with a reading put in its place."""
    assert isinstance(case.model, TableModel)
    decision = Decision(len, np.asarray, "desired", "undesired", Question((), None), None)
    asked = AskedModels(case.model, (case.model,), decision)
    space = space_from_plain(case.space.to_dict())
    scope = Scope(space, past, (None,), asked, Target(), list_combinations(space))
    scope.__dict__["read_models"] = (ReadModel(case.model, bounds_for(read, case.space), "own"),)
    return scope

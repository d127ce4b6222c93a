"""Tiny random readings with the models that they stand for: small enough to look at every point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ironrule.arrays import Points
from ironrule.checker.bounds.feasible import build_feasible_set
from ironrule.checker.preprocessing import EstimatorColumn
from ironrule.checker.readers.normal_form import EstimatorTarget
from ironrule.checker.scope import CheckScope, MarginBounds, ModelWithBounds
from ironrule.checker.space.space import space_from_json
from ironrule.checker.user_models import AnswerCache, ModelDecision, OutcomeTarget, UserModelSet
from ironrule.errors import ConstraintError
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Network
from ironrule.model.normal_form.tree_sum import Link, LinkedGroup, Margin, Term, TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case
from ironrule.shared_reading import convert_normal_form
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from random_tree_sums import trees
from tiny_cases import TableModel, case_of, constraints, every_point

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
def groups(draw: st.DrawFn, sizes: tuple[int, ...], linked: bool) -> LinkedGroup:
    """Trees and terms, several terms of one feature among them."""
    some = draw(st.lists(trees(sizes), max_size=3))
    places = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=3))
    terms = [Term(j, Lookup(tuple(draw(VALUES) for _ in range(sizes[j])))) for j in places]
    return LinkedGroup(tuple(some), draw(LINKS) if linked and draw(st.booleans()) else Link(), tuple(terms))


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
    reading: TreeSum | Network
    columns: TabulatedColumns
    scope: CheckScope

    @property
    def answers(self) -> AnswerCache:
        return AnswerCache(self.case.model, self.scope.space, self.case.instance)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    features = tuple(Feature(f"f{j}", tuple(range(size)), draw(st.booleans())) for j, size in enumerate(sizes))
    texts = draw(st.lists(constraints(features, of_instance=False), max_size=2))
    try:
        return Space(features, tuple(map(parse_constraint, texts)))
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
    reading = TreeSum(tuple(draw(st.lists(some, min_size=1, max_size=2))))
    columns = TabulatedColumns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    points = every_point(space)
    possible, sure = decisions(reading, columns, points)
    classes = bounds_for(TabulatedModel(reading, columns), space).cells
    _, alike = np.unique([of[points[:, j]] for j, of in enumerate(classes)], axis=1, return_inverse=True)
    whims = np.array(draw(st.lists(st.booleans(), min_size=len(points), max_size=len(points))))[alike.ravel()]
    desired = sure | (possible & whims)
    feasible = space.feasible.admits(points)
    if not (feasible & ~desired).any():
        desired = np.zeros_like(desired)
        reading = TreeSum(((Margin(-1.0, ()),),))
    undesired = points[feasible & ~desired]
    instance = undesired[draw(st.integers(0, len(undesired) - 1))]
    past = points[feasible][:: max(1, int(feasible.sum()) // 7)]
    case = case_of(space, desired.reshape(sizes), instance, past)
    return Setting(case, reading, columns, scope_of_reading(case, TabulatedModel(reading, columns), past))


def decisions(reading: TreeSum, columns: TabulatedColumns, points: Points) -> tuple[Any, Any]:
    """Which points may be desired and which surely are, the model's error counted; sums here are exact but for
    logistic functions.
    """
    seen = columns.look_up(points)
    possible, sure = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    for alternative in reading.alternatives:
        values = np.array([margin.evaluate(seen) for margin in alternative])
        errors = np.array([[_error(margin, seen)] for margin in alternative])
        possible |= (values > -errors).all(axis=0)
        sure |= (values > errors).all(axis=0)
    return possible, sure


def _error(margin: Margin, seen: Any) -> float:
    return margin.bound_error(seen) + (1e-12 if any(g.link.kind == "logistic" for g in margin.groups) else 0.0)


def bounds_for(read: TabulatedModel, space: Space) -> MarginBounds:
    """What bounds the margins of a reading, in the checker's form."""
    columns = [
        EstimatorColumn(int(j), values) for j, values in zip(read.columns.features, read.columns.values, strict=True)
    ]
    return convert_normal_form(read.normal_form).prepare_bounds(columns, space.sizes.tolist())


def scope_of_reading(case: Case, read: TabulatedModel, past: Points) -> CheckScope:
    """The checker's scope, with a reading put in its place."""
    assert isinstance(case.model, TableModel)
    decision = ModelDecision(len, np.asarray, "desired", "undesired", EstimatorTarget((), None), None)
    asked = UserModelSet(case.model, (case.model,), decision)
    space = space_from_json(case.space.to_dict())
    scope = CheckScope(
        space=space,
        past_rows=past,
        models=(None,),
        user_models=asked,
        target=OutcomeTarget(),
        feasible=build_feasible_set(space),
    )
    scope.__dict__["models_with_bounds"] = (ModelWithBounds(case.model, bounds_for(read, case.space), "own"),)
    return scope

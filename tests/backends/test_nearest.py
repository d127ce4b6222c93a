"""The nearest counterfactuals, on tiny random sums of trees and networks against looking at every point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.backends.registry import find_nearest, narrow_to_constraints
from ironrule.errors import ConstraintError
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.rule.box import Box
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.feasible import build_feasible_region
from ironrule.space.constraints.parser import parse_constraint
from random_networks import interval_models, network_models
from random_tree_sums import read_models
from tiny_cases import exceptions_in, run_of
from tree_cases import Made, leaves_of, tree_cases

Rank = tuple[int, float]


def rank(case: Case, point: Points) -> Rank:
    """How many features a point changes, and by how much in all."""
    distance = InstanceDistance.build(case.space, case.instance, NormWeights())
    return int((point != case.instance).sum()), float(sum(distance.table[distance.starts + point]))


def close(one: Rank, other: Rank) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) < 1e-6


@settings(deadline=None, max_examples=400)
@given(st.one_of(read_models(), network_models()), st.integers(1, 4), st.data())
def test_each_counterfactual_is_the_nearest_that_is_left(
    made: tuple[Case, TabulatedModel], k: int, data: st.DataObject
) -> None:
    case, read = made
    box = data.draw(boxes_to_vary(case))
    found = find_nearest(read, BoxQuery(case, box, k), run_of())
    assert_nearest(found, case, box, k)


@settings(deadline=None, max_examples=400)
@given(interval_models(), st.integers(1, 4), st.data())
def test_values_of_intervals_are_all_looked_at(made: tuple[Case, TabulatedModel], k: int, data: st.DataObject) -> None:
    """Of a network that may turn between two values, the values themselves are not passed over."""
    case, read = made
    assume(not case.model.desired(case.instance[None, :])[0])
    box = data.draw(boxes_to_vary(case))
    found = find_nearest(read, BoxQuery(case, box, k), run_of())
    # not proven: numbers between two values may be desired where no further value is
    assert_nearest(replace(found, proven=True), case, box, k)


@st.composite
def boxes_to_vary(draw: st.DrawFn, case: Case) -> Box:
    """Some features are to stay as they are."""
    fixed = np.array(draw(st.lists(st.integers(0, 3), min_size=len(case.space), max_size=len(case.space)))) == 0
    whole = case.components.box(0)
    return Box(np.where(fixed, case.instance, whole.low), np.where(fixed, case.instance, whole.high))


@settings(deadline=None, max_examples=100)
@given(read_models(), st.integers(1, 3), st.data())
def test_constraints_on_changes_are_kept_as_bounds_of_the_box_or_as_they_are(
    made: tuple[Case, TabulatedModel], k: int, data: st.DataObject
) -> None:
    case, read = made
    assume(not case.model.desired(case.instance[None, :])[0])
    box, bound, used = data.draw(boxes_to_vary(case)), [], set()
    for feature in case.space.features:
        relations = ("==", "!=", *((">=", "<=") if feature.ordered else ()))
        relation = data.draw(st.sampled_from((None, *relations)))
        if relation is not None:
            used.add(relation)
            text = f"cf.{feature.name} {relation} x.{feature.name}"
            bound.append(bind_constraint(parse_constraint(text), case.space.features))
    predicates = [*case.space.feasible.predicates, *bound]
    try:
        feasible = build_feasible_region(case.space.features, predicates, case.instance)
    except ConstraintError:
        assume(False)
    limited = replace(case, feasible=feasible)
    narrowed = narrow_to_constraints(BoxQuery(limited, box, k))
    permitted = [point.tobytes() for point in exceptions_in(limited, box)]
    assert [point.tobytes() for point in exceptions_in(narrowed.case, narrowed.box)] == permitted
    if used <= {"=="}:
        assert narrowed.case.feasible is case.space.feasible
    assert_nearest(find_nearest(read, BoxQuery(limited, box, k), run_of()), limited, box, k)


def assert_nearest(found: NearestCounterfactuals, case: Case, box: Box, k: int) -> None:
    """By looking at every point."""
    assert found.proven
    assert found.stopped is None
    left = list(exceptions_in(case, box))
    for point in found.points:
        assert any((point == other).all() for other in left)
        assert close(rank(case, point), min(rank(case, other) for other in left))
        changed = point != case.instance
        left = [other for other in left if not (other != case.instance)[changed].all()]
    assert len(found.points) == k or not left


@settings(deadline=None, max_examples=300)
@given(tree_cases(most_alternatives=2), st.integers(1, 4), st.data())
def test_the_leaves_of_a_tree_give_the_nearest_too(made: Made, k: int, data: st.DataObject) -> None:
    case, exact = made
    box = data.draw(boxes_to_vary(case))
    unread = TabulatedModel(TreeSum(()), TabulatedColumns(np.arange(len(case.space)), ()))
    found = find_nearest(
        unread,
        BoxQuery(case, box, k),
        run_of(),
        oracle=leaves_of(case, exact),
    )
    assert_nearest(found, case, box, k)

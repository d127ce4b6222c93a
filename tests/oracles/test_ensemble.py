"""The exact oracle for forests, on tiny random readings against looking at every point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironrule.errors import ConstraintError
from ironrule.model.forest import cells_at, compile_reading
from ironrule.model.forest_kernels import decide
from ironrule.model.reading import Group, Link, Margin, Reading, Tree
from ironrule.model.tabulate import Columns
from ironrule.oracles import Case, Ensemble
from ironrule.search import Minimum, solve
from ironrule.space import Feature, Space, parse
from ironrule.verdict import Proven, Refuted, Unrefuted
from tiny import case_of, consistent, constraints, every_point, exceptions_in, meter_of, problem_of, rules_of, subsets


@dataclass(frozen=True, slots=True)
class Among:
    """Goes left for some values: any subset, as categorical splits and missing values make them."""

    column: int
    values: frozenset[int]

    def goes_left(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return np.isin(values, list(self.values))


@st.composite
def trees(draw: st.DrawFn, sizes: tuple[int, ...], depth: int = 3) -> Tree:
    """A tree of few levels with small values, so that sums tie often."""
    tests: list[Among | None] = []
    left: list[int] = []
    right: list[int] = []
    values: list[float] = []
    pending = [(0, -1, False)]
    while pending:
        level, parent, second = pending.pop(0)
        node = len(tests)
        if parent >= 0:
            (right if second else left)[parent] = node
        column = draw(st.integers(0, len(sizes) - 1))
        inner = level < depth and draw(st.booleans())
        some = draw(st.frozensets(st.integers(0, sizes[column] - 1)))
        tests.append(Among(column, some) if inner else None)
        left.append(-1)
        right.append(-1)
        values.append(0.0 if inner else draw(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])))
        if inner:
            pending += [(level + 1, node, False), (level + 1, node, True)]
    return Tree(tuple(tests), np.array(left, np.int32), np.array(right, np.int32), np.array(values))


links = st.one_of(
    st.just(Link()),
    st.builds(
        Link, st.just("logistic"), st.sampled_from([0.5, 2.0]), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 1.0])
    ),
    st.builds(Link, st.just("step"), st.sampled_from([0.5, 1.0]), st.just(1.0), st.sampled_from([-0.25, 0.25])),
)


@st.composite
def margins(draw: st.DrawFn, sizes: tuple[int, ...], linked: bool) -> Margin:
    groups = draw(
        st.lists(
            st.builds(
                Group,
                st.lists(trees(sizes), min_size=1, max_size=4).map(tuple),
                link=links if linked else st.just(Link()),
            ),
            min_size=1,
            max_size=2 if linked else 1,
        )
    )
    offset = draw(st.sampled_from([-2.25, -1.0, -0.25, 0.0, 0.75]))
    return Margin(offset, tuple(groups), error=draw(st.sampled_from([0.0, 0.3, 1.0])))


def rounding(margin: Margin) -> float:
    """Sums of these values are exact; logistic functions of them are not."""
    return 1e-12 if any(group.link.kind == "logistic" for group in margin.groups) else 0.0


def constrained_space(features: tuple[Feature, ...], texts: list[str]) -> Space:
    try:
        return Space(features, tuple(map(parse, texts)))
    except ConstraintError:  # nothing satisfies them
        return Space(features)


@st.composite
def read_cases(draw: st.DrawFn) -> tuple[Case, Ensemble]:
    """A case whose model is a reading: within the error it may decide either way."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    kinds = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    features = tuple(Feature(f"f{j}", tuple(range(size)), ordered=kinds[j]) for j, size in enumerate(sizes))
    space = constrained_space(features, draw(st.lists(constraints(features, of_instance=False), max_size=2)))
    linked = draw(st.booleans())
    alternatives = draw(
        st.lists(st.lists(margins(sizes, linked), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2)
    )
    reading = Reading(tuple(alternatives))
    columns = Columns(np.arange(len(sizes)), tuple(np.arange(size) for size in sizes))
    forests = compile_reading(reading, columns, space)
    points = every_point(space)
    possible, sure = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    for alternative in reading.alternatives:
        values = np.array([margin.at(points) for margin in alternative])
        errors = np.array([[margin.error + rounding(margin)] for margin in alternative])
        possible |= (values > -errors).all(axis=0)
        sure |= (values > errors).all(axis=0)
    _, alike = np.unique(cells_at(forests[0], points), axis=0, return_inverse=True)  # same leaves: same arithmetic
    whims = np.array(draw(st.lists(st.booleans(), min_size=len(points), max_size=len(points))))[alike.ravel()]
    table = (sure | (possible & whims)).reshape(tuple(space.sizes))
    occurring = points[space.feasible.admits(points)]
    undesired = points[~table.ravel() & space.feasible.admits(points)]
    if len(undesired) == 0:
        table[:] = False
        return case_of(space, table, occurring[0], occurring[:1]), Ensemble(())
    instance = undesired[draw(st.integers(0, len(undesired) - 1))]
    return case_of(space, table, instance, occurring[:: max(1, len(occurring) // 7)]), Ensemble(forests)


@settings(deadline=None, max_examples=400)
@given(read_cases(), st.data())
def test_every_box_is_decided_and_rightly(made: tuple[Case, Ensemble], data: st.DataObject) -> None:
    case, oracle = made
    box = case.relevant.box(data.draw(rules_of(case)))
    k = data.draw(st.integers(1, 4))
    verdict = oracle.find(case, box, k, meter_of(None), np.random.default_rng(data.draw(st.integers(0, 3))))
    exceptions = {point.tobytes() for point in exceptions_in(case, box)}
    assert not isinstance(verdict, Unrefuted)
    if isinstance(verdict, Proven):
        assert not exceptions
    else:
        assert isinstance(verdict, Refuted)
        found = [point.tobytes() for point in verdict.points]
        assert 1 <= len(found) <= k
        assert len(set(found)) == len(found)
        assert set(found) <= exceptions


@settings(deadline=None, max_examples=150)
@given(read_cases(), st.integers(0, 3))
def test_the_minimum_rule_is_consistent_and_nothing_shorter_is(made: tuple[Case, Ensemble], seed: int) -> None:
    case, oracle = made
    findings = solve(problem_of(case, oracle, k=8, seed=seed), Minimum())
    rule = findings.rules[0]
    shortest = next(one for one in subsets(case.relevant.usable) if consistent(case, one))
    assert isinstance(findings.verdicts[0], Proven)
    assert consistent(case, rule)
    assert rule.bit_count() == shortest.bit_count() == findings.lower_bound


@settings(deadline=None, max_examples=100)
@given(read_cases())
def test_a_forest_says_of_every_point_what_its_reading_says(made: tuple[Case, Ensemble]) -> None:
    case, oracle = made
    points = every_point(case.space)
    points = points[case.feasible.admits(points)]
    desired = case.model.desired(points)
    answers = [decide(forest, points) for forest in oracle.forests]
    possible = np.any([may for may, _ in answers], axis=0) if answers else np.zeros(len(points), np.bool_)
    sure = np.any([must for _, must in answers], axis=0) if answers else np.zeros(len(points), np.bool_)
    assert not (desired & ~possible).any()
    assert not (sure & ~desired).any()


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_a_model_of_one_leaf_denies_everybody(value: float) -> None:
    space = Space((Feature("a", (0, 1, 2), ordered=True),))
    leaf = Tree((None,), np.array([-1], np.int32), np.array([-1], np.int32), np.array([value]))
    columns = Columns(np.zeros(1, np.intp), (np.arange(3),))
    forests = compile_reading(Reading(((Margin(0.0, (Group((leaf,)),)),),)), columns, space)
    case = case_of(space, np.zeros(3, np.bool_), np.array([1], np.int32), every_point(space))
    verdict = Ensemble(forests).find(case, case.relevant.box(0), 1, meter_of(None), np.random.default_rng(0))
    assert isinstance(verdict, Proven)

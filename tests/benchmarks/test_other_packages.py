"""What other packages say becomes what they meant: conditions as rules, reasons as boxes, boxes as problems."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks.leaf_problems import judged, problem_of
from benchmarks.paper.encoded import Encoded, domain
from benchmarks.paper.exceptions import has_exceptions
from benchmarks.paper.methods_pyxai import _components, _sets
from benchmarks.paper.subject import Subject
from benchmarks.proof_models import Task
from benchmarks.proof_peers import column_names
from benchmarks.proof_queries import Query
from ironrule import Rule
from ironrule.rule.box import Box

RNG = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "age": RNG.choice([20, 25, 31, 37, 44], 120),
        "job": RNG.choice(["cook", "judge", "smith", "tailor"], 120),
        "debt": RNG.choice([0.0, 0.5, 2.5], 120),
    }
)


def subject() -> Subject:
    """A forest that denies some."""
    target = (((TABLE["age"] < 32) ^ (TABLE["job"] == "judge")) & (TABLE["debt"] < 1.0)).astype(int)
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["job"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestClassifier(7, max_depth=3, random_state=0)).fit(TABLE, target)
    return Subject("made up", model, TABLE, 1)


SUBJECT = subject()
ENCODED = Encoded(SUBJECT)
SPACE = SUBJECT.exact.space
POINTS = np.array(list(product(*(range(size) for size in SPACE.sizes.tolist()))), dtype=np.int32)
DESIRED = SUBJECT.exact._context.model.primary.desired(POINTS)


def test_what_the_model_sees_is_put_together_from_tables_of_codes() -> None:
    numbers = ENCODED.numbers(POINTS)
    codes = np.stack([np.searchsorted(domain(f), numbers[:, j]) for j, f in enumerate(SPACE.features)], axis=1)
    assert (codes == POINTS).all()
    said = SUBJECT.model[-1].predict(ENCODED.columns.look_up(codes.astype(np.int32)))
    assert ((said == 1) == DESIRED).all()


@pytest.mark.parametrize(
    ("conditions", "components"),
    [
        ([(0, "<=", 37.0)], ["age <= 37"]),
        ([(0, "<=", 40.2)], ["age <= 37"]),
        ([(0, ">", 20.0), (0, "<=", 37.0)], ["age >= 25", "age <= 37"]),
        ([(0, ">", 20.0), (0, ">", 30.0)], ["age >= 31"]),
        ([(0, "<=", 99.0)], []),
        ([(1, "==", 2.0), (2, ">", 0.25)], ["job = 'smith'", "debt >= 0.5"]),
    ],
)
def test_a_packages_conditions_are_bounds_at_values_of_the_domain(conditions: Any, components: list[str]) -> None:
    rule = ENCODED.rule(conditions)
    assert [str(component) for component in rule.components] == components
    numbers = ENCODED.numbers(SPACE.encode(TABLE, progress=False).points(slice(0, len(TABLE))))
    relations = {"<=": np.less_equal, ">": np.greater, "==": np.equal}
    meant = np.all([relations[relation](numbers[:, j], bound) for j, relation, bound in conditions], axis=0)
    assert (rule.covers(TABLE) == meant).all()


def test_a_category_that_nobody_named_alone_is_no_component() -> None:
    with pytest.raises(RuntimeError, match="must name one value"):
        ENCODED.rule([(1, ">", 0.0)])


def test_exceptions_are_found_exactly_where_there_are_some() -> None:
    row, answers = SUBJECT.undesired(1)[0], set()
    for ages, jobs in product([[0], [1, 3], [0, 1, 2], [0, 2, 4], [4]], [[0], [1], [0, 2], [0, 2, 3]]):
        inside = np.isin(POINTS[:, 0], ages) & np.isin(POINTS[:, 1], jobs) & (POINTS[:, 2] == 1)
        answer = has_exceptions(SUBJECT.exact, row, {"0": ages, "1": jobs, "2": [1]}, 20.0)
        assert answer == bool(DESIRED[inside].any())
        answers.add(answer)
    assert answers == {True, False}


def test_what_is_not_decided_in_time_stays_open() -> None:
    assert has_exceptions(SUBJECT.exact, SUBJECT.undesired(1)[0], {"0": [0]}, 1e-9) is None


def test_a_reason_over_what_the_model_sees_is_sets_of_values() -> None:
    task = Task("made up", "", SUBJECT.model, TABLE, np.empty(0, dtype=np.intp))
    names, groups = column_names(task)
    assert (names, groups) == (["c0v0", "c0v1", "c0v2", "c0v3", "n0", "n1"], {"c0v": 4})
    said = [("c0v1", "LT", 0.5), ("n0", "GE", 24.0), ("n0", "LT", 40.0), ("n1", "LE", 9.0)]
    sets = {j: codes.tolist() for j, codes in _sets(ENCODED, task, said).items()}
    assert sets == {0: [1, 2, 3], 1: [0, 2, 3]}


def test_only_sets_that_components_can_say_become_components() -> None:
    age, job = SPACE.features[0], SPACE.features[1]
    assert _components(age, np.array([1, 3])) is None
    assert _components(job, np.array([0, 2])) is None
    between = Rule(tuple(_components(age, np.array([1, 2])) or ()))
    assert (between.covers(TABLE) == TABLE["age"].between(25, 31)).all()
    assert [str(one) for one in _components(job, np.array([3])) or ()] == ["job = 'tailor'"]


def sums(problem: dict[str, Any]) -> dict[tuple[int, ...], float]:
    """Per choice of cells the sum of the leaves that it reaches, one per tree."""
    found = {}
    for cells in product(*(range(count) for count in problem["cells"])):
        reached = [
            [value for value, told in leaves if all(cells[int(j)] in admitted for j, admitted in told.items())]
            for leaves in problem["trees"]
        ]
        assert all(len(some) == 1 for some in reached)
        found[cells] = sum(some[0] for some in reached)
    return found


def test_a_solvers_problem_has_a_sum_above_its_bound_exactly_where_the_box_has_a_desired_point() -> None:
    rng, answers = np.random.default_rng(0), set()
    for _ in range(20):
        ends = np.sort(rng.integers(0, SPACE.sizes[:, None], (len(SPACE), 2)), axis=1).astype(np.int32)
        query = Query("random", SUBJECT.undesired(1)[0], ends[:, 0], ends[:, 1])
        there = bool(DESIRED[Box(query.low, query.high).contains(POINTS)].any())
        problem = problem_of(SUBJECT.exact, query)
        best, value = max(sums(problem).items(), key=lambda one: one[1])
        assert (value > problem["more than"] + 1e-9) == there
        assert judged(SUBJECT.exact, query, problem, {"answer": "found", "cells": list(best)})["desired"] == there
        answers.add(there)
    assert answers == {True, False}

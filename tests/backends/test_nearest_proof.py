"""Nearest among all numbers: what is claimed of tiny random networks, against a dense grid of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings, strategies as st

from ironrule.arrays import Points
from ironrule.backends import nearest_proof
from ironrule.backends.nearest_proof import IntervalProof, NearestProver, prove_over_intervals
from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.backends.registry import find_nearest
from ironrule.model.intervals import find_gaps
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.geco.candidates import tabulate_distances
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.space.feature import Feature, find_open_gaps
from ironrule.space.space import Space
from ironrule.verdict.verdict import NOT_SEARCHED
from random_networks import are_desired_numbers, interval_models
from tiny_cases import case_of, run_of

STEPS = 12  # numbers per gap
Made = tuple[Case, TabulatedModel]


def list_places(feature: Feature) -> npt.NDArray[np.float64]:
    """The codes of a feature, and between those with a gap many numbers, as parts of the way."""
    inside = [code + np.arange(1, STEPS) / STEPS for code in np.flatnonzero(find_open_gaps(feature)).tolist()]
    return np.unique(np.concatenate([np.arange(feature.size, dtype=float), *inside]))


def list_desired(made: Made) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Of all numbers of a grid that are desired: which features they change, and how far they are in all."""
    case, read = made
    features = case.space.features
    grid = np.stack([g.ravel() for g in np.meshgrid(*map(list_places, features), indexing="ij")], axis=1)

    def look_up(j: int, table: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.interp(grid[:, j], np.arange(len(table)), np.asarray(table, dtype=np.float64))

    places = zip(read.columns.features.tolist(), read.columns.values, strict=True)
    grid = grid[are_desired_numbers(read, np.stack([look_up(j, table) for j, table in places], axis=1))]
    own = [tabulate_distances(feature, int(code)) for feature, code in zip(features, case.instance, strict=True)]
    distance = np.sum([look_up(j, table) for j, table in enumerate(own)], axis=0)
    return grid != case.instance, distance


def oracle_of(made: Made) -> NetworkOracle:
    case, read = made
    assert isinstance(read.normal_form, Network)
    return NetworkOracle(compile_network(read.normal_form, read.columns, case.space))


def permitted_of(case: Case) -> list[Any]:
    return [np.delete(np.arange(size), own) for size, own in zip(case.space.sizes, case.instance, strict=True)]


def prove(made: Made, k: int) -> tuple[Points, IntervalProof]:
    """The nearest at values of the domains, and what is proven of them."""
    case, read = made
    oracle, query, gaps = oracle_of(made), BoxQuery(case, case.components.box(0), k), find_gaps(case.space, [read])
    nearest = find_nearest(read, query, run_of(), oracle=oracle)
    points = nearest.points[: nearest.proven_count]
    return points, prove_over_intervals(oracle, gaps, query, points, permitted=permitted_of(case), run=run_of())


def assert_true(made: Made, points: Points, proof: IntervalProof) -> None:
    """Every claim, by looking at the whole grid."""
    case, _ = made
    changed, distance = list_desired(made)
    sizes, left = changed.sum(axis=1), np.ones(len(changed), dtype=np.bool_)
    for point in points[: proof.count]:
        moved = np.flatnonzero(point != case.instance)
        every = zip(case.space.features, case.instance, point, strict=True)
        far = sum(float(tabulate_distances(feature, int(own))[new]) for feature, own, new in every)
        assert not (left & (sizes < len(moved))).any()
        assert not (left & (sizes == len(moved)) & (distance < far - proof.resolution - 1e-9)).any()
        left &= ~changed[:, moved].all(axis=1)


@settings(deadline=None, max_examples=300)
@given(interval_models(), st.integers(1, 4), st.sampled_from([0, 3, 20, 5000]))
def test_nothing_is_nearer_by_more_than_the_resolution(made: Made, k: int, questions: int) -> None:
    case, _ = made
    assume(not case.model.desired(case.instance[None, :])[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_proof, "MAX_RESOLUTION", 1.0)  # tiny domains have long gaps
        patch.setattr(nearest_proof, "ROUNDS", (1.0, 0.3, 0.0))
        patch.setattr(nearest_proof, "MAX_QUESTIONS", questions)
        points, proof = prove(made, k)
    assert_true(made, points, proof)


def build_sum(weights: tuple[float, ...], least: float, steps: int, category: bool = False) -> Made:
    """A network that desires a weighted sum of numbers from 0 to 1 above a limit; the row has 0 everywhere."""
    values = tuple((np.arange(steps + 1) / steps).tolist())
    features = [Feature(f"f{j}", values, ordered=True, interval=True) for j in range(len(weights))]
    columns = [np.array(values)] * len(weights)
    if category:
        features[-1], columns[-1] = Feature("home", ("rent", "own", "other"), ordered=False), np.array([0.0, 1.0, 0.5])
    network = Network(
        (
            Layer(np.array(weights)[:, None], np.array([-least]), Activation("tanh")),
            Layer(np.ones((1, 1)), np.zeros(1)),
        ),
        ((OutputMargin(np.ones(1), 0.0),),),
    )
    space = Space(tuple(features))
    read = TabulatedModel(network, TabulatedColumns(np.arange(len(weights), dtype=np.intp), tuple(columns)))
    instance = np.zeros(len(weights), dtype=np.int32)
    grid = np.stack(np.meshgrid(*columns, indexing="ij"))
    table = np.tensordot(np.array(weights), grid, axes=1) > least
    return case_of(space, table, instance, instance[None, :]), read


def find_least(weights: tuple[float, ...], least: float, category: bool) -> tuple[int, float]:
    """The fewest changes with which such a sum reaches the limit, and the least distance: largest weights first."""
    found = []
    for value in (0.0, 1.0, 0.5) if category else (0.0,):
        numbers, left = weights[:-1] if category else weights, least - weights[-1] * value
        changes, distance = (1, 1.0) if value else (0, 0.0)
        for weight in sorted(numbers, reverse=True):
            if left > 1e-9:
                share = min(1.0, left / weight)
                changes, distance, left = changes + 1, distance + share, left - weight * share
        if left <= 1e-9:
            found.append((changes, distance))
    return min(found)


SUMS = (((1.0, 0.8), 0.505, 1), ((1.0, 0.8), 1.205, 2), ((1.0, 0.8, 0.7), 1.906, 3))


def assert_sum_is_proven(weights: tuple[float, ...], least: float, steps: int, category: bool) -> int:
    """What is found is nearest among the values, and what is claimed of all numbers is true; the number of changes."""
    case, read = build_sum(weights, least, steps, category)
    points, proof = prove((case, read), 1)
    every = zip(case.space.features, points[0], strict=True)
    distance = sum(float(tabulate_distances(feature, 0)[new]) for feature, new in every)
    changes, nearest = find_least(weights, least, category)
    assert int((points[0] != 0).sum()) == changes
    assert distance < nearest + 1 / steps  # no value is nearer
    assert proof.count == 1
    assert proof.resolution <= (changes + 1) / steps
    assert distance - proof.resolution <= nearest + 1e-9
    return changes


@pytest.mark.parametrize("category", [False, True])
@pytest.mark.parametrize(("weights", "least", "size"), SUMS)
def test_sums_are_proven_to_within_a_gap(weights: Any, least: float, size: int, category: bool) -> None:
    assert assert_sum_is_proven(weights, least, 100, category) == size


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=3), st.integers(1, 99), st.booleans())
def test_random_sums_are_proven_to_within_a_gap(tenths: list[int], percent: int, category: bool) -> None:
    weights = tuple(tenth / 10 for tenth in tenths)
    assert_sum_is_proven(weights, percent / 100 * sum(weights) + 0.00037, 100, category)


def test_what_lies_in_a_gap_alone_is_not_overlooked() -> None:
    """At the values two features must change; between two values one is enough."""
    values = tuple(np.arange(11.0).tolist())
    features = tuple(Feature(name, values, ordered=True, interval=True) for name in ("a", "b"))
    # a tent around a = 4.5, and a step where b is 8 and a is 6 or more
    first = Layer(
        np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]), -np.array([4.2, 4.5, 4.8, 15.5]), Activation("relu")
    )
    last = Layer(np.array([[1.0], [-2.0], [1.0], [1.0]]) / 0.3, np.array([-0.5]))
    network = Network((first, last), ((OutputMargin(np.ones(1), 0.0),),))
    columns = TabulatedColumns(np.arange(2, dtype=np.intp), (np.array(values), np.array(values)))
    grid = np.stack(np.meshgrid(values, values, indexing="ij"), axis=-1).reshape(-1, 2)
    table = (network.outputs(grid)[:, 0] > 0).reshape(11, 11)
    instance = np.zeros(2, dtype=np.int32)
    made = case_of(Space(features), table, instance, instance[None, :]), TabulatedModel(network, columns)
    points, proof = prove(made, 1)
    assert (points[0] != 0).sum() == 2
    assert proof.count == 0


def test_an_oracle_that_proves_nothing_leaves_everything_open() -> None:
    case, read = build_sum((1.0, 0.8), 1.205, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkOracle, "find", lambda *_: NOT_SEARCHED)
        assert prove((case, read), 1)[1].count == 0


def test_only_sets_with_all_features_of_an_earlier_change_are_left_out() -> None:
    made = case, read = build_sum((1.0, 0.9, 0.8), 1.3, 10)
    gaps, query = find_gaps(case.space, [read]), BoxQuery(case, case.components.box(0))
    prover = NearestProver.build(oracle_of(made), gaps, query, permitted_of(case), run_of())
    assert list(prover.list_sets(2, [])) == [(0, 1), (0, 2), (1, 2)]
    assert list(prover.list_sets(2, [frozenset({0, 1})])) == [(0, 2), (1, 2)]
    assert list(prover.list_sets(2, [frozenset({0})])) == [(1, 2)]
    made = case, read = build_sum((1.0, 0.9, 0.8), 1.3, 10, category=True)
    gaps, query = find_gaps(case.space, [read]), BoxQuery(case, case.components.box(0))
    fixed = [np.empty(0, dtype=np.int64), *permitted_of(case)[1:]]
    prover = NearestProver.build(oracle_of(made), gaps, query, fixed, run_of())
    assert list(prover.list_sets(1, [])) == [(1,)]  # what may not change, and what has no gaps, is left out
    assert list(prover.list_sets(2, [])) == [(1, 2)]

"""Tiny random networks, and cases whose model is one: where rounding could decide, it may decide either way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ironrule.backends.network.compile import CompiledNetwork, compile_network
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import (
    Activation,
    Layer,
    Network,
    OutputMargin,
    bound_arithmetic_errors,
    find_largest_sizes,
)
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case
from ironrule.rule.box import Box
from ironrule.space.feature import Feature, find_open_gaps
from ironrule.space.space import Space
from random_tree_sums import constrained_space
from tiny_cases import case_of, constraints, every_point

KINDS = ("identity", "relu", "leaky", "tanh", "logistic")
Rng = np.random.Generator


def columns_of(sizes: tuple[int, ...], rng: Rng) -> TabulatedColumns:
    """What the network sees: a number per value, several columns per value, or nothing of a feature at all."""
    features: list[int] = []
    values: list[npt.NDArray[Any]] = []
    for j, size in enumerate(sizes):
        kind = rng.integers(0, 4)
        tables = {
            0: [np.arange(size, dtype=float)],
            1: [rng.normal(size=size)],
            2: [(np.arange(size) == c).astype(float) for c in range(size)],
            3: [np.round(rng.normal(size=size)) for _ in range(rng.integers(0, 3))],
        }[int(kind)]
        features += [j] * len(tables)
        values += tables
    if not values:
        features, values = [0], [np.arange(sizes[0], dtype=float)]
    return TabulatedColumns(np.array(features, dtype=np.intp), tuple(values))


def network_of(inputs: int, kinds: list[str], classes: int, rng: Rng, scale: float) -> Network:
    """A network of few units: weights that are whole numbers now and then, so that sums tie."""
    widths = [inputs, *(int(rng.integers(1, 5)) for _ in kinds), 1 if classes == 2 else classes]
    layers = []
    for k, (above, below) in enumerate(pairwise(widths)):
        weights, bias = scale * rng.normal(size=(above, below)), rng.normal(size=below)
        if rng.random() < 0.4:
            weights, bias = np.round(weights), np.round(bias)
        activation = Activation(kinds[k], 0.25) if k < len(kinds) else Activation()  # type: ignore[arg-type]
        layers.append(Layer(weights, bias, activation))
    if classes == 2:
        return Network(tuple(layers), ((OutputMargin(np.array([1.0]), float(np.round(rng.normal()))),),))
    desired = range(int(rng.integers(1, classes)))
    unit = np.eye(classes)
    alternatives = tuple(
        tuple(OutputMargin(unit[d] - unit[u], 0.0) for u in range(classes) if u not in desired) for d in desired
    )
    return Network(tuple(layers), alternatives)


@st.composite
def network_models(draw: st.DrawFn) -> tuple[Case, TabulatedModel]:
    """A case whose model is a network: within its slack it may decide either way."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    kinds = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    features = tuple(Feature(f"f{j}", tuple(range(size)), ordered=kinds[j]) for j, size in enumerate(sizes))
    space = constrained_space(features, draw(st.lists(constraints(features, of_instance=False), max_size=2)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    columns = columns_of(sizes, rng)
    activations = draw(st.lists(st.sampled_from(KINDS), max_size=3))
    classes, scale = draw(st.integers(2, 4)), draw(st.sampled_from([0.3, 1.0, 4.0]))
    network = network_of(len(columns.values), activations, classes, rng, scale)
    points = every_point(space)
    possible, sure = decided(network, columns, points)
    _, alike = np.unique(columns.look_up(points), axis=0, return_inverse=True)
    whims = (rng.random(len(points)) < 0.5)[alike.ravel()]
    table = (sure | (possible & whims)).reshape(tuple(space.sizes))
    occurring = points[space.feasible.admits(points)]
    undesired = points[~table.ravel() & space.feasible.admits(points)]
    if len(undesired) == 0:
        never = network.alternatives[0][0]
        network = Network(network.layers, ((OutputMargin(np.zeros_like(never.coefficients), -1.0),),))
        table[:] = False
        return case_of(space, table, occurring[0], occurring[:1]), TabulatedModel(network, columns)
    instance = undesired[int(rng.integers(0, len(undesired)))]
    return case_of(space, table, instance, occurring[:: max(1, len(occurring) // 7)]), TabulatedModel(network, columns)


def decided(network: Network, columns: TabulatedColumns, points: npt.NDArray[Any]) -> tuple[Any, Any]:
    """Which points may be desired and which surely are, by the plain meaning of a network."""
    errors = bound_arithmetic_errors(network, find_largest_sizes(columns.values))
    outputs = network.outputs(columns.look_up(points))
    possible, sure = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
    for margins, slack in zip(network.alternatives, errors, strict=True):
        values = np.array([outputs @ one.coefficients + one.offset for one in margins])
        limits = np.array(slack)[:, None]
        possible |= (values > -limits).all(axis=0)
        sure |= (values > limits).all(axis=0)
    return possible, sure


@st.composite
def network_cases(draw: st.DrawFn) -> tuple[Case, NetworkOracle]:
    """The same with the exact oracle."""
    case, read = draw(network_models())
    assert isinstance(read.normal_form, Network)
    return case, NetworkOracle(compile_network(read.normal_form, read.columns, case.space))


def ridge_of(columns: TabulatedColumns, rng: Rng) -> Network:
    """A network that desires a strip: where a sum of columns is near to what it is somewhere between the values."""
    weights = np.round(rng.normal(size=len(columns.values)), 1)
    at = float(sum(w * rng.uniform(np.min(v), np.max(v)) for w, v in zip(weights, columns.values, strict=True)))
    width = float(rng.choice([0.05, 0.3, 1.0]))
    first = Layer(np.repeat(weights[:, None], 3, axis=1), -np.array([at - width, at, at + width]), Activation("relu"))
    last = Layer(np.array([[1.0], [-2.0], [1.0]]) / width, np.array([-0.5]))
    return Network((first, last), ((OutputMargin(np.ones(1), 0.0),),))


@st.composite
def interval_models(draw: st.DrawFn) -> tuple[Case, TabulatedModel]:
    """The same over whole intervals: numbers that are seen in or against their order, some with missing values."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    missing = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    features, places, values = list[Feature](), list[int](), list[npt.NDArray[Any]]()
    for j, (size, more) in enumerate(zip(sizes, missing, strict=True)):
        whole = rng.random() < 0.3
        domain = np.sort(rng.choice(12, size, replace=False))
        features.append(
            Feature(
                f"f{j}",
                tuple(domain.tolist() if whole else (domain / 2).tolist()),
                ordered=True,
                missing=more,
                interval=True if rng.random() < 0.8 else None,
            )
        )
        seen = np.round(rng.choice([-1.0, 1.0]) * domain * rng.choice([0.3, 1.0]) - 2.0, int(rng.integers(0, 3)))
        column = np.concatenate([seen, rng.choice([seen[0], seen[0] + 1.5, 0.0], 1)]) if more else seen
        places, values = [*places, j], [*values, column]
        if more and rng.random() < 0.5:  # whether it is missing, beside what stands for it
            places, values = [*places, j], [*values, (np.arange(size + 1) == size).astype(float)]
    space, columns = Space(tuple(features)), TabulatedColumns(np.array(places, dtype=np.intp), tuple(values))
    kinds, classes = draw(st.lists(st.sampled_from(KINDS), max_size=2)), draw(st.integers(2, 3))
    network = network_of(len(values), kinds, classes, rng, draw(st.sampled_from([0.3, 1.0, 4.0])))
    if draw(st.booleans()):
        network = ridge_of(columns, rng)
    points = every_point(space)
    _, sure = decided(network, columns, points)
    instance = points[int(rng.integers(0, len(points)))]
    return case_of(space, sure.reshape(tuple(space.sizes)), instance, points[:: max(1, len(points) // 7)]), (
        TabulatedModel(network, columns)
    )


@st.composite
def interval_cases(draw: st.DrawFn) -> tuple[Case, NetworkOracle]:
    """The same with the exact oracle."""
    case, read = draw(interval_models())
    assert isinstance(read.normal_form, Network)
    return case, NetworkOracle(compile_network(read.normal_form, read.columns, case.space))


def draw_seen_numbers(case: Case, read: TabulatedModel, box: Box, rng: Rng, count: int) -> npt.NDArray[np.float64]:
    """What a network sees of random numbers of a box, between the values of intervals too."""
    rows = np.empty((count, len(read.columns.values)))
    for j, feature in enumerate(case.space.features):
        codes = rng.integers(box.low[j], box.high[j], size=count, endpoint=True)
        ends, gaps = np.minimum(codes + 1, box.high[j]), find_open_gaps(feature)
        inside = np.array([code < len(gaps) and gaps[code] for code in codes.tolist()]) & (ends > codes)
        way = np.where(inside, rng.choice([0.0, 0.5, 1.0, 2.0], count) * rng.random(count), 0.0).clip(0.0, 1.0)
        for place in np.flatnonzero(read.columns.features == j).tolist():
            table = np.asarray(read.columns.values[place], dtype=np.float64)
            rows[:, place] = table[codes] + way * (table[ends] - table[codes])
    return rows


def are_desired_numbers(read: TabulatedModel, seen: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which of the rows that it sees a network surely desires."""
    assert isinstance(read.normal_form, Network)
    errors = bound_arithmetic_errors(read.normal_form, find_largest_sizes(read.columns.values))
    outputs, sure = read.normal_form.outputs(seen), np.zeros(len(seen), dtype=np.bool_)
    for margins, slack in zip(read.normal_form.alternatives, errors, strict=True):
        values = np.array([outputs @ one.coefficients + one.offset for one in margins])
        sure |= (values > np.array(slack)[:, None]).all(axis=0)
    return sure


def has_desired_numbers(read: TabulatedModel, seen: npt.NDArray[np.float64]) -> bool:
    """Whether a network surely desires one of the rows that it sees."""
    return bool(are_desired_numbers(read, seen).any())


def nets_out_of_reach() -> list[CompiledNetwork]:
    """Nets of one feature with two values, one of them desired, whose linear functions no double can hold."""
    space = Space((Feature("a", (0, 1), ordered=True),))
    large, small = OutputMargin(np.ones(1), 1e101), OutputMargin(np.full(1, 1e-200), -1e-110)
    made = []
    for weights, values, margin in (
        ((1e200, -1e200), [1e-300, 2e-300], large),
        ((1e200, -1e200, 1.0), [1e-300, 2e-300], large),
        ((1e300, 1e-200), [0.0, 1.0], small),
    ):
        layers = [Layer(np.full((1, 1), weight), np.zeros(1)) for weight in weights]
        columns = TabulatedColumns(np.zeros(1, np.intp), (np.array(values),))
        made += compile_network(Network(tuple(layers), ((margin,),)), columns, space)
    return made

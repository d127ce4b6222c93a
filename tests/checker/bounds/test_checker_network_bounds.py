"""Bounds of networks: against every point of small spaces, for ordinary and for hostile numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.checker.bounds.bound_propagation import STEP_SIZES, improve_relaxation, relax_activation
from ironrule.checker.bounds.network_bounds import NetworkBounds, prepare_network_bounds
from ironrule.checker.bounds.pieces import Pieces
from ironrule.checker.readers.network_form import (
    DOUBLE_ROUNDOFF,
    SINGLE_ROUNDOFF,
    ActivationFunction,
    NetworkForm,
    NetworkLayer,
    NetworkMargin,
    bound_arithmetic_errors,
    find_largest_sizes,
)
from ironrule.checker.readers.normal_form import NoReading

KINDS = ("identity", "relu", "leaky", "tanh", "logistic")
PRECISE = np.longdouble
Rng = np.random.Generator


@dataclass(frozen=True)
class Column:
    """A column of one feature."""

    feature: int
    values: Any


@dataclass(frozen=True)
class Setting:
    """A small space, what a network sees of it, and the network."""

    sizes: tuple[int, ...]
    columns: list[Column]
    reading: NetworkForm

    @property
    def points(self) -> Any:
        return np.array(list(product(*map(range, self.sizes))), dtype=np.int32)

    def rows(self, points: Any) -> Any:
        return np.stack([column.values[points[:, column.feature]] for column in self.columns], axis=1)

    def bounds(self) -> NetworkBounds:
        return prepare_network_bounds(self.reading, self.columns, self.sizes)

    def precise_margins(self, alternative: int, points: Any) -> Any:
        """The margins of one alternative, a column each, in more than double precision."""
        values = self.rows(points).astype(PRECISE)
        for layer in self.reading.layers:
            sums = values @ layer.weights.astype(PRECISE) + layer.bias.astype(PRECISE)
            values = layer.activation.apply(sums)
        margins = self.reading.alternatives[alternative]
        return np.stack([values @ one.coefficients.astype(PRECISE) + PRECISE(one.offset) for one in margins], axis=1)


def make_columns(sizes: tuple[int, ...], rng: Rng) -> list[Column]:
    """A number per code, several columns per code, or nothing of a feature at all."""
    columns = list[Column]()
    for j, size in enumerate(sizes):
        tables = (
            [np.arange(size, dtype=float)],
            [rng.normal(size=size)],
            [(np.arange(size) == c).astype(float) for c in range(size)],
            [np.round(rng.normal(size=size)) for _ in range(rng.integers(0, 3))],
        )[rng.integers(0, 4)]
        columns += [Column(j, values) for values in tables]
    return columns or [Column(0, np.arange(sizes[0], dtype=float))]


def make_weights(rng: Rng, above: int, below: int, hostile: bool) -> Any:
    """Weights of one layer; hostile ones are huge or tiny, the same twice, or zero."""
    weights = rng.normal(size=(above, below))
    match int(rng.integers(0, 6)) if hostile else int(rng.integers(3, 6)):
        case 0:
            return weights * 10.0 ** rng.integers(-9, 10, size=(above, below))
        case 1:
            return weights * 10.0 ** rng.integers(-9, 10)
        case 2 if below > 1:
            weights[:, 1] = weights[:, 0] * rng.choice([-1.0, 1.0])
        case 3:
            return np.round(weights)
        case 4 if hostile:
            return weights * (rng.random(below) < 0.5)
    return weights


def make_layers(inputs: int, kinds: list[str], outputs: int, rng: Rng, hostile: bool) -> tuple[NetworkLayer, ...]:
    widths, layers = [inputs, *(int(rng.integers(1, 5)) for _ in kinds), outputs], list[NetworkLayer]()
    for place, (above, below) in enumerate(pairwise(widths)):
        weights, bias = make_weights(rng, above, below, hostile), rng.normal(size=below)
        if hostile:
            bias *= rng.choice([0.0, 1.0, 1.0, 40.0, 1e6], size=below)  # dead and saturated units
            if place and above > 1 and rng.random() < 0.3:
                weights[1] = -weights[0]  # what comes in cancels out
        activation = ActivationFunction(kinds[place], 0.25) if place < len(kinds) else ActivationFunction()  # type: ignore[arg-type]
        layers.append(NetworkLayer(weights, bias, activation))
    return tuple(layers)


@st.composite
def network_settings(draw: st.DrawFn, hostile: bool = False) -> Setting:
    """A network over a small space; a hostile one has its threshold next to one of its highest points."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    columns, kinds = make_columns(sizes, rng), draw(st.lists(st.sampled_from(KINDS), max_size=3))
    outputs = 1 if hostile else draw(st.integers(1, 4))
    layers = make_layers(len(columns), kinds, outputs, rng, hostile)
    unit = draw(st.sampled_from([DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF])) if hostile else DOUBLE_ROUNDOFF
    one = np.eye(outputs)
    if outputs == 1:
        alternatives: Any = ((NetworkMargin(np.ones(1), float(np.round(rng.normal()))),),)
    else:
        good = range(int(rng.integers(1, outputs)))
        others = [place for place in range(outputs) if place not in good]
        alternatives = tuple(tuple(NetworkMargin(one[d] - one[u], 0.0) for u in others) for d in good)
    made = Setting(sizes, columns, NetworkForm(layers, alternatives, unit))
    return move_to_edge(made, rng) if hostile else made


def move_to_edge(made: Setting, rng: Rng) -> Setting:
    values = np.sort(made.reading.compute_outputs(made.rows(made.points))[:, 0])
    value = float(values[-1 - int(rng.integers(0, min(3, len(values))))])
    ((slack,),) = bound_arithmetic_errors(made.reading, find_largest_sizes([column.values for column in made.columns]))
    beside = [np.nextafter(value, -np.inf), np.nextafter(value, np.inf), value, value + slack, value - slack]
    limit = float(rng.choice([*beside, value + 1.01 * slack, value - 1.01 * slack]))
    return replace(made, reading=replace(made.reading, alternatives=((NetworkMargin(np.ones(1), -limit),),)))


def random_pieces(sizes: tuple[int, ...], rng: Rng, count: int = 12) -> Pieces:
    """Pieces that are any sets of codes, neighbours or not."""
    sets = []
    for size in sizes:
        masks = rng.random((4, size)) < rng.random()
        masks[np.arange(4), rng.integers(0, size, size=4)] = True
        sets.append(masks)
    return Pieces(tuple(sets), rng.integers(0, 4, size=(count, len(sets)), dtype=np.int32))


def points_in(pieces: Pieces, piece: int) -> Any:
    return np.array(list(product(*(codes.tolist() for codes in pieces.codes(piece)))), dtype=np.int32)


def stretch(reading: NetworkForm, factor: float) -> NetworkForm:
    """All weights and biases times a factor: saturated functions, or sums that hardly differ."""
    layers = tuple(replace(one, weights=factor * one.weights, bias=factor * one.bias) for one in reading.layers)
    return replace(reading, layers=layers)


def assert_sound(made: Setting, rng: Rng) -> None:
    """No point of a piece has a margin above the piece's bound, and no closed piece a point that may be desired."""
    bounds, pieces = made.bounds(), random_pieces(made.sizes, rng)
    for alternative, limits in enumerate(bounds.alternatives):
        highest, closed = bounds.bound(pieces, limits), bounds.flag_closed(pieces, alternative)
        for piece in range(len(pieces)):
            margins = made.precise_margins(alternative, points_in(pieces, piece))
            assert (margins.max(axis=0) <= highest[piece]).all()
            # what the model may compute is no further from the true margin than the slack
            assert not (closed[piece] and (margins > -limits.slack).all(axis=1).any())


@settings(deadline=None, max_examples=100)
@given(network_settings(), st.sampled_from([1e-12, 1e-3, 1.0, 1.0, 30.0, 1e6, 1e40]), st.integers(0, 1 << 32))
def test_no_point_of_a_piece_has_a_margin_above_the_bound(made: Setting, factor: float, seed: int) -> None:
    assert_sound(replace(made, reading=stretch(made.reading, factor)), np.random.default_rng(seed))


@settings(deadline=None, max_examples=120)
@given(network_settings(hostile=True), st.integers(0, 1 << 32))
def test_nothing_is_closed_wrongly_for_hostile_networks(made: Setting, seed: int) -> None:
    assert_sound(made, np.random.default_rng(seed))


@settings(deadline=None, max_examples=120)
@given(network_settings(hostile=True))
def test_arithmetic_is_no_further_off_than_is_said(made: Setting) -> None:
    points, bounds = made.points, made.bounds()
    precise = made.precise_margins(0, points)[:, 0]
    slack = bounds.alternatives[0].slack[0]
    (margin,) = made.reading.alternatives[0]
    own = made.reading.compute_outputs(made.rows(points))[:, 0] + margin.offset
    assert (np.abs(own - precise) <= slack).all()
    possible, sure = bounds.decide(points)
    assert possible[precise > 0].all()
    assert not (sure & (precise <= 0)).any()
    if made.reading.roundoff == SINGLE_ROUNDOFF:  # such a model computes with weights that were cast beforehand
        layers = tuple(
            replace(one, weights=one.weights.astype(np.float32), bias=one.bias.astype(np.float32))
            for one in made.reading.layers
        )
        doubles = tuple(replace(one, weights=one.weights.astype(float), bias=one.bias.astype(float)) for one in layers)
        cast = replace(made, reading=replace(made.reading, layers=doubles))
        values = made.rows(points).astype(np.float32)
        for layer in layers:
            values = layer.activation.apply(values @ layer.weights + layer.bias)
        assert values.dtype == np.float32
        computed, true = values[:, 0].astype(float) + margin.offset, cast.precise_margins(0, points)[:, 0]
        assert (np.abs(computed - true) <= cast.bounds().alternatives[0].slack[0]).all()


@settings(deadline=None, max_examples=60)
@given(network_settings())
def test_a_point_by_itself_is_bounded_by_its_own_margin(made: Setting) -> None:
    points, bounds = made.points, made.bounds()
    alone = Pieces(tuple(np.eye(size, dtype=np.bool_) for size in made.sizes), points)
    for alternative, limits in enumerate(bounds.alternatives):
        margins, highest = made.precise_margins(alternative, points), bounds.bound(alone, limits)
        sizes = np.abs(limits.offsets) + sum(size.sum() + 1.0 for size in bounds.network.sizes) ** 2
        assert (highest - margins <= 1e-9 * sizes).all()
        closed = bounds.flag_closed(alone, alternative)
        assert not (closed & (margins > -limits.slack).all(axis=1)).any()
        assert closed[(margins < -limits.slack - 1e-9 * sizes).any(axis=1)].all()


ENDS = st.one_of(
    st.floats(-6, 6), st.floats(-1e-3, 1e-3), st.floats(-800, 800), st.floats(-1e12, 1e12),
    st.sampled_from([-0.0, 0.0, 1e-300, -1e-6, 1e-6]),
)  # fmt: skip
SLOPES = st.sampled_from([0.0, 0.01, 0.5, 1.0])
SHARES = np.linspace(0.0, 1.0, 33, dtype=PRECISE)[:, None]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(KINDS), SLOPES, st.lists(st.tuples(ENDS, ENDS), min_size=1))
def test_lines_leave_their_activation_by_no_more_than_is_said(kind: Any, slope: float, ends: Any) -> None:
    low, high = np.sort(np.array(ends), axis=1).T
    activation = ActivationFunction(kind, slope)
    lines = relax_activation(activation, low, high)
    off = 540 * DOUBLE_ROUNDOFF * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    at = np.clip(low + SHARES * (high - low), low, high)
    value = activation.apply(at)
    assert (lines.lower_slope * at + lines.lower_intercept <= value + off).all()
    assert (lines.upper_slope * at + lines.upper_intercept >= value - off).all()


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(KINDS), SLOPES, ENDS, ENDS, st.lists(st.tuples(ENDS, ENDS)))
def test_improved_lines_stay_on_their_side(kind: Any, slope: float, one: float, other: float, to: Any) -> None:
    activation, ends = ActivationFunction(kind, slope), (np.array([min(one, other)]), np.array([max(one, other)]))
    lines = relax_activation(activation, *ends)
    off = 564 * DOUBLE_ROUNDOFF * (1.0 + max(abs(one), abs(other)))
    at = np.clip(ends[0] + SHARES * (ends[1] - ends[0]), *ends)
    value = activation.apply(at)
    for (factor, target), step in zip(to, STEP_SIZES, strict=False):
        lines = improve_relaxation(activation, lines, np.array([factor]), np.array([target]), ends, step)
        assert (lines.lower_slope * at + lines.lower_intercept <= value + off).all()
        assert (lines.upper_slope * at + lines.upper_intercept >= value - off).all()


@pytest.mark.parametrize("kind", ["tanh", "logistic"])
@pytest.mark.parametrize(("low", "high"), [(-3, 1), (-1, 3), (-0.5, 0.5), (0.5, 3), (-3, -0.5), (-40, 40), (-4, 0.1)])
def test_lines_of_curved_functions_touch_them(kind: Any, low: float, high: float) -> None:
    activation, at = ActivationFunction(kind), np.linspace(low, high, 20_001)
    lines = relax_activation(activation, np.array([low], np.float64), np.array([high], np.float64))
    assert (lines.upper_slope * at + lines.upper_intercept - activation.apply(at)).min() < 1e-3
    assert (activation.apply(at) - lines.lower_slope * at - lines.lower_intercept).min() < 1e-3


def bounds_of_one(
    layers: tuple[NetworkLayer, ...], values: Any, offset: float = 0.0, error: float = 0.0, factor: float = 1.0
) -> NetworkBounds:
    """The bounds of a network that sees one column of one feature."""
    reading = NetworkForm(layers, ((NetworkMargin(np.full(1, factor), offset, error),),))
    return prepare_network_bounds(reading, [Column(0, np.array(values, dtype=np.float64))], [len(values)])


def closes(bounds: NetworkBounds) -> bool:
    """Whether the whole of its space is closed."""
    (codes,) = bounds.cells
    return bool(bounds.flag_closed(Pieces((np.ones((1, len(codes)), np.bool_),), np.zeros((1, 1), np.int32)), 0)[0])


def tent(offset: float) -> tuple[tuple[NetworkLayer, ...], Any, float]:
    """Up to 1 at 1 and down again, of -3 to 3: much less than the bound of the whole says."""
    bent = NetworkLayer(np.ones((1, 2)), np.array([0.0, -1.0]), ActivationFunction("relu"))
    return (bent, NetworkLayer(np.array([[1.0], [-2.0]]), np.zeros(1))), np.arange(-3.0, 4.0), offset


@pytest.mark.parametrize(("offset", "closed"), [(-4.0, True), (-1.5, True), (-0.5, False), (-1.0, False)])
def test_a_piece_that_is_not_closed_is_closed_part_by_part(
    offset: float, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = bounds_of_one(*tent(offset))
    assert closes(bounds) is closed
    monkeypatch.setattr("ironrule.checker.bounds.network_bounds.MAX_HALVINGS", 0)
    assert closes(bounds) is (offset == -4.0)


def test_no_more_parts_are_made_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.checker.bounds.network_bounds.MAX_SUBPIECES", 1)
    assert not closes(bounds_of_one(*tent(-1.5)))
    assert closes(bounds_of_one(*tent(-4.0)))


def test_pieces_that_hold_nothing_that_can_occur_are_closed() -> None:
    bounds = bounds_of_one(*tent(0.0))
    pieces = Pieces((np.array([[True] * 7, [False] * 4 + [True] * 3]),), np.array([[0], [1]], np.int32))
    assert bounds.flag_closed(pieces, 0).tolist() == [False, False]

    def holds_any(some: Pieces) -> Any:
        """Only the last codes cannot occur."""
        return np.array([bool((codes < 4).any()) for (codes,) in map(some.codes, range(len(some)))], dtype=np.bool_)

    assert bounds.flag_closed(pieces, 0, holds_any).tolist() == [False, True]


def identity(weight: float, bias: float) -> tuple[NetworkLayer, ...]:
    return (NetworkLayer(np.full((1, 1), weight), np.full(1, bias)),)


@pytest.mark.parametrize(
    ("layers", "offset", "error", "closed"),
    [
        (identity(1.0, 0.0), -1.001, 0.0, True),
        (identity(1.0, 0.0), -1.0, 0.0, False),  # where rounding could decide the model must say
        (identity(1.0, 0.0), -1.0 - 1e-12, 0.0, True),
        (identity(1.0, 0.0), -1.5, 0.25, True),
        (identity(1.0, 0.0), -1.5, 0.75, False),
        (identity(0.0, 0.0), -1e-9, 0.0, True),
        (identity(1e200, 0.0), -1e199, 0.0, False),
        (identity(1e200, -2e200), 0.0, 0.0, True),
        (identity(1e-320, 0.0), -1e-310, 0.0, False),  # too small to tell
    ],
)
def test_a_margin_is_surely_not_positive_only_where_rounding_cannot_turn_it(
    layers: Any, offset: float, error: float, closed: bool
) -> None:
    assert closes(bounds_of_one(layers, [0.0, 1.0], offset, error)) is closed


def test_a_model_in_single_precision_is_given_its_own_room() -> None:
    (limits,) = bounds_of_one(identity(1.0, 0.0), [0.0, 1.0], -1.0).alternatives
    single = NetworkForm(identity(1.0, 0.0), ((NetworkMargin(np.ones(1), -1.0),),), SINGLE_ROUNDOFF)
    (rough,) = prepare_network_bounds(single, [Column(0, np.array([0.0, 1.0]))], [2]).alternatives
    assert rough.slack[0] > 1e6 * limits.slack[0]


def test_what_a_network_cannot_hold_is_not_read() -> None:
    with pytest.raises(NoReading, match="large"):
        bounds_of_one((*identity(1e200, 0.0), *identity(1e200, 0.0)), [0.0, 1.0])
    with pytest.raises(NoReading, match="large"):  # neighbouring factors may be multiplied beforehand
        bounds_of_one((*identity(1e200, 0.0), *identity(1e200, 0.0)), [0.0, 1e-300])
    with pytest.raises(NoReading, match="missing"):
        bounds_of_one(identity(1.0, 0.0), [0.0, np.nan])
    single = NetworkForm(identity(1e30, 0.0), ((NetworkMargin(np.ones(1), 0.0),),), SINGLE_ROUNDOFF)
    with pytest.raises(NoReading, match="large"):
        prepare_network_bounds(single, [Column(0, np.array([0.0, 1e9]))], [2])
    with pytest.raises(NoReading, match="takes 1 columns, but 2"):
        prepare_network_bounds(single, [Column(0, np.zeros(2))] * 2, [2])
    with pytest.raises(NoReading, match="numbers only"):
        prepare_network_bounds(single, [Column(0, np.array(["a", "b"], dtype=object))], [2])


def test_numbers_that_overflow_on_the_way_back_close_nothing() -> None:
    margin = NetworkMargin(np.full(1, 1e200), -1e300)
    layers = (*identity(1e-300, 0.0), *identity(1e150, 0.0))
    reading = NetworkForm(layers, ((margin,),))
    assert not closes(prepare_network_bounds(reading, [Column(0, np.array([0.0, 1.0]))], [2]))
    assert closes(bounds_of_one(layers, [-1.0, 1.0], -1e300))


def test_products_too_small_for_a_double_are_not_forgotten() -> None:
    layers = (*identity(1e290, 0.0), *identity(1e-200, 0.0))
    assert not closes(bounds_of_one(layers, [0.0, 1.0], -1e-120, factor=1e-200))
    assert closes(bounds_of_one(layers, [0.0, 1.0], -1.0, factor=1e-200))


@pytest.mark.parametrize("cells", [1, 64, 1 << 20])
def test_it_does_not_matter_how_many_pieces_are_bounded_together(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    columns = [Column(feature, values) for feature, values in zip((0, 1, 2, 2), rng.normal(size=(4, 6)), strict=True)]
    layers = (
        NetworkLayer(rng.normal(size=(4, 5)), rng.normal(size=5), ActivationFunction("relu")),
        NetworkLayer(rng.normal(size=(5, 3)), rng.normal(size=3), ActivationFunction("tanh")),
        NetworkLayer(rng.normal(size=(3, 1)), rng.normal(size=1)),
    )
    bounds = prepare_network_bounds(NetworkForm(layers, ((NetworkMargin(np.ones(1), 0.0),),)), columns, (6, 6, 6))
    pieces = random_pieces((6, 6, 6), rng, 100)
    whole = bounds.bound(pieces, bounds.alternatives[0])
    monkeypatch.setattr("ironrule.checker.bounds.network_bounds.MAX_BLOCK_ENTRIES", cells)
    monkeypatch.setattr("ironrule.checker.bounds.bound_propagation.MAX_SET_ENTRIES", cells)
    assert bounds.bound(pieces, bounds.alternatives[0]) == pytest.approx(whole, rel=1e-12)


def test_codes_that_no_column_tells_apart_are_in_one_class() -> None:
    layers = (NetworkLayer(np.ones((3, 1)), np.zeros(1)),)
    columns = [
        Column(0, np.array([1.0, 2.0, 1.0, 1.0])),
        Column(0, np.array([5, 5, 5, 6])),
        Column(2, np.array([1, 2], dtype=object)),
    ]
    bounds = prepare_network_bounds(NetworkForm(layers, ((NetworkMargin(np.ones(1), -7.0),),)), columns, (4, 2, 2))
    first, second, third = bounds.cells
    assert first[0] == first[2]
    assert len(set(first.tolist())) == 3
    assert second.tolist() == [0, 0]
    assert len(set(third.tolist())) == 2
    possible, sure = bounds.decide(np.zeros((0, 3), np.int32))
    assert len(possible) == len(sure) == 0

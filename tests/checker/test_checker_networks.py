"""Networks under the checker: bounds against every point, covers of the search, false ones, and whole explanations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from altered import accepted, corrupted, covers, has_exception
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tiny_settings import Setting, scope_of_reading

from ironrule import Budget, Checker, Explainer, check
from ironrule.model.net import compile_network
from ironrule.model.network import Activation, Layer, Network, Preference, arithmetic_errors, largest_of
from ironrule.model.readable import Read
from ironrule.model.reading import Unreadable
from ironrule.model.tabulate import Columns
from ironrule.oracles import Networks
from ironrule.oracles.net_engine import Cores, Engine
from ironrule.space import Feature, Space
from ironrule.verdict import Certificate, Cover, Proven
from ironrule.verdict.checker.certificates import check_certificate
from ironrule.verdict.checker.lines import lines_of
from ironrule.verdict.checker.networks import NetworkBounds, network_bounds_of
from ironrule.verdict.checker.pieces import Pieces, pieces_of
from ironrule.verdict.checker.sharpening import STEPS, moved_lines
from ironrule.verdict.digest import with_digest
from networks import KINDS, network_models
from tiny import case_of, every_point, meter_of, rules_of

UNIT = 2.0**-53
PRECISE = np.longdouble
Rng = np.random.Generator


@st.composite
def network_settings(draw: st.DrawFn) -> Setting:
    """A case whose model is a network, and the checker's scope of it."""
    case, read = draw(network_models())
    return Setting(case, read.reading, read.columns, scope_of_reading(case, read, case.instance[None, :]))


def precise_margins(network: Network, alternative: int, seen: Any) -> Any:
    """The margins of one alternative, a column each, in more than double precision."""
    values = seen.astype(PRECISE)
    for layer in network.layers:
        values = layer.activation.of(values @ layer.weights.astype(PRECISE) + layer.bias.astype(PRECISE))
    margins = network.alternatives[alternative]
    return np.stack([values @ one.coefficients.astype(PRECISE) + PRECISE(one.offset) for one in margins], axis=1)


def random_pieces(space: Space, rng: Rng, count: int = 12) -> Pieces:
    """Pieces that are any sets of codes, neighbours or not."""
    sets = []
    for size in space.sizes.tolist():
        masks = rng.random((4, size)) < rng.random()
        masks[np.arange(4), rng.integers(0, size, size=4)] = True
        sets.append(masks)
    return Pieces(tuple(sets), rng.integers(0, 4, size=(count, len(sets)), dtype=np.int32))


def points_in(pieces: Pieces, piece: int) -> Any:
    grid = np.meshgrid(*pieces.codes(piece), indexing="ij")
    return np.stack([codes.ravel() for codes in grid], axis=1).astype(np.int32)


def stretched(network: Network, factor: float) -> Network:
    """The network with all its weights and biases times a factor: saturated functions, or sums that hardly differ."""
    layers = tuple(replace(one, weights=factor * one.weights, bias=factor * one.bias) for one in network.layers)
    return replace(network, layers=layers)


@settings(deadline=None, max_examples=400)
@given(network_models(), st.sampled_from([1e-12, 1e-3, 1.0, 1.0, 30.0, 1e6, 1e40]), st.integers(0, 1 << 32))
def test_no_point_of_a_piece_has_a_margin_above_the_bound(made: Any, factor: float, seed: int) -> None:
    case, read = made
    network = stretched(read.reading, factor)
    bounds = network_bounds_of(network, read.columns, case.space)
    pieces = random_pieces(case.space, np.random.default_rng(seed))
    for alternative, limits in enumerate(bounds.alternatives):
        highest = bounds.highest(pieces, limits)
        for piece in range(len(pieces)):
            margins = precise_margins(network, alternative, read.columns.at(points_in(pieces, piece)))
            assert (margins.max(axis=0) <= highest[piece]).all()


@settings(deadline=None, max_examples=150)
@given(network_settings())
def test_a_point_by_itself_is_bounded_by_its_own_margin(made: Setting) -> None:
    points = every_point(made.case.space)
    sets = tuple(np.eye(size, dtype=np.bool_) for size in made.case.space.sizes)
    (part,) = made.scope.parts
    bounds = part.bounds
    assert isinstance(bounds, NetworkBounds)
    for alternative, limits in enumerate(bounds.alternatives):
        margins = precise_margins(made.reading, alternative, made.columns.at(points))
        highest = bounds.highest(Pieces(sets, points), limits)
        sizes = np.abs(limits.offsets) + sum(size.sum() + 1.0 for size in bounds.layers.sizes) ** 2
        assert (highest - margins <= 1e-9 * sizes).all()
        closed = bounds.closed(Pieces(sets, points), alternative)
        assert not (closed & (margins > -limits.slack).all(axis=1)).any()
        assert closed[(margins < -limits.slack - 1e-9 * sizes).any(axis=1)].all()
    possible, sure = bounds.decided(points)
    desired = made.case.model.desired(points)
    assert not (desired & ~possible).any()
    assert not (sure & ~desired).any()


ENDS = st.one_of(
    st.floats(-6, 6), st.floats(-1e-3, 1e-3), st.floats(-800, 800), st.floats(-1e12, 1e12),
    st.sampled_from([-0.0, 0.0, 1e-300, -1e-6, 1e-6]),
)  # fmt: skip


@settings(deadline=None, max_examples=600)
@given(st.sampled_from(KINDS), st.sampled_from([0.0, 0.01, 0.5, 1.0]), st.lists(st.tuples(ENDS, ENDS), min_size=1))
def test_lines_leave_their_activation_by_no_more_than_is_said(kind: Any, slope: float, ends: Any) -> None:
    low, high = np.sort(np.array(ends), axis=1).T
    activation = Activation(kind, slope)
    lines = lines_of(activation, low, high)
    off = 540 * UNIT * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    for share in np.linspace(0.0, 1.0, 33, dtype=PRECISE):
        at = np.clip(low + share * (high - low), low, high)
        value = activation.of(at)
        assert (lines.below * at + lines.below_at <= value + off).all()
        assert (lines.above * at + lines.above_at >= value - off).all()


@settings(deadline=None, max_examples=600)
@given(st.sampled_from(KINDS), st.sampled_from([0.0, 0.01, 0.5, 1.0]), ENDS, ENDS, st.lists(st.tuples(ENDS, ENDS)))
def test_lines_that_are_moved_stay_on_their_side(kind: Any, slope: float, one: float, other: float, to: Any) -> None:
    activation, ends = Activation(kind, slope), (np.array([min(one, other)]), np.array([max(one, other)]))
    lines = lines_of(activation, *ends)
    off = 564 * UNIT * (1.0 + max(abs(one), abs(other)))
    for (factor, at), step in zip(to, STEPS, strict=False):
        lines = moved_lines(activation, lines, np.array([factor]), np.array([at]), ends, step)
        for share in np.linspace(0.0, 1.0, 33, dtype=PRECISE):
            here = np.clip(ends[0] + share * (ends[1] - ends[0]), *ends)
            value = activation.of(here)
            assert (lines.below * here + lines.below_at <= value + off).all()
            assert (lines.above * here + lines.above_at >= value - off).all()


@pytest.mark.parametrize("kind", ["tanh", "logistic"])
@pytest.mark.parametrize(("low", "high"), [(-3, 1), (-1, 3), (-0.5, 0.5), (0.5, 3), (-3, -0.5), (-40, 40), (-4, 0.1)])
def test_lines_of_curved_functions_touch_them(kind: Any, low: float, high: float) -> None:
    activation, at = Activation(kind), np.linspace(low, high, 20_001)
    lines = lines_of(activation, np.array([low], np.float64), np.array([high], np.float64))
    assert (lines.above * at + lines.above_at - activation.of(at)).min() < 1e-3
    assert (activation.of(at) - lines.below * at - lines.below_at).min() < 1e-3


def certificate_of(made: Setting, data: st.DataObject, engine: Engine | None = None) -> Certificate | None:
    """What the exact oracle hands out for a rule, if it proves it."""
    box = made.case.relevant.box(data.draw(rules_of(made.case)))
    oracle = Networks(compile_network(made.reading, made.columns, made.case.space), engine=engine or Cores())
    with pytest.MonkeyPatch.context() as patch:  # what is found by climbing needs no cover
        patch.setattr("ironrule.oracles.networks.Work._uphill", lambda *_: None)
        verdict = oracle.find(made.case, box, 1, meter_of(None), np.random.default_rng(0))
    return verdict.certificate.drawn() if isinstance(verdict, Proven) else None


@settings(deadline=None, max_examples=300)
@given(network_settings(), st.data())
def test_what_the_exact_oracle_closes_the_checker_closes_at_once(made: Setting, data: st.DataObject) -> None:
    certificate = certificate_of(made, data)
    if certificate is None:
        return
    assert not has_exception(made, certificate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.verdict.checker.asking.MOST_PER_PIECE", 1)  # only points by themselves are asked about
        patch.setattr("ironrule.verdict.checker.halving.LEVELS", 0)
        check_certificate(certificate, made.scope, made.replies)


@settings(deadline=None, max_examples=150)
@given(network_settings(), st.data())
def test_what_torch_closes_the_checker_closes_at_once(made: Setting, data: st.DataObject) -> None:
    pytest.importorskip("torch")
    from ironrule.oracles.net_torch import TorchEngine

    certificate = certificate_of(made, data, TorchEngine("cpu", few=0))
    if certificate is None:
        return
    assert not has_exception(made, certificate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ironrule.verdict.checker.asking.MOST_PER_PIECE", 1)
        patch.setattr("ironrule.verdict.checker.halving.LEVELS", 0)
        check_certificate(certificate, made.scope, made.replies)


@settings(deadline=None, max_examples=150)
@given(network_settings(), st.data())
def test_no_cover_of_a_box_with_an_exception_is_ever_accepted(made: Setting, data: st.DataObject) -> None:
    box = made.case.relevant.box(data.draw(rules_of(made.case)))
    sizes = made.case.space.sizes.tolist()
    some = tuple(data.draw(covers(sizes)) for _ in made.reading.alternatives)
    low, high = (tuple(codes.tolist()) for codes in (box.low, box.high))
    certificate = Certificate("cover", sum(cover.pieces for cover in some), "", "", low, high, some)
    if has_exception(made, certificate):
        assert not accepted(made, certificate)


@settings(deadline=None, max_examples=150)
@given(network_settings(), st.data())
def test_a_corrupted_certificate_is_accepted_only_if_it_is_still_true(made: Setting, data: st.DataObject) -> None:
    certificate = certificate_of(made, data)
    if certificate is not None:
        altered = corrupted(data.draw, certificate, made.case.space.sizes.tolist())
        if accepted(made, altered):
            assert not has_exception(made, altered)


ALTERNATIVES = ((Preference(np.ones(1), 0.0),),)
WHOLE = Cover((), (-1,))


def bounds_of_one(
    layers: tuple[Layer, ...], values: Any, offset: float = 0.0, error: float = 0.0, factor: float = 1.0
) -> NetworkBounds:
    """The bounds of a network that sees one column of one feature."""
    column = np.array(values, dtype=np.float64)
    space = Space((Feature("a", tuple(range(len(column))), ordered=True),))
    network = Network(layers, ((Preference(np.full(1, factor), offset, error),),))
    return network_bounds_of(network, Columns(np.zeros(1, np.intp), (column,)), space)


def closes(bounds: NetworkBounds) -> bool:
    """Whether the whole of its space is closed."""
    (size,) = bounds.questions.sizes
    return bool(bounds.closed(pieces_of(WHOLE, (0,), (size - 1,), (size,)), 0)[0])


def tent(offset: float) -> tuple[tuple[Layer, ...], Any, float]:
    """Up to 1 at 1 and down again, of -3 to 3: much less than the bound of the whole says."""
    kinked = Layer(np.ones((1, 2)), np.array([0.0, -1.0]), Activation("relu"))
    return (kinked, Layer(np.array([[1.0], [-2.0]]), np.zeros(1))), np.arange(-3.0, 4.0), offset


@pytest.mark.parametrize(("offset", "closed"), [(-4.0, True), (-1.5, True), (-0.5, False), (-1.0, False)])
def test_a_piece_that_is_not_closed_is_closed_part_by_part(
    offset: float, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = bounds_of_one(*tent(offset))
    assert closes(bounds) is closed
    monkeypatch.setattr("ironrule.verdict.checker.halving.LEVELS", 0)
    assert closes(bounds) is (offset == -4.0)


def test_no_more_parts_are_made_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.verdict.checker.halving.MOST_PARTS", 1)
    assert not closes(bounds_of_one(*tent(-1.5)))
    assert closes(bounds_of_one(*tent(-4.0)))


def identity(weight: float, bias: float) -> tuple[Layer, ...]:
    return (Layer(np.full((1, 1), weight), np.full(1, bias)),)


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
        (identity(1e-320, 0.0), -1e-300, 0.0, False),  # too small to tell
    ],
)
def test_a_margin_is_surely_not_positive_only_where_rounding_cannot_turn_it(
    layers: Any, offset: float, error: float, closed: bool
) -> None:
    assert closes(bounds_of_one(layers, [0.0, 1.0], offset, error)) is closed


def test_a_model_in_single_precision_is_given_its_own_room() -> None:
    (limits,) = bounds_of_one(identity(1.0, 0.0), [0.0, 1.0], -1.0).alternatives
    single = Network(identity(1.0, 0.0), ((Preference(np.ones(1), -1.0),),), unit=2.0**-24)
    columns = Columns(np.zeros(1, np.intp), (np.array([0.0, 1.0]),))
    (rough,) = network_bounds_of(single, columns, Space((Feature("a", (0, 1), ordered=True),))).alternatives
    assert rough.slack[0] == arithmetic_errors(single, largest_of(columns.values))[0][0] > 1e6 * limits.slack[0]


def test_what_a_network_cannot_hold_is_not_read() -> None:
    with pytest.raises(Unreadable, match="large"):
        bounds_of_one((*identity(1e200, 0.0), *identity(1e200, 0.0)), [0.0, 1.0])
    with pytest.raises(Unreadable, match="missing"):
        bounds_of_one(identity(1.0, 0.0), [0.0, np.nan])


def test_sums_that_overflow_on_the_way_back_close_nothing() -> None:
    layers = (*identity(1e-200, 0.0), *identity(1e200, 0.0), *identity(1e200, 0.0))
    assert not closes(bounds_of_one(layers, [0.0, 1.0], -1e300))
    assert not closes(bounds_of_one(layers, [-1.0, 1.0], -1e300))
    assert closes(bounds_of_one(layers[:2], [-1.0, 1.0], -1e300))
    assert not closes(bounds_of_one((*identity(1e200, 0.0), *identity(-1e200, 0.0)), [1e-300, 2e-300], 1e101))


def test_products_too_small_for_a_double_are_not_forgotten() -> None:
    layers = (*identity(1e300, 0.0), *identity(1e-200, 0.0))
    assert not closes(bounds_of_one(layers, [0.0, 1.0], -1e-110, factor=1e-200))
    assert closes(bounds_of_one(layers, [0.0, 1.0], -1.0, factor=1e-200))


@pytest.mark.parametrize("cells", [1, 64, 1 << 20])
def test_it_does_not_matter_how_many_pieces_are_bounded_together(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    space = Space(tuple(Feature(name, tuple(range(6)), ordered=True) for name in "abc"))
    columns = Columns(np.array([0, 1, 2, 2]), tuple(rng.normal(size=(4, 6))))
    layers = (
        Layer(rng.normal(size=(4, 5)), rng.normal(size=5), Activation("relu")),
        Layer(rng.normal(size=(5, 3)), rng.normal(size=3), Activation("tanh")),
        Layer(rng.normal(size=(3, 1)), rng.normal(size=1)),
    )
    bounds = network_bounds_of(Network(layers, ALTERNATIVES), columns, space)
    pieces = random_pieces(space, rng, 100)
    whole = bounds.highest(pieces, bounds.alternatives[0])
    monkeypatch.setattr("ironrule.verdict.checker.networks.MOST_CELLS", cells)
    monkeypatch.setattr("ironrule.verdict.checker.entering.MOST_CELLS", cells)
    assert bounds.highest(pieces, bounds.alternatives[0]) == pytest.approx(whole, rel=1e-12)


def test_values_that_a_network_sees_alike_are_asked_about_once() -> None:
    space = Space((Feature("a", (0, 1, 2), ordered=True), Feature("b", (0, 1), ordered=True)))
    columns = Columns(np.array([0, 0]), (np.array([1.0, 2.0, 1.0]), np.array([5.0, 5.0, 5.0])))
    network = Network((Layer(np.ones((2, 1)), np.zeros(1)),), ((Preference(np.ones(1), -7.0),),))
    case = case_of(space, np.zeros((3, 2), np.bool_), np.zeros(2, np.int32), np.zeros((1, 2), np.int32))
    made = Setting(case, network, columns, scope_of_reading(case, Read(network, columns), case.instance[None, :]))
    text = check_certificate(Certificate("cover", 1, "", "", (0, 0), (2, 1), (WHOLE,)), made.scope, made.replies)
    assert "the model itself denies 2 points" in text


def loans(rows: int = 300) -> tuple[pd.DataFrame, Any]:
    """Raw applications with missing values, and three outcomes that depend on all columns, with noise."""
    rng = np.random.default_rng(5)
    debt = rng.integers(0, 5, rows).astype(float)
    debt[rng.random(rows) < 0.2] = np.nan
    table = pd.DataFrame(
        {
            "income": rng.integers(0, 9, rows) * 100.5,
            "accounts": rng.integers(0, 4, rows),
            "home": rng.choice(["own", "rent", "free"], rows),
            "debt": debt,
        }
    )
    value = table["income"] / 100 - table["accounts"] + 2 * (table["home"] == "own") - table["debt"].fillna(3)
    value += rng.normal(0, 0.7, rows)
    return table, np.select([value > 3, value > 0], ["good", "fair"], "bad")


def fitted(model: Any, table: pd.DataFrame, target: Any) -> Any:
    """The model behind scaling, one-hot coding and imputing that says what was missing."""
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["home"]),
        (StandardScaler(), ["income", "accounts"]),
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["debt"]),
    )
    return make_pipeline(encode, model).fit(table, target)


def network(activation: str = "relu", kind: Any = MLPClassifier) -> Any:
    given = {"solver": "lbfgs", "alpha": 1.0, "max_iter": 2000, "max_fun": 20_000, "random_state": 0}
    return kind(hidden_layer_sizes=(6, 5), activation=activation, **given)


def explained(explainer: Explainer, count: int = 2) -> list[Any]:
    assert explainer.unread is None
    return [explainer.explain(int(row)) for row in np.flatnonzero(~explainer.outcomes)[:count]]


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_what_is_proven_of_a_network_in_a_pipeline_is_confirmed(activation: str) -> None:
    table, outcome = loans()
    model = fitted(network(activation), table, np.where(outcome == "good", "good", "bad"))
    checker = Checker(model, table)
    for explanation in explained(Explainer(model, table, desired="good")):
        found = checker.check(explanation.to_json())
        assert found.status == "proven", str(found)
        document = explanation.to_dict()
        document["rules"][0]["rule"]["components"].pop()
        assert checker.check(with_digest(document)).status == "refuted"


@pytest.mark.parametrize("desired", ["good", ["good", "fair"]], ids=str)
def test_networks_of_several_classes_are_confirmed(desired: Any) -> None:
    table, outcome = loans()
    model = fitted(network(), table, outcome)
    checker = Checker(model, table)
    for explanation in explained(Explainer(model, table, desired=desired)):
        found = checker.check(explanation.to_json())
        assert found.status == "proven", str(found)


def test_networks_under_constraints_thresholds_and_margins_are_confirmed() -> None:
    table, outcome = loans()
    table = table[(table["accounts"] <= 2) | (table["income"] >= 300)].reset_index(drop=True)
    outcome = outcome[: len(table)]
    given = {"constraints": ["if cf.accounts >= 3 then cf.income >= 300"]}
    model = fitted(network("tanh"), table, (outcome == "good").astype(int))
    explainer = Explainer(model, table, threshold=0.6, margin=0.05, **given)
    sure = np.flatnonzero(model.predict_proba(table)[:, 1] < 0.3)
    found = check(explainer.explain(int(sure[0])).to_json(), model, table, **given)
    assert found.status == "proven", str(found)


def test_a_network_that_gives_numbers_is_confirmed() -> None:
    table, outcome = loans()
    model = fitted(network(kind=MLPRegressor), table, (outcome == "good") * 2.5)
    (explanation,) = explained(Explainer(model, table, threshold=1.25), 1)
    found = check(explanation.to_json(), model, table)
    assert found.status == "proven", str(found)


def test_a_network_beside_a_forest_is_confirmed() -> None:
    table, outcome = loans()
    target = (outcome == "good").astype(int)
    model = fitted(network(), table, target)
    other = fitted(RandomForestClassifier(n_estimators=5, max_depth=3, random_state=0), table, target)
    explainer = Explainer(model, table, models=[other])
    both = np.flatnonzero((model.predict(table) == 0) & (other.predict(table) == 0))
    explanation = explainer.explain(int(both[0]), budget=Budget(seconds=20))
    found = check(explanation.to_json(), model, table, models=[other])
    assert found.status == "proven", str(found)
    assert check(explanation.to_json(), model, table).status == "undecided"

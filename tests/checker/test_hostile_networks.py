"""Networks made to be proven wrongly: what the search proves of them holds for every point, and the checker agrees.

Weights are huge, or tiny, or cancel out; units are dead, or saturated, or the same twice; outputs hardly change, or not
at all; and the threshold lies where the highest point is, one float above or below it, or at the edge of what rounding
may turn. Within that the model decides as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from altered_certificates import confirm, has_exception
from hypothesis import given, settings, strategies as st
from tiny_settings import Setting, scope_of_reading

from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.engine import BoundEngine, CpuEngine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.backends.registry import find_nearest
from ironrule.model.normal_form.network import (
    DOUBLE_ROUNDOFF,
    SINGLE_ROUNDOFF,
    Activation,
    Layer,
    Network,
    OutputMargin,
    _propagate_errors,
    bound_arithmetic_errors,
    find_largest_sizes,
)
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import BoxQuery
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Proven, Refuted
from random_networks import KINDS, columns_of
from tiny_cases import case_of, every_point, exceptions_in, rules_of, run_of

Rng = np.random.Generator
PRECISE = np.longdouble


def weights_of(rng: Rng, above: int, below: int) -> Any:
    """Weights of one layer, hostile in one way."""
    weights = rng.normal(size=(above, below))
    match int(rng.integers(0, 6)):
        case 0:
            return weights * 10.0 ** rng.integers(-9, 10, size=(above, below))
        case 1:
            return weights * 10.0 ** rng.integers(-9, 10)
        case 2 if below > 1:  # two units that are the same, or the same turned round
            weights[:, 1] = weights[:, 0] * rng.choice([-1.0, 1.0])
            return weights
        case 3:
            return np.round(weights)
        case 4:
            return weights * (rng.random(below) < 0.5)
        case _:
            return weights


def bias_of(rng: Rng, below: int) -> Any:
    """Dead and saturated units, and common ones."""
    return rng.normal(size=below) * rng.choice([0.0, 1.0, 1.0, 40.0, 1e6], size=below)


def hostile(inputs: int, kinds: list[str], unit: float, rng: Rng) -> Network:
    """A network of one output whose threshold is not chosen yet."""
    widths = [inputs, *(int(rng.integers(1, 5)) for _ in kinds), 1]
    layers = []
    for place, (above, below) in enumerate(pairwise(widths)):
        weights, bias = weights_of(rng, above, below), bias_of(rng, below)
        if place and rng.random() < 0.3 and above > 1:  # what comes in cancels out
            weights[1] = -weights[0]
        activation = Activation(kinds[place], 0.25) if place < len(kinds) else Activation()  # type: ignore[arg-type]
        layers.append(Layer(weights, bias, activation))
    if rng.random() < 0.1:
        layers[-1] = replace(layers[-1], weights=np.zeros_like(layers[-1].weights))
    return Network(tuple(layers), ((OutputMargin(np.ones(1), 0.0),),), unit)


def decided_precisely(network: Network, columns: Any, points: Any) -> tuple[Any, Any, float]:
    """Which points may be desired and which surely are, by the model's own rounding alone; and how far that may reach.

    What rounding in the search adds is not the model's: a point beyond the model's own reach is not decided at will.
    """
    values = columns.look_up(points).astype(PRECISE)
    for layer in network.layers:
        values = layer.activation.apply(values @ layer.weights.astype(PRECISE) + layer.bias.astype(PRECISE))
    ((margin,),) = network.alternatives
    precise = values @ margin.coefficients.astype(PRECISE) + PRECISE(margin.offset)
    ((reach,),) = _propagate_errors(network, find_largest_sizes(columns.values), network.roundoff)
    return precise > -reach, precise > reach, reach


def at_the_edge(network: Network, columns: Any, points: Any, rng: Rng) -> Network:
    """The network with its threshold next to what one of its highest points comes to."""
    outputs = np.sort(network.outputs(columns.look_up(points))[:, 0])
    output = float(outputs[-1 - int(rng.integers(0, min(3, len(outputs))))])
    ((slack,),) = bound_arithmetic_errors(network, find_largest_sizes(columns.values))
    beside = [np.nextafter(output, -np.inf), np.nextafter(output, np.inf), output, output + slack, output - slack]
    _, _, reach = decided_precisely(network, columns, points)
    beside += [output + 0.99 * reach, output - 0.99 * reach]
    limit = float(rng.choice([*beside, output + 1.01 * slack, output - 1.01 * slack]))
    return replace(network, alternatives=((OutputMargin(np.ones(1), -limit),),))


@dataclass(frozen=True, slots=True, eq=False)
class Hostile:
    """A setting whose model is such a network, and the search for it."""

    setting: Setting
    read: TabulatedModel

    def oracle(self, engine: BoundEngine) -> NetworkOracle:
        assert isinstance(self.read.normal_form, Network)
        nets = compile_network(self.read.normal_form, self.read.columns, self.setting.case.space)
        return NetworkOracle(nets, engine=engine)


@st.composite
def hostile_settings(draw: st.DrawFn) -> Hostile:
    """A space, a network over it, and a model that decides as it likes where rounding may."""
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=3)))
    ordered = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    space = Space(tuple(Feature(f"f{j}", tuple(range(size)), ordered=ordered[j]) for j, size in enumerate(sizes)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    columns, points = columns_of(sizes, rng), every_point(space)
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=3))
    network = hostile(len(columns.values), kinds, draw(st.sampled_from([DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF])), rng)
    network = at_the_edge(network, columns, points, rng)
    possible, sure, _ = decided_precisely(network, columns, points)
    _, alike = np.unique(columns.look_up(points), axis=0, return_inverse=True)
    desired = sure | (possible & (rng.random(len(points)) < 0.5)[alike.ravel()])
    if desired.all():
        network, desired = replace(network, alternatives=((OutputMargin(np.zeros(1), -1.0),),)), np.zeros_like(desired)
    instance = points[rng.choice(np.flatnonzero(~desired))]
    case, read = case_of(space, desired.reshape(sizes), instance, points[:5]), TabulatedModel(network, columns)
    return Hostile(Setting(case, network, columns, scope_of_reading(case, read, instance[None, :])), read)


def proven_rightly(made: Hostile, data: st.DataObject, engine: BoundEngine) -> None:
    """Whatever the search says of a rule is so, and the checker accepts what proves it."""
    setting = made.setting
    box = setting.case.components.box(data.draw(rules_of(setting.case)))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr("ironrule.backends.network.ascent.AscentSearch._climb_from", lambda *_: None)
        verdict = made.oracle(engine).find(BoxQuery(setting.case, box), run_of())
    exceptions = {point.tobytes() for point in exceptions_in(setting.case, box)}
    if isinstance(verdict, Refuted):
        assert verdict.points[0].tobytes() in exceptions
        return
    assert isinstance(verdict, Proven)
    assert not exceptions
    certificate = verdict.certificate.with_built_covers()
    assert not has_exception(setting, certificate)
    confirm(setting, certificate)


@settings(deadline=None, max_examples=800)
@given(hostile_settings(), st.data())
def test_nothing_false_is_proven_of_a_hostile_network(made: Hostile, data: st.DataObject) -> None:
    proven_rightly(made, data, CpuEngine())


@settings(deadline=None, max_examples=300)
@given(hostile_settings(), st.data())
def test_nothing_false_is_proven_of_a_hostile_network_with_torch(made: Hostile, data: st.DataObject) -> None:
    pytest.importorskip("torch")
    from ironrule.backends.network.gpu.engine import TorchEngine

    proven_rightly(made, data, TorchEngine("cpu", min_boxes=0))


@settings(deadline=None, max_examples=200)
@given(hostile_settings())
def test_the_nearest_counterfactual_of_a_hostile_network_is_one_and_has_the_fewest_changes(made: Hostile) -> None:
    case = made.setting.case
    box = case.components.box(0)
    found = find_nearest(made.read, BoxQuery(case, box, 1), run_of())
    exceptions = exceptions_in(case, box)
    assert found.proven
    assert len(found.points) == min(1, len(exceptions))
    if len(exceptions):
        assert (exceptions == found.points[0]).all(axis=1).any()
        assert (found.points[0] != case.instance).sum() == (exceptions != case.instance).sum(axis=1).min()


@settings(deadline=None, max_examples=400)
@given(hostile_settings())
def test_double_precision_is_no_further_off_than_is_said(made: Hostile) -> None:
    network, columns = made.setting.reading, made.setting.columns
    assert isinstance(network, Network)
    seen = columns.look_up(every_point(made.setting.case.space))
    values = seen.astype(PRECISE)
    for layer in network.layers:
        values = layer.activation.apply(values @ layer.weights.astype(PRECISE) + layer.bias.astype(PRECISE))
    ((one,),) = network.alternatives
    precise = values @ one.coefficients.astype(PRECISE) + PRECISE(one.offset)
    ((slack,),) = bound_arithmetic_errors(network, find_largest_sizes(columns.values))
    assert (np.abs(network.margins(seen)[0] - precise) <= slack).all()

"""From the outputs of a network to its decision: when a point is desired, as margins over the last layer.

A logistic function or a softmax at the end rises, so it is undone and the threshold turned instead. Its rounding moves
where the decision changes: a probability that is off by d at the threshold t moves it by about d / (t (1 - t)) in log
odds. Probabilities are taken to be off by at most 64 units, of the library's function, of 1 - p, and of a threshold
that is rounded to their type. Two outputs whose softmax is compared can be told apart from a few units on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

import numpy as np

from ironrule.model.network import DOUBLE, FUNCTION_UNITS, Activation, Network, Preference
from ironrule.model.readers.additive import Cut, logit_cut
from ironrule.model.readers.network_steps import Affine, Body, Step, body_of
from ironrule.model.reading import Unreadable

SMALLEST = 1e-30  # a threshold on an exponential must be above this


class Ending(Enum):
    """What the outputs are, and the function that was taken off their end."""

    SCORES = auto()  # numbers: of one, the sign decides; of several, the largest
    LOGISTIC = auto()  # a probability
    SOFTMAX = auto()  # probabilities
    LOG_SOFTMAX = auto()  # their logarithms
    PROBABILITIES = auto()  # as they come out of the last layer
    EXPONENTIAL = auto()  # a number


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """A network as its library runs it, without the function at its end; ``unit`` is that of its arithmetic."""

    steps: tuple[Step, ...]
    ending: Ending
    unit: float


def described(steps: Sequence[Step], ending: Ending, unit: float) -> Described:
    """A network, a logistic function at its end taken off if it stands for one probability."""
    before = tuple(steps)
    if ending is Ending.PROBABILITIES:
        if before and _is_pair(before[-1]):
            before = before[:-1]
        if before and _is_logistic(before[-1]) and _width(before) == 1:
            return Described(before[:-1], Ending.LOGISTIC, unit)
    return Described(tuple(steps), ending, unit)


def _is_logistic(step: Step) -> bool:
    return isinstance(step, Activation) and step.kind == "logistic"


def _is_pair(step: Step) -> bool:
    """Whether it makes of a probability p the two of them, 1 - p and p."""
    return (
        isinstance(step, Affine)
        and np.array_equal(step.matrix, np.array([[-1.0, 1.0]]))
        and np.array_equal(step.bias, np.array([1.0, 0.0]))
    )


def _width(steps: Sequence[Step]) -> int:
    return next((len(step.bias) for step in reversed(steps) if isinstance(step, Affine)), 0)


def read_outputs(
    network: Described, classes: Sequence[Any] | None, desired: tuple[Any, ...], threshold: float | None
) -> Network:
    """The network that says when one of the desired classes is decided; without classes, when its number passes."""
    body = body_of(network.steps, network.unit)
    if classes is None:
        alternatives = _number(network, body, desired, threshold)
    else:
        wanted = [place for place, label in enumerate(classes) if label in desired]
        others = [place for place, label in enumerate(classes) if label not in desired]
        if not wanted or not others:
            raise Unreadable("some class must be desired and some undesired")
        alternatives = _classes(network, body, (wanted, others), threshold)
    return Network(body.layers, alternatives, body.unit)


Alternatives = tuple[tuple[Preference, ...], ...]
Places = tuple[list[int], list[int]]  # of the desired and of the undesired classes


def _number(network: Described, body: Body, desired: tuple[Any, ...], threshold: float | None) -> Alternatives:
    if threshold is None or desired:
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    if len(body.off) != 1:
        raise Unreadable(f"the regression predicts {len(body.off)} numbers at once")
    cut = Cut(threshold, 4 * network.unit * abs(threshold))  # NumPy may round it to the predictions' precision
    if network.ending is Ending.LOGISTIC:
        cut = _logistic_cut(threshold, network.unit)
    elif network.ending is Ending.EXPONENTIAL:
        cut = _exponential_cut(threshold, network.unit)
    elif network.ending in (Ending.SOFTMAX, Ending.LOG_SOFTMAX):
        raise Unreadable("a softmax of one number decides nothing")
    return ((body.preference(np.ones(1), -cut.place, cut.error),),)


def _classes(network: Described, body: Body, places: Places, threshold: float | None) -> Alternatives:
    outputs, classes = len(body.off), len(places[0]) + len(places[1])
    if outputs == 1 and classes == 2:
        return ((_one_output(network, body, places[0] == [1], threshold),),)
    if outputs != classes or network.ending is Ending.LOGISTIC:
        raise Unreadable(f"the network has {outputs} outputs for {classes} classes")
    if threshold is None:
        tie = 4.0 * FUNCTION_UNITS * network.unit
        told = Cut(0.0, tie if network.ending in (Ending.SOFTMAX, Ending.LOG_SOFTMAX) else 0.0)
        return _largest(body, places, told)
    if network.ending is Ending.PROBABILITIES:
        together = np.isin(np.arange(outputs), places[0]).astype(np.float64)
        return ((body.preference(together, -threshold, 4 * network.unit * abs(threshold)),),)
    if classes > 2:
        raise Unreadable("a threshold on a softmax of more than two classes is no cut of one score")
    return _largest(body, places, _softmax_cut(network, threshold))


def _largest(body: Body, places: Places, cut: Cut) -> Alternatives:
    """An alternative per desired class: its output is above every undesired one's, by what the cut says."""
    units = np.eye(len(body.off))
    wanted, others = places
    return tuple(tuple(body.preference(units[d] - units[u], -cut.place, cut.error) for u in others) for d in wanted)


def _one_output(network: Described, body: Body, second: bool, threshold: float | None) -> Preference:
    """One output for two classes: positive, or above one half, for the second."""
    sign = np.full(1, 1.0 if second else -1.0)
    if network.ending is Ending.PROBABILITIES:
        level = 0.5 if threshold is None else threshold
        return body.preference(sign, -level if second else 1.0 - level, 4 * network.unit * (1 + abs(level)))
    if network.ending is Ending.SCORES:
        cut = Cut() if threshold is None else _logistic_cut(threshold, DOUBLE)
    elif network.ending is Ending.LOGISTIC:
        cut = _logistic_cut(0.5 if threshold is None else threshold, network.unit)
    else:
        raise Unreadable("a softmax of one output decides nothing")
    return body.preference(sign, -cut.place, cut.error)


def _logistic_cut(threshold: float, unit: float) -> Cut:
    """Where a probability passes a threshold, in log odds, if it is off by 2 FUNCTION_UNITS units."""
    return logit_cut(threshold, 2 * FUNCTION_UNITS * unit / 16)


def _softmax_cut(network: Described, threshold: float) -> Cut:
    """The same for two outputs, where logarithms of probabilities may have been rounded before."""
    if network.ending is Ending.SOFTMAX:
        return _logistic_cut(threshold, network.unit)
    cut = _logistic_cut(threshold, DOUBLE)
    if network.ending is Ending.SCORES:
        return cut
    size = 1.0 - math.log(threshold) - math.log1p(-threshold)
    return replace(cut, error=cut.error + 4.0 * FUNCTION_UNITS * network.unit * size)


def _exponential_cut(threshold: float, unit: float) -> Cut:
    if not SMALLEST < threshold < 1 / SMALLEST:
        raise Unreadable(f"a threshold of {threshold!r} on an exponential decides nothing, or too closely")
    place = math.log(threshold)
    return Cut(place, 4.0 * FUNCTION_UNITS * unit + 4 * DOUBLE * abs(place))

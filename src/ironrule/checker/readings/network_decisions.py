"""From the outputs of a network to decisions: margins for scores, probabilities, and the largest of several outputs.

A probability that comes last (logistic, softmax) is a rising function of scores: it is undone, and the threshold turned
instead. What a library's function may be off is carried along as the error of the margin.
"""

from __future__ import annotations

import math

import numpy as np

from ironrule.checker.readings.cuts import logit_cut
from ironrule.checker.readings.network_form import DOUBLE, Layer, NetworkMargin, NetworkReading
from ironrule.checker.readings.normal_form import Question, Unreadable

NOISE = 128.0  # units that a probability, computed by exponentials, may be off, relatively or of the number 1

Layers = tuple[Layer, ...]


def decide_number(layers: Layers, threshold: float, unit: float) -> NetworkReading:
    """Desired where the one output is above the threshold, which may be cast to the type of the output."""
    error = 4.0 * unit * abs(threshold)
    return NetworkReading(layers, ((NetworkMargin(np.ones(1), -threshold, error),),), unit)


def decide_exponential(layers: Layers, threshold: float, unit: float) -> NetworkReading:
    """Desired where the exponential of the one output is above the threshold."""
    if threshold < 0.0:
        return _decide_constant(layers, 1.0, unit)
    if not 1e-30 < threshold < 1e30:  # far from where an exponential is rounded to 0 or to infinity
        raise Unreadable(f"a threshold on an exponential must be from 1e-30 to 1e30, got {threshold!r}")
    cut = math.log(threshold)
    error = 2.0 * NOISE * unit + 8.0 * DOUBLE * (1.0 + abs(cut))
    return NetworkReading(layers, ((NetworkMargin(np.ones(1), -cut, error),),), unit)


def decide_logistic(layers: Layers, question: Question, unit: float, precision: float) -> NetworkReading:
    """Two classes, the second with the logistic function of the one output as its probability, which is computed with
    ``precision`` as its unit roundoff; without a threshold one half decides.
    """
    sign = 1.0 if question.wanted == (1,) else -1.0
    return _decide_probability(layers, np.array([sign]), question.threshold, unit, precision)


def decide_largest(layers: Layers, question: Question, unit: float, tie: float) -> NetworkReading:
    """The class with the largest output; outputs within ``tie`` of each other may come out in any order."""
    others = positions_left(question, len(layers[-1].bias))
    one = np.eye(len(layers[-1].bias))
    return NetworkReading(
        layers,
        tuple(tuple(NetworkMargin(one[good] - one[bad], 0.0, tie) for bad in others) for good in question.wanted),
        unit,
    )


def decide_softmax(layers: Layers, question: Question, unit: float, precision: float) -> NetworkReading:
    """Classes by the softmax of the outputs; a threshold must be on the probability of one of two classes."""
    if question.threshold is None:
        return decide_largest(layers, question, unit, 2.0 * NOISE * precision)
    if len(layers[-1].bias) != 2:
        raise Unreadable("a threshold on a softmax of more than two classes is not a limit of one score")
    difference = np.array([-1.0, 1.0]) if question.wanted == (1,) else np.array([1.0, -1.0])
    return _decide_probability(layers, difference, question.threshold, unit, precision)


def decide_own_probability(layers: Layers, question: Question, unit: float) -> NetworkReading:
    """Two classes and one output p that is taken for the probability of the second as it is; the first has 1 - p."""
    threshold = 0.5 if question.threshold is None else question.threshold
    sign, cut = (1.0, threshold) if question.wanted == (1,) else (-1.0, 1.0 - threshold)
    margin = NetworkMargin(np.array([sign]), -sign * cut, 4.0 * unit * (1.0 + abs(threshold)))
    return NetworkReading(layers, ((margin,),), unit)


def decide_own_probabilities(layers: Layers, question: Question, unit: float) -> NetworkReading:
    """An output per class that is taken for its probability as it is, whatever they add up to."""
    if question.threshold is None:
        return decide_largest(layers, question, unit, 0.0)
    wanted = np.zeros(len(layers[-1].bias))
    wanted[list(question.wanted)] = 1.0
    error = 4.0 * unit * abs(question.threshold)
    return NetworkReading(layers, ((NetworkMargin(wanted, -question.threshold, error),),), unit)


def _decide_probability(
    layers: Layers, score: np.ndarray[tuple[int], np.dtype[np.float64]], asked: float | None, unit: float, own: float
) -> NetworkReading:
    """Desired where the logistic function of a score is above a threshold."""
    threshold, noise = 0.5 if asked is None else asked, NOISE * own
    if not -noise <= threshold < 1.0 + noise:
        return _decide_constant(layers, 1.0 if threshold < 0.0 else -1.0, unit)
    cut, error = logit_cut(threshold, noise)
    return NetworkReading(layers, ((NetworkMargin(score, -cut, error + 8.0 * own * (1.0 + abs(cut))),),), unit)


def _decide_constant(layers: Layers, value: float, unit: float) -> NetworkReading:
    """The same everywhere."""
    return NetworkReading(layers, ((NetworkMargin(np.zeros(len(layers[-1].bias)), value),),), unit)


def positions_left(question: Question, classes: int) -> tuple[int, ...]:
    """The positions of the undesired classes."""
    return tuple(place for place in range(classes) if place not in question.wanted)

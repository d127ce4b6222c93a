"""Which rules have the best precision? KL-LUCB (Kaufmann and Kalyanakrishnan, "Information complexity in bandit subset
selection", COLT 2013).

Every rule is an arm of a bandit: a draw is a point of its box, and it pays if the outcome is undesired. From n draws
with mean p, the precision q lies where n kl(p, q) <= beta, kl being the divergence of two coin tosses; beta grows with
the logarithm of the round, so that all bounds hold in all rounds with probability 1 - delta. Always drawn are the two
arms that matter: the weakest of those that lead, and the strongest of the others. When the second can be better by no
more than tau, those that lead are the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ironrule.search.anchor_draws import Precisions

Floats = npt.NDArray[np.float64]
HALVINGS = 26
TINY = 1e-15
ALPHA, FACTOR = 1.1, 405.5  # of the exploration rate: the constants of the paper's experiments


def divergence(p: Floats, q: Floats) -> Floats:
    """The Kullback-Leibler divergence between coins that fall on heads with probability p and q.

    >>> divergence(np.array([0.5]), np.array([0.25])).round(3).tolist()
    [0.144]
    """
    return _surprise(p, q) - _surprise(p, p)


def _surprise(p: Floats, q: Floats) -> Floats:
    """What a coin of probability p costs on the average under the belief q."""
    inner = np.minimum(np.maximum(q, TINY), 1.0 - TINY)
    return np.asarray(-p * np.log(inner) - (1.0 - p) * np.log1p(-inner))


def upper(means: Floats, levels: Floats) -> Floats:
    """The largest q whose divergence from the mean is no more than the level.

    >>> upper(np.array([0.0]), np.array([0.1])).round(4).tolist()
    [0.0952]
    """
    return ends(means, levels, np.ones(len(means), np.bool_))


def lower(means: Floats, levels: Floats) -> Floats:
    """The least q whose divergence from the mean is no more than the level.

    >>> lower(np.array([1.0]), np.array([0.1])).round(4).tolist()
    [0.9048]
    """
    return ends(means, levels, np.zeros(len(means), np.bool_))


def ends(means: Floats, levels: Floats, upwards: npt.NDArray[np.bool_]) -> Floats:
    """One end of every mean's interval, the upper or the lower one, rounded outwards."""
    furthest = np.sqrt(levels / 2.0)  # by Pinsker's inequality
    inside, outside = means, np.where(upwards, np.minimum(1.0, means + furthest), np.maximum(0.0, means - furthest))
    most = levels + _surprise(means, means)
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2.0
        beyond = _surprise(means, middle) > most
        outside, inside = np.where(beyond, middle, outside), np.where(beyond, inside, middle)
    return outside


def exploration(arms: int, turn: int, delta: float) -> float:
    """The rate beta that keeps all bounds in all rounds with probability 1 - delta."""
    rate = math.log(FACTOR * arms * turn**ALPHA / delta)
    return rate + math.log(rate)


@dataclass(frozen=True, slots=True)
class KLLucb:
    """Finds arms whose precision is best up to ``tau``, with probability 1 - ``delta``; ``batch`` draws at a time."""

    tau: float
    delta: float
    batch: int

    def best(self, precisions: Precisions, rules: Sequence[int], count: int) -> list[int]:
        """``count`` of the rules, or all if there are no more, best first."""
        precisions.draw([rule for rule in rules if not precisions.drawn[rule]], 1)
        turn = 1
        while True:
            means, sizes = precisions.means(rules), precisions.sizes(rules)
            order = np.argsort(-means, kind="stable")
            leading, others = order[:count], order[count:]
            if len(others) == 0:
                break
            upwards = np.ones(len(rules), np.bool_)
            upwards[leading] = False
            bounds = ends(means, exploration(len(rules), turn, self.delta) / sizes, upwards)
            weakest, strongest = leading[bounds[leading].argmin()], others[bounds[others].argmax()]
            if bounds[strongest] - bounds[weakest] <= self.tau:
                break
            precisions.draw((rules[weakest], rules[strongest]), self.batch)
            turn += 1
        return [rules[place] for place in leading.tolist()]

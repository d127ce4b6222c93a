"""What is known of a box when a proof about it ends early: the share of its points in parts that are closed, and what
points drawn from it say, by the network as it was read.

The share is by points that can occur. How many these are in an open part is not counted: at the most all of it.
"""

from __future__ import annotations

import math

import numpy as np

from ironrule.model.net import Net
from ironrule.model.net_kernels import decide
from ironrule.oracles.net_parts import Parts
from ironrule.oracles.protocol import Case
from ironrule.rule import Box
from ironrule.space import Feasible
from ironrule.verdict import Meter, Refuted, Unrefuted

SAMPLES = 10_000
DOUBT = 0.05  # of all searches that end so, the share that may claim too small a bound
NEARLY_ALL = 1.0 - 2.0**-53
SPARE = 1.0 + 1e-9  # more than rounding can take off a share


def explored_share(nets: tuple[Net, ...], proofs: tuple[Parts, ...], feasible: Feasible, box: Box) -> float:
    """At the least, the share of a box's points that lie in no part which waits, of any net; always below 1."""
    waiting = sum(_waiting(net, parts, box) for net, parts in zip(nets, proofs, strict=True))
    explored = 1.0 - waiting * _points_per_possible(feasible, box) * SPARE
    return max(0.0, min(explored, NEARLY_ALL))


def _waiting(net: Net, parts: Parts, box: Box) -> float:
    """The share of a box in parts that wait, constraints aside."""
    logs = np.zeros(parts.waiting)
    for j, (start, end) in enumerate(zip(parts.opened.starts[:-1], parts.opened.starts[1:], strict=True)):
        first = int(net.cells.code_starts[j])
        own = net.cells.cell_of[first + int(box.low[j]) : first + int(box.high[j]) + 1]
        counts = np.bincount(np.searchsorted(parts.opened.cells[start:end], own), minlength=end - start)
        upto = np.concatenate([[0], np.cumsum(counts)])
        low, high = (ends[: parts.waiting, j] for ends in (parts.low, parts.high))
        logs += np.log((upto[high + 1] - upto[low]) / upto[-1])
    return float(np.exp(logs).sum())


def _points_per_possible(feasible: Feasible, box: Box) -> float:
    """How many points of a box there are for each that can occur; infinite where that is not known."""
    ratio = 1.0
    for group in feasible.groups:
        columns = list(group.columns)
        if group.combinations is None:
            return math.inf
        inside = (group.combinations >= box.low[columns]) & (group.combinations <= box.high[columns])
        possible, every = int(inside.all(axis=1).sum()), Box(box.low[columns], box.high[columns]).size
        ratio = ratio * every / possible if possible else math.inf
    return ratio


def sampled(
    nets: tuple[Net, ...], case: Case, box: Box, explored: float, meter: Meter, rng: np.random.Generator
) -> Unrefuted | Refuted:
    """What points drawn from a box say when the budget is spent: nobody but the network as it was read is asked.

    A search ends so once; checks before it, no more of them than boxes asked about, have had their share of the doubt.
    """
    points = case.feasible.draw(rng, box.low, box.high, SAMPLES)
    if len(points) == 0:
        return Unrefuted(tried=0, samples=0, confidence=0.0, explored=explored)
    answers = [decide(net, points) for net in nets]
    may, sure = (np.any([answer[which] for answer in answers], axis=0) for which in (0, 1))
    if sure.any():
        return case.refuted(points[sure][:1])
    if may.any():  # only the model itself can decide some of them, and that it is not asked any more
        return Unrefuted(tried=0, samples=0, confidence=0.0, explored=explored)
    asked = max(1, meter.events["oracle calls"])
    return Unrefuted(len(points), len(points), 1.0 - DOUBT / (asked * (asked + 1)), explored)

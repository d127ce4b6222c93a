"""How two rules are crossed in the genetic algorithms.

The paper chooses t = max(|Ri|, |Rj|) + 1 components of both at random. Its authors' public program adds one component
to a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]


class Crossing(Protocol):
    """Makes one child of every pair of parents; rules are rows of flags, one per component."""

    def children(self, first: Flags, second: Flags, rng: np.random.Generator) -> Flags:
        """A child of every first and second parent."""
        ...


@dataclass(frozen=True, slots=True)
class RandomChoice:
    """A random choice of t = max(|Ri|, |Rj|) + 1 components of both parents, or all if they have no more."""

    def children(self, first: Flags, second: Flags, rng: np.random.Generator) -> Flags:
        """A child of every first and second parent."""
        most = np.maximum(first.sum(axis=1), second.sum(axis=1)) + 1
        return _chosen(first | second, most, rng)


@dataclass(frozen=True, slots=True)
class OneMore:
    """One of the parents, either at random, with one component of the other; itself if it has all of them."""

    def children(self, first: Flags, second: Flags, rng: np.random.Generator) -> Flags:
        """A child of every first and second parent."""
        swapped = rng.random((len(first), 1)) < 0.5
        parent, other = np.where(swapped, second, first), np.where(swapped, first, second)
        return parent | _chosen(other & ~parent, np.ones(len(parent), np.int64), rng)


def _chosen(flags: Flags, most: npt.NDArray[np.int64], rng: np.random.Generator) -> Flags:
    """So many of every row's flags at random, or all if it has no more."""
    keys = np.where(flags, rng.random(flags.shape), 2.0)
    ranks = np.argsort(np.argsort(keys, axis=1), axis=1)
    return np.asarray(flags & (ranks < most[:, None]))

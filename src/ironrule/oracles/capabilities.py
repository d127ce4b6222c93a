"""What an oracle can do beyond answering about one box.

* An *enumerator* lists all duals at once: counterfactuals such that every rule that excludes them is consistent. The
  minimum rule is then a single hitting set.
* A *miner* runs many cheap rounds of the implicit hitting set search in compiled code: a rule that hits the duals
  known so far, a counterfactual in its box, its dual. It stops where counterfactuals are no longer found easily.

An oracle that has none of these is asked box by box.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ironrule.arrays import Float64Array, Points, UInt64Array
from ironrule.hitting.bits import pack_sets
from ironrule.oracles.proof_covers import SearchLog
from ironrule.oracles.protocol import Case, Oracle
from ironrule.rule.kernels import compute_duals


class CompleteDuals(NamedTuple):
    """Counterfactuals that speak for all: every rule that excludes them is consistent. With their duals."""

    points: Points
    duals: npt.NDArray[np.uint64]


class DualEnumerator(Oracle, Protocol):
    """An oracle that can also name, at once, counterfactuals that speak for all."""

    def enumerate_duals(self, case: Case) -> CompleteDuals | None:
        """Such counterfactuals; None if it knows none for this case."""
        ...


class MiningRequest(NamedTuple):
    """What rules must hit as far as is known, the components that they may have, and what each counts.

    Where rules must weigh no more than ``max_weight``, local search finds them, from ``start_rule``, in ``max_steps``.
    """

    duals: UInt64Array
    allowed: int
    weights: Float64Array
    max_weight: float = np.inf
    start_rule: int = 0
    max_steps: int = 0

    def add_points(self, case: Case, points: Points) -> MiningRequest:
        """The same with what more counterfactuals demand."""
        more = compute_duals(points, case.components.low, case.components.high) & pack_sets(
            self.allowed, len(case.space)
        )
        return self._replace(duals=np.concatenate([self.duals, more]))


class MiningResult(NamedTuple):
    """Further counterfactuals, and the last rule looked at, if there was one to look at; the last counterfactual may
    refute it, or else there may be a proof that none of this forest does.
    """

    points: Points
    rule: int | None
    proof: SearchLog | None = None
    boxes: int = 0  # looked at on the way

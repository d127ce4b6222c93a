"""From a case and what is permitted to the problem that searches solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ironrule.errors import InputError
from ironrule.explain.arguments import Weights, as_list, chosen_seed, chosen_weights, generator, positive
from ironrule.explain.prepared import Prepared
from ironrule.rule import Relevant
from ironrule.verdict import Meter

if TYPE_CHECKING:
    from ironrule.oracles import Case
    from ironrule.search import Problem

FEW_ROWS = 5_000  # desired past rows, which are at hand as points then


def posed(
    ready: Prepared,
    case: Case,
    meter: Meter,
    k: int,
    seed: int,
    require: Sequence[str],
    forbid: Sequence[str],
    weights: Weights,
) -> Problem:
    """The problem that searches solve; raises InputError if what is required cannot be had."""
    from ironrule.oracles.layered import Layered
    from ironrule.oracles.memory import Remembering
    from ironrule.rule.duals import DistinctDuals, PastDuals, distinct_duals, distinct_duals_of
    from ironrule.search.problem import Problem

    relevant = case.relevant
    allowed, required = permitted_of(relevant, require, forbid)

    def count() -> DistinctDuals:
        with meter.timed("history"):
            if len(case.history.desired) <= FEW_ROWS:
                return distinct_duals_of(case.history.seeds, relevant.low, relevant.high)
            return distinct_duals(case.history.desired.columns, relevant.low, relevant.high)

    each, unit = chosen_weights(weights, relevant)
    rng = generator(chosen_seed(seed))
    read = ready.oracle
    oracle = Remembering(Layered()) if read is None else Remembering(read, reads=True)
    return Problem(case, oracle, PastDuals(count), allowed, required, each, positive(k), meter, rng, unit)


def permitted_of(relevant: Relevant, require: Sequence[str], forbid: Sequence[str]) -> tuple[int, tuple[int, ...]]:
    """The components that a rule may use, and sets of which it must use one each; raises InputError if one is empty."""
    allowed = relevant.usable & ~relevant.select(as_list(forbid))
    required = tuple(relevant.select([name]) & allowed for name in as_list(require))
    for name, some in zip(as_list(require), required, strict=True):
        if not some:
            raise InputError(
                f"{name!r} cannot be required for this row: it excludes nothing or is forbidden",
                code="unusable-requirement",
            )
    return allowed, required

"""What is asked about a row: which algorithm, how many rules, within which budget, which rules are permitted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironrule.explain.arguments import (
    DEFAULT_ALGORITHM,
    Weights,
    as_list,
    chosen_algorithm,
    chosen_budget,
    chosen_seed,
    kept_weights,
    positive,
)
from ironrule.explain.confirming import Unconfirmed
from ironrule.space import Points
from ironrule.verdict import Budget

if TYPE_CHECKING:
    from ironrule.search import Algorithm


@dataclass(frozen=True, slots=True, eq=False)
class KnownPoint:
    """A row as codes that is known to have the undesired outcome and to satisfy the constraints.

    Whoever asks about several such rows may have what is found kept as ``unconfirmed``, and confirm it all at once.
    """

    codes: Points
    unconfirmed: Unconfirmed | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The arguments of ``Explainer.explain``, without the row."""

    algorithm: str | Algorithm = DEFAULT_ALGORITHM
    k: int = 5
    budget: Budget | float | None = None
    seed: int = 0
    require: Sequence[str] = ()
    forbid: Sequence[str] = ()
    weights: Weights = None
    widen: bool = True

    def arguments(self) -> dict[str, Any]:
        """The same by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def fingerprint(self) -> str:
        """A hash of it; raises InputError, before any work, if something in it cannot be used."""
        algorithm = self.algorithm if self.algorithm == DEFAULT_ALGORITHM else chosen_algorithm(self.algorithm)
        kept = kept_weights(self.weights)
        weights = sorted(kept.items()) if isinstance(kept, Mapping) else kept
        parts = (
            algorithm,
            positive(self.k),
            chosen_budget(self.budget),
            chosen_seed(self.seed),
            as_list(self.require),
            as_list(self.forbid),
            weights,
            bool(self.widen),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

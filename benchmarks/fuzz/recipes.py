"""A recipe: how an estimator of a family is made, and what it can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.fuzz.data import Rng, Table, Wish
from benchmarks.fuzz.pipelines import Accepts

Make = Callable[[Rng, str, Table], Any]
MIXED = ("int", "int", "float", "close", "float32", "flag", "text", "bool")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A family whose models are fitted on random tables.

    ``make`` gives an estimator that is not fitted yet; ``threshold`` says whether it has probabilities to compare with
    one; ``numbered`` that its classes must be 0, 1, 2; ``bare`` that it stands alone, without preparation.
    """

    name: str
    make: Make
    tasks: tuple[str, ...] = ("binary",)
    wish: Wish = field(default_factory=lambda: Wish(kinds=MIXED, missing=True))
    accepts: Accepts = field(default_factory=Accepts)
    threshold: bool = True
    threshold_of_three: bool = False
    numbered: bool = False
    bare: bool = False
    intervals: float = 0.15
    libraries: tuple[str, ...] = ()
    every: int = 1


def seed_of(rng: Rng) -> int:
    """A seed for a library."""
    return int(rng.integers(0, 2**31 - 1))


def pick(rng: Rng, *choices: Any) -> Any:
    """One of some choices."""
    return choices[int(rng.integers(0, len(choices)))]

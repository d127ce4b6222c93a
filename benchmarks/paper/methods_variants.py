"""The variants of our algorithms that the ablations compare: one parameter changed at a time, all else as in the paper.

A variant is named after the method that it varies: ``genetic s=100``. ``VARIANTS`` says of each what was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.paper.methods import ours
from benchmarks.paper.methods_ours import BLACK_BOX, EXACT
from ironrule import GeneticRule, GeneticRuleCF, GreedyRuleCF, Minimum


@dataclass(frozen=True, slots=True)
class Variant:
    """A method with one parameter changed."""

    method: str
    parameter: str
    value: float

    @property
    def name(self) -> str:
        """The variant's name as a method."""
        return f"{self.method} {self.parameter}={self.value:g}"


SAMPLES = (10, 100, 1000, 10_000)
KEPT = (5, 20, 50, 200, 1000)
_BASES: dict[str, tuple[str, Callable[..., Any], Any]] = {
    "genetic": ("GeneticRule", GeneticRule, BLACK_BOX),
    "genetic_cf": ("GeneticRuleCF, GeCo", GeneticRuleCF, BLACK_BOX),
    "genetic_cf_exact": ("GeneticRuleCF, exact", GeneticRuleCF, EXACT),
    "greedy_cf_exact": ("GreedyRuleCF, exact", GreedyRuleCF, EXACT),
}
LABELS = {name: label for name, (label, _, _) in _BASES.items()}
BY_SAMPLES = tuple(Variant(name, "s", s) for name in ("genetic", "genetic_cf", "genetic_cf_exact") for s in SAMPLES)
BY_KEPT = tuple(
    Variant(name, "q", q)
    for name, values in (("genetic", KEPT[:4]), ("genetic_cf_exact", KEPT[:4]), ("greedy_cf_exact", KEPT))
    for q in values
)
VARIANTS = {variant.name: variant for variant in (*BY_SAMPLES, *BY_KEPT)}


def _method(variant: Variant) -> Any:
    label, algorithm, explainer = _BASES[variant.method]
    changed = {variant.parameter: int(variant.value)}

    def made(task: Any) -> Any:
        usual = {"q": task.q} if algorithm is GreedyRuleCF else {"q": task.q, "s": task.s}
        return algorithm(**(usual | changed))

    return ours(variant.name, f"{label}, {variant.parameter} = {variant.value:g}", made, explainer)


METHODS = (
    *(_method(variant) for variant in VARIANTS.values()),
    ours("minimum_geco", "minimum, GeCo", lambda _: Minimum(ties=0), BLACK_BOX),
)

"""The variants of our algorithms that the ablations compare: one parameter changed at a time, all else as in the paper.

A variant is named after the method that it varies: ``genetic s=100``; :data:`VARIANTS` says of each what was changed.
:data:`AUTHORS` have it as the authors' public program does: candidates are judged on past rows in which the rule's
features have the instance's values, instead of samples of the space; a crossing adds one component; and of 20
counterfactuals asked for at a time the five smallest duals are hit instead of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.paper.methods import Method, ours
from benchmarks.paper.methods_ours import BLACK_BOX, EXACT
from ironrule import GeneticRule, GeneticRuleCF, GreedyRuleCF, Minimum
from ironrule.search.genetic import AddOneCrossover, HistorySampler


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


def _made(base: str, changed: dict[str, Any]) -> Callable[[Any], Any]:
    """Makes the base's algorithm with the q and s of a task, and the changes."""
    _, algorithm, _ = _BASES[base]

    def made(task: Any) -> Any:
        usual = {"q": task.q} if algorithm is GreedyRuleCF else {"q": task.q, "s": task.s}
        return algorithm(**(usual | changed))

    return made


def _method(variant: Variant) -> Method:
    label, _, explainer = _BASES[variant.method]
    made = _made(variant.method, {variant.parameter: int(variant.value)})
    return ours(variant.name, f"{label}, {variant.parameter} = {variant.value:g}", made, explainer)


_HISTORY: dict[str, Any] = {"sampler": HistorySampler()}
_ONE_MORE: dict[str, Any] = {"crossover": AddOneCrossover()}
_FIVE: dict[str, Any] = {"duals": 5}
AUTHORS = (  # the base, what is changed in words, the changes, and counterfactuals per question
    ("genetic", "history rows", _HISTORY, 5),
    ("genetic", "one component more", _ONE_MORE, 5),
    ("genetic_cf_exact", "history rows", _HISTORY, 5),
    ("genetic_cf_exact", "one component more", _ONE_MORE, 5),
    ("genetic_cf_exact", "all of 20 duals", {}, 20),
    ("genetic_cf_exact", "5 of 20 duals", _FIVE, 20),
    ("greedy_cf_exact", "all of 20 duals", {}, 20),
    ("greedy_cf_exact", "5 of 20 duals", _FIVE, 20),
    ("genetic_cf", "all three", _HISTORY | _ONE_MORE | _FIVE, 20),
)
AUTHORS_BASES = ("genetic", "genetic_cf_exact", "greedy_cf_exact", "genetic_cf")
AUTHORS_NAMES = tuple(f"{base} {words}" for base, words, _, _ in AUTHORS)


def _authors(base: str, words: str, changed: dict[str, Any], k: int) -> Method:
    label, _, explainer = _BASES[base]
    return ours(f"{base} {words}", f"{label}: {words}", _made(base, changed), explainer, k)


METHODS = (
    *(_method(variant) for variant in VARIANTS.values()),
    *(_authors(*one) for one in AUTHORS),
    ours("minimum_geco", "minimum, GeCo", lambda _: Minimum(ties=0), BLACK_BOX),
)

"""The registry of algorithms: their names, where they are defined, and how a form describes them.

All code that lists or names algorithms reads this module. It imports nothing heavy, so that the command line can name
them without loading Numba; :func:`load_algorithm` imports one when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from ironrule.search.problem import Algorithm

AUTO: Final = "auto"  # no algorithm of its own: the best one for the model at hand
AlgorithmName = Literal["minimum", "greedy_cf", "genetic_cf", "genetic", "min_set_cover", "anchor"]
AlgorithmChoice = Literal["auto", AlgorithmName]


class AlgorithmEntry(NamedTuple):
    """One algorithm: the module and the class in it, and what a form says of it."""

    module: str
    class_name: str
    label: str


ALGORITHMS: dict[AlgorithmName, AlgorithmEntry] = {
    "minimum": AlgorithmEntry(
        "ironrule.search.minimum", "Minimum", "minimum: the shortest rule, proven where the model can be read"
    ),
    "greedy_cf": AlgorithmEntry("ironrule.search.greedy_cf", "GreedyRuleCF", "GreedyRuleCF"),
    "genetic_cf": AlgorithmEntry("ironrule.search.genetic", "GeneticRuleCF", "GeneticRuleCF"),
    "genetic": AlgorithmEntry("ironrule.search.genetic", "GeneticRule", "GeneticRule"),
    "min_set_cover": AlgorithmEntry("ironrule.search.min_set_cover", "MinSetCover", "MinSetCover: past rows only"),
    "anchor": AlgorithmEntry("ironrule.search.anchor", "Anchor", "Anchor: sampled"),
}
ALGORITHM_CHOICES = (AUTO, *ALGORITHMS)


def load_algorithm(name: AlgorithmName) -> type[Algorithm]:
    """Import the algorithm of that name."""
    entry = ALGORITHMS[name]
    loaded: type[Algorithm] = getattr(import_module(entry.module), entry.class_name)
    return loaded

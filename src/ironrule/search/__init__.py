"""Algorithms that search for rules, one module each, and the driver that they share.

A new algorithm is one new module and one line in :data:`ALGORITHMS`; the contract tests pick it up from there.
"""

from __future__ import annotations

from ironrule.search.anchor import Anchor
from ironrule.search.genetic import GeneticRule, GeneticRuleCF
from ironrule.search.greedy_cf import GreedyRuleCF
from ironrule.search.min_set_cover import MinSetCover
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Algorithm

ALGORITHMS: dict[str, type[Algorithm]] = {
    "greedy_cf": GreedyRuleCF,
    "genetic_cf": GeneticRuleCF,
    "genetic": GeneticRule,
    "minimum": Minimum,
    "min_set_cover": MinSetCover,
    "anchor": Anchor,
}

"""Algorithms that search for rules, one file each.

A new algorithm is one new file and one line in :data:`ALGORITHMS`; the contract tests pick it up from there.
"""

from ironrule.search.anchor import Anchor
from ironrule.search.crossing import OneMore, RandomChoice
from ironrule.search.drawing import FromHistory, FromSpace
from ironrule.search.every_change import EveryChange
from ironrule.search.every_rule import EveryRule
from ironrule.search.genetic import GeneticRule, GeneticRuleCF
from ironrule.search.greedy_cf import GreedyRuleCF
from ironrule.search.min_set_cover import HittingSets, MinSetCover
from ironrule.search.min_set_cover_highs import HighsProgram
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Algorithm, Problem, Trail
from ironrule.search.solve import Findings, solve

ALGORITHMS: dict[str, type[Algorithm]] = {
    "greedy_cf": GreedyRuleCF,
    "genetic_cf": GeneticRuleCF,
    "genetic": GeneticRule,
    "minimum": Minimum,
    "min_set_cover": MinSetCover,
    "anchor": Anchor,
}

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Anchor",
    "EveryChange",
    "EveryRule",
    "Findings",
    "FromHistory",
    "FromSpace",
    "GeneticRule",
    "GeneticRuleCF",
    "GreedyRuleCF",
    "HighsProgram",
    "HittingSets",
    "MinSetCover",
    "Minimum",
    "OneMore",
    "Problem",
    "RandomChoice",
    "Trail",
    "solve",
]

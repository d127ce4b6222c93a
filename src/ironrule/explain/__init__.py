"""The public face: Explainer and Explanation."""

from ironrule.explain.explainer import Explainer
from ironrule.explain.explanation import Counterfactuals, Explanation, RankedRule, Statistics
from ironrule.explain.judgement import Judgement
from ironrule.explain.listing import ChangeSet, Listing

__all__ = [
    "ChangeSet",
    "Counterfactuals",
    "Explainer",
    "Explanation",
    "Judgement",
    "Listing",
    "RankedRule",
    "Statistics",
]

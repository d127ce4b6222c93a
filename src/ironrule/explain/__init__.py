"""The public face: Explainer and Explanation."""

from ironrule.explain.batches import Batch, FewRules
from ironrule.explain.explainer import Explainer
from ironrule.explain.explanation import Counterfactuals, Explanation, RankedRule, Statistics
from ironrule.explain.judgement import Judgement
from ironrule.explain.listing import ChangeSet, Listing
from ironrule.explain.rechecking import Recheck, Rechecked

__all__ = [
    "Batch",
    "ChangeSet",
    "Counterfactuals",
    "Explainer",
    "Explanation",
    "FewRules",
    "Judgement",
    "Listing",
    "RankedRule",
    "Recheck",
    "Rechecked",
    "Statistics",
]

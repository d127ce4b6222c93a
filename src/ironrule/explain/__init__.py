"""The public face: Explainer and Explanation."""

from ironrule.explain.explainer import Explainer
from ironrule.explain.explanation import Counterfactuals, Explanation, RankedRule, Statistics

__all__ = ["Counterfactuals", "Explainer", "Explanation", "RankedRule", "Statistics"]

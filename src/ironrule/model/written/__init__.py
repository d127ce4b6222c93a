"""Models that are written down instead of fitted: scorecards, rules, two-layer additive models."""

from ironrule.model.written.bins import Bins
from ironrule.model.written.rules import RuleClassifier
from ironrule.model.written.scorecard import Scorecard
from ironrule.model.written.two_layer import Subscale, TwoLayerAdditive

__all__ = ["Bins", "RuleClassifier", "Scorecard", "Subscale", "TwoLayerAdditive"]

"""Models that are not fitted by scikit-learn or a library of its kind: written down (scorecards, rules, two-layer
additive models), or networks that were trained elsewhere.
"""

from ironrule.model.written.bins import Bins
from ironrule.model.written.onnx_network import OnnxNetwork
from ironrule.model.written.rules import RuleClassifier
from ironrule.model.written.scorecard import Scorecard
from ironrule.model.written.torch_network import TorchNetwork
from ironrule.model.written.two_layer import Subscale, TwoLayerAdditive

__all__ = ["Bins", "OnnxNetwork", "RuleClassifier", "Scorecard", "Subscale", "TorchNetwork", "TwoLayerAdditive"]

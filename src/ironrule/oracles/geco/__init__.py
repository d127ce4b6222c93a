"""GeCo, the counterfactual system under the paper's algorithms."""

from ironrule.oracles.geco.distance import Mix
from ironrule.oracles.geco.geco import GeCo

__all__ = ["GeCo", "Mix"]

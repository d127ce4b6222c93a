"""Which exact oracle serves a model that can be read."""

from __future__ import annotations

from ironrule.model import Model, Readable
from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.leaf_tree import desired_leaves
from ironrule.oracles.leaves import Leaves
from ironrule.space import Space


def exact_oracle(exact: Readable, model: Model, space: Space) -> Leaves | Ensemble:
    """The leaves where the model is a single tree, branch and bound otherwise; raises Unreadable if the model decides
    otherwise than its reading at a leaf.
    """
    tree = desired_leaves(exact.forests, model, space)
    return Ensemble(exact.forests) if tree is None else Leaves(tree)

"""Which exact oracle serves a model that can be read."""

from __future__ import annotations

from ironrule.model import Model
from ironrule.model.forest import Forest
from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.leaf_tree import desired_leaves
from ironrule.oracles.leaves import Leaves
from ironrule.space import Space


def exact_oracle(forests: tuple[Forest, ...], model: Model, space: Space) -> Leaves | Ensemble:
    """The leaves where the model is a single tree and everything can occur, branch and bound otherwise; raises
    Unreadable if the model decides otherwise than its reading at a leaf.
    """
    tree = None if space.constraints else desired_leaves(forests, model, space)
    return Ensemble(forests) if tree is None else Leaves(tree, forests)

"""Which exact oracle serves a model that can be read."""

from __future__ import annotations

from ironrule.model import Model
from ironrule.model.forest import Forest
from ironrule.model.net import Net
from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.leaf_tree import desired_leaves
from ironrule.oracles.leaves import Leaves
from ironrule.oracles.networks import Networks
from ironrule.oracles.together import Together
from ironrule.space import Space


def exact_oracle(
    parts: tuple[Forest | Net, ...], model: Model, space: Space
) -> Leaves | Ensemble | Networks | Together:
    """The leaves where the model is a single tree and everything can occur, branch and bound otherwise; raises
    Unreadable if the model decides otherwise than its reading at a leaf.
    """
    nets = tuple(part for part in parts if isinstance(part, Net))
    forests = tuple(part for part in parts if isinstance(part, Forest))
    if nets and forests:
        return Together(tuple(Networks((part,)) if isinstance(part, Net) else Ensemble((part,)) for part in parts))
    if nets:
        return Networks(nets)
    tree = None if space.constraints else desired_leaves(forests, model, space)
    return Ensemble(forests) if tree is None else Leaves(tree, forests)

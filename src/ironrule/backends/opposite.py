"""The opposite of a model that was read: an exact oracle for "has this box a point with the undesired outcome?".

A region in which every point is desired is a box without undesired points. So the model is turned round: each of its
normal forms is negated, and the result is compiled as any other model is. Where a margin is zero, neither it nor its
negative is positive, but the point is undesired: so every negated margin gets an error, however small, and within its
error the model itself is asked. The model that is asked is turned round too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.compiled_model import CompiledPart, reduce_tabulated
from ironrule.backends.registry import build_exact_oracle, list_backends
from ironrule.model.intervals import Gaps
from ironrule.model.normal_form.network import Network
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.protocol import Model, NormalForm, Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.space.reduced import ReducedSpace

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.oracles.protocol import Oracle

LEAST_ERROR = 1e-300  # of a negated margin: it moves no decision but that of a margin of zero


@dataclass(frozen=True, slots=True, eq=False)
class OppositeModel:
    """Gives the desired outcome to the points that one of several models denies."""

    models: tuple[Model, ...]

    def desired(self, points: Points) -> BoolArray:
        """Which points one of the models denies."""
        return np.asarray(np.any([~model.desired(points) for model in self.models], axis=0), dtype=np.bool_)


def negate_normal_form(normal_form: NormalForm) -> NormalForm:
    """The normal form of the opposite decision, ties included; raises Unreadable if it would be too large."""
    if isinstance(normal_form, TreeSum):
        trees = normal_form.negate()
        alternatives = tuple(
            tuple(replace(margin, error=max(margin.error, LEAST_ERROR)) for margin in margins)
            for margins in trees.alternatives
        )
        return TreeSum(alternatives)
    if isinstance(normal_form, Network):
        network = normal_form.negate()
        outputs = tuple(
            tuple(replace(margin, error=max(margin.error, LEAST_ERROR)) for margin in margins)
            for margins in network.alternatives
        )
        return replace(network, alternatives=outputs)
    raise Unreadable(f"the opposite of a {normal_form.kind} is not known")


def build_opposite_oracle(
    reads: Sequence[TabulatedModel],
    model: Model,
    reduced: ReducedSpace,
    *,
    engine: BoundEngine | None = None,
    gaps: Gaps | None = None,
) -> Oracle:
    """The exact oracle for points that one of some models denies; ``model`` is the opposite of these, over the reduced
    space. Raises Unreadable if there is none.
    """
    opposite = [TabulatedModel(negate_normal_form(read.normal_form), read.columns) for read in reads]
    if gaps is not None and any(gaps_of.any() for gaps_of in gaps.turning_gaps):
        _require_single_margins(opposite)
    parts = []
    for read in opposite:
        backends = list_backends(read.normal_form)
        alternatives = backends[0].compile(reduce_tabulated(read, reduced), reduced.space, reduced.space.feasible)
        parts.append(CompiledPart(backends, alternatives))
    return build_exact_oracle(parts, model, reduced.space, engine, gaps)


def _require_single_margins(reads: Sequence[TabulatedModel]) -> None:
    """Raise Unreadable if a sum's decision between two values of a domain may be other than at both of them: a single
    margin lies between its values at both ends, several margins need not be positive at the same end.
    """
    for read in reads:
        if isinstance(read.normal_form, TreeSum) and any(len(margins) > 1 for margins in read.normal_form.alternatives):
            raise Unreadable("several desired classes together may turn between two values of a domain")

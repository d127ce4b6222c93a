"""The opposite of a model that was read: an exact oracle for "has this box a point that is not desired?".

A region in which every point is desired is a box without other points. So the model is turned round: each of its
normal forms is negated, and the result is compiled as any other model is. Where a margin is zero, neither it nor its
negative is positive, but the point is not desired: so every negated margin gets an error, however small, and within its
error the model itself is asked. The model that is asked is turned round too.

Several models, or both ends of a band of scores, must all desire a point, so one that denies it is enough: the opposite
is that of the first, or of the second, and so on. A box is closed if each of these parts closes it, and one oracle asks
them all.

What denies a point may be several margins that must all be positive (of several desired classes, each loses to another
one). Of sums, one of them may rise with a number and another fall, so that only numbers between two values of a domain
are denied. Such margins stay apart, as models that must all desire a point do (:mod:`ironrule.backends.conjunction`):
each alone is bounded over the numbers between two values, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.compiled_model import CompiledPart, reduce_tabulated
from ironrule.backends.registry import build_exact_oracle, list_backends
from ironrule.model.intervals import Gaps, find_directions, is_straight
from ironrule.model.normal_form.conjunction import ModelConjunction
from ironrule.model.normal_form.network import Network
from ironrule.model.normal_form.tree_sum import Margin, TreeSum
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
    read: TabulatedModel,
    model: Model,
    reduced: ReducedSpace,
    *,
    engine: BoundEngine | None = None,
    gaps: Gaps | None = None,
) -> Oracle:
    """The exact oracle for points that a model does not desire, or one of several that were joined; ``model`` is the
    opposite of it, over the reduced space. Raises Unreadable if there is none.
    """
    parts = []
    for one in _list_opposites(read, reduced, gaps):
        backends = list_backends(one.normal_form)
        alternatives = backends[0].compile(reduce_tabulated(one, reduced), reduced.space, reduced.space.feasible)
        parts.append(CompiledPart(backends, alternatives))
    return build_exact_oracle(parts, model, reduced.space, engine, gaps)


def _list_opposites(read: TabulatedModel, reduced: ReducedSpace, gaps: Gaps | None) -> list[TabulatedModel]:
    """Models over the whole space, of which each desires points that the one that was read does not; together all."""
    found = list[TabulatedModel]()
    for part in _list_decisions(read):
        opposite = TabulatedModel(negate_normal_form(part.normal_form), part.columns)
        if gaps is None or not isinstance(opposite.normal_form, TreeSum):
            found.append(opposite)  # bounds of networks hold for the numbers between two values, too
            continue
        turning = {int(reduced.kept[j]): len(gaps.open[j]) + 1 for j, gap in enumerate(gaps.turning_gaps) if gap.any()}
        found += _split_alternatives(opposite, opposite.normal_form, turning)
    return found


def _list_decisions(read: TabulatedModel) -> Iterator[TabulatedModel]:
    """The decisions that must all desire a point: those of all models that were joined, or the model's own."""
    if read.members:
        for member in read.members:
            yield from _list_decisions(member)
    else:
        yield from read.parts


def _split_alternatives(read: TabulatedModel, form: TreeSum, turning: Mapping[int, int]) -> Iterator[TabulatedModel]:
    """A sum as it is; an alternative whose margins do not all rise or all fall with a number as a conjunction of them.
    ``turning``: the features with numbers between two values at which a sum may turn, and how many values they have.
    """
    plain = [margins for margins in form.alternatives if not _may_turn_twice(read, margins, turning)]
    if plain:
        yield replace(read, normal_form=TreeSum(tuple(plain)))
    span = (0, len(read.columns.values))
    for margins in form.alternatives:
        if margins not in plain:
            sums = tuple(TreeSum(((margin,),)) for margin in margins)
            yield replace(read, normal_form=ModelConjunction(sums, (span,) * len(sums)))


def _may_turn_twice(read: TabulatedModel, margins: Sequence[Margin], turning: Mapping[int, int]) -> bool:
    """Whether a decision between two values of a domain may be other than at both of them: a single margin lies between
    its values at both ends, several margins need not be positive at the same end.
    """
    if len(margins) == 1:
        return False
    terms = [term for margin in margins for group in margin.groups for term in group.terms]
    summed = {int(read.columns.features[term.column]) for term in terms} & turning.keys()
    straight = all(is_straight(one) for one in terms if int(read.columns.features[one.column]) in summed)
    return not straight or any(len(find_directions(read, margins, j, turning[j])) > 1 for j in summed)

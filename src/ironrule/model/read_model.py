"""Read a user's model: its normal form, and for every code of the space what the final estimator sees.

Both together are all that the model's decision depends on (:class:`TabulatedModel`). Nothing is compiled here, so
that reading a model loads nothing of the search. That a normal form decides as the model does is checked where
it is compiled (:mod:`ironrule.backends.compiled_model`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Points
from ironrule.model.blackbox import BlackBox, ModelSet, list_targets
from ironrule.model.decision import DecisionTarget
from ironrule.model.joint_model import JointModel
from ironrule.model.model_input import (
    TabulatedColumns,
    compute_model_input,
    has_inexact_integer,
    raise_inexact_column,
    tabulate,
)
from ironrule.model.normal_form.conjunction import ModelConjunction
from ironrule.model.normal_form.network import Network
from ironrule.model.normal_form.splits import Lookup, LookupSplit, ThresholdSplits
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSplit, TreeSum
from ironrule.model.pipeline import split_pipeline
from ironrule.model.protocol import NormalForm, Unreadable, require_readable
from ironrule.model.readers.registry import get_input_conversion, read_estimator
from ironrule.model.saved_model import SavedModel
from ironrule.space.reduced import ReducedSpace
from ironrule.space.space import Space

MAX_NODES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TabulatedModel:
    """A model's normal form, and what the model sees for every code of the space: all that its decision depends on.

    ``members``: where several models were joined, each of them as it was read.
    """

    normal_form: NormalForm
    columns: TabulatedColumns
    members: tuple[TabulatedModel, ...] = ()

    @property
    def tree_sum(self) -> TreeSum:
        """The normal form of a model that is a sum of trees; raises Unreadable if it is none."""
        if not isinstance(self.normal_form, TreeSum):
            raise Unreadable(f"a {self.normal_form.kind} is not a sum of trees")
        return self.normal_form

    @property
    def parts(self) -> tuple[TabulatedModel, ...]:
        """The models that are read together and stay apart, each with its own columns; of others the model itself."""
        form, columns = self.normal_form, self.columns
        if not isinstance(form, ModelConjunction):
            return (self,)
        return tuple(
            TabulatedModel(part, TabulatedColumns(columns.features[first:end], columns.values[first:end]))
            for part, (first, end) in zip(form.parts, form.spans, strict=True)
        )

    def reduce(self, reduced: ReducedSpace, used_columns: set[int]) -> TabulatedModel:
        """The same over some features of the space, among them those of all columns that are used: to the other columns
        the model pays no attention, so each keeps the value that it has for the first code of its feature.
        """
        if reduced.is_whole:
            return self
        place_by_feature = {feature: place for place, feature in enumerate(reduced.kept.tolist())}
        features, values = np.zeros(len(self.columns.features), dtype=np.intp), list[AnyArray]()
        for column, (feature, table) in enumerate(zip(self.columns.features, self.columns.values, strict=True)):
            place = place_by_feature.get(int(feature))
            if place is None and column in used_columns:
                raise ValueError(f"feature {feature} is left out, but column {column}, which is used, comes from it")
            features[column] = place or 0
            values.append(np.repeat(table[:1], reduced.space.sizes[0]) if place is None else table)
        return TabulatedModel(self.normal_form, TabulatedColumns(features, tuple(values)))


def read_model(
    model: Any,
    black_box: BlackBox,
    space: Space,
    past: Points,
    target: DecisionTarget,
    known: NormalForm | None = None,
) -> TabulatedModel:
    """Read a model, whatever the margin; raises Unreadable, with the reason, if it cannot be read.

    ``known`` is its normal form, which does not depend on the space, where it was read for the same target before.
    """
    if isinstance(model, JointModel):
        return _read_joint_model(model, black_box, space, past)
    return _read_laid_out(model, black_box, space, past, target=target, known=known)


def _describe_function(function: Any) -> str:
    """Why a function cannot be read; of a method of a model, that the model itself can be passed."""
    owner = getattr(function, "__self__", None)
    if hasattr(owner, "predict"):
        name = f"{type(owner).__name__}.{getattr(function, '__name__', 'predict')}"
        return f"{name} is a function, which can only be asked, not read; pass the {type(owner).__name__} itself"
    return "a plain function can only be asked, not read"


def _read_laid_out(
    model: Any,
    black_box: BlackBox,
    space: Space,
    past: Points,
    *,
    target: DecisionTarget,
    known: NormalForm | None = None,
    lay_out: Callable[[Any], Any] | None = None,
) -> TabulatedModel:
    """Read a model for which tables are as ``lay_out`` makes them of those of the black box."""
    require_readable(hasattr(model, "predict"), _describe_function(model))
    transform, final = split_pipeline(model)
    normal_form = known or _read_target(final, target)
    if (count := normal_form.node_count) > MAX_NODES:
        raise Unreadable(f"its trees have {count:,} nodes, and models of up to {MAX_NODES:,} are read so far")

    def decode(points: Points) -> Any:
        table = black_box.layout.decode(points)
        return table if lay_out is None else lay_out(table)

    _require_exact_layout(decode(past[:1]), black_box, space)
    intake, names = get_input_conversion(final), black_box.layout.names
    columns = tabulate(
        lambda points: compute_model_input(transform, decode(points), intake, names),
        space,
        past,
        alone=transform is not None and transform.runs_user_function,
    )
    return TabulatedModel(normal_form, columns)


def _read_joint_model(joint: JointModel, black_box: BlackBox, space: Space, past: Points) -> TabulatedModel:
    """What several decisions all desire: of one model, in its own columns; else in those of all. Sums of trees become
    one sum, unless the members are to stay apart; networks with other models always stay apart.
    """
    reads = tuple(
        _read_laid_out(one.model, black_box, space, past, target=one.target, lay_out=one.lay_out)
        for one in joint.members
    )
    if (count := sum(read.normal_form.node_count for read in reads)) > MAX_NODES:
        raise Unreadable(f"their trees have {count:,} nodes together, and up to {MAX_NODES:,} are read so far")
    if joint.shared is not None and not joint.apart:
        form = reads[0].normal_form
        for read in reads[1:]:
            form = form.intersect(read.normal_form)
        return replace(reads[0], normal_form=form, members=reads)
    if joint.shared is not None:
        shared = [part.normal_form for read in reads for part in _split_margins(joint, read)]
        spans = ((0, len(reads[0].columns.values)),) * len(shared)
        return replace(reads[0], normal_form=ModelConjunction(tuple(shared), spans), members=reads)
    merged = None if joint.apart else _merge_sums(reads)
    if merged is not None:
        return replace(merged, members=reads)
    return replace(_keep_apart(joint, reads), members=reads)


def _keep_apart(joint: JointModel, reads: Sequence[TabulatedModel]) -> TabulatedModel:
    """Members that no single normal form holds, side by side: the trees of all in one sum, where that is possible, the
    margins of one network together, and every sum with terms by itself.
    """
    trees = [read for read in reads if isinstance(read.normal_form, TreeSum) and not _has_terms(read.normal_form)]
    merged = _merge_sums(trees) if trees else None
    parts = list[TabulatedModel]() if merged is None else [merged]
    networks: dict[int, TabulatedModel] = {}
    for member, read in zip(joint.members, reads, strict=True):
        if isinstance(read.normal_form, Network):
            earlier = networks.get(id(member.model))
            form = read.normal_form if earlier is None else earlier.normal_form.intersect(read.normal_form)
            networks[id(member.model)] = replace(read, normal_form=form)
        elif merged is None or _has_terms(read.tree_sum):
            parts += _split_margins(joint, read)
    parts += networks.values()
    ends = np.cumsum([len(part.columns.values) for part in parts]).tolist()
    features = np.concatenate([part.columns.features for part in parts])
    values = tuple(table for part in parts for table in part.columns.values)
    spans = tuple(zip([0, *ends[:-1]], ends, strict=True))
    form = ModelConjunction(tuple(part.normal_form for part in parts), spans)
    return TabulatedModel(form, TabulatedColumns(features, values))


def _split_margins(joint: JointModel, read: TabulatedModel) -> list[TabulatedModel]:
    """One sum for each margin that must be positive, where margins are to stay apart; else the model as it is."""
    form = read.normal_form
    if not (joint.margins_apart and isinstance(form, TreeSum) and len(form.alternatives) == 1 and _has_terms(form)):
        return [read]
    return [replace(read, normal_form=TreeSum(((margin,),))) for margin in form.alternatives[0]]


def _has_terms(tree_sum: TreeSum) -> bool:
    return any(group.terms for group in tree_sum.groups)


def _merge_sums(reads: Sequence[TabulatedModel]) -> TabulatedModel | None:
    """Sums of trees and terms as one, over the columns of all; None where one is a network, where some see numbers and
    others texts, or where they have too many alternatives together.
    """
    first, *others = reads
    if not all(isinstance(read.normal_form, TreeSum) for read in reads):
        return None
    values, features, total = [*first.columns.values], [first.columns.features], first.tree_sum
    try:
        for read in others:
            total = total.intersect(_shift_columns(read.tree_sum, len(values)))
            values += read.columns.values
            features.append(read.columns.features)
    except Unreadable:
        return None
    if len({table.dtype.kind == "O" for table in values}) > 1:
        return None
    return TabulatedModel(total, TabulatedColumns(np.concatenate(features), tuple(values)))


def _shift_columns(tree_sum: TreeSum, distance: int) -> TreeSum:
    """The same trees and terms, whose columns stand further back among those of several models."""
    lookups: dict[Lookup, Lookup] = {}  # splits of one table still share it

    def shift_tree(tree: Tree) -> Tree:
        splits = tree.splits
        if isinstance(splits, ThresholdSplits):
            width = int(splits.column.max(initial=-1)) + 1
            return replace(tree, splits=splits.move_columns(range(distance, distance + width), shift_split))
        return replace(tree, splits=tuple(None if split is None else shift_split(split) for split in splits))

    def shift_split(split: TreeSplit) -> TreeSplit:
        if isinstance(split, LookupSplit):
            if split.lookup not in lookups:
                lookups[split.lookup] = replace(split.lookup, column=split.column + distance)
            return replace(split, lookup=lookups[split.lookup])
        require_readable(is_dataclass(split) and not isinstance(split, type), "a split that names no column")
        known: Any = split  # a dataclass, as all splits of readers are
        shifted: TreeSplit = replace(known, column=split.column + distance)
        return shifted

    def shift_group(group: LinkedGroup) -> LinkedGroup:
        terms = tuple(replace(term, column=term.column + distance) for term in group.terms)
        return replace(group, trees=tuple(map(shift_tree, group.trees)), terms=terms)

    def shift_margin(margin: Margin) -> Margin:
        return replace(margin, groups=tuple(map(shift_group, margin.groups)))

    return TreeSum(tuple(tuple(map(shift_margin, margins)) for margins in tree_sum.alternatives))


def list_member_reads(model: Any, read: TabulatedModel) -> list[tuple[Any, TabulatedModel]]:
    """The models that a joint model's turning points come from, each with what was read of it; else the model itself.

    Of one model with several targets, all that was read is in its own columns; joined models each have theirs.
    """
    if not isinstance(model, JointModel):
        return [(model, read)]
    if model.shared is not None:
        return [(model.shared, part) for part in read.parts]
    pairs = zip(model.members, read.members, strict=True)
    return [(member.model, part) for member, own in pairs for part in _split_margins(model, own)]


def _read_target(estimator: Any, target: DecisionTarget) -> NormalForm:
    """The normal form of an estimator for a target, which may be a band of scores."""
    if isinstance(estimator, SavedModel):
        return estimator.get_normal_form(target)
    if target.upper is None:
        return read_estimator(estimator, target.desired, target.threshold, target.direction)
    low_enough = read_estimator(estimator, target.desired, target.upper).negate()
    if target.threshold is None:
        return low_enough
    return read_estimator(estimator, target.desired, target.threshold).intersect(low_enough)


def _require_exact_layout(laid: Any, black_box: BlackBox, space: Space) -> None:
    """Raise Unreadable if whole numbers are no longer exact where they are laid out beside others in one array."""
    if isinstance(laid, np.ndarray) and laid.dtype.kind == "f":
        for name, source in zip(black_box.layout.names, black_box.layout.feature_indices, strict=True):
            if has_inexact_integer(space.features[source].values):
                raise_inexact_column(name)


def read_models(
    models: Sequence[Any],
    model_set: ModelSet,
    space: Space,
    past: Points,
    target: DecisionTarget,
    known: Sequence[NormalForm] = (),
) -> list[tuple[Any, TabulatedModel]]:
    """Every model with its normal form, for every way in which it is asked, not yet checked against it; with a margin
    the first one also as it is, since counterfactuals are its own. Raises Unreadable if one of them cannot be read.

    ``known`` has the normal forms in the same order, where they were read before.
    """
    asked = [
        (model, each, box)
        for (model, each), box in zip(list_targets(models, target), model_set.black_boxes, strict=True)
    ]
    if target.margin:
        asked.append((models[0], target, model_set.primary))
    forms: Sequence[NormalForm | None] = known or [None] * len(asked)
    return [
        (model, read_model(model, box, space, past, own_target, known=form))
        for (model, own_target, box), form in zip(asked, forms, strict=True)
    ]

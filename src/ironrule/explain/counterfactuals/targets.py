"""Counterfactuals that reach something else than the explainer's desired outcome, or that reach it robustly.

The same model, data and space with another decision: the model is read and compiled for it once, and its outcomes of
the past rows are what the model says now. The last few targets are kept. A feature may be an interval for the
explainer's own outcome and not for a target: a band of a linear model's scores may lie between two values. Such a
target is searched as sums (:mod:`.joint`), where that is possible, or else with each end of a band, and each model,
read by itself (:func:`build_apart_context`). What neither can search looks at the values seen alone, and nothing of it
is proven.

A robust counterfactual stays desired although scores move by a margin, and under other models too: it is one of the
model that desires what all of these desire (:mod:`ironrule.model.joint_model`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ironrule.arrays import BoolArray, Int64Array
from ironrule.errors import InputError
from ironrule.explain.context import ExplainerContext, list_seen_values
from ironrule.explain.prepare.build import build_context
from ironrule.explain.row_store import OutcomeSource
from ironrule.model.blackbox import match_column_names
from ironrule.model.decision import DecisionTarget
from ironrule.model.joint_model import (
    JOINT_TARGET,
    JointModel,
    ModelColumns,
    build_joint_model,
    list_joint_targets,
    split_bands,
)
from ironrule.model.target import Target
from ironrule.results.scope import SearchScope
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value
from ironrule.space.space import Space
from ironrule.space.table import Table

if TYPE_CHECKING:
    from ironrule.explain.counterfactuals.options import ChangeOptions


@dataclass(frozen=True)
class RecodedRows:
    """The past rows of an explainer, whose outcomes are asked again."""

    old: ExplainerContext = field(repr=False)

    @property
    def table(self) -> Table:
        """A table of their columns."""
        return self.old.table

    def __len__(self) -> int:
        return self.old.row_count

    @property
    def row_numbers(self) -> Int64Array | None:
        """The row numbers in the data."""
        return self.old.row_numbers

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """None: the space has the values of rows alone."""
        return {}

    def encode(self, space: Space, _: bool | None) -> EncodedTable:
        """The rows recoded."""
        return self.old.history.codes.recode(self.old.space.features, space.features)

    def take(self, codes: EncodedTable, rows: BoolArray, _: str | None) -> EncodedTable:
        """The chosen rows."""
        return codes.take(rows)

    def compute_outcomes(
        self, source: OutcomeSource, codes: EncodedTable, _: str | None, progress: bool | None
    ) -> BoolArray:
        """What the model says of every row."""
        return source.decide_rows(codes, progress)


def build_target_context(context: ExplainerContext, target: Target | None, progress: bool | None) -> ExplainerContext:
    """The context whose desired outcome is the target; raises OutcomeError if the model cannot have it."""
    if target is None:
        return context
    wanted = target.resolve(context.target)
    if wanted == context.target:
        return context
    key = ("target", repr(wanted))
    return context.row_contexts.get(
        key, lambda: _build_other_context(context, context.arguments.models[0], wanted, progress)
    )


def build_reached_context(context: ExplainerContext, changes: ChangeOptions, progress: bool | None) -> ExplainerContext:
    """The context whose desired outcome is what counterfactuals are to reach, robustly if that is asked for.

    A context that was built so already stays as it is.
    """
    if not changes.is_robust:
        return build_target_context(context, changes.target, progress)
    model = context.arguments.models[0]
    if isinstance(model, JointModel):
        return context
    target = context.target if changes.target is None else changes.target.resolve(context.target)
    models = (model, *changes.models)
    key = ("robust", repr(target), changes.margin, *map(id, models))  # the context that is kept keeps the models
    return context.row_contexts.get(
        key, lambda: _build_robust_context(context, models, target, changes.margin, progress)
    )


def _build_robust_context(
    context: ExplainerContext, models: Sequence[Any], target: DecisionTarget, margin: float, progress: bool | None
) -> ExplainerContext:
    """The context of the model that desires what all of these desire with a threshold moved by the margin."""
    targets = list_joint_targets(models, target, margin)
    joint = build_joint_model(targets, [_find_columns(context, model) for model, _ in targets], target)
    built = _build_other_context(context, joint, JOINT_TARGET, progress)
    return replace(built, category_lists=context.category_lists)


def build_apart_context(
    context: ExplainerContext, progress: bool | None, margins_apart: bool = False
) -> ExplainerContext | None:
    """The context of the same decision with every model, and each end of a band of scores, read by itself, in which
    features are intervals again that this target alone holds to the values seen; None where some are not.
    ``margins_apart``: each margin by which one class wins over several is read by itself, too.
    """
    if not context.narrowed or context.compiled_model is None:
        return None
    model, target = context.arguments.models[0], context.target
    if not isinstance(model, JointModel):
        if not margins_apart and (target.upper is None or target.threshold is None):
            return None
        model = build_joint_model([(model, target)], [ModelColumns()], target)
    built = context.row_contexts.get(
        ("apart", margins_apart),
        lambda: _build_other_context(context, split_bands(model, margins_apart), JOINT_TARGET, progress),
    )
    if context.narrowed & built.obstacles.keys() or built.compiled_model is None:
        return None
    return replace(
        built, narrowed=frozenset(), category_lists=context.category_lists, extended_values=context.extended_values
    )


def _find_columns(context: ExplainerContext, model: Any) -> ModelColumns:
    """The columns that a model takes of a table with all columns of the space."""
    fitted_on = getattr(model, "feature_names_in_", None)
    if fitted_on is None:
        return ModelColumns(as_array=hasattr(model, "predict") and hasattr(model, "n_features_in_"))
    names = match_column_names(fitted_on, context.table.names)
    known = [name for name in context.table.names if name in context.space.columns]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            expected="all models must take columns of the explainer's space",
            got=f"{unknown[0]!r}, which it does not have",
            hint="build the explainer with a space that has the columns of all models",
            code="missing-columns",
        )
    return ModelColumns(names, tuple(map(known.index, names)))


def _build_other_context(
    context: ExplainerContext, model: Any, target: DecisionTarget, progress: bool | None
) -> ExplainerContext:
    """The context of the same data and space with another model or target."""
    arguments = replace(context.arguments, models=(model,), target=target, space=list_seen_values(context))
    built = build_context(arguments, RecodedRows(context), progress, warn=False)
    narrowed = frozenset(built.obstacles) - frozenset(context.obstacles)
    return replace(built, row_store=context.row_store, narrowed=narrowed)


def build_search_scope(
    context: ExplainerContext, names: Sequence[str] | None = None, changing: Sequence[Constraint] = (), k: int = 1
) -> SearchScope:
    """What was searched in a context that :func:`build_reached_context` made, for documents: the features that may
    vary, the constraints on changes, and how many were asked for. What must be reached is that of the model itself,
    without the margin.
    """
    model = context.arguments.models[0]
    decision = model.target if isinstance(model, JointModel) else context.target
    return SearchScope(
        space=context.space.fingerprint,
        model=context.fingerprint,
        decision=replace(decision, margin=0.0),
        k=k,
        constraints=tuple(map(str, context.space.constraints)),
        breakpoints=context.breakpoints,
        extended_values=context.extended_values,
        features_to_vary=None if names is None else tuple(names),
        change_constraints=tuple(map(str, changing)),
    )

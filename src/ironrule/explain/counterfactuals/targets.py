"""Counterfactuals that reach something else than the explainer's desired outcome.

The same model, data and space with another decision: the model is read and compiled for it once, and its outcomes of
the past rows are what the model says now. The last few targets are kept. A feature may be an interval for the
explainer's own outcome and not for a target: a band of a linear model's scores may lie between two values. Only values
seen are searched then, so nothing is proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ironrule.arrays import BoolArray, Int64Array
from ironrule.explain.context import ExplainerContext, build_context, list_seen_values
from ironrule.explain.row_store import OutcomeSource
from ironrule.model.target import Target
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Value
from ironrule.space.space import Space
from ironrule.space.table import Table


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

    def build() -> ExplainerContext:
        old = context.arguments
        arguments = replace(old, models=old.models[:1], target=wanted, space=list_seen_values(context))
        built = build_context(arguments, RecodedRows(context), progress, warn=False)
        narrowed = frozenset(built.obstacles) - frozenset(context.obstacles)
        return replace(built, row_store=context.row_store, narrowed=narrowed)

    return context.row_contexts.get(("target", repr(wanted)), build)

"""The scope that is at hand: the user's own data, the space over it, and the user's own models.

Everything is made anew from what the user gives, as an explainer makes it from the same arguments; an explanation's
fingerprints tell whether it speaks of the same space and the same models. A model's reading serves only after it has
been compared with the model's own decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ironrule.errors import ConstraintError, InputError, ModelError, TableError
from ironrule.model.blackbox import BlackBox
from ironrule.model.history import behaviour, history_of
from ironrule.model.intervals import between
from ironrule.model.network import Network
from ironrule.model.readable import Read, checked_points, read_model
from ironrule.model.reading import Unreadable
from ironrule.model.versions import Versions, Wanted, ask_versions, joint_fingerprint, read_each
from ironrule.space import Codes, Constraint, Points, Space, Table, as_constraint, read_table
from ironrule.verdict.checker.bounds import Bounds, bounds_of
from ironrule.verdict.checker.networks import NetworkBounds, network_bounds_of
from ironrule.verdict.checker.occurring import Occurring, occurring_in

PAST = 4096
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """The models, the data, the space over it, and whether numbers may lie between the values of their domains."""

    models: tuple[Any, ...]
    table: Table
    space: Space
    intervals: bool


def ground_of(
    models: tuple[Any, ...],
    data: Any,
    space: Space | None,
    constraints: Sequence[str | Constraint],
    columns: Sequence[str] | None,
    intervals: bool,
    progress: bool | None,
) -> Ground:
    """Read the data; constraints that speak of the row explained say nothing about rules and are left aside."""
    if space is not None and not isinstance(space, Space):
        raise InputError(f"space must be a Space, such as Space.from_file gives, but {type(space).__name__} came")
    table = read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None)
    given = [constraints] if isinstance(constraints, (str, Constraint)) else constraints
    on_space = [one for one in map(as_constraint, given) if not one.mentions_instance]
    if space is None:
        chosen = columns if columns is not None else _columns_of(models[0], table)
        space = Space.infer(table, columns=chosen, progress=progress)
    return Ground(models, table, replace(space, constraints=(*space.constraints, *on_space)), intervals)


def _columns_of(model: Any, table: Table) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so."""
    names = getattr(model, "feature_names_in_", None)
    absent = [] if names is None else [str(name) for name in names if name not in table.names]
    if absent:
        raise TableError(f"the data must have the model's column {absent[0]!r}, but it has {', '.join(table.names)}")
    return None if names is None else tuple(map(str, names))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One model as it is asked, what it reads as, and what bounds its margins."""

    asked: BlackBox
    read: Read
    bounds: Bounds | NetworkBounds


def bounds_for(read: Read, space: Space) -> Bounds | NetworkBounds:
    """What bounds the margins of a reading, whatever its kind."""
    if isinstance(read.reading, Network):
        return network_bounds_of(read.reading, read.columns, space)
    return bounds_of(read.reading, read.columns, space)


@dataclass(frozen=True, eq=False)
class Scope:
    """Models with what counts as desired, and a space. What takes time is done when it is first needed."""

    space: Space
    past: Codes  # past rows that can occur
    models: tuple[Any, ...]
    asked: Versions
    wanted: Wanted

    @cached_property
    def parts(self) -> tuple[Part, ...] | str:
        """The models, read; or why they could not be, or are not to be trusted."""
        past = self.past.points(slice(0, PAST))
        try:
            return tuple(self._part(model, box, past) for model, box in zip(self.models, self.asked.boxes, strict=True))
        except Unreadable as reason:
            return str(reason)

    def _part(self, model: Any, asked: BlackBox, past: Points) -> Part:
        read = read_model(model, asked, self.space, past, self.wanted.desired, self.wanted.lowered(model))
        bounds = bounds_for(read, self.space)
        if not _agrees(bounds, asked, self.space, past):
            raise Unreadable("its reading decides otherwise than the model itself")
        return Part(asked, read, bounds)

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of models that can be read; empty where they cannot."""
        parts = self.parts
        return "" if isinstance(parts, str) else joint_fingerprint([part.read.fingerprint for part in parts])

    @cached_property
    def behaviour(self) -> str:
        """The fingerprint of models that are only asked: what they decided on past rows."""
        first = self.past.take(slice(0, PAST))
        return behaviour(history_of(self.space, first, self.asked.desired(first.points())))

    @cached_property
    def occurring(self) -> Occurring:
        """What can occur."""
        return occurring_in(self.space.feasible)

    def coverage(self, low: Points, high: Points) -> int:
        """How many past rows lie in a box."""
        return int(np.count_nonzero(self.past.inside(low, high, self.space.sizes)))

    def past_exception(self, low: Points, high: Points) -> Points | None:
        """A past row in a box that has the desired outcome, if there is one."""
        rows = self.past.points(np.flatnonzero(self.past.inside(low, high, self.space.sizes)))
        desired = rows[self.asked.desired(rows)]
        return desired[0] if len(desired) else None


def scope_of(ground: Ground, wanted: Wanted) -> Scope:
    """The scope of a decision; raises OutcomeError if it does not fit the models."""
    space, models = ground.space, ground.models
    asked = ask_versions(models, ground.table, space, wanted)
    if ground.intervals:
        past = _occurring(space, ground.table).points(slice(0, PAST))
        try:
            space = between(space, models, read_each(models, asked, space, past, wanted), ground.table)
        except Unreadable as reason:
            raise ModelError(f"whole intervals need a model whose thresholds can be read, but: {reason}") from None
        asked = ask_versions(models, ground.table, space, wanted)
    return Scope(space, _occurring(space, ground.table), models, asked, wanted)


def _occurring(space: Space, table: Table) -> Codes:
    """The past rows that satisfy the constraints on the space."""
    codes = space.encode(table, progress=False)
    if not space.feasible.predicates:
        return codes
    starts = range(0, len(codes), CHUNK)
    kept = np.concatenate([space.feasible.admits(codes.points(slice(start, start + CHUNK))) for start in starts])
    if not kept.any():
        raise ConstraintError("some past row must satisfy the constraints on the space, but none does")
    return codes.take(kept)


def _agrees(bounds: Bounds | NetworkBounds, asked: BlackBox, space: Space, past: Points) -> bool:
    """Whether a reading decides as the model does, on past rows, on random points and at every value, where rounding
    leaves no doubt.
    """
    points = checked_points(space, past)
    points = points[space.feasible.admits(points)]
    desired = asked.desired(points)
    possible, sure = bounds.decided(points)
    return not ((desired & ~possible).any() or (sure & ~desired).any())

"""Read the models over a space: which numeric features may take any number, and the exact oracle.

**Domains.** A numeric feature may take any number from the smallest to the largest value where the model can be read
so far that all places are known at which it turns (:mod:`ironrule.model.intervals`); elsewhere the values seen are all
that is spoken of. ``DomainMode`` says what the user wants: "auto" takes intervals where they can be had, "interval"
refuses a model without them, "seen" takes the values alone.

**Reading.** A model that can be read is compiled, compared with its own decisions on past rows, and gets an exact
oracle. Of any other it is known why it cannot be read; it can only be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ironrule.arrays import Points
from ironrule.backends.compiled_model import CompiledModel, compile_models, reduce_tabulated
from ironrule.errors import ConstraintError, ModelError
from ironrule.model.blackbox import ModelSet
from ironrule.model.history import History, fingerprint_outcomes
from ironrule.model.intervals import Gaps, RefinedSpace, find_gaps, refine_space
from ironrule.model.protocol import Model, NormalForm, Unreadable
from ironrule.model.read_model import list_member_reads, read_models
from ironrule.model.reduced_model import embed_model, lift_model
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value
from ironrule.space.reduced import ReducedSpace
from ironrule.space.space import Space
from ironrule.space.table import Table

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.explain.context import ExplainerArguments
    from ironrule.oracles.protocol import Oracle

CHECKED_ROWS = 4096
TRIED_BATCHES = 32  # of so many points, where there are no past rows


class RefinedDomains(NamedTuple):
    """A space with its intervals and what their domains leave out (None where there are no intervals); and the models'
    normal forms, in the order of :func:`read_models`, where they were read on the way.
    """

    refined: RefinedSpace
    gaps: Gaps | None
    normal_forms: Sequence[NormalForm] = ()


def refine_domains(
    arguments: ExplainerArguments,
    space: Space,
    model_set: ModelSet,
    checked: Points,
    *,
    table: Table,
    inserted: Mapping[str, Sequence[Value]],
    known: Sequence[NormalForm] = (),
) -> RefinedDomains:
    """The intervals of a space; ``known`` has the models' normal forms, where they were read before."""
    if arguments.domain == "seen":
        return RefinedDomains(RefinedSpace(space, {}), None)
    try:
        each = read_models(arguments.models, model_set, space, checked, arguments.target, known=known)
        reads = [read for _, read in each]
        members = [one for pair in each for one in list_member_reads(*pair)]
        joint = [read for read in reads if read.members]
        refined = refine_space(space, [model for model, _ in members], [read for _, read in members], table, joint)
    except Unreadable as reason:
        require_intervals(arguments, str(reason))
        return RefinedDomains(keep_seen_values(space, str(reason)), None)
    normal_forms = [read.normal_form for read in reads]
    for name, obstacle in refined.obstacles.items():
        if space[name].interval is not False:
            require_intervals(arguments, f"{name!r}: {obstacle}")
    if not any(feature.interval for feature in refined.space.features):
        return RefinedDomains(refined, None, normal_forms)
    refined = replace(refined, space=refined.space.add_values(inserted))
    return RefinedDomains(refined, find_gaps(refined.space, reads), normal_forms)


def keep_seen_values(space: Space, reason: str) -> RefinedSpace:
    """The space as it is, with the reason why none of its numbers is an interval."""
    return RefinedSpace(space, {feature.name: reason for feature in space.features if feature.can_be_interval})


def require_intervals(arguments: ExplainerArguments, reason: str) -> None:
    """Raise ModelError if the user insists on intervals."""
    if arguments.domain == "interval":
        raise ModelError(
            f"whole intervals are not available for this model: {reason}",
            hint='pass domain="auto" for intervals where they can be had, or domain="seen"',
            code="intervals-unavailable",
        )


def find_breakpoints(
    seen: Space, whole: Space, earlier: Mapping[str, tuple[Value, ...]]
) -> Mapping[str, tuple[Value, ...]]:
    """By interval, the numbers in its domain that no past row has."""
    pairs = zip(seen.features, whole.features, strict=True)
    added = {
        new.name: {*new.values} - {*old.values} | {*earlier.get(new.name, ())} for old, new in pairs if new.interval
    }
    return {name: tuple(sorted(numbers)) for name, numbers in added.items()}


class ExactReading(NamedTuple):
    """What could be read of a model, or why nothing; its exact oracle; and who decides single points."""

    compiled_model: CompiledModel | None
    unreadable_reason: str | None
    oracle: Oracle | None
    point_model: Model
    reduced: ReducedSpace
    gaps: Gaps | None


def read_exactly(
    arguments: ExplainerArguments,
    model_set: ModelSet,
    space: Space,
    codes: EncodedTable,
    *,
    engine: BoundEngine | None,
    gaps: Gaps | None = None,
    changing: Sequence[Constraint] = (),
    known: Sequence[NormalForm] = (),
) -> ExactReading:
    """Read and compile the models for exact search, if they can be read; ``known`` has their normal forms."""
    past = list_checked_points(space, codes)
    try:
        also = {j for constraint in changing for j in bind_constraint(constraint, space.features).columns}
        compiled = compile_models(arguments.models, model_set, space, past, arguments.target, also=also, known=known)
        reduced_gaps = find_reduced_gaps(compiled, gaps is not None)
        return build_exact_reading(compiled, model_set, past[0], engine=engine, gaps=reduced_gaps)
    except Unreadable as reason:
        return build_unreadable(str(reason), model_set, space)


def build_unreadable(reason: str, model_set: ModelSet, space: Space) -> ExactReading:
    """What is known of models that can only be asked."""
    return ExactReading(None, reason, None, model_set, ReducedSpace(space, space, np.arange(len(space))), None)


def find_reduced_gaps(compiled: CompiledModel, has_gaps: bool) -> Gaps | None:
    """The gaps of the features that searches work on."""
    if not has_gaps:
        return None
    return find_gaps(compiled.reduced.space, [reduce_tabulated(read, compiled.reduced) for read in compiled.reads])


def build_exact_reading(
    compiled: CompiledModel, model_set: ModelSet, row: Points, *, engine: BoundEngine | None, gaps: Gaps | None
) -> ExactReading:
    """The exact oracle of a compiled model; raises Unreadable if the model is found to decide otherwise.

    ``row`` is any row: what it has of features that the model does not use stands for all of their values.
    """
    from ironrule.backends.registry import build_exact_oracle

    reduced = compiled.reduced
    oracle = build_exact_oracle(compiled.parts, embed_model(model_set, reduced, row), reduced.space, engine, gaps)
    known = oracle.capabilities.point_model or compiled.final_estimator
    point_model: Model = model_set if known is None else lift_model(known, reduced)
    return ExactReading(compiled, None, oracle, point_model, reduced, gaps)


def list_checked_points(space: Space, codes: EncodedTable) -> Points:
    """Past rows; where there are none, points that satisfy the constraints, or a ConstraintError if none is found."""
    if len(codes):
        return codes.points(slice(0, CHECKED_ROWS))
    rng = np.random.default_rng(0)
    # Without past rows, points are drawn at random until some satisfy the constraints.
    for _ in range(TRIED_BATCHES):
        points = rng.integers(0, space.sizes, size=(CHECKED_ROWS, len(space)), dtype=np.int32)
        possible = points[space.feasible.admits(points)]
        if len(possible):
            return possible
    raise ConstraintError("no point that satisfies the constraints on the space was found", code="no-past-rows")


def fingerprint_model(history: History, compiled_model: CompiledModel | None) -> str:
    """A model by what it decides on past rows, which needs no reading of it, and behind that by its structure."""
    decisions = fingerprint_outcomes(history.codes, history.outcomes)
    return decisions if compiled_model is None else f"{decisions}-{compiled_model.fingerprint[:31]}"

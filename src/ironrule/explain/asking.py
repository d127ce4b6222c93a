"""A row that is asked about: as codes, with what may occur and what may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.errors import ConstraintError, OutcomeError
from ironrule.explain.arguments import as_mapping
from ironrule.explain.past import InMemory
from ironrule.explain.prepared import Prepared
from ironrule.explain.question import KnownPoint
from ironrule.rule import relevant_to
from ironrule.space import Constraint, Feasible, Points, bind, feasible
from ironrule.space.plaf import Predicate

if TYPE_CHECKING:
    from ironrule.oracles import Case


def case_of(ready: Prepared, row: Any, recourse: Sequence[Constraint] = (), of_itself: bool = False) -> Case:
    """The row with all that an oracle needs; raises OutcomeError if it has the desired outcome.

    ``of_itself``: the model as it is counts, without the margin and the other models that rules must withstand.
    """
    from ironrule.oracles.protocol import Case

    instance, desired = coded(ready, row)
    if desired:
        raise OutcomeError(
            expected="the row must have the undesired outcome",
            got="the desired outcome",
            hint="choose a row that the model denies, or name another desired class",
            code="row-not-denied",
        )
    if ready.withstands and not of_itself and ready.model.desired(instance[None, :])[0]:
        raise OutcomeError(
            "no robust rule exists for this row: its score lies within the margin, or another of the models gives it "
            "the desired outcome",
            hint="lower the margin, or leave that model out",
            code="row-not-robustly-denied",
        )
    allowed, features = ready.space.feasible, ready.space.features
    if recourse:
        predicates = [*allowed.predicates, *(bind(constraint, features) for constraint in recourse)]
        allowed = _allowed(ready, predicates, instance)
    relevant = relevant_to(ready.space, instance, ready.named)
    model = ready.model.own if of_itself else ready.model
    return Case(ready.space, model, ready.history, relevant, allowed, ready.fingerprint)


def _allowed(ready: Prepared, predicates: Sequence[Predicate], instance: Points) -> Feasible:
    """What may occur and be changed to; raises ConstraintError if nothing may."""
    try:
        return feasible(ready.space.features, predicates, instance)
    except ConstraintError:
        if ready.gaps is None or ready.gaps.respected_by(predicates, instance):
            raise
        raise ConstraintError(
            "no values of the domains satisfy the constraints, and numbers between them are not tried",
            hint="use bounds that are values of the domains, or declare a space that has them",
            code="unsatisfiable-constraints",
        ) from None


def coded(ready: Prepared, row: Any) -> tuple[Points, bool]:
    """A row as codes, and whether its outcome is the desired one; of a past row both are known."""
    if isinstance(row, KnownPoint):
        return row.codes, False
    by_number = isinstance(row, (int, np.integer)) and not isinstance(row, bool)
    if by_number and (ready.rows is None or not isinstance(ready.past, InMemory)):
        place = int(ready.places_of(np.array([row], dtype=np.int64))[0])
        return ready.history.codes.row(place), bool(ready.outcomes[place])
    given = as_mapping(row, ready.table, ready.model.own.layout.names)
    instance = ready.space.encode_row(given, ignore=ready.table.names)
    for predicate in ready.space.feasible.predicates:
        if not predicate(instance[None, :], None)[0]:
            raise ConstraintError(
                f"the row does not satisfy {str(predicate.constraint)!r}", code="row-violates-constraint"
            )
    decides = ready.model.own if ready.withstands else ready.word
    return instance, bool(decides.desired(instance[None, :])[0])

"""That the changes an explanation suggests are the nearest of their kind: loaded where that is claimed.

They are put as counterfactuals of the row, with the constraints on changes that the document or the caller names, and
with what the document says of each feature's limits; and what is known may not become missing, unless a suggestion does
that. Whatever is confirmed holds under further constraints as well; but documents of earlier versions do not name all,
and a nearer one that is found may be forbidden by one of those. Then nothing can be said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ironrule.checker.changes.claims import CallersMeaning
from ironrule.checker.changes.costs import DEFAULT_COST
from ironrule.checker.changes.counterfactuals import CounterfactualsChecker
from ironrule.checker.changes.document import CounterfactualsDocument, ScopeClaim, parse_cost
from ironrule.checker.document import MALFORMED, ChangesClaim, ExplanationDocument
from ironrule.checker.result import ClaimFailed, ClaimUndecided
from ironrule.checker.scope import UserInputs
from ironrule.checker.space.space import CheckerSpace, parse_constraints
from ironrule.errors import ConstraintError

if TYPE_CHECKING:
    from ironrule.checker.space.constraints import FormulaNode

SIGNS = {(): "==", ("rise",): ">=", ("fall",): "<="}
MOVES = {"may only rise": ["rise"], "may only fall": ["fall"], None: ["rise", "fall"]}  # others: none
WORDS = re.compile(
    r"(?P<moves>immutable|protected|may not change|may only rise|may only fall)? ?"
    r"(by at least (?P<step>[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?))?( by its name| by the data)?"
)
STEP_TOLERANCE = 1e-6  # of a least step that is no whole number: the constraint leaves that much to rounding


def check_nearest_changes(document: ExplanationDocument, inputs: UserInputs, cache: dict[str, Any]) -> str:
    """That nothing is nearer than the changes that are suggested; raises ClaimFailed if they break what limits them,
    ClaimUndecided if there is a nearer one.
    """
    changes, nearer = document.changes, None
    assert changes is not None
    _check_words(changes)
    try:
        checker = _build_checker(document, changes, inputs, cache)
        checker.check_points()
        try:
            told = [checker.check_nearest(place) for place in range(len(changes.counterfactuals))]
            told += [checker.check_no_other()] if changes.complete and not told else []
        except ClaimFailed as reason:
            nearer = reason
    except ClaimUndecided as reason:
        return f"that they are the nearest was not decided: {reason}"
    if nearer is not None:
        raise ClaimUndecided(f"{nearer}, unless constraints forbid it that the document does not name")
    if not told:
        return "that is not said to be proven"
    count = len(changes.constraints)
    named = f" and {count} constraint{'s' if count > 1 else ''} of the document" if count else ""
    return f"within the limits{named}, where nothing becomes missing, {told[-1]}"


def _build_checker(
    document: ExplanationDocument, changes: ChangesClaim, inputs: UserInputs, cache: dict[str, Any]
) -> CounterfactualsChecker:
    try:
        cost = DEFAULT_COST if changes.cost is None else parse_cost(changes.cost)
    except MALFORMED as error:
        raise ClaimFailed(f"the cost of the suggested changes cannot be read: {error}") from None
    limits = tuple(_list_limits(changes, inputs.space))
    try:
        parse_constraints(limits)
    except ConstraintError as error:
        raise ClaimUndecided(f"the limits cannot be put as constraints: {error.statement}") from None
    scope = ScopeClaim(
        space=document.space,
        model=document.model,
        decision=replace(document.decision, margin=0.0),
        upper=None,
        k=len(changes.counterfactuals) + 1,
        constraints=inputs.space.constraints,
        change_constraints=tuple(dict.fromkeys((*inputs.change_constraints, *changes.constraints, *limits))),
        breakpoints=document.breakpoints,
        extended_values=document.extended_values,
    )
    asked = CounterfactualsDocument(
        instance=document.instance,
        counterfactuals=changes.counterfactuals,
        proven=True,
        resolution=changes.resolution,
        domains={},
        digest="",
        data={},
        scope=scope,
        cost=cost,
    )
    # suggestions are of the first model by itself; who read it is said of the rule alone, so no reading is borrowed
    alone = replace(inputs, models=inputs.models[:1], allow_shared_reading=False)
    return CounterfactualsChecker.build(asked, alone, CallersMeaning(None, None, False, cache))


def _check_words(changes: ChangesClaim) -> None:
    """Raise ClaimFailed unless the words for every limit say how a feature may move, and no least step but that of a
    constraint.
    """
    try:
        named = [_drop_places(one.formula) for one in parse_constraints(changes.constraints)]
        for name, limit in changes.limits.items():
            said = WORDS.fullmatch(limit["reason"])
            right = said is not None and MOVES.get(said["moves"], []) == list(limit["moves"])
            if said is not None and said["step"] is not None:
                (step,) = parse_constraints((_write_step(name, said["step"]),))
                right &= _drop_places(step.formula) in named
            if not right:
                raise ClaimFailed(f"what limits {name!r} must be named as it is, but is said to be {limit['reason']!r}")
    except ConstraintError as error:
        raise ClaimFailed(f"the constraints on changes cannot be read: {error.statement}") from None


def _write_step(feature: str, words: str) -> str:
    """A least step as a constraint: equal to the row's value, or so far above or below."""
    step = int(words) if words.isdigit() else float(words) * (1 - STEP_TOLERANCE)
    name = json.dumps(feature, ensure_ascii=False)
    return f"cf[{name}] == x[{name}] or cf[{name}] >= x[{name}] + {step!r} or cf[{name}] <= x[{name}] - {step!r}"


def _drop_places(node: FormulaNode) -> FormulaNode:
    """A formula without where its parts stand in the text."""
    return node._replace(parts=tuple(map(_drop_places, node.parts)), place=0)


def _list_limits(changes: ChangesClaim, space: CheckerSpace) -> Iterator[str]:
    """What limits the changes, as constraints."""
    lost = {name for one in changes.counterfactuals for name, value in one["values"].items() if value is None}
    for feature in space.features:
        name, limit = json.dumps(feature.name, ensure_ascii=False), changes.limits.get(feature.name)
        sign = None if limit is None else SIGNS.get(tuple(limit["moves"]))
        if sign is not None:
            yield f"cf[{name}] {sign} x[{name}]"
        if feature.missing and feature.name not in lost:
            yield f"cf[{name}] != missing or x[{name}] == missing"

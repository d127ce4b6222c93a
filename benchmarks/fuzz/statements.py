"""Which claims of a document are true: by every point of the space and the estimator's own word.

A document is plain data, as ``explanation.to_dict()`` gives it, perhaps altered. ``false_statements`` lists what is
false in it. A document in which nothing is false may be called proven, altered or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.fuzz.claims import can_move
from benchmarks.fuzz.data import Value
from benchmarks.fuzz.subjects import Decision, Flags
from benchmarks.fuzz.truth import Part, Truth, same
from benchmarks.fuzz.world import Ints, World


class Nonsense(Exception):  # noqa: N818  # an answer about a document
    """Why a document says nothing that could be true."""


def false_statements(document: Mapping[str, Any], original: Mapping[str, Any], world: World) -> list[str]:
    """What is false in a document; ``original`` is the one that the explainer gave, of the same model and space."""
    try:
        return list(_statements(document, original, world))
    except Nonsense as reason:
        return [str(reason)]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return [f"its form is not that of a document: {error!r}"]


def _statements(document: Mapping[str, Any], original: Mapping[str, Any], world: World) -> Iterator[str]:
    for name in ("format", "space", "model", "model_count"):
        if not _equal(document[name], original[name]):
            yield f"{name}: {document[name]!r} instead of {original[name]!r}"
    if document.get("constraints") not in (None, original.get("constraints")):
        yield "other constraints than those of the space"
    decision = _decision(document["decision"])
    desired = world.desired_by(decision)
    own = world.own_by(decision)
    instance = _point(document["instance"], world, "the instance")
    place = world.index(instance)
    if place is None or desired[place]:
        yield "the instance cannot occur, or is desired"
    if document["history_rows"] != len(world.past):
        yield f"{document['history_rows']} past rows"
    truth = Truth(world, instance, desired)
    permitted = document["restrictions"]
    allowed = truth.permitted(permitted["require"], permitted["forbid"])
    same_decision = _equal(document["decision"], original["decision"])
    for claim in document["rules"]:
        yield from _rule(claim, document, truth)
        mask = truth.mask(_parts(claim))
        if mask is None or (not allowed[mask] and claim["verdict"]["kind"] == "proven"):
            yield "a rule has components that were not permitted, or are not the instance's own"
        if same_decision and claim["rule"]["outcome"] != original["rules"][0]["rule"]["outcome"]:
            yield f"the outcome {claim['rule']['outcome']!r}"
    yield from _bounds(document, truth)
    for shown in document["counterfactuals"]:
        yield from _counterfactual(shown, truth, own)
    yield from _wider(document, truth)
    for name in ("witnesses", "wider_witnesses"):
        for codes in document[name]:
            spot = world.index(world.from_codes(codes))
            if spot is None or not desired[spot]:
                yield f"{name}: {codes} is not desired"
    if any(
        not 0 <= place < len(document["rules"][0]["rule"]["components"]) for place in document["undecided_components"]
    ):
        yield "undecided: a component that the rule does not have"


def _decision(plain: Mapping[str, Any]) -> Decision:
    desired = plain["desired"]
    return Decision(None if desired is None else tuple(dict.fromkeys(desired)), plain["threshold"], plain["margin"])


def _point(values: Any, world: World, what: str) -> Ints:
    point = world.code(values) if isinstance(values, Mapping) else None
    if point is None:
        raise Nonsense(f"{what} is no point of the space: {values!r}")
    return point


def _parts(claim: Mapping[str, Any]) -> list[Part]:
    return [(part["feature"], part["op"], part["value"]) for part in claim["rule"]["components"]]


def _covered(claim: Mapping[str, Any], world: World, points: Ints | None = None) -> Flags:
    covered = world.covered(_parts(claim), points)
    if covered is None:
        raise Nonsense(f"a component makes no sense: {_parts(claim)}")
    return covered


def _rule(claim: Mapping[str, Any], document: Mapping[str, Any], truth: Truth) -> Iterator[str]:
    world = truth.world
    covered = _covered(claim, world)
    if not _covered(claim, world, truth.instance[None, :])[0]:
        yield f"{_parts(claim)} does not cover the instance"
    count = int(_covered(claim, world, world.past).sum())
    if not _equal(claim["coverage"], count):
        yield f"coverage {claim['coverage']!r}, in truth {count}"
    verdict = claim["verdict"]
    if verdict["kind"] == "proven":
        exceptions = np.flatnonzero(covered & truth.desired)
        if len(exceptions):
            yield f"{_parts(claim)} is proven, but {world.decode(world.points[exceptions[0]])} is desired"
        yield from _certificate(verdict["certificate"], document, truth)
    elif verdict["kind"] == "refuted":
        yield from _counterfactual(verdict["counterfactual"], truth, truth.desired & covered)


def _certificate(certificate: Mapping[str, Any], document: Mapping[str, Any], truth: Truth) -> Iterator[str]:
    """The box of a certificate holds no desired point; the space and the model are those of the document."""
    world = truth.world
    for name in ("space", "model"):
        if certificate[name] != document[name]:
            yield f"the certificate is about another {name}"
    inside = np.ones(len(world.points), dtype=np.bool_)
    for j, axis in enumerate(world.axes):
        low, high = certificate["low"][j], certificate["high"][j]
        if not 0 <= low <= high < len(axis.domain):
            raise Nonsense(f"the certificate's box is none: {low} to {high}")
        known = {code: value for value in axis.domain[low : high + 1] if (code := axis.place(value)) is not None}
        places = np.zeros(len(axis.values), dtype=np.bool_)
        places[list(known)] = True
        if world.subject.intervals and axis.ordered:
            numbers = [code for code, value in known.items() if value is not None]
            places[min(numbers, default=0) : max(numbers, default=-1) + 1] = True
        inside &= places[world.points[:, j]]
    found = np.flatnonzero(inside & truth.desired)
    if len(found):
        yield f"the certificate's box holds {world.decode(world.points[found[0]])}, which is desired"


def _bounds(document: Mapping[str, Any], truth: Truth) -> Iterator[str]:
    """What the best rule weighs, and what every permitted one weighs at least."""
    permitted = document["restrictions"]
    mask = truth.mask(_parts(document["rules"][0]))
    if mask is not None:
        weight = truth.weigh(mask, permitted["weights"])
        if Fraction(document["weight"]) != weight:
            yield f"the rule weighs {weight}, not {document['weight']}"
    best = truth.lightest(permitted["weights"], permitted["require"], permitted["forbid"])
    bound = document["lower_bound"]
    if best is None or truth.world.dense:
        return
    if Fraction(bound) > best[0]:
        yield f"at least {bound}, but {truth.shown(best[1])} weighs {best[0]}"


def _counterfactual(shown: Mapping[str, Any], truth: Truth, desired: Flags) -> Iterator[str]:
    world = truth.world
    point = _point(shown["values"], world, "a counterfactual")
    place = world.index(point)
    if place is None or not desired[place]:
        yield f"{shown['values']} is not desired, or no exception"
    before, after = world.decode(truth.instance), world.decode(point)
    changed = [name for name in before if not same(before[name], after[name])]
    said = {one["feature"]: (one["before"], one["after"]) for one in shown["changes"]}
    if sorted(said) != sorted(changed) or len(said) != len(shown["changes"]):
        yield f"the changes {sorted(said)} are not {changed}"
    elif any(not same(said[name][0], before[name]) or not same(said[name][1], after[name]) for name in changed):
        yield f"the changes are not those to {shown['values']}"


def _wider(document: Mapping[str, Any], truth: Truth) -> Iterator[str]:
    wider = document["wider"]
    if wider is None:
        if document["wider_is_maximal"]:
            yield "widest, but there is no wider rule"
        return
    yield from _rule(wider, document, truth)
    less = _covered(document["rules"][0], truth.world) & ~_covered(wider, truth.world)
    if less.any():
        yield "the wider rule covers less"
    if document["wider_is_maximal"]:
        moved = can_move(truth, _parts(wider))
        if moved is not None:
            yield moved


def _equal(one: Value, other: Value) -> bool:
    """Whether two pieces of plain data are the same; a flag is no number."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return same(one, other)

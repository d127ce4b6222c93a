"""Whether an explanation's document is true, by looking at every point of a tiny space and at every rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from checker_examples import Example

from ironrule import Component, Counterfactual, Explainer
from ironrule.arrays import Points
from ironrule.explain.options import parse_weights
from ironrule.results.explanation import RuleRestrictions
from ironrule.rule.instance_components import InstanceComponents, build_instance_components
from tiny_cases import every_point

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def is_true(document: dict[str, Any], example: Example) -> bool:
    """Whether every claim holds; says nothing of how the explanation was found."""
    given = {name: document["decision"][name] for name in ("desired", "threshold", "margin")}
    given["domain"] = "auto" if "breakpoints" in document else "seen"
    explainer = Explainer(example.model, example.data, constraints=example.constraints, models=example.models, **given)
    return all(_claims(document, _World(explainer, example)))


class _World:
    """Every point that can occur, and which of them are desired."""

    def __init__(self, explainer: Explainer, example: Example) -> None:
        self.space, self.models = explainer.space, explainer._context.model
        points = every_point(self.space)
        self.points = points[self.space.feasible.admits(points)]
        self.desired = self.models.desired(self.points)
        self.desired_by_itself = self.models.primary.desired(self.points)
        past = self.space.encode(example.data).points()
        self.past = past[self.space.feasible.admits(past)]

    def is_desired(self, values: dict[str, Any], by_itself: bool = False) -> bool:
        desired = self.desired_by_itself if by_itself else self.desired
        return bool((desired & (self.points == self.space.encode_row(values)).all(axis=1)).any())


def _claims(document: dict[str, Any], world: _World) -> Iterator[bool]:
    space = world.space
    instance = space.encode_row(document["instance"])
    yield not world.is_desired(document["instance"])
    yield (world.points == instance).all(axis=1).any()
    yield document["history_rows"] == len(world.past)
    relevant = build_instance_components(space, instance)
    multiples, unit = parse_weights(document["restrictions"]["weights"], relevant)
    weights = [int(multiple) * unit for multiple in multiples]
    permitted = RuleRestrictions.from_dict(document["restrictions"])
    allowed = relevant.usable & ~relevant.select(permitted.forbid)
    for claim in document["rules"]:
        yield from _about_rule(claim, document, world, instance)
        yield all(_bit(part, relevant) is not None and allowed >> _bit(part, relevant) & 1 for part in _parts(claim))
    best = [_bit(part, relevant) for part in _parts(document["rules"][0])]
    yield sum(weights[bit] for bit in best if bit is not None) == Fraction(document["weight"])
    for counterfactual in document["counterfactuals"]:
        yield _is_counterfactual(counterfactual, world, instance, by_itself=True)
    if document["wider"] is not None:
        yield from _about_rule(document["wider"], document, world, instance)
        best, wider = (_covered(claim, world, world.points) for claim in (document["rules"][0], document["wider"]))
        yield not (best & ~wider).any()
    yield not document["wider_is_maximal"] or (document["wider"] is not None and _is_widest(document["wider"], world))
    for witness in (*document["witnesses"], *document["wider_witnesses"]):
        yield bool((world.desired & (world.points == np.array(witness)).all(axis=1)).any())
    yield Fraction(document["lower_bound"]) <= _least(relevant, allowed, permitted, weights, world)


def _parts(claim: dict[str, Any]) -> list[Component]:
    return [Component.from_dict(part) for part in claim["rule"]["components"]]


def _bit(part: Component, relevant: InstanceComponents) -> int | None:
    return next((bit for bit in relevant.usable_numbers if relevant.component(bit) == part), None)


def _admits(part: Component, world: _World, points: Points) -> Flags:
    """Where a component holds, by the values themselves."""
    feature = world.space[part.feature]
    values = [feature.value(int(code)) for code in points[:, world.space.index(part.feature)]]
    compare = {"<=": lambda v: v <= part.value, ">=": lambda v: v >= part.value, "==": lambda v: v == part.value}
    return np.array([value is not None and compare[part.op](value) for value in values], dtype=np.bool_)


def _covered(claim: dict[str, Any], world: _World, points: Points) -> Flags:
    return np.all([np.ones(len(points), np.bool_), *(_admits(part, world, points) for part in _parts(claim))], axis=0)


def _about_rule(claim: dict[str, Any], document: dict[str, Any], world: _World, instance: Points) -> Iterator[bool]:
    yield bool(_covered(claim, world, instance[None, :])[0])
    yield claim["coverage"] == _covered(claim, world, world.past).sum()
    yield claim["rule"]["outcome"] == world.models.primary.decision.undesired_name
    yield len(set(_parts(claim))) == len(_parts(claim))
    verdict = claim["verdict"]
    exceptions = world.points[_covered(claim, world, world.points) & world.desired]
    if verdict["kind"] == "proven":
        yield len(exceptions) == 0
        yield verdict["certificate"]["space"] == document["space"]
        yield verdict["certificate"]["model"] == document["model"]
    elif verdict["kind"] == "refuted":
        yield _is_counterfactual(verdict["counterfactual"], world, instance)
        yield (exceptions == world.space.encode_row(verdict["counterfactual"]["values"])).all(axis=1).any()


def _is_counterfactual(plain: dict[str, Any], world: _World, instance: Points, by_itself: bool = False) -> bool:
    point = world.space.encode_row(plain["values"])
    right = Counterfactual.from_point(world.space, instance, point).to_dict() == plain
    return right and world.is_desired(plain["values"], by_itself)


def _is_widest(claim: dict[str, Any], world: _World) -> bool:
    """Whether every bound that moved one value further would let an exception in."""
    for place, part in enumerate(_parts(claim)):
        feature = world.space[part.feature]
        code = feature.code(part.value) + {"<=": 1, ">=": -1, "==": 0}[part.op]
        if part.op != "==" and 0 <= code <= feature.last_code:
            components = [dict(one) for one in claim["rule"]["components"]]
            components[place]["value"] = feature.value(code)
            further = {"rule": {"components": components}}
            if not (_covered(further, world, world.points) & world.desired).any():
                return False
    return True


def _least(relevant: InstanceComponents, allowed: int, permitted: RuleRestrictions, weights: Any, world: _World) -> Any:
    """The least weight of a permitted rule without exceptions."""
    bits, required = (
        [bit for bit in relevant.usable_numbers if allowed >> bit & 1],
        [relevant.select([n]) for n in permitted.require],
    )
    desired = world.points[world.desired]
    least = math.inf
    for count in range(len(bits) + 1):
        for chosen in itertools.combinations(bits, count):
            rule = sum(1 << bit for bit in chosen)
            weight = sum(weights[bit] for bit in chosen)
            if weight < least and all(rule & some for some in required):
                least = least if relevant.box(rule).contains(desired).any() else weight
    return least

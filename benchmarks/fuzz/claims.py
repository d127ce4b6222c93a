"""The claims of one explanation, one function each: against every point, by the estimator's own word.

Every function takes the truth of the instance and the tally. A claim that is not made is not counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.fuzz.data import Value
from benchmarks.fuzz.subjects import Flags
from benchmarks.fuzz.tally import Tally
from benchmarks.fuzz.truth import Part, Truth, parts_of, same
from benchmarks.fuzz.world import Axis, Ints, World

APART = 1e-7
"""Distances nearer to each other than this count as equal: the search rounds them to 2**-30 of a range."""


def judge_explanation(truth: Truth, explanation: Any, tally: Tally) -> None:
    """Everything that an explanation claims."""
    tally.note("explanations")
    kind = type(explanation.verdict).__name__
    tally.note(f"verdict {kind}")
    for ranked in explanation.ranked:
        judge_verdict(truth, ranked, "proven", tally)
        judge_coverage(truth, ranked, tally)
    judge_weight(truth, explanation, tally)
    judge_lightest(truth, explanation, tally)
    judge_wider(truth, explanation, tally)
    judge_counterfactuals_shown(truth, explanation, tally)


def judge_verdict(truth: Truth, ranked: Any, claim: str, tally: Tally) -> None:
    """Proven: no desired point satisfies the rule. Refuted: the exception shown is one."""
    world, rule = truth.world, ranked.rule
    covered = world.covered(parts_of(rule))
    if covered is None:
        tally.record(claim, f"{rule} names what the space does not have")
        return
    place = world.index(truth.instance)
    tally.expect("covers the row", place is None or bool(covered[place]), f"{rule} does not cover the row")
    kind = type(ranked.verdict).__name__
    if kind == "Proven":
        exception = world.exception(covered, None if truth.desired is world.desired else truth.desired)
        tally.record(claim, None if exception is None else f"{rule} is proven, but {exception} is desired")
    elif kind == "Refuted":
        shown = ranked.verdict.counterfactual.values
        tally.record("refuted", not_an_exception(truth, rule, shown))


def not_an_exception(truth: Truth, rule: Any, values: Mapping[str, Value]) -> str | None:
    """Why a point is no exception to a rule; None if it is one."""
    place = truth.world.index(truth.world.code(values))
    if place is None:
        return None if truth.world.dense else f"{dict(values)} is no point of the space"
    covered = truth.world.covered(parts_of(rule))
    if covered is None or not covered[place]:
        return f"{dict(values)} does not satisfy {rule}"
    if not truth.desired[place] and not truth.world.single(truth.world.points[place]):
        return f"{dict(values)} is said to break {rule}, but is not desired"
    return None


def judge_coverage(truth: Truth, ranked: Any, tally: Tally) -> None:
    """How many past rows the rule covers."""
    covered = truth.world.covered(parts_of(ranked.rule), truth.world.past)
    if covered is not None:
        count = int(covered.sum())
        tally.expect("coverage", ranked.coverage == count, f"{ranked.rule}: {ranked.coverage}, in truth {count}")


def judge_weight(truth: Truth, explanation: Any, tally: Tally) -> None:
    """What the best rule weighs."""
    mask = truth.mask(parts_of(explanation.rule))
    if mask is None:
        served = explanation.statistics.algorithm == "reused"
        tally.expect("own components", served, f"{explanation.rule} has components that are not the row's own")
        return
    weight = truth.weigh(mask, explanation.restrictions.weights)
    right = math.isclose(float(explanation.weight), float(weight), rel_tol=1e-9)
    tally.expect("weight", right, f"{explanation.rule} weighs {explanation.weight}, in truth {float(weight)}")
    allowed = truth.permitted(explanation.restrictions.require, explanation.restrictions.forbid)
    proven = type(explanation.verdict).__name__ == "Proven"
    tally.expect("permitted", bool(allowed[mask]) or not proven, f"{explanation.rule} was not permitted")


def judge_lightest(truth: Truth, explanation: Any, tally: Tally) -> None:
    """The lower bound, ``minimum_among_permitted`` and ``minimum``: no lighter permitted rule holds, exactly."""
    permitted = explanation.restrictions
    best = truth.lightest(permitted.weights, permitted.require, permitted.forbid)
    bound = float(explanation.lower_bound)
    if bound > 0 and best is not None and not truth.world.dense:
        right = bound <= float(best[0]) or math.isclose(bound, float(best[0]), rel_tol=1e-12)
        tally.expect("lower bound", right, f"at least {bound}, but {truth.shown(best[1])} weighs {float(best[0])}")
    mask = truth.mask(parts_of(explanation.rule))
    if mask is None or truth.world.dense:
        return
    for claim in ("minimum_among_permitted", "minimum"):
        if getattr(explanation, claim):
            weight = truth.weigh(mask, permitted.weights)
            lighter = None if best is None or best[0] >= weight else best
            text = None if lighter is None else f"{truth.shown(lighter[1])} weighs {float(lighter[0])!r}"
            tally.record(claim.replace("_", " "), text and f"{explanation.rule} weighs {float(weight)!r}, but {text}")


def judge_wider(truth: Truth, explanation: Any, tally: Tally) -> None:
    """The wider rule holds, covers what the best one covers, and no bound of it can move further."""
    wider = explanation.wider
    if wider is None:
        return
    judge_verdict(truth, wider, "wider proven", tally)
    judge_coverage(truth, wider, tally)
    best, more = (truth.world.covered(parts_of(rule)) for rule in (explanation.rule, wider.rule))
    if best is not None and more is not None:
        tally.expect("wider", not bool((best & ~more).any()), f"{wider.rule} covers less than {explanation.rule}")
    if explanation.wider_is_maximal:
        tally.record("widest", can_move(truth, parts_of(wider.rule)))


def can_move(truth: Truth, parts: Sequence[Part]) -> str | None:
    """A rule with one bound moved that still has no exception; None if there is none.

    The bound moves by one value, and between two floats to the middle between them: where a neighbour in floating point
    is all that could be gained, nothing is said.
    """
    world = truth.world
    for place, (name, op, value) in enumerate(parts):
        axis = next(axis for axis in world.axes if axis.name == name)
        further = None if op == "==" else next_value(axis, op, value)
        if further is None:
            continue
        moved = [*parts[:place], (name, op, further), *parts[place + 1 :]]
        covered = world.covered(moved)
        if covered is not None and not bool((covered & truth.desired).any()):
            return f"{name} {op} {value!r} can move to {further!r}: {moved} holds as well"
    return None


def next_value(axis: Axis, op: str, value: Value) -> Value | None:
    """The next value outwards that makes a difference worth claiming; None if there is none."""
    values = [one for one in axis.values if one is not None]
    outwards = [one for one in values if one > value] if op == "<=" else [one for one in values[::-1] if one < value]
    if not isinstance(value, float):
        return outwards[0] if outwards else None
    known = [one for one in axis.domain if one is not None and (one > value if op == "<=" else one < value)]
    if not known:
        return None
    end = min(known) if op == "<=" else max(known)
    near = [one for one in outwards if abs(one - value) > 4 * math.ulp(value)]
    return min(near[:1] or [end], key=lambda one: abs(one - value))


def judge_counterfactuals_shown(truth: Truth, explanation: Any, tally: Tally) -> None:
    """Every counterfactual shown is one, by the model itself, and its changes lead to it."""
    for shown in explanation.counterfactuals:
        tally.record("counterfactual", not_a_counterfactual(truth, shown))


def not_a_counterfactual(truth: Truth, shown: Any) -> str | None:
    """Why a point is no counterfactual of the model itself; None if it is one."""
    world = truth.world
    point = world.code(shown.values)
    place = world.index(point)
    if point is None or (place is None and not world.dense):
        return f"{dict(shown.values)} is no point of the space"
    if not (place is not None and world.own[place]) and not world.single(point, own=True):
        return f"{dict(shown.values)} is not desired"
    before, after = world.decode(truth.instance), world.decode(point)
    changes = {name: (before[name], after[name]) for name in before if not same(before[name], after[name])}
    said = {change.feature: (change.before, change.after) for change in shown.changes}
    return None if said == changes else f"the changes {said} are not {changes}"


def judge_nearest(truth: Truth, found: Any, k: int, vary: Sequence[str] | None, tally: Tally) -> None:
    """Proven counterfactuals: fewest changes, then least distance to within the resolution, each without all features
    of an earlier one. A readable number may lie between the numbers looked at; then what it was before is judged.
    """
    for shown in found:
        if truth.world.dense and truth.world.code(shown.values) is None:
            tally.note("counterfactuals with numbers between those looked at")
        else:
            tally.record("counterfactual", not_a_counterfactual(truth, shown))
    if not found.proven:
        tally.note("counterfactuals not proven")
        return
    world = truth.world
    able = candidates(truth, vary)
    changed, costs = costs_of(truth)
    earlier: list[int] = []
    for place, shown in enumerate(found):
        point = world.code({**shown.values, **shown.exact})
        if point is None:
            return
        rank, away, code = cost_of(truth, point)
        allowed = able & np.all([(changed & one) != one for one in earlier], axis=0) if earlier else able
        near = allowed & (
            (costs[:, 0] < rank) | ((costs[:, 0] == rank) & (costs[:, 1] < away - APART - rank * found.resolution))
        )
        text = f"number {place + 1}, {shown}, is not the nearest: "
        tally.record("nearest", _nearer(world, near, text))
        tally.expect("unlike", all((code & one) != one for one in earlier), f"{shown} changes all of an earlier one")
        earlier.append(code)
    if len(found) < k:
        left = able & np.all([(changed & one) != one for one in earlier], axis=0) if earlier else able
        claim = "there is none" if not earlier else "there is no other"
        tally.record(claim, _nearer(world, left, f"{len(found)} of {k} came, but there is "))


def _nearer(world: World, some: Flags, text: str) -> str | None:
    for place in np.flatnonzero(some).tolist():
        if world.single(world.points[place], own=True):
            return f"{text}{world.decode(world.points[place])}"
    return None


def candidates(truth: Truth, vary: Sequence[str] | None) -> Flags:
    """Points that the model itself desires, that may vary so, and that satisfy what constraints say of changes."""
    world = truth.world
    able = world.own.copy()
    for j, axis in enumerate(world.axes):
        if vary is not None and axis.name not in vary:
            able &= world.points[:, j] == truth.instance[j]
    rules = world.subject.change_rules
    if rules:
        x = world.decode(truth.instance)
        for place in np.flatnonzero(able).tolist():
            cf = world.decode(world.points[place])
            able[place] = all(rule.holds(cf, x) for rule in rules)
    return able


def costs_of(truth: Truth) -> tuple[Ints, Any]:
    """For every point the features changed, as bits; how many, and the sum of the changes scaled to ranges."""
    world = truth.world
    away = np.zeros(len(world.points))
    changed = np.zeros(len(world.points), dtype=np.int64)
    for j in range(len(world.axes)):
        steps = distances(world.axes[j], int(truth.instance[j]))
        away += steps[world.points[:, j]]
        changed |= (world.points[:, j] != truth.instance[j]).astype(np.int64) << j
    counts = np.array([int(one).bit_count() for one in changed.tolist()])
    return changed, np.column_stack([counts, away])


def cost_of(truth: Truth, point: Ints) -> tuple[int, float, int]:
    """The same for one point: how many features change, how far it is, and which they are."""
    moved = [j for j in range(len(point)) if point[j] != truth.instance[j]]
    away = sum(float(distances(truth.world.axes[j], int(truth.instance[j]))[point[j]]) for j in moved)
    return len(moved), away, sum(1 << j for j in moved)


def distances(axis: Axis, code: int) -> Any:
    """How far every value is from one of them: by the range of numbers, else 1; to or from missing 1."""
    values = list(axis.values)
    away = np.ones(len(values))
    away[code] = 0.0
    present = [value for value in values if value is not None]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present)
    if axis.ordered and values[code] is not None and numbers and len(present) > 1:
        range_ = float(present[-1]) - float(present[0]) or 1.0
        away[: len(present)] = [abs(float(value) - float(values[code])) / range_ for value in present]
    return away


def judge_rest(parts: Sequence[Part], truth: Truth) -> int | None:
    """A component that can go from a rule that holds, by its place; None if all are needed."""
    for place in range(len(parts)):
        covered = truth.world.covered([*parts[:place], *parts[place + 1 :]])
        if covered is not None and not bool((covered & truth.desired).any()):
            return place
    return None


def random_rule(truth: Truth, rng: np.random.Generator) -> list[Part]:
    """A rule that the row satisfies, its bounds anywhere in the domain."""
    world, made = truth.world, list[Part]()
    for j, axis in enumerate(world.axes):
        value = axis.values[int(truth.instance[j])]
        for op in ("<=", ">=") if axis.ordered and value is not None else ("==",):
            if rng.random() > 0.5:
                continue
            outwards = [one for one in axis.domain if one is not None and value is not None]
            if op == "<=":
                outwards = [one for one in outwards if one >= value]
            elif op == ">=":
                outwards = [one for one in outwards if one <= value]
            bound = outwards[int(rng.integers(0, len(outwards)))] if op != "==" and rng.random() < 0.6 else value
            made.append((axis.name, op, bound))
    return [made[place] for place in sorted(itertools.chain(range(len(made))))]

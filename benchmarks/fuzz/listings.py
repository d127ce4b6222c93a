"""Claims about lists: all rules, all changes, judgements of rules, batches, rechecks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.fuzz.claims import (
    candidates,
    costs_of,
    judge_explanation,
    judge_rest,
    judge_verdict,
    not_a_counterfactual,
    not_an_exception,
)
from benchmarks.fuzz.tally import Tally
from benchmarks.fuzz.truth import Part, Truth, Weights, parts_of
from benchmarks.fuzz.world import World


def judge_rules(truth: Truth, listing: Any, weights: Weights, forbid: Sequence[str], least: bool, tally: Tally) -> None:
    """All rules without anything redundant, shortest first; with ``least``, the lightest of them alone."""
    items = list(listing)
    for one in items:
        judge_verdict(truth, one, "listed rule", tally)
    if truth.world.dense:
        return
    masks = [truth.mask(parts_of(one.rule)) for one in items]
    every = truth.irredundant(forbid)
    proven = [type(one.verdict).__name__ == "Proven" for one in items]
    for one, mask, sure in zip(items, masks, proven, strict=True):
        if sure:
            tally.expect("irredundant", mask in every, f"{one.rule} was listed, but is not irredundant")
    weigh = [truth.weigh(mask or 0, weights) for mask in masks]
    tally.expect("order", all(a <= b for a, b in itertools.pairwise(weigh)), f"weights {weigh} do not rise")
    tally.expect("once", len(set(masks)) == len(masks), f"a rule comes twice: {[str(one.rule) for one in items]}")
    if not listing.complete:
        tally.note("rules not complete")
        shorter = {mask for mask in every if weigh and truth.weigh(mask, weights) < weigh[-1]} - set(masks)
        if all(proven) and listing.stopped is not None:
            tally.expect("all shorter rules", not shorter, f"shorter ones did not come: {_some(truth, shorter)}")
        return
    if least and every:
        lightest = min(truth.weigh(mask, weights) for mask in every)
        every = {mask for mask in every if truth.weigh(mask, weights) == lightest}
    wrong = every ^ set(masks)
    tally.expect("all rules", not wrong, f"complete, but these differ: {_some(truth, wrong)}")


def _some(truth: Truth, masks: set[Any]) -> list[str]:
    return [truth.shown(mask) for mask in sorted(mask for mask in masks if mask is not None)[:5]]


def judge_changes(truth: Truth, listing: Any, vary: Sequence[str] | None, tally: Tally) -> None:
    """All minimal sets of features whose change gives the desired outcome."""
    items = list(listing)
    world = truth.world
    changed, _ = costs_of(truth)
    able = candidates(truth, vary)
    sets = set(changed[able].tolist())
    minimal = {one for one in sets if not any(other != one and other & one == other for other in sets)}
    names = [axis.name for axis in world.axes]
    came = []
    for one in items:
        code = sum(1 << names.index(name) for name in one.features)
        came.append(code)
        tally.record("change", not_a_counterfactual(truth, one.counterfactual))
        right = {change.feature for change in one.counterfactual.changes} == set(one.features)
        tally.expect("change", right, f"{one.features} are not what {one.counterfactual} changes")
        if one.minimal and not world.dense:
            tally.expect("minimal change", code in minimal, f"{one.features} is not minimal")
    if not listing.complete:
        tally.note("changes not complete")
        return
    wrong = minimal ^ set(came) if not world.dense else minimal - set(came)
    shown = [[names[j] for j in range(len(names)) if code >> j & 1] for code in sorted(wrong)[:5]]
    tally.expect("all changes", not wrong, f"complete, but these differ: {shown}")


def judge_judgement(truth: Truth, judged: Any, given: Sequence[Part], weights: Weights, tally: Tally) -> None:
    """The class of a rule: failed on past rows or elsewhere, redundant, irredundant, minimum."""
    world, parts = truth.world, parts_of(judged.rule)
    covered, asked = world.covered(parts), world.covered(list(given))
    if covered is None or asked is None:
        tally.record("judged rule", f"{judged.rule} names what the space does not have")
        return
    if not world.dense:
        tally.expect("judged rule", bool((covered == asked).all()), f"{judged.rule} is not what was given: {given}")
    quality = judged.quality.name
    tally.note(f"judged {quality}")
    past = world.covered(parts, world.past)
    assert past is not None
    desired_past = _desired_past(truth)
    exception = world.exception(covered)
    if quality == "NOT_JUDGED":
        return
    if quality == "FAILED_DATA":
        places = np.flatnonzero(world.past_rows == judged.exception_row)
        right = len(places) == 1 and bool(past[places[0]]) and bool(desired_past[places[0]])
        tally.expect("judged failed", right, f"past row {judged.exception_row} does not break {judged.rule}")
    elif quality == "FAILED_GLOBAL":
        right = not bool((past & desired_past).any())
        tally.expect("judged failed", right, f"{judged.rule} is broken by a past row")
        tally.record("judged failed", not_an_exception(truth, judged.rule, judged.exception.values))
    else:
        text = f"{judged.rule} is judged {quality}, but "
        tally.record("judged to hold", None if exception is None else f"{text}{exception} is desired")
        if world.dense or exception is not None:
            return
        goes = judge_rest(parts, truth)
        tally.expect(
            "judged redundant",
            (goes is not None) == (quality == "REDUNDANT"),
            f"{text}{'nothing' if goes is None else parts[goes]} can go",
        )
        best = truth.lightest(weights)
        weight = _weight(truth, parts, weights)
        if best is not None and quality in ("IRREDUNDANT", "MINIMUM") and weight is not None:
            right = (best[0] < weight) == (quality == "IRREDUNDANT")
            found = f"{truth.shown(best[1])} weighs {float(best[0])}, it weighs {float(weight)}"
            tally.expect("judged minimum", right, text + found)


def _weight(truth: Truth, parts: Sequence[Part], weights: Weights) -> Any:
    """What a rule with any bounds weighs: each component as the row's own one; None where it has none such."""
    names = [part[:2] for part in truth.parts]
    if any(part[:2] not in names for part in parts) or len({part[:2] for part in parts}) < len(parts):
        return None
    return truth.weigh(sum(1 << names.index(part[:2]) for part in parts), weights)


def _desired_past(truth: Truth) -> Any:
    world = truth.world
    places = [world.index(point) for point in world.past]
    return np.array([place is not None and bool(world.desired[place]) for place in places], dtype=np.bool_)


def judge_batch(truths: dict[int, Truth], batch: Any, alone: dict[int, Any], tally: Tally) -> None:
    """Every explanation of a batch, by row number; those that were searched for are what ``explain`` says alone."""
    tally.expect("batch complete", batch.complete, f"{len(batch)} came")
    for number, explanation in zip(batch.rows, batch, strict=True):
        judge_explanation(truths[number], explanation, tally)
        if explanation.statistics.algorithm != "reused" and number in alone:
            tally.record("batch as alone", difference(alone[number], explanation))


def difference(one: Any, other: Any) -> str | None:
    """Where two explanations differ, times aside; None if they do not."""
    first, second = (
        {k: v for k, v in made.to_dict().items() if k not in ("statistics", "digest")} for made in (one, other)
    )
    wrong = [name for name in first if first[name] != second.get(name)]
    return f"differs in {wrong}: {[(first[name], second.get(name)) for name in wrong][:1]}" if wrong else None


def judge_recheck(world: World, recheck: Any, explanations: Sequence[Any], tally: Tally) -> None:
    """Which rules hold for another model; ``world`` is that of the other model."""
    for explanation, item in zip(explanations, recheck, strict=True):
        point = world.code(explanation.instance)
        covered = world.covered(parts_of(explanation.rule))
        if point is None or covered is None:
            continue
        truth = Truth(world, point)
        place = world.index(point)
        tally.note(f"rechecked {item.status}")
        if item.status == "overturned":
            right = place is None or bool(world.own[place])
            tally.expect("recheck overturned", right, f"{dict(explanation.instance)} is not desired")
        elif item.status == "holds":
            exception = world.exception(covered)
            tally.record("recheck holds", None if exception is None else f"{item.rule}: {exception} is desired")
        elif item.status == "breaks":
            tally.record("recheck breaks", not_an_exception(truth, item.rule, item.counterfactual.values))

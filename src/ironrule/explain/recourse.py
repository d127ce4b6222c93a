"""Counterfactuals: what they may change, in the words that users of DiCE know, and who looks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ironrule.errors import InputError, ModelError
from ironrule.explain.assembled import statistics_of
from ironrule.explain.explanation import Counterfactuals
from ironrule.model import Gaps, Model, Readable, Unreadable
from ironrule.model.readable import Read
from ironrule.rule import Box, Counterfactual, Relevant
from ironrule.space import Constraint, Feature, Points, Space, Value, parse
from ironrule.space.plaf.syntax import Literal, Reference, Subject
from ironrule.space.table import as_python
from ironrule.verdict import Meter, Refuted, Spent, Verdict

if TYPE_CHECKING:
    from ironrule.oracles import Case, Oracle
    from ironrule.oracles.leaves import Leaves
    from ironrule.oracles.nearest import Nearest
    from ironrule.oracles.net_engine import Engine


def recourse_box(relevant: Relevant, features_to_vary: Sequence[str] | str) -> Box:
    """The whole space, except that features which may not vary keep the instance's value."""
    box = relevant.box(0)
    if features_to_vary == "all":
        return box
    names = [features_to_vary] if isinstance(features_to_vary, str) else features_to_vary
    free = [relevant.space.index(name) for name in names]
    fixed = np.setdiff1d(np.arange(len(relevant.space)), free)
    low, high = box.low.copy(), box.high.copy()
    low[fixed] = high[fixed] = relevant.instance[fixed]
    return Box(low, high)


def recourse_constraints(space: Space, permitted_range: Mapping[str, Sequence[Value]]) -> list[Constraint]:
    """Permitted ranges as constraints: lowest and highest for an ordered feature, a list of values otherwise."""
    return [parse(_as_text(space[name], values)) for name, values in permitted_range.items()]


def _as_text(feature: Feature, values: Sequence[Value]) -> str:
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise InputError(expected=f"the permitted range of {feature.name!r} must be a non-empty list", got=repr(values))
    name, literals = Reference(Subject.POINT, feature.name), [_literal(value) for value in values]
    if not feature.ordered:
        return f"{name} in ({', '.join(literals)})"
    if len(values) != 2:
        raise InputError(
            expected=f"the permitted range of {feature.name!r} must be [lowest, highest]", got=list(values)
        )
    return f"{name} >= {literals[0]} and {name} <= {literals[1]}"


def _literal(value: Value) -> str:
    plain = as_python(value)
    return str(Literal(plain if plain is None or isinstance(plain, (bool, int, float)) else str(plain)))


def chosen_reading(algorithm: str, exact: Readable | str) -> Read | None:
    """What the exact search reads, or None where GeCo is to search."""
    if algorithm not in ("auto", "exact", "geco"):
        raise InputError(
            expected="algorithm must be one of auto, exact, geco", got=repr(algorithm), code="unknown-algorithm"
        )
    if algorithm == "exact" and isinstance(exact, str):
        raise InputError(
            f"exact counterfactuals need a model that can be read: {exact}",
            hint="use algorithm='geco'",
            code="exact-counterfactuals-unavailable",
        )
    return None if algorithm == "geco" or isinstance(exact, str) else exact.own


def found_counterfactuals(
    read: Read | None,
    case: Case,
    box: Box,
    k: int,
    meter: Meter,
    seed: int,
    insisted: bool = False,
    engine: Engine | None = None,
    leaves: Leaves | None = None,
) -> Counterfactuals:
    """The exact search's counterfactuals, or GeCo's where it cannot read the constraints, unless it is insisted on."""
    from ironrule.oracles.nearest import nearest

    rng = np.random.default_rng(seed)
    if read is None:
        found, name = _by_geco(case, box, k, meter, rng), "GeCo"
    else:
        try:
            found, name = nearest(read, case, box, k, meter, rng, engine=engine, leaves=leaves), "Nearest"
        except Unreadable as reason:  # constraints on what may change that are too intricate
            if insisted:
                raise InputError(
                    f"exact counterfactuals are not available here: {reason}",
                    hint="use algorithm='geco'",
                    code="exact-counterfactuals-unavailable",
                ) from None
            found, name = _by_geco(case, box, k, meter, rng), "GeCo"
    if read is not None and not _are_desired(case.model, found.points):
        raise ModelError(
            "the model's decisions differ from its reading", hint="please report this model", code="reading-mismatch"
        )
    items = tuple(Counterfactual.between(case.space, case.instance, point) for point in found.points)
    statistics = statistics_of(meter, name, seed, found.stopped)
    return Counterfactuals(case.space.decode_row(case.instance), items, statistics, found.proven)


def proven_between(found: Counterfactuals, gaps: Gaps | None, case: Case, box: Box) -> Counterfactuals:
    """The same counterfactuals, called proven only if that is so for the numbers between values too.

    Where the decision may turn between two values, a nearer counterfactual may lie there; but if the values have none,
    there is none. Where a constraint may hold between two values and at neither, nothing is proven.
    """
    if gaps is None or not found.proven:
        return found
    nearer = len(found) > 0 and gaps.may_turn_within(box.low, box.high)
    if nearer or not gaps.respected_by(case.feasible.predicates, case.instance):
        return replace(found, proven=False)
    return found


def _by_geco(case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator) -> Nearest:
    from ironrule.oracles import GeCo
    from ironrule.oracles.nearest import Nearest

    verdict, stopped = asked_for(GeCo(fill=True), case, box, k, meter, rng)
    none = np.empty((0, len(case.space)), dtype=np.int32)
    return Nearest(verdict.points if isinstance(verdict, Refuted) else none, False, stopped)


def asked_for(
    oracle: Oracle, case: Case, box: Box, k: int, meter: Meter, rng: np.random.Generator
) -> tuple[Verdict | None, str | None]:
    """An oracle's answer, or None, and what stopped it."""
    try:
        verdict = oracle.find(case, box, k, meter, rng)
    except Spent:
        return None, "budget"
    except KeyboardInterrupt:
        return None, "interrupted"
    return verdict, verdict.stopped if isinstance(verdict, Refuted) else None


def _are_desired(model: Model, points: Points) -> bool:
    """Whether a model gives all points the desired outcome. Where a decision hangs on the last bit, some libraries
    answer differently for one row than for many; then the answer for the row alone counts.
    """
    denied = points[~model.desired(points)]
    return all(model.desired(point[None, :])[0] for point in denied)

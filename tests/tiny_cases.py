"""Tiny random cases: spaces small enough that every question about them can be answered by looking at every point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import reject, strategies as st

from ironrule.arrays import Float64Array, Points
from ironrule.errors import ConstraintError
from ironrule.model.history import build_history
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import Case, Oracle, Run
from ironrule.rule.box import Box
from ironrule.rule.duals import count_distinct_duals
from ironrule.rule.instance_components import build_instance_components
from ironrule.search.problem import Problem
from ironrule.space.codes import EncodedTable, choose_code_type
from ironrule.space.constraints import feasible
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.feasible import FeasibleRegion, build_feasible_region
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget, Meter

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """A model that is a table of outcomes, with a score of 1 or -1; it remembers what it was asked."""

    table: Flags
    asked: list[Points] = field(default_factory=list)

    def desired(self, points: Points) -> Flags:
        self.asked.append(points.copy())
        return np.asarray(self.table[tuple(points.T)])

    def scores(self, points: Points) -> Float64Array:
        return np.where(self.desired(points), 1.0, -1.0)


def every_point(space: Space) -> Points:
    """All points of a space, constraints aside."""
    return np.indices(tuple(space.sizes)).reshape(len(space), -1).T.astype(np.int32)


def exceptions_in(case: Case, box: Box) -> Points:
    """All counterfactuals in a box, by looking at every point of the space."""
    assert isinstance(case.model, TableModel)
    points = every_point(case.space)
    desired = case.model.table[tuple(points.T)]
    inside = ((points >= box.low) & (points <= box.high)).all(axis=1)
    return points[inside & desired & case.feasible.admits(points)]


def case_of(
    space: Space,
    table: Flags,
    instance: Points,
    history: Points,
    allowed: FeasibleRegion | None = None,
    model: Any = None,
) -> Case:
    """A case with a table as its model, or what stands for it, and the given points as its history."""
    past = build_history(space, codes_of(space, history), table[tuple(history.T)])
    asked = model or TableModel(table)
    components, feasible = build_instance_components(space, instance), allowed or space.feasible
    return Case(space, asked, past, components, feasible, scoring_model=asked)


def codes_of(space: Space, points: Points) -> EncodedTable:
    """Points column by column."""
    columns = zip(points.T, space.sizes.tolist(), strict=True)
    return EncodedTable(tuple(column.astype(choose_code_type(size)) for column, size in columns))


def problem_of(
    case: Case,
    oracle: Oracle,
    *,
    k: int = 5,
    budget: Budget | None = None,
    seed: int = 0,
    allowed: int | None = None,
    required: tuple[int, ...] = (),
) -> Problem:
    """The problem of explaining a case's instance."""
    components = case.components
    duals = count_distinct_duals(case.history.desired.columns, components.low, components.high)
    usable = components.usable if allowed is None else components.usable & allowed
    weights = np.ones(2 * len(case.space))
    rng, meter = np.random.default_rng(seed), Meter(budget or Budget())
    return Problem(
        case=case,
        oracle=CachingOracle(oracle),
        history=duals,
        allowed=usable,
        required=required,
        weights=weights,
        k=k,
        run=Run(meter, rng),
    )


def consistent(case: Case, rule: int) -> bool:
    """Whether a rule is globally consistent, by looking at every point of the space."""
    return len(exceptions_in(case, case.components.box(rule))) == 0


def subsets(components: int) -> list[int]:
    """All subsets of a set of components, smallest first."""
    bits = [1 << bit for bit in range(components.bit_length()) if components >> bit & 1]
    sums = [0]
    for bit in bits:
        sums += [one | bit for one in sums]
    return sorted(sums, key=lambda one: (one.bit_count(), one))


@st.composite
def features(draw: st.DrawFn, place: int, most: int = 4) -> Feature:
    """A feature with one to ``most`` codes: numbers, ordered categories or nominal ones, sometimes missing."""
    size = draw(st.integers(1, most))
    kind = draw(st.sampled_from(["number", "grade", "colour"]))
    missing = draw(st.booleans()) if size > 1 else False
    count = size - missing
    values = tuple(range(0, 10 * count, 10)) if kind == "number" else tuple("pqrs"[:count])
    return Feature(f"f{place}", values, ordered=kind != "colour", missing=missing)


def _literal(draw: st.DrawFn, feature: Feature) -> str:
    value = draw(st.sampled_from(feature.values))
    return f'"{value}"' if isinstance(value, str) else str(value)


@st.composite
def _facts(draw: st.DrawFn, feature: Feature) -> str:
    """A statement about one feature of the point."""
    relation = draw(st.sampled_from(["==", "!=", "<=", ">="] if feature.ordered else ["==", "!="]))
    return f"cf.{feature.name} {relation} {_literal(draw, feature)}"


@st.composite
def _changes(draw: st.DrawFn, feature: Feature) -> str:
    """A statement about one feature of the point and the instance."""
    relation = draw(st.sampled_from(["==", "!=", "<=", ">=", "<", ">"] if feature.ordered else ["==", "!="]))
    return f"cf.{feature.name} {relation} x.{feature.name}"


@st.composite
def constraints(draw: st.DrawFn, over: Sequence[Feature], of_instance: bool) -> str:
    """A constraint: a fact, a disjunction, an implication or a sum."""
    atoms = _changes if of_instance else _facts
    first, second = draw(st.sampled_from(over)), draw(st.sampled_from(over))
    shape = draw(st.sampled_from(["fact", "or", "if", "sum"]))
    if shape == "sum" and first.numeric and second.numeric and first is not second:
        limit = f"x.{first.name} + 10" if of_instance else str(draw(st.sampled_from([0, 10, 20, 40])))
        return f"cf.{first.name} + cf.{second.name} <= {limit}"
    if shape == "fact":
        return draw(atoms(first))
    left, right = draw(atoms(first)), draw(atoms(second))
    return f"if {left} then {right}" if shape == "if" else f"{left} or {right}"


def _table(sizes: tuple[int, ...], kind: str, density: float, seed: int) -> Flags:
    """Outcomes at random: independent ones, or a few boxes."""
    rng = np.random.default_rng(seed)
    if kind == "noise":
        return rng.random(sizes) < density
    table = np.zeros(sizes, dtype=np.bool_)
    for _ in range(rng.integers(0, 4)):
        ends = [np.sort(rng.integers(0, size, size=2)) for size in sizes]
        table[tuple(slice(low, high + 1) for low, high in ends)] = True
    return table


@st.composite
def cases(draw: st.DrawFn, *, recourse: bool = False, most_features: int = 5, most_codes: int = 4) -> Case:
    """A tiny case. With ``recourse``, constraints also speak of x. Groups are listed, or drawn and rejected."""
    count = draw(st.integers(2, most_features))
    chosen = tuple(draw(features(place, most_codes)) for place in range(count))
    texts = draw(st.lists(constraints(chosen, of_instance=False), max_size=2))
    about_x = draw(st.lists(constraints(chosen, of_instance=True), min_size=1, max_size=3)) if recourse else []
    kind = draw(st.sampled_from(["noise", "boxes"]))
    density = draw(st.sampled_from([0.0, 0.01, 0.05, 0.3, 0.8]))
    seed = draw(st.integers(0, 2**16))
    listed = draw(st.sampled_from([200_000, 1, 0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feasible, "MAX_LISTED_COMBINATIONS", listed)
        return _assembled(chosen, texts, about_x, _table(tuple(f.size for f in chosen), kind, density, seed), seed)


def _assembled(
    chosen: tuple[Feature, ...], texts: Sequence[str], about_x: Sequence[str], table: Flags, seed: int
) -> Case:
    rng = np.random.default_rng(seed + 1)
    try:
        space = Space(chosen, tuple(parse_constraint(text) for text in texts))
        points = every_point(space)
        occurring = points[space.feasible.admits(points)]
        if len(occurring) == 0:
            reject()
        instance = occurring[rng.integers(len(occurring))]
        table[tuple(instance)] = False
        bound = [*space.feasible.predicates, *(bind_constraint(parse_constraint(text), chosen) for text in about_x)]
        allowed = build_feasible_region(chosen, bound, instance) if about_x else None
    except ConstraintError:
        reject()
    history = occurring[rng.integers(len(occurring), size=rng.integers(1, 20))]
    return case_of(space, table, instance, history, allowed)


@st.composite
def rules_of(draw: st.DrawFn, case: Case) -> int:
    """A rule of usable components."""
    return sum(1 << bit for bit in case.components.usable_numbers if draw(st.booleans()))


def meter_of(evaluations: int | None = None) -> Meter:
    """A meter with a limit on evaluations."""
    return Meter(Budget(evaluations=evaluations))


def run_of(evaluations: int | None = None, seed: int = 0) -> Run:
    """A run with a limit on evaluations."""
    return Run(meter_of(evaluations), np.random.default_rng(seed))

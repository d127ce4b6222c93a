"""Find the nearest counterfactuals of a row, within what may change.

What may change is given in the words that users of DiCE know: features to vary and permitted ranges. The exact search
is used where the model can be read, GeCo otherwise. With whole intervals, "nearest" is called proven only if that holds
between the values of the domains too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ironrule.backends.nearest import NearestCounterfactuals
from ironrule.backends.registry import find_nearest
from ironrule.errors import InputError
from ironrule.explain.context import ExplainerContext
from ironrule.explain.options import SearchOptions, as_list
from ironrule.explain.query import ask_oracle, build_case, build_statistics, extend_to_named, require_desired
from ironrule.model.intervals import Gaps
from ironrule.model.protocol import Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.protocol import BoxQuery, Run
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.rule.box import Box
from ironrule.rule.instance_components import InstanceComponents
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import Constraint, Literal, Reference, Subject
from ironrule.space.feature import Feature, Value
from ironrule.space.table import to_python_value
from ironrule.verdict.verdict import Refuted


def find_counterfactuals(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    *,
    algorithm: str,
    features_to_vary: Sequence[str] | str,
    permitted_range: Mapping[str, Sequence[Value]],
    constraints: Sequence[Constraint],
) -> Counterfactuals:
    """The exact search's counterfactuals, or GeCo's where it cannot read the constraints, unless it is insisted on."""
    ranges = [parse_constraint(_format_range(context.space[name], values)) for name, values in permitted_range.items()]
    changing = (*context.change_constraints, *constraints, *ranges)
    names = () if features_to_vary == "all" else as_list(features_to_vary)
    context = extend_to_named(context, options, changing, names)
    case = build_case(context, row, changing, own_model_only=True)
    query = BoxQuery(case, _build_change_box(case.components, features_to_vary), options.k)
    tabulated_model = _choose_tabulated_model(algorithm, context)
    meter = options.start_meter()
    run, name = Run(meter, np.random.default_rng(options.seed)), "Nearest"
    if tabulated_model is None:
        nearest, name = _find_by_geco(query, run), "GeCo"
    else:
        oracle = None if context.is_robust else context.oracle
        try:
            nearest = find_nearest(tabulated_model, query, run, context.engine, oracle)
        except Unreadable as reason:  # constraints on what may change that are too intricate
            if algorithm == "exact":
                statement = f"exact counterfactuals are not available here: {reason}"
                hint = "use algorithm='geco'"
                raise InputError(statement, hint=hint, code="exact-counterfactuals-unavailable") from None
            nearest, name = _find_by_geco(query, run), "GeCo"
        require_desired(nearest.points, case.model, case.model)
    items = tuple(map(case.build_counterfactual, nearest.points))
    statistics = build_statistics(meter, name, options.seed, nearest.stopped)
    proven = nearest.proven and _holds_between_values(context.gaps, query, nearest)
    return Counterfactuals(context.space.decode_row(case.user_instance), items, statistics, proven)


def _build_change_box(components: InstanceComponents, features_to_vary: Sequence[str] | str) -> Box:
    """The whole space, except that features which may not vary keep the instance's value."""
    box = components.box(0)
    if features_to_vary == "all":
        return box
    names = [features_to_vary] if isinstance(features_to_vary, str) else features_to_vary
    free = [components.space.index(name) for name in names]
    fixed = np.setdiff1d(np.arange(len(components.space)), free)
    low, high = box.low.copy(), box.high.copy()
    low[fixed] = high[fixed] = components.instance[fixed]
    return Box(low, high)


def _format_range(feature: Feature, values: Sequence[Value]) -> str:
    """A permitted range as a constraint: lowest and highest for an ordered feature, a list of values otherwise."""
    must = f"the permitted range of {feature.name!r} must be"
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
        raise InputError(expected=f"{must} a non-empty list", got=repr(values))
    name, literals = Reference(Subject.POINT, feature.name), [_format_literal(value) for value in values]
    if not feature.ordered:
        return f"{name} in ({', '.join(literals)})"
    if len(values) != 2:
        raise InputError(expected=f"{must} [lowest, highest]", got=list(values))
    return f"{name} >= {literals[0]} and {name} <= {literals[1]}"


def _format_literal(value: Value) -> str:
    plain = to_python_value(value)
    return str(Literal(plain if plain is None or isinstance(plain, (bool, int, float)) else str(plain)))


def _choose_tabulated_model(algorithm: str, context: ExplainerContext) -> TabulatedModel | None:
    """What the exact search reads, or None where GeCo is to search."""
    if algorithm not in ("auto", "exact", "geco"):
        raise InputError(
            expected="algorithm must be one of auto, exact, geco", got=repr(algorithm), code="unknown-algorithm"
        )
    if algorithm == "exact" and context.unreadable_reason is not None:
        statement = f"exact counterfactuals need a model that can be read: {context.unreadable_reason}"
        raise InputError(statement, hint="use algorithm='geco'", code="exact-counterfactuals-unavailable")
    return None if algorithm == "geco" or context.compiled_model is None else context.compiled_model.tabulated


def _holds_between_values(gaps: Gaps | None, query: BoxQuery, nearest: NearestCounterfactuals) -> bool:
    """Whether what is proven for the values of the domains is so for the numbers between them too.

    Where the decision may turn between two values, a nearer counterfactual may lie there; but if the values have none,
    there is none. Where a constraint may hold between two values and at neither, nothing is proven.
    """
    if gaps is None:
        return True
    if len(nearest.points) and gaps.may_turn_within(query.box.low, query.box.high):
        return False
    return gaps.are_respected_by(query.case.feasible.predicates, query.case.instance)


def _find_by_geco(query: BoxQuery, run: Run) -> NearestCounterfactuals:
    verdict, stopped = ask_oracle(GeCo(fill_to_k=True), query, run)
    none = np.empty((0, len(query.case.space)), dtype=np.int32)
    return NearestCounterfactuals(verdict.points if isinstance(verdict, Refuted) else none, False, stopped)

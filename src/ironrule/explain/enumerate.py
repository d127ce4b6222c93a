"""Enumerate all rules for a row, or all minimal sets of changes, level by level.

Results come while the caller iterates. The counterfactuals of a level are confirmed by the model before any of the
level is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ironrule.backends.registry import build_case_oracle
from ironrule.errors import InputError, describe_value
from ironrule.explain.context import ExplainerContext
from ironrule.explain.extend import extend_to_row
from ironrule.explain.options import SearchOptions, as_list, parse_integer
from ironrule.explain.query import build_problem, choose_black_box_oracle, confirm_points, extend_to_named
from ironrule.model.protocol import Unreadable
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import Case, Oracle
from ironrule.results.counterfactuals import ChangeSet
from ironrule.results.explanation import Listing, RankedRule
from ironrule.search.enumerate import ChangeEnumeration, RuleEnumeration
from ironrule.search.problem import count_covered
from ironrule.space.constraints.syntax import Constraint
from ironrule.verdict.verdict import Proven, Verdict


def list_rules(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    minimum_only: bool,
    limit: int | None,
    progress: bool | None = False,
) -> Listing[RankedRule]:
    """All irredundant rules for a row, lightest first, or the minimum ones alone."""
    context, row = extend_to_row(context, row)
    context = extend_to_named(context, options)
    search = RuleEnumeration(build_problem(context, row, options))
    items = _iterate_rules(context, search, minimum_only)
    return Listing(items, search, search.problem.meter, _parse_limit(limit), progress)


def _iterate_rules(context: ExplainerContext, search: RuleEnumeration, minimum_only: bool) -> Iterator[RankedRule]:
    problem, components = search.problem, search.problem.case.components
    outcome = context.model.primary.decision.undesired_name
    # Level by level, from short rules to long ones: the model confirms what a level rests on before it is shown.
    for level in search.levels():
        confirm_points(context, search.problem)
        rules = list(level)
        covered = dict(zip(rules, count_covered(problem.case, rules), strict=True))
        weights = {rule: problem.weigh(rule) for rule in rules}
        if minimum_only and rules:
            # A search that was stopped may lack lighter rules: then only the proven bound says what is minimum.
            least = search.state.lower_bound if search.stopped else min(weights.values())
            rules = [rule for rule in rules if weights[rule] <= least]
            search.complete = search.stopped is None and all(isinstance(level[rule], Proven) for rule in rules)
        for rule in sorted(rules, key=lambda rule: (weights[rule], -covered[rule], rule)):
            verdict = problem.case.embed_verdict(_complete_proof(level[rule]))
            yield RankedRule(components.rule(rule, outcome), verdict, covered[rule])
        if minimum_only and rules:
            return


def _complete_proof(verdict: Verdict) -> Verdict:
    """A verdict whose proof is computed now, where it has one."""
    return Proven(verdict.certificate.with_built_covers()) if isinstance(verdict, Proven) else verdict


def list_changes(
    context: ExplainerContext,
    row: Any,
    options: SearchOptions,
    features: Sequence[str] | str,
    limit: int | None,
    progress: bool | None = False,
    constraints: Sequence[Constraint] = (),
    complete: Callable[[ChangeSet], ChangeSet] | None = None,
) -> Listing[ChangeSet]:
    """All minimal sets of features to change, smallest first, for a model that was read or can only be asked;
    ``constraints`` on changes come on top of the explainer's own. ``complete`` adds to each what else is to be known.
    """
    context, row = extend_to_row(context, row)
    changing = (*context.change_constraints, *constraints)
    context = extend_to_named(context, options, changing, () if features == "all" else as_list(features))
    problem = build_problem(context, row, options, changing, own_model_only=True)
    case, space = problem.case, problem.case.space
    names = space.names if features == "all" else as_list(features)
    varying = sum(1 << place for place in {space.index(name) for name in names})
    # A proof for the values of the domains is one for all that can occur only if constraints respect what lies between,
    # and if nothing was left out between them.
    respected = context.gaps is None or context.gaps.are_respected_by(case.feasible.predicates, case.instance)
    trusted = respected and not context.narrowed
    oracle = CachingOracle(build_change_oracle(context, case))
    search = ChangeEnumeration(replace(problem, oracle=oracle), varying, trusted)
    items = _iterate_changes(context, search)
    found = items if complete is None else map(complete, items)
    return Listing(found, search, problem.meter, _parse_limit(limit), progress)


def build_change_oracle(context: ExplainerContext, case: Case) -> Oracle:
    """An oracle that knows the constraints on what may change: an exact one, where one can be built."""
    if context.compiled_model is not None:
        try:
            return build_case_oracle(context.compiled_model.tabulated, case, context.engine)
        except Unreadable:  # constraints that are too intricate
            pass
    return choose_black_box_oracle(context)


def _iterate_changes(context: ExplainerContext, search: ChangeEnumeration) -> Iterator[ChangeSet]:
    case = search.problem.case
    for level in search.levels():
        confirm_points(context, search.problem)
        for change in level:
            counterfactual = case.build_counterfactual(change.point)
            yield ChangeSet(tuple(each.feature for each in counterfactual.changes), counterfactual, change.minimal)


def _parse_limit(limit: int | None) -> int | None:
    try:
        return None if limit is None else parse_integer("limit", limit)
    except InputError:
        raise InputError(expected="limit must be a positive integer or None", got=describe_value(limit)) from None

"""Enumerate all rules for a row, or all minimal sets of changes, level by level.

Results come while the caller iterates. The counterfactuals of a level are confirmed by the model before any of the
level is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ironrule.errors import InputError
from ironrule.explain.options import as_list, parse_positive
from ironrule.model.protocol import Unreadable
from ironrule.results.counterfactuals import ChangeSet
from ironrule.results.explanation import Listing, RankedRule
from ironrule.rule.counterfactual import Counterfactual
from ironrule.verdict.verdict import Proven, Verdict

if TYPE_CHECKING:
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.model.read_model import TabulatedModel
    from ironrule.oracles.protocol import Case, Oracle
    from ironrule.search.enumerate import ChangeEnumeration, RuleEnumeration
    from ironrule.search.problem import Problem


def list_rules(
    problem: Problem, outcome: str, minimum_only: bool, limit: int | None, confirm: Callable[[Problem], None]
) -> Listing[RankedRule]:
    """All irredundant rules of a problem, lightest first; ``confirm`` is called before any of a level is shown."""
    from ironrule.search.enumerate import RuleEnumeration

    search = RuleEnumeration(problem)
    items = _iterate_rules(search, outcome, minimum_only, confirm)
    return Listing(items, search, problem.meter, _parse_limit(limit))


def _iterate_rules(
    search: RuleEnumeration, outcome: str, minimum_only: bool, confirm: Callable[[Problem], None]
) -> Iterator[RankedRule]:
    from ironrule.search.problem import count_covered

    problem, components = search.problem, search.problem.case.components
    for level in search.levels():
        confirm(search.problem)
        rules = list(level)
        covered = dict(zip(rules, count_covered(problem.case, rules), strict=True))
        weights = {rule: problem.weigh(rule) for rule in rules}
        if minimum_only and rules:
            least = search.state.lower_bound if search.stopped else min(weights.values())
            rules = [rule for rule in rules if weights[rule] <= least]
            search.complete = search.stopped is None and all(isinstance(level[rule], Proven) for rule in rules)
        for rule in sorted(rules, key=lambda rule: (weights[rule], -covered[rule], rule)):
            yield RankedRule(components.rule(rule, outcome), _complete_proof(level[rule]), covered[rule])
        if minimum_only and rules:
            return


def _complete_proof(verdict: Verdict) -> Verdict:
    """A verdict whose proof is computed now, where it has one."""
    return Proven(verdict.certificate.with_built_covers()) if isinstance(verdict, Proven) else verdict


def list_changes(
    problem: Problem,
    tabulated_model: TabulatedModel | None,
    features_to_vary: Sequence[str] | str,
    limit: int | None,
    confirm: Callable[[Problem], None],
    black_box_oracle: Oracle,
    engine: BoundEngine | None = None,
    trusted: bool = True,
) -> Listing[ChangeSet]:
    """All minimal sets of features to change, smallest first, for a model that was read or can only be asked.

    ``black_box_oracle`` is asked where no exact oracle can be built; ``trusted`` says whether a proof for the values of
    the domains is one for all that can occur.
    """
    from ironrule.oracles.caching import CachingOracle
    from ironrule.search.enumerate import ChangeEnumeration

    space = problem.case.space
    names = space.names if features_to_vary == "all" else as_list(features_to_vary)
    varying = sum(1 << place for place in {space.index(name) for name in names})
    oracle = CachingOracle(_build_oracle(tabulated_model, problem.case, engine, black_box_oracle))
    search = ChangeEnumeration(replace(problem, oracle=oracle), varying, trusted)
    return Listing(_iterate_changes(search, confirm), search, problem.meter, _parse_limit(limit))


def _build_oracle(
    tabulated_model: TabulatedModel | None, case: Case, engine: BoundEngine | None, black_box_oracle: Oracle
) -> Oracle:
    """An oracle that knows the constraints on what may change."""
    from ironrule.backends.registry import build_case_oracle

    if tabulated_model is None:
        return black_box_oracle
    try:
        return build_case_oracle(tabulated_model, case, engine)
    except Unreadable:  # constraints that are too intricate
        return black_box_oracle


def _iterate_changes(search: ChangeEnumeration, confirm: Callable[[Problem], None]) -> Iterator[ChangeSet]:
    case = search.problem.case
    for level in search.levels():
        confirm(search.problem)
        for found in level:
            counterfactual = Counterfactual.from_point(case.space, case.instance, found.point)
            yield ChangeSet(tuple(change.feature for change in counterfactual.changes), counterfactual, found.minimal)


def _parse_limit(limit: int | None) -> int | None:
    if limit is None:
        return None
    try:
        return parse_positive(limit)
    except InputError:
        raise InputError(expected="limit must be a positive integer or None", got=repr(limit)) from None

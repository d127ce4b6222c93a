"""Ironrule: rules without exceptions that explain one decision of any classifier on tabular data.

>>> import ironrule
>>> explainer = ironrule.Explainer(model, data, desired="good")    # doctest: +SKIP
>>> print(explainer.explain(data.iloc[3]))                         # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ironrule.errors import (
    AuditError as AuditError,
    BudgetError as BudgetError,
    ConstraintError as ConstraintError,
    InputError as InputError,
    IronruleError as IronruleError,
    MissingExtraError as MissingExtraError,
    ModelError as ModelError,
    OutcomeError as OutcomeError,
    SpaceError as SpaceError,
    StorageError as StorageError,
    TableError as TableError,
)

if TYPE_CHECKING:
    from ironrule.checker.checker import Checker as Checker, check as check
    from ironrule.checker.result import Check as Check
    from ironrule.explain.explainer import Explainer as Explainer
    from ironrule.model.wrappers.handwritten_models import (
        Bins as Bins,
        RuleClassifier as RuleClassifier,
        Scorecard as Scorecard,
        Subscale as Subscale,
        TwoLayerAdditive as TwoLayerAdditive,
    )
    from ironrule.model.wrappers.networks import OnnxNetwork as OnnxNetwork, TorchNetwork as TorchNetwork
    from ironrule.oracles.combine import SearchThenProve as SearchThenProve
    from ironrule.oracles.exhaustive import Exhaustive as Exhaustive
    from ironrule.oracles.geco.oracle import GeCo as GeCo
    from ironrule.oracles.sampling import Sampling as Sampling
    from ironrule.results.batch import Batch as Batch, RuleCover as RuleCover
    from ironrule.results.counterfactuals import ChangeSet as ChangeSet, Counterfactuals as Counterfactuals
    from ironrule.results.explanation import (
        Explanation as Explanation,
        Listing as Listing,
        RankedRule as RankedRule,
        Statistics as Statistics,
    )
    from ironrule.results.judgement import (
        Judgement as Judgement,
        Recheck as Recheck,
        RecheckedExplanation as RecheckedExplanation,
    )
    from ironrule.rule.counterfactual import Change as Change, Counterfactual as Counterfactual
    from ironrule.rule.rule import Component as Component, Rule as Rule
    from ironrule.search.anchor import Anchor as Anchor
    from ironrule.search.genetic import GeneticRule as GeneticRule, GeneticRuleCF as GeneticRuleCF
    from ironrule.search.greedy_cf import GreedyRuleCF as GreedyRuleCF
    from ironrule.search.min_set_cover import (
        HighsSolver as HighsSolver,
        HittingSetSolver as HittingSetSolver,
        MinSetCover as MinSetCover,
    )
    from ironrule.search.minimum import Minimum as Minimum
    from ironrule.space.constraints.syntax import Constraint as Constraint
    from ironrule.space.feature import Feature as Feature
    from ironrule.space.sources.databases import SqlQuery as SqlQuery
    from ironrule.space.space import Space as Space
    from ironrule.verdict.budget import Budget as Budget
    from ironrule.verdict.certificate import Certificate as Certificate
    from ironrule.verdict.verdict import (
        Proven as Proven,
        Quality as Quality,
        Refuted as Refuted,
        Unrefuted as Unrefuted,
    )

__version__ = "0.1.0"

# Every public name and its home; imported when first used, so that `import ironrule` stays fast.
_HOMES = {
    "Anchor": "ironrule.search.anchor",
    "Batch": "ironrule.results.batch",
    "Bins": "ironrule.model.wrappers.handwritten_models",
    "Budget": "ironrule.verdict.budget",
    "Certificate": "ironrule.verdict.certificate",
    "Change": "ironrule.rule.counterfactual",
    "ChangeSet": "ironrule.results.counterfactuals",
    "Check": "ironrule.checker.result",
    "Checker": "ironrule.checker.checker",
    "Component": "ironrule.rule.rule",
    "Constraint": "ironrule.space.constraints.syntax",
    "Counterfactual": "ironrule.rule.counterfactual",
    "Counterfactuals": "ironrule.results.counterfactuals",
    "Exhaustive": "ironrule.oracles.exhaustive",
    "Explainer": "ironrule.explain.explainer",
    "Explanation": "ironrule.results.explanation",
    "Feature": "ironrule.space.feature",
    "GeCo": "ironrule.oracles.geco.oracle",
    "GeneticRule": "ironrule.search.genetic",
    "GeneticRuleCF": "ironrule.search.genetic",
    "GreedyRuleCF": "ironrule.search.greedy_cf",
    "HighsSolver": "ironrule.search.min_set_cover",
    "HittingSetSolver": "ironrule.search.min_set_cover",
    "Judgement": "ironrule.results.judgement",
    "Listing": "ironrule.results.explanation",
    "MinSetCover": "ironrule.search.min_set_cover",
    "Minimum": "ironrule.search.minimum",
    "OnnxNetwork": "ironrule.model.wrappers.networks",
    "Proven": "ironrule.verdict.verdict",
    "Quality": "ironrule.verdict.verdict",
    "RankedRule": "ironrule.results.explanation",
    "Recheck": "ironrule.results.judgement",
    "RecheckedExplanation": "ironrule.results.judgement",
    "Refuted": "ironrule.verdict.verdict",
    "Rule": "ironrule.rule.rule",
    "RuleClassifier": "ironrule.model.wrappers.handwritten_models",
    "RuleCover": "ironrule.results.batch",
    "Sampling": "ironrule.oracles.sampling",
    "Scorecard": "ironrule.model.wrappers.handwritten_models",
    "SearchThenProve": "ironrule.oracles.combine",
    "Space": "ironrule.space.space",
    "SqlQuery": "ironrule.space.sources.databases",
    "Statistics": "ironrule.results.explanation",
    "Subscale": "ironrule.model.wrappers.handwritten_models",
    "TorchNetwork": "ironrule.model.wrappers.networks",
    "TwoLayerAdditive": "ironrule.model.wrappers.handwritten_models",
    "Unrefuted": "ironrule.verdict.verdict",
    "check": "ironrule.checker.checker",
}

__all__ = sorted([*_HOMES, *(name for name in dir() if name.endswith("Error"))])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ironrule' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""Ironrule: rules without exceptions that explain one decision of any classifier on tabular data.

>>> import ironrule
>>> explainer = ironrule.Explainer(model, data, desired="good")    # doctest: +SKIP
>>> print(explainer.explain(data.iloc[3]))                         # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ironrule.errors import (
    AuditError,
    BudgetError,
    ConstraintError,
    InputError,
    IronruleError,
    MissingExtraError,
    ModelError,
    OutcomeError,
    SpaceError,
    StorageError,
    TableError,
)

if TYPE_CHECKING:
    from ironrule.checker.checker import Checker, check
    from ironrule.checker.result import Check
    from ironrule.explain.explainer import Explainer
    from ironrule.model.wrappers.handwritten_models import Bins, RuleClassifier, Scorecard, Subscale, TwoLayerAdditive
    from ironrule.model.wrappers.networks import OnnxNetwork, TorchNetwork
    from ironrule.oracles.combine import SearchThenProve
    from ironrule.oracles.exhaustive import Exhaustive
    from ironrule.oracles.geco.oracle import GeCo
    from ironrule.oracles.sampling import Sampling
    from ironrule.results.batch import Batch, RuleCover
    from ironrule.results.counterfactuals import ChangeSet, Counterfactuals
    from ironrule.results.explanation import Explanation, Listing, RankedRule, Statistics
    from ironrule.results.judgement import Judgement, Recheck, RecheckedExplanation
    from ironrule.rule.counterfactual import Change, Counterfactual
    from ironrule.rule.rule import Component, Rule
    from ironrule.search.anchor import Anchor
    from ironrule.search.genetic import GeneticRule, GeneticRuleCF
    from ironrule.search.greedy_cf import GreedyRuleCF
    from ironrule.search.min_set_cover import HighsSolver, HittingSetSolver, MinSetCover
    from ironrule.search.minimum import Minimum
    from ironrule.space.constraints.syntax import Constraint
    from ironrule.space.feature import Feature
    from ironrule.space.sources.databases import SqlQuery
    from ironrule.space.space import Space
    from ironrule.verdict.budget import Budget
    from ironrule.verdict.certificate import Certificate
    from ironrule.verdict.verdict import Proven, Quality, Refuted, Unrefuted

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

__all__ = [
    "Anchor",
    "AuditError",
    "Batch",
    "Bins",
    "Budget",
    "BudgetError",
    "Certificate",
    "Change",
    "ChangeSet",
    "Check",
    "Checker",
    "Component",
    "Constraint",
    "ConstraintError",
    "Counterfactual",
    "Counterfactuals",
    "Exhaustive",
    "Explainer",
    "Explanation",
    "Feature",
    "GeCo",
    "GeneticRule",
    "GeneticRuleCF",
    "GreedyRuleCF",
    "HighsSolver",
    "HittingSetSolver",
    "InputError",
    "IronruleError",
    "Judgement",
    "Listing",
    "MinSetCover",
    "Minimum",
    "MissingExtraError",
    "ModelError",
    "OnnxNetwork",
    "OutcomeError",
    "Proven",
    "Quality",
    "RankedRule",
    "Recheck",
    "RecheckedExplanation",
    "Refuted",
    "Rule",
    "RuleClassifier",
    "RuleCover",
    "Sampling",
    "Scorecard",
    "SearchThenProve",
    "Space",
    "SpaceError",
    "SqlQuery",
    "Statistics",
    "StorageError",
    "Subscale",
    "TableError",
    "TorchNetwork",
    "TwoLayerAdditive",
    "Unrefuted",
    "check",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ironrule' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

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
    from ironrule.checker import Check, Checker, check
    from ironrule.explain import (
        Batch,
        ChangeSet,
        Counterfactuals,
        Explainer,
        Explanation,
        FewRules,
        Judgement,
        Listing,
        RankedRule,
        Recheck,
        Rechecked,
        Statistics,
    )
    from ironrule.model import (
        Bins,
        OnnxNetwork,
        RuleClassifier,
        Scorecard,
        Subscale,
        TorchNetwork,
        TwoLayerAdditive,
    )
    from ironrule.oracles import Exhaustive, GeCo, Layered, Sampling
    from ironrule.rule import Change, Component, Counterfactual, Rule
    from ironrule.search import (
        GeneticRule,
        GeneticRuleCF,
        GreedyRuleCF,
        HighsProgram,
        HittingSets,
        Minimum,
        MinSetCover,
    )
    from ironrule.space import Constraint, Feature, Space
    from ironrule.space.sources import SqlQuery
    from ironrule.verdict import Budget, Certificate, Proven, Quality, Refuted, Unrefuted

__version__ = "0.1.0"

_NAMES = {  # by module; imported when first used, so that `import ironrule` stays fast
    "checker": "Check check Checker",
    "explain": (
        "Batch ChangeSet Counterfactuals Explainer Explanation FewRules Judgement Listing RankedRule Recheck "
        "Rechecked Statistics"
    ),
    "model": "Bins OnnxNetwork RuleClassifier Scorecard Subscale TorchNetwork TwoLayerAdditive",
    "oracles": "Exhaustive GeCo Layered Sampling",
    "rule": "Change Component Counterfactual Rule",
    "search": "Anchor GeneticRule GeneticRuleCF GreedyRuleCF HighsProgram HittingSets Minimum MinSetCover",
    "space": "Constraint Feature Space",
    "space.sources": "SqlQuery",
    "verdict": "Budget Certificate Proven Quality Refuted Unrefuted",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

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
    "FewRules",
    "GeCo",
    "GeneticRule",
    "GeneticRuleCF",
    "GreedyRuleCF",
    "HighsProgram",
    "HittingSets",
    "InputError",
    "IronruleError",
    "Judgement",
    "Layered",
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
    "Rechecked",
    "Refuted",
    "Rule",
    "RuleClassifier",
    "Sampling",
    "Scorecard",
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
    return getattr(importlib.import_module(f"ironrule.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

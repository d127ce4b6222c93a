"""Ironrule: rules without exceptions that explain one decision of any classifier on tabular data.

>>> import ironrule
>>> explainer = ironrule.Explainer(model, data, desired="good")    # doctest: +SKIP
>>> print(explainer.explain(data.iloc[3]))                         # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import Any

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

__version__ = "0.2.0"

# Every public name and its home; imported when first used, so that `import ironrule` stays fast. `__init__.pyi` has the
# same names for type checkers; a test compares both.
_HOMES = {
    "ActionableRecourse": "ironrule.oracles.heuristics.actionable_recourse",
    "Anchor": "ironrule.search.anchor",
    "AutoencoderTraining": "ironrule.oracles.latent.dense_network",
    "Batch": "ironrule.results.batch",
    "Bins": "ironrule.model.wrappers.handwritten_models",
    "Bounded": "ironrule.verdict.bounded",
    "Budget": "ironrule.verdict.budget",
    "CCHVAE": "ironrule.oracles.latent.cchvae",
    "CLUE": "ironrule.oracles.latent.clue",
    "CRUDS": "ironrule.oracles.latent.cruds",
    "CEM": "ironrule.oracles.heuristics.cem",
    "Certificate": "ironrule.verdict.certificate",
    "Change": "ironrule.rule.counterfactual",
    "ChangeMeasures": "ironrule.results.counterfactuals",
    "ChangeMenu": "ironrule.results.changes.menu",
    "ChangeSet": "ironrule.results.counterfactuals",
    "Check": "ironrule.checker.result",
    "Checker": "ironrule.checker.checker",
    "Component": "ironrule.rule.rule",
    "Constraint": "ironrule.space.constraints.syntax",
    "Cost": "ironrule.rule.cost",
    "Counterfactual": "ironrule.rule.counterfactual",
    "Counterfactuals": "ironrule.results.counterfactuals",
    "CounterfactualRegion": "ironrule.results.changes.region",
    "CounterfactualsBatch": "ironrule.results.counterfactuals_batch",
    "DiCE": "ironrule.oracles.heuristics.dice",
    "Diagnosis": "ironrule.results.diagnosis",
    "DiagnosisFinding": "ironrule.results.diagnosis",
    "Exhaustive": "ironrule.oracles.exhaustive",
    "Explainer": "ironrule.explain.explainer",
    "Explanation": "ironrule.results.explanation",
    "FACE": "ironrule.oracles.heuristics.face",
    "FOCUS": "ironrule.oracles.heuristics.focus",
    "Feature": "ironrule.space.feature",
    "FeatureTweak": "ironrule.oracles.heuristics.feature_tweak",
    "GeCo": "ironrule.oracles.geco.oracle",
    "GeneticRule": "ironrule.search.genetic",
    "GeneticRuleCF": "ironrule.search.genetic",
    "GreedyRuleCF": "ironrule.search.greedy_cf",
    "GrowingSpheres": "ironrule.oracles.heuristics.growing_spheres",
    "HighsSolver": "ironrule.search.min_set_cover",
    "HittingSetSolver": "ironrule.search.min_set_cover",
    "Infeasibility": "ironrule.results.changes.infeasibility",
    "Judgement": "ironrule.results.judgement",
    "Labels": "ironrule.space.labels",
    "Ladder": "ironrule.results.ladder",
    "LadderOptions": "ironrule.explain.ladder",
    "Listing": "ironrule.results.explanation",
    "MinSetCover": "ironrule.search.min_set_cover",
    "Minimum": "ironrule.search.minimum",
    "NoticeOptions": "ironrule.results.notice",
    "OnnxModel": "ironrule.model.wrappers.onnx_models",
    "OnnxNetwork": "ironrule.model.wrappers.networks",
    "PmmlModel": "ironrule.model.wrappers.pmml_models",
    "Proven": "ironrule.verdict.verdict",
    "Quality": "ironrule.verdict.verdict",
    "REVISE": "ironrule.oracles.latent.revise",
    "RankedRule": "ironrule.results.explanation",
    "Reason": "ironrule.results.reasons",
    "ReasonCatalogue": "ironrule.results.reasons",
    "Recheck": "ironrule.results.judgement",
    "RecheckedExplanation": "ironrule.results.judgement",
    "Refuted": "ironrule.verdict.verdict",
    "ReportOptions": "ironrule.results.report_options",
    "Role": "ironrule.space.roles",
    "RoleGuesses": "ironrule.space.roles",
    "Rule": "ironrule.rule.rule",
    "RuleClassifier": "ironrule.model.wrappers.handwritten_models",
    "RuleCover": "ironrule.results.batch",
    "Rung": "ironrule.results.ladder",
    "Sampling": "ironrule.oracles.sampling",
    "Scorecard": "ironrule.model.wrappers.handwritten_models",
    "SearchThenProve": "ironrule.oracles.combine",
    "Space": "ironrule.space.space",
    "SqlQuery": "ironrule.space.sources.databases",
    "Statistics": "ironrule.results.explanation",
    "Subscale": "ironrule.model.wrappers.handwritten_models",
    "SuggestedChanges": "ironrule.results.advice",
    "Target": "ironrule.model.target",
    "TorchNetwork": "ironrule.model.wrappers.networks",
    "TwoLayerAdditive": "ironrule.model.wrappers.handwritten_models",
    "Unrefuted": "ironrule.verdict.verdict",
    "Wachter": "ironrule.oracles.heuristics.wachter",
    "check": "ironrule.checker.checker",
}

__all__ = sorted([*_HOMES, *(name for name in dir() if name.endswith("Error"))])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ironrule' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""What type checkers and editors see of the root, which imports its names when they are first used."""

from ironrule.checker.checker import Checker as Checker, check as check
from ironrule.checker.result import Check as Check
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
from ironrule.explain.explainer import Explainer as Explainer
from ironrule.explain.ladder import LadderOptions as LadderOptions
from ironrule.model.target import Target as Target
from ironrule.model.wrappers.handwritten_models import (
    Bins as Bins,
    RuleClassifier as RuleClassifier,
    Scorecard as Scorecard,
    Subscale as Subscale,
    TwoLayerAdditive as TwoLayerAdditive,
)
from ironrule.model.wrappers.networks import OnnxNetwork as OnnxNetwork, TorchNetwork as TorchNetwork
from ironrule.model.wrappers.onnx_models import OnnxModel as OnnxModel
from ironrule.model.wrappers.pmml_models import PmmlModel as PmmlModel
from ironrule.oracles.combine import SearchThenProve as SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive as Exhaustive
from ironrule.oracles.geco.oracle import GeCo as GeCo
from ironrule.oracles.heuristics.actionable_recourse import ActionableRecourse as ActionableRecourse
from ironrule.oracles.heuristics.cem import CEM as CEM
from ironrule.oracles.heuristics.dice import DiCE as DiCE
from ironrule.oracles.heuristics.face import FACE as FACE
from ironrule.oracles.heuristics.feature_tweak import FeatureTweak as FeatureTweak
from ironrule.oracles.heuristics.focus import FOCUS as FOCUS
from ironrule.oracles.heuristics.growing_spheres import GrowingSpheres as GrowingSpheres
from ironrule.oracles.heuristics.wachter import Wachter as Wachter
from ironrule.oracles.latent.cchvae import CCHVAE as CCHVAE
from ironrule.oracles.latent.clue import CLUE as CLUE
from ironrule.oracles.latent.cruds import CRUDS as CRUDS
from ironrule.oracles.latent.dense_network import AutoencoderTraining as AutoencoderTraining
from ironrule.oracles.latent.revise import REVISE as REVISE
from ironrule.oracles.sampling import Sampling as Sampling
from ironrule.results.advice import SuggestedChanges as SuggestedChanges
from ironrule.results.batch import Batch as Batch, RuleCover as RuleCover
from ironrule.results.changes.infeasibility import Infeasibility as Infeasibility
from ironrule.results.changes.menu import ChangeMenu as ChangeMenu
from ironrule.results.changes.region import CounterfactualRegion as CounterfactualRegion
from ironrule.results.counterfactuals import (
    ChangeMeasures as ChangeMeasures,
    ChangeSet as ChangeSet,
    Counterfactuals as Counterfactuals,
)
from ironrule.results.counterfactuals_batch import CounterfactualsBatch as CounterfactualsBatch
from ironrule.results.diagnosis import Diagnosis as Diagnosis, DiagnosisFinding as DiagnosisFinding
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
from ironrule.results.ladder import Ladder as Ladder, Rung as Rung
from ironrule.results.notice import NoticeOptions as NoticeOptions
from ironrule.results.reasons import Reason as Reason, ReasonCatalogue as ReasonCatalogue
from ironrule.results.report_options import ReportOptions as ReportOptions
from ironrule.rule.cost import Cost as Cost
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
from ironrule.space.labels import Labels as Labels
from ironrule.space.roles import Role as Role, RoleGuesses as RoleGuesses
from ironrule.space.sources.databases import SqlQuery as SqlQuery
from ironrule.space.space import Space as Space
from ironrule.verdict.bounded import Bounded as Bounded
from ironrule.verdict.budget import Budget as Budget
from ironrule.verdict.certificate import Certificate as Certificate
from ironrule.verdict.verdict import (
    Proven as Proven,
    Quality as Quality,
    Refuted as Refuted,
    Unrefuted as Unrefuted,
)

__version__: str

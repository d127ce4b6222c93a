"""Batches: every denied row of a table explained, on all processors, kept safely, and what few rules cover them all."""

from ironrule.explain.batches.batch import Batch
from ironrule.explain.batches.few import CoveringRule, FewRules
from ironrule.explain.batches.line import Line

__all__ = ["Batch", "CoveringRule", "FewRules", "Line"]

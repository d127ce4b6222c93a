"""Rules: components, boxes, duals, hitting sets.

The modules that need Numba (duals, hitting) are imported by those who use them, so that importing the package is fast.
"""

from ironrule.rule.box import Box
from ironrule.rule.component import Component, shown
from ironrule.rule.counterfactual import Change, Counterfactual, Deferred
from ironrule.rule.relevant import Relevant, relevant_to
from ironrule.rule.rule import Rule

__all__ = ["Box", "Change", "Component", "Counterfactual", "Deferred", "Relevant", "Rule", "relevant_to", "shown"]

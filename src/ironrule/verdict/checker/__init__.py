"""The checker: verifies an explanation's every claim against the user's own model, without trusting the search.

It imports the space, plain values of rules, and what reads a model; nothing of the oracles, the searches, or the
compiled forms and kernels that they use (a test enforces this). It is written to be read: sets of codes as flags, trees
level by level, one model question at a time. See docs/certificates.md for the format and for what is assumed.

    document      what an explanation's JSON must look like
    scope         the space and the model at hand
    terms         from the user's values to codes
    permission    components, weights, duals
    claims        everything that is claimed, and rules: what is claimed of each rule
    certificates  that a box holds no desired point: pieces, bounds (questions, answers, trees, rounding), networks
                  (entering, lines, substituting, halving), occurring, asking
    needed        that no lighter rule excludes the witnesses
"""

from ironrule.verdict.checker.checking import Checker, check
from ironrule.verdict.checker.result import Check, Finding

__all__ = ["Check", "Checker", "Finding", "check"]

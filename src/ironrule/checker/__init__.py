"""The checker: verifies every claim of an explanation against the user's own model, without trusting the search.

It imports nothing of Ironrule but its errors (a test enforces this), so that it can be read and used alone; it reads
models, tables and constraints by itself. docs/certificates.md tells what is checked and what a check rests on.

    check            the entry: Checker and check
    document         what an explanation's JSON must look like
    scope            what is at hand: space/ (tables, domains, constraints), asked_models, outcomes
    readings/        how models are read; pipelines and columns: what reaches an estimator; intervals
    claims           every claim in turn, with components (rules in codes, weights)
    certificates     that a box holds no desired point: pieces, sum_bounds/, network_bounds/, sampling
    lower_bound      that no lighter rule excludes the witnesses
"""

from ironrule.checker.check import Checker, check
from ironrule.checker.result import Check, Finding

__all__ = ["Check", "Checker", "Finding", "check"]

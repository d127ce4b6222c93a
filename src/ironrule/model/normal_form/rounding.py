"""Bounds on the rounding errors of sums of trees in double precision, in the model's arithmetic and in ours.

A sum of m numbers in double precision errs by at most m half units of the last place of their sizes. Four times that is
allowed here: a checker of a bound may add in another order, and must come to the same end. A logistic function itself
is taken to be good to 32 units. One value alone, added to the offset and compared with zero, is exact: the sign of a
sum of two numbers is.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin

# Four half units of the last place of a double (see above).
ROUNDING = 2.0**-51
LOGISTIC_UNITS = 32
CHECKER_FACTOR = 1.25  # a checker bounds the model's rounding by itself, and may come to somewhat more


def bound_group_size(group: LinkedGroup) -> float:
    """How large the sum of a group's trees can be; what cannot occur does not count."""
    return sum(float(np.abs(tree.value[tree.value > -np.inf]).max(initial=0.0)) for tree in group.trees)


def bound_sum_error(group: LinkedGroup) -> float:
    """How far the sum of a group's trees may be off."""
    count = len(group.trees)
    return group.rounding_error + ((count + 2) * ROUNDING * bound_group_size(group) if count > 1 else 0.0)


def compute_slack(margin: Margin) -> float:
    """Within this of zero, only the model itself can say whether a margin of trees alone is positive."""
    reach, own = abs(margin.offset), 0.0
    # `reach` bounds the size of all that is added up; `own` is the error of the groups' sums.
    for group in margin.groups:
        reach += bound_group_size(group) if group.link.kind == "identity" else abs(group.link.scale)
        own += _bound_linked_error(group)
    # One exact value plus the offset: the sign of such a sum is exact, so there is nothing to allow for.
    if margin.error == 0.0 and own == 0.0 and len(margin.groups) <= 1:
        return 0.0
    error = CHECKER_FACTOR * margin.error
    return error + own + ROUNDING * ((len(margin.groups) + 2) * reach + 8 * error)


def _bound_linked_error(group: LinkedGroup) -> float:
    """How far a group may be off behind its link. Zero for a step, to whose sum the error is added before."""
    link = group.link
    if link.kind == "identity":
        return bound_sum_error(group)
    if link.kind == "step":
        return 0.0
    return abs(link.scale) * (abs(link.slope) * bound_group_size(group) + abs(link.shift) + LOGISTIC_UNITS) * ROUNDING

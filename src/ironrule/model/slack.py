"""How far a margin may be off: by the model's own arithmetic, as its reading says, and by ours.

A sum of m numbers in double precision errs by at most m half units of the last place of their sizes. Four times that is
allowed here: whoever checks a bound may add in another order, and must come to the same end. Behind a link the sum is
taken that much higher (for what may be) or lower (for what surely is), since links rise; a logistic function itself is
taken to be good to 32 units. One value alone, added to the offset and compared with zero, is exact: the sign of a sum
of two numbers is.
"""

from __future__ import annotations

import numpy as np

from ironrule.model.reading import Group, Margin

ROUNDING = 2.0**-51
EXPONENTIAL = 32
AGREEMENT = 1.25  # a checker bounds the model's rounding by itself, and may come to somewhat more


def size_of(group: Group) -> float:
    """How large the sum of a group's trees can be; what cannot occur does not count."""
    return sum(float(np.abs(tree.value[tree.value > -np.inf]).max(initial=0.0)) for tree in group.trees)


def sum_error(group: Group) -> float:
    """How far the sum of a group's trees may be off."""
    count = len(group.trees)
    return group.rounding + ((count + 2) * ROUNDING * size_of(group) if count > 1 else 0.0)


def slack_of(margin: Margin) -> float:
    """Within this of zero, only the model itself can say whether a margin is positive."""
    reach, own = abs(margin.offset), 0.0
    for group in margin.groups:
        reach += size_of(group) if group.link.kind == "identity" else abs(group.link.scale)
        own += _behind_link(group)
    if margin.error == 0.0 and own == 0.0 and len(margin.groups) <= 1:
        return 0.0
    error = AGREEMENT * margin.error
    return error + own + ROUNDING * ((len(margin.groups) + 2) * reach + 8 * error)


def _behind_link(group: Group) -> float:
    """What is left of a group's error behind its link; a step takes it in before."""
    link = group.link
    if link.kind == "identity":
        return sum_error(group)
    if link.kind == "step":
        return 0.0
    return abs(link.scale) * (abs(link.slope) * size_of(group) + abs(link.shift) + EXPONENTIAL) * ROUNDING

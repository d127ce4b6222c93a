"""How far sums may be off: what the model's own arithmetic may do, as its reading says, and what the checker's may.

Adding n doubles in any order is off by less than n u times the sum of their sizes, u = 2**-53 (Higham 2002, section
4.2). A group's sum S is so known up to some e. Behind a link the checker takes link(S + e), which is not below the true
value since links rise; a logistic function itself is taken to be good to a few units, and what the rounding of its
argument can do is added: it never rises faster than a quarter of its scale. All in all a margin is known up to

    u ( (groups + 1) (|offset| + what the groups can be) + sum of the groups' own errors )

One value alone, added to the offset, is compared with zero without any error: the sign of a sum of two doubles is
exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ironrule.model.reading import Floats, Group, Margin
from ironrule.model.tabulate import Columns

UNIT = 2.0**-53
EXPONENTIAL = 32  # units that a logistic function may be off by itself; NumPy's exp is good to 4


@dataclass(frozen=True, slots=True)
class Slack:
    """A margin's bound must not exceed ``-whole`` to be surely not positive; ``sums`` are the groups' own errors."""

    whole: float
    sums: tuple[float, ...]


def slack(margin: Margin, columns: Columns) -> Slack:
    """How far a margin may be off, by the model's arithmetic and by the checker's."""
    sizes = [list(_sizes(group, columns)) for group in margin.groups]
    sums = tuple(_sum_error(parts) for parts in sizes)
    models = margin.error + margin.relative * (abs(margin.offset) + sum(map(sum, sizes)))
    if (
        models == 0.0
        and len(margin.groups) <= 1
        and not any(sums)
        and all(g.link.kind != "logistic" for g in margin.groups)
    ):
        return Slack(0.0, sums)
    reach, own = abs(margin.offset), 0.0
    for group, parts, error in zip(margin.groups, sizes, sums, strict=True):
        reach += sum(parts) if group.link.kind == "identity" else abs(group.link.scale)
        own += _linked_error(group, sum(parts), error)
    return Slack(models + own + UNIT * ((len(margin.groups) + 1) * reach + 8 * models), sums)


def contributions(group: Group, columns: Columns) -> Iterator[tuple[int, Floats]]:
    """For every term its feature, and what it adds for every code."""
    for term in group.terms:
        yield int(columns.features[term.column]), np.asarray(term.of(columns.values[term.column]), dtype=np.float64)


def _sizes(group: Group, columns: Columns) -> Iterator[float]:
    """The largest absolute value of every tree and term."""
    for tree in group.trees:
        yield float(np.abs(tree.value).max(initial=0.0))
    for _, part in contributions(group, columns):
        yield float(np.abs(part).max(initial=0.0))


def _sum_error(parts: list[float]) -> float:
    return (len(parts) + 1) * UNIT * sum(parts) if len(parts) > 1 else 0.0


def _linked_error(group: Group, size: float, error: float) -> float:
    """What is left of a group's error behind its link; a step's was spent before it."""
    link = group.link
    if link.kind == "identity":
        return error
    return (
        0.0
        if link.kind == "step"
        else abs(link.scale) * UNIT * (abs(link.slope) * size + abs(link.shift) + EXPONENTIAL)
    )

"""Upper bounds of a model's margins over pieces of the space, for many pieces at once.

For every distinct set of codes it is found once which path sets it meets; from there a tree adds its best leaf in
reach, and the terms of a feature their largest sum. Whatever points a piece has, the margin of none is above the bound.

**Rounding.** Adding n doubles in any order is off by less than n u times the sum of their sizes, u = 2**-53 (Higham
2002, section 4.2). A part's sum S is so known up to some e. Behind a link the checker takes link(S + e), which is not
below the true value since links rise; a logistic function itself is taken to be good to 32 units, and what the rounding
of its argument can do is added: it never rises faster than a quarter of its scale. All in all a margin is known up to

    u ((parts + 1) (|offset| + what the parts can be) + sum of the parts' own errors)

plus what the model's own arithmetic may be off. One value alone, added to the offset, is compared with zero without any
error: the sign of a sum of two doubles is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ironrule.checker.columns import Column
from ironrule.checker.pieces import Pieces
from ironrule.checker.readings.normal_form import Floats, Integers, Link, Margin, Mask, Part, SumReading
from ironrule.checker.sum_bounds.split_sets import (
    PathSets,
    Points,
    Runs,
    SplitSets,
    collect_split_sets,
    find_meeting,
)
from ironrule.checker.sum_bounds.tree_reach import TreeLevels, arrange_trees, evaluate_trees, find_best_leaves

MOST_CELLS = 1 << 22  # nodes times pieces looked at together
UNIT = 2.0**-53
EXPONENTIAL = 32  # units that a logistic function may be off by itself; NumPy's exp is good to 4


class PartBound(NamedTuple):
    """One part: its trees, what its terms add for every code of a feature, its link, and how far off it may be."""

    trees: TreeLevels
    terms: tuple[tuple[int, Floats], ...]
    link: Link
    error: float


class MarginBound(NamedTuple):
    """One margin; where its bound is not above ``-slack`` it is surely not positive."""

    offset: float
    parts: tuple[PartBound, ...]
    slack: float


@dataclass(frozen=True, slots=True, eq=False)
class SumBounds:
    """A reading prepared: its split sets, and its margins."""

    split_sets: SplitSets
    alternatives: tuple[tuple[MarginBound, ...], ...]
    path_sets_of: tuple[Integers, ...]  # per feature its path sets
    runs: tuple[Runs, ...]

    closes_in_parts: ClassVar[bool] = False

    @property
    def classes(self) -> tuple[Integers, ...]:
        """Per feature the class of every code; codes of one class are the same to the model."""
        return self.split_sets.classes

    def close(self, pieces: Pieces, alternative: int, holds_any: Callable[[Pieces], Mask] | None = None) -> Mask:
        """Which pieces surely hold no point where all margins of this alternative are positive. ``holds_any`` says
        which pieces hold any point that can occur; those that hold none are closed.
        """
        met = [find_meeting(*three) for three in zip(self.runs, self.split_sets.sizes, pieces.sets, strict=True)]
        width = sum(map(len, met))
        closed = np.zeros(len(pieces), dtype=np.bool_)
        for margin in self.alternatives[alternative]:
            largest = [[(j, _find_largest(pieces.sets[j], adds)) for j, adds in part.terms] for part in margin.parts]
            step = max(8, MOST_CELLS // max([width, *(len(part.trees.value) for part in margin.parts), 1]))
            left = np.flatnonzero(~closed)
            for some in (left[start : start + step] for start in range(0, len(left), step)):
                rows = pieces.rows[some]
                possible = np.empty((width, len(rows)), dtype=np.bool_)
                for j, meeting in enumerate(met):
                    alike = len(pieces.sets[j]) == 1
                    possible[self.path_sets_of[j]] = meeting if alike else meeting.take(rows[:, j], axis=1, mode="clip")
                sums = [find_best_leaves(part.trees, possible).sum(axis=0) for part in margin.parts]
                for total, tops in zip(sums, largest, strict=True):
                    total += np.sum([most[rows[:, j]] for j, most in tops], axis=0)
                closed[some] = _add_up(margin, sums) <= -margin.slack
        if holds_any is not None:
            left = np.flatnonzero(~closed)
            closed[left] = ~holds_any(pieces.some(left))
        return closed

    def decide(self, points: Points) -> tuple[Mask, Mask]:
        """Which points may be desired, and which surely are."""
        possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
        for margins in self.alternatives:
            may, must = np.ones(len(points), dtype=np.bool_), np.ones(len(points), dtype=np.bool_)
            for margin in margins:
                sums = [self._evaluate(part, points) for part in margin.parts]
                may &= ~(_add_up(margin, sums) <= -margin.slack)
                must &= _add_up(margin, sums, -1.0) > margin.slack
            possible |= may
            sure |= must
        return possible, sure

    def _evaluate(self, part: PartBound, points: Points) -> Floats:
        total: Floats = evaluate_trees(part.trees, self.split_sets, points).sum(axis=0)
        for feature, adds in part.terms:
            total += adds[points[:, feature]]
        return total


def _find_largest(sets: Mask, adds: Floats) -> Floats:
    """For every set of codes the largest of what is added."""
    return np.asarray(np.where(sets, adds, -np.inf).max(axis=1))


def _add_up(margin: MarginBound, sums: list[Floats], direction: float = 1.0) -> Floats:
    """A margin from the sums of its parts: not below the true one, or with direction -1 not above, but for rounding
    that the slack covers.
    """
    total = np.array(margin.offset)
    for part, value in zip(margin.parts, sums, strict=True):
        total = total + (value if part.link.kind == "identity" else _apply(part.link, value + direction * part.error))
    return np.asarray(total)


def _apply(link: Link, total: Floats) -> Floats:
    if link.kind == "step":
        return np.where(total > link.shift, link.scale, 0.0)
    with np.errstate(over="ignore"):
        return np.asarray(link.scale / (1.0 + np.exp(-(link.slope * total + link.shift))))


def prepare_sum_bounds(reading: SumReading, columns: Sequence[Column], sizes: Sequence[int]) -> SumBounds:
    """Prepare a reading; raises Unreadable where it cannot answer for a value of a column."""
    split_sets = collect_split_sets(reading, columns, sizes)
    path_sets = PathSets(split_sets)
    margins = [[_prepare_margin(one, columns, path_sets) for one in margins] for margins in reading.alternatives]
    numbers, runs = map(path_sets.numbers_of, range(len(sizes))), map(path_sets.runs, range(len(sizes)))
    return SumBounds(split_sets, tuple(map(tuple, margins)), tuple(numbers), tuple(runs))


def _prepare_margin(margin: Margin, columns: Sequence[Column], path_sets: PathSets) -> MarginBound:
    adds = [[(columns[t.column].feature, np.asarray(t.add(columns[t.column].values), np.float64)) for t in part.terms]
            for part in margin.parts]  # fmt: skip
    sizes = [_measure_sizes(part, own) for part, own in zip(margin.parts, adds, strict=True)]
    errors = [(len(own) + 1) * UNIT * sum(own) if len(own) > 1 else 0.0 for own in sizes]
    parts = [
        PartBound(arrange_trees(part.trees, path_sets), _merge_terms(own), part.link, error)
        for part, own, error in zip(margin.parts, adds, errors, strict=True)
    ]
    rising = all(part.link.scale >= 0 and part.link.slope >= 0 for part in margin.parts)
    slack = _bound_rounding(margin, sizes, errors)
    return MarginBound(margin.offset, tuple(parts), slack if rising and np.isfinite(slack) else np.nan)


def _measure_sizes(part: Part, adds: Sequence[tuple[int, Floats]]) -> list[float]:
    """The largest absolute value of every tree and term."""
    trees = [float(np.abs(tree.value).max(initial=0.0)) for tree in part.trees]
    return trees + [float(np.abs(own).max(initial=0.0)) for _, own in adds]


def _merge_terms(adds: Sequence[tuple[int, Floats]]) -> tuple[tuple[int, Floats], ...]:
    """What all terms of a feature add together, for every code."""
    of_feature: dict[int, Floats] = {}
    for feature, own in adds:
        of_feature[feature] = of_feature.get(feature, 0.0) + own
    return tuple(of_feature.items())


def _bound_rounding(margin: Margin, sizes: Sequence[Sequence[float]], errors: Sequence[float]) -> float:
    """How far a margin may be off, by the model's arithmetic and by the checker's; nothing is below a NaN."""
    models = margin.error + margin.relative * (abs(margin.offset) + sum(map(sum, sizes)))
    if (
        models == 0.0
        and len(margin.parts) <= 1
        and not any(errors)
        and all(p.link.kind != "logistic" for p in margin.parts)
    ):
        return 0.0
    reach, own = abs(margin.offset), 0.0
    for part, parts_sizes, error in zip(margin.parts, sizes, errors, strict=True):
        size, link = sum(parts_sizes), part.link
        reach += size if link.kind == "identity" else abs(link.scale)
        if link.kind == "identity":
            own += error
        elif link.kind == "logistic":  # the error of a sum before a step was spent before it
            own += abs(link.scale) * UNIT * (abs(link.slope) * size + abs(link.shift) + EXPONENTIAL)
    return models + own + UNIT * ((len(margin.parts) + 1) * reach + 8 * models)

"""Upper bounds of a model's margins over pieces of the space, for many pieces at once.

For every distinct set of codes it is found once which answers to the model's tests can occur in it; from there a tree
adds its best leaf in reach, and the terms of a feature their largest sum. Whatever points a piece has, the margin of
none of them is above the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ironrule.model.reading import Floats, Group, Link, Margin, Reading
from ironrule.model.tabulate import Columns
from ironrule.space import Points, Space
from ironrule.verdict.checker.answers import Answers, Runs, meets
from ironrule.verdict.checker.pieces import Pieces
from ironrule.verdict.checker.questions import Flags, Ints, Questions, questions_of
from ironrule.verdict.checker.rounding import contributions, slack
from ironrule.verdict.checker.trees import Trees, best_leaves, trees_of, values_at

MOST_CELLS = 1 << 22  # nodes times pieces looked at together


class Sum(NamedTuple):
    """One group: its trees, what its terms add for every code of a feature, its link, and how far off it may be."""

    trees: Trees
    terms: tuple[tuple[int, Floats], ...]
    link: Link
    error: float


class Limit(NamedTuple):
    """One margin; where its bound is not above ``-slack`` it is surely not positive."""

    offset: float
    sums: tuple[Sum, ...]
    slack: float


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """A reading prepared: what it asks, and its margins."""

    questions: Questions
    alternatives: tuple[tuple[Limit, ...], ...]
    about: tuple[Ints, ...]  # per feature its answers
    runs: tuple[Runs, ...]

    def closed(self, pieces: Pieces, alternative: int) -> Flags:
        """Which pieces surely hold no point where all margins of this alternative are positive."""
        possible = [meets(*three) for three in zip(self.runs, self.questions.sizes, pieces.sets, strict=True)]
        closed = np.zeros(len(pieces), dtype=np.bool_)
        for limit in self.alternatives[alternative]:
            tops = [[(j, _largest(pieces.sets[j], adds)) for j, adds in one.terms] for one in limit.sums]
            step = max(
                8, MOST_CELLS // max([sum(map(len, possible)), *(len(one.trees.value) for one in limit.sums), 1])
            )
            left = np.flatnonzero(~closed)
            for part in (left[start : start + step] for start in range(0, len(left), step)):
                rows = pieces.rows[part]
                here = np.empty((sum(map(len, possible)), len(rows)), dtype=np.bool_)
                for j, some in enumerate(possible):
                    alike = len(pieces.sets[j]) == 1
                    here[self.about[j]] = some if alike else some.take(rows[:, j], axis=1, mode="clip")
                sums = [best_leaves(one.trees, here).sum(axis=0) for one in limit.sums]
                for total, top in zip(sums, tops, strict=True):
                    total += np.sum([most[rows[:, j]] for j, most in top], axis=0)
                closed[part] = _margin(limit, sums) <= -limit.slack
        return closed

    def decided(self, points: Points) -> tuple[Flags, Flags]:
        """Which points may be desired, and which surely are."""
        possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
        for limits in self.alternatives:
            may, must = np.ones(len(points), dtype=np.bool_), np.ones(len(points), dtype=np.bool_)
            for limit in limits:
                sums = [self._sum_at(one, points) for one in limit.sums]
                may &= ~(_margin(limit, sums) <= -limit.slack)
                must &= _margin(limit, sums, -1.0) > limit.slack
            possible |= may
            sure |= must
        return possible, sure

    def _sum_at(self, one: Sum, points: Points) -> Floats:
        total: Floats = values_at(one.trees, self.questions, points).sum(axis=0)
        for feature, adds in one.terms:
            total += adds[points[:, feature]]
        return total


def _largest(sets: Flags, adds: Floats) -> Floats:
    """For every set of codes the largest of what is added."""
    return np.asarray(np.where(sets, adds, -np.inf).max(axis=1))


def _margin(limit: Limit, sums: list[Floats], lean: float = 1.0) -> Floats:
    """A margin from the sums of its groups: not below the true one, or with a lean of -1 not above, but for rounding
    that the slack covers.
    """
    total = np.array(limit.offset)
    for one, value in zip(limit.sums, sums, strict=True):
        total = total + (value if one.link.kind == "identity" else one.link.of(value + lean * one.error))
    return np.asarray(total)


def bounds_of(reading: Reading, columns: Columns, space: Space) -> Bounds:
    """Prepare a reading."""
    questions = questions_of(reading, columns, space)
    answers = Answers(questions)
    limits = [[_limit(margin, columns, answers) for margin in margins] for margins in reading.alternatives]
    every = range(len(space))
    about, runs = tuple(map(answers.about, every)), tuple(map(answers.runs, every))
    return Bounds(questions, tuple(map(tuple, limits)), about, runs)


def _limit(margin: Margin, columns: Columns, answers: Answers) -> Limit:
    allowed = slack(margin, columns)
    sums = [
        Sum(trees_of(group.trees, answers), _terms(group, columns), group.link, error)
        for group, error in zip(margin.groups, allowed.sums, strict=True)
    ]
    rising = all(group.link.scale >= 0 and group.link.slope >= 0 for group in margin.groups)
    sound = rising and np.isfinite(allowed.whole)
    return Limit(margin.offset, tuple(sums), allowed.whole if sound else np.nan)  # nothing is below a NaN


def _terms(group: Group, columns: Columns) -> tuple[tuple[int, Floats], ...]:
    """What all terms of a feature add together, for every code."""
    of_feature: dict[int, Floats] = {}
    for feature, part in contributions(group, columns):
        of_feature[feature] = of_feature.get(feature, 0.0) + part
    return tuple(of_feature.items())

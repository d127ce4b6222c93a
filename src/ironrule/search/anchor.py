"""Anchor (Ribeiro, Singh and Guestrin, "Anchors: High-Precision Model-Agnostic Explanations", AAAI 2018).

An anchor is a rule whose *precision* is high: of the points of its box, drawn from a perturbation distribution, nearly
all are undesired. So it tolerates exceptions, which the final check may find. Among anchors the one with most
*coverage* is sought, by a beam search: the rules of one level are those of the level before with one component more,
and a bandit finds the most precise of them. Those are drawn for until it is settled whether they are anchors. In the
end the anchor that covers most is the answer, or, if there is none, the most precise rule of all levels.

*Perturbation.* As in the authors' program and in alibi, a point is a past row, drawn at random, in which every feature
that breaks the rule gets a value drawn from the past values that do not. Where no past value does, it is the
instance's own. Under constraints, points that cannot occur are drawn again. If that fails too often, the point is
drawn uniformly from what can occur in the rule's box, and if even that fails it is the instance itself.

*Bandit.* KL-LUCB (Kaufmann and Kalyanakrishnan, "Information complexity in bandit subset selection", COLT 2013). Every
rule is an arm: a draw is a point of its box, and it pays if the outcome is undesired. From n draws with mean p, the
precision q lies where n kl(p, q) <= beta, kl being the Kullback-Leibler divergence of two coin tosses; beta grows with
the logarithm of the round, so that all bounds hold in all rounds with probability 1 - delta. Always drawn are the two
arms that matter: the weakest of those that lead, and the strongest of the others. When the second can be better by no
more than tau, those that lead are the answer.

What differs from the authors' program (anchor-exp) and from alibi: numbers are not cut into quartiles first, since a
component is `F <= v` or `F >= v` with the instance's value; the empty rule is judged like any other; and every rule is
drawn for by itself. anchor-exp counts for a longer rule what was drawn for a shorter one and happens to satisfy it,
which has another distribution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, Points
from ironrule.errors import InputError
from ironrule.hitting.bits import list_members, pack_sets, unpack_sets
from ironrule.hitting.solver import list_minimal_hitting_sets
from ironrule.oracles.protocol import Case
from ironrule.rule.duals import DistinctDuals, count_covered_rows, count_distinct_duals
from ironrule.search.problem import Problem, SearchState

MAX_REDRAWS = 20  # how often a point that cannot occur is drawn again


@dataclass(slots=True, eq=False)
class Perturbation:
    """Draws points of rules' boxes for one case."""

    case: Case
    cumulative_counts: list[Int64Array] = field(init=False)  # per feature and code, how many past rows have a lower one

    def __post_init__(self) -> None:
        self.cumulative_counts = [np.append(0, np.cumsum(counts)) for counts in self.case.history.frequencies]

    def draw(self, rng: np.random.Generator, rules: Sequence[int], each: int) -> Points:
        """``each`` points for every rule, rule by rule."""
        boxes = [self.case.components.box(rule) for rule in rules]
        # One row per point to draw: rows place * each to (place + 1) * each - 1 belong to rule `place`.
        low = np.repeat(np.stack([box.low for box in boxes]), each, axis=0)
        high = np.repeat(np.stack([box.high for box in boxes]), each, axis=0)
        points, left = np.empty_like(low), np.arange(len(low))
        # Rejection sampling: `left` are the rows without a point that can occur; these are proposed again together.
        for _ in range(MAX_REDRAWS):
            proposed = self._propose(rng, low[left], high[left])
            occurring = self.case.feasible.admits(proposed)
            points[left[occurring]] = proposed[occurring]
            left = left[~occurring]
            if len(left) == 0:
                return points
        # What is still missing is drawn uniformly from the feasible points of the rule's box, rule by rule.
        for place in np.unique(left // each):
            missing = left[left // each == place]
            points[missing] = self._draw_uniformly(rng, boxes[place].low, boxes[place].high, len(missing))
        return points

    def _propose(self, rng: np.random.Generator, low: Points, high: Points) -> Points:
        history = self.case.history
        points = history.codes.points(rng.integers(len(history), size=len(low)))
        outside = (points < low) | (points > high)
        # Only the values outside the rule's bounds are replaced, feature by feature; the past row's others stay.
        for j in np.flatnonzero(outside.any(axis=0)).tolist():
            rows = np.flatnonzero(outside[:, j])
            points[rows, j] = self._draw_values(rng, j, low[rows, j], high[rows, j])
        return points

    def _draw_values(self, rng: np.random.Generator, j: int, low: Points, high: Points) -> Int64Array:
        """Past values of a feature between bounds, each as often as it occurs."""
        before = self.cumulative_counts[j]
        # Past rows sorted by this feature: those with ranks first to end - 1 have a code from low to high. A random
        # rank gives each code as often as it occurs; where there is none, the instance's value is taken below.
        first, end = before[low], before[high + 1]
        ranks = rng.integers(first, np.maximum(end, first + 1))
        codes = np.searchsorted(before, ranks, side="right") - 1
        return np.where(end > first, codes, self.case.instance[j])

    def _draw_uniformly(self, rng: np.random.Generator, low: Points, high: Points, count: int) -> Points:
        uniform = self.case.feasible.draw(rng, low, high, count)
        return np.concatenate([uniform, np.repeat(self.case.instance[None, :], count - len(uniform), axis=0)])


@dataclass(slots=True, eq=False)
class PrecisionEstimates:
    """How many points were drawn for every rule of one search, and how many of them were undesired."""

    problem: Problem
    perturbation: Perturbation = field(init=False)
    drawn: Counter[int] = field(default_factory=Counter)
    undesired: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.perturbation = Perturbation(self.problem.case)

    def draw(self, rules: Sequence[int], each: int) -> None:
        """Draw ``each`` points for every rule and ask the model about all of them at once."""
        if not rules:
            return
        problem = self.problem
        problem.meter.check(each * len(rules))
        points = self.perturbation.draw(problem.rng, rules, each)
        undesired = ~problem.meter.desired(problem.case.model, points)
        for rule, held in zip(rules, undesired.reshape(len(rules), each).sum(axis=1).tolist(), strict=True):
            self.drawn[rule] += each
            self.undesired[rule] += held

    def count_draws(self, rules: Sequence[int]) -> Float64Array:
        """How many points were drawn for each."""
        return np.array([self.drawn[rule] for rule in rules], dtype=np.float64)

    def compute_means(self, rules: Sequence[int]) -> Float64Array:
        """The share of undesired points of each, which must have been drawn for."""
        return np.array([self.undesired[rule] for rule in rules]) / self.count_draws(rules)


@dataclass(slots=True, eq=False)
class CoverageEstimate:
    """The share of past rows that rules cover, estimated on a sample of them."""

    problem: Problem
    samples: int
    past: DistinctDuals = field(init=False)

    def __post_init__(self) -> None:
        case, rng = self.problem.case, self.problem.rng
        rows = case.history.codes.take(rng.integers(len(case.history), size=self.samples))
        self.past = count_distinct_duals(rows.columns, case.components.low, case.components.high)

    def estimate(self, rules: Sequence[int]) -> list[float]:
        """The share that each covers."""
        covered = count_covered_rows(pack_sets(rules, self.problem.n), self.past.bits, self.past.counts)
        shares: list[float] = (covered / self.samples).tolist()
        return shares


BISECTIONS = 26
MIN_PROBABILITY = 1e-15
RATE_EXPONENT, RATE_FACTOR = 1.1, 405.5  # of the exploration rate: the constants of the paper's experiments


def compute_divergence(p: Float64Array, q: Float64Array) -> Float64Array:
    """The Kullback-Leibler divergence between coins that fall on heads with probability p and q.

    >>> compute_divergence(np.array([0.5]), np.array([0.25])).round(3).tolist()
    [0.144]
    """
    return _compute_cross_entropy(p, q) - _compute_cross_entropy(p, p)


def _compute_cross_entropy(p: Float64Array, q: Float64Array) -> Float64Array:
    """What a coin of probability p costs on the average under the belief q."""
    inner = np.minimum(np.maximum(q, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
    return np.asarray(-p * np.log(inner) - (1.0 - p) * np.log1p(-inner))


def bound_above(means: Float64Array, levels: Float64Array) -> Float64Array:
    """The largest q whose divergence from the mean is no more than the level.

    >>> bound_above(np.array([0.0]), np.array([0.1])).round(4).tolist()
    [0.0952]
    """
    return bound_means(means, levels, np.ones(len(means), np.bool_))


def bound_below(means: Float64Array, levels: Float64Array) -> Float64Array:
    """The least q whose divergence from the mean is no more than the level.

    >>> bound_below(np.array([1.0]), np.array([0.1])).round(4).tolist()
    [0.9048]
    """
    return bound_means(means, levels, np.zeros(len(means), np.bool_))


def bound_means(means: Float64Array, levels: Float64Array, upwards: BoolArray) -> Float64Array:
    """One end of every mean's interval, the upper or the lower one, rounded outwards."""
    furthest = np.sqrt(levels / 2.0)  # by Pinsker's inequality
    # Bisection for all means at once. Invariant: the divergence is within the level at `inside` and not below it at
    # `outside` (or `outside` is 0 or 1). Returning `outside` therefore never makes an interval too short.
    inside, outside = means, np.where(upwards, np.minimum(1.0, means + furthest), np.maximum(0.0, means - furthest))
    # kl(p, q) = cross(p, q) - cross(p, p); the second part does not depend on q and is moved to the other side.
    most = levels + _compute_cross_entropy(means, means)
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2.0
        beyond = _compute_cross_entropy(means, middle) > most
        outside, inside = np.where(beyond, middle, outside), np.where(beyond, inside, middle)
    return outside


def compute_exploration_rate(arms: int, turn: int, delta: float) -> float:
    """The rate beta that keeps all bounds in all rounds with probability 1 - delta."""
    # A union bound over all arms and all rounds (Kaufmann and Kalyanakrishnan 2013).
    rate = math.log(RATE_FACTOR * arms * turn**RATE_EXPONENT / delta)
    return rate + math.log(rate)


@dataclass(frozen=True, slots=True)
class KLLucb:
    """Finds arms whose precision is best up to ``tau``, with probability 1 - ``delta``; ``batch`` draws at a time."""

    tau: float
    delta: float
    batch: int

    def select_best(self, precisions: PrecisionEstimates, rules: Sequence[int], count: int) -> list[int]:
        """``count`` of the rules, or all if there are no more, best first."""
        precisions.draw([rule for rule in rules if not precisions.drawn[rule]], 1)
        turn = 1
        # Each round takes the arms with the best means as leaders, and compares the lower bound of the weakest leader
        # with the upper bound of the strongest other arm. Only these two, which can change the end, are drawn again.
        while True:
            means, sizes = precisions.compute_means(rules), precisions.count_draws(rules)
            order = np.argsort(-means, kind="stable")
            leading, others = order[:count], order[count:]
            if len(others) == 0:
                break
            # Leaders need their lower bound, the other arms their upper bound: one call computes both.
            upwards = np.ones(len(rules), np.bool_)
            upwards[leading] = False
            bounds = bound_means(means, compute_exploration_rate(len(rules), turn, self.delta) / sizes, upwards)
            weakest, strongest = leading[bounds[leading].argmin()], others[bounds[others].argmax()]
            if bounds[strongest] - bounds[weakest] <= self.tau:
                break
            precisions.draw((rules[weakest], rules[strongest]), self.batch)
            turn += 1
        return [rules[place] for place in leading.tolist()]


MAX_STARTS = 1_000


@dataclass(frozen=True, slots=True)
class Anchor:
    """The beam search; names and values of the parameters are alibi's.

    A rule is an anchor if its precision, as drawn, is at least ``threshold``, and the lower bound on it, at confidence
    1 - ``delta``, at least ``threshold - epsilon_stop``. Like those programs, this one looks at the bound after every
    batch without a correction for looking often, so the confidence is less in truth. ``tau`` is how much the bandit's
    choice of ``beam_size`` rules per level may miss the best by. Coverage is estimated on ``coverage_samples`` past
    rows. The first rule is drawn for ``min_samples_start`` times, then ``batch_size`` points come at a time.
    ``stop_on_first`` takes the first anchor. (anchor-exp starts with one sample, and names a beam of 4 although its
    search then uses 1.)
    """

    threshold: float = 0.95
    delta: float = 0.1
    tau: float = 0.15
    epsilon_stop: float = 0.05
    batch_size: int = 100
    beam_size: int = 1
    coverage_samples: int = 10_000
    min_samples_start: int = 100
    max_anchor_size: int | None = None
    stop_on_first: bool = False
    attempts: int = 1

    def __post_init__(self) -> None:
        shares = {name: getattr(self, name) for name in ("threshold", "delta", "tau", "epsilon_stop")}
        counts = {name: getattr(self, name) for name in ("batch_size", "beam_size", "coverage_samples")}
        for name, value in shares.items():
            if not 0 < value <= 1:
                raise InputError(expected=f"{name} must be greater than 0 and at most 1", got=repr(value))
        for name, value in (counts | {"min_samples_start": self.min_samples_start}).items():
            if value < 1:
                raise InputError(expected=f"{name} must be at least 1", got=repr(value))

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The anchor that covers most, or the most precise rule; none if what is required is not allowed."""
        return _BeamSearch(problem, state, self).run()


@dataclass(slots=True, eq=False)
class _BeamSearch:
    """One run. ``kept`` are the most precise rules of all levels, ``best_coverage`` is that of the best anchor."""

    problem: Problem
    state: SearchState
    settings: Anchor
    precisions: PrecisionEstimates = field(init=False)
    coverage: CoverageEstimate = field(init=False)
    bandit: KLLucb = field(init=False)
    kept: list[int] = field(default_factory=list)
    anchor: int | None = None
    best_coverage: float = -1.0

    def __post_init__(self) -> None:
        settings = self.settings
        self.precisions = PrecisionEstimates(self.problem)
        self.coverage = CoverageEstimate(self.problem, settings.coverage_samples)
        self.bandit = KLLucb(settings.tau, settings.delta, settings.batch_size)

    def run(self) -> list[int]:
        # Beam search: a level extends the rules chosen in the level before by one component. A longer rule covers no
        # more than a shorter one: rules that cover no more than the best anchor are dropped with all their extensions.
        candidates = self._list_starts()
        self.precisions.draw(candidates, self.settings.min_samples_start)
        while candidates := self._keep_wider(candidates):
            self.problem.meter.events["candidates"] += len(candidates)
            with self.problem.meter.time_block("bandit"):
                chosen = self.bandit.select_best(self.precisions, candidates, self.settings.beam_size)
            self.kept += chosen
            with self.problem.meter.time_block("precision"):
                self._evaluate(chosen)
            if self.best_coverage == 1.0 or (self.settings.stop_on_first and self.anchor is not None):
                break
            candidates = self._extend(chosen)
        if self.anchor is None and self.kept:
            with self.problem.meter.time_block("bandit"):
                self.state.best = self.bandit.select_best(self.precisions, self.kept, 1)
        return self.state.best

    def _list_starts(self) -> list[int]:
        """The empty rule, or the least that meets what is required."""
        wanted = [some & self.problem.allowed for some in self.problem.required]
        sets, _ = list_minimal_hitting_sets(pack_sets(wanted, self.problem.n), MAX_STARTS)
        return unpack_sets(sets) if len(sets) else []

    def _extend(self, rules: list[int]) -> list[int]:
        """The rules with one component more."""
        most, allowed = self.settings.max_anchor_size, self.problem.allowed
        short = [rule for rule in rules if most is None or rule.bit_count() < most]
        return list(dict.fromkeys(rule | 1 << bit for rule in short for bit in list_members(allowed & ~rule)))

    def _keep_wider(self, rules: list[int]) -> list[int]:
        """Those that cover more than the best anchor."""
        shares = self.coverage.estimate(rules) if rules else []
        return [rule for rule, share in zip(rules, shares, strict=True) if share > self.best_coverage]

    def _evaluate(self, rules: list[int]) -> None:
        """Draw until it is settled which rules are anchors; keep the one that covers most."""
        anchors = self._find_anchors(rules)
        for rule, share in zip(rules, self.coverage.estimate(rules), strict=True):
            if rule in anchors and share > self.best_coverage:
                self.anchor, self.best_coverage = rule, share
        means = self.precisions.compute_means(self.kept)
        self.state.best = [self.kept[int(means.argmax())] if self.anchor is None else self.anchor]

    def _find_anchors(self, rules: list[int]) -> set[int]:
        settings, precisions = self.settings, self.precisions
        # The confidence is shared by all rules that may be judged at a level (union bound).
        tried = 1 + (settings.beam_size - 1) * self.problem.allowed.bit_count()  # as many as may be judged at a level
        rate = np.log(tried / settings.delta)
        least, most = settings.threshold - settings.epsilon_stop, settings.threshold + settings.epsilon_stop
        # A rule is settled when its mean reaches the threshold and its lower bound is high enough, or when its mean
        # is below the threshold and its upper bound low enough. The others get another batch of points.
        while True:
            means, levels = precisions.compute_means(rules), rate / precisions.count_draws(rules)
            lows, precise = bound_below(means, levels), means >= settings.threshold
            open_ones = np.where(precise, lows < least, bound_above(means, levels) >= most)
            if not open_ones.any():
                return set(compress(rules, precise & (lows > least)))
            precisions.draw(list(compress(rules, open_ones)), settings.batch_size)

"""Anchor (Ribeiro, Singh and Guestrin, "Anchors: High-Precision Model-Agnostic Explanations", AAAI 2018).

An anchor is a rule whose *precision* is high: of the points of its box, drawn as people perturb rows
(:mod:`ironrule.search.anchor_draws`), nearly all are undesired. So it tolerates exceptions, which the final check may
find. Among anchors the one with most *coverage* is sought, by a beam search: the rules of one level are those of the
level before with one component more, and a bandit (:mod:`ironrule.search.anchor_bandit`) finds the most precise of
them. Those are drawn for until it is settled whether they are anchors. In the end the anchor that covers most is the
answer, or, if there is none, the most precise rule of all levels.

What differs from the authors' program (anchor-exp) and from alibi: numbers are not cut into quartiles first, since a
component is `F <= v` or `F >= v` with the instance's value; the empty rule is judged like any other; and every rule is
drawn for by itself. anchor-exp counts for a longer rule what was drawn for a shorter one and happens to satisfy it,
which has another distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.errors import InputError
from ironrule.rule.bits import members, pack, unpack
from ironrule.rule.hitting import minimal_hitting_sets
from ironrule.search.anchor_bandit import KLLucb, lower, upper
from ironrule.search.anchor_draws import Coverage, Precisions
from ironrule.search.problem import Problem, Trail

MOST_STARTS = 1_000


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

    def run(self, problem: Problem, trail: Trail) -> list[int]:
        """The anchor that covers most, or the most precise rule; none if what is required is not allowed."""
        return _Beam(problem, trail, self).run()


@dataclass(slots=True, eq=False)
class _Beam:
    """One run. ``kept`` are the most precise rules of all levels, ``reach`` is the coverage of the best anchor."""

    problem: Problem
    trail: Trail
    settings: Anchor
    precisions: Precisions = field(init=False)
    coverage: Coverage = field(init=False)
    bandit: KLLucb = field(init=False)
    kept: list[int] = field(default_factory=list)
    anchor: int | None = None
    reach: float = -1.0

    def __post_init__(self) -> None:
        settings = self.settings
        self.precisions = Precisions(self.problem)
        self.coverage = Coverage(self.problem, settings.coverage_samples)
        self.bandit = KLLucb(settings.tau, settings.delta, settings.batch_size)

    def run(self) -> list[int]:
        candidates = self._starts()
        self.precisions.draw(candidates, self.settings.min_samples_start)
        while candidates := self._reaching(candidates):
            self.problem.meter.events["candidates"] += len(candidates)
            with self.problem.meter.timed("bandit"):
                chosen = self.bandit.best(self.precisions, candidates, self.settings.beam_size)
            self.kept += chosen
            with self.problem.meter.timed("precision"):
                self._judge(chosen)
            if self.reach == 1.0 or (self.settings.stop_on_first and self.anchor is not None):
                break
            candidates = self._longer(chosen)
        if self.anchor is None and self.kept:
            with self.problem.meter.timed("bandit"):
                self.trail.best = self.bandit.best(self.precisions, self.kept, 1)
        return self.trail.best

    def _starts(self) -> list[int]:
        """The empty rule, or the least that meets what is required."""
        wanted = [some & self.problem.allowed for some in self.problem.required]
        sets, _ = minimal_hitting_sets(pack(wanted, self.problem.n), MOST_STARTS)
        return unpack(sets) if len(sets) else []

    def _longer(self, rules: list[int]) -> list[int]:
        """The rules with one component more."""
        most, allowed = self.settings.max_anchor_size, self.problem.allowed
        longer = [
            rule | 1 << bit
            for rule in rules
            for bit in members(allowed & ~rule)
            if most is None or rule.bit_count() < most
        ]
        return list(dict.fromkeys(longer))

    def _reaching(self, rules: list[int]) -> list[int]:
        """Those that cover more than the best anchor."""
        if not rules:
            return []
        return [rule for rule, share in zip(rules, self.coverage.of(rules), strict=True) if share > self.reach]

    def _judge(self, rules: list[int]) -> None:
        """Draw until it is settled which rules are anchors; keep the one that covers most."""
        anchors = self._anchors(rules)
        for rule, share in zip(rules, self.coverage.of(rules), strict=True):
            if rule in anchors and share > self.reach:
                self.anchor, self.reach = rule, share
        means = self.precisions.means(self.kept)
        self.trail.best = [self.kept[int(means.argmax())] if self.anchor is None else self.anchor]

    def _anchors(self, rules: list[int]) -> set[int]:
        settings, precisions = self.settings, self.precisions
        tried = 1 + (settings.beam_size - 1) * self.problem.allowed.bit_count()  # as many as may be judged at a level
        rate = np.log(tried / settings.delta)
        least, most = settings.threshold - settings.epsilon_stop, settings.threshold + settings.epsilon_stop
        while True:
            means, levels = precisions.means(rules), rate / precisions.sizes(rules)
            lows, precise = lower(means, levels), means >= settings.threshold
            open_ones = np.where(precise, lows < least, upper(means, levels) >= most)
            if not open_ones.any():
                return {rule for rule, is_one in zip(rules, precise & (lows > least), strict=True) if is_one}
            precisions.draw(
                [rule for rule, is_open in zip(rules, open_ones, strict=True) if is_open], settings.batch_size
            )

"""The best rules of a given length, by what real rows say of them: exact, by branch and bound over bitsets.

Every past row of the search part is a bit. A component has two bitsets: the rows with the desired outcome on which it
is true (exceptions, as long as nothing else excludes them), and the other rows on which it is true. A rule covers the
intersection of its components' bitsets, so a rule of k components takes k - 1 ANDs and a count.

The score of a rule is Wilson's (1927) upper bound on its share of exceptions: it is near the exact bound that is
measured later on other rows, it rises with the exceptions and falls with the other rows that are covered, and it has a
closed form. The search goes over sets of components in order, depth first. It drops a partial rule if even the best
completion cannot beat the worst rule that is kept:

- A further component excludes at most as many exceptions as it does from the rows covered now. So r further components
  leave at least the present exceptions less the r largest such numbers.
- The other rows that are covered become no more.

What is kept are the few best rules, and it is proven that no other rule of that length scores better, unless the search
was ended early (``complete``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from ironrule.errors import InputError
from ironrule.hitting.bits import pack_flags
from ironrule.hitting.reduce import count_bits
from ironrule.jit import kernel, kernel_helper, popcount

MAX_LENGTH = 16


@dataclass(frozen=True, slots=True, eq=False)
class ComponentRows:
    """On which rows every component is true: bits of the desired rows, and of the others.

    ``critical_value`` is the normal quantile of the confidence, ``scale`` the number of rows that will be measured per
    row that is searched.
    """

    numbers: tuple[int, ...]
    exceptions: UInt64Array
    others: UInt64Array
    exception_count: int
    other_count: int
    critical_value: float
    scale: float = 1.0

    @classmethod
    def from_flags(
        cls, numbers: Sequence[int], flags: BoolArray, outcomes: BoolArray, critical_value: float, scale: float = 1.0
    ) -> ComponentRows:
        """From one row of flags per component, over all rows of the search part, and their outcomes."""
        return cls(
            tuple(numbers),
            _pack_rows(flags[:, outcomes]),
            _pack_rows(flags[:, ~outcomes]),
            exception_count=int(outcomes.sum()),
            other_count=int((~outcomes).sum()),
            critical_value=critical_value,
            scale=scale,
        )

    def restrict(self, numbers: Sequence[int]) -> ComponentRows:
        """The same for some of the components."""
        places = [self.numbers.index(number) for number in numbers]
        return ComponentRows(
            tuple(numbers),
            self.exceptions[places],
            self.others[places],
            exception_count=self.exception_count,
            other_count=self.other_count,
            critical_value=self.critical_value,
            scale=self.scale,
        )

    def count(self, numbers: Sequence[int]) -> tuple[int, int]:
        """How many exceptions, and how many rows in all, a rule of these components covers."""
        if not numbers:
            return self.exception_count, self.exception_count + self.other_count
        places = [self.numbers.index(number) for number in numbers]
        exceptions, others = (
            int(count_bits(np.bitwise_and.reduce(bits[places], axis=0))[0]) for bits in (self.exceptions, self.others)
        )
        return exceptions, exceptions + others

    def score(self, exceptions: int, rows: int) -> float:
        """The score of a rule that covers so many."""
        return float(compute_wilson_bound(exceptions * self.scale, rows * self.scale, self.critical_value**2))


@dataclass(frozen=True, slots=True)
class ScoredRule:
    """A set of components, with what it covers of the search part."""

    numbers: tuple[int, ...]
    score: float
    exceptions: int
    rows: int


@dataclass(frozen=True, slots=True)
class BestRules:
    """The best rules of one length, best first; ``complete``: it is proven that no other scores better."""

    rules: tuple[ScoredRule, ...]
    complete: bool


def find_best_rules(
    component_rows: ComponentRows, length: int, keep: int = 1, may_continue: Callable[[], bool] | None = None
) -> BestRules:
    """The ``keep`` best rules with so many components.

    ``may_continue`` is asked from time to time; the search ends with the best so far once it says no.
    """
    count = len(component_rows.numbers)
    if not 1 <= length <= MAX_LENGTH:
        raise InputError(expected=f"length must be between 1 and {MAX_LENGTH}", got=length)
    if length > count:
        return BestRules((), complete=True)
    order = _order_components(component_rows)
    exceptions, others = component_rows.exceptions[order], component_rows.others[order]
    scores, sets = np.full(keep, math.inf), np.zeros((keep, length), dtype=np.int64)
    work = (
        np.empty((length, exceptions.shape[1]), dtype=np.uint64),
        np.empty((length, others.shape[1]), dtype=np.uint64),
        np.empty((length, count), dtype=np.int64),
        np.empty((length, count), dtype=np.bool_),
    )
    z_squared, complete = component_rows.critical_value**2, True
    # A branch has all rules whose first component, in this order, is a given one.
    for first in range(count - length + 1):
        search_branch((exceptions, others), first, length, (component_rows.scale, z_squared), (scores, sets), work)
        if may_continue is not None and not may_continue():
            complete = first == count - length
            break
    found = [
        tuple(sorted(component_rows.numbers[order[place]] for place in row))
        for row, score in zip(sets.tolist(), scores.tolist(), strict=True)
        if math.isfinite(score)
    ]
    scored = [
        ScoredRule(numbers, component_rows.score(*counts), *counts)
        for numbers in found
        for counts in [component_rows.count(numbers)]
    ]
    return BestRules(tuple(sorted(scored, key=lambda rule: (rule.score, rule.numbers))), complete)


def find_best_extension(component_rows: ComponentRows, numbers: Sequence[int]) -> ScoredRule | None:
    """The best rule with one component more; None if there is no other component."""
    rules = [(*numbers, other) for other in component_rows.numbers if other not in numbers]
    return _find_best(component_rows, rules)


def find_best_reduction(component_rows: ComponentRows, numbers: Sequence[int]) -> ScoredRule | None:
    """The best rule with one component less; None if nothing would be left."""
    rules = [tuple(n for n in numbers if n != removed) for removed in numbers] if len(numbers) > 1 else []
    return _find_best(component_rows, rules)


def _find_best(component_rows: ComponentRows, rules: Sequence[tuple[int, ...]]) -> ScoredRule | None:
    counted = ((tuple(sorted(rule)), component_rows.count(rule)) for rule in rules)
    scored = [ScoredRule(rule, component_rows.score(*counts), *counts) for rule, counts in counted]
    return min(scored, key=lambda rule: (rule.score, rule.numbers), default=None)


def _order_components(component_rows: ComponentRows) -> Int64Array:
    """The places of the components, those that exclude most exceptions per other row first: good rules come early."""
    left = [count_bits(bits) for bits in (component_rows.exceptions, component_rows.others)]
    scores = [component_rows.score(int(e), int(e + o)) for e, o in zip(*left, strict=True)]
    return np.argsort(np.array(scores), kind="stable").astype(np.int64)


def _pack_rows(flags: BoolArray) -> UInt64Array:
    """Flags as bits in whole words."""
    columns = -(-max(flags.shape[1], 1) // 64) * 64
    padded = np.zeros((len(flags), columns), dtype=np.bool_)
    padded[:, : flags.shape[1]] = flags
    return pack_flags(padded)


@kernel
def compute_wilson_bound(exceptions: float, rows: float, z_squared: float) -> float:
    """Wilson's upper bound on a share, of which so many were seen in so many rows."""
    if rows <= 0.0:
        return 1.0
    share = exceptions / rows
    spread = math.sqrt(z_squared * (share * (1.0 - share) / rows + z_squared / (4.0 * rows * rows)))
    return min(1.0, (share + z_squared / (2.0 * rows) + spread) / (1.0 + z_squared / rows))


@kernel_helper
def _count_common(covered: UInt64Array, component: UInt64Array) -> int:
    """How many of the covered rows a component is true on."""
    total = 0
    for w in range(covered.size):
        total += popcount(covered[w] & component[w])
    return total


@kernel_helper
def _intersect(covered: UInt64Array, component: UInt64Array, result: UInt64Array) -> None:
    for w in range(covered.size):
        result[w] = covered[w] & component[w]


@kernel_helper
def _keep_rule(scores: Float64Array, sets: Int64Array, score: float, chosen: Int64Array) -> None:
    """Insert a rule into the best ones, which are in order; the worst goes."""
    place = scores.size - 1
    if score >= scores[place]:
        return
    while place > 0 and scores[place - 1] > score:
        scores[place] = scores[place - 1]
        sets[place] = sets[place - 1]
        place -= 1
    scores[place] = score
    sets[place] = chosen


@kernel_helper
def _sum_gains(gains: Int64Array, count: int) -> int:
    total = 0
    for g in range(count):
        total += gains[g]
    return total


@kernel_helper
def _add_gain(gains: Int64Array, gain: int) -> None:
    """Insert into the largest gains, which are in falling order."""
    place = gains.size - 1
    if gain <= gains[place]:
        return
    while place > 0 and gains[place - 1] < gain:
        gains[place] = gains[place - 1]
        place -= 1
    gains[place] = gain


@kernel_helper
def _flag_promising(bits: Any, at: Any, scoring: Any, worst: float, exception_counts: Any, promising: Any) -> None:
    """Count the exceptions that every further component leaves, and flag those that a better rule may have next.

    ``at`` is: the covered exceptions and their number, the number of other rows, the first component that may come
    next, and how many are still to come.
    """
    exceptions, _ = bits
    covered, present, other_rows, next_component, missing = at
    scale, z_squared = scoring
    gains = np.zeros(MAX_LENGTH, dtype=np.int64)
    # From the last component to the first: `gains` has the largest gains of those that come after it.
    for c in range(exceptions.shape[0] - 1, next_component - 1, -1):
        left = _count_common(covered, exceptions[c])
        least = max(0, left - _sum_gains(gains, missing - 1))
        exception_counts[c] = left
        promising[c] = compute_wilson_bound(least * scale, (least + other_rows) * scale, z_squared) < worst
        _add_gain(gains, present - left)


@kernel
def search_branch(bits: Any, first: int, length: int, scoring: Any, best: Any, work: Any) -> None:
    """Look at all rules whose first component is ``first``; ``best`` has the best so far, and gets better ones."""
    exceptions, others = bits
    scores, sets = best
    covered_exceptions, covered_others, exception_counts, promising = work
    scale, z_squared = scoring
    components = exceptions.shape[0]
    chosen = np.zeros(length, dtype=np.int64)
    counts, other_counts = np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.int64)
    cursor = np.zeros(length, dtype=np.int64)  # per depth, the next component to be tried
    chosen[0] = first
    covered_exceptions[0], covered_others[0] = exceptions[first], others[first]
    counts[0] = _count_common(exceptions[first], exceptions[first])
    other_counts[0] = _count_common(others[first], others[first])
    depth, entering = 0, True
    if length == 1:
        rows = counts[0] + other_counts[0]
        _keep_rule(scores, sets, compute_wilson_bound(counts[0] * scale, rows * scale, z_squared), chosen)
        return
    # Depth d has chosen d + 1 components. Enter a node once, to see which components are worth trying; then try them.
    while depth >= 0:
        if entering:
            cursor[depth] = chosen[depth] + 1
            at = covered_exceptions[depth], counts[depth], other_counts[depth], cursor[depth], length - depth - 1
            _flag_promising(bits, at, scoring, scores[-1], exception_counts[depth], promising[depth])
            entering = False
        c = cursor[depth]
        if c >= components:
            depth -= 1
            continue
        cursor[depth] += 1
        left = exception_counts[depth, c]
        if not promising[depth, c]:
            continue
        rest = _count_common(covered_others[depth], others[c])
        if depth == length - 2:  # the last component: this is a rule
            chosen[length - 1] = c
            score = compute_wilson_bound(left * scale, (left + rest) * scale, z_squared)
            _keep_rule(scores, sets, score, chosen)
            continue
        chosen[depth + 1] = c
        counts[depth + 1], other_counts[depth + 1] = left, rest
        _intersect(covered_exceptions[depth], exceptions[c], covered_exceptions[depth + 1])
        _intersect(covered_others[depth], others[c], covered_others[depth + 1])
        depth, entering = depth + 1, True

"""The few rules that explain a whole batch: a minimum cover of its rows by rules that are proven.

Every proven rule of a batch holds for everybody, so it covers all rows that satisfy it, whoever it was found for. A few
of them that together cover all rows are a picture of the model. To find the fewest is set cover: rules that cover no
more than another one, and rows that are covered whenever another one is, are left out first; the greedy choice
(Chvatal 1979) gives a cover at once, and HiGHS a smaller one, or the proof that there is none, within its time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
OWN = ("rule", "low", "high")  # the columns of a rule with its row's own values
ROUNDING = 1e-6  # per rule; what HiGHS's tolerances may raise its bound by


@dataclass(frozen=True, slots=True)
class CoveringRule:
    """A proven rule, the row that it was found for, and how many rows of the batch it covers."""

    rule: str
    row: int
    rows: int


@dataclass(frozen=True, slots=True)
class FewRules:
    """Proven rules that together cover all rows with a proven rule, those that cover most first.

    ``minimum`` says it is proven that no fewer of the batch's rules do; else ``lower_bound`` of them are needed.
    ``uncovered`` rows have no proven rule.
    """

    rules: tuple[CoveringRule, ...]
    lower_bound: int
    covered: int
    uncovered: int

    @property
    def minimum(self) -> bool:
        """Whether no fewer rules of the batch cover as much."""
        return len(self.rules) <= self.lower_bound

    def __len__(self) -> int:
        return len(self.rules)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which candidates cover everything, and how many are needed at least."""

    places: tuple[int, ...]
    lower_bound: int


def few_rules(read: Mapping[str, list[Any]], wider: bool, seconds: float) -> FewRules:
    """The fewest proven rules of a batch, given by columns, that cover all rows with a proven rule."""
    rows = len(read["row"])
    candidates = _candidates(read, wider)
    points = [point for point, low in zip(read["point"], read["low"], strict=True) if low is not None]
    if not points:
        return FewRules((), 0, 0, rows)
    distinct, counts = np.unique(np.array(points, dtype=np.int64), axis=0, return_counts=True)
    boxes = np.array(list(candidates), dtype=np.int64)
    flags = covers(distinct, boxes[:, 0], boxes[:, 1])
    chosen, known = minimum_cover(flags, seconds), list(candidates.values())
    rules = [CoveringRule(*known[place], int(counts[flags[place]].sum())) for place in chosen.places]
    ranked = tuple(sorted(rules, key=lambda rule: (-rule.rows, rule.row)))
    return FewRules(ranked, chosen.lower_bound, len(points), rows - len(points))


def _candidates(read: Mapping[str, list[Any]], wider: bool) -> dict[Any, tuple[str, int]]:
    """Every distinct box of a proven rule, with the rule's text and the first row that it was found for."""
    found: dict[Any, tuple[str, int]] = {}
    for place, row in enumerate(read["row"]):
        names = ("wider", "wider_low", "wider_high") if wider and read["wider_low"][place] is not None else OWN
        text, low, high = (read[name][place] for name in names)
        if low is not None:
            found.setdefault((tuple(low), tuple(high)), (text, row))
    return found


def covers(points: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Flags:
    """For every box a row of flags: which points it holds."""
    flags = np.empty((len(low), len(points)), dtype=np.bool_)
    top = points.max(axis=0) if len(points) else np.zeros(points.shape[1])
    for place, (first, last) in enumerate(zip(low, high, strict=True)):
        said = np.flatnonzero((first > 0) | (last < top))
        some = points[:, said]
        flags[place] = ((some >= first[said]) & (some <= last[said])).all(axis=1)
    return flags


def minimum_cover(flags: Flags, seconds: float) -> Chosen:
    """The fewest rows of a matrix of flags that together have one in every column, each of which must have one."""
    rules, rows = _reduced(flags)
    small = flags[np.ix_(rules, rows)]
    greedy = _greedy(small)
    exact = _by_highs(small, seconds) if len(greedy) > 1 else Chosen(tuple(greedy), len(greedy))
    places = exact.places if exact.places and len(exact.places) <= len(greedy) else tuple(greedy)
    return Chosen(tuple(int(rules[place]) for place in places), min(exact.lower_bound, len(places)))


def _reduced(flags: Flags) -> tuple[Integers, Integers]:
    """The rules and rows that matter, until nothing more can be left out."""
    rules, rows = np.arange(flags.shape[0]), np.arange(flags.shape[1])
    while True:
        before = len(rules), len(rows)
        rules = rules[_not_contained(flags[np.ix_(rules, rows)])]
        rows = rows[_not_contained(~flags[np.ix_(rules, rows)].T)]  # a row with more rules is easier to cover
        if (len(rules), len(rows)) == before:
            return rules, rows


def _not_contained(flags: Flags) -> Flags:
    """Which rows of the matrix are not part of another one; of equal ones the first stays."""
    packed = np.packbits(flags, axis=1)
    sizes = flags.sum(axis=1)
    order = np.lexsort((np.arange(len(flags)), -sizes))
    kept: list[int] = []
    stays = np.zeros(len(flags), dtype=np.bool_)
    largest = np.empty_like(packed)
    for place in order.tolist():
        if not (packed[place] & ~largest[: len(kept)] == 0).all(axis=1).any():
            largest[len(kept)] = packed[place]
            kept.append(place)
            stays[place] = True
    return stays


def _greedy(flags: Flags) -> list[int]:
    """Always the rule that covers most of what is not covered yet."""
    open_rows, chosen = np.ones(flags.shape[1], dtype=np.bool_), list[int]()
    while open_rows.any():
        best = int(flags[:, open_rows].sum(axis=1).argmax())
        chosen.append(best)
        open_rows &= ~flags[best]
    return chosen


def _by_highs(flags: Flags, seconds: float) -> Chosen:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    limits = LinearConstraint(csr_array(flags.T.astype(np.float64)), 1.0, np.inf)
    options = {"time_limit": seconds, "mip_rel_gap": 0.0}
    found = milp(np.ones(len(flags)), integrality=1, bounds=Bounds(0, 1), constraints=limits, options=options)
    bound = getattr(found, "mip_dual_bound", None)
    lower = 0 if bound is None else math.ceil(bound - ROUNDING * len(flags))
    places = () if found.x is None else tuple(np.flatnonzero(found.x > 0.5).tolist())
    sound = bool(places) and bool(flags[list(places)].any(axis=0).all())
    return Chosen(places if sound else (), max(1, lower))

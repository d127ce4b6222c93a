"""What changes of tiny networks' rows cost, and numbers between the values of their domains, drawn and measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ironrule.backends.nearest import GapCostKind, GapCosts
from ironrule.backends.network.change_places import ChangePlaces
from ironrule.backends.network.compile import compile_network
from ironrule.model.normal_form.network import Network
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case
from ironrule.rule.cost import CostTable
from ironrule.space.feature import find_open_gaps

Rng = np.random.Generator
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DrawnCost:
    """The cost of every position of every feature: a code, or a code and a share of the way to the next one.

    With the kind "unknown" a number pays more and more from one value to the next, in any way: by ``powers`` of the
    share. ``least`` is what every change costs at least.
    """

    table: CostTable
    gaps: GapCosts
    own: npt.NDArray[np.int32]
    distances: tuple[Floats, ...]  # per feature and code
    powers: tuple[float, ...]
    squared: bool
    least: float

    def measure(self, positions: Floats) -> Floats:
        """What rows of positions cost."""
        parts = np.zeros(positions.shape)
        for j, apart in enumerate(self.distances):
            code = np.floor(positions[:, j]).astype(int)
            share = positions[:, j] - code
            if self.gaps.kinds[j] == "unknown":
                rises = apart[np.minimum(code + 1, len(apart) - 1)] >= apart[code]
                share = np.where(rises, share, 1.0 - share) ** self.powers[j]
                share = np.where(rises, share, 1.0 - share)
            there = apart[code] + share * (apart[np.minimum(code + 1, len(apart) - 1)] - apart[code])
            priced = there**2 if self.squared else there
            parts[:, j] = np.where(positions[:, j] == self.own[j], 0.0, self.least + priced)
        return np.asarray(parts.sum(axis=1) if self.table.combine == "sum" else parts.max(axis=1))


def draw_cost(case: Case, rng: Rng, has_gaps: bool) -> DrawnCost:
    """Prices of the distances of all features, in each direction its own; some forbidden, some free."""
    combine: Literal["sum", "max"] = "sum" if rng.random() < 0.6 else "max"
    squared = combine == "sum" and rng.random() < 0.4
    least = 0.0 if combine == "max" or squared else float(rng.choice([0.0, 0.5, 2.0]))
    distances, parts, after, kinds = list[Floats](), list[Floats](), list[Any](), list[GapCostKind]()
    for j, feature in enumerate(case.space.features):
        own, size, count = int(case.instance[j]), feature.size, len(feature.values)
        up, down, other = rng.choice([0.0, 0.1, 0.3, 1.0, 7.5], 3)
        places = np.array(feature.values if feature.numeric else range(count), dtype=float)
        apart = np.full(size, other)
        if own < count and feature.ordered:
            moved = places - places[own]
            apart[:count] = np.where(moved > 0, moved * up, -moved * down)
        apart[own] = 0.0
        part = np.where(np.arange(size) == own, 0.0, least + (apart**2 if squared else apart))
        part[rng.random(size) < 0.1] = np.inf
        gaps = np.zeros(size, dtype=np.bool_)
        if has_gaps:
            opened = find_open_gaps(feature)
            gaps[: len(opened)] = opened
            gaps[:-1] &= np.isfinite(part[:-1]) & np.isfinite(part[1:])
        distances.append(apart)
        parts.append(part)
        after.append(gaps)
        kinds.append("squared" if squared else "straight")
        if rng.random() < 0.3:
            kinds[-1] = "unknown"
    table = CostTable(tuple(parts), combine)
    gap_costs = GapCosts(tuple(after), tuple(kinds), (1e-12,) * len(parts), least)
    return DrawnCost(
        table=table,
        gaps=gap_costs,
        own=case.instance,
        distances=tuple(distances),
        powers=tuple(rng.choice([0.2, 1.0, 6.0], len(parts)).tolist()),
        squared=squared,
        least=least,
    )


def know_tables_less(case: Case, read: TabulatedModel, cost: DrawnCost) -> DrawnCost:
    """The same cost, of which nothing is known between values of features that the network sees in several columns."""
    assert isinstance(read.normal_form, Network)
    net = compile_network(read.normal_form, read.columns, case.space)[0]
    pairs = zip(cost.gaps.kinds, net.is_linear.tolist(), strict=True)
    kinds: tuple[GapCostKind, ...] = tuple(kind if linear else "unknown" for kind, linear in pairs)
    gaps = GapCosts(cost.gaps.after, kinds, cost.gaps.bends, cost.gaps.least_change)
    return replace(cost, gaps=gaps)


def see_positions(read: TabulatedModel, positions: Floats) -> Floats:
    """What the network sees of positions."""
    columns = zip(read.columns.features.tolist(), read.columns.values, strict=True)
    return np.stack([np.interp(positions[:, j], np.arange(len(v)), np.asarray(v, float)) for j, v in columns], axis=1)


def draw_positions(cost: DrawnCost, rng: Rng, count: int, codes: list[npt.NDArray[Any]] | None = None) -> Floats:
    """Random positions that may be chosen, many of them near to the instance's own; of some codes alone if given."""
    drawn = np.empty((count, len(cost.own)))
    for j, (part, after) in enumerate(zip(cost.table.parts, cost.gaps.after, strict=True)):
        chosen = np.flatnonzero(np.isfinite(part)) if codes is None else codes[j]
        own = int(cost.own[j])
        likely = np.concatenate([chosen, np.repeat(chosen[abs(chosen - own) <= 1], 3)])
        drawn[:, j] = rng.choice(likely, count)
        code = drawn[:, j].astype(int)
        inside = after[code] & np.isin(code + 1, chosen) & (rng.random(count) < 0.7)
        share = rng.random(count)
        share = np.where(rng.random(count) < 0.5, share ** rng.choice([4.0, 0.25], count), share)
        drawn[:, j] += np.where(inside, np.minimum(share, 1.0 - 1e-12), 0.0)
    return drawn


def move_positions(cost: DrawnCost, rng: Rng, positions: Floats) -> Floats:
    """The positions, each with some of its numbers moved within its gap, towards the instance more often than not."""
    moved = positions.copy()
    for j, own in enumerate(cost.own.tolist()):
        code = np.floor(positions[:, j])
        share = positions[:, j] - code
        towards = np.where(code >= own, -1.0, 1.0) * rng.choice([1.0, 1.0, -0.5], len(code))
        size = 10.0 ** rng.uniform(-5.0, 0.0, len(code))
        other = np.clip(share + towards * size * np.where(towards < 0, share, 1.0 - share), 0.0, 1.0 - 1e-12)
        moves = (share > 0.0) & (rng.random(len(code)) < 0.6)
        moved[:, j] = code + np.where(moves, other, share)
    return moved


def list_codes(places: ChangePlaces, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The codes of a part's places, by feature."""
    starts = places.starts[:-1]
    pairs = zip(starts + low, starts + high, strict=True)
    return [np.unique(places.codes[first : last + 1]) for first, last in pairs]

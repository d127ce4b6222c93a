"""A model that can be read: its forests, checked against the model's own decisions before they serve.

The check covers every value of every feature (so every threshold, from both sides), past rows and random points. If one
decision differs, the model is not served by the exact oracle at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.model.blackbox import BlackBox
from ironrule.model.forest import Forest, compile_reading
from ironrule.model.readers import read
from ironrule.model.readers.steps import split_steps
from ironrule.model.reading import Reading, Unreadable
from ironrule.model.seen import seen_by
from ironrule.model.tabulate import tabulate
from ironrule.space import Points, Space

CHECKED = 4096
MOST_VALUES = 50_000
MOST_NODES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Readable:
    """Forests that decide as the model does, one per alternative."""

    forests: tuple[Forest, ...]


def readable(
    model: Any, asked: BlackBox, space: Space, past: Points, desired: Any, threshold: float | None
) -> Readable:
    """Read a model; raises Unreadable, with the reason, if it cannot be read or if its reading decides otherwise."""
    if space.constraints:
        raise Unreadable("the space has constraints, which the exact oracle does not know yet")
    if not hasattr(model, "predict"):
        raise Unreadable("a plain function can only be asked, not read")
    transform, final = split_steps(model)
    reading = read(final, desired, threshold)
    _check_size(reading)
    columns = tabulate(lambda points: seen_by(transform, asked.layout.decode(points)), space, past)
    forests = compile_reading(reading, columns, space)
    _check(forests, asked, space, past)
    return Readable(forests)


def _check_size(reading: Reading) -> None:
    groups = [group for margins in reading.alternatives for margin in margins for group in margin.groups]
    nodes = sum(len(tree.left) for group in groups for tree in group.trees)
    if nodes > MOST_NODES:
        raise Unreadable(f"its trees have {nodes:,} nodes, and models of up to {MOST_NODES:,} are read so far")


def _check(forests: tuple[Forest, ...], asked: BlackBox, space: Space, past: Points) -> None:
    from ironrule.model.forest_kernels import decide

    points = _checked_points(space, past)
    desired = asked.desired(points)
    possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
    for forest in forests:
        may, must = decide(forest, points)
        possible |= may
        sure |= must
    if (desired & ~possible).any() or (sure & ~desired).any():
        raise Unreadable("its reading decides otherwise than the model itself; the model is only asked")


def _checked_points(space: Space, past: Points) -> Points:
    rng = np.random.default_rng(0)
    rows = past[np.unique(np.linspace(0, len(past) - 1, CHECKED).astype(np.intp))]
    random = rng.integers(0, space.sizes, size=(CHECKED, len(space)), dtype=np.int32)
    values = []
    for j, size in enumerate(space.sizes.tolist()):
        codes = np.arange(size) if size <= MOST_VALUES else rng.choice(size, MOST_VALUES, replace=False)
        block = rows[rng.integers(0, len(rows), size=len(codes))]
        block[:, j] = codes
        values.append(block)
    return np.concatenate([rows, random, *values])

"""Has a rule, or a reason that admits any sets of values, exceptions? Asked of the exact oracle, box by box.

Sets of codes are unions of runs of neighbouring codes; what a reason admits is the union of the boxes that one run per
feature makes. Proven to have none if every box is; if one has a desired point, there are some.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from ironrule import Budget, Explainer, Proven, Refuted
from ironrule.explain.query import build_case
from ironrule.oracles import protocol
from ironrule.oracles.protocol import BoxQuery
from ironrule.rule.box import Box
from ironrule.verdict.budget import BudgetExhausted, Meter

MOST_BOXES = 4096
Run = tuple[int, int]


def has_exceptions(explainer: Explainer, row: int, sets: Mapping[str, Sequence[int]], seconds: float) -> bool | None:
    """Whether a desired point lies where every feature is in its set; None if that could not be decided."""
    oracle, case, meter = explainer._context.oracle, build_case(explainer._context, row), Meter(Budget(seconds=seconds))
    runs = {int(j): _runs(codes) for j, codes in sets.items()}
    if oracle is None or math.prod(len(some) for some in runs.values()) > MOST_BOXES:
        return None
    open_boxes = False
    try:
        for box in _boxes(explainer, runs):
            verdict = oracle.find(BoxQuery(case, box), protocol.Run(meter, np.random.default_rng(0)))
            if isinstance(verdict, Refuted):
                return True
            open_boxes |= not isinstance(verdict, Proven)
    except BudgetExhausted:
        return None
    return None if open_boxes else False


def _runs(codes: Sequence[int]) -> list[Run]:
    breaks = np.flatnonzero(np.diff(codes) > 1) + 1
    return [(int(run[0]), int(run[-1])) for run in np.split(np.asarray(codes), breaks)]


def _boxes(explainer: Explainer, runs: Mapping[int, Sequence[Run]]) -> Iterator[Box]:
    for chosen in product(*runs.values()):
        low = np.zeros(len(explainer.space), dtype=np.int32)
        high = explainer.space.code_limits.top.astype(np.int32)
        for j, (first, last) in zip(runs, chosen, strict=True):
            low[j], high[j] = first, last
        yield Box(low, high)

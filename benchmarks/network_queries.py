"""One question to a network, is there a desired point in this box?: what the exact oracle answers, and how fast."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.network_packs import Pack, Query
from benchmarks.proof_tables import quantile
from benchmarks.stopwatch import timed
from ironrule import Budget, Proven, Refuted, Unrefuted
from ironrule.backends.network.engine import BoundEngine, CpuEngine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.backends.network.partition import BoxPartition, SubBoxes
from ironrule.backends.network.workspace import STATUS_CLOSED, find_open_cells
from ironrule.oracles.protocol import BoxQuery, Case, Oracle, Run
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.verdict import Verdict

Answer = dict[str, Any]
Clock = type[Meter]
NO_LIMIT = 1 << 40
DISTINCT = 1024  # parts of a box that speeds are measured on


def decide(pack: Pack, query: Query, limit: float, engine: BoundEngine, clock: Clock = Meter) -> Answer:
    """Our answer to a query, and what it took."""
    return asked(NetworkOracle(pack.nets, limit=NO_LIMIT, engine=engine), pack.case(query.row), query, limit, clock)


def asked(oracle: Oracle, case: Case, query: Query, limit: float, clock: Clock = Meter) -> Answer:
    """An oracle's answer to a query, and what it took."""
    meter = clock(Budget(seconds=limit))
    verdict, taken = timed(lambda: _verdict(oracle, case, query, meter))
    answer = {"wall": taken.wall, "cpu": taken.cpu, "parts": meter.events["boxes"], "kind": query.kind}
    if isinstance(verdict, Refuted):
        return answer | {"answer": "found", "point": verdict.points[0].tolist()}
    if isinstance(verdict, Proven):
        return answer | {"answer": "none"}
    explored = verdict.explored if isinstance(verdict, Unrefuted) else None
    return answer | {"answer": "undecided", "explored": explored, "size": query.box.size}


def _verdict(oracle: Oracle, case: Case, query: Query, meter: Meter) -> Verdict | None:
    try:
        return oracle.find(BoxQuery(case, query.box), Run(meter, np.random.default_rng(0)))
    except BudgetExhausted as spent:
        return spent.partial_verdict


def warm(pack: Pack, engine: BoundEngine) -> None:
    """Compile everything, and let the device start."""
    for query in pack.queries[:3]:
        decide(pack, query, 2.0, engine)
    some = spread_out(pack, 256)
    if some is not None:
        engine.bound_boxes(pack.nets[0], *some)


def line(name: str, kind: str, answers: list[Answer], by: str = "wall") -> Answer:
    """One line of the table, by one clock; medians are of decided boxes."""
    decided = [one for one in answers if one["answer"] != "undecided"]
    long_ones = [one for one in answers if one["parts"] > 10_000]
    return {
        "task": name,
        "kind": kind,
        "asked": len(answers),
        "found": sum(one["answer"] == "found" for one in answers),
        "none": sum(one["answer"] == "none" for one in answers),
        "undecided": len(answers) - len(decided),
        "explored": quantile([one["explored"] for one in answers if one.get("explored") is not None], 0.5),
        "within 1 s": _share(answers, 1.0, by),
        "within 10 s": _share(answers, 10.0, by),
        "median ms": _median(decided, by),
        "found ms": _median([one for one in decided if one["answer"] == "found"], by),
        "none ms": _median([one for one in decided if one["answer"] == "none"], by),
        "p90 ms": quantile([1000 * one[by] for one in answers], 0.9),
        "most parts": max((one["parts"] for one in decided), default=None),
        "parts a s": quantile([one["parts"] / one[by] for one in long_ones], 0.5),
    }


def _share(answers: list[Answer], seconds: float, by: str) -> float:
    return sum(one["answer"] != "undecided" and one[by] <= seconds for one in answers) / max(len(answers), 1)


def _median(answers: list[Answer], by: str) -> float | None:
    return quantile([1000 * one[by] for one in answers], 0.5)


def spread_out(pack: Pack, count: int) -> tuple[Any, Any, Any] | None:
    """So many parts of one of the queries' boxes, as the search comes to them, over and over where they are many; None
    if no query has as many distinct ones as are wanted.
    """
    net, distinct = pack.nets[0], min(count, DISTINCT)
    for query in pack.hard + pack.queries:
        opened = find_open_cells(net, query.box)
        parts = BoxPartition.build(net.cells, opened, query.box)
        while 0 < parts.waiting < distinct and parts.count < 8 * distinct:
            some = parts.take(512)
            outcome = CpuEngine().bound_boxes(net, opened, some.low, some.high)
            cut = (outcome.cuts[:, 0] >= 0) & (outcome.status != STATUS_CLOSED)
            parts.cut(SubBoxes(*(one[cut] for one in some)), outcome.cuts[cut])
        if parts.waiting >= distinct:
            some, again = parts.take(distinct), np.arange(count) % distinct
            return opened, some.low[again], some.high[again]
    return None


def agreement(pack: Pack, engine: BoundEngine, count: int) -> Answer:
    """Of so many parts, the share of which an engine says the same as the cores, and how many it alone closes."""
    some = spread_out(pack, count)
    if some is None:
        return {"same": None, "closed alone": None}
    here, there = CpuEngine().bound_boxes(pack.nets[0], *some).status, engine.bound_boxes(pack.nets[0], *some).status
    return {
        "same": float((here == there).mean()),
        "closed alone": int(((there == STATUS_CLOSED) & (here != STATUS_CLOSED)).sum()),
    }


def speed(pack: Pack, engine: BoundEngine, count: int, seconds: float) -> float | None:
    """How many parts are bounded in a second, by an engine that gets so many at once."""
    some = spread_out(pack, count)
    if some is None:
        return None
    engine.bound_boxes(pack.nets[0], *some)
    rounds, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds or rounds == 0:
        engine.bound_boxes(pack.nets[0], *some)
        rounds += 1
    return rounds * count / (time.perf_counter() - began)

"""Covers that a search has found, on the cores or on a device, put to the checker, which shares no code with it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.network_packs import Pack, Query
from benchmarks.network_run import Run
from benchmarks.proof_log import Answer
from benchmarks.proof_tables import quantile
from ironrule import Budget, Proven
from ironrule.backends.network.engine import BoundEngine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.checker.bounds.network_bounds import prepare_network_bounds
from ironrule.checker.bounds.pieces import split_box
from ironrule.checker.document import CoverClaim
from ironrule.checker.preprocessing import EstimatorColumn
from ironrule.checker.readers.network_form import NetworkForm
from ironrule.model.normal_form.network import Network
from ironrule.oracles import protocol
from ironrule.oracles.protocol import BoxQuery
from ironrule.shared_reading import convert_normal_form
from ironrule.verdict.budget import BudgetExhausted

NO_LIMIT = 1 << 40


def covers(run: Run, pack: Pack) -> Answer:
    """Boxes of one network: those decided with a proof within the limit, and how many of these the checker confirms."""
    chosen, limit = [*run.some(pack.hard, run.given.hard), *run.some(pack.queries)], run.limit(10.0)
    answers = []
    for place, query in enumerate(chosen):
        what = {"section": "covers", "task": pack.name, "box": place, "of": len(chosen), "limit": limit} | run.by
        answers.append(run.known(what | {"device": run.given.device}, confirmed, run, pack, query, limit))
    return line(pack.name, answers)


def confirmed(run: Run, pack: Pack, query: Query, limit: float) -> Answer:
    """What the checker says of the cover of one box; only that there is none, where a desired point was found or time
    was up.
    """
    verdict, seconds = _timed(lambda: _proven(pack, query, limit, run.engine, run.clock))
    if verdict is None:
        return {"proven": False}
    certificate = verdict.certificate.with_built_covers()
    began = time.process_time()
    closed = []
    assert isinstance(pack.read.normal_form, Network)
    reading, sizes, tables = convert_normal_form(pack.read.normal_form), pack.space.sizes.tolist(), pack.read.columns
    assert isinstance(reading, NetworkForm)
    columns = [EstimatorColumn(int(j), values) for j, values in zip(tables.features, tables.values, strict=True)]
    bounds = prepare_network_bounds(reading, columns, sizes)
    for alternative, source in enumerate(certificate.covers):
        cover = source.cover()
        pieces = split_box(CoverClaim(cover.splits, cover.tree), certificate.low, certificate.high, sizes)
        closed.append(bounds.flag_closed(pieces, alternative))
    every = np.concatenate(closed)
    return {
        "proven": True,
        "pieces": len(every),
        "closed": int(every.sum()),
        "confirmed": bool(every.all()) and len(closed) == len(bounds.alternatives),
        "find": seconds,
        "check": time.process_time() - began,
    }


def _timed(work: Any) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def _proven(pack: Pack, query: Query, limit: float, engine: BoundEngine, clock: Any) -> Proven | None:
    oracle, meter = NetworkOracle(pack.nets, limit=NO_LIMIT, engine=engine), clock(Budget(seconds=limit))
    try:
        verdict = oracle.find(BoxQuery(pack.case(query.row), query.box), protocol.Run(meter, np.random.default_rng(0)))
    except BudgetExhausted:
        return None
    return verdict if isinstance(verdict, Proven) else None


def line(name: str, answers: list[Answer]) -> Answer:
    """One line of the table."""
    proven = [one for one in answers if one["proven"]]
    pieces = [one["pieces"] for one in proven]
    return {
        "task": name,
        "asked": len(answers),
        "proven": len(proven),
        "confirmed": sum(one["confirmed"] for one in proven),
        "not confirmed": sum(not one["confirmed"] for one in proven),
        "pieces": sum(pieces),
        "most": max(pieces, default=None),
        "find ms": quantile([1000 * one["find"] for one in proven], 0.5),
        "check ms": quantile([1000 * one["check"] for one in proven], 0.5),
        "longest check s": max((one["check"] for one in proven), default=None),
    }

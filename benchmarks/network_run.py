"""One run of benchmarks/networks.py: what was asked for, and boxes decided one after the other."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.network_clock import ProcessorMeter
from benchmarks.network_packs import Pack, Query, file_name, load
from benchmarks.network_queries import decide, warm
from benchmarks.proof_log import Answer, Log
from ironrule.backends.network.engine import BoundEngine, choose_engine
from ironrule.progress import track
from ironrule.verdict.budget import Meter


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked for on the command line."""

    given: Namespace
    log: Log

    def packs(self, names: list[str]) -> Iterator[Pack]:
        """The packs that --only leaves."""
        for name in names:
            if (self.given.only or "").lower() in name.lower():
                yield load(self.given.models, name)

    def there(self, names: list[str]) -> list[str]:
        """Those that have been prepared."""
        return [name for name in names if (self.given.models / f"{file_name(name)}.pack").exists()]

    def some(self, queries: tuple[Query, ...], most: int | None = None) -> list[Query]:
        """The boxes to decide, or so many of them; few are spread over the rows."""
        count = self.given.queries or (8 if self.given.quick else len(queries))
        count = count if most is None else min(most, count)
        return list(queries[:: max(1, len(queries) // max(count, 1))][:count])

    @property
    def engine(self) -> BoundEngine:
        """Where parts are bounded."""
        return choose_engine(self.given.device)

    def limit(self, usual: float) -> float:
        """Seconds per question or row."""
        return float(self.given.limit or (min(usual, 2.0) if self.given.quick else usual))

    @property
    def clock(self) -> type[Meter]:
        """What limits are measured by."""
        return ProcessorMeter if self.given.cpu else Meter

    @property
    def by(self) -> Answer:
        """How measurements by the processor's clock are told from others."""
        return {"clock": "cpu"} if self.given.cpu else {}

    def known(self, what: Answer, measure: Callable[..., Answer], *given: Any) -> Answer:
        """A measurement, unless the log has it."""
        found = self.log.known(**what)
        return self.log.add(measure(*given), **what) if found is None else found

    def decided(self, section: str, pack: Pack, queries: list[Query], limit: float) -> list[Answer]:
        """Our answers to boxes."""
        engine, device, ready = self.engine, self.given.device, False
        answers = []
        for place, query in enumerate(track(queries, f"{section}: {pack.name}", len(queries))):
            what = {"section": section, "task": pack.name, "box": place, "of": len(queries), "limit": limit} | self.by
            if not ready and self.log.known(**what, device=device) is None:
                warm(pack, engine)
                ready = True
            answers.append(self.known(what | {"device": device}, decide, pack, query, limit, engine, self.clock))
        return answers


@contextmanager
def two_cores() -> Iterator[int]:
    """Two cores for a while, whatever the machine has; how many there are."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(every)[:2])
    try:
        yield len(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, every)

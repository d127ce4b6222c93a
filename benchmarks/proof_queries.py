"""One question, is there a desired point in this box?, put to the exact oracle and to Veritas.

The boxes are those that the oracle is asked about while minimum rules are found, and random ones of three components of
an instance. Ours are boxes of a finite space: the values seen. Veritas works on real intervals, so a box becomes, per
column, the half-open interval from its lowest value to just above its highest (the next float32, which is what models
compare). Such an interval holds values that were never seen; where the answers differ, both solutions are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.proof_models import Task
from benchmarks.proof_worker import Answer
from benchmarks.stopwatch import timed
from ironrule import Budget, Explainer, Proven, Refuted, Space
from ironrule.backends.forest.oracle import ForestOracle
from ironrule.explain.query import build_case
from ironrule.hitting.bits import list_members
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Oracle, Run
from ironrule.rule.box import Box
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem, SearchState
from ironrule.verdict.budget import BudgetExhausted, Meter
from ironrule.verdict.verdict import Verdict

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
COMPONENTS = 3


@dataclass(frozen=True, slots=True)
class Query:
    """A box of codes, the row that it belongs to, and where it comes from."""

    kind: str
    row: int
    low: Ints
    high: Ints


@dataclass(slots=True)
class Recording:
    """An oracle that notes the boxes that it is asked about."""

    oracle: Oracle
    boxes: list[Box]
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """The oracle's own answer."""
        self.boxes.append(query.box)
        return self.oracle.find(query, run)


@dataclass(slots=True)
class Recorder:
    """The minimum search, with its oracle recorded."""

    inner: Minimum = field(default_factory=Minimum)
    boxes: list[Box] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        """As often as the search itself."""
        return self.inner.attempts

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """What the search finds."""
        problem.oracle.oracle = Recording(problem.oracle.oracle, self.boxes)
        return self.inner.run(problem, state)


def recorded(explainer: Explainer, row: int, count: int, budget: float, seed: int) -> Answer:
    """A sample of the distinct boxes that arise while a row is explained."""
    recorder = Recorder()
    explainer.explain(row, algorithm=recorder, budget=budget, widen=False)
    boxes = list({box.low.tobytes() + box.high.tobytes(): box for box in recorder.boxes}.values())
    chosen = np.random.default_rng([seed, row]).permutation(len(boxes))[:count]
    return {"queries": [Query("arising", row, boxes[place].low, boxes[place].high) for place in chosen]}


def drawn(explainer: Explainer, row: int, count: int, seed: int) -> Answer:
    """Boxes of three random components of a row."""
    relevant, rng = build_case(explainer._context, row).components, np.random.default_rng([seed, row])
    usable = list(list_members(relevant.usable))
    rules = [sum(1 << int(bit) for bit in rng.choice(usable, COMPONENTS, replace=False)) for _ in range(count)]
    boxes = [relevant.box(rule) for rule in rules]
    return {"queries": [Query("random", row, box.low, box.high) for box in boxes]}


def decide(explainer: Explainer, query: Query, limit: float) -> Answer:
    """Our answer to a query, and what it took."""
    exact = explainer._context.compiled_model
    assert exact is not None
    case, box, oracle = (
        build_case(explainer._context, query.row),
        Box(query.low, query.high),
        ForestOracle(exact.alternatives),
    )
    meter = Meter(Budget(seconds=limit))
    verdict, taken = timed(lambda: _verdict(oracle, case, box, meter))
    answer = {"wall": taken.wall, "cpu": taken.cpu, "boxes": meter.events["boxes"]}
    if isinstance(verdict, Refuted):
        return answer | {"answer": "found", "point": verdict.points[0].tolist()}
    return answer | {"answer": "none" if isinstance(verdict, Proven) else "undecided"}


def _verdict(oracle: Oracle, case: Case, box: Box, meter: Meter) -> Verdict | None:
    try:
        return oracle.find(BoxQuery(case, box), Run(meter, np.random.default_rng(0)))
    except BudgetExhausted:
        return None


@dataclass(frozen=True, slots=True)
class Columns:
    """What the classifier sees for every code of every feature; each feature must be one column of the matrix."""

    places: tuple[int, ...]  # a feature's column
    values: tuple[Floats, ...]  # per code, what the model sees, as float32 holds it

    def intervals(self, query: Query) -> tuple[Floats, Floats]:
        """The half-open intervals of a box, in the order of the matrix's columns."""
        low, high = np.empty(len(self.places)), np.empty(len(self.places))
        for place, values, first, last in zip(self.places, self.values, query.low, query.high, strict=True):
            inside = values[first : last + 1]
            low[place] = inside.min()
            high[place] = np.nextafter(np.float32(inside.max()), np.float32(np.inf))
        return low, high

    def codes_within(self, query: Query, where: dict[str, list[float]]) -> Ints | None:
        """A point of the box whose columns lie where a solution does; None if some column has no such value."""
        chosen = []
        for place, values, first, last in zip(self.places, self.values, query.low, query.high, strict=True):
            low, high = where.get(str(place), [-np.inf, np.inf])
            inside = [code for code in range(first, last + 1) if low <= values[code] < high]
            if not inside:
                return None
            chosen.append(inside[0])
        return np.array(chosen, dtype=np.int32)


def columns_of(task: Task, space: Space) -> Columns:
    """The table from codes to what the classifier sees, by its own encoder; raises if a feature is several columns."""
    encoder = task.model[0]
    names = [name.split("__", 1)[1] for name in encoder.get_feature_names_out()]
    if sorted(names) != sorted(space.names) or any(feature.missing for feature in space.features):
        raise RuntimeError("every feature must be one column of the matrix and never missing, but that is not so")
    values = []
    for feature in space.features:
        frame = task.table.iloc[np.zeros(feature.size, dtype=np.intp)].copy()
        frame[feature.name] = np.array(feature.values, dtype=task.table[feature.name].to_numpy().dtype)
        seen = np.asarray(encoder.transform(frame))[:, names.index(feature.name)]
        values.append(seen.astype(np.float32).astype(np.float64))
    return Columns(tuple(names.index(name) for name in space.names), tuple(values))


def why_different(task: Task, space: Space, columns: Columns, query: Query, ours: Answer, theirs: Answer) -> str:
    """What stands behind two different answers; a wrong proof of ours begins with WRONG."""
    if ours["answer"] == "found":
        desired = _desired(task, space, np.array(ours["point"]))
        return "Veritas misses a desired point" if desired else "WRONG: our point is not desired"
    point = columns.codes_within(query, theirs["where"])
    if point is None:
        return "Veritas' solutions lie between the values of the space"
    return "WRONG: a desired point is in our box" if _desired(task, space, point) else "within rounding of a tie"


def _desired(task: Task, space: Space, point: Ints) -> bool:
    row: dict[str, Any] = dict(space.decode_row(point))
    frame = task.table.iloc[[0]].copy()
    for name, value in row.items():
        frame[name] = np.array([value], dtype=task.table[name].to_numpy().dtype)
    return bool(np.asarray(task.model.predict(frame))[0] == 1)


@dataclass(frozen=True, slots=True)
class Pair:
    """One query with both answers; ``difference`` says what stands behind answers that differ."""

    query: Query
    ours: Answer
    theirs: Answer
    difference: str | None

    @property
    def decided(self) -> bool:
        """Whether both have decided it."""
        return "undecided" not in (self.ours["answer"], self.theirs["answer"])


def paired(task: Task, space: Space, queries: list[Query], ours: list[Answer], theirs: list[Answer]) -> list[Pair]:
    """Queries that both have answered, and why where answers differ."""
    columns, pairs = columns_of(task, space), []
    for query, mine, other in zip(queries, ours, theirs, strict=False):
        if "failed" in mine:
            continue
        pair = Pair(query, mine, other, None)
        differs = pair.decided and mine["answer"] != other["answer"]
        why = why_different(task, space, columns, query, ours=mine, theirs=other) if differs else None
        pairs.append(Pair(query, mine, other, why))
    return pairs


def line(task: Task, kind: str, pairs: list[Pair], failed: int) -> Answer:
    """One line of the table. Ratios are Veritas' time over ours, box by box; the time of an undecided box counts."""
    ours, theirs = [pair.ours for pair in pairs], [pair.theirs for pair in pairs]
    return {
        "task": task.name,
        "boxes": kind,
        "asked": len(pairs),
        "without a point": sum(one["answer"] == "none" for one in ours),
        "median ms": _median([1000 * one["wall"] for one in ours]),
        "CPU ms": _median([1000 * one["cpu"] for one in ours]),
        "p99 ms": _high([1000 * one["wall"] for one in ours]),
        "Veritas ms": _median([1000 * one["wall"] for one in theirs]),
        "Veritas CPU ms": _median([1000 * one["cpu"] for one in theirs]),
        "Veritas p99 ms": _high([1000 * one["wall"] for one in theirs]),
        "ratio": _ratio(pairs, "wall", ("found", "none", "undecided")),
        "CPU ratio": _ratio(pairs, "cpu", ("found", "none", "undecided")),
        "CPU, found": _ratio(pairs, "cpu", ("found",)),
        "CPU, none": _ratio(pairs, "cpu", ("none",)),
        "undecided": sum(one["answer"] == "undecided" for one in ours),
        "Veritas undecided": sum(one["answer"] == "undecided" for one in theirs),
        "only Veritas decides": sum(
            pair.ours["answer"] == "undecided" and pair.theirs["answer"] != "undecided" for pair in pairs
        ),
        "different": sum(pair.difference is not None for pair in pairs),
        "failed": failed,
    }


def _ratio(pairs: list[Pair], clock: str, answers: tuple[str, ...]) -> float | None:
    return _median([pair.theirs[clock] / pair.ours[clock] for pair in pairs if pair.ours["answer"] in answers])


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def _high(values: list[float]) -> float | None:
    return float(np.quantile(values, 0.99)) if values else None

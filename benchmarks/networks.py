"""Neural networks: boxes decided, rows explained, counterexamples against GeCo, Marabou beside it, and a GPU.

    IRONRULE_DATA=<folder> python -m benchmarks.networks --prepare [--only TEXT]
    python -m benchmarks.networks [queries] [rows] [attacks] [marabou] [speed] [covers]
        [--quick] [--rows N] [--queries N] [--hard N] [--limit S] [--cpu] [--device cuda] [--only TEXT]
        [--models FOLDER] [--log FILE] [--marabou-python PYTHON] [--json FILE]

queries   boxes that arise in the search (deletion order, minimum search): how many are decided in 1 s and in 10 s; and
          of those apart that the oracle gave up on, at 50,000 parts, while they were recorded ("hard")
rows      whole explanations: is the rule proven, and proven irredundant, within 60 s?
attacks   time to a counterexample, ours and GeCo's, on the boxes that have one, the hard ones too
marabou   the same boxes put to Marabou, one after the other in the same run
speed     parts bounded in a second, on two cores and on a device
covers    boxes decided by a proof: does the checker confirm every piece of it?

--prepare trains the networks and records the boxes, once; a machine with a GPU needs nothing but the folder. With
--log, what the file has already is not measured again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.network_packs import Pack, Query
from benchmarks.network_queries import agreement, asked, line, speed, warm
from benchmarks.network_run import Run, two_cores
from benchmarks.proof_log import Answer, Log
from benchmarks.proof_tables import Goal, quantile, reached
from benchmarks.report import parser, show, store
from ironrule.backends.network.engine import CpuEngine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.oracles.geco.oracle import GeCo
from ironrule.progress import track

GRACE = 60.0
SMALL = [
    f"{data}, {network}"
    for data in ("Credit", "HELOC")
    for network in ("10+10 relu", "20+20 relu", "50+50 relu", "20+20 tanh", "20+20 logistic")
]
LARGE = [
    f"{data}, {network}"
    for data in ("HELOC", "Credit")
    for network in ("100+100 relu", "ten layers of 10 relu", "ten layers of 20 relu")
]
BATCHES, DEVICE_BATCHES = (256, 1024), (1024, 4096, 16_384, 65_536)

QUERY_GOALS = (
    Goal("Credit", "within 10 s", least=0.99),
    Goal("HELOC, 10+10", "within 10 s", least=0.99),
    Goal("HELOC, 20+20 relu", "within 10 s", least=0.95),
    Goal("HELOC, 50+50", "within 10 s", least=0.5),
)
DEVICE_GOALS = (*QUERY_GOALS[:3], Goal("HELOC, 50+50", "within 10 s", least=0.8))
ROW_GOALS = (Goal("", "proven", least=1.0),)
ATTACK_GOALS = (Goal("", "GeCo faster", most=0),)
MARABOU_GOALS = (Goal("", "ratio", least=10.0),)


def queries(run: Run) -> Answer:
    """Boxes that arise in the search."""
    lines = []
    for pack in run.packs(SMALL + run.there(LARGE)):
        for section, some in (("", run.some(pack.queries)), ("hard ", run.some(pack.hard, run.given.hard))):
            answers = run.decided(f"{section}queries", pack, some, run.limit(10.0))
            lines.append(line(pack.name, section.strip() or "all", answers, "cpu" if run.given.cpu else "wall"))
            show(f"queries: {pack.name}", lines[-1:])
    return _told("queries", lines, DEVICE_GOALS if run.given.device else QUERY_GOALS)


def rows(run: Run) -> Answer:
    """Whole explanations."""
    from benchmarks.network_rows import explain, line as row_line, prepare
    from benchmarks.proof_worker import Worker

    lines, limit = [], run.limit(60.0)
    for pack in run.packs(SMALL + run.there(LARGE)):
        chosen = pack.rows[: run.given.rows or (2 if run.given.quick else 30)]
        worker = Worker(prepare, (run.given.models, pack.name, chosen[0], run.given.device, run.clock))
        ask = partial(worker.ask, limit=(8 if run.given.cpu else 2) * limit + GRACE)
        answers = []
        for row in track(chosen, f"rows: {pack.name}", len(chosen)):
            what = {"section": "rows", "task": pack.name, "row": row, "limit": limit, "device": run.given.device}
            what |= run.by
            answers.append(run.known(what, ask, explain, row, limit))
        worker.stop()
        for row, one in zip(chosen, answers, strict=True):
            if "failed" in one:
                print(f"failed: {pack.name}, row {row}: {one['failed'].strip().splitlines()[-1]}")
        lines.append(row_line(pack.name, answers))
        show(f"rows: {pack.name}", lines[-1:])
    return _told("rows", lines, ROW_GOALS)


def attacks(run: Run) -> Answer:
    """Time to a counterexample, ours and GeCo's, on the boxes that have one."""
    lines, limit = [], run.limit(10.0)
    for pack in run.packs(SMALL):
        chosen = [*run.some(pack.queries), *run.some(pack.hard)]
        warm(pack, run.engine)
        answers: list[Answer] = []
        for place, query in enumerate(track(chosen, f"attacks: {pack.name}", len(chosen))):
            what = {"section": "attacks", "task": pack.name, "box": place, "of": len(chosen), "limit": limit}
            answers.append(run.known(what | {"device": run.given.device}, _attacked, run, pack, query))
        lines.append(_attack_line(pack.name, [one for one in answers if one["GeCo"] is not None]))
        show(f"attacks: {pack.name}", lines[-1:])
    return _told("attacks", lines, ATTACK_GOALS)


def _attacked(run: Run, pack: Pack, query: Query) -> Answer:
    """Both work on the same case; GeCo asks the network as NumPy computes it, which is the fastest that there is."""
    case, limit = pack.case(query.row), run.limit(10.0)
    ours = asked(NetworkOracle(pack.nets, engine=run.engine), case, query, limit)
    return {"ours": ours, "GeCo": asked(GeCo(), case, query, limit) if ours["answer"] != "none" else None}


def _attack_line(name: str, answers: list[Answer]) -> Answer:
    """Ratios are GeCo's time over ours, box by box; CPU time decides who is faster, which other programs do not touch
    and which counts all our threads.
    """
    ours, theirs = ([one for one in answers if one[who]["answer"] == "found"] for who in ("ours", "GeCo"))
    both = [one for one in ours if one["GeCo"]["answer"] == "found"]
    ratios = [one["GeCo"]["wall"] / one["ours"]["wall"] for one in both]
    cpu_ratios = [one["GeCo"]["cpu"] / max(one["ours"]["cpu"], 1e-6) for one in both]
    return {
        "task": name,
        "found": len(ours),
        "GeCo misses": len(ours) - len(both),
        "GeCo alone": len(theirs) - len(both),
        "median ms": quantile([1000 * one["ours"]["wall"] for one in ours], 0.5),
        "GeCo ms": quantile([1000 * one["GeCo"]["wall"] for one in both], 0.5),
        "ratio": quantile(ratios, 0.5),
        "CPU ratio": quantile(cpu_ratios, 0.5),
        "least CPU ratio": min(cpu_ratios, default=None),
        "GeCo faster": sum(ratio < 1.0 for ratio in cpu_ratios) + len(theirs) - len(both),
    }


def beside(run: Run) -> Answer:
    """The same boxes put to Marabou."""
    from benchmarks.network_marabou import line as marabou_line, marabou

    lines, limit = [], run.limit(60.0)
    python = run.given.marabou_python
    if python is None:
        raise SystemExit("marabou needs --marabou-python, a python with requirements-marabou.txt installed")
    for pack in run.packs(SMALL):
        chosen = run.some(pack.queries)[:: 1 if run.given.queries or run.given.quick else 4]
        ours = run.decided("marabou", pack, chosen, limit)
        what = {"section": "marabou", "peer": "Marabou", "task": pack.name, "boxes": len(chosen), "limit": limit}
        theirs = run.known(what, marabou, python, pack, chosen, limit)["answers"]
        if theirs:
            lines.append(marabou_line(pack.name, ours, theirs))
            show(f"marabou: {pack.name}", lines[-1:])
    return _told("marabou", lines, MARABOU_GOALS)


def rates(run: Run) -> Answer:
    """Parts bounded in a second."""
    lines, seconds = [], 0.5 if run.given.quick else 2.0
    for pack in run.packs(SMALL + run.there(LARGE)):
        known: dict[str, Any] = {"task": pack.name}
        with two_cores() as known["cores"]:
            warm(pack, CpuEngine())
            for count in BATCHES:
                known[f"cores, {count}"] = speed(pack, CpuEngine(), count, seconds)
        for count in DEVICE_BATCHES if run.given.device else ():
            known[f"device, {count}"] = speed(pack, run.engine, count, seconds)
        known |= agreement(pack, run.engine, BATCHES[-1]) if run.given.device else {}
        cores, device = (_fastest(known, kind) for kind in ("cores, ", "device, "))
        known["times"] = device / cores if device and cores else None
        lines.append(known)
        show(f"speed: {pack.name}", lines[-1:])
    return _told("speed", lines, (Goal("HELOC, 50+50", "times", least=20.0),) if run.given.device else ())


def _fastest(known: Answer, kind: str) -> float | None:
    return max((value for name, value in known.items() if name.startswith(kind) and value), default=None)


def checked(run: Run) -> Answer:
    """Proofs put to the checker."""
    from benchmarks.network_covers import covers

    lines = []
    for pack in run.packs(SMALL + run.there(LARGE)):
        warm(pack, run.engine)
        lines.append(covers(run, pack))
        show(f"covers: {pack.name}", lines[-1:])
    return _told("covers", lines, (Goal("", "not confirmed", most=0),))


def _told(section: str, lines: list[Answer], goals: tuple[Goal, ...]) -> Answer:
    met = reached(goals, [one for one in lines if one.get("kind", "all") == "all"])
    show(f"{section}: all", lines)
    show(f"{section}: goals", met)
    return {"rows": lines, "goals": met}


def prepare_all(run: Run) -> None:
    """Train and record."""
    from benchmarks.network_tasks import prepare

    quick, given = run.given.quick, run.given
    for name in SMALL + LARGE:
        if (given.only or "").lower() in name.lower():
            data, network = name.split(", ")
            counts = (given.rows or (4 if quick else 10), given.queries or (16 if quick else 100))
            pack = prepare(given.models, data, network, *counts, given.seed, given.record)
            boxes = f"{len(pack.queries)} boxes, {len(pack.hard)} hard ones"
            print(f"{name}: {pack.score:.3f} of the past rows right, {boxes}", flush=True)


SECTIONS: dict[str, Callable[[Run], Answer]] = {
    "queries": queries,
    "rows": rows,
    "attacks": attacks,
    "marabou": beside,
    "speed": rates,
    "covers": checked,
}


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(SECTIONS)} (the first three)")
    made.add_argument("--prepare", action="store_true", help="train the networks and record the boxes, nothing else")
    made.add_argument("--models", type=Path, default=Path("benchmarks/results/networks"), help="where those are kept")
    made.add_argument("--rows", type=int, help="rows per task (30; quick: 2); with --prepare those with boxes (10)")
    made.add_argument("--queries", type=int, help="boxes per task (all that were recorded, 100; quick: 8)")
    made.add_argument("--hard", type=int, help="hard boxes per task (as many as of the others)")
    made.add_argument("--record", type=float, default=30.0, help="with --prepare: seconds per row and search (30)")
    made.add_argument("--limit", type=float, help="seconds per box (10, marabou 60) or row (60); quick: 2")
    made.add_argument("--cpu", action="store_true", help="queries, rows: limits in CPU seconds, for a machine in use")
    made.add_argument("--device", help="where networks are bounded, such as cuda; the cores if it is left out")
    made.add_argument("--only", help="tasks whose name has this text, such as HELOC or 50+50")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--log", type=Path, metavar="FILE", help="a line per measurement; those it has are not made anew")
    made.add_argument("--marabou-python", help="python with requirements-marabou.txt installed")
    given = made.parse_args()
    unknown = [name for name in given.sections if name not in SECTIONS]
    if unknown:
        raise SystemExit(f"a section must be one of {', '.join(SECTIONS)}, but {unknown[0]!r} came")
    run = Run(given, Log(given.log))
    if given.prepare:
        prepare_all(run)
        return
    for name in given.sections or list(SECTIONS)[:3]:
        try:
            store(given.json, f"networks {name}", SECTIONS[name](run))
        except Exception:
            print(f"\n{name} failed:\n{traceback.format_exc(limit=-3)}")


if __name__ == "__main__":
    main()

"""The exact search: proven minimum rules for boosted trees and forests, single box queries, and peers beside them.

    IRONRULE_DATA=<folder> python -m benchmarks.proofs [formal] [components] [forests] [queries]
        [--quick] [--rows N] [--only TEXT] [--log FILE] [--peers-python PYTHON] [--json FILE]

formal        which features to hold fixed (a minimum abductive explanation): XGBoost 100 x 4
components    rules over components: XGBoost 100 x 6, LightGBM, HistGradientBoosting; PyXAI on a sample
forests       random forests 100 x 6; PyXAI's minimal reasons on a few rows
queries       one box question against Veritas, on boxes that arise and on random ones

Every task runs in a process of its own, and every row has a hard limit, so that one row's failure costs that row. With
--log, rows that the file has already are not measured again. Wall and CPU time stand side by side; `load` is the
machine's, other programs included.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from benchmarks.proof_log import Answer, Log
from benchmarks.proof_models import DATA, Task
from benchmarks.proof_peers import veritas
from benchmarks.proof_queries import Query, decide, drawn, line, paired, recorded
from benchmarks.proof_rows import prepare
from benchmarks.proof_run import GRACE, Run, beside, explained, tell
from benchmarks.proof_tables import Goal, reached
from benchmarks.proof_worker import Worker
from benchmarks.report import parser, show, store
from ironrule.progress import track

BOOSTED = ("XGBoost 100 x 6", "LightGBM", "HistGradientBoosting")
QUERIED = ("XGBoost 100 x 6", "LightGBM", "forest 100 x 6")  # Veritas reads no HistGradientBoosting
QUERY_SECONDS = 2.0

FORMAL_GOALS = (
    Goal("", "minimum", least=1.0),
    Goal("German", "median ms", most=5),
    Goal("Credit", "median ms", most=10),
    Goal("Adult", "median ms", most=50),
    Goal("HELOC", "median ms", most=200),
)
COMPONENT_GOALS = (
    Goal("Credit", "minimum", least=1.0),
    Goal("Credit", "median ms", most=100),
    Goal("Credit", "p99 ms", most=1000),
    Goal("Adult", "minimum", least=1.0),
    Goal("Adult", "median ms", most=100),
    Goal("Adult", "p99 ms", most=1000),
    Goal("HELOC", "first ms", most=100),
    Goal("HELOC", "minimum", least=0.95),
)
QUERY_GOALS = (Goal("", "ratio", least=3.0), Goal("", "only Veritas decides", most=0))


def formal(run: Run) -> Answer:
    """Which features to hold fixed: every column is nominal, so that every component is "feature = value"."""
    done = explained(run, "formal", [(data, "XGBoost 100 x 4") for data in DATA], budget=60.0, fixing=True)
    return tell("formal", done, FORMAL_GOALS)


def components(run: Run) -> Answer:
    """Rules over components, for boosted trees."""
    pairs = [(data, classifier) for data in ("Credit", "Adult", "HELOC") for classifier in BOOSTED]
    done = explained(run, "components", pairs, budget=30.0)
    figures = tell("components", done, COMPONENT_GOALS)
    return figures | {"PyXAI": beside(run, done, "XGBoost", ["tree-specific", "tree-specific, best of 50"])}


def forests(run: Run) -> Answer:
    """Rules over components, for random forests."""
    done = explained(run, "forests", [(data, "forest 100 x 6") for data in DATA], budget=30.0)
    figures = tell("forests", done, ())
    return figures | {"PyXAI": beside(run, done, "forest", ["sufficient", "minimal", "minimal, first"])}


def queries(run: Run) -> Answer:
    """One box question, ours and Veritas'. Categories are one column of numbers, so that a box is a box for both."""
    lines: list[Answer] = []
    differences: list[Answer] = []
    pairs = [(data, classifier) for data in ("Credit", "Adult", "HELOC") for classifier in QUERIED]
    for task in run.tasks(pairs, encoding="ordinal"):
        try:
            found, why = queried_once(run, task)
        except Exception:
            print(f"\n{task.name} failed:\n{traceback.format_exc(limit=-3)}")
            continue
        show(f"queries: {task.name}", found)
        lines += found
        differences += why
    show("queries: all", lines)
    for one in differences:
        print(f"different: {one['task']}, {one['boxes']}: ours {one['ours']}, Veritas {one['Veritas']}: {one['why']}")
    met = reached(QUERY_GOALS, lines) if run.given.peers_python else []
    show("queries: goals", met)
    return {"rows": lines, "differences": differences, "goals": met}


def queried_once(run: Run, task: Task) -> tuple[list[Answer], list[Answer]]:
    """The lines of one task, unless the log has them."""
    asked = {"rows": run.rows(20), "boxes": run.boxes, "seed": run.given.seed, "peers": bool(run.given.peers_python)}
    what = {"section": "queries", "task": task.name, **asked}
    known = run.log.known(**what)
    if known is None:
        lines, why = queried(run, task)
        known = run.log.add({"lines": lines, "why": why}, **what)
    return known["lines"], known["why"]


def queried(run: Run, task: Task) -> tuple[list[Answer], list[Answer]]:
    """The lines of one task, and every difference."""
    rows = task.rows(run.rows(20), run.given.seed)
    worker = Worker(prepare, (task, rows[0]))
    asked = boxes_of(run, worker, rows)
    ours = [
        worker.ask(decide, query, QUERY_SECONDS, limit=QUERY_SECONDS + GRACE)
        for query in track(asked, f"queries: {task.name}", len(asked))
    ]
    worker.stop()
    theirs = veritas(run.given.peers_python, task, asked, QUERY_SECONDS)
    if theirs.get("failed"):
        print(f"Veritas on {task.name}: {theirs['failed']}")
    pairs = paired(task, task.explainer().space, asked, ours, theirs.get("answers", []))
    failed = sum("failed" in one for one in ours)
    lines = []
    for kind in ("arising", "random"):
        some = [pair for pair in pairs if pair.query.kind == kind]
        lines.append(line(task, kind, some, failed) | {"Veritas decides otherwise": theirs.get("decides otherwise")})
    why = [
        {"task": task.name, "boxes": pair.query.kind, "row": pair.query.row, "why": pair.difference}
        | {"ours": pair.ours["answer"], "Veritas": pair.theirs["answer"], "output": pair.theirs.get("output")}
        for pair in pairs
        if pair.difference is not None
    ]
    return lines, why


def boxes_of(run: Run, worker: Worker, rows: list[int]) -> list[Query]:
    """As many boxes that arise, and as many random ones, as --boxes says, spread over the rows."""
    each = -(-run.boxes // len(rows))
    asked: list[Query] = []
    for row in track(rows, "queries: boxes", len(rows)):
        budget = run.budget(20.0)
        arising = worker.ask(recorded, row, each, budget, run.given.seed, limit=3 * budget + GRACE)
        random = worker.ask(drawn, row, each, run.given.seed, limit=GRACE)
        asked += [*arising.get("queries", []), *random.get("queries", [])]
    return asked


SECTIONS: dict[str, Callable[[Run], Answer]] = {
    "formal": formal,
    "components": components,
    "forests": forests,
    "queries": queries,
}


def main() -> None:
    """Run, print, store."""
    made = parser(__doc__)
    made.add_argument("sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(SECTIONS)} (all but the last)")
    made.add_argument("--rows", type=int, help="undesired rows per task (200, queries 20; quick: 4)")
    made.add_argument("--only", help="tasks whose name has this text, such as HELOC or LightGBM")
    made.add_argument("--budget", type=float, help="seconds per row (formal 60, else 30, queries 20; quick: 5)")
    made.add_argument("--boxes", type=int, help="boxes of each kind per task in queries (400; quick: 20)")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--log", type=Path, metavar="FILE", help="a line per row; rows that it has are not measured anew")
    made.add_argument("--peers-python", help="python with requirements-peers.txt installed; without it no peers")
    made.add_argument("--peers-rows", type=int, help="rows for PyXAI per task (20; quick: 2)")
    given = made.parse_args()
    unknown = [name for name in given.sections if name not in SECTIONS]
    if unknown:
        raise SystemExit(f"a section must be one of {', '.join(SECTIONS)}, but {unknown[0]!r} came")
    run = Run(given, Log(given.log))
    for name in given.sections or list(SECTIONS)[:-1]:
        try:
            store(given.json, f"proofs {name}", SECTIONS[name](run))
        except Exception:
            print(f"\n{name} failed:\n{traceback.format_exc(limit=-3)}")


if __name__ == "__main__":
    main()

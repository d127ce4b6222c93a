"""Is there a desired point in this box? The question of the exact oracle, put to general solvers: MILP, CP-SAT, MaxSAT.

    IRONRULE_DATA=<folder> python -m benchmarks.other_oracles --solvers-python PYTHON
        [--quick] [--only TEXT] [--solver NAME] [--rows N] [--boxes N] [--limit SECONDS] [--json FILE]

Three kinds of boxes per model: some that arise while minimum rules are found, some of three random components, and the
hardest: those of all that arise on which our own oracle takes longest. Everybody gets the same boxes, one thread and
the same limit; times are CPU times. The solvers' times leave out reading the model, the boxes' problems (see
leaf_problems.py) and building the solver's own model; ours is all that a query takes. Every point that a solver finds
is judged by our reading of the model, and answers are held against ours.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.leaf_problems import judged, problem_of
from benchmarks.proof_models import Task, make_task
from benchmarks.proof_peers import run_in_session
from benchmarks.proof_queries import Query, Recorder, decide, drawn
from benchmarks.proof_rows import prepare
from benchmarks.proof_worker import Answer
from benchmarks.report import parser, show, store
from ironrule import Explainer
from ironrule.progress import track

TASKS = (
    ("Credit", "XGBoost 100 x 6"),
    ("Adult", "XGBoost 100 x 6"),
    ("HELOC", "XGBoost 100 x 6"),
    ("HELOC", "forest 100 x 6"),
)
SOLVERS = ("HiGHS", "CP-SAT", "RC2")
KINDS = ("arising", "random", "hardest")
OURS = "ours"
WALL = (
    2.0  # our limit is by the wall clock, as those of HiGHS and CP-SAT: on a busy machine twice the seconds are given
)
USUAL = {"rows": 5, "boxes": 20, "limit": 10.0, "budget": 10.0}
QUICK = {"rows": 2, "boxes": 4, "limit": 2.0, "budget": 2.0}


def arising(explainer: Explainer, row: int, budget: float) -> list[Query]:
    """The distinct boxes that arise while a row is explained."""
    recorder = Recorder()
    explainer.explain(row, algorithm=recorder, budget=budget, widen=False)
    boxes = {box.low.tobytes() + box.high.tobytes(): box for box in recorder.boxes}.values()
    return [Query("arising", row, box.low, box.high) for box in boxes]


def boxes_of(explainer: Explainer, rows: list[int], count: int, budget: float, seed: int) -> list[Query]:
    """As many boxes of each kind, spread over the rows."""
    each, rng, asked, costs = -(-count // len(rows)), np.random.default_rng(seed), [], []
    for row in track(rows, "boxes", len(rows)):
        found = arising(explainer, row, budget)
        chosen = set(rng.permutation(len(found))[:each].tolist())
        asked += [found[place] for place in sorted(chosen)]
        asked += drawn(explainer, row, each, seed)["queries"]
        costs += [(decide(explainer, box, 1.0)["cpu"], place, box) for place, box in enumerate(found)]
    costs.sort(key=lambda one: -one[0])
    hardest = [Query("hardest", box.row, box.low, box.high) for _, _, box in costs[:count]]
    return [*asked, *hardest]


def solved(python: str, solver: str, problems: list[Answer], limit: float) -> list[Answer]:
    """A solver's answers in its own environment; raises if there is none for every problem."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "problems.json").write_text(json.dumps(problems))
        (place / "settings.json").write_text(json.dumps({"limit": limit}))
        script = str(Path(__file__).with_name("leaf_solvers_part.py"))
        said = run_in_session([python, script, name, solver], 120 + 2 * limit * len(problems))
        written = place / f"{solver}.json"
        answers: list[Answer] = json.loads(written.read_text()) if written.exists() else []
    if len(answers) < len(problems):
        raise RuntimeError(f"{solver} must answer {len(problems)} problems, but answered {len(answers)}: {said}")
    return answers


def compared(task: Task, given: Answer) -> list[Answer]:
    """One line per kind of box and solver, ours first."""
    rows = task.rows(given["rows"], given["seed"])
    explainer, _ = prepare(task, rows[0])
    queries = boxes_of(explainer, rows, given["boxes"], given["budget"], given["seed"])
    everybody = {OURS: [decide(explainer, query, WALL * given["limit"]) for query in queries]}
    problems = [problem_of(explainer, query) for query in queries]
    for solver in given["solvers"]:
        answers = solved(given["python"], solver, problems, given["limit"])
        everybody[solver] = [judged(explainer, *one) for one in zip(queries, problems, answers, strict=True)]
    lines = []
    for kind in KINDS:
        places = [place for place, query in enumerate(queries) if query.kind == kind]
        some = {who: [answers[place] for place in places] for who, answers in everybody.items()}
        lines += [line(task, kind, who, answers, some[OURS]) for who, answers in some.items()]
    show(f"other oracles: {task.name}", lines)
    return lines


def line(task: Task, kind: str, who: str, answers: list[Answer], ours: list[Answer]) -> Answer:
    """What one oracle did on boxes of a kind."""
    pairs = list(zip(answers, ours, strict=True))
    decided = [(one, own) for one, own in pairs if "undecided" not in (one["answer"], own["answer"])]
    times = [1000 * one["cpu"] for one in answers]
    return {
        "task": task.name,
        "boxes": kind,
        "oracle": who,
        "asked": len(answers),
        "undecided": sum(one["answer"] == "undecided" for one in answers),
        "only it decides": sum(one["answer"] != "undecided" and own["answer"] == "undecided" for one, own in pairs),
        "CPU ms": float(np.median(times)) if times else None,
        "found": _median([1000 * one["cpu"] for one, own in pairs if own["answer"] == "found"]),
        "none": _median([1000 * one["cpu"] for one, own in pairs if own["answer"] == "none"]),
        "max": max(times, default=None),
        "build ms": _median([1000 * one["build"] for one in answers if "build" in one]),
        "faster than ours": sum(one["cpu"] < own["cpu"] for one, own in decided),
        "different": sum(one["answer"] != own["answer"] for one, own in decided),
        "wrong points": sum(one["answer"] == "found" and not one.get("desired", True) for one in answers),
    }


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def main() -> None:
    """Compare, print, store."""
    made = parser(__doc__)
    made.add_argument("--only", default="", help="tasks whose name has this text, such as HELOC or forest")
    made.add_argument("--solver", choices=SOLVERS, action="append", help="only this one; may be repeated")
    made.add_argument("--rows", type=int, help="undesired rows that boxes come from (5; quick: 2)")
    made.add_argument("--boxes", type=int, help="boxes of each kind per task (20; quick: 4)")
    made.add_argument("--limit", type=float, help="seconds per box (10; quick: 2)")
    made.add_argument("--budget", type=float, help="seconds per row while boxes are gathered (10; quick: 2)")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--solvers-python", required=True, help="python with requirements-solvers.txt installed")
    given = made.parse_args()
    wanted = {name: getattr(given, name) or (QUICK if given.quick else USUAL)[name] for name in USUAL}
    wanted |= {"seed": given.seed, "solvers": given.solver or SOLVERS, "python": given.solvers_python}
    lines: list[Answer] = []
    for data, classifier in TASKS:
        if given.only.lower() in f"{data}, {classifier}".lower():
            lines += compared(make_task(data, classifier, encoding="ordinal"), wanted)
    show("other oracles: all", lines)
    store(given.json, "other_oracles", lines)


if __name__ == "__main__":
    main()

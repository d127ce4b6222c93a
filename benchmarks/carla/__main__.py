"""The comparison of counterfactual systems in the paper's appendix: paper, CARLA, ours, and the proven optimum.

    IRONRULE_DATA=<folder> python -m benchmarks.carla [table] [rules] [nearest] [findings] [--rows 100] [--seeds 5]
        [--only TEXT] [--models TEXT] [--limit SECONDS] [--log FILE] [--quick] [--json FILE]

``table`` asks every system for one counterfactual of the first rows that a model denies, and measures the answers,
those that CARLA 0.0.5 gave too. ``rules`` puts every system under GreedyRuleCF and judges the rules by proof.
``nearest`` times the exact search alone, and ``findings`` looks for systematic faults in CARLA's models and answers.
Everything runs in one process; times are CPU times. Other packages run in environments of their own, whose pythons are
named by ``--dice-ml-python``, ``--actionable-recourse-python``, ``--treecf-python`` and ``--carla-recourse-python``.

With ``--log``, every answer of ``table`` and ``rules`` is kept at once, and the same command goes on where it was
broken off; with more rows or seeds, or a larger ``--limit``, it adds to what is there. Answers of another version of
the engine count with ``--any-engine`` alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.carla.comparison import Line, compare
from benchmarks.carla.findings import list_findings
from benchmarks.carla.models import BACKENDS, IMMUTABLE, KINDS, CarlaModel, load_model
from benchmarks.carla.nearest import measure_nearest
from benchmarks.carla.peers import PEERS
from benchmarks.carla.rules import compare_rules
from benchmarks.carla.settings import Settings
from benchmarks.carla.tables import format_table
from benchmarks.paper.journal import Journal
from benchmarks.proof_log import Log
from benchmarks.report import parser, show, store

PACKAGES = sorted({peer.package for peer in PEERS})
RULE_MODEL, NEAREST_MODEL = "adult ann tensorflow", "adult linear pytorch"
SHOWN = {
    "the paper's measures": ("success", "redundancy", "violations", "CPU s"),
    "distances": ("redundancy with tolerance", "l0", "l0 with tolerance", "l1", "l2", "yNN"),
    "beside CARLA": ("CPU s", "CPU beside CARLA's", "success", "redundancy with tolerance", "l1", "yNN"),
    "beside the proven optimum": (
        "out of range",
        "immutable changed",
        "possible",
        "gap by fewest",
        "compared by l1",
        "gap by l1",
        "gap by l2",
    ),
    "runs": ("answers", "least success of a seed", "largest success of a seed", "set-up CPU s"),
}


def list_models(text: str) -> Iterator[CarlaModel]:
    """CARLA's models whose name has a text."""
    for data in IMMUTABLE:
        for kind in KINDS:
            for backend in BACKENDS[kind]:
                if text.lower() in f"{data} {kind} {backend}":
                    yield load_model(data, kind, backend)


def show_table(model: CarlaModel, lines: Sequence[Line]) -> None:
    """The lines of one model, some columns at a time."""
    for title, names in SHOWN.items():
        known = [line for line in lines if any(line.get(name) is not None for name in names)]
        columns = ("system", "who", "rows", "seeds", *names)
        show(f"{model.name}: {title}", [{name: line.get(name) for name in columns} for line in known])
    print(f"\n{format_table(lines)}")


def run_table(settings: Settings, models: str) -> dict[str, Any]:
    """Compare the systems on every model."""
    results = {}
    for model in list_models(models):
        results[model.name] = compare(model, settings)
        show_table(model, results[model.name])
    return results


def run_rules(settings: Settings, models: str) -> dict[str, Any]:
    """Put the systems under GreedyRuleCF, on the network alone unless models are named."""
    return _run_each("rules of GreedyRuleCF", compare_rules, settings, models or RULE_MODEL)


def run_nearest(settings: Settings, models: str) -> dict[str, Any]:
    """The exact search alone, on the logistic regression unless models are named."""
    return _run_each("nearest counterfactuals", measure_nearest, settings, models or NEAREST_MODEL)


def _run_each(
    title: str, measure: Callable[[CarlaModel, Settings], list[Line]], settings: Settings, models: str
) -> dict[str, Any]:
    results = {}
    for model in list_models(models):
        results[model.name] = measure(model, settings)
        show(f"{model.name}: {title}", results[model.name])
    return results


def run_findings(_: Settings, models: str) -> dict[str, Any]:
    """Count systematic faults."""
    findings = [one for model in list_models(models) for one in list_findings(model)]
    show("CARLA's models and stored answers", findings)
    return {"findings": findings}


SECTIONS = {"table": run_table, "rules": run_rules, "nearest": run_nearest, "findings": run_findings}


def parse_arguments(texts: Sequence[str] | None = None) -> tuple[argparse.Namespace, Settings]:
    """What the command line asks for; without a section, the table."""
    made = parser(__doc__)
    known = ", ".join(SECTIONS)
    made.add_argument("sections", nargs="*", choices=SECTIONS, default="table", metavar="SECTION", help=known)
    made.add_argument("--rows", type=int, help="denied rows per model (100; quick: 3)")
    made.add_argument("--seeds", type=int, help="of systems that draw or train (5; quick: 1)")
    made.add_argument(
        "--only", default="", help="systems with this in their name; several texts are separated by commas"
    )
    made.add_argument("--models", default="", help="models with this in their name, such as adult or 'heloc ann'")
    made.add_argument(
        "--budget",
        type=float,
        default=30.0,
        help="seconds per row and system, by the clock (30); on a busy machine, take more",
    )
    made.add_argument("--limit", type=float, help="seconds of CPU per system and model, all rows and seeds together")
    made.add_argument("--log", type=Path, metavar="FILE", help="keep every answer here, and go on from those there")
    made.add_argument("--any-engine", action="store_true", help="answers of other versions in the log count too")
    made.add_argument("--all-norms", action="store_true", help="prove the least l1 and l2 of networks too (slow)")
    for package in PACKAGES:
        made.add_argument(f"--{package}-python", help=f"the python of {package}'s environment")
    given = made.parse_args(texts)
    pythons = {package: getattr(given, f"{package.replace('-', '_')}_python") for package in PACKAGES}
    rows, seeds = (3, 1) if given.quick else (100, 5)
    peers = {package: python for package, python in pythons.items() if python}
    settings = Settings(
        given.rows or rows,
        given.seeds or seeds,
        given.budget,
        only=given.only,
        all_norms=given.all_norms,
        peers=peers,
        limit=given.limit,
        journal=Journal(Log(given.log), given.any_engine),
    )
    given.sections = [given.sections] if isinstance(given.sections, str) else given.sections
    return given, settings


def main() -> None:
    """Run, print, store."""
    given, settings = parse_arguments()
    results = {name: SECTIONS[name](settings, given.models) for name in given.sections}
    store(given.json, "carla", results)


if __name__ == "__main__":
    main()

"""The command line of the fuzzer: ``python -m benchmarks.fuzz --seconds 600 --seed 1``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.fuzz.cases import Case, Effort, run_case
from benchmarks.fuzz.families import registry
from benchmarks.fuzz.report import Report, failure_text
from benchmarks.fuzz.workers import run_cases

ALTERED_ALONE = 1000
POINTS_ALONE = 150


def main(given: list[str] | None = None) -> int:
    """Run the fuzzer; the exit status is 1 if a claim was false or something crashed."""
    chosen = _parser().parse_args(given)
    effort = Effort(ALTERED_ALONE, claims=False) if chosen.documents else Effort()
    effort = Effort(0, claims=False, points=POINTS_ALONE, checks=False) if chosen.explanations else effort
    known = registry()
    unknown = [name for name in chosen.family if name not in known]
    if unknown:
        print(f"--family must be one of {', '.join(sorted(known))}, got {unknown[0]!r}", file=sys.stderr)
        return 2
    report = Report()
    names = []
    for name in chosen.family or known:
        lacking = known[name].lacking
        if lacking is None:
            names.append(name)
        else:
            report.skipped[name] = lacking
    if not names:
        print(f"nothing can be drawn: {report.skipped}", file=sys.stderr)
        return 2

    def seen(case: Case) -> None:
        report.add(case)
        if case.failed:
            print(failure_text(case), flush=True)
        if sys.stderr.isatty():
            print(f"\r{report.progress()}", end="", file=sys.stderr, flush=True)

    try:
        if chosen.case is not None:
            for name in names:
                seen(run_case(known[name], chosen.case, effort))
        else:
            run_cases(names, chosen.seed, effort, chosen.seconds, chosen.workers, seen, chosen.cases)
    except KeyboardInterrupt:
        print("stopped; what was found so far:", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(report)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n")
    return 1 if report.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="when to stop (60)")
    parser.add_argument("--cases", type=int, default=None, help="stop after this many cases, whatever the time")
    parser.add_argument("--seed", type=int, default=1, help="seed s runs the cases from s million on (1)")
    parser.add_argument("--family", action="append", default=[], help="only this family; may be given several times")
    parser.add_argument("--case", type=int, default=None, help="run the case of this number alone")
    parser.add_argument("--workers", type=int, default=1, help="processes (1)")
    parser.add_argument("--documents", action="store_true", help="mostly altered documents, fewer other claims")
    parser.add_argument("--explanations", action="store_true", help="many explanations of each model, and nothing else")
    parser.add_argument("--json", type=Path, default=None, help="write all counts to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())

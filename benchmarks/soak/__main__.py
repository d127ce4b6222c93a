"""The command line of the soak: ``python -m benchmarks.soak --seconds 180 --seed 1``."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.soak.batches import BatchSubject
from benchmarks.soak.server import ServerSubject
from benchmarks.soak.subject import SoakReport, Subject

SUBJECTS: dict[str, Callable[[], Subject]] = {"batch": BatchSubject, "server": ServerSubject}
ROUND = 12  # disturbances after which a subject is brought to its end and compared


def soak(subject: Subject, seconds: float, rng: random.Random) -> SoakReport:
    """Disturb a subject for a time, at least once, and compare what it has with what is right, again and again."""
    report = SoakReport(subject.name)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        subject.prepare(Path(folder))
        end = time.monotonic() + seconds
        while True:
            for place in range(ROUND):
                if place == 0 or time.monotonic() < end:
                    report.disturbances.append(subject.disturb(rng))
            report.losses += subject.conclude()
            report.comparisons += 1
            if time.monotonic() >= end:
                return report


def main(given: list[str] | None = None) -> int:
    """Run the soak; the exit status is 1 if something was lost or did not end as it should."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="for how long each subject is disturbed (180)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and kinds of disturbances (1)")
    parser.add_argument("--subject", choices=sorted(SUBJECTS), action="append", help="only this one (all)")
    chosen = parser.parse_args(given)
    failed = False
    for name in chosen.subject or SUBJECTS:
        report = soak(SUBJECTS[name](), chosen.seconds, random.Random(chosen.seed))
        print(report, flush=True)
        failed |= bool(report.losses or report.faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

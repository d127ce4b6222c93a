"""Interruptions: how long ``ironrule batch`` takes to end after Ctrl-C or SIGTERM, at random moments.

    python -m benchmarks.interrupts [--trials 40] [--seed 1]

German credit under XGBoost 100 x 5, two workers. Each run is interrupted once, and the next goes on in the same folder;
one that is complete is compared with an undisturbed run and begun anew. Half the signals are SIGINT, which must end the
process with exit code 130, the others SIGTERM (143).
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.soak.batches import BatchSubject
from benchmarks.soak.subject import SoakReport


def measure(trials: int, rng: random.Random) -> SoakReport:
    """Interrupt so many runs."""
    subject, report = BatchSubject(), SoakReport("interrupted batches")
    with tempfile.TemporaryDirectory(prefix="interrupts-") as folder:
        subject.prepare(Path(folder))
        while len(report.disturbances) < trials:
            disturbance = subject.disturb_by_signal(rng)
            report.disturbances.append(disturbance)
            if disturbance.seconds_to_end is None:  # it had come to its end
                report.losses += subject.conclude()
                report.comparisons += 1
                shutil.rmtree(subject.output)
        report.losses += subject.conclude()
        report.comparisons += 1
    return report


def main(given: list[str] | None = None) -> int:
    """Print what was measured; the exit status is 1 if something was lost or took too long."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interrupts", description=__doc__)
    parser.add_argument("--trials", type=int, default=40, help="how many runs are interrupted (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and signals (1)")
    chosen = parser.parse_args(given)
    report = measure(chosen.trials, random.Random(chosen.seed))
    print(report)
    return 1 if report.losses or report.faults else 0


if __name__ == "__main__":
    sys.exit(main())

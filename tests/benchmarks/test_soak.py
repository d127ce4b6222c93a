"""The soak: it disturbs for as long as it is told, compares in the end, and reports what was lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.soak.__main__ import ROUND, SUBJECTS, main, soak
from benchmarks.soak.subject import Disturbance, SoakReport


class Scripted:
    """A subject that is disturbed in a given way, and loses what it is told to."""

    name = "scripted"

    def __init__(self, disturbance: Disturbance, losses: list[str]) -> None:
        self.disturbance, self.losses, self.calls = disturbance, losses, list[str]()

    def prepare(self, folder: Path) -> None:
        assert not list(folder.iterdir())
        self.calls.append("prepare")

    def disturb(self, rng: random.Random) -> Disturbance:
        self.calls.append(f"disturb {rng.random():.3f}")
        return self.disturbance

    def conclude(self) -> list[str]:
        self.calls.append("conclude")
        return self.losses


def test_a_subject_is_prepared_disturbed_and_compared_even_if_there_is_no_time() -> None:
    subject = Scripted(Disturbance("kill"), [])
    report = soak(subject, 0.0, random.Random(0))
    assert subject.calls == ["prepare", "disturb 0.844", "conclude"]
    assert (len(report.disturbances), report.losses, report.comparisons) == (1, [], 1)


def test_disturbances_come_in_rounds_with_a_comparison_after_each() -> None:
    subject = Scripted(Disturbance("kill"), ["row 3 is lost"])
    report = soak(subject, 0.01, random.Random(0))
    assert subject.calls[-1] == "conclude"
    assert subject.calls.count("conclude") == report.comparisons == len(report.losses)
    assert report.comparisons <= len(report.disturbances) <= ROUND * report.comparisons


def test_a_report_names_losses_and_faults_and_how_soon_processes_ended() -> None:
    report = SoakReport(
        "batch", [Disturbance("SIGINT", 0.25), Disturbance("SIGINT", 0.75, ("exit code 1",))], ["row 3"], 1
    )
    text = str(report)
    assert "SIGINT: 2; ended after 0.50 s (median), 0.75 s (most)" in text
    assert "lost or different: 1; other faults: 1" in text
    assert "row 3" in text
    assert "exit code 1" in text


@pytest.mark.parametrize(
    ("disturbance", "losses", "code"),
    [
        (Disturbance("kill"), [], 0),
        (Disturbance("kill"), ["row 3 is lost"], 1),
        (Disturbance("SIGINT", 9.0, ("took 9 s",)), [], 1),
    ],
)
def test_the_exit_code_says_whether_all_went_well(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    disturbance: Disturbance,
    losses: list[str],
    code: int,
) -> None:
    monkeypatch.setitem(SUBJECTS, "scripted", lambda: Scripted(disturbance, losses))
    assert main(["--subject", "scripted", "--seconds", "0"]) == code
    assert "scripted: " in capsys.readouterr().out

"""The runner of the paper's evaluation: what it asks, keeps, and goes on from. No data, no process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up import experiment
from rich.console import Console

from benchmarks.paper import runner
from benchmarks.paper.engine import code, engine
from benchmarks.paper.experiment import Experiment, Task
from benchmarks.paper.journal import Journal
from benchmarks.paper.plan import Plan, Question
from benchmarks.paper.runner import Asked, Run
from benchmarks.paper.shown import Shown

TASK = Task("one", {"fast": 3, "slow": 1}, budget=1.0)


class Here:
    """A worker that answers in this process and counts its questions."""

    asked: list[tuple[str, list[int]]]

    def __init__(self, prepare: Any, given: tuple[Any, ...]) -> None:
        self.prepare, self.given, self.asked = prepare, given, []
        self.state = MADE[given[0]].prepare(given[1])

    def start(self) -> dict[str, Any]:
        return {"rows": self.state[1]}

    def ask(self, _question: Any, method: str, rows: list[int], limit: float) -> dict[str, Any]:
        assert limit > self.given[1].budget * len(rows)
        ASKED.append((method, rows))
        try:
            return {"records": MADE[self.given[0]].measure(self.state[0], self.given[1], method, rows)}
        except ValueError as error:
            return {"failed": str(error)}

    def stop(self) -> None:
        pass


MADE: dict[str, Experiment] = {}
ASKED: list[tuple[str, list[int]]] = []


def run(made: Experiment, folder: Path, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> list[dict[str, Any]]:
    monkeypatch.setattr(runner, "Worker", Here)
    MADE[made.name] = made
    ASKED.clear()
    journal = Journal.at(folder / "log.jsonl", asked.get("any_engine", False))
    shown = Shown(made.name, console=Console(stderr=True, force_terminal=False))
    return Run(made, Asked(folder, workers=1, **asked), journal, shown).everything()


def test_every_method_gets_its_rows_and_a_row_has_all_its_methods_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = run(experiment(TASK), tmp_path, monkeypatch)
    assert ASKED == [("fast", [10]), ("slow", [10]), ("fast", [11]), ("fast", [12])]
    assert [(r["task"], r["method"], r["row"], r["number"]) for r in records] == [
        ("one", "fast", 10, 10),
        ("one", "slow", 10, 10),
        ("one", "fast", 11, 11),
        ("one", "fast", 12, 12),
    ]


def test_a_second_run_asks_nothing_and_a_broken_off_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(experiment(TASK), tmp_path, monkeypatch)
    assert run(experiment(TASK), tmp_path, monkeypatch) == first
    assert ASKED == []
    log = tmp_path / "log.jsonl"
    log.write_text(log.read_text()[:-40])  # broken off within a line
    assert run(experiment(TASK), tmp_path, monkeypatch) == first
    assert ASKED == [("fast", [12])]
    assert run(experiment(TASK), tmp_path, monkeypatch) == first
    assert ASKED == []


def test_other_settings_budgets_and_engines_are_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(experiment(TASK), tmp_path, monkeypatch)
    run(experiment(Task("one", TASK.counts, budget=2.0)), tmp_path, monkeypatch)
    assert len(ASKED) == 4
    monkeypatch.setattr("benchmarks.paper.plan.engine", lambda: "another")
    run(experiment(TASK), tmp_path, monkeypatch, any_engine=True)
    assert ASKED == []
    run(experiment(TASK), tmp_path, monkeypatch)
    assert len(ASKED) == 4


def test_a_failure_is_kept_as_one_and_asked_again_only_if_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment(Task("one", {"broken": 2}, budget=1.0))
    records = run(made, tmp_path, monkeypatch)
    assert [record["failed"] for record in records] == ["it broke", "it broke"]
    run(made, tmp_path, monkeypatch)
    assert ASKED == []
    run(made, tmp_path, monkeypatch, retry=True)
    assert len(ASKED) == 2


def test_what_breaks_while_answers_are_kept_is_raised_and_not_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Run, "_keep", refuse)
    with pytest.raises(OSError, match="the disk is full"):
        run(experiment(TASK), tmp_path, monkeypatch)


def test_batches_of_rows_are_asked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = experiment(TASK, batches={"fast": 2})
    records = run(made, tmp_path, monkeypatch)
    assert ASKED == [("slow", [10]), ("fast", [10, 11]), ("fast", [12])]
    assert len(records) == 4


def test_what_was_not_asked_for_is_left_out_but_what_is_known_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = experiment(TASK, Task("two", {"fast": 2}, budget=1.0, facts={"factor": 3}))
    assert len(run(made, tmp_path, monkeypatch, only="TWO", rows=1)) == 1
    assert len(run(made, tmp_path, monkeypatch, only="one", algorithms=("slow",))) == 2
    assert ASKED == [("slow", [10])]


def test_an_answer_with_too_few_records_is_a_failure(tmp_path: Path) -> None:
    made = experiment(TASK)
    journal = Journal.at(tmp_path / "log.jsonl")
    plan = Plan(made, TASK, [10], journal)
    Run(made, Asked(tmp_path), journal, Shown("made_up"))._keep(plan, Question("fast", (10,)), {"records": []})
    assert "one record per row" in plan.records()[0]["failed"]


def test_the_engine_changes_with_what_the_source_does_and_not_with_its_words() -> None:
    source = 'def f(x):\n    """Words."""\n    return x + 1  # why\n'
    assert code(source) == code('def f(x):\n    """Other words."""\n    return x + 1\n')
    assert code(source) != code(source.replace("1", "2"))
    assert engine() == engine()

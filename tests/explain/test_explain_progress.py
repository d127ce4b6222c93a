"""A search can be looked at, and stopped, from outside while it runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from ironrule import Budget, Explainer, Minimum, Refuted
from ironrule.progress import SearchStatus
from ironrule.search.problem import Problem, SearchState
from ironrule.verdict.budget import Meter
from waiting import PATIENCE


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).integers(0, 12, (300, 6)), columns=list("abcdef"))


@pytest.fixture(scope="module")
def readable(table: pd.DataFrame) -> Explainer:
    wanted = np.where(table.a * table.b + table.c > 30, "yes", "no")
    return Explainer(GradientBoostingClassifier(random_state=0).fit(table, wanted), table, desired="yes")


@pytest.fixture(scope="module")
def black_box(table: pd.DataFrame) -> Explainer:
    return Explainer(lambda rows: (rows.a * rows.b + rows.c > 30).to_numpy(dtype=float), table)


def denied(explainer: Explainer) -> int:
    return int(np.flatnonzero(~explainer.outcomes)[0])


@pytest.mark.parametrize("name", ["readable", "black_box"])
def test_a_search_is_watched_on_its_way(name: str, request: pytest.FixtureRequest) -> None:
    explainer = request.getfixturevalue(name)
    seen: list[tuple[int, float | None, float]] = []

    def watch(meter: Meter) -> None:
        glance = meter.report_progress()
        seen.append((meter.evaluations, glance.best, glance.lower_bound))

    explanation = explainer.explain(denied(explainer), budget=Budget(evaluations=5_000_000, callback=watch))
    assert [evaluations for evaluations, _, _ in seen] == sorted(evaluations for evaluations, _, _ in seen)
    assert all(at_least <= explanation.weight for _, _, at_least in seen)
    assert explanation.ranked == explainer.explain(denied(explainer)).ranked
    if name == "readable":
        assert any(best is not None for _, best, _ in seen)


@pytest.mark.parametrize("name", ["readable", "black_box"])
@pytest.mark.parametrize("after", [0, 3, 10, 40])
def test_a_search_that_is_stopped_from_outside_gives_the_best_it_has(
    name: str, after: int, request: pytest.FixtureRequest
) -> None:
    explainer, looks = request.getfixturevalue(name), 0

    def watch(_: Meter) -> None:
        nonlocal looks
        looks += 1
        if looks > after:
            raise KeyboardInterrupt

    explanation = explainer.explain(denied(explainer), budget=Budget(callback=watch))
    assert looks > 0
    assert explanation.statistics.stopped == ("interrupted" if looks > after else None) or explanation.wider is not None
    assert not isinstance(explanation.verdict, Refuted)


@dataclass(frozen=True, slots=True)
class WaitingMinimum:
    """The search for a minimum rule, which ends only when its state was described twice after it had found the rule.

    The first of the two descriptions may have begun before the rule was found, the second has not.
    """

    described: threading.Semaphore
    visible: bool
    attempts: int = 20

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        found = Minimum().run(problem, state)
        while self.described.acquire(blocking=False):
            pass  # a description of the search while it was running
        for _ in range(2 if self.visible else 0):
            assert self.described.acquire(timeout=PATIENCE)
        return found


@pytest.mark.parametrize("visible", [True, False])
def test_a_single_search_is_shown_with_its_best_rule_its_bound_and_its_seconds(
    visible: bool, readable: Explainer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ironrule.progress.DELAY_SECONDS", 0.0)
    monkeypatch.setattr("ironrule.progress.REDRAW_SECONDS", 0.0)
    described, describe = threading.Semaphore(0), Meter.describe

    def describe_and_count(meter: Meter) -> str:
        text = describe(meter)
        if "best rule" in text:
            described.release()
        return text

    monkeypatch.setattr(Meter, "describe", describe_and_count)
    explanation = readable.explain(denied(readable), WaitingMinimum(described, visible), progress=visible)
    shown, length = capsys.readouterr().err, explanation.cardinality
    assert (f"Searching: best rule so far {length}, none below {length}; " in shown) == visible
    assert (" of 30 s" in shown) == visible
    assert visible or shown == ""


def test_searches_of_all_kinds_can_be_shown(readable: Explainer, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[bool | None] = []

    def watch(meter: Meter, visible: bool | None) -> SearchStatus:
        watched.append(visible)
        return SearchStatus(meter.describe, lambda: meter.elapsed, meter.budget.seconds, False)

    monkeypatch.setattr(Meter, "watch", watch)
    row = denied(readable)
    explanation = readable.explain(row, progress=True)
    readable.counterfactuals(row, progress=True)
    readable.judge(row, explanation, progress=True)
    next(readable.rules(row, progress=True))
    next(readable.change_sets(row, progress=True))
    assert watched == 5 * [True]
    readable.explain(row)
    readable.explain_many([row], workers=1)
    assert watched[5:] == [None, *([False] if len(watched) > 6 else [])]  # the rows of a batch have one bar together


def test_a_callback_is_no_part_of_what_a_budget_is() -> None:
    assert Budget(seconds=1, callback=print) == Budget(seconds=1)
    assert "callback" not in repr(Budget(seconds=1, callback=print))


def test_the_past_rows_can_be_read_in_codes_with_their_numbers(readable: Explainer, table: pd.DataFrame) -> None:
    assert readable.row_numbers.tolist() == list(range(300))
    assert readable.space.decode_row(readable.codes.row(7)) == table.iloc[7].to_dict()


def test_rows_that_break_a_constraint_keep_no_number(table: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="past rows break the constraints"):
        some = Explainer(lambda rows: (rows.b > 4).to_numpy(dtype=float), table, constraints=["cf.a <= 8"])
    assert some.row_numbers.tolist() == np.flatnonzero(table.a <= 8).tolist()
    assert len(some.codes) == len(some.outcomes) == len(some.row_numbers)


def test_an_explainer_says_which_outcome_a_row_has(readable: Explainer, table: pd.DataFrame) -> None:
    assert [readable.is_desired(row) for row in range(20)] == readable.outcomes[:20].tolist()
    assert [readable.is_desired(table.iloc[row]) for row in range(20)] == readable.outcomes[:20].tolist()

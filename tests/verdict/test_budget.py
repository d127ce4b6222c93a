"""Budgets and the meter that runs while one is spent."""

import time

import numpy as np
import pytest

from ironrule.errors import BudgetError
from ironrule.verdict.budget import Budget, BudgetExhausted, Meter


class AllDesired:
    def __init__(self):
        self.asked = 0

    def desired(self, points):
        self.asked += len(points)
        return np.ones(len(points), dtype=bool)


@pytest.mark.parametrize("limits", [{"evaluations": 0}, {"evaluations": -1}, {"seconds": 0}, {"seconds": float("nan")}])
def test_a_budget_that_allows_nothing_is_refused(limits):
    with pytest.raises(BudgetError, match=r"must be positive, got .*; leave it out for no limit"):
        Budget(**limits)


@pytest.mark.parametrize("evaluations", [1.5, 10.0, "10", True, [10]])
def test_evaluations_that_are_no_whole_number_are_refused(evaluations):
    with pytest.raises(BudgetError, match=r"a budget's evaluations must be an integer, got .*"):
        Budget(evaluations=evaluations)


@pytest.mark.parametrize("seconds", ["10", True, [10], 1j])
def test_seconds_that_are_no_number_are_refused(seconds):
    with pytest.raises(BudgetError, match=r"a budget's seconds must be a number, got .*"):
        Budget(seconds=seconds)


def test_no_limit_is_a_budget():
    assert Meter(Budget()).evaluations_left > 10**18


def test_the_model_is_never_asked_about_more_than_the_budget_allows():
    model, meter = AllDesired(), Meter(Budget(evaluations=10))
    assert meter.desired(model, np.zeros((7, 1))).all()
    assert meter.evaluations_left == 3
    assert meter.ended_by == "finished"
    with pytest.raises(BudgetExhausted):
        meter.desired(model, np.zeros((4, 1)))
    assert meter.ended_by == "evaluations"
    assert (model.asked, meter.evaluations, meter.calls) == (7, 7, 1)
    meter.desired(model, np.zeros((3, 1)))
    assert meter.evaluations_left == 0
    with pytest.raises(BudgetExhausted):
        meter.desired(model, np.zeros((1, 1)))


def test_a_reserve_is_kept_back():
    meter = Meter(Budget(evaluations=10), reserve=4)
    assert meter.evaluations_left == 6
    with pytest.raises(BudgetExhausted):
        meter.check(7)
    meter.reserve = 0
    meter.check(10)


def test_time_runs_out():
    meter = Meter(Budget(seconds=10.0))
    meter.check()
    meter.started -= 11
    with pytest.raises(BudgetExhausted):
        meter.check()
    assert meter.ended_by == "seconds"


def test_operators_are_timed_even_when_they_fail(monkeypatch):
    ticks = iter([0.0, 2.0, 5.0, 6.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    meter = Meter(started=0.0)
    with pytest.raises(ZeroDivisionError), meter.time_block("mutate"):
        1 / 0  # noqa: B018
    with meter.time_block("mutate"):
        pass
    assert meter.seconds == {"mutate": 3.0}


def test_what_an_operator_takes_inside_another_is_its_own_alone(monkeypatch):
    ticks = iter([0.0, 1.0, 4.0, 5.0, 7.0, 10.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    meter = Meter(started=0.0)
    with meter.time_block("preparation"):  # from 0 to 10
        with meter.time_block("cf rules"):  # from 1 to 4
            pass
        with meter.time_block("cf rules"):  # from 5 to 7
            pass
    assert meter.seconds == {"cf rules": 5.0, "preparation": 5.0}

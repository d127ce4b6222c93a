"""One row of the proof benchmark: what it notes is there, and true. The clocks are made up."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from benchmarks import proof_rows
from benchmarks.proof_rows import Watched, explain
from ironrule import Explainer

TICK = 1e-6  # seconds between two looks at a clock, so that no budget ends


@pytest.fixture
def _made_up_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clocks that count how often they are looked at."""
    for name in ("perf_counter", "process_time"):
        readings = itertools.count(1)
        monkeypatch.setattr(time, name, lambda readings=readings: next(readings) * TICK)


@pytest.mark.usefixtures("_made_up_clocks")
def test_a_row_says_when_its_first_irredundant_rule_was_there() -> None:
    rows = np.random.default_rng(1).integers(0, 6, size=(400, 6))
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(rows, rows[:, 0] * rows[:, 1] > rows[:, 2])
    explainer = Explainer(model, rows, desired=True, progress=False)
    for row in np.flatnonzero(~explainer.outcomes)[:5]:
        answer = explain(explainer, int(row), 30.0)
        assert answer["proven"]
        assert answer["minimum"]
        assert answer["first irredundant"]
        assert 0 < answer["first wall"] <= answer["wall"]
        assert 0 < answer["first cpu"] <= answer["cpu"]
        assert answer["cardinality"] <= answer["first cardinality"]
        assert answer["lower bound"] == answer["cardinality"]
        assert answer["deletion proven"]
        assert answer["boxes"] > 0
        assert answer["counterfactuals"] > 0


def test_a_rule_is_noted_when_it_is_reached_for_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    walls, processors = iter([10.0, 11.5, 13.0]), iter([1.0, 1.25, 2.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(walls))
    monkeypatch.setattr(time, "process_time", lambda: next(processors))
    watched = Watched()
    for rules in ([0b111], [0b111], [], [0b11, 0b101]):
        watched.notice(rules)
    assert watched.reached == [(0b111, 1.5, 0.25), (0b11, 3.0, 1.0)]


@pytest.mark.parametrize(("irredundant", "first"), [((0b111, 0b11), 0), ((0b11,), 1), ((), None)])
def test_the_first_rule_without_redundant_components_counts(
    irredundant: tuple[int, ...], first: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = [(0b111, 1.5, 0.25), (0b11, 3.0, 1.0)]
    monkeypatch.setattr(proof_rows, "irredundant", lambda _, rule: rule in irredundant)
    found = proof_rows.first_rule(None, Watched(reached=reached))  # type: ignore[arg-type]
    rule, wall, cpu = (None, None, None) if first is None else reached[first]
    assert found == {
        "first wall": wall,
        "first cpu": cpu,
        "first cardinality": None if rule is None else rule.bit_count(),
        "first irredundant": first is not None,
    }

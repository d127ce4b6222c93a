"""The pure parts of the experiments: what is planted and recovered, which operator took what, what is varied."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.paper import ablations, operators, real, synthetic
from benchmarks.paper.experiment import MODULES, Task, available, load
from benchmarks.paper.methods import methods
from benchmarks.paper.rows import Warmth, explained, text
from benchmarks.paper.subject import Subject
from ironrule import RuleClassifier, Space

TABLE = pd.DataFrame(np.random.default_rng(0).integers(0, 5, (60, 4)), columns=list("abcd")).assign(
    e=np.random.default_rng(1).random(60).round(1)
)
SPACE = Space.infer(TABLE, progress=False)


def test_a_planted_rule_has_the_wanted_cardinality_holds_for_its_row_and_depends_on_its_number_alone() -> None:
    made = [synthetic.planted(TABLE, SPACE, 4, number) for number in range(30)]
    assert made == [synthetic.planted(TABLE, SPACE, 4, number) for number in range(30)]
    assert len({one.rule for one in made}) > 20
    for one in made:
        assert one.rule.cardinality == 4
        assert one.rule.covers(TABLE.iloc[[one.row]])[0]
        assert text(one.rule).split(" and ") == sorted(text(one.rule).split(" and "))


@pytest.mark.parametrize("method", ["minimum", "greedy_cf_exact", "genetic_cf_exact", "greedy_cf", "genetic_cf"])
def test_methods_that_ask_an_oracle_recover_a_planted_rule_and_are_judged_minimum(method: str) -> None:
    made = synthetic.planted(TABLE, SPACE, 3, 1)
    subject = Subject("small", RuleClassifier((made.rule,)), TABLE, 1, space=SPACE)
    (record,) = explained(Warmth(), subject, method, [made.row], 30.0)
    assert synthetic.recovery(record, made) == "exact"
    assert record["quality"] == "minimum"
    assert record["least"] == record["cardinality"] == 3


def test_recovery_tells_missing_parts_from_needless_ones() -> None:
    made = synthetic.planted(TABLE, SPACE, 3, 1)
    parts = sorted(made.parts)
    assert synthetic.recovery({"rule": " and ".join(parts)}, made) == "exact"
    assert synthetic.recovery({"rule": " and ".join([*parts, "z <= 1"])}, made) == "redundant"
    assert synthetic.recovery({"rule": " and ".join([*parts[1:], "z <= 1"])}, made) == "inconsistent"
    assert synthetic.recovery({"rule": ""}, made) == "inconsistent"
    assert synthetic.recovery({"failed": "why"}, made) is None


def test_operators_and_the_rest_add_up_to_the_whole() -> None:
    took = {"operator history": 1.0, "operator preparation": 2.0, "operator cf rules": 4.0, "wall": 10.0}
    parts = dict(zip(operators.PARTS, operators.seconds(took), strict=True))
    assert parts["preparation"] == 3.0
    assert parts["CF rules"] == 4.0
    assert parts["other"] == 3.0
    assert sum(parts.values()) == took["wall"]


def test_every_task_names_methods_that_are_there_and_quick_ones_have_few_rows() -> None:
    for module in (real, synthetic, operators, ablations):
        for quick in (True, False):
            for task in module.tasks(quick):
                assert set(task.counts) <= set(methods())
                assert max(task.counts.values()) <= (50 if quick else 10_000)


def test_variants_differ_from_their_base_in_what_they_say() -> None:
    task = Task("t", {}, 1.0)
    assert "s=10," in methods()["genetic s=10"].settings(task)
    assert "q=5," in methods()["greedy_cf_exact q=5"].settings(task)
    assert methods()["genetic s=1000"].settings(task) == methods()["genetic"].settings(task)
    assert "HistorySampler" in methods()["genetic_cf all three"].settings(task)
    assert methods()["greedy_cf_exact 5 of 20 duals"].settings(task).endswith("duals=5, oracle=None), k=20")


def test_a_line_has_a_point_where_a_variant_was_run_and_none_elsewhere() -> None:
    records = [
        {"task": "Credit", "method": "genetic s=10", "row": row, "quality": quality, "cpu": 1.0}
        for row, quality in enumerate(["minimum", "failed global consistency"])
    ]
    shown = {picture.name: picture for picture in ablations.pictures(records)}
    values = shown["ablations-samples-consistent"].panels[0].values
    assert list(values) == ["GeneticRule"]
    assert values["GeneticRule"][0] == 50.0
    assert np.isnan(values["GeneticRule"][1:]).all()


@pytest.mark.parametrize("name", available())
def test_every_experiment_draws_and_sums_up_nothing_without_failing(name: str) -> None:
    made = load(name)
    assert made.name == name
    assert all(rows == [] for rows in made.tables([]).values())
    made.pictures([])


def test_all_experiments_are_there() -> None:
    assert available() == list(MODULES)

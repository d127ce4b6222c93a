"""Models that are written down: what they answer, that they refuse nonsense, and that they are read as they decide."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from exhaustive_checks import assert_shortest, get_compiled_model, measure_undecided_share

from ironrule import (
    Bins,
    Component,
    Explainer,
    InputError,
    ModelError,
    Rule,
    RuleClassifier,
    Scorecard,
    Subscale,
    TableError,
    TwoLayerAdditive,
)
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.handwritten_models import read_handwritten_model

AGES = [17.0, 18.0, float(np.nextafter(18, 17)), 30.0, -7.0, np.nan, -0.0]
HOMES = ["own", "rent", "free", None]


def people(seed: int, rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.choice(AGES, rows),
            "home": rng.choice(np.array(HOMES, dtype=object), rows),
            "loans": rng.integers(0, 3, rows),
            "job": rng.choice([True, False], rows),
        }
    )


def random_bins(rng: np.random.Generator, whole: bool) -> tuple[Bins, ...]:
    def points(count: int) -> list[float]:
        drawn = rng.normal(size=count) * 3
        return (np.round(drawn) if whole else drawn).tolist()

    return (
        Bins("age", edges=(0, 18), points=points(3), values={-7: points(1)[0]}, missing=points(1)[0]),
        Bins("home", values=dict(zip(["own", "rent"], points(2), strict=True)), missing=points(1)[0], other=0.5),
        Bins("loans", edges=(1, 2), points=points(3)),
        Bins("job", values={True: points(1)[0], False: points(1)[0]}),
    )


def random_two_layer(rng: np.random.Generator) -> TwoLayerAdditive:
    age, home, loans, job = random_bins(rng, whole=False)
    parts = [(age, job), (home,), (loans, random_bins(rng, whole=False)[0]), ()]
    weights = [*(rng.normal(size=3) * 4), 0.0]
    subscales = [Subscale(weight, float(rng.normal()), part) for weight, part in zip(weights, parts, strict=True)]
    return TwoLayerAdditive(subscales, float(rng.normal()), ("good", "bad"))


def test_bins_are_closed_below_and_values_come_first() -> None:
    age = Bins("age", edges=(0, 18), points=(-1, 1, 2), values=[(-7, 9)], missing=5)
    assert age.look_up(np.array(AGES)).tolist() == [1, 2, 1, 2, 9, 5, 1]
    assert age.look_up(np.array([*AGES[:5], None, -0.0], dtype=object)).tolist() == [1, 2, 1, 2, 9, 5, 1]
    assert age.look_up(np.array([-math.inf, math.inf])).tolist() == [-1, 2]


def test_a_value_without_points_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="no points for 'boat' in column 'home'"):
        Bins("home", values={"own": 1}).look_up(np.array(["own", "boat"], dtype=object))
    with pytest.raises(ModelError, match=r"no points for .*nan.* in column 'age'"):
        Bins("age", edges=(1,), points=(0, 1)).look_up(np.array([np.nan]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"edges": (1, 2), "points": (0, 1)},
        {"edges": (2, 1), "points": (0, 1, 2)},
        {"edges": (1,)},
        {"values": [("a", 1), ("a", 2)]},
        {"values": {None: 1}},
        {"points": (math.inf,)},
    ],
    ids=str,
)
def test_bins_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="'a'"):
        Bins("a", **wrong)


def test_a_scorecard_adds_up_and_a_tie_with_the_cutoff_passes() -> None:
    card = Scorecard((Bins("a", edges=(5,), points=(0, 10)), Bins("b", values={"x": 1, "y": 2})), 11, base=-1)
    table = pd.DataFrame({"c": [0, 0, 0], "b": ["x", "y", "y"], "a": [9, 9, 1]})
    assert card.points(table).tolist() == [10, 11, 1]
    assert card.predict(table).tolist() == card.predict(pl.from_pandas(table)).tolist() == [0, 1, 0]
    assert card.predict(np.array([[9, "y"], [9, "x"]], dtype=object)).tolist() == [1, 0]
    with pytest.raises(TableError, match=r"the table must have the column 'b', got columns 'a'$"):
        card.predict(table[["a"]])
    with pytest.raises(TableError, match=r"columns a, b, got shape \(2, 3\)"):
        card.predict(np.zeros((2, 3)))


def test_a_two_layer_model_is_what_its_formula_says() -> None:
    rng = np.random.default_rng(0)
    model, table = random_two_layer(rng), people(0)
    inner = [
        sum((part.look_up(table[part.column].to_numpy()) for part in one.parts), np.zeros(len(table))) + one.bias
        for one in model.subscales
    ]
    odds = model.bias + sum(one.weight / (1 + np.exp(-x)) for one, x in zip(model.subscales, inner, strict=True))
    assert np.allclose(model.decision_function(table), odds)
    assert np.allclose(model.predict_proba(table), np.stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))], axis=1))
    assert (model.predict(table) == np.where(odds > 0, "bad", "good")).all()


def rules() -> tuple[Rule, ...]:
    return (
        Rule((Component("age", "<=", 18.0), Component("home", "==", "rent"))),
        Rule((Component("home", "==", None), Component("loans", ">=", 1), Component("job", "==", True))),
        Rule((Component("age", "==", None), Component("loans", "<=", 0))),
    )


def test_a_rule_classifier_denies_whoever_satisfies_a_rule() -> None:
    table = people(1)
    covered = np.any([rule.covers(table) for rule in rules()], axis=0)
    model = RuleClassifier(rules(), classes=("no", "yes"))
    assert (model.predict(table) == np.where(covered, "no", "yes")).all()
    assert model.feature_names_in_.tolist() == ["age", "home", "loans", "job"]
    assert RuleClassifier(()).predict(table).tolist() == [1] * len(table)


@pytest.mark.parametrize("seed", range(3))
def test_written_models_survive_json(seed: int) -> None:
    rng = np.random.default_rng(seed)
    models = (
        Scorecard(random_bins(rng, whole=False), 1.5, 2, ("a", "b")),
        random_two_layer(rng),
        RuleClassifier(rules(), ("a", "b")),
    )
    for model in models:
        assert type(model).from_dict(json.loads(json.dumps(model.to_dict()))) == model
        with pytest.raises(InputError):
            type(model).from_dict({**model.to_dict(), "nonsense": 1})


@pytest.mark.parametrize("classes", ["ab", ("a", "a"), (1,), (1, 2, 3)])
def test_there_are_two_distinct_classes(classes: Any) -> None:
    with pytest.raises(InputError, match="classes must be two distinct labels, got"):
        Scorecard((), 0, classes=classes)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("whole", [True, False])
def test_a_scorecard_is_read_exactly(seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    table = people(seed)
    parts = random_bins(rng, whole)
    cutoff = float(np.median(Scorecard(parts, 0).points(table)))  # so that there are ties
    for desired in ("no", "yes"):
        explainer = Explainer(Scorecard(parts, cutoff, classes=("no", "yes")), table, desired=desired)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) <= (0.0 if whole else 0.2)
        assert_shortest(explainer)


@pytest.mark.parametrize("seed", range(2))
def test_a_two_layer_model_is_read_exactly(seed: int) -> None:
    model, table = random_two_layer(np.random.default_rng(seed)), people(seed)
    middle = float(np.median(model.predict_proba(table)[:, 1]))
    for desired, threshold in (("good", None), ("bad", None), ("bad", middle), ("good", 0.3), ("good", 1 - middle)):
        explainer = Explainer(model, table, desired=desired, threshold=threshold)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) <= (0.1 if threshold in (middle, 1 - middle) else 0.0)
        assert_shortest(explainer, rows=2)


@pytest.mark.parametrize("desired", ["no", "yes"])
def test_a_rule_classifier_is_read_exactly(desired: str) -> None:
    explainer = Explainer(RuleClassifier(rules(), classes=("no", "yes")), people(1), desired=desired)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0.0
    assert assert_shortest(explainer, rows=6) == 6


def test_the_rule_of_a_single_rule_classifier_is_found() -> None:
    table = people(2)
    rule = Rule((Component("loans", ">=", 1), Component("home", "==", "rent")))
    explainer = Explainer(RuleClassifier((rule,)), table)
    explanation = explainer.explain({"age": 17.0, "home": "rent", "loans": 1, "job": True})
    assert set(explanation.rule.components) == set(rule.components)
    assert explanation.minimum


def test_rules_about_one_hot_groups_are_read() -> None:
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 3, 60)
    table = pd.DataFrame({f"colour_{k}": (colour == k).astype(int) for k in range(3)} | {"n": rng.integers(0, 3, 60)})
    model = RuleClassifier(
        (Rule((Component("colour", "==", 1, one_hot_columns=(("colour_1", 1),)), Component("n", "<=", 1))),)
    )
    explainer = Explainer(model, table, columns=list(table.columns))
    assert explainer.unreadable_reason is None
    assert_shortest(explainer)


def test_no_rules_and_empty_rules_are_read() -> None:
    table = people(0)[["loans"]]
    everybody = RuleClassifier((Rule(()), Rule((Component("loans", "<=", 1),))))
    explainer = Explainer(everybody, table)
    assert explainer.unreadable_reason is None
    assert explainer.explain({"loans": 2}).cardinality == 0
    for desired in (0, 1):
        tree_sum = read_handwritten_model(RuleClassifier(()), (desired,), None)
        assert tree_sum is not None
        assert (tree_sum.margins(np.zeros((1, 0)))[0] > 0).tolist() == [desired == 1]


def test_written_models_refuse_what_they_cannot_say() -> None:
    card = Scorecard((Bins("a", edges=(1,), points=(0, 1)),), 1)
    with pytest.raises(Unreadable, match="no probabilities"):
        read_handwritten_model(card, (1,), 0.5)
    tree_sum = read_handwritten_model(RuleClassifier((Rule((Component("a", "<=", 2**53 + 1),)),)), (1,), None)
    assert tree_sum is not None
    tree = tree_sum.alternatives[0][0].groups[0].trees[0]
    assert tree.evaluate(np.array([[2.0**53 - 1], [2.0**54]])).tolist() == [-1, 0]
    with pytest.raises(Unreadable, match="2\\^53"):
        tree.evaluate(np.array([[2.0**53]]))


def test_the_cells_of_a_written_model_are_its_bins() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 500, 900)})
    explainer = Explainer(Scorecard((Bins("a", edges=(100, 250, 400), points=(0, 3, 3, 7)),), 5), table)
    assert np.diff(get_compiled_model(explainer).alternatives[0].cells.cell_starts).tolist() == [3]


def test_whole_intervals_need_bins_in_which_no_number_stands_for_itself() -> None:
    table = pd.DataFrame({"a": [-9.0, 3.0, 8.0, 20.0] * 5, "b": [0.5, 0.5, 7.5, 7.5, 7.5] * 4})
    parts = (Bins("a", edges=(0, 10), points=(1, 0, 2)), Bins("b", edges=(1, 5), points=(0, 3, 1)))
    model = Scorecard(parts, 3)
    explainer = Explainer(model, table, domain="interval")
    assert 5.0 in explainer.space["b"].values
    assert 1.0 in explainer.space["b"].values
    explanation = explainer.explain({"a": 3.0, "b": 0.5})
    between = pd.DataFrame({"a": np.linspace(-9, 20, 400), "b": np.linspace(0.5, 7.5, 400)[::-1]})
    assert explanation.minimum
    assert (model.predict(between[explanation.rule.covers(between)]) == 0).all()
    special = Scorecard((Bins("a", edges=(0,), points=(0, 2), values={-7: 9}), parts[1]), 3)
    with pytest.raises(ModelError, match="'a': the model tells single values of it apart"):
        Explainer(special, table, domain="interval")
    single = RuleClassifier((Rule((Component("a", "==", 4.0),)),))
    with pytest.raises(ModelError, match="'a': the model tells single values of it apart"):
        Explainer(single, table[["a"]], domain="interval")

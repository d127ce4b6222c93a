"""Costs as users say them: what is accepted, what is refused, and that they survive JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from ironrule import Cost
from ironrule.errors import InputError
from ironrule.rule.cost import DEFAULT_COST, CostTable, parse_cost, parse_price_texts, parse_step_texts

EVERYTHING = Cost(
    "l1", scale="mad", prices={"income": {"up": 1, "down": 5}, "age": math.inf}, steps={"amount": 50}, per_change=0.5
)


@pytest.mark.parametrize("cost", [DEFAULT_COST, EVERYTHING, Cost("linf"), Cost(prices={"a": {"up": math.inf}})])
def test_a_cost_survives_json(cost):
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict(), allow_nan=False))) == cost


def test_a_norm_by_name_is_a_cost():
    assert parse_cost("l2") == Cost("l2")
    assert parse_cost(EVERYTHING) is EVERYTHING
    assert Cost().is_usual
    assert Cost(prices={"age": math.inf}).is_usual
    assert not any(
        cost.is_usual for cost in (Cost("l1"), Cost(scale="mad"), Cost(prices={"age": 2}), Cost(steps={"a": 1}))
    )


def test_prices_have_directions():
    assert EVERYTHING.get_price("income") == (1.0, 5.0)
    assert EVERYTHING.get_price("age") == (math.inf, math.inf)
    assert EVERYTHING.get_price("debt") == (1.0, 1.0)
    assert Cost(prices={"a": {"up": 2}}).get_price("a") == (2.0, 1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"norm": "l3"}, "must be one of fewest, l1, l2, linf"),
        ({"norm": None}, "must be one of"),
        ({"norm": ["l1"]}, "must be one of"),
        ({"scale": "std"}, "must be one of range, mad, percentile"),
        ({"prices": ["age"]}, "must be a mapping"),
        ({"prices": {"age": -1}}, "not negative"),
        ({"prices": {"age": math.nan}}, "not negative"),
        ({"prices": {"age": "2"}}, "not negative"),
        ({"prices": {"age": True}}, "not negative"),
        ({"prices": {"age": {"left": 1}}}, "'up' and 'down'"),
        ({"prices": {"age": {}}}, "'up' and 'down'"),
        ({"prices": {"age": {"up": -2}}}, "not negative"),
        ({"steps": {"age": 0}}, "positive"),
        ({"steps": {"age": math.inf}}, "positive"),
        ({"steps": {"age": None}}, "positive"),
        ({"steps": 3}, "must be a mapping"),
        ({"norm": "l1", "per_change": -1}, "not negative"),
        ({"norm": "l1", "per_change": math.inf}, "finite"),
        ({"per_change": 1}, "unless the norm is 'l1'"),
        ({"price": {}}, "must have the keys"),
    ],
)
def test_what_is_no_cost_is_refused(given, words):
    with pytest.raises(InputError) as refused:
        Cost.from_dict(given)
    assert words in str(refused.value)


@pytest.mark.parametrize("given", ["l7", 3, None, {"norm": "l1"}, Cost])
def test_what_is_neither_a_cost_nor_a_norm_is_refused(given):
    with pytest.raises(InputError, match="or a Cost") as refused:
        parse_cost(given)
    assert refused.value.code == "unknown-cost"


@pytest.mark.parametrize("text", ["age", "=3", "age=", "age=x", "age=1:2:3"])
def test_a_price_that_cannot_be_read_is_refused(text):
    with pytest.raises(InputError):
        parse_price_texts([text])


def test_prices_and_steps_are_read_from_texts():
    assert Cost(prices=parse_price_texts(["a=b=2", " age = inf "])).get_price("age") == (math.inf, math.inf)
    assert parse_step_texts(["amount=2.5"]) == {"amount": 2.5}
    with pytest.raises(InputError, match="amount=50"):
        parse_step_texts(["amount"])


def test_parts_of_a_table_are_added_up_or_the_largest_counts():
    parts = (np.array([0.0, 0.5]), np.array([0.25, 0.0, math.inf]))
    point = np.array([1, 0], dtype=np.int32)
    assert CostTable(parts).measure_point(point) == 0.75
    assert CostTable(parts, "max").measure_point(point) == 0.5
    assert CostTable(parts).measure_point(np.array([1, 2], dtype=np.int32)) == math.inf

"""Spaces as files: TOML, YAML, JSON and plain dictionaries, there and back."""

import datetime
import json
import tomllib

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from ironrule.errors import ConstraintError, InputError, SpaceError
from ironrule.space.feature import Feature
from ironrule.space.files import to_toml
from ironrule.space.space import Space

TOML = """
constraints = ["cf.age >= 19"]

[features.age]
grid = { start = 18, stop = 20 }
unit = "years"

[features."highest education"]
kind = "ordered"
values = ["school", "university"]
missing = true
label = "Highest education"

[features.job]
columns = ["job_clerk", "job_cook"]

[features.income]

[features.since]
values = [2024-01-01, 2024-03-01]
"""
TABLE = pd.DataFrame({"job_clerk": [1, 0], "job_cook": [0, 1], "income": [2.5, None]})
DECLARED = Space(
    (
        Feature("age", (18, 19, 20), ordered=True, unit="years"),
        Feature("highest education", ("school", "university"), True, True, label="Highest education"),
        Feature("job", ("clerk", "cook"), ordered=False, columns=("job_clerk", "job_cook")),
        Feature("income", (2.5,), ordered=True, missing=True),
        Feature("since", (datetime.date(2024, 1, 1), datetime.date(2024, 3, 1)), ordered=True),
    ),
    ("cf.age >= 19",),
)


def written(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_space_is_read_from_toml_yaml_and_json(tmp_path):
    document = tomllib.loads(TOML)
    plain = json.loads(json.dumps(document, default=lambda day: {"date": day.isoformat()}))
    for name, text in (
        ("s.toml", TOML),
        ("s.yaml", yaml.safe_dump(document)),
        ("s.YML", yaml.safe_dump(document)),
        ("s.json", json.dumps(plain)),
    ):
        space = Space.from_file(written(tmp_path, name, text), TABLE)
        assert sorted(space.features, key=lambda f: f.name) == sorted(DECLARED.features, key=lambda f: f.name)
        assert space.constraints == DECLARED.constraints


def test_a_dictionary_declares_a_space_and_comes_back():
    assert Space.from_dict(tomllib.loads(TOML), TABLE) == DECLARED
    assert Space.from_dict(json.loads(json.dumps(DECLARED.to_dict()))) == DECLARED


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
DOMAINS = st.one_of(
    st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30, unique=True),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=30, unique=True),
    st.lists(st.dates(), min_size=1, max_size=30, unique=True),
    st.lists(st.datetimes(), min_size=1, max_size=30, unique=True),
    st.just([False, True]),
)


@st.composite
def spaces(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    entries = [(draw(DOMAINS), draw(st.booleans()), draw(st.booleans()), draw(st.none() | NAMES)) for _ in names]
    return Space(
        tuple(
            Feature(name, tuple(values), ordered, missing, label=label)
            for name, (values, ordered, missing, label) in zip(names, entries, strict=True)
        )
    )


@given(spaces())
@settings(max_examples=150, deadline=None)
def test_any_space_survives_json_and_toml(space):
    assert Space.from_dict(json.loads(json.dumps(space.to_dict()))) == space
    again = Space.from_dict(tomllib.loads(to_toml(space.to_dict(), {"features": {}})))
    assert again == space
    assert again.fingerprint == space.fingerprint


def test_long_domains_are_left_to_the_table_unless_they_have_an_order_of_their_own():
    words = tuple(f"w\n{place}" for place in range(30, 0, -1))
    table = pd.DataFrame({"n": range(30), "t": words, "o": words, "h_a": [0, 1] * 15, "h_b": [1, 0] * 15})
    space = Space.infer(table, ordered={"o": words})
    text = to_toml(space.to_dict(), Space.infer(table).to_dict())
    assert "# 30 values from 0 to 29, as in the table" in text
    assert Space.from_dict(tomllib.loads(text), table) == space
    with pytest.raises(SpaceError, match=r"feature 'n' has neither 'values' nor a 'grid'; .* or give a table"):
        Space.from_dict(tomllib.loads(text))


def test_a_long_domain_that_the_table_does_not_show_is_written_out():
    table = pd.DataFrame({"n": range(30)})
    space = Space.infer(table, domains={"n": range(100)})
    text = to_toml(space.to_dict(), Space.infer(table).to_dict())
    assert Space.from_dict(tomllib.loads(text), table) == space


@pytest.mark.parametrize(
    ("grid", "values"),
    [
        ({"start": 1, "stop": 3}, (1, 2, 3)),
        ({"start": 0, "stop": 1, "step": 0.1}, (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
        ({"start": 0.1, "stop": 0.35, "step": 0.1}, (0.1, 0.2, 0.3)),
        ({"start": -1, "stop": 1, "step": 2}, (-1, 1)),
        ({"start": 5, "stop": 5}, (5,)),
    ],
)
def test_a_grid_has_the_numbers_that_a_person_expects(grid, values):
    feature = Space.from_dict({"features": {"f": {"grid": grid}}})["f"]
    assert (feature.values, feature.ordered) == (values, True)
    assert {type(value) for value in feature.values} == {int if 0.1 not in grid.values() else float}


@pytest.mark.parametrize(
    "grid",
    [
        {"start": 3, "stop": 1},
        {"start": 1, "stop": 3, "step": 0},
        {"start": 3, "stop": 1, "step": -1},
        {"start": 1},
        {"start": "a", "stop": "b"},
        {"start": 1, "stop": float("inf")},
        {"start": 0, "stop": 1, "step": 1e-9},
        {"start": float("nan"), "stop": 1},
        [1, 2],
        5,
    ],
    ids=str,
)
def test_a_grid_that_is_none_is_refused(grid):
    with pytest.raises(SpaceError, match="the grid of 'f' must"):
        Space.from_dict({"features": {"f": {"grid": grid}}})


def test_kinds_follow_from_the_values_unless_declared():
    entries = {
        "n": [3, 1, 2],
        "t": ["b", "a"],
        "f": [True, False],
        "d": [{"date": "2024-02-01"}, {"date": "2024-01-01"}],
    }
    space = Space.from_dict({"features": {name: {"values": values} for name, values in entries.items()}})
    assert [feature.ordered for feature in space.features] == [True, False, False, True]
    assert space["n"].values == (1, 2, 3)
    assert space["t"].values == ("b", "a")
    declared = Space.from_dict({"features": {"n": {"values": [3, 1, 2], "kind": "ordered"}}})
    assert declared["n"].values == (3, 1, 2)


def test_missing_may_be_declared_while_the_values_come_from_the_table():
    feature = Space.from_dict({"features": {"a": {"missing": True}}}, pd.DataFrame({"a": [1, 2]}))["a"]
    assert (feature.values, feature.missing) == ((1, 2), True)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "'features' must be a non-empty mapping of names to features, got {}"),
        ({"features": {}}, "'features' must be a non-empty mapping of names to features, got {}"),
        ({"features": [1]}, r"'features' must be a non-empty mapping of names to features, got \[1\]"),
        (
            {"features": {"a": {"values": [1, 2]}}, "constraint": []},
            "only have the keys 'features', 'constraints' and 'labels', got 'constraint'",
        ),
        ({"features": {"a": 5}}, "feature 'a' may only have .* got 5"),
        ({"features": {"a": {"value": [1]}}}, "feature 'a' may only have columns, direction, grid, .* got {'value': "),
        ({"features": {"a": {"values": [1], "kind": "numeric"}}}, "kind 'ordered' or 'nominal'"),
        ({"features": {"a": {"values": "abc"}}}, "'values' of feature 'a' must be a list, got 'abc'"),
        ({"features": {"a": {"values": [1], "missing": "yes"}}}, "'missing' of feature 'a' must be true or false"),
        ({"features": {"a": {"values": [1], "columns": "b"}}}, "'columns' of feature 'a' must be a list"),
        ({"features": {"a": {"values": [1, 1]}}}, "distinct"),
        ({"features": {"a": {"values": [None, 1]}}}, "missing=True"),
        ({"features": {"a": {"values": [[1], [2]]}}}, "single values"),
        ({"features": {"a": {"values": []}}}, "at least one value"),
        ({"features": {"a": {}}}, "'a' has neither 'values' nor a 'grid'"),
        ({"features": {"a": {"values": [1, 2]}}, "constraints": "cf.a >= 1"}, "'constraints' must be a list"),
    ],
    ids=str,
)
def test_a_malformed_document_is_refused(document, message):
    with pytest.raises(SpaceError, match=message):
        Space.from_dict(document)


def test_a_broken_constraint_in_a_document_is_pointed_at():
    with pytest.raises(ConstraintError, match="column 6"):
        Space.from_dict({"features": {"a": {"values": [1, 2]}}, "constraints": ["cf.a =! 1"]})


def test_an_order_that_the_table_cannot_tell_must_be_listed():
    table = pd.DataFrame({"a": ["x", "y"]})
    with pytest.raises(SpaceError, match=r"feature 'a' has no natural order: .*; list its 'values' in order"):
        Space.from_dict({"features": {"a": {"kind": "ordered"}}}, table)
    with pytest.raises(SpaceError, match="column 'b' of feature 'b' not found in the table"):
        Space.from_dict({"features": {"b": {}}}, table)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.toml", "[features", "s.toml is not well-formed TOML: "),
        ("s.json", "{", "s.json is not well-formed JSON: "),
        ("s.yaml", "a: [", "s.yaml is not well-formed YAML: "),
        ("s.json", "[1]", "s.json must hold a mapping with 'features', got list"),
        ("s.txt", "", "must end in .toml, .yaml or .json, got '.txt'"),
        ("s", "", "got no extension"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message):
        Space.from_file(written(tmp_path, name, text))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SpaceError, match=r"space file not found: '.*none.toml'"):
        Space.from_file(tmp_path / "none.toml")

"""The checker's own constraint language: the same meaning as the one that spaces are declared in."""

from __future__ import annotations

import doctest
import sys
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from ironrule.checker.space import constraints
from ironrule.checker.space.constraints import MAX_CHARACTERS, MAX_NESTING, parse_constraint
from ironrule.checker.space.space import CheckerFeature, CheckerSpace
from ironrule.errors import ConstraintError, InputError
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint as parse_explainer_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space

SCHOOLS = ("primary", "bachelor", "master")
DAYS = (date(2024, 1, 31), date(2024, 2, 29), date(9999, 12, 31))
MOMENTS = (datetime(2024, 2, 29), datetime(2024, 2, 29, 12))
ZONED = (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC))

# name: possible domains, possible orders
KINDS = {
    "age": ([(20, 30, 40), (-1, 0, 0.5, 2), (2**53, 2**53 + 1), (30,)], [True]),
    "income": ([(0, 0.5, 1000), (1.5, 30.0), (1000, 0, 2)], [True]),
    "job": ([("cook", "clerk"), ("clerk", "cook"), ("cook", 1), (True, "cook")], [False]),
    "school": ([SCHOOLS, SCHOOLS[::-1], SCHOOLS[:2]], [True, False]),
    "partner's school": ([SCHOOLS], [True]),
    "flag": ([(False, True)], [False]),
    "since": ([DAYS, DAYS[:2], MOMENTS, ZONED], [True]),
    "at": ([MOMENTS, (*DAYS[:1], *MOMENTS)], [True, False]),
    "zip": ([(8001, 8002)], [False]),
    "a.b": ([(1, 2, 3)], [True]),
    "empty": ([()], [False, True]),
}


@st.composite
def spaces(draw):
    """The features' descriptions, and some points."""
    features = []
    for name, (domains, orders) in KINDS.items():
        values = draw(st.sampled_from(domains))
        features.append((name, values, draw(st.sampled_from(orders)), draw(st.booleans()) or not values))
    rows = st.tuples(*(st.integers(0, len(values) + missing - 1) for _, values, _, missing in features))
    return features, np.array(draw(st.lists(rows, min_size=1, max_size=10)), dtype=np.int32)


NUMBERS = ["0", "1", "-1", "0.5", "2", "30", "1_000", "1e3", "8001", "9007199254740993", "1e308", "007"]
REFERENCES = {
    "number": ["cf.age", "cf.income", "cf.zip", "cf.a.b", 'cf["a.b"]', "cf.'a'.b", "(cf.age)", "cf.empty"],
    "category": ["cf.job", "cf.school", 'cf["partner\'s school"]', "cf.'partner\\'s school'", "cf.flag"],
    "date": ["cf.since", "cf.at"],
}
LITERALS = {
    "number": NUMBERS,
    "category": ["'cook'", '"clerk"', "'primary'", "'master'", "true", "false", "1", "'none'"],
    "date": ["'2024-02-29'", "'2024-02-29T12:00'", "'1999-01-01'", "'20240131'", "'soon'", "'2024-01-01T01:00+01:00'"],
}
RELATIONS = ["==", "!=", "<", "<=", ">", ">="]


def sums():
    def larger(smaller):
        pair = st.tuples(smaller, st.sampled_from("+-*/"), smaller).map(" ".join)
        return pair | pair.map("({})".format) | smaller.map("-{}".format)

    return st.recursive(st.sampled_from(REFERENCES["number"] + NUMBERS), larger, max_leaves=4)


def sides(kind):
    plain = st.sampled_from(REFERENCES[kind]) | st.sampled_from(LITERALS[kind] + ["missing"])
    return plain | sums() if kind == "number" else plain


@st.composite
def comparisons(draw):
    kind = draw(st.sampled_from(["number", "number", "category", "date"]))
    other_kind = draw(st.sampled_from([kind] * 12 + ["number", "category", "date"]))
    left, right = draw(sides(kind)), draw(sides(other_kind))
    form = draw(st.sampled_from(["pair"] * 4 + ["chain", "in", "not in"]))
    relation = draw(st.sampled_from(RELATIONS))
    if form == "pair":
        return f"{left} {relation} {right}"
    if form == "chain":
        return f"{left} {relation} {right} {draw(st.sampled_from(RELATIONS))} {draw(sides(kind))}"
    items = [right, *draw(st.lists(sides(kind), max_size=2))]
    return f"{left} {form} ({', '.join(items)}{draw(st.sampled_from(['', ',']))})"


def formulas():
    def larger(smaller):
        def join(word):
            return st.tuples(smaller, smaller).map(f" {word} ".join)

        implied = st.tuples(smaller, smaller).map(lambda pair: "(if {} then {})".format(*pair))
        return join("and") | join("or") | smaller.map("not {}".format) | smaller.map("({})".format) | implied

    return st.recursive(comparisons(), larger, max_leaves=5)


def judge(make, features, text, points):
    """Where a constraint holds, or that it is refused."""
    try:
        return make(features, text)(points).tolist()
    except ConstraintError:
        return "refused"


def ours(features, text):
    return CheckerSpace(tuple(CheckerFeature(*feature) for feature in features), (text,)).admits


def theirs(features, text):
    built = [Feature(*feature) for feature in features]
    return bind_constraint(parse_explainer_constraint(text), built)


@settings(max_examples=500, deadline=None)
@given(spaces(), formulas())
@example(([("age", (1,), True, True), ("income", (1,), True, True)], np.ones((1, 2), np.int32)), "cf.age != cf.income")
@example(([("age", (1,), True, True), ("income", (1,), True, True)], np.ones((1, 2), np.int32)), "cf.age >= cf.income")
def test_random_constraints_mean_the_same(situation, text):
    features, points = situation
    assert judge(ours, features, text, points) == judge(theirs, features, text, points)


@pytest.mark.parametrize(
    "text",
    [
        "cf.age / cf.income > 1",
        "cf.age / cf.income != 1",
        "-1 / (cf.age - 30) <= 0",
        "1 / 0 == 1 or cf.age == 20",
        "0 * cf.income == 0",
        "1e308 * 10 * cf.age > 1e308",
        "cf.income - cf.income == 0",
        "cf.flag == 1",
        "cf.flag == true",
        "cf.age == true",
        "cf.job in ('cook', missing)",
        "cf.job not in ('cook', missing)",
        "missing != cf.income",
        "cf.income <= cf.income",
        "cf.income < cf.income",
        "-cf.income == -cf.income",
        "cf.since <= cf.at",
        "cf.since > '2024-01-31' and cf.since != missing",
        "cf.school <= cf['partner's school']",
        "18 <= cf.age < 40 != cf.income",
        "if cf.school > 'primary' then cf.age + 4 >= 30",
        "cf.age - 10 - 10 == 0 and 16 / 4 / 2 == 2 and 2 - -3 == 5",
        "cf.zip in (8001, 1234)",
        "cf.zip > 8001",
        "not cf.zip + 1 > 8002",
    ],
)
def test_particular_constraints_mean_the_same(text):
    rng = np.random.default_rng(1)
    for missing in (False, True):
        features = [
            (name, domains[0], orders[0], missing or not domains[0]) for name, (domains, orders) in KINDS.items()
        ]
        sizes = [len(values) + has_missing for _, values, _, has_missing in features]
        points = rng.integers(0, sizes, size=(200, len(sizes)), dtype=np.int32)
        assert judge(ours, features, text, points) == judge(theirs, features, text, points)


def test_true_is_not_one():
    features = [("a", (1, "yes"), False, False), ("b", (True, "yes"), False, False)]
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    for text, expected in (("cf.a == cf.b", [False, False, False, True]), ("cf.b == 1", "refused")):
        assert judge(ours, features, text, points) == judge(theirs, features, text, points) == expected


@settings(max_examples=60, deadline=None)
@given(spaces(), st.lists(formulas(), min_size=1, max_size=3))
def test_a_space_admits_the_same_points(situation, texts):
    features, points = situation
    try:
        whole = Space(tuple(Feature(*one) for one in features), tuple(texts))
    except InputError:
        return  # refused, or nothing satisfies them
    mine = CheckerSpace(tuple(CheckerFeature(*one) for one in features), tuple(texts))
    assert mine.admits(points).tolist() == whole.feasible.admits(points).tolist()
    assert mine.fingerprint == whole.fingerprint
    assert [one.columns for one in mine.predicates] == [one.columns for one in whole.feasible.predicates]


PIECES = ["cf", "x", ".age", "12", "'a'", '"', "\\", "\n", " ", "=", "!", "_", *"<>()[],+-*/", "==", "and", "not", "in"]
PIECES += ["if", "then", "or", "cf.age", "1e5", "missing", "1.5", "true", "é", "\u0663", "0x"]


def accepted(parse, text):
    try:
        read = parse(text)
    except ConstraintError:
        return None
    return read.features, read.mentions_instance


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.lists(st.sampled_from(PIECES)).map(" ".join) | st.text())
def test_the_same_texts_are_constraints(text):
    assert accepted(parse_constraint, text) == accepted(parse_explainer_constraint, text)


@settings(max_examples=200, deadline=None)
@given(formulas(), st.data())
def test_the_same_damaged_texts_are_constraints(text, data):
    place = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.sampled_from([*PIECES, ""]))
    damaged = text[:place] + piece + text[place + data.draw(st.integers(0, 3)) :]
    assert accepted(parse_constraint, damaged) == accepted(parse_explainer_constraint, damaged)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000 + "cf.a == 1" + ")" * 100_000,
        "not " * 100_000 + "cf.a == 1",
        "-" * 100_000 + "cf.a == 1",
        "if cf.a == 1 then " * 50_000 + "cf.a == 1",
        "(" * 100_000,
        "cf.a == 1" + " and cf.a == 1" * MAX_CHARACTERS,
        "cf.a == 1" + "0" * 5000,
        "cf.a == '" + "\\" * 10_000,
        "cf" + ".a" * 400_000 + "!",
    ],
    ids=["parentheses", "not", "minus", "if", "open", "long", "digits", "escapes", "name"],
)
def test_hostile_texts_are_refused(text):
    with pytest.raises(ConstraintError) as caught:
        parse_constraint(text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("wrap", ["({})", "not {}", "(not {})", "(if 1 < 2 then {})"])
def test_nesting_has_the_same_limit(wrap):
    for depth in range(MAX_NESTING + 3):
        text = "cf.a == 1"
        for _ in range(depth):
            text = wrap.format(text)
        assert accepted(parse_constraint, text) == accepted(parse_explainer_constraint, text)


def test_long_constraints_are_no_problem():
    space = CheckerSpace((CheckerFeature("age", (30,), True),))
    point = np.zeros((1, 1), dtype=np.int32)
    for text in (
        "cf.age == 30" + " + 1 - 1" * 5000,
        " and ".join(["cf.age == 30"] * 5000),
        f"cf.age in ({', '.join(map(str, range(5000)))})",
        "0 < " + " < ".join(map(str, range(1, 2000))),
        "cf.age == " + "0" * 5000 + "30",
    ):
        assert parse_constraint(text).bind(space)(point).tolist() == [True], text[:40]


def test_a_constraint_that_names_the_instance_says_so_and_is_not_bound():
    constraint = parse_constraint("if cf.age > x.age then cf.job == 'cook'")
    assert constraint.mentions_instance
    assert constraint.features == {"age", "job"}
    with pytest.raises(ConstraintError, match=r"must be about cf alone, got x in"):
        CheckerSpace((CheckerFeature("age", (1, 2), True), CheckerFeature("job", ("cook",), False)), (constraint.text,))


@pytest.mark.parametrize("text", [None, 3, b"cf.a == 1", ["cf.a == 1"]])
def test_only_text_is_parsed(text):
    with pytest.raises(ConstraintError, match="must be a string of at most 100,000 characters, got"):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cf.age = 3", r"expected a word, .* or an operator, got `=` \(character 8, in"),
        ("cf.agee > 3", r"expected a feature of the space \(age\), got 'agee' \(character 1,"),
        ("cf.age > 'old'", "expected a number or a numeric feature, .* got 'old'"),
        ("cf.age > missing", "missing must be compared with a feature, .* got something else"),
        ("cf.age", "expected a condition, got a value"),
        ("cf.age > 3 cf.age", "or the end of the constraint, got `cf`"),
        ("cf.age >", "expected a value, got the end"),
        ("cf.age == '\\x'", r"escapes in a string .*, got `'\\x'`"),
    ],
)
def test_an_error_says_what_is_expected_and_where(text, message):
    with pytest.raises(ConstraintError, match=message):
        CheckerSpace((CheckerFeature("age", (1, 2), True),), (text,))


def test_the_stack_does_not_limit_what_may_be_nested():
    text = "(" * MAX_NESTING + "cf.age == 1" + ")" * MAX_NESTING
    assert sys.getrecursionlimit() >= 1000
    assert CheckerSpace((CheckerFeature("age", (1, 2), True),), (text,)).admits(np.array([[0], [1]])).tolist() == [
        True,
        False,
    ]


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(constraints).failed == 0

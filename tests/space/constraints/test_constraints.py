"""The constraint language: what it accepts, what it means, and how it says no."""

import doctest
import pickle
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.errors import ConstraintError
from ironrule.space import constraints
from ironrule.space.constraints import binding, parser, syntax
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.constraints.syntax import (
    Arithmetic,
    Comparison,
    Conjunction,
    Disjunction,
    Implication,
    Literal,
    Membership,
    Negation,
    Operation,
    Reference,
    Relation,
    Subject,
    UnaryMinus,
)
from ironrule.space.feature import Feature
from ironrule.space.space import Space

SCHOOL = ("primary", "bachelor", "master")
DAYS = (date(2024, 1, 31), date(2024, 2, 29), date(9999, 12, 31))
FEATURES = (
    Feature("age", (20, 30, 40), ordered=True),
    Feature("income", (0, 0.5, 1000), ordered=True, missing=True),
    Feature("job", ("skilled", "unskilled"), ordered=False, missing=True),
    Feature("education", SCHOOL, ordered=True, missing=True),
    Feature("partner's school", SCHOOL, ordered=True),
    Feature("flag", (False, True), ordered=False),
    Feature("since", DAYS, ordered=True, missing=True),
    Feature("zip", (8001, 8002), ordered=False),
)
INDEX = {feature.name: index for index, feature in enumerate(FEATURES)}
START = {"age": 30, "income": 0.5, "job": "skilled", "education": "bachelor", "flag": True, "since": DAYS[1]}


def codes(**values):
    """A row of codes: the starting values, with some replaced; None is missing."""
    values = {**START, "partner's school": "master", "zip": 8001, **values}
    return np.array([feature.code(values[feature.name]) for feature in FEATURES])


def holds(text, instance=None, **point):
    instance = codes(**(instance or {}))
    return bool(bind_constraint(parse_constraint(text), FEATURES)(codes(**point)[None, :], instance)[0])


def refusal(text, features=FEATURES):
    with pytest.raises(ConstraintError) as caught:
        bind_constraint(parse_constraint(text), features)
    return str(caught.value)


def pointed_at(message):
    """The rest of the shown line from where the caret points."""
    shown, caret = message.split("\n")[-2:]
    return shown[caret.index("^") :]


# What it means.


@pytest.mark.parametrize(
    ("text", "point", "expected"),
    [
        ("cf.age >= x.age", {"age": 30}, True),
        ("cf.age >= x.age", {"age": 20}, False),
        ("cf.income <= 1_000_000", {"income": 1000}, True),
        ("cf.income <= 0.5e0", {"income": 1000}, False),
        ("if cf.education > x.education then cf.age >= x.age + 4", {"education": "master", "age": 30}, False),
        ("if cf.education > x.education then cf.age >= x.age + 4", {"education": "master", "age": 40}, True),
        ("if cf.education > x.education then cf.age >= x.age + 4", {"education": "primary", "age": 20}, True),
        ('cf.job in ("skilled", "unskilled")', {}, True),
        ("cf.job not in ('unskilled',)", {}, True),
        ("18 <= cf.age < 40", {"age": 40}, False),
        ("18 <= cf.age < 40", {"age": 20}, True),
        ("cf.income + 2 * cf.age <= 0.5 * 121", {}, True),
        ("-cf.age < -x.age", {"age": 40}, True),
        ('cf.education >= "bachelor"', {"education": "primary"}, False),
        ('"bachelor" <= cf.education', {"education": "master"}, True),
        ("""cf.education <= cf["partner's school"]""", {"education": "master"}, True),
        ("""cf.education == x.'partner\\'s school'""", {"education": "bachelor"}, False),
        ("cf.flag == true", {}, True),
        ("cf.flag != false", {"flag": False}, False),
        ('cf.since > "2024-01-31"', {}, True),
        ('cf.since >= "2024-02-29T00:00:01"', {}, False),
        ('cf.since == "2024-02-29"', {}, True),
        ("cf.since > x.since", {"since": DAYS[2]}, True),
        ("cf.zip in (8001, 1234)", {}, True),
        ("not cf.zip + 1 == 8002", {}, False),
        ("(cf.age)== ( (30) )", {}, True),
        ("1 < 2", {}, True),
        ("x.age > 30", {}, False),
    ],
)
def test_a_constraint_means_what_it_says(text, point, expected):
    assert holds(text, **point) is expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cf.a == 1 or cf.b == 1 and cf.c == 1", "cf.a == 1 or (cf.b == 1 and cf.c == 1)"),
        ("not cf.a == 1 and cf.b == 1", "(not (cf.a == 1)) and cf.b == 1"),
        ("if cf.a == 1 or cf.b == 1 then cf.c == 1 or cf.d == 1", "if (cf.a==1 or cf.b==1) then (cf.c==1 or cf.d==1)"),
        ("if cf.a == 1 then if cf.b == 1 then cf.c == 1", "if cf.a == 1 then (if cf.b == 1 then cf.c == 1)"),
        ("1 - 2 - 3 * 4 / 5 < cf.a", "(1 - 2 - (3 * 4 / 5)) < cf.a"),
        ("-cf.a * 2 < 1", "(-cf.a) * 2 < 1"),
        ("1 < cf.a < 3", "1 < cf.a and cf.a < 3"),
        ("not cf.a in (1, 2)", "cf.a not in (1, 2)"),
        ("cf.a == - - 1", "cf.a == 1"),
        ("cf . a\n==\t1", "cf.a == 1"),
    ],
)
def test_operators_bind_as_in_school(text, same):
    assert parse_constraint(text).formula == parse_constraint(same).formula


def test_subtraction_goes_from_the_left():
    assert holds("10 - 3 - 2 == 5 and 16 / 4 / 2 == 2 and 2 - -3 == 5")


@pytest.mark.parametrize("relation", ["==", "<", "<=", ">", ">="])
@pytest.mark.parametrize("name", ["income", "education", "since"])
def test_a_comparison_with_a_missing_value_is_false(name, relation):
    text = f"cf.{name} {relation} x.{name}"
    assert not holds(text, **{name: None})
    assert not holds(text, instance={name: None})


@pytest.mark.parametrize(
    ("relation", "expected"), [("==", True), ("<=", True), (">=", True), ("<", False), ("!=", False)]
)
@pytest.mark.parametrize("name", ["income", "education", "since"])
def test_two_features_that_are_both_missing_are_equal(name, relation, expected):
    assert holds(f"cf.{name} {relation} x.{name}", instance={name: None}, **{name: None}) is expected


def test_different_is_exactly_not_equal_for_missing_values_too():
    assert holds("cf.job != x.job", job=None)
    assert holds("cf.job not in ('skilled', 'unskilled')", job=None)
    assert holds("cf.income + 1 != 1", income=None)


def test_missing_can_be_asked_for():
    assert holds("cf.income == missing", income=None)
    assert not holds("cf.income == missing")
    assert holds("missing != cf.income")
    assert holds("cf.job in ('unskilled', missing)", job=None)
    assert holds("x.job == missing and cf.job != missing", instance={"job": None})
    assert not holds("cf.age == missing")


def test_arithmetic_with_a_missing_value_compares_as_false():
    assert not holds("cf.income + cf.age >= 0", income=None)
    assert not holds("0 * cf.income == 0", income=None)


def test_division_by_zero_compares_as_false():
    for relation in ("==", "<", "<=", ">", ">="):
        assert not holds(f"cf.age / cf.income {relation} 1", income=0)
        assert not holds(f"-1 / 0 {relation} 1")
    assert holds("cf.age / cf.income != 1", income=0)


def test_overflow_and_infinite_values_give_no_warning():
    assert holds("1e308 * 10 * cf.age > 1e308")
    infinite = Feature("rate", (1.0, float("inf")), ordered=True)
    assert bind_constraint(parse_constraint("cf.rate - cf.rate == 0"), [infinite])(np.array([[0], [1]])).tolist() == [
        True,
        False,
    ]


def test_true_is_not_one():
    assert "one of False, True" in refusal("cf.flag == 1")
    assert "expected a number, got `true`" in refusal("cf.age == true")
    mixed = Feature("answer", (1, "yes", "no"), ordered=False)
    assert bind_constraint(parse_constraint("cf.answer == 1"), [mixed])(np.array([[0], [1]])).tolist() == [True, False]


def test_numpy_and_zoned_dates_compare_by_value():
    days = tuple(np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"))
    features = [Feature("day", days, ordered=True), FEATURES[INDEX["since"]]]
    later = bind_constraint(parse_constraint("cf.day < cf.since and cf.day > '2024-01-01'"), features)
    assert later(np.array([[0, 0], [1, 0], [1, 3]])).tolist() == [False, True, False]
    zoned = Feature("at", (datetime(2024, 1, 1, tzinfo=UTC),), ordered=True)
    assert bind_constraint(parse_constraint("cf.at == '2024-01-01T01:00+01:00'"), [zoned])(np.array([[0]])).all()
    assert "time zone" in refusal("cf.at > '2024-01-01'", [zoned])


# What a constraint knows of itself.


def test_a_constraint_knows_what_it_speaks_of():
    constraint = parse_constraint("if cf.a > x.b then cf.c == 1")
    assert str(constraint) == constraint.text
    assert constraint.features == {"a", "c"}
    assert constraint.instance_features == {"b"}
    assert constraint.mentions_instance
    assert constraint.implication == (parse_constraint("cf.a > x.b").formula, parse_constraint("cf.c == 1").formula)
    assert parse_constraint("cf.a > 1").implication is None
    assert not parse_constraint("cf.a > 1").mentions_instance


def test_constraints_are_equal_if_text_and_formula_are():
    assert parse_constraint("cf.a == 1") == parse_constraint("cf.a == 1")
    assert len({parse_constraint("cf.a == 1"), parse_constraint("cf.a == 1"), parse_constraint("cf.a==1")}) == 2


def test_a_predicate_knows_its_columns():
    bound = bind_constraint(parse_constraint("if cf.education > x.education then cf.age > 1"), FEATURES)
    assert bound.columns == (0, 3)
    assert bound.consequence_columns == (0,)
    assert bind_constraint(parse_constraint("cf.since == x.since and cf.age > 1"), FEATURES).consequence_columns == (
        0,
        6,
    )
    assert bind_constraint(parse_constraint("x.age > 1"), FEATURES).columns == ()


def test_truth_per_code_is_given_for_one_feature_only():
    bound = bind_constraint(parse_constraint("cf.income >= x.age / 60"), FEATURES)
    assert bound.holds_per_code(INDEX["income"], codes()).tolist() == [False, True, True, False]
    with pytest.raises(ConstraintError, match="exactly that feature"):
        bound.holds_per_code(0, codes())


def test_a_predicate_survives_pickling():
    bound = bind_constraint(parse_constraint('if cf.job == "skilled" then cf.since in (x.since, missing)'), FEATURES)
    again = pickle.loads(pickle.dumps(bound))
    points = np.array([codes(job=job, since=day) for job in ("skilled", None) for day in (*DAYS, None)])
    assert again == bound
    assert again(points, codes()).tolist() == bound(points, codes()).tolist()


def test_every_integer_type_and_no_points_at_all_will_do():
    bound = bind_constraint(parse_constraint("cf.age > 20 or cf.zip == 8001"), FEATURES)
    for kind in (np.uint8, np.int16, np.int64):
        assert bound(np.zeros((3, len(FEATURES)), dtype=kind)).tolist() == [True] * 3
    assert bound(np.zeros((0, len(FEATURES)), dtype=int)).shape == (0,)
    assert (
        bind_constraint(parse_constraint("1 > 2"), FEATURES)(np.zeros((2, len(FEATURES)), dtype=int)).tolist()
        == [False] * 2
    )


def test_codes_that_do_not_fit_are_refused():
    bound = bind_constraint(parse_constraint("cf.age > x.age"), FEATURES)
    points = codes()[None, :]
    with pytest.raises(ConstraintError, match=r"`cf.age > x.age` refers to x and needs an instance, got None"):
        bound(points, None)
    with pytest.raises(ConstraintError, match="8 per row"):
        bound(points[:, :2], codes())
    with pytest.raises(ConstraintError, match="float64"):
        bound(points.astype(float), codes())
    with pytest.raises(ConstraintError, match="the instance must be 1-dimensional"):
        bound(points, points)


# How it says no.


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("", "end of the text", ""),
        ("   ", "end of the text", "   "),
        ("cf.age >=", "end of the text", ""),
        ("cf.age", "expected a condition, got the value `cf.age`; compare it", "cf.age"),
        ("cf.age = 3", "equality must be written `==`", "= 3"),
        ("cf.age > 3 & cf.zip == 1", "must be written `and`", "& cf.zip == 1"),
        ("cf.age > ?", "words, numbers and operators, got '?'", "?"),
        ("cf.age > 12abc", "invalid number; write it like", "12abc"),
        ("cf.age > 1__0", "invalid number; write it like", "1__0"),
        ("cf.job == 'skilled", "unterminated string; close it with ' on the same line", "'skilled"),
        (r"cf.job == 'a\q'", "an escape must be", r"\q'"),
        ("cf.age > 3 cf.zip", "expected an operator", "cf.zip"),
        ("cf.age cf.zip", "expected an operator", "cf.zip"),
        ("cf.age > 3)", "expected an operator, `and`, `or` or the end of the constraint, got `)`", ")"),
        ("(cf.age > 3", "opened at column 1 must be closed", ""),
        ("cf.age in 3", "values in parentheses", "3"),
        ("cf.age in ()", "expected a value or a condition, got `)`", ")"),
        ("cf.age not 3", "must be followed by `in`", "3"),
        ("if cf.age > 3 or cf.age < 1", "and `then`", ""),
        (
            "cf.age > 3 and if cf.age > 1 then cf.age > 2",
            "expected a value or a condition, got `if`",
            "if cf.age > 1 then cf.age > 2",
        ),
        ("cf.age + (cf.age > 3) > 1", "expected a value, got a condition", "> 3) > 1"),
        ("cf.age and cf.age > 3", "expected a condition, got the value `cf.age`", "cf.age and cf.age > 3"),
        ("cf[age] > 3", "name in quotes", "age] > 3"),
        ("cf > 3", "followed by a feature's name", "> 3"),
        ("cf.education-num > 3", 'if the feature is called education-num, write cf["education-num"]', "num > 3"),
        ("cf.age == 1e999", "at most about 1.8e308", "1e999"),
        ("cf.age == 1" + "0" * 5000, "at most about 1.8e308", None),
        ("cf.age == 9007199254740993", "fit a 64-bit float", "9007199254740993"),
        ("cf.agee > 3", "did you mean cf.age?", "cf.agee > 3"),
        ("1 < x.Zip", "did you mean x.zip?", "x.Zip"),
        ("cf['partners school'] == 1", """did you mean cf["partner's school"]?""", "cf['partners school'] == 1"),
        ("cf.qqq > 3", "unknown feature 'qqq'; the features are age, income", "cf.qqq > 3"),
        (
            "cf.job < 'skilled'",
            "< needs an ordered feature, got 'job', which is nominal; use ==, != or in",
            "cf.job < 'skilled'",
        ),
        ("1 < cf.zip", "got 'zip', which is nominal", "cf.zip"),
        ("cf.job == 'clerk'", "one of 'skilled', 'unskilled' or missing", "'clerk'"),
        ("cf.job in ('skilled', 'clerk')", "one of 'skilled', 'unskilled'", "'clerk')"),
        ("cf.job == 3", "one of 'skilled', 'unskilled'", "3"),
        ("cf.age == 'old'", 'expected a number, got `"old"`', "'old'"),
        (
            "cf.age + cf.job > 3",
            "arithmetic needs numeric features, got 'job', which is one of 'skilled'",
            "cf.job > 3",
        ),
        ("-'a' > 3", 'expected a number, got `"a"`', "'a' > 3"),
        ("cf.job == cf.age", "same kind, got `cf.job`, a category, and `cf.age`, a number", "== cf.age"),
        ("cf.since == cf.age", "same kind, got `cf.since`, a date, and `cf.age`, a number", "== cf.age"),
        ("cf.since > 3", "2024-12-31", "3"),
        ("cf.since > 'yesterday'", "2024-12-31", "'yesterday'"),
        ("cf.age > missing", "can only be compared by == or !=, got >", "> missing"),
        ("cf.age + 1 == missing", "with a feature", "cf.age + 1 == missing"),
        ("cf.age + missing == 1", "expected a number, got `missing`", "missing == 1"),
        ("'a' == 'a'", "must be a feature", "== 'a'"),
    ],
)
def test_an_error_says_why_and_points_at_the_place(text, reason, place):
    message = refusal(text)
    assert reason in message
    assert place is None or pointed_at(message) == place


def test_an_error_names_the_column_and_shows_only_its_line():
    message = refusal("cf.age > 3\n\tand cf.agee < 5\nor cf.age == 1")
    assert "(line 2, column 6)" in message
    assert message.endswith("\n  \tand cf.agee < 5\n  \t    ^")
    assert "(column 10)" in refusal("cf.age > cf.agee")


def test_an_error_has_fields_and_survives_pickling():
    with pytest.raises(ConstraintError) as caught:
        bind_constraint(parse_constraint("cf.agee > 2"), FEATURES)
    error = caught.value
    assert (error.statement, error.hint) == ("unknown feature 'agee'", "did you mean cf.age?")
    assert (error.code, error.expected, error.got) == ("unknown-feature", None, None)
    assert str(error) == "unknown feature 'agee'; did you mean cf.age? (column 1)\n  cf.agee > 2\n  ^"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))
    with pytest.raises(ConstraintError) as caught:
        parse_constraint("cf.age = 2")
    assert (caught.value.expected, caught.value.got) == ("equality must be written `==`", "'='")


def test_a_long_line_is_cut_around_the_place():
    message = refusal("cf.age > 1 and " * 500 + "cf.agee > 2" + " and cf.age > 1" * 500)
    assert len(message) < 500
    assert pointed_at(message).startswith("cf.agee > 2 and")


def test_ordered_categories_compare_only_within_one_domain():
    other = Feature("other", ("primary", "master"), ordered=True)
    message = refusal("cf.education > cf.other", [*FEATURES, other])
    assert "same domain to be compared, got 'education' (one of " in message
    assert "and 'other' (one of 'primary', 'master')" in message
    assert pointed_at(message) == "> cf.other"
    equal = bind_constraint(parse_constraint("cf.education == cf.other"), [FEATURES[INDEX["education"]], other])
    assert equal(np.array([[0, 0], [2, 1], [1, 1]])).tolist() == [True, True, False]


def test_integers_that_floats_cannot_hold_are_refused():
    assert "2**53" in refusal("cf.id == 1", [Feature("id", (2**60, 2**60 + 1), ordered=True)])
    assert "2**53" in refusal("cf.id == 1", [Feature("id", (10**400,), ordered=True)])


def test_integers_that_floats_cannot_hold_are_compared_with_each_other():
    ids = Feature("id", (2**60, 2**60 + 1, 2**60 + 2), ordered=True, missing=True)
    rises = bind_constraint(parse_constraint("cf.id >= x.id"), [ids])
    assert rises(np.array([[0], [1], [2], [3]]), np.array([1])).tolist() == [False, True, True, False]
    other = Feature("other", (5, 2**60 + 1), ordered=True)
    equal = bind_constraint(parse_constraint("cf.id == cf.other"), [ids, other])
    assert equal(np.array([[0, 1], [1, 1], [2, 1], [3, 1]])).tolist() == [False, True, False, False]


def test_integers_of_more_digits_than_python_reads_are_no_problem():
    zeros = "0" * 5000
    assert (
        parse_constraint(f"cf.age == {zeros}20 or cf.age == {zeros}").formula
        == parse_constraint("cf.age == 20 or cf.age == 0").formula
    )
    huge = Feature("huge", (1, 10**5000), ordered=True)
    with pytest.raises(
        ConstraintError, match=r"fit a 64-bit float exactly.*`cf.huge`, which can be an integer of hundreds"
    ):
        bind_constraint(parse_constraint("cf.huge >= 3"), [huge])


def test_only_text_is_parsed():
    with pytest.raises(ConstraintError, match=r"must be a string such as .*, got None"):
        parse_constraint(None)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "cf.a == 1" + ")" * 5000,
        "not " * 5000 + "cf.a == 1",
        "-" * 5000 + "cf.a == 1",
        "if cf.a == 1 then " * 5000 + "cf.a == 1",
        "(" * 5000,
    ],
)
def test_deep_nesting_is_refused(text):
    with pytest.raises(ConstraintError, match=f"nested more than {parser.MAX_NESTING} levels deep"):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cf.age == 30" + " " * parser.MAX_CHARACTERS, "at most 100,000 characters, got 100,012"),
        (" and ".join(["cf.age == 30"] * 70_000), "at most 100,000 characters"),
        ("cf.age in (" + ",".join("1" * 30_000) + ")", "at most 50,000 words, numbers and operators"),
    ],
)
def test_long_constraints_are_refused(text, expected):
    with pytest.raises(ConstraintError, match=expected):
        parse_constraint(text)


def test_a_space_has_a_limit_of_constraints():
    allowed = ["cf.age > 18"] * parser.MAX_CONSTRAINTS
    assert parser.require_few(iter(allowed)) == allowed
    with pytest.raises(ConstraintError, match="at most 1,000 constraints, got more; join some"):
        Space((Feature("age", (20, 30), ordered=True),), constraints=(*allowed, "cf.age > 19"))


def test_nesting_is_allowed_to_the_limit():
    text = "(" * parser.MAX_NESTING + "cf.age == 30" + ")" * parser.MAX_NESTING
    assert holds(text)
    assert holds("not " * parser.MAX_NESTING + "cf.age == 30")


def test_long_constraints_are_no_problem():
    assert holds("cf.age == 30" + " + 1 - 1" * 5000)
    assert holds(" and ".join(["cf.age == 30"] * 5000))
    assert holds(f"cf.age in ({', '.join(map(str, range(5000)))})")
    assert holds("0 < " + " < ".join(map(str, range(1, 2000))))


@pytest.mark.parametrize(
    "name", ["credit amount", 'say "hi"', "back\\slash", "a.b", "in", "cf", "zwei\nzeilen", "größe"]
)
def test_every_name_can_be_written(name):
    reference = Reference(Subject.POINT, name)
    assert parse_constraint(f"{reference} == 1").features == {name}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cf.a.b == 1", "a.b"),
        ('cf."a b".c == 1', "a b.c"),
        ("cf['a\\tb'] == 1", "a\tb"),
        ("cf.missing == 1", "missing"),
    ],
)
def test_names_may_be_dotted_and_quoted(text, name):
    assert parse_constraint(text).features == {name}


PIECES = [
    "cf",
    "x",
    ".age",
    "12",
    "'a'",
    '"',
    "\\",
    "\n",
    " ",
    "=",
    "!",
    "_",
    *"<>()[],+-*/",
    "==",
    "and",
    "not",
    "in",
    "if",
    "then",
]


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.lists(st.sampled_from(PIECES)).map(" ".join) | st.text())
def test_any_text_is_parsed_or_refused(text):
    try:
        result = parse_constraint(text).text
    except ConstraintError as error:
        result = str(error)
    assert result == text or result.endswith("^")


# Against an evaluator that goes row by row and is too simple to be wrong.


def subjects():
    return st.sampled_from(Subject)


def steps(operations, terms):
    return st.lists(st.tuples(st.sampled_from(operations), terms), min_size=1, max_size=2).map(tuple)


def terms():
    numeric = st.builds(Reference, subjects(), st.sampled_from(["age", "income", "zip"]))
    numbers = st.builds(Literal, st.sampled_from([-1, 0, 0.5, 2, 30, 1000, 1e-7, 8001]))

    def larger(smaller):
        feature = smaller.filter(lambda term: not isinstance(term, Literal))  # the minus of a literal is a literal
        sums = steps([Operation.ADD, Operation.SUBTRACT], smaller)
        products = steps([Operation.MULTIPLY, Operation.DIVIDE], smaller)
        return st.builds(UnaryMinus, feature) | st.builds(Arithmetic, smaller, sums | products)

    return st.recursive(numeric | numbers, larger, max_leaves=4)


def side(name, literals):
    return st.builds(Reference, subjects(), st.sampled_from(name)) | st.builds(Literal, st.sampled_from(literals))


def comparisons():
    equality = st.sampled_from([Relation.EQUAL, Relation.DIFFERENT])
    school = side(["education", "partner's school"], [*SCHOOL])
    jobs = side(["job"], ["skilled", "unskilled"])
    flags = side(["flag"], [True, False])
    days = side(["since"], ["2024-02-29", "2024-02-29T12:00:00", "1999-01-01"])
    anything = st.builds(Reference, subjects(), st.sampled_from(list(INDEX)))
    return st.one_of(
        st.builds(Comparison, terms(), st.sampled_from(Relation), terms()),
        st.builds(Membership, terms(), st.lists(terms(), min_size=1, max_size=3).map(tuple)),
        st.builds(Comparison, school, st.sampled_from(Relation), school),
        st.builds(Comparison, jobs, equality, jobs),
        st.builds(Comparison, flags, equality, flags),
        st.builds(Comparison, days, st.sampled_from(Relation), days),
        st.builds(Comparison, anything, equality, st.just(Literal(None))),
    ).filter(is_meaningful)


def is_meaningful(node):
    """Whether it compares no literals other than numbers, and asks no order of a nominal feature."""
    if isinstance(node, Membership):
        return True
    sides = (node.left, node.right)
    nominal = any(isinstance(one, Reference) and not FEATURES[INDEX[one.name]].ordered for one in sides)
    literal = all(isinstance(one, Literal) and not one.is_number for one in sides)
    return not literal and not (nominal and node.relation.orders)


def formulas():
    def larger(smaller):
        parts = st.lists(smaller, min_size=2, max_size=3).map(tuple)
        return (
            st.builds(Negation, smaller)
            | st.builds(Conjunction, parts)
            | st.builds(Disjunction, parts)
            | st.builds(Implication, smaller, smaller)
        )

    return st.recursive(comparisons(), larger, max_leaves=5)


@st.composite
def spaces(draw):
    """The features above with other numbers, another order of the schools, fewer dates, and missing here and there."""
    numbers = st.sampled_from([-1, 0, 0.5, 2, 30, 1000, 8001])
    schools = tuple(draw(st.permutations(SCHOOL)))
    values = {"education": schools, "partner's school": schools}
    for name in ("age", "income", "zip"):
        values[name] = tuple(sorted(draw(st.sets(numbers, min_size=1, max_size=4))))
    values["since"] = tuple(sorted(draw(st.sets(st.sampled_from(DAYS), min_size=1))))
    return [
        replace(feature, values=values.get(feature.name, feature.values), missing=draw(st.booleans()))
        for feature in FEATURES
    ]


@st.composite
def situations(draw):
    """A space, some points of it, and an instance."""
    features = draw(spaces())
    rows = st.tuples(*(st.integers(0, feature.size - 1) for feature in features))
    return features, draw(st.lists(rows, min_size=1, max_size=8)), draw(rows)


def decoded(features, row):
    return {feature.name: feature.value(code) for feature, code in zip(features, row, strict=True)}


def plain_value(term, point, instance):
    match term:
        case Literal(value):
            return value
        case Reference(subject, name):
            return (point if subject is Subject.POINT else instance)[name]
        case UnaryMinus(operand):
            value = plain_value(operand, point, instance)
            return None if value is None else -value
        case Arithmetic(first, steps):
            value = plain_value(first, point, instance)
            for operation, step in steps:
                value = plain_step(value, operation, plain_value(step, point, instance))
            return value


def plain_step(left, operation, right):
    if left is None or right is None or (operation is Operation.DIVIDE and right == 0):
        return None
    left, right = float(left), float(right)
    match operation:
        case Operation.ADD:
            return left + right
        case Operation.SUBTRACT:
            return left - right
        case Operation.MULTIPLY:
            return left * right
        case Operation.DIVIDE:
            return left / right


def plain_comparison(left, relation, right, schools):
    if relation is Relation.DIFFERENT:
        return not plain_comparison(left, Relation.EQUAL, right, schools)
    if left is None or right is None:
        return False
    left, right = plain_rank(left, right, schools), plain_rank(right, left, schools)
    return {
        Relation.EQUAL: left == right,
        Relation.LESS: left < right,
        Relation.AT_MOST: left <= right,
        Relation.GREATER: left > right,
        Relation.AT_LEAST: left >= right,
    }[relation]


def plain_relation(left, relation, right, value, schools):
    both_missing = value(left) is None and value(right) is None
    if both_missing and isinstance(left, Reference) and isinstance(right, Reference):
        return relation in (Relation.EQUAL, Relation.AT_MOST, Relation.AT_LEAST)
    return plain_comparison(value(left), relation, value(right), schools)


def plain_rank(value, other, schools):
    """A school by its position, a date or a text that is compared with one as a moment."""
    if isinstance(value, str) and value in schools:
        return schools.index(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return datetime.fromisoformat(value) if isinstance(other, date) else value


def plain_truth(formula, point, instance, schools):
    def value(term):
        return plain_value(term, point, instance)

    def truth(part):
        return plain_truth(part, point, instance, schools)

    match formula:
        case Comparison(left, relation, Literal(None)):
            return (value(left) is None) == (relation is Relation.EQUAL)
        case Comparison(left, relation, right):
            return plain_relation(left, relation, right, value, schools)
        case Membership(term, items):
            return any(plain_relation(term, Relation.EQUAL, item, value, schools) for item in items)
        case Negation(operand):
            return not truth(operand)
        case Conjunction(parts):
            return all(map(truth, parts))
        case Disjunction(parts):
            return any(map(truth, parts))
        case Implication(condition, consequence):
            return truth(consequence) if truth(condition) else True


@settings(max_examples=400, deadline=None)
@given(formulas(), situations())
def test_a_predicate_agrees_with_going_row_by_row(formula, situation):
    features, points, instance = situation
    bound = bind_constraint(parse_constraint(str(formula)), features)
    schools = features[INDEX["education"]].values
    known = decoded(features, instance)
    expected = [plain_truth(formula, decoded(features, point), known, schools) for point in points]
    assert bound(np.array(points), np.array(instance)).tolist() == expected
    if len(bound.columns) == 1:
        index = bound.columns[0]
        per_code = bound.holds_per_code(index, np.array(instance))
        assert [per_code[point[index]] for point in points] == expected


@settings(deadline=None)
@given(formulas())
def test_a_formula_written_out_is_read_back_the_same(formula):
    again = parse_constraint(str(formula)).formula
    assert again == formula
    assert repr(again) == repr(formula)


# What is written about it.


def test_the_examples_in_the_documentation_run():
    page = (Path(__file__).parents[3] / "docs" / "constraints.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```pycon\n(.*?)```", page, flags=re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "constraints.md", None, 0)
    assert len(example.examples) > 5
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("module", [constraints, parser, binding, syntax])
def test_the_examples_in_the_docstrings_run(module):
    assert doctest.testmod(module).failed == 0

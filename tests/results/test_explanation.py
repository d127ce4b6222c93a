"""Explanations as values: equal after JSON, refused where malformed, readable everywhere."""

import copy
import dataclasses
import json
import pickle

import pytest

from applications import DENIED, decide, past, score, wide
from ironrule import Budget, Explainer, Explanation, InputError, Proven, Refuted, Unrefuted
from ironrule.search.algorithms import ALGORITHMS

LOW = {f"f{j}": 2 for j in range(8)}


@pytest.fixture(scope="module")
def explanations():
    """One explanation with every kind of verdict, dates and missing values among them."""
    loans, large = Explainer(decide, past(), desired="good"), Explainer(score, wide())
    found = {
        Proven: loans.explain(DENIED, k=3),
        Refuted: loans.explain(DENIED, forbid=["income", "grade"]),
        Unrefuted: large.explain(LOW),
        None: large.explain(LOW, budget=Budget(evaluations=20)),
    }
    assert all(isinstance(one.verdict, kind) for kind, one in found.items() if kind)
    return found


def test_explanations_survive_json(explanations):
    for explanation in explanations.values():
        again = Explanation.from_json(explanation.to_json())
        assert again == explanation
        assert again.to_dict() == explanation.to_dict()
        assert Explanation.from_json(explanation.to_json(indent=2)) == explanation
        assert dict(again.instance) == dict(explanation.instance)


def test_what_was_left_open_and_for_how_many_models_survives_json(explanations):
    rule = explanations[Proven].rule
    open_ = dataclasses.replace(explanations[Proven], undecided_components=(str(rule.components[-1]),), model_count=3)
    again = Explanation.from_json(open_.to_json())
    assert (again.undecided_components, again.model_count) == ((str(rule.components[-1]),), 3)
    assert again == open_ != explanations[Proven]
    assert "The rule must hold for all 3 models at once." in str(again)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_explanations_of_every_algorithm_survive_json(algorithm):
    explanation = Explainer(decide, past(), desired="good").explain(DENIED, algorithm)
    assert Explanation.from_json(explanation.to_json()) == explanation


def test_json_is_strict_and_dates_and_missing_are_plain(explanations):
    data = json.loads(explanations[Proven].to_json(), parse_constant=pytest.fail)
    assert data["instance"]["since"] == {"date": "2024-01-01"}
    assert data["instance"]["debt"] is None
    assert data["rules"][0]["verdict"]["kind"] == "proven"
    assert data["rules"][0]["rule"]["components"][0].keys() >= {"feature", "op", "value"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the explanation is not valid JSON: Expecting value"),
        ("{", "the explanation is not valid JSON: Expecting property name"),
        ("[]", "an explanation must be a JSON object, got list"),
        ("null", "an explanation must be a JSON object, got NoneType"),
        ("5", "an explanation must be a JSON object, got int"),
        ('"x"', "an explanation must be a JSON object, got str"),
        ("{}", "an explanation must have format 5, got None"),
        ('{"format": 7}', "an explanation must have format 5, got 7"),
        ('{"format": 4}', "an explanation must have format 5, got 4; explain the row again, or use the version of"),
        ('{"format": 5}', "an explanation must have at least one rule, got none"),
        ('{"format": 5, "rules": [1]}', "malformed explanation: KeyError"),
        (None, "the explanation is not valid JSON: .* not NoneType"),
        (5, "the explanation is not valid JSON: .* not int"),
    ],
)
def test_json_that_is_no_explanation_is_refused(text, message):
    with pytest.raises(InputError, match=message) as refused:
        Explanation.from_json(text)
    assert (refused.value.code == "wrong-format") == ("must have format" in message)


def test_an_explanation_that_was_modified_is_refused(explanations):
    document = explanations[Proven].to_dict() | {"history_rows": 1}
    with pytest.raises(InputError, match="digest mismatch: the document was modified after it was written") as refused:
        Explanation.from_dict(document)
    assert refused.value.code == "digest-mismatch"


@pytest.mark.parametrize(
    "path",
    [
        ("instance",), ("rules",), ("counterfactuals",), ("statistics",), ("history_rows",), ("space",),
        ("rules", 0, "rule"), ("rules", 0, "verdict"), ("rules", 0, "coverage"), ("rules", 0, "rule", "components"),
        ("rules", 0, "verdict", "kind"), ("rules", 0, "verdict", "certificate"), ("rules", 0, "rule", "outcome"),
        ("statistics", "seed"), ("counterfactuals", 0, "values"), ("counterfactuals", 0, "changes", 0, "after"),
    ],
    ids=str,
)  # fmt: skip
def test_a_field_that_is_missing_or_of_the_wrong_kind_is_refused(explanations, path):
    data = json.loads(explanations[Proven].to_json())
    *way, last = path
    parent = data
    for step in way:
        parent = parent[step]
    del parent[last]
    with pytest.raises(InputError):
        Explanation.from_dict(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("rules",), []),
        (("rules",), [5]),
        (("rules", 0, "verdict", "kind"), "true"),
        (("rules", 0, "rule", "components", 0, "op"), "<"),
        (("rules", 0, "rule", "components", 0), "age"),
        (("instance", "since"), {"date": "soon"}),
        (("instance",), [1]),
        (("statistics",), {"seed": 1}),
        (("statistics", "more"), 1),
    ],
    ids=str,
)
def test_a_field_that_makes_no_sense_is_refused(explanations, path, value):
    data = copy.deepcopy(explanations[Proven].to_dict())
    *way, last = path
    parent = data
    for step in way:
        parent = parent[step]
    parent[last] = value
    with pytest.raises(InputError):
        Explanation.from_dict(data)


def test_an_explanation_cannot_be_changed(explanations):
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanations[Proven].history_rows = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        explanations[Proven].rule.outcome = "good"


def test_ranks_and_verdicts_go_together(explanations):
    explanation = explanations[Proven]
    assert [ranked.rule for ranked in explanation.ranked] == list(explanation.rules)
    assert [ranked.verdict for ranked in explanation.ranked] == list(explanation.verdicts)
    assert explanation.verdict is explanation.verdicts[0]


def test_the_repr_names_rule_verdict_and_coverage(explanations):
    for kind, explanation in explanations.items():
        if kind:
            assert str(explanation.rule) in repr(explanation)
            assert f"{kind.__name__}, covers {explanation.coverage} of {explanation.history_rows} rows" in repr(
                explanation
            )


def test_evidence_about_a_rule_says_that_it_is_no_suggestion(explanations):
    for explanation in explanations.values():
        evidence = explanation.counterfactuals
        copies = (
            Explanation.from_json(explanation.to_json()).counterfactuals,
            pickle.loads(pickle.dumps(evidence)),
            explanation.with_labels({}).counterfactuals,
        )
        for one in (evidence, *copies):
            assert one == evidence
            assert "not suggestions to a person" in repr(one)
            assert "explanation.changes" in str(one).splitlines()[0]
            assert len(str(one).splitlines()) == 1 + len(one)

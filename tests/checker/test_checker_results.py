"""What a check says besides true or false: which decision it is about, who read the model, and what was drawn."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import MissingIndicator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, QuantileTransformer
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import ironrule
from ironrule import Bins, Checker, Explainer, InputError, Scorecard, check
from ironrule.checker.bounds.sum_bounds import SumBounds
from ironrule.checker.preprocessing import split_pipeline, tabulate_columns
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading
from ironrule.checker.readers.registry import identify_class, read_estimator
from ironrule.space.space import Space
from ironrule.verdict.digest import add_digest

GRID = np.array([[income, accounts] for income in range(6) for accounts in range(4)], dtype=np.float64)
TARGET = GRID[:, 0] - GRID[:, 1]


def regression() -> Any:
    return DecisionTreeRegressor(random_state=0).fit(GRID, TARGET)


def document_of(explanation: ironrule.Explanation) -> dict[str, Any]:
    return json.loads(explanation.to_json())


def altered(document: dict[str, Any], change: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    change(changed)
    return add_digest(changed)


def sentences(found: ironrule.Check) -> dict[str, str]:
    return {finding.claim: finding.sentence for finding in found.findings}


def test_the_decision_is_named_and_compared_with_what_the_caller_means() -> None:
    model = regression()
    explanation = Explainer(model, GRID, threshold=2.5).explain(1)
    assert explanation.rule.outcome == "a score of at most 2.5"
    meant = check(explanation, model, GRID, threshold=2.5)
    assert meant.status == "proven"
    assert sentences(meant)["decision"] == "desired is a score above 2.5, as the caller says"
    assert meant.strict
    other = check(explanation, model, GRID, threshold=2.0)
    assert other.status == "refuted"
    assert [failure.claim for failure in other.failures] == ["decision"]
    assert "the document's threshold is 2.5, got 2.0" in other.failures[0].sentence


def test_without_the_callers_word_the_output_says_that_nothing_was_compared() -> None:
    model = regression()
    found = check(Explainer(model, GRID, threshold=2.5).explain(1), model, GRID)
    assert found.status == "proven"
    assert not found.strict
    assert "not compared" in sentences(found)["decision"]
    assert "was taken from the document" in found.notes[0]
    assert found.notes[0] in str(found)
    assert found.to_dict()["notes"] == list(found.notes)


def test_a_document_that_moves_the_threshold_out_of_reach_is_not_about_the_callers_decision() -> None:
    """With a threshold of a million nobody is desired: every claim is true, of a decision that nobody asked about."""
    model = regression()
    document = document_of(Explainer(model, GRID, threshold=1e6).explain(1))
    assert document["rules"][0]["rule"] == {"components": [], "outcome": "a score of at most 1000000.0"}
    assert check(document, model, GRID).rule == "Everyone gets: a score of at most 1000000.0."
    assert check(document, model, GRID, threshold=2.5).status == "refuted"


def test_a_threshold_that_is_no_probability_decides_nothing() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    document = document_of(Explainer(model, GRID, desired=True, threshold=0.5).explain(1))
    found = check(altered(document, lambda d: d["decision"].update(threshold=1e6)), model, GRID)
    assert found.status == "undecided"
    assert "from 0 to 1" in found.findings[-1].sentence


def test_every_digit_of_a_threshold_is_shown() -> None:
    model = DecisionTreeClassifier(max_depth=1, random_state=0).fit(GRID, TARGET > 0)
    threshold = float(np.nextafter(model.predict_proba(GRID[:1])[0, 1], 1))
    explanation = Explainer(model, GRID, desired=True, threshold=threshold).explain(0)
    assert explanation.rule.outcome == f"at most {threshold!r} for True"
    assert float(explanation.rule.outcome.split()[2]) == threshold
    found = check(explanation, model, GRID, desired=True, threshold=threshold)
    assert found.status == "proven"
    assert repr(threshold) in sentences(found)["decision"]


@pytest.mark.parametrize("desired", [0, [0, 2], "1"])
def test_another_desired_class_is_noticed(desired: Any) -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, np.clip(TARGET, 0, 2).astype(int))
    explanation = Explainer(model, GRID, desired=[2]).explain(1)
    assert check(explanation, model, GRID, desired=2).status == "proven"
    found = check(explanation, model, GRID, desired=desired)
    assert [failure.claim for failure in found.failures] == ["decision"]


def scorecard() -> tuple[Scorecard, pd.DataFrame]:
    table = pd.DataFrame({"income": [0.0, 10.0, 20.0, 30.0] * 3, "accounts": [0.0, 1.0, 2.0] * 4})
    bins = (Bins("income", (15.0, 25.0), (0.0, 2.0, 4.0)), Bins("accounts", (1.5,), (1.0, -1.0)))
    return Scorecard(bins, cutoff=2.5), table


def test_a_borrowed_reading_is_told_everywhere() -> None:
    model, table = scorecard()
    explanation = Explainer(model, table, desired=1).explain(0)
    assert explanation.minimum
    found = check(explanation, model, table, desired=1)
    assert (found.status, found.reading, found.strict) == ("proven", "shared", False)
    assert "reading shared" in str(found)
    assert "reading shared" in found._repr_html_()
    assert found.to_dict()["reading"] == "shared"
    alone = Checker(model, table, allow_shared_reading=False).check(explanation)
    assert alone.status == "undecided"
    assert alone.reading == "none"


class Policy(DecisionTreeClassifier):
    """A tree with a policy on top."""

    def predict(self, X: Any) -> Any:
        return np.where(np.asarray(X)[:, 1] == 3, True, super().predict(X))


def test_neither_a_subclass_nor_a_replaced_method_is_read() -> None:
    tree = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    patched = copy.deepcopy(tree)
    patched.predict = Policy.predict.__get__(Policy().fit(GRID, TARGET > 0))
    explanation = Explainer(tree, GRID, desired=True).explain(1)
    for model in (Policy(random_state=0).fit(GRID, TARGET > 0), patched):
        assert Explainer(model, GRID, desired=True).unreadable_reason is not None
        assert check(explanation, model, GRID).status == "undecided"
        with pytest.raises(NoReading):
            read_estimator(model, EstimatorTarget((1,), None))


def test_whole_numbers_that_float64_cannot_hold_are_not_tabulated() -> None:
    values = np.array([2**53, 2**53 + 1])
    past = np.zeros((1, 1), dtype=np.int32)
    with pytest.raises(NoReading, match=r"2\*\*53"):
        tabulate_columns(lambda points: values[points], np.array([2]), past)
    fine = np.array([2**53, 2**53 + 2])
    assert tabulate_columns(lambda points: fine[points], np.array([2]), past)[0].values.tolist() == fine.tolist()


def test_a_preparation_that_may_fall_between_neighbours_says_nothing_of_intervals() -> None:
    model = make_pipeline(QuantileTransformer(n_quantiles=5, output_distribution="normal"), LogisticRegression())
    preparation, _ = split_pipeline(model.fit(GRID, TARGET > 0))
    unordered = preparation.find_unordered_columns(2)
    assert sorted(unordered) == [0, 1]
    assert all("QuantileTransformer" in reason for reason in unordered.values())
    with pytest.raises(ironrule.ModelError, match="QuantileTransformer"):
        Explainer(model, GRID, desired=True, domain="interval")


def test_a_single_desired_point_refutes_whatever_the_bounds_say(monkeypatch: pytest.MonkeyPatch) -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    document = document_of(Explainer(model, GRID, desired=True).explain(1))
    false = altered(document, remove_components)
    monkeypatch.setattr(SumBounds, "flag_closed", lambda _, pieces, *__: np.ones(len(pieces), dtype=np.bool_))
    failures = {failure.claim: failure.sentence for failure in check(false, model, GRID).failures}
    assert "there is an exception" in failures["rule: verdict"]


def remove_components(document: dict[str, Any]) -> None:
    """Claim the rule for everyone."""
    rule, certificate = document["rules"][0], document["rules"][0]["verdict"]["certificate"]
    rule["rule"]["components"], rule["coverage"] = [], document["history_rows"]
    document["weight"], document["lower_bound"], document["witnesses"] = 0, 0, []
    document["wider"], document["wider_is_maximal"], document["wider_witnesses"] = None, False, []
    certificate["low"], certificate["high"] = [0, 0], [5, 3]


def test_numbers_between_the_values_are_drawn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that hides a turning place: the values of its domain are denied, numbers between them are not."""
    fine = np.array([[number, debt] for number in range(21) for debt in (0, 1)], dtype=np.float64)
    model = DecisionTreeClassifier(random_state=0).fit(fine, (np.abs(fine[:, 0] - 5) < 3) | (fine[:, 1] == 0))
    seen = fine[fine[:, 0] % 10 == 0]
    explainer = Explainer(model, seen, desired=True, domain="seen")
    document = document_of(explainer.explain(1))
    assert check(document, model, seen).status == "proven"
    monkeypatch.setattr("ironrule.checker.scope.find_dominated_gaps", lambda *_: {})
    failures = check(altered(document, claim_intervals(explainer.space)), model, seen).failures
    assert "an exception between the values" in {one.claim: one.sentence for one in failures}["rule: verdict"]


def claim_intervals(space: Space) -> Callable[[dict[str, Any]], None]:
    """Claim what was proven of values seen for every number between them."""
    whole = replace(space, features=tuple(replace(feature, interval=True) for feature in space.features)).fingerprint

    def change(document: dict[str, Any]) -> None:
        document["breakpoints"] = {name: [] for name in document["domains"]}
        for domain in document["domains"].values():
            domain["kind"] = "interval"
            del domain["count"]
        document["space"] = whole
        for rule in (*document["rules"], *([document["wider"]] if document["wider"] else [])):
            rule["verdict"]["certificate"]["space"] = whole

    return change


def test_claims_about_values_seen_are_none_about_intervals() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    seen = Explainer(model, GRID, desired=True, domain="seen").explain(1)
    assert check(seen, model, GRID, intervals=True).status == "undecided"
    whole = Explainer(model, GRID, desired=True, domain="interval").explain(1)
    assert check(whole, model, GRID, intervals=True).status == "proven"
    assert "every number" in sentences(check(whole, model, GRID))["space"]


def test_breakpoints_must_show_where_the_model_turns() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    explainer = Explainer(model, GRID, desired=True, domain="seen")
    document = document_of(explainer.explain(1))
    found = check(altered(document, claim_intervals(explainer.space)), model, GRID)
    assert found.status != "proven"
    assert "turns somewhere between" in sentences(found)["rule: verdict"]
    for wrong in ({"x0": [99.0]}, {"x9": [1.0]}):
        assert check(altered(document, lambda d, w=wrong: d.update(breakpoints=w)), model, GRID).status != "proven"


def test_domains_that_differ_from_the_space_are_refuted() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    document = document_of(Explainer(model, GRID, desired=True).explain(1))
    assert check(document, model, GRID).status == "proven"
    for name, value in (("low", -1.0), ("high", 99.0), ("kind", "seen"), ("missing", True)):
        found = check(altered(document, lambda d, n=name, v=value: d["domains"]["x0"].update({n: v})), model, GRID)
        assert found.status == "refuted"
        assert "the domains that the explanation names" in sentences(found)["space"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_columns_of_a_shorter_type_round_the_numbers_between_their_values(kind: Any) -> None:
    table = pd.DataFrame({"a": np.array([0.1, 0.2, 0.7, 0.9] * 3, dtype=kind), "b": [0, 1, 2] * 4})
    model = DecisionTreeClassifier(random_state=0).fit(table, table.a > 0.5)
    explanation = Explainer(model, table, desired=True, domain="interval").explain(0)
    assert check(explanation, model, table, intervals=True).status == "proven"
    if kind is np.float64:  # its numbers are not those of the other column
        assert check(explanation, model, table.astype({"a": np.float32})).status == "undecided"


def test_a_box_of_missing_values_alone_has_no_numbers_to_draw() -> None:
    table = pd.DataFrame({"a": [0.0, 1.0, np.nan, 3.0] * 3, "b": [0.0, 1.0, 2.0] * 4})
    model = DecisionTreeClassifier(random_state=0).fit(table, (table.a > 2) | (table.b == 2))
    explainer = Explainer(model, table, desired=True, domain="interval")
    missing = explainer.explain({"a": None, "b": 0.0}, require=["a"])
    assert check(missing, model, table, intervals=True).status == "proven"


def test_labels_that_are_not_the_largest_probability_count_beside_a_margin() -> None:
    """Where both classes are as likely, the first is predicted; a margin too small to be seen must not hide that."""
    table = np.array([[number] for number in range(4)] * 2)
    tree = DecisionTreeClassifier(random_state=0).fit(table, np.array([1, 1, 0, 1, 1, 1, 1, 1]))
    explanation = Explainer(tree, table, desired=0, margin=1e-20).explain(0)
    assert not tree.predict(table[explanation.rule.covers(pd.DataFrame(table, columns=["x0"]))]).tolist().count(0)
    assert check(explanation, tree, table, desired=0, margin=1e-20).status == "proven"


def test_a_margin_is_compared_where_the_caller_names_one() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    explanation = Explainer(model, GRID, desired=True, margin=0.25).explain(1)
    unsaid = check(explanation, model, GRID, desired=True)
    assert not unsaid.strict
    assert any("margin" in note for note in unsaid.notes)
    assert check(explanation, model, GRID, desired=True, margin=0.25).strict
    assert check(explanation, model, GRID, desired=True, margin=0.125).status == "refuted"


def test_what_was_permitted_and_what_may_change_is_noted() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    explanation = Explainer(model, GRID, desired=True).explain(1, forbid=["x0 >="])
    assert any("permitted" in note for note in check(explanation, model, GRID, desired=True).notes)
    plain = Explainer(model, GRID, desired=True).explain(1)
    found = check(plain, model, GRID, desired=True, constraints=["cf.x0 <= x.x0"])
    assert any("cf.x0 <= x.x0" in note for note in found.notes)


WRAPPED = DecisionTreeClassifier.predict


def test_a_wrapped_method_of_a_class_is_not_the_librarys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.wraps(WRAPPED)
    def predict(self: Any, X: Any, check_input: bool = True) -> Any:
        return np.where(np.asarray(X)[:, 1] == 3, True, WRAPPED(self, X, check_input))

    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    assert identify_class("sklearn", model) == "DecisionTreeClassifier"
    monkeypatch.setattr(DecisionTreeClassifier, "predict", predict)
    with pytest.raises(NoReading, match="predict"):
        identify_class("sklearn", model)


def test_steps_that_single_out_a_number_say_nothing_of_intervals() -> None:
    steps = [
        MissingIndicator(missing_values=3.0, features="all"),
        OrdinalEncoder(categories=[[*range(6)], [*range(4)]]),
    ]
    steps.append(OneHotEncoder(categories=[np.array([*range(6)], dtype=object), np.array([*range(4)], dtype=object)]))
    for step in steps:
        model = make_pipeline(step, DecisionTreeClassifier()).fit(GRID, TARGET > 0)
        preparation, _ = split_pipeline(model)
        unordered = preparation.find_unordered_columns(2)
        assert sorted(unordered) == [0, 1]
        assert all("single" in reason for reason in unordered.values())


def test_columns_that_lightgbm_does_not_tell_apart_are_refused() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rows = [[a, b, c] for a in range(4) for b in range(4) for c in range(4)]
    table = pd.DataFrame(rows, columns=["a_b", "a b", "c"])
    own = table[["a b", "c"]]
    model = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1).fit(own, own.sum(axis=1) > 3)
    explanation = Explainer(model, own, desired=True).explain(0)
    assert check(explanation, model, own, desired=True).status == "proven"
    for ask in (lambda: Explainer(model, table, desired=True), lambda: check(explanation, model, table)):
        with pytest.raises(ironrule.TableError, match="LightGBM does not tell apart"):
            ask()


@pytest.mark.parametrize(
    ("given", "what"),
    [({"threshold": "0.5"}, "threshold"), ({"threshold": [0.5]}, "threshold"), ({"threshold": 10**400}, "threshold"),
     ({"threshold": np.True_}, "threshold"), ({"margin": -1.0}, "margin"), ({"desired": [[1]]}, "class")],
    ids=str,
)  # fmt: skip
def test_what_the_caller_means_must_make_sense(given: dict[str, Any], what: str) -> None:
    with pytest.raises(ironrule.OutcomeError, match=what):
        Checker(regression(), GRID, **given)


def test_weights_do_not_depend_on_the_order_in_which_they_are_named() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    explainer = Explainer(model, GRID, desired=True)
    both = [{"x0": 2, "x0 <=": 3}, {"x0 <=": 3, "x0": 2}]
    first, second = (explainer.explain(1, weights=weights) for weights in both)
    assert first.weight == second.weight
    for explanation in (first, second):
        assert check(explanation, model, GRID, desired=True).status == "proven"


def test_weights_too_fine_to_be_written_are_refused() -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    document = document_of(Explainer(model, GRID, desired=True).explain(1))
    fine = {"x0": "1/" + "7" * 190, "x1": "1/" + "3" * 189 + "1"}
    found = check(altered(document, lambda d: d["restrictions"].update(weights=fine)), model, GRID)
    assert "permitted rules" in [failure.claim for failure in found.failures]


HOSTILE = {
    "a number out of reach": lambda text: text.replace('"threshold": null', '"threshold": 1e999'),
    "a number of 400 digits": lambda text: text.replace('"lower_bound": ', '"lower_bound": 1' + "0" * 400 + ', "x": '),
    "a value of 400 digits": lambda text: text.replace('"x0": ', '"x0": 1' + "0" * 400 + ', "x": '),
    "a threshold of 400 digits": lambda text: text.replace('"threshold": null', '"threshold": 1' + "0" * 400),
    "a list as a value": lambda text: text.replace('"instance": {"x0": ', '"instance": {"x1": 0.0, "x0": [1], "y": '),
    "a mapping as a value": lambda text: text.replace('"before": ', '"before": {"a": 1}, "b": '),
    "700-fold nesting": lambda text: text.replace(
        '"unreadable_reason": null', '"unreadable_reason": ' + "[" * 700 + "]" * 700
    ),
    "100,000-fold nesting": lambda text: text.replace(
        '"unreadable_reason": null', '"unreadable_reason": ' + "[" * 100_000 + "]" * 100_000
    ),
    "a weight over nothing": lambda text: text.replace('"weight": ', '"weight": "1/0", "x": '),
    "a huge weight": lambda text: text.replace('"weights": null', '"weights": {"x0": "1/' + "9" * 5000 + '"}'),
    "a class that is a list": lambda text: text.replace('"desired": [true]', '"desired": [[true]]'),
    "a cut of another shape": lambda text: text.replace('"splits": []', '"splits": [[0, [[1]]]]'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_a_document_holds_it_is_refused_by_the_checkers_own_error(name: str) -> None:
    model = DecisionTreeClassifier(random_state=0).fit(GRID, TARGET > 0)
    text = Explainer(model, GRID, desired=True).explain(1).to_json()
    changed = HOSTILE[name](text)
    assert changed != text
    with pytest.raises(InputError):
        check(changed, model, GRID)


def test_wide_spaces_are_tabulated_together_with_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, sizes = np.random.default_rng(0), np.array([3, 1, 5, 2, 4])
    source = [4, 0, 2, 2, 3]  # the feature of every column; the last column follows none
    tables = [rng.permutation(int(sizes[j])).astype(float) for j in source]
    past = rng.integers(0, sizes, size=(20, 5)).astype(np.int32)

    def see(points: Any) -> Any:
        columns = [table[points[:, j]] for j, table in zip(source, tables, strict=True)]
        return np.stack([*columns, np.full(len(points), 7.0)], axis=1)

    def mixed(points: Any) -> Any:
        return np.concatenate([see(points), points[:, [0]] + 10.0 * points[:, [2]]], axis=1)

    each = tabulate_columns(see, sizes, past)
    monkeypatch.setattr("ironrule.checker.preprocessing.MAX_TABULATED_CODES", 0)
    together = tabulate_columns(see, sizes, past)
    assert [one.feature for one in together] == [one.feature for one in each] == [*source, 0]
    assert [one.values.tolist() for one in together] == [one.values.tolist() for one in each]
    with pytest.raises(NoReading, match="mixes columns"):
        tabulate_columns(mixed, sizes, past)

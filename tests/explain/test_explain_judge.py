"""Judgements through the public face: every class as looking at every point says, and what shows it is so."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from test_exact_explanations import MODELS, fitted
from test_robust_rules import everyone

from ironrule import (
    Budget,
    Component,
    Counterfactual,
    Explainer,
    InputError,
    Judgement,
    ModelError,
    OutcomeError,
    Proven,
    Quality,
    Refuted,
    Rule,
    Unrefuted,
)
from ironrule.model.protocol import require_desired
from ironrule.rule.instance_components import build_instance_components
from tiny_cases import subsets

PAST = pd.DataFrame(
    {
        "income": [300, 500, 500, 700, 900, 700, 300, 900],
        "accounts": [4, 5, 2, 4, 1, 2, 1, 5],
        "home": ["rent", "own", "rent", "rent", "own", "own", "own", "rent"],
    }
)
APPLICANT = {"income": 500, "accounts": 4, "home": "rent"}


def bank(table: pd.DataFrame) -> pd.Series:
    """Approves incomes of 700 or more with at most 4 accounts, and anybody with one account who owns a home."""
    rich = (table["income"] >= 700) & (table["accounts"] <= 4)
    careful = (table["accounts"] == 1) & (table["home"] == "own")
    return (rich | careful).astype(float)


class Truth:
    """Every point of an explainer's space, with the model's own decisions."""

    def __init__(self, explainer: Explainer, model: Any, table: pd.DataFrame) -> None:
        self.table, self.past_good = table, model.predict(table) == "good"
        self.whole = everyone(explainer)
        self.good = model.predict(self.whole[table.columns]) == "good"
        self.by_values = dict(zip(self.whole.itertuples(index=False, name=None), self.good, strict=True))

    def all_good(self, some: Any) -> bool:
        return all(self.by_values[tuple(one.values[name] for name in self.whole.columns)] for one in some)

    def holds(self, rule: Rule) -> bool:
        return not (rule.covers(self.whole) & self.good).any()

    def quality(self, rule: Rule, least: int) -> Quality:
        if (rule.covers(self.table) & self.past_good).any():
            return Quality.FAILED_DATA
        if not self.holds(rule):
            return Quality.FAILED_GLOBAL
        if any(self.holds(without(rule, place)) for place in range(len(rule))):
            return Quality.REDUNDANT
        return Quality.MINIMUM if len(rule) == least else Quality.IRREDUNDANT


def without(rule: Rule, place: int) -> Rule:
    return Rule(rule.components[:place] + rule.components[place + 1 :], rule.outcome)


def own_rules(explainer: Explainer, row: dict[str, Any]) -> list[Rule]:
    components = build_instance_components(explainer.space, explainer.space.encode_row(row))
    return [components.rule(bits, "'bad'") for bits in subsets(components.usable)]


def covered(rule: Rule, some: Any) -> np.ndarray:
    return rule.covers(pd.DataFrame([dict(one.values) for one in some]))


def assert_shown(judgement: Judgement, truth: Truth) -> None:
    """That the evidence is what it is said to be, by the model's own word."""
    rule, quality = judgement.rule, judgement.quality
    if quality is Quality.FAILED_DATA:
        row = truth.table.iloc[judgement.exception_row]
        assert dict(judgement.exception.values) == row.to_dict()
    if quality in (Quality.FAILED_DATA, Quality.FAILED_GLOBAL):
        assert isinstance(judgement.verdict, Refuted)
        assert truth.all_good([judgement.exception])
        assert covered(rule, [judgement.exception]).all()
    else:
        assert isinstance(judgement.verdict, Proven)
        assert judgement.exception is None
    if quality in (Quality.REDUNDANT, Quality.IRREDUNDANT):
        assert isinstance(judgement.shorter_rule.verdict, Proven)
        assert truth.holds(judgement.shorter_rule.rule)
        assert judgement.shorter_rule.coverage == judgement.shorter_rule.rule.covers(truth.table).sum()
        assert judgement.shorter_rule.rule.cardinality < judgement.cardinality
    if quality is Quality.REDUNDANT:
        assert judgement.redundant_component not in judgement.shorter_rule.rule.components
        assert {judgement.redundant_component, *judgement.shorter_rule.rule.components} == set(rule.components)
    if quality >= Quality.IRREDUNDANT and len(rule):
        assert truth.all_good(judgement.needs)
        for place, needed in enumerate(judgement.needs):
            assert covered(without(rule, place), [needed]).all()
            assert not covered(rule, [needed]).any()
    assert (judgement.reason is None) == (quality is not Quality.NOT_JUDGED)


def assert_no_shorter(judgement: Judgement, rules: list[Rule], truth: Truth) -> None:
    """That the witnesses are counterfactuals, and that every shorter rule of the row has one of them in it."""
    assert truth.all_good(judgement.witnesses)
    shorter = [rule for rule in rules if len(rule) < judgement.cardinality]
    assert all(covered(rule, judgement.witnesses).any() for rule in shorter)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_every_rule_of_a_row_is_judged_as_looking_at_every_point_says(estimator: Any, seed: int) -> None:
    model, table = fitted(estimator, seed)
    explainer = Explainer(model, table, desired="good")
    truth = Truth(explainer, model, table)
    for place in np.flatnonzero(~explainer.outcomes)[:2].tolist():
        rules = own_rules(explainer, table.iloc[place].to_dict())
        least = min(len(rule) for rule in rules if truth.holds(rule))
        found = explainer.judge(place, rules)
        assert [one.rule for one in found] == rules
        assert [one.quality for one in found] == [truth.quality(rule, least) for rule in rules]
        for judgement in found:
            assert_shown(judgement, truth)
            if judgement.quality >= Quality.IRREDUNDANT:
                assert judgement.minimum_weight == judgement.lower_bound == least
            if judgement.quality is Quality.MINIMUM and least:
                assert_no_shorter(judgement, rules, truth)
        for rule, judgement in list(zip(rules, found, strict=True))[:: len(rules) // 6]:
            assert explainer.judge(place, rule).quality is judgement.quality


@pytest.mark.parametrize("estimator", MODELS, ids=lambda model: type(model).__name__)
def test_what_explain_calls_minimum_is_judged_minimum_with_wider_bounds_too(estimator: Any) -> None:
    model, table = fitted(estimator, 1)
    explainer = Explainer(model, table, desired="good")
    for place in np.flatnonzero(~explainer.outcomes)[:5].tolist():
        explanation = explainer.explain(place)
        assert explanation.minimum
        found = explainer.judge(place, [explanation, explanation.wider, *explainer.rules(place)])
        assert [one.quality for one in found[:2]] == [Quality.MINIMUM] * 2
        assert [one.rule for one in found[:2]] == [explanation.rule, explanation.wider.rule]
        assert all(one.quality >= Quality.IRREDUNDANT for one in found)


def test_a_rule_may_come_in_several_forms() -> None:
    explainer = Explainer(bank, PAST)
    rule = explainer.explain(APPLICANT).rule
    texts = ["income <= 500", "accounts >= 4"]
    assert [str(component) for component in rule.components] == texts
    for form in (rule, texts, tuple(texts), list(rule.components), [texts[0], rule.components[1]]):
        judgement = explainer.judge(APPLICANT, form)
        assert isinstance(judgement, Judgement)
        assert (judgement.rule, judgement.quality) == (rule, Quality.MINIMUM)
    for form in ("income = 500", Component("income", "==", 500)):
        assert explainer.judge(APPLICANT, form).quality is Quality.FAILED_GLOBAL
    several = explainer.judge(APPLICANT, [rule, texts, ["home = rent"]])
    assert [one.quality for one in several] == [Quality.MINIMUM, Quality.MINIMUM, Quality.FAILED_DATA]
    assert explainer.judge(APPLICANT, []) == []
    assert explainer.judge(APPLICANT, [[]])[0].quality is Quality.FAILED_DATA


def test_bounds_need_not_be_the_rows_own_values() -> None:
    explainer = Explainer(bank, PAST)

    def quality(*texts: str) -> Quality:
        return explainer.judge(APPLICANT, list(texts)).quality

    assert quality("income <= 650", "accounts > 1") is Quality.MINIMUM
    assert quality("income <= 650", "1 < accounts <= 4") is Quality.REDUNDANT
    assert quality("income < 750", "accounts >= 4") is Quality.FAILED_DATA
    assert quality("income = 500", "accounts = 4") is Quality.REDUNDANT
    judgement = explainer.judge(APPLICANT, ["income <= 650", "1 < accounts <= 4"])
    assert judgement.rule.to_query() == "income <= 500 and accounts >= 2 and accounts <= 4"
    assert str(judgement.redundant_component) == "accounts <= 4"
    assert judgement.cardinality == 3


def test_an_empty_rule_is_minimum_where_nobody_is_desired() -> None:
    explainer = Explainer(lambda table: np.zeros(len(table)), PAST)
    empty, longer = explainer.judge(APPLICANT, [Rule(()), ["income <= 500"]])
    assert (empty.quality, empty.minimum_weight, empty.witnesses) == (Quality.MINIMUM, 0, ())
    assert longer.quality is Quality.REDUNDANT
    assert str(longer.redundant_component) == "income <= 500"


def wide_table(rows: int = 300) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).integers(0, 30, (rows, 5)), columns=list("abcde"))


def hidden(table: pd.DataFrame) -> pd.Series:
    """Desired where both are large; and in one cell that no past row lies in."""
    cell = (table[list("abcde")] == [3, 29, 29, 29, 28]).all(axis=1)
    return ((table["a"] + table["b"] > 45) | cell).astype(float)


HIDDEN = {"a": 3, "b": 4, "c": 5, "d": 6, "e": 7}


def test_of_a_model_that_can_only_be_asked_what_is_shown_is_judged_and_nothing_else() -> None:
    explainer = Explainer(hidden, wide_table())
    data, found, open_ = explainer.judge(HIDDEN, [["c >= 5"], ["b >= 4"], ["a <= 3"]], budget=Budget(200_000))
    assert data.quality is Quality.FAILED_DATA
    assert hidden(wide_table().iloc[[data.exception_row]]).iloc[0] == 1.0
    assert found.quality in (Quality.FAILED_DATA, Quality.FAILED_GLOBAL)
    assert open_.quality is Quality.NOT_JUDGED
    assert isinstance(open_.verdict, Unrefuted)
    assert open_.verdict.samples > 0
    assert open_.reason == (
        "whether the rule holds is not known: the model could only be asked, not read: a plain function can only be "
        "asked, not read"
    )
    narrow = explainer.judge(HIDDEN, [f"{name} = {value}" for name, value in HIDDEN.items()])
    assert narrow.quality is Quality.REDUNDANT
    assert isinstance(narrow.verdict, Proven)


def test_what_is_open_is_said_together_with_what_is_known() -> None:
    explainer = Explainer(lambda rows: (rows[list("abcde")] == 29).all(axis=1).astype(float), wide_table())
    judgement = explainer.judge(HIDDEN, ["a <= 3", "b <= 4", "c <= 5", "d <= 6", "e <= 20"], budget=Budget(300_000))
    assert judgement.quality is Quality.NOT_JUDGED
    assert isinstance(judgement.verdict, Proven)
    assert judgement.reason == (
        "the rule holds, but whether a <= 3 is redundant is not known: the model could only be asked, not read: "
        "a plain function can only be asked, not read"
    )
    assert str(judgement).endswith(f"T{judgement.reason[1:]}.")
    assert judgement.needs == ()


def test_a_budget_that_ends_leaves_what_is_not_proven_open_and_says_so() -> None:
    model, table = fitted(MODELS[1], 0)
    explainer = Explainer(model, table, desired="good")
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    rule = explainer.explain(row).rule
    judgement = explainer.judge(row, rule, budget=1e-9)
    assert judgement.quality is Quality.NOT_JUDGED
    assert (
        judgement.reason
        == "whether the rule holds is not known: the budget ended first (1e-09 s; a larger one may decide it)"
    )
    assert explainer.judge(row, Rule(()), budget=1e-9).quality is Quality.FAILED_DATA


@pytest.mark.parametrize("estimator", [MODELS[0], MODELS[1]], ids=lambda model: type(model).__name__)
def test_what_was_known_when_the_search_was_stopped_is_told(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ironrule.search.minimum import Minimum

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    model, table = fitted(estimator, 0)
    explainer = Explainer(model, table, desired="good")
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    rule = explainer.explain(row).rule
    monkeypatch.setattr(Minimum, "run", stop)
    judgement = explainer.judge(row, rule)
    assert judgement.quality is Quality.NOT_JUDGED
    assert judgement.reason == (
        "the rule holds and nothing in it is redundant, but whether it is minimum is not known (rules need at least 0, "
        f"this one weighs {rule.cardinality}): it was interrupted"
    )
    assert len(judgement.needs) == rule.cardinality
    assert isinstance(judgement.verdict, Proven)


def test_minimality_is_not_claimed_without_the_counterfactuals_that_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from ironrule.explain import build

    model, table = fitted(MODELS[1], 0)
    explainer = Explainer(model, table, desired="good")
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    rule = explainer.explain(row).rule
    monkeypatch.setattr(build, "find_bound_witnesses", lambda *_: None)
    judgement = explainer.judge(row, rule)
    assert judgement.quality is Quality.NOT_JUDGED
    assert "whether it is minimum is not known" in judgement.reason
    assert (judgement.lower_bound, judgement.minimum_weight) == (0.0, None)


def test_weights_decide_what_is_minimum() -> None:
    explainer = Explainer(bank, PAST)
    row = {"income": 500, "accounts": 5, "home": "rent"}
    short, long = ["accounts >= 5"], ["income <= 500", "home = rent"]
    assert [one.quality for one in explainer.judge(row, [short, long])] == [Quality.MINIMUM, Quality.IRREDUNDANT]
    heavy = explainer.judge(row, [short, long], weights={"accounts": 3})
    assert [one.quality for one in heavy] == [Quality.IRREDUNDANT, Quality.MINIMUM]
    assert [(one.weight, one.minimum_weight, one.cardinality) for one in heavy] == [(3.0, 2.0, 1), (2.0, 2.0, 2)]
    assert str(heavy[0].shorter_rule.rule) == str(heavy[1].rule)
    assert "It weighs 3; the lightest rules for this row weigh 2." in str(heavy[0])
    paper = explainer.judge(row, [short, long], weights="paper")
    assert [one.weight for one in paper] == [1.0, 3.0]


def test_a_past_row_is_named_by_its_number_in_the_data_although_others_were_left_out() -> None:
    with pytest.warns(UserWarning, match="2 of 8 past rows break the constraints"):
        explainer = Explainer(bank, PAST, constraints=["cf.income > 300"])
    judgement = explainer.judge(APPLICANT, ["home = rent"])
    assert judgement.quality is Quality.FAILED_DATA
    assert bank(PAST)[judgement.exception_row] == 1.0
    assert dict(judgement.exception.values) == PAST.iloc[judgement.exception_row].to_dict()


def test_what_cannot_occur_is_no_exception() -> None:
    free = Explainer(bank, PAST)
    assert free.judge(APPLICANT, ["income <= 500"]).quality is Quality.FAILED_DATA
    assert free.judge(APPLICANT, ["income = 500"]).quality is Quality.FAILED_GLOBAL
    with pytest.warns(UserWarning, match="past rows break the constraints"):
        bound = Explainer(bank, PAST, constraints=["cf.accounts > 1"])
    assert bound.judge(APPLICANT, ["income <= 500"]).quality is Quality.MINIMUM


def test_a_rule_must_withstand_what_the_explainers_rules_must() -> None:
    model, table = fitted(MODELS[1], 0)
    plain, careful = (Explainer(model, table, desired="good", margin=margin) for margin in (0.0, 0.15))
    whole = everyone(careful)
    score = model.predict_proba(whole)[:, list(model.classes_).index("good")]
    differed = 0
    for row in np.flatnonzero(model.predict_proba(table)[:, 1] < 0.3)[:6].tolist():
        for rule in own_rules(careful, table.iloc[row].to_dict())[::5]:
            first, second = plain.judge(row, rule), careful.judge(row, rule)
            holds = bool((score[rule.covers(whole)] <= 0.35).all())
            assert (second.quality >= Quality.REDUNDANT) == holds
            assert first.quality >= Quality.REDUNDANT or not holds
            differed += (first.quality >= Quality.REDUNDANT) != holds
    assert differed
    other, _ = fitted(MODELS[0], 3)
    both = Explainer(model, table, desired="good", models=[other])
    row = int(np.flatnonzero((model.predict(table) == "bad") & (other.predict(table) == "bad"))[0])
    rule = plain.explain(row).rule
    good = (model.predict(whole) == "good") | (other.predict(whole) == "good")
    assert (both.judge(row, rule).quality >= Quality.REDUNDANT) == (not (rule.covers(whole) & good).any())


def test_a_pipeline_that_mixes_columns_is_only_asked() -> None:
    table = wide_table()
    model = make_pipeline(PCA(3), DecisionTreeClassifier(max_depth=4, random_state=0)).fit(
        table, table.sum(axis=1) > 80
    )
    explainer = Explainer(model, table, desired=True)
    assert explainer.unreadable_reason is not None
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    judgement = explainer.judge(row, [f"{name} <= {table[name][row]}" for name in "abcd"], budget=Budget(200_000))
    assert judgement.verdict.certificate.method == "enumeration"
    wide = explainer.judge(row, [f"a <= {table['a'][row]}"], budget=Budget(200_000))
    assert wide.quality in (Quality.NOT_JUDGED, Quality.FAILED_DATA, Quality.FAILED_GLOBAL)


def test_a_model_that_contradicts_its_reading_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = fitted(MODELS[1], 0)
    explainer = Explainer(model, table, desired="good")
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    rule = explainer.explain(row).rule
    for kind in {type(explainer._context.point_model), type(explainer._context.model)}:
        monkeypatch.setattr(kind, "desired", lambda _, points: np.zeros(len(points), np.bool_))
    with pytest.raises(ModelError, match="decisions differ from its reading"):
        explainer.judge(row, rule)


def test_a_score_at_the_threshold_is_told_from_a_wrong_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that adds otherwise for one row than for many may deny a point that it desired among others."""
    model, table = fitted(MODELS[1], 0)
    shares = model.predict_proba(table)[:, list(model.classes_).index("good")]
    threshold = float(np.sort(np.unique(shares))[-2])
    explainer = Explainer(model, table, desired="good", threshold=threshold)
    asked = explainer._context.model
    points = explainer._context.history.codes.points()
    at_threshold, above = points[shares == threshold], points[shares > threshold]
    require_desired(above, asked, asked, asked)
    with pytest.raises(ModelError, match="a point within rounding of the threshold") as told:
        require_desired(at_threshold, asked, asked, asked)
    assert "move the threshold" in str(told.value)
    monkeypatch.setattr(type(asked), "desired", lambda _, points: np.zeros(len(points), np.bool_))
    with pytest.raises(ModelError, match="decisions differ from its reading"):
        require_desired(above, asked, asked, asked)


@pytest.mark.parametrize("wrong", [3, None, [3], [["income <= 500"], 3], [[3]], {"income": 500}])
def test_what_is_no_rule_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"must be a (Rule|Component) or .*, got "):
        Explainer(bank, PAST).judge(APPLICANT, wrong)


def test_a_rule_that_the_row_breaks_and_a_row_that_is_approved_are_refused() -> None:
    explainer = Explainer(bank, PAST)
    with pytest.raises(InputError, match="must satisfy the rule's condition home = 'own', got home = 'rent'"):
        explainer.judge(APPLICANT, ["home = own"])
    with pytest.raises(OutcomeError):
        explainer.judge(4, ["home = own"])
    with pytest.raises(InputError, match="weights"):
        explainer.judge(APPLICANT, ["home = rent"], weights=3)


def test_the_same_seed_gives_the_same_judgement() -> None:
    explainer = Explainer(hidden, wide_table())
    first, second = (explainer.judge(HIDDEN, ["a <= 3"], seed=4, budget=Budget(100_000)) for _ in range(2))
    assert first == second


def test_a_judgement_is_plain_data_and_text() -> None:
    explainer = Explainer(bank, PAST)
    rules = [["home = rent"], ["income = 500"], ["income <= 500", "accounts >= 4", "home = rent"]]
    found = explainer.judge(APPLICANT, [*rules, explainer.explain(APPLICANT)])
    assert [str(one.quality) for one in found] == [
        "failed data consistency",
        "failed global consistency",
        "consistent but redundant",
        "minimum",
    ]
    for one in found:
        document = json.loads(json.dumps(one.to_dict()))
        assert document["quality"] == one.quality.value
        assert document["cardinality"] == one.cardinality
        assert Rule.from_dict(document["rule"]) == one.rule
        assert str(one.quality) in repr(one)
        assert str(one.quality) in one._repr_html_()
        assert f"Quality: {one.quality}." in str(one)
    failed, globally, redundant, minimum = found
    assert "Past row 3 is an exception: income: 500 -> 700." in str(failed)
    assert failed.to_dict()["exception_row"] == 3
    assert str(globally).endswith("An exception: accounts: 4 -> 1, home: 'rent' -> 'own'.")
    assert Counterfactual.from_dict(globally.to_dict()["verdict"]["counterfactual"]) == globally.exception
    assert "Without accounts >= 4 it still holds: Everyone with income <= 500 and home = 'rent' gets" in str(redundant)
    assert redundant.to_dict()["shorter_rule"]["verdict"]["kind"] == "proven"
    assert "Conditions: 2; the shortest rules for this row have 2." in str(minimum)
    assert len(minimum.to_dict()["witnesses"]) == len(minimum.witnesses) == 2


def test_names_in_a_judgement_are_escaped() -> None:
    table = PAST.rename(columns={"home": "<b>home</b>"})
    explainer = Explainer(lambda rows: bank(rows.rename(columns={"<b>home</b>": "home"})), table)
    row = {"income": 500, "accounts": 4, "<b>home</b>": "rent"}
    assert "<b>" not in explainer.judge(row, ["<b>home</b> = rent"])._repr_html_()

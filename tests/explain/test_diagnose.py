"""Why a rule is long: every length that "would do" is compared with an enumeration that asks the user's own model."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule import Bins, Budget, Diagnosis, DiagnosisFinding, Explainer, Scorecard
from ironrule.errors import InputError
from ironrule.explain.diagnose import OUTLIER_SHARE

INCOMES, DEBTS = range(1, 10), range(10)
ROWS = 90


def make_table() -> pd.DataFrame:
    """Every income and every debt in many rows."""
    rows = np.arange(ROWS)
    return pd.DataFrame({"income": rows % 9 + 1, "debt": rows // 9, "ratio": (rows % 7 + 1) / 10, "job": "cook"})


def make_card(*bins: Bins) -> Scorecard:
    """Good with one of several good marks."""
    return Scorecard(bins, cutoff=5, classes=("bad", "good"))


def diagnose(card: Any, table: pd.DataFrame, row: dict[str, Any], **more: Any) -> tuple[Explainer, Diagnosis]:
    explainer = Explainer(card, table, desired="good", **more)
    return explainer, explainer.diagnose(explainer.explain(row))


WELL_OFF = Bins("income", edges=(7,), points=(0, 10))
LOW_DEBT = Bins("debt", edges=(3,), points=(10, 0))
HIGH_RATIO = Bins("ratio", edges=(1.5,), points=(0, 10))


def make_outlier_case() -> tuple[Scorecard, pd.DataFrame, dict[str, Any]]:
    table = make_table()
    table.loc[0, "ratio"] = 1.95
    card = make_card(WELL_OFF, LOW_DEBT, HIGH_RATIO)
    return card, table, {"income": 2, "debt": 5, "ratio": 0.3}


@pytest.mark.parametrize(
    ("domain", "left_out"),
    [("auto", "ratio above 0.7 (1 of 90 past rows: ratio = 1.95)"), ("seen", "ratio = 1.95 (1 of 90 past rows)")],
)
def test_an_outlier_costs_a_component(domain: Any, left_out: str) -> None:
    explainer, diagnosis = diagnose(*make_outlier_case(), domain=domain)
    assert diagnosis.rule.cardinality == diagnosis.lower_bound == 3
    (finding,) = diagnosis.findings
    assert (finding.feature, finding.kind, finding.saved) == ("ratio", "outlier", 1)
    would_do = "2 bounds would do instead of 3: the rule would not need ratio <= 0.3."
    assert finding.sentence == f"Without {left_out}, {would_do}"
    assert finding.constraint == "cf.ratio <= 0.7"
    again = explainer.where(finding.constraint).explain({"income": 2, "debt": 5, "ratio": 0.3})
    assert again.minimum
    assert again.rule == finding.rule
    assert str(diagnosis) == f"{diagnosis.rule}\n  - {finding}"


def test_the_mildest_bound_that_saves_as_much_is_named() -> None:
    card, table, row = make_outlier_case()
    table = pd.concat([table] * 10, ignore_index=True)  # now nine rows may be left out
    table.loc[:8, "ratio"] = [1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.7, 1.8, 1.95]
    table.loc[9:, "ratio"] = table.loc[9:, "ratio"].clip(upper=0.7)
    _, diagnosis = diagnose(card, table, row)
    (finding,) = diagnosis.findings
    assert finding.constraint == "cf.ratio <= 1.4"
    assert "ratio above 1.4 (4 of 900 past rows)" in finding.sentence


def test_a_rare_category_costs_a_component_and_so_does_missing() -> None:
    table = make_table()
    table["job"] = np.where(np.arange(ROWS) % 2, "cook", "clerk")
    table.loc[3, "job"] = "judge"
    table["ratio"] = table["ratio"].astype(float)
    table.loc[5, "ratio"] = np.nan
    jobs = Bins("job", values={"judge": 10, "cook": 0, "clerk": 0})
    card = make_card(WELL_OFF, jobs, Bins("ratio", edges=(), points=(0,), missing=10))
    _, diagnosis = diagnose(card, table, {"income": 2, "job": "cook", "ratio": 0.3})
    assert diagnosis.lower_bound == 3
    found = {finding.feature: finding for finding in diagnosis.findings}
    assert {name: (one.kind, one.saved, one.constraint) for name, one in found.items()} == {
        "job": ("rare category", 1, 'cf.job != "judge"'),
        "ratio": ("rare category", 1, "cf.ratio != missing"),
    }
    assert found["job"].sentence == (
        "Without job = 'judge' (1 of 90 past rows), 2 bounds would do instead of 3: "
        "the rule would not need job = 'cook'."
    )


@pytest.mark.parametrize(("points", "saved"), [(0, [1]), (10, [])])
def test_without_an_outlier_values_may_still_be_missing(points: int, saved: list[int]) -> None:
    _, table, row = make_outlier_case()
    table.loc[table.index % 10 == 5, "ratio"] = np.nan  # too many rows to be rare
    ratio = Bins("ratio", edges=(1.5,), points=(0, 10), missing=points)
    _, diagnosis = diagnose(make_card(WELL_OFF, LOW_DEBT, ratio), table, row)
    assert diagnosis.lower_bound == 3
    assert [finding.saved for finding in diagnosis.findings] == saved
    assert {finding.constraint for finding in diagnosis.findings} <= {"(cf.ratio <= 0.7 or cf.ratio == missing)"}


def test_rare_categories_together_are_named_where_none_alone_saves_anything() -> None:
    table = make_table()
    table["job"] = np.where(np.arange(ROWS) % 2, "cook", "clerk")
    table.loc[3, "job"], table.loc[4, "job"] = "judge", "mayor"
    card = make_card(WELL_OFF, Bins("job", values={"judge": 10, "mayor": 10, "cook": 0, "clerk": 0}))
    _, diagnosis = diagnose(card, table, {"income": 2, "job": "cook"})
    (finding,) = diagnosis.findings
    assert finding.constraint == 'cf.job != "judge" and cf.job != "mayor"'
    assert finding.sentence.startswith("Without job = 'judge' or 'mayor' (2 of 90 past rows), 1 bound would do")


def test_a_place_where_the_model_turns_back_costs_a_component() -> None:
    bump = Bins("income", edges=(4, 6), points=(0, 10, 0))
    _, diagnosis = diagnose(make_card(bump, LOW_DEBT), make_table(), {"income": 2, "debt": 5})
    (finding,) = diagnosis.findings
    assert (finding.feature, finding.kind, finding.saved) == ("income", "not monotone", 1)
    assert finding.sentence == (
        "The model is not monotone in income between 3 and 6: with all else as in the row, the outcome is desired at 4 "
        "and 5, and undesired at 3 and 6. Without income above 3 and below 6 (20 of 90 past rows), 1 bound would "
        "do instead of 2: the rule would not need income <= 2."
    )


def test_a_place_between_two_ways_out_costs_a_component() -> None:
    valley = Bins("income", edges=(3, 8), points=(10, 0, 10))
    _, diagnosis = diagnose(make_card(valley), make_table(), {"income": 5})
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.saved, diagnosis.lower_bound) == ("not monotone", 1, 2)
    assert "between 2 and 8" in finding.sentence
    assert "undesired at 3 and 7, and desired at 2 and 8" in finding.sentence


class OppositeDirections:
    """More income helps with debt, less income helps without."""

    def predict(self, table: pd.DataFrame) -> Any:
        helps = np.where(table["debt"] >= 5, table["income"] >= 7, table["income"] <= 2)
        return np.where(helps, "good", "bad")


def test_opposite_directions_on_two_lines_are_no_monotone_model() -> None:
    table = make_table()[["income", "debt"]]
    tree = DecisionTreeClassifier(random_state=0).fit(table, OppositeDirections().predict(table))
    assert (tree.predict(table) == OppositeDirections().predict(table)).all()
    _, diagnosis = diagnose(tree, table, {"income": 4, "debt": 3})
    (finding,) = (one for one in diagnosis.findings if one.feature == "income")
    assert finding.kind == "not monotone"
    assert "with all else as in the row, the outcome is desired at 2 and undesired at 3" in finding.sentence


def test_a_model_where_nothing_helps() -> None:
    _, diagnosis = diagnose(make_card(WELL_OFF, LOW_DEBT), make_table(), {"income": 2, "debt": 5})
    assert (diagnosis.lower_bound, diagnosis.findings, diagnosis.undecided) == (2, (), 0)
    nothing = "Without any one outlier, rare category or turn of the model that was found, no shorter rule would do."
    assert str(diagnosis) == f"{diagnosis.rule}\n  - {nothing}"


def test_a_model_that_can_only_be_asked_is_not_searched() -> None:
    def decide(table: pd.DataFrame) -> Any:
        return np.where(table["income"].between(4, 5) | (table["debt"] < 3), "good", "bad")

    table = make_table()[["income", "debt"]]
    explainer = Explainer(decide, table, desired="good")
    explanation = explainer.explain({"income": 2, "debt": 5})
    assert explanation.lower_bound == 0
    diagnosis = explainer.diagnose(explanation)
    assert [(one.feature, one.kind, one.saved) for one in diagnosis.findings] == [("income", "not monotone", 0)]
    assert diagnosis.tried == 0
    assert "it is not proven how short a rule can be" in str(diagnosis)


def test_weights_and_restrictions_are_those_of_the_explanation() -> None:
    card, table, row = make_outlier_case()
    explainer = Explainer(card, table, desired="good")
    explanation = explainer.explain(row, weights={"ratio": 0.5})
    (finding,) = explainer.diagnose(explanation).findings
    assert float(finding.saved) == 0.5
    assert "a weight of 2 would do instead of 2.5" in finding.sentence
    required = explainer.diagnose(explainer.explain(row, require=["ratio"]))
    assert required.findings == ()


def test_an_explanation_of_another_model_is_refused() -> None:
    card, table, row = make_outlier_case()
    richer = Bins("income", edges=(8,), points=(0, 10))
    other = Explainer(make_card(richer, LOW_DEBT, HIGH_RATIO), table, desired="good")
    with pytest.raises(InputError, match="another"):
        other.diagnose(Explainer(card, table, desired="good").explain(row))


def test_a_row_with_values_of_its_own_is_diagnosed_and_one_of_a_batch() -> None:
    card, table, row = make_outlier_case()
    explainer = Explainer(card, table, desired="good")
    own = row | {"ratio": 0.35}
    alone = explainer.diagnose(explainer.explain(own))
    assert [one.constraint for one in alone.findings] == ["cf.ratio <= 0.7"]
    rows = pd.DataFrame([own, row | {"ratio": 0.45}])
    in_batch = next(iter(explainer.explain_many(rows, workers=1)))
    assert in_batch.space != explainer.explain(own).space
    assert explainer.diagnose(in_batch).findings == alone.findings


def test_values_beyond_the_range_stay_part_of_the_space() -> None:
    card, table, row = make_outlier_case()
    table.loc[0, "ratio"] = 0.7
    explainer = Explainer(card, table, desired="good")
    assert explainer.explain(row).lower_bound == 2
    rows = pd.DataFrame([row, row | {"ratio": 1.95}])  # of another row of the batch
    in_batch = next(iter(explainer.explain_many(rows, workers=1)))
    assert in_batch.extended_values == {"ratio": (1.95,)}
    diagnosis = explainer.diagnose(in_batch)
    assert diagnosis.lower_bound == 3
    (finding,) = diagnosis.findings
    assert (finding.saved, finding.constraint) == (1, "cf.ratio <= 0.7")
    assert "(0 of 90 past rows)" in finding.sentence


def test_what_an_interrupt_leaves_open_is_said() -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    card, table, row = make_outlier_case()
    explainer = Explainer(card, table, desired="good")
    diagnosis = explainer.diagnose(explainer.explain(row), budget=Budget(callback=interrupt))
    assert diagnosis.findings == ()
    assert diagnosis.undecided == diagnosis.tried > 0
    assert "it is not known whether the rule would be shorter" in str(diagnosis)


def test_a_diagnosis_is_plain_data_and_has_a_view_for_notebooks() -> None:
    _, diagnosis = diagnose(*make_outlier_case())
    data = json.loads(json.dumps(diagnosis.to_dict()))
    assert data["findings"][0]["saved"] == 1
    assert data["findings"][0]["rule"] == diagnosis.findings[0].rule.to_dict()
    assert "Without ratio above 0.7" in diagnosis._repr_html_()
    assert repr(diagnosis).startswith("<Diagnosis: 1 finding")


# Every claim of random models against an enumeration of all rules and all points.

Point = tuple[int, ...]


def find_least_length(row: Point, desired: Sequence[Point]) -> int:
    """The least number of bounds at the row's values that exclude all of these points."""
    duals = [{(j, p < r) for j, (p, r) in enumerate(zip(point, row, strict=True)) if p != r} for point in desired]
    elements = sorted(set().union(*duals))
    for length in range(len(elements) + 1):
        for rule in itertools.combinations(elements, length):
            if all(dual & {*rule} for dual in duals):
                return length
    raise AssertionError("the row itself is desired")


NAMES = ["a", "b", "c", "d"]


def make_random_explainer(seed: int, kind: str) -> tuple[Explainer, Any, pd.DataFrame]:
    """An explainer of a model of noise; the largest value of every feature is rare."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.integers(0, 3, (60, 4)), columns=NAMES)
    for name in NAMES:
        table.loc[int(rng.integers(60)), name] = 3
    model: Any = DecisionTreeClassifier(max_depth=4, random_state=seed)
    if kind == "boosted":
        model = GradientBoostingClassifier(n_estimators=5, max_depth=3, learning_rate=0.5, random_state=seed)
    model.fit(table, rng.random(60) < 0.45)
    return Explainer(model, table, desired=True, domain="seen"), model, table


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["tree", "boosted"])
def test_what_would_do_is_what_an_enumeration_finds(seed: int, kind: str) -> None:
    explainer, model, table = make_random_explainer(seed, kind)
    denied = explainer.row_numbers[~explainer.outcomes]
    row = tuple(table.iloc[int(denied[0])].tolist())
    grid = list(itertools.product(*(sorted(table[name].unique().tolist()) for name in NAMES)))
    good = [p for p, is_good in zip(grid, model.predict(pd.DataFrame(grid, columns=NAMES)), strict=True) if is_good]
    diagnosis = explainer.diagnose(explainer.explain(int(denied[0])))
    least = find_least_length(row, good)
    assert diagnosis.lower_bound == least
    assert diagnosis.undecided == 0
    for finding in diagnosis.findings:
        if finding.constraint is not None:
            assert_is_true(finding, row, good, least)
    # Conversely, an end of a feature that costs components is found.
    most = max(1, int(OUTLIER_SHARE * len(table)))
    for j, name in enumerate(NAMES):
        bounds = [v for v in table[name].unique() if v >= row[j] and (table[name] > v).sum() <= most]
        if bounds:
            saved = least - find_least_length(row, [p for p in good if p[j] <= min(bounds)])
            tops = [f.saved for f in diagnosis.findings if (f.feature, f.kind) == (name, "outlier")]
            assert not saved or saved in tops


def assert_is_true(finding: DiagnosisFinding, row: Point, good: Sequence[Point], least: int) -> None:
    """Among the points that satisfy the constraint, the rule holds and is as long as the shortest."""
    points = pd.DataFrame(good, columns=NAMES)
    text = (finding.constraint or "").replace("cf.", "")
    left = points[points.eval(text)]
    assert pd.DataFrame([row], columns=NAMES).eval(text).all()
    assert finding.rule is not None
    assert not finding.rule.covers(left).any()
    assert finding.rule.covers(pd.DataFrame([row], columns=NAMES)).all()
    shortest = find_least_length(row, [tuple(point) for point in left.to_numpy().tolist()])
    assert finding.rule.cardinality == shortest == least - finding.saved


def list_beside(numbers: Sequence[float], least: float, most: float) -> list[float]:
    """Numbers with their neighbours among float64 and among float32, which scikit-learn's trees compare, in a range."""
    exact, single = np.array(numbers, dtype=np.float64), np.array(numbers, dtype=np.float32)
    beside = [exact, single]
    for way in (-np.inf, np.inf):
        next_single = np.nextafter(single, np.float32(way)).astype(np.float64)
        beside += [np.nextafter(exact, way), next_single, (single.astype(np.float64) + next_single) / 2]
    found = np.concatenate(beside, dtype=np.float64)
    return sorted({least, most, *found[(found >= least) & (found <= most)].tolist()})


@pytest.mark.parametrize("seed", range(6))
def test_over_intervals_no_number_that_is_left_breaks_a_shorter_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(120, 3)).round(1), columns=["a", "b", "c"])
    model = GradientBoostingClassifier(n_estimators=4, max_depth=2, learning_rate=0.8, random_state=seed)
    model.fit(table, rng.random(120) < 0.4)
    explainer = Explainer(model, table, desired=True)
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    rows = explainer.row_numbers[~explainer.outcomes][:4].tolist()
    found = [(row, one) for row in rows for one in explainer.diagnose(explainer.explain(row)).findings]
    searched = [(row, finding) for row, finding in found if finding.constraint is not None]
    assert searched
    for row, finding in searched:
        bounds = [float(number) for number in re.findall(r"-?\d+\.\d+", finding.constraint)]
        axes = []
        for j, name in enumerate(table.columns):  # the model turns at no other place, nor do constraint and rule
            turns = [threshold for tree in trees for threshold in tree.threshold[tree.feature == j].tolist()]
            places = [*turns, table[name][row], *(bounds if finding.feature == name else [])]
            axes.append(list_beside(places, table[name].min(), table[name].max()))
        grid = pd.DataFrame(np.stack(np.meshgrid(*axes), -1).reshape(-1, 3), columns=table.columns)
        good = grid[model.predict(grid)]
        left = good[good.eval(finding.constraint.replace("cf.", ""))]
        assert not finding.rule.covers(left).any()
        assert finding.rule.covers(good).any()  # over the whole space it does not hold


def test_random_models_have_findings_of_both_kinds() -> None:
    kinds = set[str]()
    for seed in range(10):
        explainer, _, _ = make_random_explainer(seed, "tree")
        row = int(explainer.row_numbers[~explainer.outcomes][0])
        kinds |= {finding.kind for finding in explainer.diagnose(explainer.explain(row)).findings if finding.saved}
    assert kinds == {"outlier", "not monotone"}


@pytest.mark.parametrize("accounts", [4, 9])  # one past row has 4, none has 9
def test_a_model_that_uses_few_features_is_diagnosed(accounts: int) -> None:
    table = pd.DataFrame({"income": [500, 900, 700], "accounts": [4, 1, 2], "home": [0, 1, 0]})
    model = DecisionTreeClassifier(random_state=0).fit(table, [0, 1, 1])
    explainer = Explainer(model, table, desired=1)
    assert explainer.unused_features
    explanation = explainer.explain({"income": 500, "accounts": accounts, "home": 0})
    assert explainer.diagnose(explanation).rule == explanation.rule

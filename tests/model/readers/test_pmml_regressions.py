"""General regressions, interactions, segments with conditions and chains of PMML: evaluated by definitions that are
written here row by row, and read as they are evaluated, at every point of small spaces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhaustive_checks import assert_shortest, measure_undecided_share

from ironrule import Explainer, InputError, ModelError, PmmlModel, check
from pmml_files import (
    CLASSES,
    INVERSES,
    PARAMETERS,
    THREE_CLASSES,
    Row,
    add_up,
    draw_betas,
    ensemble,
    list_rows,
    segment,
    write_file,
    write_general,
)


def to_table(rows: list[Row], names: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["x", "y", "c"]).astype({"x": float, "y": float, "c": object})
    return table[names].drop_duplicates(ignore_index=True)


def assert_read(model: PmmlModel, table: pd.DataFrame, most_open: float = 0.2, **target: Any) -> None:
    """The reading decides every point as the model does; a rule of it is shortest; the checker comes to the same."""
    explainer = Explainer(model, table, domain="seen", **target)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) < most_open
    if explainer.outcomes.any() and not explainer.outcomes.all():
        assert_shortest(explainer, rows=1)
        wide = Explainer(model, table, **target)
        denied = int(np.flatnonzero(~wide.outcomes)[0])
        found = check(wide.explain(denied), model, table, **target)
        assert found.status == "proven", str(found)


@pytest.mark.parametrize("link", INVERSES)
def test_generalized_linear_models_answer_by_their_definition_and_are_read(link: str) -> None:
    for seed in range(2):
        rng = np.random.default_rng([seed, len(link)])
        betas = draw_betas(rng, PARAMETERS)
        is_number = link in ("identity", "log", "logc")
        kind = 'functionName="regression"' if is_number else 'functionName="classification" distribution="binomial"'
        text = write_general(
            {"" if is_number else "good": betas},
            f'modelType="generalizedLinear" linkFunction="{link}" {kind}',
            PARAMETERS,
        )
        model = PmmlModel(write_file(text, target="" if is_number else CLASSES))
        table = to_table(list_rows(missing=False), ["x", "y", "c"])
        sums = [add_up(betas, PARAMETERS, row) for row in table.to_dict("records")]
        expected = [INVERSES[link](number) for number in sums]
        if is_number:
            numbers = model.predict(table)
            assert numbers.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
            level = float(np.sort(numbers)[len(numbers) // 3])
            assert_read(model, table, threshold=level)  # a score that some rows have
            continue
        assert model.predict_proba(table)[:, 1].tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
        clear = np.abs(np.array(expected) - 0.5) > 1e-9
        assert (model.predict(table) == np.where(np.array(expected) > 0.5, "good", "bad"))[clear].all()
        assert_read(model, table, desired="good")
        assert_read(model, table, desired="bad", threshold=float(rng.uniform(0.2, 0.8)))


def test_a_multinomial_model_has_a_sum_for_each_class_but_the_reference() -> None:
    rng = np.random.default_rng(3)
    parameters = {name: PARAMETERS[name] for name in ("p0", "p1", "p2", "p6", "p5")}
    betas = {target: draw_betas(rng, parameters) for target in ("good", "best")}
    kind = 'modelType="multinomialLogistic" functionName="classification" targetReferenceCategory="bad"'
    model = PmmlModel(write_file(write_general(betas, kind, parameters), target=THREE_CLASSES))
    table = to_table(list_rows(missing=False), ["x", "y", "c"])
    rows = table.to_dict("records")
    sums = np.array([[0.0, *(add_up(own, parameters, row) for own in betas.values())] for row in rows])
    chances = np.exp(sums) / np.exp(sums).sum(axis=1, keepdims=True)
    assert model.predict_proba(table) == pytest.approx(chances, rel=1e-12)
    assert model.classes_.tolist() == ["bad", "good", "best"]
    for desired in ("best", ["good", "best"]):
        explainer = Explainer(model, table, domain="seen", desired=desired)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) < 0.2
        assert_shortest(explainer, rows=1)


def test_missing_values_leave_a_general_regression_without_an_answer() -> None:
    betas = {"p0": 0.5, "p1": -0.25, "p2": 1.0, "p5": -0.5}
    kind = 'modelType="generalizedLinear" linkFunction="logit" functionName="classification"'
    parameters = {name: PARAMETERS[name] for name in betas}
    model = PmmlModel(write_file(write_general({"good": betas}, kind, parameters), target=CLASSES))
    for row in ({"x": None, "c": "b"}, {"x": 1.0, "c": None}):
        with pytest.raises(ModelError, match="row 0"):
            model.predict(pd.DataFrame([row]).astype({"x": float, "c": object}))
    table = pd.DataFrame({"x": [0.0, 1.0, 4.0, np.nan], "c": ["a", "b", "b", "a"]})
    with pytest.raises(ModelError, match="no prediction for row 3"):
        Explainer(model, table, desired="good")


def test_what_of_a_general_regression_is_not_understood_is_refused_by_name_and_line() -> None:
    kind = 'modelType="generalizedLinear" linkFunction="logit" functionName="classification"'
    good = write_general({"good": {"p0": 1.0, "p1": 1.0}}, kind, PARAMETERS)
    refused = {
        good.replace("generalizedLinear", "ordinalMultinomial"): "line 1 has modelType='ordinalMultinomial'",
        good.replace('"logit"', '"negbin"'): "has linkFunction='negbin'",
        good.replace('"logit"', '"logit" trialsValue="3"'): "has trialsValue",
        good.replace(
            "'good'", "'bad'", 1
        ): "must have parameters (PCell) with a targetCategory for every class but one",
        good.replace('predictorName="x"', 'predictorName="z"', 1): "PPCell in line",
        good.replace('value="2"', 'value="0.5"'): "a whole exponent from 1 to 10",
        good.replace('<Predictor name="c"/>', '<Predictor name="c"><Matrix/></Predictor>'): "contrast matrix",
        good.replace("parameterName='p1'", "parameterName='p9'"): "names the parameter 'p9'",
    }
    for text, words in refused.items():
        with pytest.raises(InputError) as caught:
            PmmlModel(write_file(text, target=CLASSES))
        assert words in str(caught.value)


PRODUCTS = """<RegressionModel functionName="regression"><MiningSchema><MiningField name="x"/><MiningField name="y"/>
  </MiningSchema><RegressionTable intercept="-1"><NumericPredictor name="y" coefficient="2"/>
  <PredictorTerm coefficient="0.5"><FieldRef field="x"/>{more}</PredictorTerm></RegressionTable></RegressionModel>"""


def test_a_product_of_a_field_with_itself_is_read_and_one_of_two_fields_is_asked() -> None:
    table = to_table(list_rows(missing=False), ["x", "y"])
    square = PmmlModel(write_file(PRODUCTS.format(more='<FieldRef field="x"/>')))
    assert square.predict(table).tolist() == pytest.approx((-1 + 2 * table["y"] + table["x"] ** 2 / 2).tolist())
    assert_read(square, table, threshold=2.0)
    both = PmmlModel(write_file(PRODUCTS.format(more='<FieldRef field="y"/>')))
    assert both.predict(table).tolist() == pytest.approx((-1 + 2 * table["y"] + table["x"] * table["y"] / 2).tolist())
    assert "the numbers of several features" in str(Explainer(both, table, threshold=1.0).unreadable_reason)


def test_sums_whose_large_parts_cancel_are_known_less_exactly() -> None:
    """With intercepts of 1e10 the model itself loses what the difference of both does not show."""
    tables = "".join(
        f'<RegressionTable intercept="1e10" targetCategory="{target}">'
        f'<NumericPredictor name="x" coefficient="{slope}"/></RegressionTable>'
        for target, slope in (("bad", 1e-7), ("good", 1.0000001e-7))
    )
    kind = 'functionName="classification" normalizationMethod="softmax"'
    text = f"<RegressionModel {kind}>SCHEMA{tables}</RegressionModel>"
    model = PmmlModel(write_file(text, target=CLASSES))
    table = pd.DataFrame({"x": [-4.0, -3.0, -1.0, 0.0, 1.0, 2.0, 3.0]})
    explainer = Explainer(model, table, domain="seen", desired="good")
    measure_undecided_share(explainer)


def linear(intercept: float, slope: float, field: str = "x") -> str:
    return f"""<RegressionModel functionName="regression">SCHEMA<RegressionTable intercept="{intercept}">
      <NumericPredictor name="{field}" coefficient="{slope}"/></RegressionTable></RegressionModel>"""


STEP = """<TreeModel functionName="regression">SCHEMA<Node><True/>
  <Node score="{low}"><SimplePredicate field="x" operator="lessThan" value="2"/></Node>
  <Node score="{high}"><True/></Node></Node></TreeModel>"""
IS_A = '<SimplePredicate field="c" operator="equal" value="a"/>'
NO_X = '<SimplePredicate field="x" operator="isMissing"/>'


def test_the_first_segment_whose_condition_holds_decides() -> None:
    text = ensemble(
        "selectFirst",
        segment(NO_X, linear(0.25, 1.0, "y")),
        segment(IS_A, linear(-1.0, 1.0)),
        segment("<True/>", STEP.format(low=0.0, high=1.0)),
    )
    model = PmmlModel(write_file(text))
    table = to_table(list_rows(missing=True), ["x", "y", "c"]).dropna(subset=["y"])
    expected = [
        0.25 + row["y"] if np.isnan(row["x"]) else row["x"] - 1 if row["c"] == "a" else float(row["x"] >= 2)
        for row in table.to_dict("records")
    ]
    assert model.predict(table).tolist() == pytest.approx(expected)
    for level in (0.5, 0.75, 1.0):
        assert_read(model, table, threshold=level)
    assert_read(model, table, threshold=0.75, desired="below")


def test_segments_with_conditions_are_added_where_they_hold() -> None:
    trees = [segment("<True/>", STEP.format(low=-1.0, high=0.5)), segment(IS_A, STEP.format(low=2.0, high=-1.25))]
    model = PmmlModel(write_file(ensemble("sum", *trees)))
    table = to_table(list_rows(missing=False), ["x", "c"])
    is_a, high = (table["c"] == "a").to_numpy(), (table["x"] >= 2).to_numpy()
    expected = np.where(high, 0.5, -1.0) + is_a * np.where(high, -1.25, 2.0)
    assert model.predict(table).tolist() == expected.tolist()
    for level in (-1.0, 0.0, 0.5):
        assert_read(model, table, threshold=level)
    average = Explainer(PmmlModel(write_file(ensemble("average", *trees))), table, threshold=0.0)
    assert "has a condition, so what is divided by may change" in str(average.unreadable_reason)
    assert average._context.model.desired is not None
    assert (
        PmmlModel(write_file(ensemble("average", *trees))).predict(table).tolist() == (expected / (1 + is_a)).tolist()
    )


def test_segments_that_may_leave_nothing_are_not_read_and_name_the_row() -> None:
    text = ensemble("selectFirst", segment(IS_A, STEP.format(low=0.0, high=1.0)))
    model = PmmlModel(write_file(text))
    table = pd.DataFrame({"x": [0.0, 3.0, 1.0], "c": ["a", "a", "b"]})
    with pytest.raises(ModelError, match="no prediction for row 2: no segment's condition holds"):
        model.predict(table)
    seen = Explainer(model, table[:2], threshold=0.5)
    assert "no prediction" in str(seen.unreadable_reason)
    inner = ensemble("selectFirst", segment(IS_A, linear(0.0, 1.0)), segment("<True/>", linear(0.0, 1.0, "y")))
    gone = pd.DataFrame({"x": [0.0, 1.0, 1.0], "y": [0.0, 1.0, np.nan], "c": ["a", "a", "b"]})
    with pytest.raises(ModelError, match="no prediction for row 2: the model of the segment"):
        PmmlModel(write_file(inner)).predict(gone)


def chain(first: str, last: str, function: str = "classification") -> str:
    return ensemble("modelChain", segment("<True/>", first), segment("<True/>", last), function=function)


SCORED = """<RegressionModel functionName="classification" normalizationMethod="{link}">SCHEMA
  <Output><OutputField name="p" feature="probability" value="{value}" dataType="double" optype="continuous"/></Output>
  <RegressionTable intercept="-1.5" targetCategory="good"><NumericPredictor name="x" coefficient="0.75"/>
    <CategoricalPredictor name="c" value="a" coefficient="-1"/></RegressionTable>
  <RegressionTable intercept="0" targetCategory="bad"/></RegressionModel>"""
ON_P = '<MiningSchema><MiningField name="p"/><MiningField name="target" usageType="target"/></MiningSchema>'


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("value", ["good", "bad"])
def test_a_calibrated_probability_is_read(link: str, value: str) -> None:
    platt = f"""<RegressionModel functionName="classification" normalizationMethod="logit">{ON_P}
      <RegressionTable intercept="-0.8" targetCategory="good"><NumericPredictor name="p" coefficient="2.5"/>
      </RegressionTable><RegressionTable intercept="0" targetCategory="bad"/></RegressionModel>"""
    model = PmmlModel(write_file(chain(SCORED.format(link=link, value=value), platt), target=CLASSES))
    table = to_table(list_rows(missing=False), ["x", "c"])
    sums = -1.5 + 0.75 * table["x"] - (table["c"] == "a")
    chances = np.array([INVERSES[link](number) for number in sums])
    handed = chances if value == "good" else 1 - chances
    calibrated = 1 / (1 + np.exp(0.8 - 2.5 * handed))
    assert model.predict_proba(table)[:, 1] == pytest.approx(calibrated, rel=1e-12)
    assert_read(model, table, desired="good")
    shared = float(np.sort(calibrated)[7])  # a probability that many rows have, which only the model tells from above
    assert_read(model, table, most_open=0.3, desired="good", threshold=shared)
    assert_read(model, table, desired="bad", threshold=0.6)


def test_a_probability_that_is_put_in_bins_is_read() -> None:
    bins = f"""<Scorecard functionName="regression" initialScore="0" useReasonCodes="false">{ON_P}<Characteristics>
      <Characteristic><Attribute partialScore="10">
        <SimplePredicate field="p" operator="lessThan" value="0.2"/></Attribute>
      <Attribute partialScore="-5"><SimplePredicate field="p" operator="lessOrEqual" value="0.6"/></Attribute>
      <Attribute partialScore="20"><True/></Attribute></Characteristic></Characteristics></Scorecard>"""
    model = PmmlModel(write_file(chain(SCORED.format(link="logit", value="good"), bins, "regression"), target=CLASSES))
    table = to_table(list_rows(missing=False), ["x", "c"])
    handed = 1 / (1 + np.exp(1.5 - 0.75 * table["x"] + (table["c"] == "a")))
    points = np.where(handed < 0.2, 10.0, np.where(handed <= 0.6, -5.0, 20.0))
    assert model.predict(table).tolist() == points.tolist()
    for level in (-5.0, 0.0, 10.0, 15.0):
        assert_read(model, table, threshold=level)


def test_a_chain_whose_last_model_sees_a_probability_and_other_fields_is_asked() -> None:
    last = """<RegressionModel functionName="regression"><MiningSchema><MiningField name="p"/><MiningField name="y"/>
      </MiningSchema><RegressionTable intercept="0"><NumericPredictor name="p" coefficient="1"/>
      <NumericPredictor name="y" coefficient="1"/></RegressionTable></RegressionModel>"""
    model = PmmlModel(write_file(chain(SCORED.format(link="logit", value="good"), last, "regression"), target=CLASSES))
    table = to_table(list_rows(missing=False), ["x", "y", "c"])
    assert "and at other columns as well" in str(Explainer(model, table, threshold=1.0).unreadable_reason)

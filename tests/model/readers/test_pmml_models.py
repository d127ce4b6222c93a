"""PMML models: evaluated as the specification says, read as they are evaluated, refused by name and line."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhaustive_checks import assert_shortest, measure_undecided_share

from ironrule import Explainer, InputError, ModelError, PmmlModel, check
from pmml_files import CLASSES, HEAD, NoAnswerError, Row, draw_scorecard, draw_tree, list_rows, write_file


def to_table(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["x", "y", "c"])
    return table.astype({"x": float, "y": float, "c": object})


def ask_each(model: PmmlModel, rows: list[Row]) -> list[Any]:
    """The model's answers row by row, None for no prediction."""
    try:
        return [one.item() if hasattr(one, "item") else one for one in model.predict(to_table(rows))]
    except ModelError:
        if len(rows) == 1:
            return [None]
    half = len(rows) // 2
    return [*ask_each(model, rows[:half]), *ask_each(model, rows[half:])]


def answer_by_definition(answer: Any, row: Row) -> Any:
    try:
        return answer(row)
    except NoAnswerError:
        return None


@pytest.mark.parametrize("seed", range(12))
def test_random_scorecards_and_trees_answer_as_the_specification_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = list_rows(missing=True)
    card, score = draw_scorecard(rng)
    expected = [answer_by_definition(score, row) for row in rows]
    numbers = np.array([ask_each(PmmlModel(write_file(card)), rows), expected], dtype=float)  # NaN: no prediction
    assert numbers[0].tolist() == pytest.approx(numbers[1].tolist(), rel=1e-12, nan_ok=True)
    text, answer = draw_tree(rng, ["bad", "good"], 'functionName="classification"')
    model = PmmlModel(write_file(text, target=CLASSES))
    assert ask_each(model, rows) == [answer_by_definition(answer, row) for row in rows]


@pytest.mark.parametrize("seed", range(16))
def test_random_scorecards_and_trees_are_read_as_they_are_evaluated(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    rows = list_rows(missing=seed % 2 == 0)
    card, score = draw_scorecard(rng)
    expected = [answer_by_definition(score, row) for row in rows]
    known = [number for number in expected if number is not None]
    check_reading(PmmlModel(write_file(card)), rows, expected, threshold=float(rng.choice(known)) if known else 0.0)
    text, answer = draw_tree(rng, ["bad", "good"], 'functionName="classification"')
    model = PmmlModel(write_file(text, target=CLASSES))
    check_reading(model, rows, [answer_by_definition(answer, row) for row in rows], desired="good")


def check_reading(model: PmmlModel, rows: list[Row], expected: list[Any], **target: Any) -> None:
    """Where all rows have a prediction, or none is missing among those that have, the reading is that of the model."""
    table = to_table(rows)[list(model.feature_names_in_)].drop_duplicates()
    if None in expected:
        with pytest.raises(ModelError, match="no prediction"):
            model.predict(table)
        return
    if len(set(expected)) == 1:
        return
    explainer = Explainer(model, table, domain="seen", **target)
    if explainer.unreadable_reason is not None:  # no row lacks a prediction: some condition must be beyond what is seen
        assert "no prediction" in explainer.unreadable_reason
        return
    measure_undecided_share(explainer)  # scores on the threshold are left to the model
    if not explainer.outcomes.all():
        assert_shortest(explainer, rows=1)
        denied = int(np.flatnonzero(~explainer.outcomes)[0])
        found = check(Explainer(model, table, **target).explain(denied), model, table, **target)
        assert found.status == "proven", str(found)


SCORECARD = """
<Scorecard functionName="regression" initialScore="0" reasonCodeAlgorithm="pointsBelow" useReasonCodes="true">SCHEMA
<Characteristics>
 <Characteristic name="first" reasonCode="RC1" baselineScore="19">
  <Attribute partialScore="-9"><SimplePredicate field="c" operator="isMissing"/></Attribute>
  <Attribute partialScore="19"><SimplePredicate field="c" operator="equal" value="a"/></Attribute>
  <Attribute partialScore="3"><SimplePredicate field="c" operator="equal" value="b"/></Attribute>
  <Attribute partialScore="0"><True/></Attribute>
 </Characteristic>
 <Characteristic name="second" reasonCode="RC2" baselineScore="18">
  <Attribute partialScore="-1"><SimplePredicate field="x" operator="isMissing"/></Attribute>
  <Attribute partialScore="-3"><SimplePredicate field="x" operator="lessOrEqual" value="18"/></Attribute>
  <Attribute partialScore="12"><CompoundPredicate booleanOperator="and">
    <SimplePredicate field="x" operator="greaterThan" value="18"/>
    <SimplePredicate field="x" operator="lessOrEqual" value="39"/></CompoundPredicate></Attribute>
  <Attribute partialScore="18" reasonCode="RC3"><SimplePredicate field="x" operator="greaterThan" value="39"/>
   </Attribute>
 </Characteristic>
</Characteristics></Scorecard>"""


def test_a_scorecard_of_the_specifications_form_gives_scores_and_reasons() -> None:
    model = PmmlModel(write_file(SCORECARD))
    people = to_table([
        {"x": 25.0, "y": 0.0, "c": "b"},  # 3 + 12
        {"x": None, "y": 0.0, "c": None},  # -9 - 1
        {"x": 39.5, "y": 0.0, "c": "a"},  # 19 + 18
    ])  # fmt: skip
    assert model.predict(people).tolist() == [15.0, -10.0, 37.0]
    assert model.reason_codes(people) == [["RC1", "RC2"], ["RC1", "RC2"], ["RC1", "RC3"]]
    assert model.feature_names_in_.tolist() == ["x", "c"]


def test_a_scorecard_is_explained_for_every_number_and_proven_to_the_point() -> None:
    model = PmmlModel(write_file(SCORECARD))
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"x": rng.uniform(10, 60, 40).round(), "c": rng.choice(["a", "b", "z"], 40)})
    explainer = Explainer(model, people, threshold=15.0)
    explanation = explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))
    assert str(explanation.verdict).startswith("proven")
    assert explainer.space.features[0].interval is True
    assert check(explanation, model, people, threshold=15.0).status == "proven"


def boosted_chain(last: str, classes: bool = True) -> str:
    """Two stumps added, multiplied and shifted, and put through a link, as converters of boosted trees write it."""
    stump = """<Segment id="{id}"><True/><TreeModel functionName="regression" missingValueStrategy="defaultChild">SCHEMA
      <Node id="r" defaultChild="l"><True/>
      <Node id="l" score="{low}"><SimplePredicate field="{field}" operator="lessThan" value="{cut}"/></Node>
      <Node id="h" score="{high}"><SimplePredicate field="{field}" operator="greaterOrEqual" value="{cut}"/></Node>
      </Node></TreeModel></Segment>"""
    stumps = stump.format(id=1, field="x", cut=2.5, low=-1.0, high=0.5)
    stumps += stump.format(id=2, field="y", cut=0.5, low=-0.25, high=1.0)
    function = "classification" if classes else "regression"
    return f"""<MiningModel functionName="{function}">SCHEMA<Segmentation multipleModelMethod="modelChain">
      <Segment id="1"><True/><MiningModel functionName="regression">SCHEMA
        <Output><OutputField name="raw" optype="continuous" dataType="double" isFinalResult="false"/></Output>
        <Targets><Target rescaleFactor="2" rescaleConstant="-0.5"/></Targets>
        <Segmentation multipleModelMethod="sum">{stumps}</Segmentation></MiningModel></Segment>
      <Segment id="2"><True/>{last}</Segment></Segmentation></MiningModel>"""


LOGIT = """<RegressionModel functionName="classification" normalizationMethod="logit">
  <MiningSchema><MiningField name="target" usageType="target"/><MiningField name="raw"/></MiningSchema>
  <RegressionTable intercept="0.5" targetCategory="good"><NumericPredictor name="raw" coefficient="1"/>
   </RegressionTable>
  <RegressionTable intercept="0" targetCategory="bad"/></RegressionModel>"""

GRID = [
    {"x": x, "y": y, "c": "a"} for x in (0.0, 2.5, float(np.nextafter(2.5, 0)), 4.0, None) for y in (0.0, 0.5, None)
]


def test_a_chain_of_boosted_trees_is_evaluated_and_read() -> None:
    model = PmmlModel(write_file(boosted_chain(LOGIT), target=CLASSES))
    table = to_table(GRID)
    first = np.where(table["x"].fillna(0) < 2.5, -1.0, 0.5) + np.where(table["y"].fillna(0) < 0.5, -0.25, 1.0)
    chances = 1 / (1 + np.exp(-(2 * first)))
    assert model.predict_proba(table)[:, 1] == pytest.approx(chances)
    assert (
        model.predict(table).tolist() == np.where(first > 0, "good", "bad").tolist()
    )  # bad is the first class in a tie
    for target in ({"desired": "good"}, {"desired": "bad"}, {"desired": "good", "threshold": 0.4}):
        explainer = Explainer(model, table[["x", "y"]], domain="seen", **target)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) == 0


FOREST_TREE = """<Segment id="1"{weight}><True/><TreeModel functionName="classification">SCHEMA
  <Node><True/>
   <Node score="{a}"><SimplePredicate field="x" operator="lessOrEqual" value="{cut}"/>
    <ScoreDistribution value="bad" recordCount="{bad}"/><ScoreDistribution value="good" recordCount="1"/></Node>
   <Node score="good"><SimplePredicate field="x" operator="greaterThan" value="{cut}"/>
    <ScoreDistribution value="bad" recordCount="1"/><ScoreDistribution value="good" recordCount="4"/></Node></Node>
  </TreeModel></Segment>"""


@pytest.mark.parametrize("method", ["average", "weightedAverage", "majorityVote", "weightedMajorityVote"])
def test_forests_vote_and_average(method: str) -> None:
    weights = [1.0, 1.0, 1.0] if not method.startswith("weighted") else [0.5, 2.0, 1.0]
    trees = "".join(
        FOREST_TREE.format(weight=f' weight="{weight}"', a="bad", cut=cut, bad=bad)
        for weight, cut, bad in zip(weights, (1.0, 2.0, 3.0), (3, 1, 9), strict=True)
    )
    group = f'<Segmentation multipleModelMethod="{method}">{trees}</Segmentation>'
    text = f'<MiningModel functionName="classification">SCHEMA{group}</MiningModel>'
    model = PmmlModel(write_file(text, target=CLASSES))
    xs = np.array([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
    votes = method.endswith("Vote")
    low = [0.0, 0.0, 0.0] if votes else [1 / 4, 1 / 2, 1 / 10]
    high = 1.0 if votes else 4 / 5
    chance = sum(
        weight * np.where(xs <= cut, share, high)
        for weight, cut, share in zip(weights, (1.0, 2.0, 3.0), low, strict=True)
    ) / sum(weights)
    table = pd.DataFrame({"x": xs})
    assert model.predict_proba(table)[:, 1] == pytest.approx(chance)
    assert model.predict(table).tolist() == np.where(chance > 0.5, "good", "bad").tolist()
    for target in ({"desired": "good"}, {"desired": "good", "threshold": 0.3}):
        explainer = Explainer(model, table, domain="seen", **target)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) == 0


REGRESSION = """<RegressionModel functionName="classification" normalizationMethod="softmax">SCHEMA
  <RegressionTable intercept="-1" targetCategory="good"><NumericPredictor name="x" coefficient="1"/>
   <NumericPredictor name="y" exponent="2" coefficient="0.5"/>
   <CategoricalPredictor name="c" value="a" coefficient="0.75"/></RegressionTable>
  <RegressionTable intercept="0" targetCategory="bad"/></RegressionModel>"""


def test_a_logistic_regression_is_evaluated_and_read() -> None:
    model = PmmlModel(write_file(REGRESSION, target=CLASSES))
    rows = [{"x": x, "y": y, "c": c} for x in (0.0, 1.0, 0.125, 3.0) for y in (0.0, 0.5, 1.0) for c in ("a", "z", None)]
    table = to_table(rows)
    score = -1 + table["x"] + 0.5 * table["y"] ** 2 + 0.75 * (table["c"] == "a")
    assert model.predict_proba(table)[:, 1] == pytest.approx(1 / (1 + np.exp(-score)))
    for target in ({"desired": "good"}, {"desired": "bad", "threshold": 0.3}):
        explainer = Explainer(model, table, domain="seen", **target)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) < 0.1  # a score of 0
    with pytest.raises(ModelError, match="missing or too large"):
        model.predict(to_table([{"x": None, "y": 0.0, "c": "a"}]))


TREATED = {
    "x": 'missingValueReplacement="1" outliers="asExtremeValues" lowValue="0.5" highValue="3"',
    "y": 'outliers="asMissingValues" lowValue="0" highValue="0.5" missingValueReplacement="0.25"',
    "c": 'invalidValueTreatment="asMissing" missingValueReplacement="b"',
}
LISTED = """<DataField name="x" optype="continuous" dataType="float"><Value value="-8" property="missing"/></DataField>
  <DataField name="y" optype="continuous" dataType="double"/>
  <DataField name="c" optype="categorical" dataType="string"><Value value="a"/><Value value="b"/></DataField>"""
LINEAR = """<RegressionModel functionName="regression">SCHEMA<RegressionTable intercept="0">
  <NumericPredictor name="x" coefficient="1"/><NumericPredictor name="y" coefficient="10"/>
  <CategoricalPredictor name="c" value="a" coefficient="100"/>
   <CategoricalPredictor name="c" value="b" coefficient="200"/>
  </RegressionTable></RegressionModel>"""


def test_a_mining_schema_treats_missing_values_outliers_and_unknown_categories() -> None:
    model = PmmlModel(write_file(LINEAR, LISTED, TREATED))
    rows = to_table([
        {"x": 0.1, "y": 0.5, "c": "a"},
        {"x": None, "y": 0.75, "c": "z"},
        {"x": -8.0, "y": None, "c": None},
        {"x": 9.0, "y": 0.0, "c": "b"},
    ])  # fmt: skip
    expected = [0.5 + 5 + 100, 1 + 2.5 + 200, 1 + 2.5 + 200, 3 + 0 + 200]
    assert model.predict(rows).tolist() == expected
    explainer = Explainer(model, rows, threshold=203.25)
    assert explainer.unreadable_reason is None
    assert [feature.interval for feature in explainer.space.features] == [None, None, None]
    assert measure_undecided_share(explainer) < 0.05


def test_an_invalid_value_gives_no_prediction_unless_the_schema_says_otherwise() -> None:
    with pytest.raises(ModelError, match="row 0: the value of 'c' is not valid"):
        PmmlModel(write_file(LINEAR, LISTED)).predict(to_table([{"x": 1.0, "y": 0.0, "c": "z"}]))


DERIVED = """<RegressionModel functionName="regression">SCHEMA<LocalTransformations>
  <DerivedField name="line" optype="continuous" dataType="double"><NormContinuous field="x" outliers="asExtremeValues">
    <LinearNorm orig="0" norm="0"/><LinearNorm orig="2" norm="1"/><LinearNorm orig="4" norm="5"/></NormContinuous>
     </DerivedField>
  <DerivedField name="bin" optype="categorical" dataType="string">
   <Discretize field="x" mapMissingTo="none" defaultValue="far">
    <DiscretizeBin binValue="low"><Interval closure="openClosed" rightMargin="1"/></DiscretizeBin>
    <DiscretizeBin binValue="mid"><Interval closure="openClosed" leftMargin="1" rightMargin="2"/></DiscretizeBin>
    </Discretize></DerivedField>
  <DerivedField name="code" optype="continuous" dataType="double">
   <MapValues outputColumn="out" defaultValue="7" mapMissingTo="9">
    <FieldColumnPair field="c" column="in"/><InlineTable><row><in>a</in><out>1</out></row><row><in>b</in><out>2</out>
     </row>
    </InlineTable></MapValues></DerivedField>
  <DerivedField name="sum" optype="continuous" dataType="double"><Apply function="if">
    <Apply function="greaterThan"><FieldRef field="y"/><Constant dataType="double">0.25</Constant></Apply>
    <Apply function="*"><FieldRef field="y"/><Constant dataType="double">4</Constant></Apply>
    <Constant dataType="double">-1</Constant></Apply></DerivedField></LocalTransformations>
 <RegressionTable intercept="0"><NumericPredictor name="line" coefficient="1"/>
  <NumericPredictor name="code" coefficient="10"/><NumericPredictor name="sum" coefficient="100"/>
  <CategoricalPredictor name="bin" value="low" coefficient="1000"/>
   <CategoricalPredictor name="bin" value="far" coefficient="2000"/>
 </RegressionTable></RegressionModel>"""


def test_derived_fields_are_computed_and_read_through() -> None:
    model = PmmlModel(write_file(DERIVED))
    rows = to_table([
        {"x": 1.0, "y": 0.5, "c": "a"},  # 0.5 + 10 + 200 + 1000
        {"x": 3.0, "y": 0.25, "c": "b"},  # 3 + 20 - 100 + 2000
        {"x": 9.0, "y": 1.0, "c": None},  # 5 + 90 + 400 + 2000
        {"x": 1.5, "y": 0.0, "c": "z"},  # 0.75 + 70 - 100
    ])  # fmt: skip
    assert model.predict(rows).tolist() == [1210.5, 1923.0, 2495.0, -29.25]
    explainer = Explainer(model, rows, threshold=1300.0)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) < 0.05


def test_fields_that_meet_in_one_are_not_read() -> None:
    mixed = DERIVED.replace(
        '<FieldRef field="y"/><Constant dataType="double">4', '<FieldRef field="x"/><Constant dataType="double">4'
    )
    rows = to_table([{"x": x, "y": y, "c": "a"} for x in (0.0, 1.0, 4.0) for y in (0.0, 1.0)])
    assert "mix" in str(Explainer(PmmlModel(write_file(mixed)), rows, threshold=500.0).unreadable_reason)


def test_a_null_prediction_for_missing_values_leaves_a_space_without_them_readable() -> None:
    tree = """<TreeModel functionName="regression" missingValueStrategy="nullPrediction">SCHEMA<Node><True/>
      <Node score="1"><SimplePredicate field="x" operator="lessThan" value="2"/></Node>
      <Node score="2"><SimplePredicate field="x" operator="greaterOrEqual" value="2"/></Node></Node></TreeModel>"""
    model = PmmlModel(write_file(tree))
    present = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    explainer = Explainer(model, present, threshold=1.5)
    assert explainer.unreadable_reason is None
    with pytest.raises(ModelError, match="row 1: a value is missing at the node in line 1"):
        model.predict(pd.DataFrame({"x": [0.0, np.nan]}))


def test_a_model_that_leaves_numbers_without_a_prediction_is_not_read() -> None:
    tree = """<TreeModel functionName="regression">SCHEMA<Node><True/>
      <Node score="1"><SimplePredicate field="x" operator="lessThan" value="2"/></Node>
      <Node score="2"><SimplePredicate field="x" operator="greaterThan" value="2"/></Node></Node></TreeModel>"""
    model = PmmlModel(write_file(tree))
    explainer = Explainer(model, pd.DataFrame({"x": [0.0, 1.0, 3.0]}), threshold=1.5)
    assert "no prediction although no value is missing" in str(explainer.unreadable_reason)


def test_single_precision_fields_are_compared_in_single_precision() -> None:
    tree = """<TreeModel functionName="regression">SCHEMA<Node><True/>
      <Node score="1"><SimplePredicate field="x" operator="lessOrEqual" value="0.1"/></Node>
      <Node score="2"><True/></Node></Node></TreeModel>"""
    nearest = float(np.float32(0.1))
    xs = [0.1, nearest, float(np.nextafter(nearest, 1)), float(np.nextafter(np.float32(0.1), np.float32(1)))]
    single = PmmlModel(write_file(tree, LISTED))
    assert single.predict(pd.DataFrame({"x": xs})).tolist() == [1.0, 1.0, 1.0, 2.0]
    assert PmmlModel(write_file(tree)).predict(pd.DataFrame({"x": xs})).tolist() == [1.0, 2.0, 2.0, 2.0]
    explainer = Explainer(single, pd.DataFrame({"x": [0.0, 0.05, 1.0]}), threshold=1.5)
    assert measure_undecided_share(explainer) == 0


def test_a_model_survives_pickling() -> None:
    model = pickle.loads(pickle.dumps(PmmlModel(write_file(SCORECARD))))
    assert model.predict(to_table([{"x": 25.0, "y": 0.0, "c": "b"}])).tolist() == [15.0]


REFUSED = {
    '<NeuralNetwork functionName="regression"/>': "NeuralNetwork in line 2 inside PMML is not understood",
    SCORECARD.replace("<True/>", "<Maybe/>"): "Maybe in line 9 inside Attribute is not understood",
    SCORECARD.replace('operator="isMissing"', 'operator="resembles"'): "line 6 has operator='resembles'",
    SCORECARD.replace('field="x"', 'field="nothing"', 1): "line 12 names the field 'nothing'",
    SCORECARD.replace('partialScore="3"', 'partialScore="nan"'): "line 8 has partialScore 'nan'",
    SCORECARD.replace('operator="equal" value="a"', 'operator="lessThan" value="a"'): "compares texts by lessThan",
    REGRESSION.replace("softmax", "simplemax"): "normalizationMethod='simplemax', which is not understood",
    boosted_chain(LOGIT).replace("modelChain", "selectAll"): "multipleModelMethod='selectAll'",
    boosted_chain(LOGIT).replace("<True/><RegressionModel", '<False/><RegressionModel'): "has a condition",
    boosted_chain(LOGIT).replace('rescaleFactor="2"', 'castInteger="round"'): "has castInteger",
    DERIVED.replace('function="*"', 'function="x-secret"'): "has the function 'x-secret', which is not understood",
    DERIVED.replace('field="y"', 'field="sum"'): "names the field 'sum', which is not defined before it",
    LINEAR.replace("regression", "clustering", 1): "functionName='clustering'",
}  # fmt: skip


@pytest.mark.parametrize("model", REFUSED)
def test_what_is_not_understood_is_refused_by_name_and_line(model: str) -> None:
    with pytest.raises(InputError) as caught:
        PmmlModel(write_file("\n" + model, target=CLASSES))
    assert REFUSED[model] in str(caught.value)


HOSTILE = {
    b"": "not an XML file",
    b"<PMML": "not an XML file",
    b"\x00\xff" * 50: "not an XML file",
    b"<html/>": "must hold the element PMML, got the element 'html'",
    b'<PMML version="3.2"/>': "version of PMML must be one of",
    b'<PMML version="4.4"/>': "must have a DataDictionary and one model",
    b'<!DOCTYPE PMML [<!ENTITY a "b">]><PMML version="4.4">&a;</PMML>': "DOCTYPE",
    b'<!DOCTYPE PMML SYSTEM "file:///etc/passwd"><PMML version="4.4"/>': "DOCTYPE",
    b'<PMML version="4.4">&unknown;</PMML>': "not an XML file",
    b'<PMML version="4.4">' + b"<a>" * 5000: "too many levels",
    HEAD.encode()
    + b"<DataDictionary><DataField name='a' dataType='time'/></DataDictionary><Scorecard/></PMML>": "dataType='time'",
}


@pytest.mark.parametrize("source", HOSTILE)
def test_damaged_and_hostile_files_are_refused(source: bytes) -> None:
    with pytest.raises(InputError) as caught:
        PmmlModel(source)
    assert HOSTILE[source] in str(caught.value)

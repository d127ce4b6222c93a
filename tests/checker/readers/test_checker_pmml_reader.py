"""The checker's reading of PMML files against the model's own decisions, and against definitions row by row.

Rows lie on all constants that the files compare with, on the numbers next to these in double and in single precision,
and hold missing and unknown values.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reading_values import decide

from ironrule import Explainer, ModelError, PmmlModel, check
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, SumForm
from ironrule.checker.readers.pmml.fields import parse_file
from ironrule.checker.readers.pmml.models import read_pmml
from pmml_files import (
    CLASSES,
    INVERSES,
    PARAMETERS,
    THREE_CLASSES,
    NoAnswerError,
    draw_betas,
    draw_predicate,
    draw_scorecard,
    draw_tree,
    ensemble,
    list_rows,
    segment,
    write_file,
    write_general,
)

Rng = np.random.Generator


def spread(numbers: list[float]) -> list[float]:
    """Numbers, those next to them in double and in single precision, and those halfway."""
    single = [np.float32(one) for one in numbers]
    beside = [np.nextafter(one, np.float32(end)) for one in single for end in (-np.inf, np.inf)]
    near = [float(np.nextafter(one, end)) for one in numbers for end in (-np.inf, np.inf)]
    return sorted({*numbers, *map(float, single), *map(float, beside), *near, *(one + 0.5 for one in numbers)})


def list_hard_rows(rng: Rng, missing: bool, rows: int = 400) -> pd.DataFrame:
    """Rows of numbers and texts that files turn at, drawn at random."""
    numbers = spread([-8.0, 0.0, 0.1, 0.5, 1.0, 2.0, 2.5, 4.0])
    texts = ["a", "b", "d e", "other"]
    table = pd.DataFrame({"x": rng.choice(numbers, rows), "y": rng.choice(numbers, rows), "c": rng.choice(texts, rows)})
    table["c"] = table["c"].astype(object)
    for name in table.columns if missing else ():
        table.loc[rng.random(rows) < 0.15, name] = None
    return table


def list_targets(model: PmmlModel, table: pd.DataFrame) -> list[tuple[EstimatorTarget, np.ndarray]]:
    """What may be asked of a model, with the answers of its own that decide it."""
    answers = model.predict(table)
    if not model.is_classifier:
        seen = np.unique(answers)
        levels = [*seen[len(seen) // 8 :: max(1, len(seen) // 4)].tolist(), float(np.median(answers)) + 1e-9]
        levels = [level for level in levels if not 0 < abs(level) < 1e-6]  # of probabilities and exponentials
        found = [(EstimatorTarget((), level), answers > level) for level in levels]
        return [*found, *((EstimatorTarget((), level, "below"), answers < level) for level in levels)]
    places = range(len(model.classes_))
    found = [(EstimatorTarget((k,), None), answers == model.classes_[k]) for k in places]
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(table)
        for k, level in itertools.product(places, (0.25, 0.5, 0.6)):
            found.append((EstimatorTarget((k,), level), chances[:, k] > level))
            found.append((EstimatorTarget((k,), level, "below"), chances[:, k] < level))
    return found


def compare(model: PmmlModel, table: pd.DataFrame) -> float:
    """Assert that the reading decides as the model does, and give the share of rows that it leaves open."""
    open_rows = []
    columns = [table[name].to_numpy() for name in model.feature_names_in_]
    for target, desired in list_targets(model, table):
        reading = read(model, target)
        possible, sure = decide(reading, columns)
        assert not (desired & ~possible).any(), (target, table[desired & ~possible])
        assert not (sure & ~desired).any(), (target, table[sure & ~desired])
        open_rows.append((possible & ~sure).mean())
        assert_order(reading, [np.unique(column[~pd.isna(column)]) for column in columns])
    return float(np.mean(open_rows))


def assert_order(reading: SumForm, columns: list[Any]) -> None:
    """Splits that say so turn once as numbers rise, and terms that say so rise or fall all the way."""
    parts = [part for margins in reading.alternatives for margin in margins for part in margin.parts]
    splits = {split for part in parts for tree in part.trees for split in tree.splits if split is not None}
    for split in splits:
        answers = split.goes_left(columns[split.column]) if split.turns_once else np.zeros(2)
        assert np.count_nonzero(answers[1:] != answers[:-1]) <= 1
    for term in (term for part in parts for term in part.terms if term.monotone):
        steps = np.diff(term.contribution(columns[term.column]))
        assert (steps >= 0).all() or (steps <= 0).all()


def read(model: PmmlModel, target: EstimatorTarget) -> SumForm:
    if target.direction == "above":
        reading = read_pmml(model, target)
        assert reading is not None
        return reading
    assert target.threshold is not None
    below = float(np.nextafter(target.threshold, -np.inf))
    return read(model, EstimatorTarget(target.desired_classes, below)).negate()


def answer_rows(answer: Any, missing: bool) -> tuple[pd.DataFrame, list[Any]]:
    rows = list_rows(missing)
    found = []
    for row in rows:
        try:
            found.append(answer(row))
        except NoAnswerError:
            found.append(None)
    return pd.DataFrame(rows).astype({"x": float, "y": float, "c": object}), found


def decide_or_refuse(model: PmmlModel, target: EstimatorTarget, columns: list[Any]) -> Any:
    """What is decided; None where rows that are not among these may have no prediction."""
    try:
        return decide(read(model, target), columns)
    except NoReading as reason:
        if "no prediction" not in str(reason):
            raise
        return None


@pytest.mark.parametrize("seed", range(10))
def test_random_scorecards_and_trees_are_read_as_they_are_defined(seed: int) -> None:
    rng, missing = np.random.default_rng(seed), seed % 2 == 0
    card, score = draw_scorecard(rng)
    text, choose = draw_tree(rng, ["bad", "good"], 'functionName="classification"')
    for model, answer in ((PmmlModel(write_file(card)), score), (PmmlModel(write_file(text, target=CLASSES)), choose)):
        table, expected = answer_rows(answer, missing)
        columns = [table[name].to_numpy() for name in model.feature_names_in_]
        if model.is_classifier:
            target, desired = EstimatorTarget((1,), None), [one == "good" for one in expected]
        else:  # halfway between two scores
            level = float(np.mean(sorted({one for one in expected if one is not None} or {0.0})[:2])) + 1e-6
            target, desired = EstimatorTarget((), level), [one is not None and one > level for one in expected]
        if None in expected:  # a row without a prediction must never be decided
            with pytest.raises(NoReading, match="no prediction"):
                decide(read(model, target), columns)
            continue
        found = decide_or_refuse(model, target, columns)
        assert found is None or found[0].tolist() == found[1].tolist() == desired


def draw_treatments(rng: Rng) -> tuple[str, dict[str, str]]:
    """Fields of several types with values that are listed, and their treatments."""
    kind = ("double", "float")[rng.integers(0, 2)]
    inside = ("", '<Value value="-8" property="missing"/>', '<Interval closure="closedOpen" leftMargin="0"/>')
    listed = "".join(f'<Value value="{text}"/>' for text in ("a", "b")) if rng.random() < 0.5 else ""
    how = ("asIs", "asMissing")
    outliers = ("asIs", "asMissingValues", "asExtremeValues")
    fields = (
        f'<DataField name="x" optype="continuous" dataType="{kind}">{inside[rng.integers(0, 3)]}</DataField>'
        '<DataField name="y" optype="continuous" dataType="double"/>'
        f'<DataField name="c" optype="categorical" dataType="string">{listed}</DataField>'
    )
    return fields, {
        "x": f'invalidValueTreatment="{how[rng.integers(0, 2)]}" missingValueReplacement="0.1"',
        "y": f'outliers="{outliers[rng.integers(0, 3)]}" lowValue="0.1" highValue="2" missingValueReplacement="0.5"',
        "c": f'invalidValueTreatment="{how[rng.integers(0, 2)]}"' + rng.choice(["", ' missingValueReplacement="b"']),
    }


DERIVED = """<LocalTransformations>
 <DerivedField name="single" optype="continuous" dataType="float"><FieldRef field="x"/></DerivedField>
 <DerivedField name="line" optype="continuous" dataType="double"><NormContinuous field="{name}" outliers="{outliers}"
   mapMissingTo="0.3"><LinearNorm orig="0" norm="-1"/><LinearNorm orig="2" norm="0.7"/>
   <LinearNorm orig="4" norm="0.1"/></NormContinuous></DerivedField>
 <DerivedField name="bin" optype="categorical" dataType="string">
  <Discretize field="{name}" mapMissingTo="none" defaultValue="far">
   <DiscretizeBin binValue="low"><Interval closure="{closure}" rightMargin="1"/></DiscretizeBin>
   <DiscretizeBin binValue="mid"><Interval closure="closedOpen" leftMargin="1" rightMargin="2.5"/></DiscretizeBin>
  </Discretize></DerivedField>
 <DerivedField name="code" optype="continuous" dataType="double"><MapValues outputColumn="out" defaultValue="7"
  mapMissingTo="9"><FieldColumnPair field="c" column="in"/><InlineTable><row><in>a</in><out>1.5</out></row>
  <row><in>b</in><out>2</out></row></InlineTable></MapValues></DerivedField>
 <DerivedField name="is" optype="continuous" dataType="double"><NormDiscrete field="c" value="d e" mapMissingTo="0.5"/>
  </DerivedField></LocalTransformations>"""


def draw_table(rng: Rng, category: str, derived: bool) -> str:
    """A table of a regression."""
    names = ["x", "y", *(["line", "code", "is", "single"] if derived else [])]
    inside = ""
    for name in names:
        power = int(rng.integers(1, 4)) if name in ("x", "y") else 1
        weight = round(float(rng.normal()), 2)
        inside += f'<NumericPredictor name="{name}" exponent="{power}" coefficient="{weight}"/>'
    for name, values in (("c", ("a", "d e")), *([("bin", ("low", "far", "none"))] if derived else [])):
        for value in values:
            weight = round(float(rng.normal()), 2)
            inside += f'<CategoricalPredictor name="{name}" value="{value}" coefficient="{weight}"/>'
    intercept = round(float(rng.normal()), 2)
    return f'<RegressionTable intercept="{intercept}" targetCategory="{category}">{inside}</RegressionTable>'


@pytest.mark.parametrize("seed", range(12))
def test_random_regressions_on_treated_and_derived_fields_are_read_as_they_are_evaluated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fields, treatments = draw_treatments(rng)
    closure, outliers = ("openOpen", "openClosed")[seed % 2], ("asIs", "asExtremeValues")[seed % 3 // 2]
    derived = DERIVED.format(closure=closure, outliers=outliers, name="xy"[seed % 2])
    method = ("none", "exp", "logit", "softmax", "softmax", "logit")[seed % 6]
    classes = {3: ["bad", "good"], 4: ["bad", "best", "good"], 5: ["good", "bad"]}.get(seed % 6)
    tables = "".join(draw_table(rng, one, derived=seed % 4 > 0) for one in classes or ["target"])
    if method == "logit" and classes:  # the second class has the rest
        tables = draw_table(rng, "good", derived=True) + '<RegressionTable intercept="0" targetCategory="bad"/>'
    function = "classification" if classes else "regression"
    tables = tables.replace(' targetCategory="target"', "")
    text = f'<RegressionModel functionName="{function}" normalizationMethod="{method}">SCHEMA{derived}{tables}'
    target = {0: "", 2: CLASSES, 3: THREE_CLASSES}[len(classes or "")]
    table = list_hard_rows(rng, missing=True)
    model = PmmlModel(write_file(f"{text}</RegressionModel>", fields, treatments, target))
    with np.errstate(over="ignore"):
        assert compare(model, table) < 0.05


def draw_leaf_shares(rng: Rng, classes: list[str]) -> str:
    return "".join(f'<ScoreDistribution value="{one}" recordCount="{rng.integers(1, 9)}"/>' for one in classes)


def draw_stump(rng: Rng, classes: list[str], scores: list[str]) -> str:
    """A tree of three leaves with conditions on two fields, and shares of classes where there are classes."""
    missing = ("none", "lastPrediction", "defaultChild")[rng.integers(0, 3)]
    function = "classification" if classes else "regression"
    text, depth = "", 2
    for level in range(depth):
        score = scores[rng.integers(0, len(scores))]
        predicate, _ = draw_predicate(rng, 1)
        text += f'<Node id="y{level}" score="{score}">{predicate}{draw_leaf_shares(rng, classes)}</Node>'
    last = f'<Node id="z" score="{scores[0]}"><True/>{draw_leaf_shares(rng, classes)}</Node>'
    shares = draw_leaf_shares(rng, classes)
    root = f'<Node id="r" score="{scores[-1]}" defaultChild="y1"><True/>{shares}{text}{last}</Node>'
    return f'<TreeModel functionName="{function}" missingValueStrategy="{missing}">SCHEMA{root}</TreeModel>'


@pytest.mark.parametrize("seed", range(12))
def test_random_ensembles_are_read_as_they_are_evaluated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    methods = (
        "sum",
        "average",
        "weightedAverage",
        "average",
        "majorityVote",
        "weightedMajorityVote",
        "weightedAverage",
    )
    place = seed % len(methods)
    classes = [[], ["bad", "good"], ["bad", "good", "best"]][0 if place < 3 else 1 + seed % 2]
    scores = classes or ["1", "-2", "0.25", "0.1"][: 3 + seed % 2]
    segments = ""
    for number in range(4):
        weight = round(float(rng.uniform(0.5, 2)), 1)
        tree = draw_stump(rng, classes, scores)
        segments += f'<Segment id="{number}" weight="{weight}"><True/>{tree}</Segment>'
    function = "classification" if classes else "regression"
    rescaled = (
        '<Targets><Target rescaleFactor="-2.5" rescaleConstant="0.3"/></Targets>' if seed % 2 and not classes else ""
    )
    group = f'<Segmentation multipleModelMethod="{methods[place]}">{segments}</Segmentation>'
    text = f'<MiningModel functionName="{function}">SCHEMA{rescaled}{group}</MiningModel>'
    target = {0: "", 2: CLASSES, 3: THREE_CLASSES}[len(classes)]
    model = PmmlModel(write_file(text, target=target))
    compare(model, list_hard_rows(rng, missing=True))


FIELDS = (
    '<DataField name="x" optype="continuous" dataType="double"/>'
    '<DataField name="y" optype="continuous" dataType="double"/>'
    '<DataField name="c" optype="categorical" dataType="string"/>'
)
TREE = """<TreeModel functionName="regression" noTrueChildStrategy="returnLastPrediction">SCHEMA
  <Node score="{score}"><True/><Node score="1">{predicate}</Node></Node></TreeModel>"""


def build_tree(predicate: str, fields: str = "", score: str = "0", **treatments: str) -> PmmlModel:
    return PmmlModel(write_file(TREE.format(predicate=predicate, score=score), fields, treatments))


def test_whole_numbers_and_truth_values_are_read() -> None:
    fields = (
        '<DataField name="x" optype="categorical" dataType="boolean"/>'
        '<DataField name="y" optype="ordinal" dataType="integer"/>'
        '<DataField name="c" optype="categorical" dataType="string"/>'
    )
    first = '<SimplePredicate field="x" operator="equal" value="true"/>'
    both = first + '<SimplePredicate field="y" operator="lessOrEqual" value="2"/>'
    model = build_tree(f'<CompoundPredicate booleanOperator="and">{both}</CompoundPredicate>', fields)
    rows = list(itertools.product((True, False), (1, 2, 3)))
    table = pd.DataFrame({"x": [one for one, _ in rows], "y": [one for _, one in rows], "c": "a"})
    assert compare(model, table) == 0
    reading = read(model, EstimatorTarget((), 0.5))
    with pytest.raises(NoReading, match="a field of the kind truth holds 1"):
        decide(reading, [np.array([1, 0]), np.array([1, 2])])


NESTED = """<MiningModel functionName="regression">SCHEMA<Segmentation multipleModelMethod="modelChain">
 <Segment><True/><MiningModel functionName="regression">
  <MiningSchema><MiningField name="x" missingValueReplacement="2"/><MiningField name="y"/></MiningSchema>
  <Output><OutputField name="first" optype="continuous" dataType="double" feature="predictedValue"/></Output>
  <Targets><Target rescaleFactor="0.3" rescaleConstant="1"/></Targets>
  <Segmentation multipleModelMethod="sum">
   <Segment><True/><TreeModel functionName="regression" missingValueStrategy="defaultChild">
    <MiningSchema><MiningField name="x"/><MiningField name="y"/></MiningSchema><Node id="0" defaultChild="2"><True/>
     <Node id="1" score="3"><SimplePredicate field="x" operator="greaterThan" value="2"/></Node>
     <Node id="2" defaultChild="3"><SimplePredicate field="x" operator="lessOrEqual" value="2"/>
      <Node id="3" score="-1.5"><SimplePredicate field="y" operator="lessThan" value="0.5"/></Node>
      <Node id="4" score="0.7"><SimplePredicate field="y" operator="greaterOrEqual" value="0.5"/></Node></Node>
    </Node></TreeModel></Segment></Segmentation></MiningModel></Segment>
 <Segment><True/><RegressionModel functionName="regression" normalizationMethod="logit"><MiningSchema>
  <MiningField name="first"/><MiningField name="x" missingValueReplacement="-1"/></MiningSchema>
  <RegressionTable intercept="-0.2"><NumericPredictor name="first" coefficient="1.5"/>
   <NumericPredictor name="x" coefficient="0.25"/></RegressionTable></RegressionModel></Segment>
 </Segmentation></MiningModel>"""


def test_each_model_of_a_chain_treats_its_own_fields() -> None:
    model = PmmlModel(write_file(NESTED))
    table = list_hard_rows(np.random.default_rng(0), missing=True)
    assert compare(model, table) < 0.05
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    tree = np.where(x > 2, 3.0, np.where(y >= 0.5, 0.7, -1.5))  # a missing x is 2, a missing y goes to the first child
    chance = 1 / (1 + np.exp(0.2 - 1.5 * (1 + 0.3 * tree) - 0.25 * np.where(np.isnan(x), -1.0, x)))
    possible, sure = decide(read(model, EstimatorTarget((), 0.8)), [x, y])
    assert possible.tolist() == sure.tolist() == (chance > 0.8).tolist()


WHOLE_POINTS = """<Scorecard functionName="regression" useReasonCodes="false" initialScore="0.5">SCHEMA<Characteristics>
  <Characteristic><Attribute partialScore="-3"><SimplePredicate field="x" operator="lessThan" value="1"/></Attribute>
   <Attribute partialScore="2"><SimplePredicate field="x" operator="lessThan" value="3"/></Attribute>
   <Attribute partialScore="5"><True/></Attribute></Characteristic>
  <Characteristic><Attribute partialScore="3"><SimplePredicate field="y" operator="equal" value="0.5"/></Attribute>
   <Attribute partialScore="0"><True/></Attribute></Characteristic></Characteristics></Scorecard>"""


def test_scores_of_whole_points_are_decided_on_the_threshold_too() -> None:
    x, y = np.array(list(itertools.product([0.0, 1.0, 2.0, 3.0], [0.0, 0.5]))).T
    scores = 0.5 + np.where(x < 1, -3, np.where(x < 3, 2, 5)) + np.where(y == 0.5, 3, 0)
    model = PmmlModel(write_file(WHOLE_POINTS))
    assert model.predict(pd.DataFrame({"x": x, "y": y})).tolist() == scores.tolist()
    for level in np.unique([*scores, *(scores + 1e-9)]).tolist():
        above, below = EstimatorTarget((), level), EstimatorTarget((), level, "below")
        for target, desired in ((above, scores > level), (below, scores < level)):
            possible, sure = decide(read(model, target), [x, y])
            assert possible.tolist() == sure.tolist() == desired.tolist()


def test_fields_of_single_precision_compare_their_constants_in_it() -> None:
    fields = FIELDS.replace('dataType="double"', 'dataType="float"', 1)
    model = build_tree('<SimplePredicate field="x" operator="lessOrEqual" value="0.1"/>', fields)
    table = pd.DataFrame({"x": spread([0.1])})
    possible, sure = decide(read(model, EstimatorTarget((), 0.5)), [table["x"].to_numpy()])
    assert possible.tolist() == sure.tolist() == (table["x"].astype(np.float32) <= np.float32(0.1)).tolist()
    assert compare(model, table) == 0


UNREAD = {
    "a value that is no text": (
        '<SimplePredicate field="c" operator="equal" value="1"/>',
        "a field of the kind text holds 1",
    ),
    "a value that is not valid": (
        '<SimplePredicate field="c" operator="equal" value="a"/>',
        "a value that is not valid",
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_values_without_a_prediction_or_of_another_type_are_refused(name: str) -> None:
    predicate, reason = UNREAD[name]
    fields = FIELDS.replace('dataType="string"/>', 'dataType="string"><Value value="a"/></DataField>')
    reading = read(build_tree(predicate, fields if "valid" in name else ""), EstimatorTarget((), 0.5))
    with pytest.raises(NoReading, match=reason):
        decide(reading, [np.array(["z"] if "valid" in name else [1], dtype=object)])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_file_with_a_doctype_is_refused_by_the_checker_itself(encoding: str) -> None:
    text = '<!DOCTYPE PMML [<!ENTITY a "b">]><PMML version="4.4">&a;</PMML>'
    with pytest.raises(NoReading, match="DOCTYPE"):
        parse_file(text.encode(encoding))
    with pytest.raises(NoReading, match="not XML"):
        parse_file(b"<PMML>")


RULES = {"points": (WHOLE_POINTS, 5.5), "chain": (NESTED, 0.8), "tree": (TREE, 0.5)}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("domain", ["seen", None])
def test_rules_about_files_are_checked_by_the_own_reading(name: str, domain: str | None) -> None:
    text, threshold = RULES[name]
    predicate = '<SimplePredicate field="x" operator="lessThan" value="2"/>'
    model = PmmlModel(write_file(text.replace("{predicate}", predicate).replace("{score}", "0")))
    table = list_hard_rows(np.random.default_rng(0), missing=name == "chain")[list(model.feature_names_in_)]
    options: dict[str, Any] = {} if domain is None else {"domain": domain}
    explainer = Explainer(model, table, threshold=threshold, **options)
    denied = int(np.flatnonzero(~explainer.outcomes)[0])
    found = check(explainer.explain(denied), model, table, threshold=threshold)
    assert (found.status, found.reading) == ("proven", "own"), str(found)


def test_what_the_checker_does_not_read_is_still_borrowed() -> None:
    apply = """<LocalTransformations><DerivedField name="twice" optype="continuous" dataType="double">
      <Apply function="*"><FieldRef field="x"/><Constant dataType="double">2</Constant></Apply>
      </DerivedField></LocalTransformations>"""
    tree = TREE.format(predicate='<SimplePredicate field="twice" operator="lessThan" value="3"/>', score="0")
    model = PmmlModel(write_file(tree.replace("SCHEMA", f"SCHEMA{apply}")))
    table = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    explanation = Explainer(model, table, threshold=0.5).explain(3)
    found = check(explanation, model, table, threshold=0.5)
    assert (found.status, found.reading) == ("proven", "shared")
    with pytest.raises(NoReading, match="Apply inside DerivedField is not read"):
        read(model, EstimatorTarget((), 0.5))


def test_a_reading_that_differs_from_the_model_is_not_replaced_by_the_explainers() -> None:
    model = build_tree('<SimplePredicate field="x" operator="lessThan" value="2"/>')
    other = build_tree('<SimplePredicate field="x" operator="lessThan" value="3"/>')
    table = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    explanation = Explainer(model, table, threshold=0.5).explain(3)
    assert check(explanation, model, table, threshold=0.5).reading == "own"
    model.source = other.source
    found = check(explanation, model, table, threshold=0.5)
    assert (found.reading, found.status) == ("none", "undecided")


@pytest.mark.parametrize("link", [link for link in INVERSES if link != "logc"])
def test_general_regressions_are_read_as_they_answer(link: str) -> None:
    rng = np.random.default_rng(len(link))
    table = list_hard_rows(rng, missing=False)
    for function, target in (("classification", CLASSES), ("regression", "")):
        if (function == "classification") == (link in ("identity", "log")):
            continue
        betas = {"good" if target else "": draw_betas(rng, PARAMETERS)}
        kind = f'modelType="generalizedLinear" linkFunction="{link}" functionName="{function}"'
        model = PmmlModel(write_file(write_general(betas, kind, PARAMETERS), target=target))
        assert compare(model, table) < 0.3


def test_multinomial_regressions_and_squares_are_read_as_they_answer() -> None:
    rng = np.random.default_rng(5)
    table = list_hard_rows(rng, missing=False)
    kind = 'modelType="multinomialLogistic" functionName="classification" targetReferenceCategory="bad"'
    betas = {target: draw_betas(rng, PARAMETERS) for target in ("good", "best")}
    model = PmmlModel(write_file(write_general(betas, kind, PARAMETERS), target=THREE_CLASSES))
    columns = [table[name].to_numpy() for name in model.feature_names_in_]
    for place, label in enumerate(model.classes_):
        possible, sure = decide(read(model, EstimatorTarget((place,), None)), columns)
        desired = model.predict(table) == label
        assert not (desired & ~possible).any()
        assert not (sure & ~desired).any()
        assert (possible & ~sure).mean() < 0.2
    square = """<RegressionModel functionName="regression">SCHEMA<RegressionTable intercept="-1">
      <PredictorTerm coefficient="0.5"><FieldRef field="x"/><FieldRef field="x"/></PredictorTerm>
      <NumericPredictor name="y" coefficient="-2"/></RegressionTable></RegressionModel>"""
    assert compare(PmmlModel(write_file(square)), table) < 0.1
    with pytest.raises(NoReading, match="a product of fields"):
        read(
            PmmlModel(write_file(square.replace('<FieldRef field="x"/></', '<FieldRef field="y"/></'))),
            EstimatorTarget((), 1.0),
        )


@pytest.mark.parametrize("seed", range(6))
def test_the_first_segment_whose_condition_holds_is_read_as_it_answers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(int(rng.integers(1, 4))):
        card, _ = draw_scorecard(rng)
        parts.append(segment(draw_predicate(rng, 1)[0], card))
    last, _ = draw_tree(rng, ["-1.0", "0.5"], 'functionName="regression"')
    model = PmmlModel(write_file(ensemble("selectFirst", *parts, segment("<True/>", last))))
    table = list_hard_rows(rng, missing=False)
    try:
        model.predict(table)
    except ModelError:
        with pytest.raises(NoReading, match="no prediction"):
            decide(read(model, EstimatorTarget((), 0.3)), [table[name].to_numpy() for name in model.feature_names_in_])
        return
    columns = [table[name].to_numpy() for name in model.feature_names_in_]
    if decide_or_refuse(model, EstimatorTarget((), 0.3), columns) is not None:
        assert compare(model, table) < 0.9

"""Families of models that come as files: ONNX ensembles of trees and linear models, PMML scorecards and trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.fuzz.data import Column, Rng, Table, Wish, draw_table
from benchmarks.fuzz.recipes import pick
from benchmarks.fuzz.subjects import Decision, NotDrawn, Subject

MATRIX = Wish(kinds=("int", "float", "float32", "flag"), missing=True, forms=("numpy", "pandas"), one_hot=False)
FIELDS = Wish(kinds=("int", "float", "flag", "text"), missing=True, forms=("pandas", "polars"), one_hot=False)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def onnx_trees(rng: Rng) -> Subject:
    """Random trees, their thresholds on values and beside them, as onnxruntime runs them."""
    from ironrule import OnnxModel

    table = draw_table(rng, MATRIX)
    classes = int(pick(rng, 1, 2, 3))
    attributes = _draw_trees(rng, table, classes)
    step = "TreeEnsembleRegressor" if classes == 1 else "TreeEnsembleClassifier"
    source = _write_graph(step, attributes, len(table.columns), classes)

    def make() -> Any:
        return OnnxModel(source)

    return _draw_subject(rng, make, table, classes)


def _draw_subject(rng: Rng, make: Callable[[], Any], table: Table, classes: int) -> Subject:
    model = make()
    if classes == 1:
        level = float(rng.choice(np.asarray(model.predict(table.native()), dtype=float)))
        return Subject(model, table, Decision(None, level), second=make())
    threshold: float | None = None
    if hasattr(model, "predict_proba") and rng.random() < 0.4:
        answers = model.predict_proba(table.native())
        if answers.min() < 0 or answers.max() > 1:
            raise NotDrawn("its scores are no probabilities")
        threshold = float(rng.choice(answers[:, 1])) if rng.random() < 0.5 else float(rng.uniform(0.2, 0.8))
        threshold = threshold if 0.05 < threshold < 0.95 else 0.5
    return Subject(model, table, Decision((model.classes_.tolist()[1],), threshold), second=make())


def _draw_trees(rng: Rng, table: Table, classes: int) -> dict[str, Any]:
    nodes: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes")}
    nodes |= {"truenodeids": [], "falsenodeids": [], "missing_value_tracks_true": []}
    weights: list[tuple[int, int, int, float]] = []
    modes = MODES if rng.random() < 0.3 else MODES[:4]
    whole, positive = rng.random() < 0.3, rng.random() < 0.5
    for tree in range(int(rng.integers(1, 5))):
        waiting, count = [(0, 0)], 1
        while waiting:
            node, depth = waiting.pop(0)
            leaf = depth == 3 or (depth > 0 and rng.random() < 0.3)
            column = int(rng.integers(len(table.columns)))
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(0 if leaf else column)
            nodes["values"].append(0.0 if leaf else _draw_threshold(rng, table.columns[column]))
            nodes["modes"].append("LEAF" if leaf else pick(rng, *modes))
            nodes["truenodeids"].append(0 if leaf else count)
            nodes["falsenodeids"].append(0 if leaf else count + 1)
            nodes["missing_value_tracks_true"].append(int(not leaf and rng.random() < 0.4))
            if leaf:
                for place in range(classes) if classes > 2 else (0,):
                    weight = float(rng.integers(-3, 4)) if whole else float(np.float32(rng.normal()))
                    weights.append((tree, node, place, abs(weight) / 8 if positive else weight))
            else:
                waiting += [(count, depth + 1), (count + 1, depth + 1)]
                count += 2
    prefix = "target" if classes == 1 else "class"
    trees, leaves, ids, values = map(list, zip(*weights, strict=True))
    attributes: dict[str, Any] = {f"nodes_{name}": listed for name, listed in nodes.items()}
    attributes |= {f"{prefix}_treeids": trees, f"{prefix}_nodeids": leaves, f"{prefix}_ids": ids}
    attributes[f"{prefix}_weights"] = values
    bases = classes if classes > 2 else 1
    if rng.random() < 0.5:
        attributes["base_values"] = [float(np.float32(rng.normal())) for _ in range(bases)]
    if classes == 1:
        return attributes | {"n_targets": 1, "aggregate_function": pick(rng, "SUM", "AVERAGE")}
    transform = pick(rng, "NONE", "LOGISTIC" if classes == 2 else "SOFTMAX")
    return attributes | {"classlabels_int64s": list(range(classes)), "post_transform": transform}


def _draw_threshold(rng: Rng, column: Column) -> float:
    """A value of the column as float32, or one of its neighbours."""
    value = np.float32(float(rng.choice(np.array(column.domain, dtype=float))))
    return float(pick(rng, value, np.nextafter(value, np.float32(np.inf)), np.nextafter(value, np.float32(-np.inf))))


def _write_graph(step: str, attributes: dict[str, Any], columns: int, classes: int) -> bytes:
    from onnx import TensorProto, helper

    names = ["numbers"] if classes == 1 else ["labels", "numbers"]
    node = helper.make_node(step, ["matrix"], names, domain="ai.onnx.ml", **attributes)
    outputs = [helper.make_tensor_value_info("numbers", TensorProto.FLOAT, [None, classes])]
    if classes > 1:
        outputs.insert(0, helper.make_tensor_value_info("labels", TensorProto.INT64, [None]))
    entry = helper.make_tensor_value_info("matrix", TensorProto.FLOAT, [None, columns])
    graph = helper.make_graph([node], "trees", [entry], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def pmml(rng: Rng) -> Subject:
    """A random scorecard, tree, forest or boosted chain in PMML, with treatments of missing and unknown values."""
    from ironrule import PmmlModel

    table = draw_table(rng, FIELDS)
    kind = str(pick(rng, "scorecard", "tree", "forest", "chain"))
    classes = 1 if kind == "scorecard" or (kind == "tree" and rng.random() < 0.5) else 2
    source = _write_pmml(rng, table, kind, classes)

    def make() -> Any:
        return PmmlModel(source)

    return _draw_subject(rng, make, table, classes)


def _write_pmml(rng: Rng, table: Table, kind: str, classes: int) -> bytes:
    fields, schema = "", ""
    for column in table.columns:
        text = column.kind == "text"
        values = "".join(f'<Value value="{value}"/>' for value in column.domain) if text else ""
        fields += f'<DataField name="{column.name}" dataType="{"string" if text else pick(rng, "double", "float")}"'
        fields += f' optype="{"categorical" if text else "continuous"}">{values}</DataField>'
        treatment = pick(rng, "", f'missingValueReplacement="{pick(rng, *column.domain)}"')
        if not text and rng.random() < 0.2:
            low, high = sorted((pick(rng, *column.domain), pick(rng, *column.domain)))
            treatment += f' outliers="{pick(rng, "asExtremeValues", "asMissingValues")}"'
            treatment += f' lowValue="{float(low)}" highValue="{float(high)}"'
        schema += f'<MiningField name="{column.name}" invalidValueTreatment="asMissing" {treatment}/>'
    fields += '<DataField name="goal" dataType="string"><Value value="no"/><Value value="yes"/></DataField>'
    schema = f'<MiningSchema>{schema}<MiningField name="goal" usageType="target"/></MiningSchema>'
    if kind == "scorecard":
        model = _write_scorecard(rng, table, schema)
    elif kind == "tree":
        model = _write_tree(rng, table, schema, classes == 2)
    elif kind == "forest":
        method = pick(rng, "average", "weightedAverage", "majorityVote", "weightedMajorityVote")
        trees = "".join(
            f'<Segment weight="{weight}"><True/>{_write_tree(rng, table, schema, True)}</Segment>'
            for weight in np.round(rng.uniform(0.1, 2, int(rng.integers(1, 5))), 1).tolist()
        )
        group = f'<Segmentation multipleModelMethod="{method}">{trees}</Segmentation>'
        model = f'<MiningModel functionName="classification">{schema}{group}</MiningModel>'
    else:
        model = _write_chain(rng, table, schema)
    head = '<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4">'
    return f"{head}<DataDictionary>{fields}</DataDictionary>{model}</PMML>".encode()


def _write_chain(rng: Rng, table: Table, schema: str) -> str:
    trees = "".join(
        f"<Segment><True/>{_write_tree(rng, table, schema, False)}</Segment>" for _ in range(int(rng.integers(1, 4)))
    )
    link = pick(rng, "logit", "softmax")
    return (
        f'<MiningModel functionName="classification">{schema}<Segmentation multipleModelMethod="modelChain">'
        "<Segment><True/>"
        f'<MiningModel functionName="regression">{schema}<Output><OutputField name="raw"/></Output>'
        f'<Segmentation multipleModelMethod="sum">{trees}</Segmentation></MiningModel></Segment><Segment><True/>'
        f'<RegressionModel functionName="classification" normalizationMethod="{link}"><MiningSchema>'
        f'<MiningField name="raw"/></MiningSchema><RegressionTable intercept="{_points(rng)}" targetCategory="yes">'
        f'<NumericPredictor name="raw" coefficient="1"/></RegressionTable>'
        '<RegressionTable intercept="0" targetCategory="no"/></RegressionModel>'
        "</Segment></Segmentation></MiningModel>"
    )


def _write_scorecard(rng: Rng, table: Table, schema: str) -> str:
    parts = ""
    for _ in range(int(rng.integers(1, 5))):
        attributes = "".join(
            f'<Attribute partialScore="{_points(rng)}">{_write_predicate(rng, table)}</Attribute>'
            for _ in range(int(rng.integers(1, 4)))
        )
        last = f'<Attribute partialScore="{_points(rng)}"><True/></Attribute>'
        parts += f"<Characteristic>{attributes}{last}</Characteristic>"
    head = f'<Scorecard functionName="regression" initialScore="{_points(rng)}">'
    return f"{head}{schema}<Characteristics>{parts}</Characteristics></Scorecard>"


def _write_tree(rng: Rng, table: Table, schema: str, classifies: bool) -> str:
    missing = pick(rng, "none", "lastPrediction", "defaultChild")

    def write_node(depth: int, predicate: str) -> str:
        share = int(rng.integers(1, 6))
        if classifies:
            score = "yes" if share > 3 else "no"
            counts = (("no", 6 - share), ("yes", share))
            answer = "".join(f'<ScoreDistribution value="{one}" recordCount="{count}"/>' for one, count in counts)
        else:
            score, answer = str(_points(rng)), ""
        inner = ""
        if depth and rng.random() < 0.85:
            others = [_write_predicate(rng, table), pick(rng, "<True/>", _write_predicate(rng, table))]
            inner = "".join(write_node(depth - 1, one) for one in others)
        name = f"n{rng.integers(2**40)}"
        default = ""
        if inner and missing == "defaultChild":
            default = f' defaultChild="{inner.partition(chr(34))[2].partition(chr(34))[0]}"'
        return f'<Node id="{name}" score="{score}"{default}>{predicate}{answer}{inner}</Node>'

    function = "classification" if classifies else "regression"
    head = f'<TreeModel functionName="{function}" missingValueStrategy="{missing}"'
    head += ' noTrueChildStrategy="returnLastPrediction">'
    return f"{head}{schema}{write_node(3, '<True/>')}</TreeModel>"


def _write_predicate(rng: Rng, table: Table, depth: int = 1) -> str:
    if depth and rng.random() < 0.3:
        parts = "".join(_write_predicate(rng, table, depth - 1) for _ in range(2))
        operator = pick(rng, "and", "or", "surrogate")
        return f'<CompoundPredicate booleanOperator="{operator}">{parts}</CompoundPredicate>'
    column = table.columns[int(rng.integers(len(table.columns)))]
    value = pick(rng, *column.domain)
    if rng.random() < 0.15:
        return f'<SimplePredicate field="{column.name}" operator="{pick(rng, "isMissing", "isNotMissing")}"/>'
    if column.kind == "text":
        chosen = " ".join(f'"{one}"' for one in column.domain if rng.random() < 0.5)
        operator = pick(rng, "isIn", "isNotIn")
        array = f'<Array type="string">{chosen}</Array>'
        return f'<SimpleSetPredicate field="{column.name}" booleanOperator="{operator}">{array}</SimpleSetPredicate>'
    operator = pick(rng, "lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual", "equal")
    return f'<SimplePredicate field="{column.name}" operator="{operator}" value="{float(value)!r}"/>'


def _points(rng: Rng) -> float:
    return float(rng.integers(-5, 10)) if rng.random() < 0.6 else float(np.round(rng.normal(0, 3), 1))


SUBJECTS: tuple[tuple[str, Callable[[Rng], Subject], tuple[str, ...]], ...] = (
    ("onnx trees", onnx_trees, ("onnx", "onnxruntime")),
    ("pmml", pmml, ()),
)
"""Families of files, with the libraries they need."""

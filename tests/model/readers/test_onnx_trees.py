"""ONNX models of converters: what is read of them decides as onnxruntime does, on thresholds and beside them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exhaustive_checks import assert_shortest, measure_undecided_share

pytest.importorskip("onnxruntime")

from ironrule import Explainer, InputError, ModelError, OnnxModel, check

FILES = Path(__file__).parent / "onnx_files"  # by skl2onnx 1.20 and onnxmltools 1.16

TARGETS: dict[str, list[dict[str, Any]]] = {
    "forest": [{"desired": 1}, {"desired": 0}, {"desired": 1, "threshold": 0.7}, {"desired": 0, "threshold": 0.6}],
    "forest_of_three_classes": [{"desired": 1}, {"desired": [0, 2]}, {"desired": [1, 2], "threshold": 0.45}],
    "tree": [{"desired": "good"}, {"desired": "bad", "threshold": 0.8}],
    "gradient_boosting": [{"desired": 1}, {"desired": 0, "threshold": 0.4}, {"desired": 1, "threshold": 0.55}],
    "gradient_boosting_of_three_classes": [{"desired": 2}, {"desired": 1, "threshold": 0.4}],
    "logistic_regression": [{"desired": 1}, {"desired": 0, "threshold": 0.3}],
    "logistic_regression_of_three_classes": [{"desired": 1}],
    "forest_regression": [{"threshold": 9.0}],
    "gradient_boosting_regression": [{"threshold": 11.0}, {"desired": "below", "threshold": 10.5}],
    "linear_regression": [{"threshold": 11.0}],
    "scaled_forest": [{"desired": 1}, {"desired": 0, "threshold": 0.35}],
    "xgboost": [{"desired": 1}, {"desired": 0, "threshold": 0.45}],
    "xgboost_of_three_classes": [{"desired": 0}, {"desired": 1, "threshold": 0.3}],
    "xgboost_regression": [{"threshold": 10.0}],
    "lightgbm": [{"desired": 1}, {"desired": 1, "threshold": 0.55}],
    "lightgbm_of_three_classes": [{"desired": 2}, {"desired": [0, 1], "threshold": 0.6}],
    "lightgbm_regression": [{"threshold": 10.0}],
    "columns_forest": [{"desired": 1}, {"desired": 0, "threshold": 0.5}],
    "columns_logistic_regression": [{"desired": 1}, {"desired": 1, "threshold": 0.8}],
}
WITH_MISSING = ("scaled_forest", "xgboost", "xgboost_of_three_classes", "xgboost_regression", "lightgbm_regression")


def load(name: str) -> OnnxModel:
    return OnnxModel(FILES / f"{name}.onnx")


def draw_rows(name: str, model: OnnxModel) -> Any:
    """Rows on thresholds and on the float32 neighbours of these, and some between."""
    rng = np.random.default_rng(len(name))
    if name.startswith("columns"):
        home = rng.choice(["own", "rent", "other", "boat"], 40)
        incomes = np.append(np.linspace(0.0, 6.0, 9), np.nan)
        return pd.DataFrame({"income": rng.choice(incomes, 40), "age": rng.integers(0, 19, 40), "home": home})
    step = model.final.last_step
    assert step is not None
    columns = []
    for place in range(3):
        values = [0.5, 2.25, 5.75]
        if "nodes_values" in step.attributes and model.preparation is None:
            ids = zip(step.attributes["nodes_featureids"], step.attributes["nodes_values"], strict=True)
            cuts = np.unique(np.array([cut for column, cut in ids if column == place], dtype=np.float32))[-3:]
            beside = [np.nextafter(cuts, np.float32(side)) for side in (-np.inf, np.inf)]
            values += np.concatenate([cuts, *beside]).astype(np.float64).tolist()
        if name in WITH_MISSING and place:
            values.append(np.nan)
        columns.append(rng.choice(values, 60))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("name", TARGETS)
def test_a_converted_model_is_read_as_onnxruntime_runs_it(name: str) -> None:
    model = load(name)
    rows = draw_rows(name, model)
    for target in TARGETS[name]:
        explainer = Explainer(model, rows, domain="seen", **target)
        assert explainer.unreadable_reason is None
        assert measure_undecided_share(explainer) < 0.05
        assert 0 < explainer.outcomes.sum() < len(explainer.outcomes)


@pytest.mark.parametrize("name", ["forest", "xgboost", "tree", "columns_forest"])
def test_rules_of_converted_models_are_the_shortest(name: str) -> None:
    model = load(name)
    assert assert_shortest(Explainer(model, draw_rows(name, model)[:25], domain="seen", **TARGETS[name][0]))


@pytest.mark.parametrize("name", TARGETS)
def test_a_proof_about_a_converted_model_is_confirmed_by_the_checkers_own_reading(name: str) -> None:
    model = load(name)
    rows = draw_rows(name, model)
    target = TARGETS[name][-1]
    explainer = Explainer(model, rows, **target)
    denied = int(np.flatnonzero(~explainer.outcomes)[0])
    found = check(explainer.explain(denied), model, rows, **target)
    assert (found.status, found.reading) == ("proven", "own"), str(found)


def test_numbers_of_a_converted_model_are_whole_intervals() -> None:
    for name in ("forest", "scaled_forest"):
        model = load(name)
        explainer = Explainer(model, draw_rows(name, model), desired=1)
        assert [feature.interval for feature in explainer.space.features] == [True] * 3


def test_columns_and_classes_are_those_of_the_file() -> None:
    model = load("columns_forest")
    assert model.feature_names_in_.tolist() == ["income", "age", "home"]
    assert model.classes_.tolist() == [0, 1]
    assert load("tree").classes_.tolist() == ["bad", "good"]
    assert load("tree").n_features_in_ == 3
    assert not hasattr(load("linear_regression"), "classes_")
    assert not hasattr(load("linear_regression"), "predict_proba")


def test_a_model_with_another_last_step_is_asked() -> None:
    model = load("network")
    rows = np.random.default_rng(0).uniform(0, 6, (40, 3))
    explainer = Explainer(model, rows, desired=1)
    assert "does not end in" in str(explainer.unreadable_reason)


def test_a_model_survives_pickling() -> None:
    model = load("columns_forest")
    rows = draw_rows("columns_forest", model)
    assert pickle.loads(pickle.dumps(model)).predict(rows).tolist() == model.predict(rows).tolist()


def test_a_model_cut_to_its_last_step_answers_as_the_whole() -> None:
    model = load("columns_logistic_regression")
    rows = draw_rows("columns_logistic_regression", model)
    assert model.preparation is not None
    seen = model.preparation.transform(rows)
    assert model.final.predict_proba(seen).tolist() == model.predict_proba(rows).tolist()


def build_two_classes(ids: list[int], weights: list[float], bases: list[float] | None, **attributes: Any) -> OnnxModel:
    """One node, two leaves: weights for classes of a leaf."""
    from onnx import TensorProto, helper

    nodes = {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
        "nodes_values": [0.1, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "classlabels_int64s": [0, 1],
        "class_treeids": [0] * len(ids), "class_nodeids": [1 + k * 2 // len(ids) for k in range(len(ids))],
        "class_ids": ids, "class_weights": weights,
    }  # fmt: skip
    extra = {} if bases is None else {"base_values": bases}
    node = helper.make_node(
        "TreeEnsembleClassifier", ["X"], ["Y", "Z"], domain="ai.onnx.ml", **(nodes | extra | attributes)
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info(*one) for one in (("Y", TensorProto.INT64, [None]), ("Z", 1, [None, 2]))],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return OnnxModel(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


ROWS = np.array([[0.0, 1.0], [np.float32(0.1), 1.0], [np.nextafter(np.float32(0.1), np.float32(1)), 2.0], [9.0, 2.0]])


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"])
@pytest.mark.parametrize("tracks", [0, 1])
def test_every_comparison_is_read_as_it_is_run(mode: str, tracks: int) -> None:
    rows = np.vstack([ROWS, [[np.nan, 1.0]]])
    model = build_two_classes(
        [0, 0],
        [-1.0, 1.0],
        None,
        nodes_modes=[mode, "LEAF", "LEAF"],
        nodes_missing_value_tracks_true=[tracks, 0, 0],
    )
    explainer = Explainer(model, rows, desired=1, domain="seen")
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) == 0


@pytest.mark.parametrize("bases", [None, [0.25], [0.25, 0.1]])
@pytest.mark.parametrize("ids", [[0, 0], [1, 1], [0, 1, 0, 1]])
def test_what_is_read_of_two_classes_is_what_is_run_or_nothing(ids: list[int], bases: list[float] | None) -> None:
    readable = ids == [0, 0] and (bases is None or len(bases) == 1)
    for sizes in ([0.3, 0.8], [-0.3, 0.8], [-0.8, 0.1]):
        weights = sizes if len(ids) == 2 else [sizes[0], 0.7, sizes[1], 0.2]
        model = build_two_classes(ids, weights, bases)
        answers = model.predict(ROWS)
        explainer = Explainer(model, ROWS, desired=int(answers[0]), domain="seen")
        assert (explainer.unreadable_reason is None) == readable
        if readable:
            assert measure_undecided_share(explainer) == 0


@pytest.mark.parametrize(
    "attributes",
    [
        {"nodes_truenodeids": [2, 0, 0]},  # one leaf twice
        {"nodes_truenodeids": [0, 0, 0]},  # a circle
        {"nodes_nodeids": [0, 1, 1]},
        {"class_nodeids": [1, 1]},
        {"class_ids": [0, 5]},
        {"nodes_values": [float("nan"), 0.0, 0.0]},
        {"nodes_modes": ["BRANCH_MEMBER", "LEAF", "LEAF"]},
        {"post_transform": "PROBIT"},
    ],
)
def test_damaged_trees_are_never_read(attributes: dict[str, Any]) -> None:
    from ironrule.model.protocol import Unreadable
    from ironrule.model.readers.file_formats.onnx_trees import read_onnx_model

    model = build_two_classes([0, 0], [0.3, 0.8], None, **attributes)
    with pytest.raises(Unreadable):
        read_onnx_model(model, (1,), 0.5)


def test_values_that_do_not_fit_a_column_are_refused_by_name() -> None:
    model = load("columns_forest")
    row = {"income": [1.0], "age": [3], "home": ["own"]}
    with pytest.raises(ModelError, match=r"whole numbers \(int64\) in 'age'.*got 2.5"):
        model.predict(pd.DataFrame(row | {"age": [2.5]}))
    with pytest.raises(ModelError, match=r"texts in column 'home'.*missing"):
        model.predict(pd.DataFrame(row | {"home": [None]}))
    with pytest.raises(ModelError, match=r"numbers in 'income'.*'much'"):
        model.predict(pd.DataFrame(row | {"income": ["much"]}))


def put_before(model: OnnxModel, *nodes: Any, **constants: Any) -> OnnxModel:
    """The same with steps before it that make its input ``X`` of an input ``raw`` of whole numbers."""
    from onnx import TensorProto, helper, numpy_helper

    whole = model.model
    for node in reversed(nodes):
        whole.graph.node.insert(0, node)
    whole.graph.input[0].CopyFrom(helper.make_tensor_value_info("raw", TensorProto.INT64, [None, 1]))
    whole.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return OnnxModel(whole.SerializeToString())


def test_numbers_that_are_looked_up_or_squared_are_no_intervals() -> None:
    from onnx import helper

    from ironrule.checker.readers.onnx_trees import list_unordered_inputs

    model = build_two_classes([0, 0], [-1.0, 1.0], None)
    table = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [3.0, 0.0]], dtype=np.float32)
    gather = helper.make_node("Gather", ["table", "row"], ["X"], axis=0)
    looked_up = put_before(
        model, helper.make_node("Reshape", ["raw", "flat"], ["row"]), gather, flat=np.array([-1]), table=table
    )
    assert looked_up.predict(np.array([[0], [1], [2], [3]])).tolist() == [0, 1, 0, 1]
    squared = put_before(
        model,
        helper.make_node("Cast", ["raw"], ["number"], to=1),
        helper.make_node("Mul", ["number", "number"], ["square"]),
        helper.make_node("Concat", ["square", "square"], ["X"], axis=1),
    )
    for odd in (looked_up, squared):
        assert odd.preparation is not None
        assert list(odd.preparation.find_unordered(1)) == [0]
        assert [place for place, _ in list_unordered_inputs(odd, 1)] == [0]
        explainer = Explainer(odd, pd.DataFrame({"raw": [0, 3, 1]}), desired=1)
        assert not explainer.space.features[0].interval


def test_trees_that_look_at_columns_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="its 2 columns, got column 7"):
        build_two_classes([0, 0], [-1.0, 1.0], None, nodes_featureids=[7, 0, 0])
    with pytest.raises(InputError, match="got column -1"):
        build_two_classes([0, 0], [-1.0, 1.0], None, nodes_featureids=[-1, 0, 0])


@pytest.mark.parametrize("source", [b"junk", "nothing.onnx", 3, None, b"", FILES, __file__])
def test_what_is_no_onnx_file_is_refused(source: Any) -> None:
    with pytest.raises(InputError):
        OnnxModel(source)


def test_a_file_without_labels_says_which_class_to_use() -> None:
    with pytest.raises(InputError, match="use OnnxNetwork"):
        OnnxModel(FILES / "linear_regression.onnx", classes=(0, 1))

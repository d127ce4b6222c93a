"""The operator TreeEnsemble of ai.onnx.ml 5: random graphs are read as onnxruntime runs them, on thresholds too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exhaustive_checks import assert_shortest, measure_undecided_share

pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper

from ironrule import Explainer, OnnxModel, check

Rng = np.random.Generator
CUTS = [0.1, 0.5, 2.0]
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
LOGISTIC, SOFTMAX = 1, 2  # as onnxruntime has them; the specification has them the other way round


def draw_trees(rng: Rng, targets: int, dtype: type) -> dict[str, Any]:
    """The attributes of a random ensemble: trees for every target, tests for members, leaves with several parents."""
    names = ("featureids", "splits", "modes", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    nodes: dict[str, list[Any]] = {name: [] for name in (*names, "missing_value_tracks_true")}
    leaves: list[tuple[int, float]] = []
    roots, members = [], list[float]()
    for target in [*range(targets), *rng.integers(0, targets, 2).tolist()]:
        first, waiting = len(nodes["modes"]), 1
        roots.append(first)
        own = [len(leaves) + place for place in range(4)]
        leaves += [(target, float(dtype(rng.normal() if rng.random() < 0.5 else rng.integers(-2, 3)))) for _ in own]
        while waiting:
            waiting -= 1
            mode = int(rng.integers(0, 7))
            nodes["featureids"].append(int(rng.integers(0, 2)))
            nodes["splits"].append(float(dtype(rng.choice(CUTS))))
            nodes["modes"].append(mode)
            nodes["missing_value_tracks_true"].append(int(rng.random() < 0.4))
            if mode == MEMBER:
                members += [*rng.choice([0.0, 0.5, 1.0, 2.0], int(rng.integers(1, 3)), replace=False).tolist(), np.nan]
            for side in ("true", "false"):
                is_leaf = len(nodes["modes"]) - first > 4 or rng.random() < 0.4
                nodes[f"{side}leafs"].append(int(is_leaf))
                nodes[f"{side}nodeids"].append(int(rng.choice(own)) if is_leaf else len(nodes["modes"]) + waiting)
                waiting += not is_leaf
    tensors: dict[str, Any] = {"nodes_splits": np.array(nodes.pop("splits"), dtype=dtype)}
    tensors["nodes_modes"] = np.array(nodes.pop("modes"), dtype=np.uint8)
    tensors["leaf_weights"] = np.array([weight for _, weight in leaves], dtype=dtype)
    if members:
        tensors["membership_values"] = np.array(members, dtype=dtype)
    return {
        **{f"nodes_{name}": listed for name, listed in nodes.items()},
        **{name: numpy_helper.from_array(values, name) for name, values in tensors.items()},
        "leaf_targetids": [target for target, _ in leaves],
        "tree_roots": roots,
        "n_targets": targets,
    }


def write_graph(attributes: dict[str, Any], dtype: type, labels: list[str] | None = None) -> bytes:
    """A graph of an ensemble; with more than one target an ArgMax finds the class, which may have a label."""
    kind = TensorProto.FLOAT if dtype is np.float32 else TensorProto.DOUBLE
    targets = attributes["n_targets"]
    nodes = [helper.make_node("TreeEnsemble", ["matrix"], ["numbers"], domain="ai.onnx.ml", **attributes)]
    outputs = [helper.make_tensor_value_info("numbers", kind, [None, targets])]
    initial = []
    if targets > 1:
        nodes.append(helper.make_node("ArgMax", ["numbers"], ["place" if labels else "label"], axis=1, keepdims=0))
        if labels:
            initial.append(helper.make_tensor("labels", TensorProto.STRING, [targets], labels))
            nodes.append(helper.make_node("Gather", ["labels", "place"], ["label"]))
        label_kind = TensorProto.STRING if labels else TensorProto.INT64
        outputs.insert(0, helper.make_tensor_value_info("label", label_kind, [None]))
    graph = helper.make_graph(
        nodes, "trees", [helper.make_tensor_value_info("matrix", kind, [None, 2])], outputs, initial
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def list_hard_rows(dtype: type) -> np.ndarray:
    """All pairs of thresholds, of their neighbours in both precisions, of members and of missing values."""
    values = [0.0, 1.0, *CUTS, *(float(np.float32(cut)) for cut in CUTS)]
    values += [float(np.nextafter(np.float32(cut), np.float32(end))) for cut in CUTS for end in (-1, 9)]
    values += [float(np.nextafter(cut, end)) for cut in CUTS for end in (-1, 9)] if dtype is np.float64 else []
    numbers = [*sorted(set(values)), np.nan]
    return np.array([(x, y) for x in numbers for y in numbers])


@pytest.mark.parametrize("seed", range(10))
def test_random_ensembles_are_read_as_onnxruntime_runs_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.float64 if seed % 3 == 0 else np.float32
    targets = int(rng.integers(1, 4))
    attributes = draw_trees(rng, targets, dtype)
    labels = ["low", "middle", "top"][:targets] if seed % 2 else None
    target: dict[str, Any]
    if targets == 1:
        attributes["aggregate_function"] = int(rng.integers(0, 2))
    else:
        attributes["post_transform"] = SOFTMAX * int(rng.integers(0, 2))
    model = OnnxModel(write_graph(attributes, dtype, labels))
    rows = list_hard_rows(dtype)
    answers = model.predict(rows)
    if targets == 1:
        target = {"threshold": float(np.unique(answers)[len(np.unique(answers)) // 2])}
    else:
        assert model.classes_.tolist() == (labels or list(range(targets)))
        target = {"desired": model.classes_.tolist()[int(rng.integers(0, targets))]}
        if attributes["post_transform"]:
            target["threshold"] = float(rng.uniform(0.2, 0.6))
    explainer = Explainer(model, rows, domain="seen", **target)
    assert explainer.unreadable_reason is None
    assert measure_undecided_share(explainer) < 0.8  # ties, and scores on the threshold, are left to the model
    if explainer.outcomes.any() and not explainer.outcomes.all():
        assert_shortest(explainer, rows=1)
        denied = int(np.flatnonzero(~explainer.outcomes)[0])
        assert check(explainer.explain(denied), model, rows, **target).status == "proven"


def test_what_of_an_ensemble_is_not_understood_leaves_it_asked() -> None:
    rng = np.random.default_rng(3)
    attributes = draw_trees(rng, 1, np.float32)
    rows = list_hard_rows(np.float32)
    for change, words in (
        ({"aggregate_function": 3}, "put together by MAX"),
        ({"post_transform": LOGISTIC}, "goes through LOGISTIC"),
    ):
        model = OnnxModel(write_graph({**attributes, **change}, np.float32))
        assert words in str(Explainer(model, rows, threshold=0.5).unreadable_reason)

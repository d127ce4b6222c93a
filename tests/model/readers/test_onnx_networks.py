"""ONNX networks: wherever the normal form is sure, onnxruntime decides the same."""

from __future__ import annotations

import io
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exhaustive_checks import assert_shortest
from network_agreement import count_ties, require_agreement
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Explainer, InputError, MissingExtraError, ModelError, OnnxNetwork
from ironrule.model.normal_form.network import (
    DOUBLE_ROUNDOFF,
    SINGLE_ROUNDOFF,
    Network,
    bound_arithmetic_errors,
    find_largest_sizes,
)
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.registry import read_estimator

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FEATURES, WIDTH = 4, 9
KINDS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}


class Graph:
    """A graph that grows node by node; every node's first input is what came out last, unless it is named."""

    def __init__(self, dtype: Any = np.float32, seed: int = 0, rows: Any = "rows") -> None:
        self.dtype, self.rows, self.nodes, self.constants = dtype, rows, list[Any](), list[Any]()
        self.rng, self.last, self.end = np.random.default_rng(seed), "x", dtype

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def random(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape))

    def node(self, op: str, *inputs: str, before: bool = True, **attributes: Any) -> Graph:
        name = f"v{len(self.nodes)}"
        given = [self.last, *inputs] if before else list(inputs)
        self.nodes.append(helper.make_node(op, given, [name], **attributes))
        self.last = name
        return self

    def dense(self, inputs: int, outputs: int) -> Graph:
        scaled = self.constant(self.rng.normal(size=(inputs, outputs)) * (2 / inputs) ** 0.5)
        return self.node("MatMul", scaled).node("Add", self.random(outputs))

    def model(self, opset: int = 17) -> bytes:
        x = helper.make_tensor_value_info("x", KINDS[self.dtype], [self.rows, FEATURES])
        y = helper.make_tensor_value_info(self.last, KINDS[self.end], None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
        )
        return bytes(made.SerializeToString())


def rows(seed: int, count: int = 800) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, FEATURES)) * [1.0, 3.0, 0.2, 1.0]


def norm(graph: Graph, width: int) -> Graph:
    parts = [graph.random(width), graph.random(width), graph.random(width), graph.constant(graph.rng.random(width))]
    return graph.node("BatchNormalization", *parts, epsilon=1e-3)


MIDDLES: dict[str, Any] = {
    "relu": lambda g: g.node("Relu"),
    "leaky": lambda g: g.node("LeakyRelu", alpha=0.2),
    "leaky by default": lambda g: g.node("LeakyRelu"),
    "tanh": lambda g: g.node("Tanh"),
    "sigmoid": lambda g: g.node("Sigmoid"),
    "nothing": lambda g: g.node("Identity"),
    "batch norm": lambda g: norm(g, WIDTH).node("Relu"),
    "batch norm after": lambda g: norm(g.node("Relu"), WIDTH),
    "dropout": lambda g: g.node("Tanh").node("Dropout"),
    "dropout with settings": lambda g: g.node("Dropout", g.constant(0.5), g.constant(False, bool)),
    "scaled": lambda g: g.node("Mul", g.random(WIDTH)).node("Div", g.random(1, WIDTH)).node("Tanh"),
    "shifted": lambda g: g.node("Sub", g.random(WIDTH)).node("Add", g.random()).node("Relu"),
    "taken from": lambda g: g.node("Sub", g.random(WIDTH), g.last, before=False).node("Relu"),
    "added to": lambda g: g.node("Add", g.random(1, WIDTH), g.last, before=False).node("Relu"),
    "times": lambda g: g.node("Mul", g.random(1), g.last, before=False).node("Neg").node("Relu"),
    "reshaped": lambda g: g.node("Reshape", g.constant([0, -1], np.int64)).node("Relu"),
    "reshaped to its width": lambda g: g.node("Reshape", g.constant([-1, WIDTH], np.int64)).node("Relu"),
    "flattened": lambda g: g.node("Flatten").node("Relu"),
    "gemm": lambda g: g.node("Gemm", g.random(WIDTH, WIDTH), g.random(WIDTH)).node("Relu"),
    "gemm of all kinds": lambda g: g.node(
        "Gemm", g.random(WIDTH, WIDTH), g.random(1, WIDTH), alpha=0.3, beta=0.7, transB=1
    ).node("Tanh"),
    "gemm without bias": lambda g: g.node("Gemm", g.random(WIDTH, WIDTH), alpha=0.3).node("Tanh"),
}
ENDS: dict[str, tuple[int, int, Any]] = {  # the last layer's width, how many classes, what comes behind it
    "score": (1, 2, lambda g: g),
    "score alone": (1, 2, lambda g: g.node("Squeeze", g.constant([1], np.int64))),
    "any score alone": (1, 2, lambda g: g.node("Squeeze").node("Add", g.random())),
    "flat score": (1, 2, lambda g: g.node("Reshape", g.constant([-1], np.int64))),
    "column": (1, 2, lambda g: g.node("Reshape", g.constant([-1, 1], np.int64))),
    "probability": (1, 2, lambda g: g.node("Sigmoid")),
    "probability alone": (1, 2, lambda g: g.node("Sigmoid").node("Squeeze", g.constant([-1], np.int64))),
    "both probabilities": (1, 2, lambda g: both(g)),
    "two scores": (2, 2, lambda g: g),
    "two probabilities": (2, 2, lambda g: g.node("Softmax")),
    "three scores": (3, 3, lambda g: g),
    "three probabilities": (3, 3, lambda g: g.node("Softmax", axis=1).node("Identity")),
    "three logarithms": (3, 3, lambda g: g.node("LogSoftmax", axis=-1)),
    "three of their own": (3, 3, lambda g: g.node("Sigmoid")),
}


def both(graph: Graph) -> Graph:
    chance = graph.node("Sigmoid").last
    first = graph.node("Sub", graph.constant(1.0), chance, before=False).last
    return graph.node("Concat", first, chance, before=False, axis=1)


def network(middle: str, end: str, seed: int, dtype: Any = np.float32) -> OnnxNetwork:
    width, classes, finish = ENDS[end]
    graph = MIDDLES[middle](Graph(dtype, seed).dense(FEATURES, WIDTH))
    return OnnxNetwork(finish(graph.dense(WIDTH, width)).model(), range(classes))


def check(model: OnnxNetwork, end: str, seed: int) -> None:
    unsure = 0.5 if end == "three of their own" else 0.1
    for desired in (0, 1):
        require_agreement(model, desired, None, rows(seed), unsure)
        if len(model.classes_) == 2 or end == "three of their own":
            require_agreement(model, desired, 0.3, rows(seed), unsure)
        else:
            with pytest.raises(Unreadable, match="more than two classes"):
                read_estimator(model, desired, 0.3)


@pytest.mark.parametrize("middle", MIDDLES)
def test_a_graph_is_read_as_it_decides(middle: str) -> None:
    for seed in range(3):
        check(network(middle, "score", seed), "score", seed)
    if middle not in ("leaky", "leaky by default"):  # onnxruntime has them for single precision alone
        model = network(middle, "score", 3, np.float64)
        assert read_estimator(model, 1, None).roundoff < 2**-49  # type: ignore[union-attr]
        require_agreement(model, 1, None, rows(3), 0.0)


@pytest.mark.parametrize("end", ENDS)
def test_a_graph_is_read_as_it_ends(end: str) -> None:
    close = 0
    for seed, middle in enumerate(("relu", "sigmoid", "batch norm", "tanh", "leaky")):
        check(network(middle, end, seed), end, seed)
        close += count_ties(network(middle, end, seed), 0, None, rows(seed).astype(np.float32))
    assert close >= 8


@pytest.mark.parametrize("middle", MIDDLES)
def test_the_bounds_cover_what_single_precision_makes_of_a_graph(middle: str) -> None:
    for seed in range(5):
        data = MIDDLES[middle](Graph(seed=seed).dense(FEATURES, WIDTH)).dense(WIDTH, 1).model()
        model = OnnxNetwork(data, None)
        found = read_estimator(model, None, 0.0)
        assert isinstance(found, Network)
        ((error,),) = bound_arithmetic_errors(found, find_largest_sizes(list(rows(0).T)))
        assert 0 < np.abs(found.outputs(rows(0))[:, 0] - model.predict(rows(0))).max() <= error


def test_a_single_precision_end_makes_the_network_one_of_single_precision() -> None:
    graph = Graph(np.float64).node("Cast", to=TensorProto.FLOAT)
    graph.dtype = np.float32
    graph.end = np.float32
    graph.dense(FEATURES, WIDTH).node("Relu").dense(WIDTH, 1)
    graph.dtype = np.float64
    model = OnnxNetwork(graph.model())
    found = require_agreement(model, 1, None, rows(0), 0.1)
    assert found.roundoff >= SINGLE_ROUNDOFF
    double = Graph(np.float64).dense(FEATURES, WIDTH).node("Cast", to=TensorProto.DOUBLE).node("Tanh").dense(WIDTH, 1)
    assert read_estimator(OnnxNetwork(double.model()), 1, None).roundoff == DOUBLE_ROUNDOFF  # type: ignore[union-attr]


def test_constants_are_computed() -> None:
    graph = Graph()
    weights = helper.make_tensor("w", TensorProto.FLOAT, [WIDTH, FEATURES], np.ones(WIDTH * FEATURES))
    turned = graph.node("Constant", before=False, value=weights).node("Transpose").node("Mul", graph.constant(0.5)).last
    graph.node("MatMul", "x", turned, before=False).node("Relu").dense(WIDTH, 1)
    model = OnnxNetwork(graph.model())
    found = require_agreement(model, 1, None, rows(0))
    assert (found.layers[0].weights == 0.5).all()
    product = Graph()
    both_ = product.node("MatMul", product.random(FEATURES, 3), product.random(3, 1), before=False).last
    with pytest.raises(Unreadable, match="MatMul of constants"):
        read_estimator(OnnxNetwork(product.node("MatMul", "x", both_, before=False).model()), 1, None)


def test_scaling_inside_the_graph_is_folded_into_the_first_layer() -> None:
    graph = Graph().node("Sub", "c0").node("Div", "c1")
    graph.constant(np.arange(FEATURES)), graph.constant(np.arange(1, FEATURES + 1))
    found = require_agreement(
        OnnxNetwork(graph.dense(FEATURES, WIDTH).node("Relu").dense(WIDTH, 1).model()), 1, None, rows(0)
    )
    assert len(found.layers) == 2
    scaler = Graph().node("Scaler", offset=[1.0, 2.0, 0.0, 0.5], scale=[2.0, 0.5, 1.0, 1.0], domain="ai.onnx.ml")
    found = require_agreement(OnnxNetwork(scaler.dense(FEATURES, 1).model()), 1, None, rows(0))
    assert len(found.layers) == 1


@pytest.mark.parametrize("size", [1, 7])
def test_a_graph_with_a_fixed_number_of_rows_is_run_in_pieces(size: int) -> None:
    free, fixed = (OnnxNetwork(Graph(rows=n).dense(FEATURES, 1).model()) for n in ("rows", size))
    np.testing.assert_allclose(fixed.outputs(rows(0, 30)), free.outputs(rows(0, 30)), rtol=1e-6)
    require_agreement(fixed, 1, None, rows(0, 30))


def test_bytes_paths_and_pickles_are_the_same_model(tmp_path: Path) -> None:
    data = Graph().dense(FEATURES, 1).node("Sigmoid").model()
    path = tmp_path / "network.onnx"
    path.write_bytes(data)
    first, second, third = OnnxNetwork(data), OnnxNetwork(path), OnnxNetwork(str(path), ("no", "yes"))
    expected = first.predict_proba(rows(0))
    path.unlink()
    for model in (second, third, pickle.loads(pickle.dumps(first)), pickle.loads(pickle.dumps(third))):
        assert (model.predict_proba(rows(0)) == expected).all()
    assert set(third.predict(rows(0))) == {"no", "yes"}
    assert third.n_features_in_ == FEATURES
    assert repr(third) == "OnnxNetwork(classes=('no', 'yes'), probabilities=True, output=None)"
    pipe = make_pipeline(StandardScaler(), first).fit(rows(0))
    assert (pickle.loads(pickle.dumps(pipe)).predict(rows(1)) == pipe.predict(rows(1))).all()


def small(op: str, *shapes: Any, **attributes: Any) -> Any:
    """A graph of one dense layer, the node, and one more layer."""

    def make() -> OnnxNetwork:
        graph = Graph().dense(FEATURES, FEATURES)
        constants = [graph.constant(s, np.int64) if isinstance(s, list) else graph.random(*s) for s in shapes]
        return OnnxNetwork(graph.node(op, *constants, **attributes).dense(FEATURES, 1).model())

    return make


def parallel() -> OnnxNetwork:
    graph = Graph()
    left = graph.dense(FEATURES, FEATURES).last
    graph.last = "x"
    right = graph.dense(FEATURES, FEATURES).last
    return OnnxNetwork(graph.node("Add", left, right, before=False).dense(FEATURES, 1).model())


def skipping() -> OnnxNetwork:
    graph = Graph().dense(FEATURES, 2)
    return OnnxNetwork(
        graph.node("Concat", graph.last, "x", before=False, axis=1).dense(6, 1).model(), probabilities=False
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (small("Elu"), "Elu is not among"),
        (small("Softmax"), "Softmax must come last"),
        (small("Transpose"), "Transpose is not among"),
        (small("Reshape", [-1, 2]), "may mix rows"),
        (small("Flatten", axis=0), "mixes rows"),
        (small("Add", (5, FEATURES)), r"shape \(5, 4\)"),
        (small("MatMul", (3, FEATURES, FEATURES)), r"shape \(3, 4, 4\)"),
        (small("Squeeze", [1]), "Squeeze takes more away"),
        (small("Cast", to=TensorProto.INT64), "int64"),
        (small("LeakyRelu", alpha=-1.0), "slope from 0 to 1"),
        (small("Gemm", (FEATURES, FEATURES), transA=1), "turns its input"),
        (parallel, "two values that depend on the input"),
        (skipping, "does not come from the same values|factors and shifts"),
        (lambda: OnnxNetwork(Graph().dense(FEATURES, 5).model()), "5 outputs for 2 classes"),
        (lambda: OnnxNetwork(Graph().node("Relu").model()), "no weights"),
        (
            lambda: OnnxNetwork(Graph().node("Softmax", axis=0).dense(FEATURES, 1).model()),
            "over the outputs of a row",
        ),
    ],
)
def test_what_cannot_be_read_says_why(make: Any, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read_estimator(make(), 1, None)


def test_what_is_no_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="not an ONNX model"):
        OnnxNetwork(b"nothing of the kind")
    with pytest.raises(InputError, match="at least two distinct labels"):
        OnnxNetwork(Graph().dense(FEATURES, 1).model(), (1, 1))
    with pytest.raises(InputError, match="leave probabilities= out"):
        OnnxNetwork(Graph().dense(FEATURES, 1).node("Sigmoid").model(), probabilities=False)
    unclear = Graph().dense(FEATURES, 1).node("Sigmoid")
    with pytest.raises(InputError, match=r"cannot tell whether the outputs .*; pass probabilities=True"):
        OnnxNetwork(unclear.node("Mul", unclear.constant(2.0)).model())
    with pytest.raises(InputError, match=r"cannot tell whether the outputs .*; pass probabilities=True"):
        OnnxNetwork(Graph().dense(FEATURES, 1).node("Elu").model())
    with pytest.raises(InputError, match=r"output must be one of \[.*\], got 'nothing'"):
        OnnxNetwork(Graph().dense(FEATURES, 1).model(), output="nothing")
    whole = helper.make_model(
        helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.INT64, [None, 2])],
            [helper.make_tensor_value_info("y", TensorProto.INT64, [None, 2])],
        )
    )
    with pytest.raises(InputError, match=r"matrix of floating-point numbers, .*, got 2 dimensions of other values"):
        OnnxNetwork(whole.SerializeToString())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"ironrule\[onnx\]"):
        OnnxNetwork(Graph().dense(FEATURES, 1).model()).predict(rows(0))


def test_weights_that_are_no_numbers_are_refused() -> None:
    graph = Graph()
    model = OnnxNetwork(graph.node("MatMul", graph.constant([[np.nan]] * FEATURES)).model())
    with pytest.raises(Unreadable, match="finite"):
        read_estimator(model, 1, None)
    with pytest.raises(ModelError, match="must be finite"):
        model.predict(rows(0))
    zero = Graph()
    zero.node("Div", zero.constant(np.zeros(FEATURES))).dense(FEATURES, 1)
    with pytest.raises(Unreadable, match="finite"):
        read_estimator(OnnxNetwork(zero.model()), 1, None)


def test_exports_of_torch_are_read() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    for last in ([nn.Linear(WIDTH, 1), nn.Sigmoid()], [nn.Linear(WIDTH, 3)], [nn.Linear(WIDTH, 2), nn.Softmax(1)]):
        hidden = [nn.Linear(FEATURES, WIDTH), nn.BatchNorm1d(WIDTH), nn.LeakyReLU(0.1), nn.Dropout(0.5)]
        module = nn.Sequential(nn.Flatten(), *hidden, *last)
        module(torch.randn(50, FEATURES) * 2 + 1)  # so that the normalisation has something to say
        saved = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this exporter is the old one
            torch.onnx.export(module.eval(), (torch.zeros(1, FEATURES),), saved, dynamo=False)
        model = OnnxNetwork(saved.getvalue(), range(max(2, last[0].out_features)))
        assert require_agreement(model, 1, None, rows(0), 0.1).layers[0].weights.shape == (FEATURES, WIDTH)
        with torch.no_grad():
            expected = module(torch.from_numpy(rows(0)).float()).numpy()
        np.testing.assert_allclose(model.outputs(rows(0)), expected, rtol=1e-4, atol=1e-5)


def test_exports_of_scikit_learn_are_read() -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    X = rows(0, 200)
    score = X[:, 0] + X[:, 1]
    for kind, y in (
        (MLPClassifier, score > 0),
        (MLPClassifier, np.digitize(score, [-1, 1])),
        (MLPRegressor, score),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            model = make_pipeline(StandardScaler(), kind(hidden_layer_sizes=(6,), max_iter=60, random_state=0)).fit(
                X, y
            )
            final, start = model.steps[-1][1], X[:1].astype(np.float32)
            options = {id(final): {"zipmap": False}} if kind is MLPClassifier else None
            saved = skl2onnx.to_onnx(model, start, options=options).SerializeToString()
            zipped = skl2onnx.to_onnx(model, start).SerializeToString()
        if kind is MLPRegressor:
            require_agreement(OnnxNetwork(saved, None), None, 0.3, rows(1))
            continue
        network_ = OnnxNetwork(saved, model.classes_)
        require_agreement(network_, model.classes_[0], None, rows(1))
        assert (network_.predict(rows(1)) == model.predict(rows(1))).mean() > 0.99
        with pytest.raises(InputError, match="zipmap"):
            OnnxNetwork(zipped, model.classes_)


def test_rules_of_a_graph_are_proven_and_shortest() -> None:
    table = np.random.default_rng(0).integers(0, 4, size=(120, FEATURES)) * [1.0, 2.0, 0.1, 1.0]
    graph = Graph(seed=5)
    mean = graph.constant(table.mean(axis=0))
    data = graph.node("Sub", mean).dense(FEATURES, WIDTH).node("Relu").dense(WIDTH, 1).node("Sigmoid").model()
    explainer = Explainer(OnnxNetwork(data), table, desired=1, threshold=0.4, domain="seen")
    assert explainer.unreadable_reason is None
    assert assert_shortest(explainer, 2) == 2

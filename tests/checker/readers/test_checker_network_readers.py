"""Second readings of networks: wherever a reading is sure, the model itself decides the same."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor

from ironrule import OnnxNetwork
from ironrule.checker.bounds.network_bounds import NetworkBounds, prepare_network_bounds
from ironrule.checker.bounds.pieces import Pieces
from ironrule.checker.readers.network_form import SINGLE_ROUNDOFF
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading
from ironrule.checker.readers.onnx_networks import read_onnx
from ironrule.checker.readers.sklearn_mlp import read_sklearn_mlp

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FEATURES, WIDTH, CODES = 4, 6, 6
TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
Rng = np.random.Generator


@dataclass(frozen=True)
class Column:
    """A column of one feature."""

    feature: int
    values: Any


def is_desired(model: Any, rows: Any, question: EstimatorTarget) -> Any:
    """The model's own decision, in the meaning of a question."""
    if not question.desired_classes:
        return np.asarray(model.predict(rows) > question.threshold)
    if question.threshold is None:
        return np.isin(model.predict(rows), np.asarray(model.classes_)[list(question.desired_classes)])
    return np.asarray(model.predict_proba(rows)[:, list(question.desired_classes)].sum(axis=1) > question.threshold)


def assert_agrees(
    model: Any, question: EstimatorTarget, rng: Rng, dtype: Any = np.float64, undecided: float = 0.01
) -> None:
    """Points and pieces: what the reading is sure of is what the model decides."""
    reading = (read_sklearn_mlp if isinstance(model, MLPClassifier | MLPRegressor) else read_onnx)(model, question)
    assert reading is not None
    columns = [Column(j, (rng.normal(size=CODES) * [1.0, 3.0, 0.2, 1.0][j]).astype(dtype)) for j in range(FEATURES)]
    bounds = prepare_network_bounds(reading, columns, [CODES] * FEATURES)
    points = np.array(list(product(range(CODES), repeat=FEATURES)), dtype=np.int32)
    rows = np.stack([column.values[points[:, column.feature]] for column in columns], axis=1)
    desired = is_desired(model, rows, question)
    possible, sure = bounds.decide(points)
    assert not (desired & ~possible).any()
    assert not (sure & ~desired).any()
    assert (possible & ~sure).mean() <= undecided
    assert_pieces_agree(bounds, points, desired, possible, rng)


def assert_pieces_agree(bounds: NetworkBounds, points: Any, desired: Any, possible: Any, rng: Rng) -> None:
    """A piece that is closed for every alternative holds no desired point; single points that surely are undesired, but
    for a few whose bound is just too wide, are closed.
    """
    sets = tuple(rng.random((6, CODES)) < 0.4 for _ in range(FEATURES))
    for flags in sets:
        flags[np.arange(6), rng.integers(0, CODES, size=6)] = True
    pieces = Pieces(sets, rng.integers(0, 6, size=(12, FEATURES), dtype=np.int32))
    closed = np.all([bounds.flag_closed(pieces, place) for place in range(len(bounds.alternatives))], axis=0)
    for piece in np.flatnonzero(closed):
        inside = np.all([sets[j][pieces.rows[piece, j]][points[:, j]] for j in range(FEATURES)], axis=0)
        assert not desired[inside].any()
    alone = Pieces(tuple(np.eye(CODES, dtype=np.bool_) for _ in range(FEATURES)), points[::11])
    closed = np.all([bounds.flag_closed(alone, place) for place in range(len(bounds.alternatives))], axis=0)
    assert not (closed & desired[::11]).any()
    assert (~possible[::11] & ~closed).mean() <= 0.02


def fit_perceptron(kind: Any, target: Any, rows: Any, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(hidden_layer_sizes=(7, 5), max_iter=60, **given).fit(rows, target)


def training_rows(seed: int, dtype: Any = np.float64) -> Any:
    rows = np.random.default_rng(seed).normal(size=(150, FEATURES)) * [1.0, 3.0, 0.2, 1.0]
    return rows.astype(dtype)


def score_of(rows: Any) -> Any:
    return rows[:, 0] * rows[:, 1] + rows[:, 3] - 4 * rows[:, 2]


@pytest.mark.parametrize("activation", ["identity", "relu", "tanh", "logistic"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(2))
def test_perceptrons_of_two_classes(activation: str, dtype: Any, seed: int) -> None:
    rows, rng = training_rows(seed, dtype), np.random.default_rng(seed)
    model = fit_perceptron(MLPClassifier, score_of(rows) > 0, rows, activation=activation, random_state=seed)
    assert model.coefs_[0].dtype == dtype
    for wanted, threshold in product((0, 1), (None, 0.3, 0.9, -0.5, 1.5)):
        assert_agrees(model, EstimatorTarget((wanted,), threshold), rng, rng.choice([np.float64, dtype]))


@pytest.mark.parametrize("activation", ["identity", "relu", "tanh", "logistic"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_perceptrons_of_several_classes(activation: str, dtype: Any) -> None:
    rows, rng = training_rows(1, dtype), np.random.default_rng(1)
    target = np.digitize(score_of(rows), [-3.0, 0.0, 3.0])
    model = fit_perceptron(MLPClassifier, target, rows, activation=activation, random_state=0, solver="lbfgs")
    for wanted in ((0,), (2,), (3, 1), (0, 1, 2)):
        assert_agrees(model, EstimatorTarget(wanted, None), rng, dtype)
    with pytest.raises(NoReading, match="softmax of more than two"):
        read_sklearn_mlp(model, EstimatorTarget((0,), 0.5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_perceptrons_that_predict_numbers(activation: str, dtype: Any) -> None:
    rows, rng = training_rows(2, dtype), np.random.default_rng(2)
    model = fit_perceptron(MLPRegressor, score_of(rows), rows, activation=activation, random_state=0)
    for threshold in (-2.0, 0.0, 1.5, float(np.median(model.predict(rows)))):
        assert_agrees(model, EstimatorTarget((), threshold), rng, dtype)


def test_perceptrons_that_predict_rates() -> None:
    rows, rng = training_rows(3), np.random.default_rng(3)
    rates = np.exp(np.clip(score_of(rows), -3, 3) / 2)
    try:
        model = fit_perceptron(MLPRegressor, rates, rows, loss="poisson", random_state=0)
    except TypeError:
        pytest.skip("this scikit-learn has no Poisson loss")
    for threshold in (-1.0, 0.3, 1.0, 2.5):
        assert_agrees(model, EstimatorTarget((), threshold), rng)
    with pytest.raises(NoReading, match="threshold on an exponential"):
        read_sklearn_mlp(model, EstimatorTarget((), 0.0))


def test_ties_are_never_taken_for_sure() -> None:
    rows = training_rows(4)
    model = fit_perceptron(MLPClassifier, np.digitize(score_of(rows), [0.0, 2.0]), rows, random_state=0)
    for array in (*model.coefs_[1:], *model.intercepts_[1:]):
        array[:] = 0.0  # all outputs are the same: the first class wins
    assert (model.predict(rows) == 0).all()
    assert_agrees(model, EstimatorTarget((0,), None), np.random.default_rng(0), undecided=1.0)
    assert_agrees(model, EstimatorTarget((2,), None), np.random.default_rng(0), undecided=1.0)


def assert_undecided(model: Any, question: EstimatorTarget, row: Any) -> None:
    """One row is left to the model."""
    reading = (read_sklearn_mlp if isinstance(model, MLPClassifier) else read_onnx)(model, question)
    assert reading is not None
    bounds = prepare_network_bounds(reading, [Column(j, row[j : j + 1]) for j in range(len(row))], [1] * len(row))
    assert [bool(flags[0]) for flags in bounds.decide(np.zeros((1, len(row)), np.int32))] == [True, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_whose_probabilities_are_rounded_to_a_tie_are_left_to_the_model(dtype: Any) -> None:
    small = 1e-9 if dtype == np.float32 else 1e-18
    row = np.array([0.0, small, 0.0, small])
    for end in ("probability", "both probabilities", "two probabilities", "three probabilities"):
        width, classes, finish = ENDS[end]
        graph = Graph(dtype)
        graph.node("MatMul", graph.constant(np.eye(FEATURES)[:, 1:2] if width == 1 else np.eye(FEATURES)[:, :width]))
        model = OnnxNetwork(finish(graph).model(), range(classes))
        assert model.predict(row[None, :]).tolist() == [0]  # although the score of class 1 is the largest
        for wanted in (0, 1):
            assert_undecided(model, EstimatorTarget((wanted,), None), row)
    for target in (np.arange(150) % 2, np.arange(150) % 3):
        model = fit_perceptron(MLPClassifier, target, training_rows(0, dtype), activation="identity", random_state=0)
        for array in (*model.coefs_, *model.intercepts_):
            array[:] = 0.0
        model.coefs_[0][1, 0] = model.coefs_[1][0, 0] = model.coefs_[2][0, -1] = 1.0
        assert model.predict(row[None, :].astype(dtype)).tolist() == [0]
        for wanted in (0, int(target.max())):
            assert_undecided(model, EstimatorTarget((wanted,), None), row.astype(dtype))


def test_a_threshold_next_to_a_prediction_is_left_to_the_model() -> None:
    rng = np.random.default_rng(5)
    for dtype in (np.float64, np.float32):
        rows = training_rows(5, dtype)
        model = fit_perceptron(MLPClassifier, score_of(rows) > 0, rows, activation="tanh", random_state=5)
        grid = np.array(list(product(*rng.normal(size=(FEATURES, 4)).astype(dtype))), dtype=dtype)
        for row in grid[::17]:
            at = model.predict_proba(row[None, :])[0, 1]
            for threshold in map(float, (at, np.nextafter(at, dtype(0)), np.nextafter(at, dtype(1)))):
                question = EstimatorTarget((1,), threshold)
                reading = read_sklearn_mlp(model, question)
                assert reading is not None
                columns = [Column(j, row[j : j + 1]) for j in range(FEATURES)]
                possible, sure = prepare_network_bounds(reading, columns, [1] * FEATURES).decide(
                    np.zeros((1, FEATURES), np.int32)
                )
                assert possible[0]
                assert not sure[0]


class Graph:
    """A graph that grows node by node; the first input of every node is what came out last, unless all are named."""

    def __init__(self, dtype: Any = np.float32, seed: int = 0, rows: Any = "rows", columns: Any = FEATURES) -> None:
        self.dtype, self.rows, self.columns, self.last = dtype, rows, columns, "x"
        self.nodes, self.constants = list[Any](), list[Any]()
        self.rng = np.random.default_rng(seed)
        self.taken = dtype  # the type of what comes in; ``dtype`` is that of what came out last

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype or self.dtype), name))
        return name

    def random(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape))

    def node(self, op: str, *inputs: str, named: bool = False, **attributes: Any) -> Graph:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs) if named else [self.last, *inputs], [name], **attributes))
        self.last = name
        return self

    def dense(self, inputs: int, outputs: int) -> Graph:
        scaled = self.constant(self.rng.normal(size=(inputs, outputs)) * (2 / inputs) ** 0.5)
        return self.node("MatMul", scaled).node("Add", self.random(outputs))

    def model(self, opset: int = 17) -> bytes:
        x = helper.make_tensor_value_info("x", TYPES[self.taken], [self.rows, self.columns])
        y = helper.make_tensor_value_info(self.last, TYPES[self.dtype], None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def normalize(graph: Graph, width: int) -> Graph:
    parts = [graph.random(width), graph.random(width), graph.random(width), graph.constant(graph.rng.random(width))]
    return graph.node("BatchNormalization", *parts, epsilon=1e-3)


def cast(graph: Graph, dtype: Any) -> Graph:
    graph.node("Cast", to=TYPES[dtype])
    graph.dtype = dtype
    return graph


def join(graph: Graph) -> Graph:
    chance = graph.node("Sigmoid").last
    first = graph.node("Sub", graph.constant(1.0), chance, named=True).last
    return graph.node("Concat", first, chance, named=True, axis=1)


MIDDLES: dict[str, Any] = {
    "relu": lambda g: g.node("Relu"),
    "leaky": lambda g: g.node("LeakyRelu", alpha=0.2),
    "leaky by default": lambda g: g.node("LeakyRelu"),
    "tanh": lambda g: g.node("Tanh"),
    "sigmoid": lambda g: g.node("Sigmoid"),
    "twice": lambda g: g.node("Tanh").node("Relu"),
    "nothing": lambda g: g.node("Identity").node("Dropout"),
    "batch norm": lambda g: normalize(g, WIDTH).node("Relu"),
    "batch norm after": lambda g: normalize(g.node("Relu"), WIDTH),
    "batch norm of a product": lambda g: normalize(g.node("Relu").node("MatMul", g.random(WIDTH, WIDTH)), WIDTH),
    "scaled": lambda g: g.node("Mul", g.random(WIDTH)).node("Div", g.random(1, WIDTH)).node("Tanh"),
    "shifted": lambda g: g.node("Sub", g.random(WIDTH)).node("Add", g.random()).node("Relu"),
    "subtracted from": lambda g: g.node("Sub", g.random(WIDTH), g.last, named=True).node("Relu"),
    "added to": lambda g: g.node("Add", g.random(1, WIDTH), g.last, named=True).node("Relu"),
    "negated": lambda g: g.node("Mul", g.random(1), g.last, named=True).node("Neg").node("Relu"),
    "reshaped": lambda g: g.node("Reshape", g.constant([0, -1], np.int64)).node("Relu"),
    "reshaped to its width": lambda g: g.node("Reshape", g.constant([-1, WIDTH], np.int64)).node("Relu"),
    "flattened": lambda g: g.node("Flatten").node("Relu"),
    "gemm": lambda g: g.node("Gemm", g.random(WIDTH, WIDTH), g.random(WIDTH)).node("Relu"),
    "gemm with factors": lambda g: g.node(
        "Gemm", g.random(WIDTH, WIDTH), g.random(1, WIDTH), alpha=0.3, beta=0.7, transB=1
    ).node("Tanh"),
    "gemm without bias": lambda g: g.node("Gemm", g.random(WIDTH, WIDTH), alpha=0.3).node("Tanh"),
    "cast": lambda g: cast(cast(g.node("Relu"), np.float64), np.float32),
}
ENDS: dict[str, tuple[int, int, Any]] = {  # the last layer's width, how many classes, what comes behind it
    "score": (1, 2, lambda g: g),
    "score alone": (1, 2, lambda g: g.node("Squeeze", g.constant([1], np.int64))),
    "any score alone": (1, 2, lambda g: g.node("Squeeze").node("Add", g.random())),
    "flat score": (1, 2, lambda g: g.node("Reshape", g.constant([-1], np.int64))),
    "column": (1, 2, lambda g: g.node("Reshape", g.constant([-1, 1], np.int64))),
    "probability": (1, 2, lambda g: g.node("Sigmoid")),
    "probability alone": (1, 2, lambda g: g.node("Sigmoid").node("Squeeze", g.constant([-1], np.int64))),
    "both probabilities": (1, 2, join),
    "two scores": (2, 2, lambda g: g),
    "two probabilities": (2, 2, lambda g: g.node("Softmax")),
    "two logarithms": (2, 2, lambda g: g.node("LogSoftmax")),
    "two of their own": (2, 2, lambda g: g.node("Sigmoid")),
    "three scores": (3, 3, lambda g: g),
    "three probabilities": (3, 3, lambda g: g.node("Softmax", axis=1).node("Identity")),
    "three logarithms": (3, 3, lambda g: g.node("LogSoftmax", axis=-1)),
    "three of their own": (3, 3, lambda g: g.node("Sigmoid")),
}


def assert_network_agrees(middle: str, end: str, dtype: Any, seed: int) -> None:
    width, classes, finish = ENDS[end]
    graph = MIDDLES[middle](Graph(dtype, seed).dense(FEATURES, WIDTH))
    model = OnnxNetwork(finish(graph.dense(WIDTH, width)).model(), [f"class {k}" for k in range(classes)])
    rng, questions = np.random.default_rng(seed), [EstimatorTarget((0,), None), EstimatorTarget((1,), None)]
    if classes == 2 or end == "three of their own":
        questions += [EstimatorTarget((0,), 0.3), EstimatorTarget((1,), 0.7)]
    if classes == 3:
        questions.append(EstimatorTarget((0, 2), None))
    for question in questions:
        assert_agrees(model, question, rng, rng.choice([np.float64, np.float32]), undecided=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("middle", MIDDLES)
def test_onnx_networks_with_every_step(middle: str, dtype: Any) -> None:
    assert_network_agrees(middle, "score", dtype, list(MIDDLES).index(middle))
    assert_network_agrees(middle, "three probabilities", dtype, 1 + list(MIDDLES).index(middle))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("end", ENDS)
def test_onnx_networks_with_every_end(end: str, dtype: Any) -> None:
    assert_network_agrees("relu", end, dtype, list(ENDS).index(end))


def test_the_scaler_of_machine_learning_graphs() -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        offset, scale = rng.normal(size=FEATURES).tolist(), rng.normal(size=FEATURES).tolist()
        graph = Graph(dtype).node("Scaler", offset=offset, scale=scale, domain="ai.onnx.ml")
        graph.dtype = np.float32
        graph.dense(FEATURES, 3).node("Relu").dense(3, 1)
        assert_agrees(OnnxNetwork(graph.model()), EstimatorTarget((1,), None), rng)


def test_onnx_networks_that_predict_numbers_and_fixed_rows() -> None:
    rng = np.random.default_rng(1)
    for rows in ("rows", 1, 8):
        model = OnnxNetwork(Graph(rows=rows).dense(FEATURES, 5).node("Tanh").dense(5, 1).model(), classes=None)
        for threshold in (-1.0, 0.25):
            assert_agrees(model, EstimatorTarget((), threshold), rng)
    limited = Graph().dense(FEATURES, 5).node("Relu").dense(5, 1).node("Sigmoid").model()
    assert_agrees(OnnxNetwork(limited, classes=None), EstimatorTarget((), 0.4), rng)
    shape = [8, -1]
    fixed = Graph(rows=8).dense(FEATURES, 5)
    fixed.node("Reshape", fixed.constant(shape, np.int64)).node("Relu").dense(5, 1)
    assert_agrees(OnnxNetwork(fixed.model()), EstimatorTarget((1,), None), rng)


def test_networks_whose_outputs_are_said_to_be_probabilities() -> None:
    rng = np.random.default_rng(2)
    for width, factor in ((1, 0.2), (2, 0.2), (3, 0.2)):
        graph = Graph(seed=width).dense(FEATURES, 5).node("Tanh").dense(5, width)
        graph.node("Mul", graph.constant(factor)).node("Add", graph.constant(0.5))
        model = OnnxNetwork(graph.model(), range(max(2, width)), probabilities=True)
        for question in (
            EstimatorTarget((0,), None),
            EstimatorTarget((1,), None),
            EstimatorTarget((0,), 0.4),
            EstimatorTarget((1,), 0.6),
        ):
            assert_agrees(model, question, rng)


def test_a_width_that_the_graph_does_not_say_is_that_of_its_first_product() -> None:
    model = OnnxNetwork(Graph(columns="columns").dense(FEATURES, 5).node("Tanh").dense(5, 1).model())
    assert_agrees(model, EstimatorTarget((1,), None), np.random.default_rng(3))


def test_onnx_thresholds_next_to_a_prediction_are_left_to_the_model() -> None:
    rng = np.random.default_rng(6)
    for end in ("score", "probability", "both probabilities", "two scores", "two probabilities", "two of their own"):
        width, _, finish = ENDS[end]
        model = OnnxNetwork(finish(Graph(np.float32, 3).dense(FEATURES, 5).node("Relu").dense(5, width)).model())
        for row, wanted in product(rng.normal(size=(5, FEATURES)), (0, 1)):
            at = model.predict_proba(row[None, :])[0, wanted]
            for threshold in (at, np.nextafter(at, 0.0), np.nextafter(at, 1.0)):
                reading = read_onnx(model, EstimatorTarget((wanted,), float(threshold)))
                assert reading is not None
                columns = [Column(j, row[j : j + 1]) for j in range(FEATURES)]
                bounds = prepare_network_bounds(reading, columns, [1] * FEATURES)
                possible, sure = bounds.decide(np.zeros((1, FEATURES), np.int32))
                assert possible[0]
                assert not sure[0]


REFUSED: dict[str, Any] = {
    "Clip": lambda g: g.node("Clip"),
    "Elu": lambda g: g.node("Elu"),
    "Softmax": lambda g: g.node("Softmax"),  # in the middle
    "Add": lambda g: g.node("Add", g.last),  # of a value and itself
    "LeakyRelu": lambda g: g.node("LeakyRelu", alpha=1.5),
    "Div": lambda g: g.node("Div", g.random(WIDTH), g.last, named=True),
    "Transpose": lambda g: g.node("Transpose").node("Transpose"),
    "Flatten": lambda g: g.node("Flatten", axis=0).node("Reshape", g.constant([-1, WIDTH], np.int64)),
    "Reshape": lambda g: g.node("Reshape", g.constant([-1, 2, 3], np.int64)).node("Flatten"),
    "Cast": lambda g: g.node("Cast", to=TensorProto.FLOAT16).node("Cast", to=TensorProto.FLOAT),
    "Dropout": lambda g: g.node("Dropout", g.constant(0.0), g.constant(True, bool)),
}


@pytest.mark.parametrize("step", REFUSED)
def test_other_steps_are_refused_by_name(step: str) -> None:
    graph = REFUSED[step](Graph().dense(FEATURES, WIDTH)).dense(WIDTH, 1)
    name = "slope of a leaky relu" if step == "LeakyRelu" else step
    with pytest.raises(NoReading, match=name):
        read_onnx(OnnxNetwork(graph.model(), probabilities=False), EstimatorTarget((1,), None))


def test_a_step_of_another_domain_is_not_taken_for_the_standard_one() -> None:
    graph = Graph().dense(FEATURES, WIDTH).node("Relu", domain="somewhere.else").dense(WIDTH, 1)
    with pytest.raises(NoReading, match="Relu"):
        read_onnx(OnnxNetwork(graph.model(), probabilities=False), EstimatorTarget((1,), None))


def test_thresholds_that_are_no_limit_of_one_score_are_refused() -> None:
    for end in ("three scores", "three probabilities", "three logarithms"):
        model = OnnxNetwork(ENDS[end][2](Graph().dense(FEATURES, 3)).model(), range(3))
        with pytest.raises(NoReading, match="softmax of more than two"):
            read_onnx(model, EstimatorTarget((0,), 0.5))
    model = OnnxNetwork(Graph().dense(FEATURES, 1).node("Sigmoid").model())
    for threshold in (0.0, 1.0, 1.0 + SINGLE_ROUNDOFF):
        with pytest.raises(NoReading, match="too near 0 or 1"):
            read_onnx(model, EstimatorTarget((1,), threshold))


class Policy(MLPClassifier):
    """A perceptron with a policy on top."""

    def predict(self, X: Any) -> Any:
        return np.ones(len(X), dtype=bool)


class OnnxPolicy(OnnxNetwork):
    """A network with a policy on top."""

    def run(self, rows: Any) -> Any:
        return np.ones((len(rows), 1))


def test_subclasses_and_changed_objects_have_no_reading() -> None:
    rows, question = training_rows(0), EstimatorTarget((1,), None)
    target = score_of(rows) > 0
    assert read_sklearn_mlp(fit_perceptron(Policy, target, rows, random_state=0), question) is None
    for method in ("predict", "predict_proba", "_predict", "_forward_pass_fast"):
        model = fit_perceptron(MLPClassifier, target, rows, random_state=0)
        setattr(model, method, lambda X: np.ones(len(X), dtype=bool))
        with pytest.raises(NoReading, match=f"{method} of this MLPClassifier was replaced"):
            read_sklearn_mlp(model, question)
    model = fit_perceptron(MLPClassifier, target, rows, random_state=0)
    model._label_binarizer.inverse_transform = lambda y: np.ones(len(y))
    with pytest.raises(NoReading, match="labels are decoded"):
        read_sklearn_mlp(model, question)
    source = Graph().dense(FEATURES, 1).model()
    assert read_onnx(OnnxPolicy(source), question) is None
    for method in ("run", "_run", "outputs"):
        network = OnnxNetwork(source)
        setattr(network, method, lambda rows: np.ones((len(rows), 1)))
        with pytest.raises(NoReading, match=f"{method} of this OnnxNetwork was replaced"):
            read_onnx(network, question)
    assert read_onnx(model, question) is None
    assert read_sklearn_mlp(OnnxNetwork(source), question) is None


def test_perceptrons_that_cannot_be_read_say_why() -> None:
    rows, question = training_rows(0), EstimatorTarget((1,), None)
    with pytest.raises(NoReading, match="not fitted"):
        read_sklearn_mlp(MLPClassifier(), question)
    labels = np.stack([score_of(rows) > 0, rows[:, 0] > 0], axis=1).astype(int)
    with pytest.raises(NoReading, match="multilabel"):
        read_sklearn_mlp(fit_perceptron(MLPClassifier, labels, rows, random_state=0), question)
    numbers = np.stack([score_of(rows), rows[:, 0]], axis=1)
    with pytest.raises(NoReading, match="one output"):
        read_sklearn_mlp(fit_perceptron(MLPRegressor, numbers, rows, random_state=0), EstimatorTarget((), 0.0))
    model = fit_perceptron(MLPClassifier, score_of(rows) > 0, rows, random_state=0)
    model.coefs_[0][0, 0] = np.nan
    with pytest.raises(NoReading, match="finite"):
        read_sklearn_mlp(model, question)
    model.coefs_[0] = model.coefs_[0][:, :3]
    with pytest.raises(NoReading, match="expected"):
        read_sklearn_mlp(model, question)
    model.coefs_[0] = model.coefs_[0].astype(np.float16)
    with pytest.raises(NoReading, match="float16"):
        read_sklearn_mlp(model, question)

"""Read ONNX networks (``ironrule.OnnxNetwork``), from the ONNX operator specification.

The graph must be a chain of steps from its one input to the output that the estimator looks at: every step takes what
the step before gave, and constants. A step becomes a layer: a factor per unit is a diagonal matrix, batch normalisation
a shift and then such a factor. Nothing is multiplied together here, so that the sizes of all numbers that the model may
round are counted. onnxruntime does multiply the factors of neighbouring steps; the error that
:mod:`~ironrule.checker.readers.network_form` counts for every layer covers that.

What ``predict`` and ``predict_proba`` make of the outputs (the estimator's documentation): one output for two classes
speaks for the second one, a score by its sign, a probability by being above one half; with an output per class the
first of the largest wins. Scores become probabilities by a logistic function or a softmax, in double precision;
probabilities stay as they are. Without classes the one output is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.checker.arrays import Float64Array
from ironrule.checker.readers import network_form
from ironrule.checker.readers.network_form import SMALLEST_NORMAL, ActivationFunction, NetworkForm, NetworkLayer
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF, EstimatorTarget, NoReading
from ironrule.checker.readers.registry import identify_class

TO_SINGLE, TO_DOUBLE = 1, 11  # onnx.TensorProto.FLOAT and DOUBLE
ALLOWED_AFTER_END = ("Identity", "Dropout", "Cast", "Flatten", "Reshape")
ACTIVATIONS: dict[str, Any] = {"Relu": "relu", "LeakyRelu": "leaky", "Tanh": "tanh", "Sigmoid": "logistic"}


@dataclass(frozen=True, slots=True)
class OnnxStep:
    """One node of the chain. ``constants`` has its inputs, None for the one that the step before gave, at ``place``,
    and for those that are left out.
    """

    name: str
    attributes: dict[str, Any]
    constants: tuple[Any, ...]
    place: int

    def build_error(self, why: str) -> NoReading:
        """The answer to a step that has no reading."""
        return NoReading(f"the step {self.name} of this ONNX model has no reading: {why}")

    def get_constant(self, place: int) -> Any:
        """An input that must be a constant; None where it is left out."""
        return self.constants[place] if place < len(self.constants) else None

    def get_numbers(self, value: Any, builder: LayerBuilder) -> Float64Array:
        """A constant with a number for every unit, or one for all; any other would change the shape."""
        array = np.asarray(value)
        fits = array.size == (array.shape or (1,))[-1] in (1, builder.width)
        if array.dtype.kind != "f" or not fits or array.ndim > (1 if builder.is_flat else 2):
            raise self.build_error(f"constants must have one number or one for each of {builder.width} units")
        return np.broadcast_to(array.astype(np.float64).ravel(), (builder.width,)).copy()


@dataclass(slots=True)
class LayerBuilder:
    """The layers read so far; ``is_flat`` where values are one list, a number per row, and no matrix."""

    width: int
    roundoff: float
    rows: int | None  # where the graph fixes their number
    layers: list[NetworkLayer] = field(default_factory=list)
    is_flat: bool = False
    end: str = ""  # the step that makes probabilities of all outputs together, once it has come

    def append(self, weights: Float64Array, bias: Float64Array) -> None:
        """Add a layer without an activation."""
        self.layers.append(NetworkLayer(np.asarray(weights, np.float64), np.asarray(bias, np.float64)))
        self.width = len(bias)

    def shift(self, numbers: Float64Array) -> None:
        """Add numbers to the units; they become the bias of a product that has just come without one."""
        last = self.layers[-1] if self.layers else None
        if last is not None and last.activation.kind == "identity" and not last.bias.any():
            self.layers[-1] = NetworkLayer(last.weights, numbers)
        else:
            self.append(np.eye(self.width), numbers)

    def scale(self, factors: Float64Array) -> None:
        """Multiply every unit by a number."""
        self.append(np.diag(factors), np.zeros(self.width))

    def activate(self, activation: ActivationFunction) -> None:
        """Apply an activation to every unit."""
        if not self.layers or self.layers[-1].activation.kind != "identity":
            self.append(np.eye(self.width), np.zeros(self.width))
        self.layers[-1] = NetworkLayer(self.layers[-1].weights, self.layers[-1].bias, activation)


def get_product_weights(step: OnnxStep) -> Any:
    """The matrix of a product, with a row for every input."""
    weights = step.get_constant(1)
    if step.place != 0 or weights is None or weights.ndim > 2 or not weights.ndim or step.attributes.get("transA"):
        raise step.build_error("rows must be multiplied by a constant matrix")
    return weights.T if step.attributes.get("transB") else weights


def _read_product(step: OnnxStep, builder: LayerBuilder) -> None:
    weights = get_product_weights(step).astype(np.float64)
    if builder.is_flat or len(weights) != builder.width:
        raise step.build_error(f"a matrix with {builder.width} rows is expected, got {weights.shape}")
    factor = float(step.attributes.get("alpha", 1.0))
    builder.is_flat = weights.ndim == 1  # a vector leaves one number per row
    weights = factor * weights.reshape(builder.width, -1)
    builder.append(weights, np.zeros(weights.shape[1]))
    if step.get_constant(2) is not None:
        builder.shift(float(step.attributes.get("beta", 1.0)) * step.get_numbers(step.get_constant(2), builder))


def _read_arithmetic(step: OnnxStep, builder: LayerBuilder) -> None:
    numbers = step.get_numbers(step.get_constant(1 - step.place), builder)
    match step.name, step.place:
        case "Add", _:
            builder.shift(numbers)
        case "Sub", 0:
            builder.shift(-numbers)
        case "Sub", _:
            builder.append(-np.eye(builder.width), numbers)
        case "Mul", _:
            builder.scale(numbers)
        case "Div", 0 if (np.abs(numbers) > SMALLEST_NORMAL[SINGLE_ROUNDOFF]).all():
            builder.scale(1.0 / numbers)
        case _:
            raise step.build_error("it divides by what is not constant, or by zero")


def _read_activation(step: OnnxStep, builder: LayerBuilder) -> None:
    slope = float(step.attributes.get("alpha", np.float32(0.01))) if step.name == "LeakyRelu" else 0.0
    builder.activate(ActivationFunction(ACTIVATIONS[step.name], slope))


def _read_end(step: OnnxStep, builder: LayerBuilder) -> None:
    if builder.is_flat or step.attributes.get("axis", -1) not in (1, -1):
        raise step.build_error("it must be taken over the units of a row")
    if step.name == "Concat":
        if builder.width != 1 or not builder.layers or builder.layers[-1].activation.kind != "logistic":
            raise step.build_error("only 1 - p and p, of a Sigmoid, may be put together")
    elif builder.width == 1:
        raise step.build_error("it needs several units")
    builder.end = step.name


def _read_normalization(step: OnnxStep, builder: LayerBuilder) -> None:
    """y = scale (x - mean) / sqrt(variance + epsilon) + bias."""
    parts = [step.get_constant(place) for place in (1, 2, 3, 4)]
    fits = all(np.shape(part) == (builder.width,) for part in parts)
    if builder.is_flat or step.attributes.get("training_mode") or not fits:
        raise step.build_error(f"it must have constants for each of {builder.width} units, and not be in training")
    scale, bias, mean, variance = (step.get_numbers(part, builder) for part in parts)
    spread = variance + float(step.attributes.get("epsilon", np.float32(1e-5)))
    if not (spread > SMALLEST_NORMAL[SINGLE_ROUNDOFF]).all():
        raise step.build_error("its variance plus epsilon must be positive")
    builder.shift(-mean)
    builder.append(np.diag(scale / np.sqrt(spread)), bias)


def _read_scaler(step: OnnxStep, builder: LayerBuilder) -> None:
    """y = (x - offset) scale, in single precision."""
    builder.roundoff = SINGLE_ROUNDOFF
    offset, scale = (np.asarray(step.attributes.get(name, ()), np.float64) for name in ("offset", "scale"))
    builder.shift(-step.get_numbers(offset, builder))
    builder.scale(step.get_numbers(scale, builder))


def _read_cast(step: OnnxStep, builder: LayerBuilder) -> None:
    if step.attributes.get("to") not in (TO_SINGLE, TO_DOUBLE):
        raise step.build_error("numbers must stay in single or double precision")
    if step.attributes["to"] == TO_SINGLE:
        builder.roundoff = SINGLE_ROUNDOFF


def _read_shape(step: OnnxStep, builder: LayerBuilder) -> None:
    """Steps that move numbers must keep the rows apart, and the order of a row's units."""
    match step.name:
        case "Flatten":
            if step.attributes.get("axis", 1) != 1:
                raise step.build_error("rows must be kept apart")
            builder.is_flat = False
        case "Squeeze":
            axes = step.attributes.get("axes") if len(step.constants) < 2 else step.get_constant(1)
            if builder.is_flat or builder.width != 1 or not (axes is None or list(axes) in ([1], [-1])):
                raise step.build_error("only a single unit may lose its dimension")
            builder.is_flat = True
        case _:
            shape = step.get_constant(1)
            given = [] if shape is None or step.attributes.get("allowzero") else shape.tolist()
            rows = given[:1] and (given[0] in (0, -1) or given[0] == builder.rows) and given.count(-1) < 2
            if not rows or not (given[1:] in ([builder.width], [-1]) or (given[1:] == [] and builder.width == 1)):
                raise step.build_error(f"rows of {builder.width} units must be kept apart, got a shape of {given}")
            builder.is_flat = len(given) == 1


def _read_dropout(step: OnnxStep, _: LayerBuilder) -> None:
    """Dropout does nothing unless it is told to train."""
    training = step.get_constant(2)
    if step.place != 0 or (training is not None and np.any(training)):
        raise step.build_error("it must not be in training")


StepReader = Callable[[OnnxStep, LayerBuilder], None]
# the reader of every step, and the attributes that it looks at
STEP_READERS: dict[str, tuple[StepReader, frozenset[str]]] = {
    "Gemm": (_read_product, frozenset(("alpha", "beta", "transA", "transB"))),
    "MatMul": (_read_product, frozenset()),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (_read_arithmetic, frozenset())),
    "Neg": (lambda _, builder: builder.scale(-np.ones(builder.width)), frozenset()),
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid"), (_read_activation, frozenset())),
    "LeakyRelu": (_read_activation, frozenset(("alpha",))),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Concat"), (_read_end, frozenset(("axis",)))),
    "BatchNormalization": (_read_normalization, frozenset(("epsilon", "momentum", "training_mode"))),
    "Scaler": (_read_scaler, frozenset(("offset", "scale"))),
    "Cast": (_read_cast, frozenset(("to", "saturate"))),
    "Identity": (_read_dropout, frozenset()),
    "Dropout": (_read_dropout, frozenset(("ratio", "seed"))),
    "Flatten": (_read_shape, frozenset(("axis",))),
    "Squeeze": (_read_shape, frozenset(("axes",))),
    "Reshape": (_read_shape, frozenset(("allowzero",))),
}


# those of an unchanged OnnxNetwork
KNOWN_ATTRIBUTES = {"source", "classes", "probabilities", "output", "signature", "_session"}


def read_onnx(estimator: Any, target: EstimatorTarget) -> NetworkForm | None:
    """Read an OnnxNetwork; None for anything else, NoReading for what has no reading."""
    own = type(estimator).__module__.startswith("ironrule.model.wrappers.")
    if not own or identify_class("ironrule", estimator) != "OnnxNetwork":
        return None
    replaced = sorted(set(vars(estimator)) - KNOWN_ATTRIBUTES)
    if replaced:
        raise NoReading(f"the {replaced[0]} of this OnnxNetwork was replaced")
    signature = estimator.signature
    steps = _collect_steps(_load_graph(estimator.source), signature.input, signature.output)
    products = (step for step in steps if step.name in ("Gemm", "MatMul"))
    width = signature.columns or next((len(get_product_weights(step)) for step in products), 0)
    roundoff = DOUBLE_ROUNDOFF if signature.dtype == np.dtype(np.float64) else SINGLE_ROUNDOFF
    builder = LayerBuilder(width, roundoff, signature.rows)
    for step in steps:
        if builder.end and step.name not in ALLOWED_AFTER_END:
            raise step.build_error(f"it comes behind a {builder.end}")
        STEP_READERS[step.name][0](step, builder)
    if not builder.layers:
        builder.append(np.eye(width), np.zeros(width))
    return _decide_outputs(builder, estimator, target)


def _decide_outputs(builder: LayerBuilder, estimator: Any, target: EstimatorTarget) -> NetworkForm:
    layers, roundoff, probabilities = tuple(builder.layers), builder.roundoff, bool(estimator.gives_probabilities)
    if estimator.classes is None:
        if builder.width != 1 or builder.end or target.threshold is None:
            raise NoReading("a regression must have one output, of numbers, and a threshold")
        return network_form.decide_number(layers, target.threshold, roundoff)
    classes = len(estimator.classes)
    if builder.end and probabilities == (builder.end == "LogSoftmax"):
        raise NoReading(f"the model ends in {builder.end}, but its outputs are taken for something else")
    if classes < 2 or builder.width not in ((1, 2) if classes == 2 else (classes,)):
        raise NoReading(f"an output for each of {classes} classes is expected, got {builder.width}")
    if builder.end in ("Softmax", "LogSoftmax") or (builder.width > 1 and not probabilities):
        return network_form.decide_softmax(layers, target, roundoff, roundoff if builder.end else DOUBLE_ROUNDOFF)
    if builder.width > 1:
        return network_form.decide_probability_outputs(layers, target, roundoff)
    if not probabilities:
        return network_form.decide_logistic(layers, target, roundoff, DOUBLE_ROUNDOFF)
    last = layers[-1]
    if last.activation.kind == "logistic":
        scored = (*layers[:-1], NetworkLayer(last.weights, last.bias))
        return network_form.decide_logistic(scored, target, roundoff, roundoff)
    return network_form.decide_probability_output(layers, target, roundoff)


def _load_graph(source: bytes) -> Any:
    """The graph, with the model's own functions put in their places."""
    import onnx
    from onnx import inliner

    model = onnx.load_model_from_string(source)
    return (inliner.inline_local_functions(model) if model.functions else model).graph


def _collect_steps(graph: Any, start: str, output: str) -> list[OnnxStep]:
    """The steps from the input to an output, in order; raises NoReading where they are no chain or not known."""
    from onnx import helper, numpy_helper

    makers = {name: node for node in graph.node for name in node.output}
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and [one.name for one in node.attribute] == ["value"]:
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    steps, wanted = list[OnnxStep](), output
    while wanted != start:
        node = makers.get(wanted)
        if node is None or wanted != node.output[0] or len(steps) > len(graph.node):
            raise NoReading("the steps of this ONNX model are no chain from its input to its output")
        step_inputs = list(node.input)
        if node.op_type == "Concat" and len(step_inputs) == 2:
            step_inputs = _skip_complement(step_inputs, makers, constants)
        varying = [place for place, name in enumerate(step_inputs) if name and name not in constants]
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        domains = ("ai.onnx.ml",) if node.op_type == "Scaler" else ("", "ai.onnx")
        step = OnnxStep(node.op_type, attributes, tuple(map(constants.get, step_inputs)), varying[0] if varying else -1)
        _, known = STEP_READERS.get(node.op_type, (None, frozenset[str]()))
        if node.op_type not in STEP_READERS or node.domain not in domains or not set(attributes) <= known:
            raise step.build_error("it, or one of its attributes, is not known")
        if len(varying) != 1:
            raise step.build_error("the steps of the model are no chain of layers")
        steps.append(step)
        wanted = step_inputs[varying[0]]
    return steps[::-1]


def _skip_complement(inputs: list[str], makers: dict[str, Any], constants: dict[str, Any]) -> list[str]:
    """The probability p alone if 1 - p and p are put together, as exports of two classes do."""
    node = makers.get(inputs[0])
    if node is not None and node.op_type == "Sub" and node.domain == "" and list(node.input)[1:] == inputs[1:]:
        one = constants.get(node.input[0])
        if one is not None and one.ndim <= 2 and one.size == 1 and one.item() == 1.0:
            return inputs[1:]
    return inputs

"""What the steps of an ONNX graph do to a chain of layers, from the ONNX operator specification.

A step becomes a layer: a factor per unit is a diagonal matrix, batch normalisation a shift and then such a factor.
Nothing is multiplied together here, so that the sizes of all numbers that the model may round are counted. onnxruntime
does multiply the factors of neighbouring steps; the error that :mod:`~ironrule.checker.readings.network_form` counts
for every layer covers that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ironrule.checker.readings.network_form import SINGLE, SMALLEST, Activation, Layer
from ironrule.checker.readings.normal_form import Floats, Unreadable

TO_SINGLE, TO_DOUBLE = 1, 11  # onnx.TensorProto.FLOAT and DOUBLE
BEHIND_AN_END = ("Identity", "Dropout", "Cast", "Flatten", "Reshape")


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the chain. ``constants`` has its inputs, None for the one that the step before gave, at ``place``,
    and for those that are left out.
    """

    name: str
    attributes: dict[str, Any]
    constants: tuple[Any, ...]
    place: int

    def refuse(self, why: str) -> Unreadable:
        """The answer to a step that has no reading."""
        return Unreadable(f"the step {self.name} of this ONNX model has no reading: {why}")

    def constant(self, place: int) -> Any:
        """An input that must be a constant; None where it is left out."""
        return self.constants[place] if place < len(self.constants) else None

    def numbers(self, value: Any, chain: Chain) -> Floats:
        """A constant with a number for every unit, or one for all; any other would change the shape."""
        array = np.asarray(value)
        fits = array.size == (array.shape or (1,))[-1] in (1, chain.width) and array.ndim <= (1 if chain.flat else 2)
        if array.dtype.kind != "f" or not fits:
            raise self.refuse(f"constants must have one number or one for each of {chain.width} units")
        return np.broadcast_to(array.astype(np.float64).ravel(), (chain.width,)).copy()


@dataclass(slots=True)
class Chain:
    """The layers read so far; ``flat`` where values are one list, a number per row, and no matrix with a row each."""

    width: int
    unit: float
    rows: int | None  # where the graph fixes their number
    layers: list[Layer] = field(default_factory=list)
    flat: bool = False
    end: str = ""  # the step that makes probabilities of all outputs together, once it has come

    def append(self, weights: Floats, bias: Floats) -> None:
        """Add a layer without an activation."""
        self.layers.append(Layer(np.asarray(weights, np.float64), np.asarray(bias, np.float64)))
        self.width = len(bias)

    def shift(self, numbers: Floats) -> None:
        """Add numbers to the units; they become the bias of a product that has just come without one."""
        last = self.layers[-1] if self.layers else None
        if last is not None and last.activation.kind == "identity" and not last.bias.any():
            self.layers[-1] = Layer(last.weights, numbers)
        else:
            self.append(np.eye(self.width), numbers)

    def scale(self, factors: Floats) -> None:
        """Multiply every unit by a number."""
        self.append(np.diag(factors), np.zeros(self.width))

    def activate(self, activation: Activation) -> None:
        """Apply an activation to every unit."""
        if not self.layers or self.layers[-1].activation.kind != "identity":
            self.append(np.eye(self.width), np.zeros(self.width))
        self.layers[-1] = Layer(self.layers[-1].weights, self.layers[-1].bias, activation)


def product_weights(step: Step) -> Any:
    """The matrix of a product, with a row for every input."""
    weights = step.constant(1)
    if step.place != 0 or weights is None or weights.ndim > 2 or not weights.ndim or step.attributes.get("transA"):
        raise step.refuse("rows must be multiplied by a constant matrix")
    return weights.T if step.attributes.get("transB") else weights


def _read_product(step: Step, chain: Chain) -> None:
    weights = product_weights(step).astype(np.float64)
    if chain.flat or len(weights) != chain.width:
        raise step.refuse(f"a matrix with {chain.width} rows is expected, got {weights.shape}")
    factor = float(step.attributes.get("alpha", 1.0))
    chain.flat = weights.ndim == 1  # a vector leaves one number per row
    weights = factor * weights.reshape(chain.width, -1)
    chain.append(weights, np.zeros(weights.shape[1]))
    if step.constant(2) is not None:
        chain.shift(float(step.attributes.get("beta", 1.0)) * step.numbers(step.constant(2), chain))


def _read_arithmetic(step: Step, chain: Chain) -> None:
    numbers = step.numbers(step.constant(1 - step.place), chain)
    match step.name, step.place:
        case "Add", _:
            chain.shift(numbers)
        case "Sub", 0:
            chain.shift(-numbers)
        case "Sub", _:
            chain.append(-np.eye(chain.width), numbers)
        case "Mul", _:
            chain.scale(numbers)
        case "Div", 0 if (np.abs(numbers) > SMALLEST[SINGLE]).all():
            chain.scale(1.0 / numbers)
        case _:
            raise step.refuse("it divides by what is not constant, or by zero")


def _read_activation(step: Step, chain: Chain) -> None:
    match step.name:
        case "LeakyRelu":
            chain.activate(Activation("leaky", float(step.attributes.get("alpha", np.float32(0.01)))))
        case "Relu":
            chain.activate(Activation("relu"))
        case "Tanh":
            chain.activate(Activation("tanh"))
        case "Sigmoid":
            chain.activate(Activation("logistic"))


def _read_end(step: Step, chain: Chain) -> None:
    if chain.flat or step.attributes.get("axis", -1) not in (1, -1):
        raise step.refuse("it must be taken over the units of a row")
    if step.name == "Concat":
        if chain.width != 1 or not chain.layers or chain.layers[-1].activation.kind != "logistic":
            raise step.refuse("only 1 - p and p, of a Sigmoid, may be put together")
    elif chain.width == 1:
        raise step.refuse("it needs several units")
    chain.end = step.name


def _read_normalization(step: Step, chain: Chain) -> None:
    """y = scale (x - mean) / sqrt(variance + epsilon) + bias."""
    parts = [step.constant(place) for place in (1, 2, 3, 4)]
    if chain.flat or step.attributes.get("training_mode") or any(np.shape(part) != (chain.width,) for part in parts):
        raise step.refuse(f"it must have constants for each of {chain.width} units, and not be in training")
    scale, bias, mean, variance = (step.numbers(part, chain) for part in parts)
    spread = variance + float(step.attributes.get("epsilon", np.float32(1e-5)))
    if not (spread > SMALLEST[SINGLE]).all():
        raise step.refuse("its variance plus epsilon must be positive")
    chain.shift(-mean)
    chain.append(np.diag(scale / np.sqrt(spread)), bias)


def _read_scaler(step: Step, chain: Chain) -> None:
    """y = (x - offset) scale, in single precision."""
    chain.unit = SINGLE
    offset, scale = (np.asarray(step.attributes.get(name, ()), np.float64) for name in ("offset", "scale"))
    chain.shift(-step.numbers(offset, chain))
    chain.scale(step.numbers(scale, chain))


def _read_cast(step: Step, chain: Chain) -> None:
    if step.attributes.get("to") not in (TO_SINGLE, TO_DOUBLE):
        raise step.refuse("numbers must stay in single or double precision")
    if step.attributes["to"] == TO_SINGLE:
        chain.unit = SINGLE


def _read_shape(step: Step, chain: Chain) -> None:
    """Steps that move numbers must keep the rows apart, and the order of a row's units."""
    match step.name:
        case "Flatten":
            if step.attributes.get("axis", 1) != 1:
                raise step.refuse("rows must be kept apart")
            chain.flat = False
        case "Squeeze":
            axes = step.attributes.get("axes") if len(step.constants) < 2 else step.constant(1)
            if chain.flat or chain.width != 1 or not (axes is None or list(axes) in ([1], [-1])):
                raise step.refuse("only a single unit may lose its dimension")
            chain.flat = True
        case _:
            shape = step.constant(1)
            given = [] if shape is None or step.attributes.get("allowzero") else shape.tolist()
            rows = given[:1] and (given[0] in (0, -1) or given[0] == chain.rows) and given.count(-1) < 2
            if not rows or not (given[1:] in ([chain.width], [-1]) or (given[1:] == [] and chain.width == 1)):
                raise step.refuse(f"rows of {chain.width} units must be kept apart, got a shape of {given}")
            chain.flat = len(given) == 1


def _read_nothing(step: Step, _: Chain) -> None:
    """Dropout does nothing unless it is told to train."""
    training = step.constant(2)
    if step.place != 0 or (training is not None and np.any(training)):
        raise step.refuse("it must not be in training")


def _read_negation(_: Step, chain: Chain) -> None:
    chain.scale(-np.ones(chain.width))


Reader = Callable[[Step, Chain], None]

STEPS: dict[str, tuple[Reader, frozenset[str]]] = {  # the reader of every step, and the attributes that it looks at
    "Gemm": (_read_product, frozenset(("alpha", "beta", "transA", "transB"))),
    "MatMul": (_read_product, frozenset()),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (_read_arithmetic, frozenset())),
    "Neg": (_read_negation, frozenset()),
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid"), (_read_activation, frozenset())),
    "LeakyRelu": (_read_activation, frozenset(("alpha",))),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Concat"), (_read_end, frozenset(("axis",)))),
    "BatchNormalization": (_read_normalization, frozenset(("epsilon", "momentum", "training_mode"))),
    "Scaler": (_read_scaler, frozenset(("offset", "scale"))),
    "Cast": (_read_cast, frozenset(("to", "saturate"))),
    "Identity": (_read_nothing, frozenset()),
    "Dropout": (_read_nothing, frozenset(("ratio", "seed"))),
    "Flatten": (_read_shape, frozenset(("axis",))),
    "Squeeze": (_read_shape, frozenset(("axes",))),
    "Reshape": (_read_shape, frozenset(("allowzero",))),
}


def read_step(step: Step, chain: Chain) -> None:
    """Add what a step does to a chain; raises Unreadable for what has no reading."""
    if chain.end and step.name not in BEHIND_AN_END:
        raise step.refuse(f"it comes behind a {chain.end}")
    STEPS[step.name][0](step, chain)

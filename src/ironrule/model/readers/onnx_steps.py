"""What the nodes of an ONNX graph do to a row: the steps of a network.

A chain says what was done to the rows of the input so far. Every node takes a chain and constants and gives a longer
chain, or is refused because it would mix rows, bring two chains together, or do what no layer does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.network import DOUBLE, SINGLE, Activation, Floats
from ironrule.model.readers.network_outputs import Ending
from ironrule.model.readers.network_steps import Affine, Step, dense, leaky, normalisation, unitwise
from ironrule.model.reading import Unreadable

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """What was done to the rows of the input so far; ``flat``: they have become single numbers."""

    steps: tuple[Step, ...]
    width: int | None
    kind: np.dtype[Any]
    unit: float
    flat: bool = False
    ending: Ending | None = None

    def then(self, step: Step) -> Chain:
        """One step more."""
        if self.ending is not None:
            raise Unreadable("its Softmax must come last")
        width = len(step.bias) if isinstance(step, Affine) else self.width
        return replace(self, steps=(*self.steps, step), width=width)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the graph with the values that go into it."""

    op: str
    inputs: tuple[Chain | Array | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def chain(self) -> Chain:
        """The value that depends on the input; raises Unreadable unless it is the first one."""
        first = self.inputs[0]
        if not isinstance(first, Chain):
            raise Unreadable(f"its {self.op} must have constants on the right")
        return first

    def constant(self, place: int) -> Array | None:
        """The constant at a place, None where none is given; raises Unreadable if it depends on the input."""
        value = self.inputs[place] if place < len(self.inputs) else None
        if isinstance(value, Chain):
            raise Unreadable(f"its {self.op} brings together two values that depend on the input")
        return value

    def given(self, place: int) -> Array:
        """The constant at a place."""
        value = self.constant(place)
        if value is None:
            raise Unreadable(f"its {self.op} lacks its input number {place + 1}")
        return value


def unit_of(kind: np.dtype[Any]) -> float:
    """The unit roundoff of a type."""
    return SINGLE if kind == np.dtype(np.float32) else DOUBLE


def _numbers(constant: Array) -> Floats:
    return np.asarray(constant, dtype=np.float64)


def _per_unit(node: Node, chain: Chain, constant: Array) -> Floats:
    """A constant as one number per unit of a row."""
    most = 1 if chain.flat else 2
    row = constant if constant.ndim < 2 else constant[0]
    rows_alike = constant.ndim < 2 or (constant.ndim == 2 and len(constant) == 1)
    if chain.width is None or not rows_alike or constant.ndim > most or row.size not in (1, chain.width):
        raise Unreadable(f"its {node.op} meets {chain.width} units with a constant of shape {constant.shape}")
    return np.broadcast_to(_numbers(row).ravel(), chain.width)


def _mat_mul(node: Node) -> Chain:
    return node.chain.then(dense(_matrix(node, node.given(1))))


def _matrix(node: Node, constant: Array) -> Floats:
    chain = node.chain
    if constant.ndim != 2 or chain.flat or chain.width not in (None, len(constant)):
        raise Unreadable(f"its {node.op} meets {chain.width} units with weights of shape {constant.shape}")
    return _numbers(constant)


def _gemm(node: Node) -> Chain:
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    if node.attributes.get("transA", 0):
        raise Unreadable("its Gemm turns its input")
    given = node.given(1)
    chain = node.chain.then(dense(_matrix(node, given.T if node.attributes.get("transB", 0) else given)))
    bias = node.constant(2)
    if alpha != 1.0:
        chain = chain.then(unitwise(np.full(chain.width or 0, alpha), np.zeros(1), 1))
    if bias is None:
        return chain
    return chain.then(unitwise(np.ones(1), beta * _per_unit(node, chain, bias), 3 if beta != 1.0 else 1))


def _add(node: Node) -> Chain:
    chain, constant = _both(node)
    return chain.then(unitwise(np.ones(1), _per_unit(node, chain, constant), 1))


def _sub(node: Node) -> Chain:
    chain, constant = _both(node)
    shift = _per_unit(node, chain, constant)
    if isinstance(node.inputs[0], Chain):
        return chain.then(unitwise(np.ones(1), -shift, 1))
    return chain.then(unitwise(-np.ones(1), shift, 1))


def _mul(node: Node) -> Chain:
    chain, constant = _both(node)
    return chain.then(unitwise(_per_unit(node, chain, constant), np.zeros(1), 1))


def _div(node: Node) -> Chain:
    chain, constant = node.chain, node.given(1)
    with np.errstate(divide="ignore"):
        factor = 1.0 / _per_unit(node, chain, constant)
    return chain.then(unitwise(factor, np.zeros(1), 3))


def _neg(node: Node) -> Chain:
    return node.chain.then(unitwise(np.full(node.chain.width or 0, -1.0), np.zeros(1), 0))


def _both(node: Node) -> tuple[Chain, Array]:
    """The value that depends on the input and the constant, in whichever order they come."""
    first, second = node.inputs
    if isinstance(first, Chain):
        return first, node.given(1)
    assert isinstance(second, Chain)
    return second, node.given(0)


def _batch_normalisation(node: Node) -> Chain:
    if node.attributes.get("training_mode", 0) or node.chain.flat:
        raise Unreadable("its BatchNormalization is in training mode, or comes after the rows were taken apart")
    factor, shift, mean, variance = (_numbers(node.given(place)) for place in (1, 2, 3, 4))
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return node.chain.then(normalisation(mean, variance, factor, shift, epsilon))


def _scaler(node: Node) -> Chain:
    """``(inputs - offset) * scale``, as ONNX has it for scikit-learn; its numbers come out in single precision."""
    offset, scale = (np.asarray(node.attributes.get(name, default)) for name, default in (("offset", 0), ("scale", 1)))
    chain = node.chain
    if chain.kind != np.dtype(np.float32):
        raise Unreadable("its Scaler gets numbers that are not float32")
    moved = chain.then(unitwise(np.ones(1), -_per_unit(node, chain, offset), 1))
    return moved.then(unitwise(_per_unit(node, chain, scale), np.zeros(1), 1))


def _activation(activation: Activation) -> Callable[[Node], Chain]:
    return lambda node: node.chain.then(activation)


def _leaky(node: Node) -> Chain:
    return node.chain.then(leaky(float(node.attributes.get("alpha", 0.01))))


def _softmax(ending: Ending) -> Callable[[Node], Chain]:
    def step(node: Node) -> Chain:
        if node.chain.flat or node.chain.ending is not None or node.attributes.get("axis", -1) not in (1, -1):
            raise Unreadable(f"its {node.op} must be over the outputs of a row")
        return replace(node.chain, ending=ending)

    return step


def _passing(node: Node) -> Chain:
    return node.chain


def _dropout(node: Node) -> Chain:
    training = node.constant(2)
    if training is not None and bool(training):
        raise Unreadable("its Dropout is in training mode")
    return node.chain


def _cast(node: Node) -> Chain:
    from onnx.helper import tensor_dtype_to_np_dtype

    chain, kind = node.chain, np.dtype(tensor_dtype_to_np_dtype(node.attributes["to"]))
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise Unreadable(f"its Cast makes {kind} of the numbers")
    cast = replace(chain, kind=kind, unit=max(chain.unit, unit_of(kind)))
    if kind == chain.kind or kind == np.dtype(np.float64):
        return cast
    if chain.width is None or chain.ending is not None:
        raise Unreadable("its Cast makes numbers less precise where that cannot be followed")
    return cast.then(unitwise(np.ones(chain.width), np.zeros(1), 1))


def _flatten(node: Node) -> Chain:
    if node.chain.flat or node.attributes.get("axis", 1) not in (1, -1):
        raise Unreadable("its Flatten mixes rows")
    return node.chain


def _reshape(node: Node) -> Chain:
    chain, shape = node.chain, [int(size) for size in node.given(1)]
    if chain.width == 1 and shape == [-1]:
        return replace(chain, flat=True)
    if chain.width == 1 and shape == [-1, 1]:
        return replace(chain, flat=False)
    same = len(shape) == 2 and shape[0] in (-1, 0) and shape[1] in (-1, 0, chain.width) and shape != [-1, -1]
    if not same or chain.flat or node.attributes.get("allowzero", 0) or (shape[0] == -1 and chain.width is None):
        raise Unreadable(f"its Reshape to {shape} may mix rows")
    return chain


def _squeeze(node: Node) -> Chain:
    chain, axes = node.chain, node.constant(1)
    named = node.attributes.get("axes") if axes is None else [int(axis) for axis in axes]
    if chain.width != 1 or chain.flat or named not in (None, [1], [-1]):
        raise Unreadable("its Squeeze takes more away than the one column of its output")
    return replace(chain, flat=True)


def _concat(node: Node) -> Chain:
    """Columns put side by side that are made by factors and shifts of the same values."""
    chains = [value for value in node.inputs if isinstance(value, Chain)]
    shared = min(len(chain.steps) for chain in chains)
    base = replace(chains[0], steps=chains[0].steps[:shared], width=_width(chains[0].steps[:shared]))
    if len(chains) < len(node.inputs) or node.attributes["axis"] not in (1, -1) or base.width is None:
        raise Unreadable("its Concat brings together what does not come from the same values")
    parts = [_from(base, chain) for chain in chains]
    matrix = np.hstack([part.matrix for part in parts])
    bias, sizes = (np.concatenate([getattr(part, name) for part in parts]) for name in ("bias", "sizes"))
    return base.then(Affine(matrix, bias, sizes, max(part.roundings for part in parts) + 1))


def _from(base: Chain, chain: Chain) -> Affine:
    """What makes a chain of its first steps: factors and shifts."""
    if any(one is not other for one, other in zip(base.steps, chain.steps, strict=False)) or chain.flat:
        raise Unreadable("its Concat brings together what does not come from the same values")
    whole = unitwise(np.ones(base.width or 0), np.zeros(1), 0)
    for step in chain.steps[len(base.steps) :]:
        if not isinstance(step, Affine) or not step.is_unitwise:
            raise Unreadable("its Concat brings together more than factors and shifts of the same values")
        whole = whole.then(step)
    return whole


def _width(steps: tuple[Step, ...]) -> int | None:
    return next((len(step.bias) for step in reversed(steps) if isinstance(step, Affine)), None)


STEPS: dict[str, Callable[[Node], Chain]] = {
    "MatMul": _mat_mul,
    "Gemm": _gemm,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": _neg,
    "BatchNormalization": _batch_normalisation,
    "Scaler": _scaler,
    "Relu": _activation(Activation("relu")),
    "LeakyRelu": _leaky,
    "Tanh": _activation(Activation("tanh")),
    "Sigmoid": _activation(Activation("logistic")),
    "Softmax": _softmax(Ending.SOFTMAX),
    "LogSoftmax": _softmax(Ending.LOG_SOFTMAX),
    "Identity": _passing,
    "Dropout": _dropout,
    "Cast": _cast,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Concat": _concat,
}
